"""Make the demo's data from the full files of the museum's collection. A script for developers, not part of a wheel.

    python plugins/demo/tools/make_data.py --moma FOLDER [--out plugins/demo-data/headrace_demo_data/museum]

FOLDER contains gzipped JSON lines:

    artworks_T1_20150717.jsonl.gz, artworks_T2_20150723.jsonl.gz, artworks_T3_20150815.jsonl.gz  the collection by date
    changes_T1_T2.jsonl.gz, changes_T2_T3.jsonl.gz                                               {op, before, after}
    artists_T3_20150815.jsonl.gz                                                                 the artists

The script writes the bronze files of each date and manifest.json. It fails unless the events, applied in order, produce
the museum's rows of each date. It uses neither a clock nor random numbers: the same input and the same versions of
fastavro and liblzma give the same bytes. SOURCE.md next to the data lists the parts that do not come from the museum.
"""

import argparse
import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from moma_bronze.debezium import Connector, Event, envelope_schema
from moma_bronze.history import DATES, ArtworkChange, History, Row, midnight_ms
from moma_bronze.s3_sink import write_topic
from moma_bronze.table import TEXT_ARRAY, Column, Table

EVERY = 6
DELETES = 25
NOON_MS = 12 * 3_600_000
FILE_RECORDS = 2_500
CODEC = "xz"  # Spark and fastavro read xz without additional packages; with deflate the files exceed 3 MB
ONE_BLOCK = 1 << 30  # bytes: each block is compressed separately, so one block per file gives the smallest files

ARTWORKS = Table(
    "artworks",
    (
        Column("artwork_id", "ObjectID", "int"),
        Column("moma_number", "MoMANumber"),
        Column("title", "Title"),
        Column("artist", "Artist"),
        Column("artist_id", "ArtistID", "int"),
        Column("artist_bio", "ArtistBio"),
        Column("date", "Date"),
        Column("medium", "Medium"),
        Column("dimensions", "Dimensions"),
        Column("credit_line", "CreditLine"),
        Column("date_acquired", "DateAcquired"),
        Column("department", "Department"),
        Column("classification", "Classification"),
        Column("curator_approved", "CuratorApproved"),
        Column("url", "URL"),
        Column("keywords", "Keywords", TEXT_ARRAY),
        Column("image_url", "ImageURL", since=DATES[2]),
    ),
)
ARTISTS = Table("artists", (Column("artist_id", "ArtistID", "int"), Column("name", "Name"), Column("bio", "Bio")))


class Bronze:
    """Writer of the bronze files of each date, and of their entries in the manifest."""

    def __init__(self, out: Path, codec: str) -> None:
        self._out = out
        self._codec = codec
        self._offsets: Counter[str] = Counter()
        self._tables: dict[str, dict[int, Row]] = {}
        self.dates: dict[str, dict[str, Any]] = {}

    def add(self, date: str, table: Table, events: list[Event], truth: list[Row]) -> None:
        """Write a table's events of a date. SystemExit unless the resulting rows equal ``truth``."""
        rows = self._tables.setdefault(table.topic, {})
        table.replay(rows, events)
        if table.digest(rows.values()) != table.digest(truth):
            raise SystemExit(f"{table.topic}: the events do not produce the museum's rows of {date}")
        offset = self._offsets[table.topic]
        files = [
            {
                "path": str(file.path.relative_to(self._out)),
                "events": file.records,
                "bytes": len(file.content),
                "sha256": file.sha256,
            }
            for file in write_topic(
                self._out / date,
                table.topic,
                envelope_schema(table),
                events,
                offset=offset,
                flush=FILE_RECORDS,
                codec=self._codec,
                sync_interval=ONE_BLOCK,
            )
        ]
        self._offsets[table.topic] += len(events)
        self.dates.setdefault(date, {})[table.topic] = {
            "events": len(events),
            "ops": dict(sorted(Counter(event["op"] for event in events).items())),
            "first_offset": offset,
            "columns": [column.name for column in table.columns],
            "rows_after": len(rows),
            "rows_sha256": table.digest(rows.values()),
            "bytes": sum(file["bytes"] for file in files),
            "files": files,
        }


def make(moma: Path, out: Path, codec: str = CODEC) -> dict[str, Any]:
    """Write all files to a folder, and return the manifest."""
    for date in DATES:
        shutil.rmtree(out / date, ignore_errors=True)
    history, connector, bronze = History(moma, EVERY), Connector(), Bronze(out, codec)

    first, second, third = DATES
    rows = list(history.artworks(first))
    table = ARTWORKS.at(first)
    bronze.add(first, table, list(connector.snapshot(table, rows, midnight_ms(first))), images(table, rows))

    table = ARTWORKS.at(second)
    events = list(connector.stream(table, list(history.changes(second)), midnight_ms(second)))
    bronze.add(second, table, events, images(table, list(history.artworks(second))))

    rows = list(history.artworks(third))
    gone = rows[:: len(rows) // DELETES][:DELETES]
    table = ARTWORKS.at(third)
    events = list(connector.stream(table, list(history.changes(third)), midnight_ms(third)))
    events += connector.stream(table, [ArtworkChange("d", row, None) for row in gone], midnight_ms(third) + NOON_MS)
    bronze.add(third, table, events, images(table, [row for row in rows if row not in gone]))

    rows = list(history.artists())
    events = list(connector.snapshot(ARTISTS, rows, midnight_ms(third) + NOON_MS))
    bronze.add(third, ARTISTS, events, images(ARTISTS, rows))

    manifest = {
        "keys": f"artworks with crc32(artwork_id as decimal text) % {EVERY} == 0",
        "replica_identity": "full",
        "codec": codec,
        "bytes": sum(topic["bytes"] for topics in bronze.dates.values() for topic in topics.values()),
        "deleted": {ARTWORKS.topic: [image["artwork_id"] for image in images(ARTWORKS, gone)]},
        "dates": bronze.dates,
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def images(table: Table, rows: list[Row]) -> list[Row]:
    """Convert rows of the museum into rows of the table."""
    return [image for row in rows if (image := table.image(row)) is not None]


def main() -> None:
    """Parse the command line."""
    cli = argparse.ArgumentParser(description="Make the demo's data from the museum's full files.")
    cli.add_argument("--moma", type=Path, required=True, metavar="FOLDER", help="the museum's files")
    cli.add_argument("--out", type=Path, default=Path(__file__).parents[2] / "demo-data/headrace_demo_data/museum")
    arguments = cli.parse_args()
    manifest = make(arguments.moma, arguments.out)
    sys.stdout.write(f"{arguments.out}: {manifest['bytes']:,} bytes\n")


if __name__ == "__main__":
    main()
