"""Build the benchmark's bronze files: the museum's full history as Debezium PostgreSQL events.

    python benchmarks/make_bronze.py --moma FOLDER --out OUT [--every N]

FOLDER is the one that plugins/demo/tools/make_data.py reads. OUT is emptied and gets, for step1 (snapshot of 2015-07-17),
step2 (changes to 2015-07-23) and step3 (changes to 2015-08-15, with the new column ImageURL):

    OUT/<variant>/<step>/topics/moma.public.artworks/partition=0/moma.public.artworks+0+<start offset>.avro
    OUT/schemas/<variant>_<step>.avsc     the Avro schema of those files
    OUT/truth/<step>.jsonl.gz             the table after the step, from the museum's own files
    OUT/manifest.json

Variants: `envelope`, with full images before and after, and `flat`, as ExtractNewRecordState leaves them with
delete.tombstone.handling.mode=rewrite and add.fields=op,lsn,source.ts_ms. Columns keep the museum's names, ObjectID is
text, 10,000 records are a file, nothing is compressed. N keeps one artwork in N. The same input gives the same bytes.
"""

import argparse
import gzip
import hashlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "plugins" / "demo" / "tools"))

from moma_bronze.debezium import Connector, Event, Schema, envelope_schema, optional, row_fields
from moma_bronze.history import DATES, History, Row, midnight_ms
from moma_bronze.s3_sink import write_topic
from moma_bronze.table import TEXT, TEXT_ARRAY, Column, Table

FILE_RECORDS = 10_000

_FIELDS = (
    "ObjectID MoMANumber Title Artist ArtistID ArtistBio Date Medium Dimensions CreditLine DateAcquired Department"
    " Classification CuratorApproved URL Keywords"
)
_TYPES = {"ArtistID": "long", "Keywords": TEXT_ARRAY}
ARTWORKS = Table(
    "artworks",
    (
        *(Column(name, name, _TYPES.get(name, TEXT)) for name in _FIELDS.split()),
        Column("ImageURL", "ImageURL", since=DATES[2]),
    ),
)


def flat_schema(table: Table) -> Schema:
    """Return the Avro schema of a table's unwrapped events."""
    added = [
        optional("__deleted", "string"),
        optional("__op", "string"),
        optional("__lsn", "long"),
        optional("__source_ts_ms", "long"),
    ]
    return {
        "type": "record",
        "name": "Value",
        "namespace": table.topic,
        "fields": [*row_fields(table), *added],
        "connect.name": f"{table.topic}.Value",
    }


def flat(event: Event) -> Event:
    """Unwrap an event."""
    return {
        **(event["after"] or event["before"]),
        "__deleted": "true" if event["op"] == "d" else "false",
        "__op": event["op"],
        "__lsn": event["source"]["lsn"],
        "__source_ts_ms": event["source"]["ts_ms"],
    }


def make(moma: Path, out: Path, every: int = 1) -> dict[str, Any]:
    """Write all files to a folder; return its manifest."""
    shutil.rmtree(out, ignore_errors=True)
    (out / "schemas").mkdir(parents=True)
    (out / "truth").mkdir()
    history, connector, digest = History(moma, every), Connector(), hashlib.sha256()
    steps: dict[str, Any] = {}
    rows: dict[str, Row] = {}
    offset = 0
    for number, date in enumerate(DATES, 1):
        step, table = f"step{number}", ARTWORKS.at(date)
        if number == 1:
            events = list(connector.snapshot(table, list(history.artworks(date)), midnight_ms(date)))
        else:
            events = list(connector.stream(table, list(history.changes(date)), midnight_ms(date)))
        table.replay(rows, events)
        truth = [row for row in map(table.image, history.artworks(date)) if row is not None]
        if table.digest(rows.values()) != table.digest(truth):
            raise SystemExit(f"the events do not lead to the museum's rows of {date}")
        write_lines(out / "truth" / f"{step}.jsonl.gz", truth)

        sizes: Counter[str] = Counter()
        variants = {"envelope": (envelope_schema(table), events), "flat": (flat_schema(table), map(flat, events))}
        for variant, (schema, records) in variants.items():
            (out / "schemas" / f"{variant}_{step}.avsc").write_text(json.dumps(schema, indent=1) + "\n")
            root = out / variant / step
            for file in write_topic(
                root, table.topic, schema, records, offset=offset, flush=FILE_RECORDS, codec="null"
            ):
                digest.update(file.content)
                sizes[variant] += len(file.content)
        steps[step] = {
            "date": date,
            "events": len(events),
            "ops": dict(sorted(Counter(event["op"] for event in events).items())),
            "first_offset": offset,
            "files": -(-len(events) // FILE_RECORDS),
            "rows_after": len(rows),
            "image_url_after": sum(row.get("ImageURL") is not None for row in rows.values()),
            "rows_sha256": table.digest(truth),
            "bytes": dict(sizes),
        }
        offset += len(events)
    manifest = {"every": every, "sha256": digest.hexdigest(), "steps": steps}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as gzipped JSON lines without a time stamp or a name in the file."""
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def main() -> None:
    """Parse the command line."""
    cli = argparse.ArgumentParser(description="Make the benchmark's bronze files.")
    cli.add_argument("--moma", type=Path, required=True, metavar="FOLDER", help="the museum's files")
    cli.add_argument("--out", type=Path, required=True)
    cli.add_argument("--every", type=int, default=1, metavar="N", help="keep one artwork in N")
    arguments = cli.parse_args()
    sys.stdout.write(json.dumps(make(arguments.moma, arguments.out, arguments.every), indent=1) + "\n")


if __name__ == "__main__":
    main()
