"""Rebuild of the shipped data from the museum's rows in its events."""

import gzip
import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastavro
import pytest

DEMO = Path(__file__).parents[3] / "plugins" / "demo" / "tools"
DATA = DEMO.parents[1] / "demo-data/headrace_demo_data/museum"
DATES = ("2015-07-17", "2015-07-23", "2015-08-15")


def events(data: Path, date: str, table: str) -> list[dict[str, Any]]:
    found = []
    for path in sorted(data.glob(f"{date}/topics/moma.public.{table}/partition=0/*.avro")):
        with path.open("rb") as opened:
            found += [event for event in fastavro.reader(opened) if isinstance(event, dict)]
    return found


def schemas(data: Path) -> list[Any]:
    found = []
    for path in sorted(data.rglob("*.avro")):
        with path.open("rb") as opened:
            found.append((path.relative_to(data), fastavro.reader(opened).writer_schema))
    return found


def write(path: Path, lines: Iterable[Any]) -> None:
    with gzip.open(path, "wt", compresslevel=1, encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.fixture(scope="module")
def fresh_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    moma, out = tmp_path_factory.mktemp("moma"), tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DEMO))
        script = importlib.import_module("make_data")
    fields = {column.name: column.field for column in (*script.ARTWORKS.columns, *script.ARTISTS.columns)}

    def museum(image: dict[str, Any]) -> dict[str, Any]:
        row = {fields[name]: value for name, value in image.items()}
        return row | {"ObjectID": str(row["ObjectID"])} if "ObjectID" in row else row

    rows: dict[int, dict[str, Any]] = {}
    collections = ("artworks_T1_20150717", "artworks_T2_20150723", "artworks_T3_20150815")
    for date, collection, changes in zip(DATES, collections, ("", "changes_T1_T2", "changes_T2_T3"), strict=True):
        found = [event for event in events(DATA, date, "artworks") if event["op"] != "d"]
        rows |= {event["after"]["artwork_id"]: museum(event["after"]) for event in found}
        write(moma / f"{collection}.jsonl.gz", (rows[key] for key in sorted(rows)))
        if changes:
            images = (
                {"op": e["op"], "before": e["before"] and museum(e["before"]), "after": museum(e["after"])}
                for e in found
            )
            write(moma / f"{changes}.jsonl.gz", images)
    artists = (museum(event["after"]) for event in events(DATA, DATES[2], "artists"))
    write(moma / "artists_T3_20150815.jsonl.gz", artists)
    script.make(moma, out, codec="null")
    return out


@pytest.mark.nightly
@pytest.mark.parametrize(("date", "table"), [*((date, "artworks") for date in DATES), (DATES[2], "artists")])
def test_events_equal_the_shipped_ones(fresh_data: Path, date: str, table: str) -> None:
    assert events(fresh_data, date, table) == events(DATA, date, table)


def test_files_and_schemas_equal_the_shipped_ones(fresh_data: Path) -> None:
    assert schemas(fresh_data) == schemas(DATA)


def test_rows_equal_the_shipped_ones(fresh_data: Path) -> None:
    def read_manifest(data: Path) -> list[Any]:
        manifest = json.loads((data / "manifest.json").read_text(encoding="utf-8"))
        topics = [topic for topics in manifest["dates"].values() for topic in topics.values()]
        return [manifest["deleted"], [(topic["rows_after"], topic["rows_sha256"]) for topic in topics]]

    assert read_manifest(fresh_data) == read_manifest(DATA)
