"""Command ``headrace demo``: a pipeline on real data, with the results on the screen."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace_demo.data import find_data
from headrace_demo.extras import check_extras
from headrace_demo.folder import (
    PIPELINE_FILE,
    DemoFolder,
    folder_option,
    new_table,
    print_pipeline_file,
    shorten,
    start_spark,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from rich.console import Console
    from rich.table import Table

    from headrace.pipeline import Pipeline
    from headrace.progress.model import BatchProgress

_TABLE, _KEY, _TITLE = "moma.artworks", "artwork_id", "title"
#: The column that the third date adds; the masked column, and its name in the events.
_NEW_COLUMN, _MASKED_COLUMN, _EVENT_COLUMN = "image_url", "donor", "credit_line"
_SALT = "pepper"
_PIPELINE = Path(__file__).with_name(PIPELINE_FILE)
#: Cell without a value.
_EMPTY_CELL = "\N{EN DASH}"


@click.command()
@folder_option("headrace-demo")
def demo(folder: Path) -> None:
    """Load real change events into Hudi and Iceberg tables.

    MoMA's collection at 2015-07-17, 07-23 and 08-15, as Debezium change events of a PostgreSQL database in Avro files,
    into a Hudi and an Iceberg table at the same time.
    """
    from rich.console import Console

    console = Console(highlight=False)
    home = DemoFolder(folder, ".headrace-demo")
    home.check()
    check_extras("headrace demo", "demo", "spark")
    data = _DemoData.find()
    home.enter()
    _prepare(console)
    os.environ.setdefault("SALT", _SALT)
    from headrace.pipeline import Pipeline

    pipeline = Pipeline.from_file(PIPELINE_FILE)
    spark = start_spark(pipeline, console)
    try:
        steps = [_apply_date(pipeline, spark, console, data, date) for date in sorted(data.topics)]
        _report(pipeline, spark, console, data, steps)
    finally:
        spark.stop()
    show = f"show {PIPELINE_FILE} {_TABLE}"
    home.print_end(console, [f"{show} --limit 5", f"{show} --as-of {steps[0].version}"], salt=_SALT)


@dataclass(frozen=True)
class _DemoData:
    """The demo's events. ``path`` has a folder per date; ``manifest`` describes them by date and topic."""

    path: Path
    manifest: dict[str, Any]

    @classmethod
    def find(cls) -> _DemoData:
        path = find_data("museum")
        return cls(path, json.loads((path / "manifest.json").read_text(encoding="utf-8")))

    @property
    def topics(self) -> dict[str, Any]:
        """Date → topic → counts."""
        topics: dict[str, Any] = self.manifest["dates"]
        return topics


@dataclass(frozen=True)
class _Step:
    """Result of applying the events of one date. ``version`` is the version of the Iceberg table after it."""

    date: str
    seconds: float
    progress: BatchProgress
    version: str


def _prepare(console: Console) -> None:
    """Create the pipeline file and the folder of the events in the working directory, and print the file."""
    Path("bronze").mkdir()
    shutil.copy(_PIPELINE, PIPELINE_FILE)
    console.rule("[bold]headrace demo")
    console.print(
        "The collection of the Museum of Modern Art at three real dates (CC0), about 20,000 of its works, as Debezium would "
        "report them from PostgreSQL: change events in Avro files. One pipeline file keeps two tables equal to the database:\n"
    )
    print_pipeline_file(console)


def _apply_date(pipeline: Pipeline, spark: SparkSession, console: Console, data: _DemoData, date: str) -> _Step:
    """Copy the files of one date into the source folder and run the pipeline."""
    topics = data.topics[date]
    shutil.copytree(data.path / date, "bronze", dirs_exist_ok=True)
    events = "; ".join(f"{_counts(topic['ops'])} of {name.rpartition('.')[2]}" for name, topic in topics.items())
    batches: list[BatchProgress] = []
    started = time.monotonic()
    with console.status(f"{date}: {events}"):
        pipeline.run(spark, on_progress=batches.append)
    seconds = time.monotonic() - started
    console.print(f"[bold]{date}[/]  {events}  [dim]applied in {seconds:.1f} s[/]")
    counts = ("events in", "rows applied", "superseded", "late", "dead letters")
    table = new_table("table", "sink", *counts, right=counts)
    for t in batches[-1].tables:
        table.add_row(t.table, t.sink, *map(_number, (t.rows_in, t.applied, t.superseded or 0, t.late, t.dead_letters)))
    console.print(table)
    console.print()
    version = next(t.version for t in batches[-1].tables if t.table == _TABLE and t.sink == "iceberg")
    assert version is not None
    return _Step(date, seconds, batches[-1], version)


def _report(pipeline: Pipeline, spark: SparkSession, console: Console, data: _DemoData, steps: list[_Step]) -> None:
    """Print the contents of the tables now and at the first date."""
    console.rule("[bold]the tables now")
    _report_counts(pipeline, spark, console, data, steps[-1].date)
    then, now = pipeline.read(_TABLE, as_of=steps[0].version, spark=spark), pipeline.read(_TABLE, spark=spark)
    before, after = _find_changed_row(then, now)
    console.print(
        f"\n[bold]One work, at {steps[0].date} and at {steps[-1].date}[/]  [dim]({_KEY} {after[_KEY]}; the third date adds a column)[/]"
    )
    console.print(_side_by_side(before, after, steps))
    _report_deletes(console, data, then, now, steps[0].date)
    console.print(
        f"[bold]As of {steps[0].date}[/]  the table had {then.count():,} rows; column {_NEW_COLUMN!r} {'existed' if _NEW_COLUMN in then.columns else 'did not exist yet'}."
    )
    _report_mask(spark, console, data, after, steps[0].date)


def _report_counts(pipeline: Pipeline, spark: SparkSession, console: Console, data: _DemoData, date: str) -> None:
    """Print the row counts of each table and of the database at ``date``."""
    counts = ("Iceberg rows", "Hudi rows", "database rows")
    table = new_table("table", *counts, right=counts)
    for topic, events in data.topics[date].items():
        name = topic.replace("moma.public", "moma")
        rows = [pipeline.read(name, sink=sink, spark=spark).count() for sink in ("iceberg", "hudi")]
        table.add_row(name, *map(_number, (*rows, events["rows_after"])))
    console.print(table)


def _report_deletes(console: Console, data: _DemoData, then: DataFrame, now: DataFrame, date: str) -> None:
    deleted = [int(key) for key in data.manifest["deleted"]["moma.public.artworks"]]
    left, before = (frame.where(frame[_KEY].isin(deleted)).count() for frame in (now, then))
    console.print(
        f"\n[bold]Deletes[/]  The museum's history has none, so the demo adds {len(deleted)}: {left} of these works are in the table now;"
        f" {before} of them were in it at {date}."
    )


def _report_mask(spark: SparkSession, console: Console, data: _DemoData, row: Row, date: str) -> None:
    """Print a masked value as in the events of ``date`` and as in the table's ``row``."""
    events = spark.read.format("avro").option("recursiveFileLookup", "true").load(str(data.path / date))
    image = events["after"]
    event = events.where(image[_KEY] == row[_KEY]).select(image[_EVENT_COLUMN].alias("text")).first()
    console.print(f"[bold]Masked[/]  {_EVENT_COLUMN}, renamed to {_MASKED_COLUMN}; null stays null:")
    console.print(f"  in the event  {event['text'] if event else None}", markup=False)
    console.print(f"  in the table  {row[_MASKED_COLUMN]}", markup=False)


def _find_changed_row(then: Any, now: Any) -> tuple[Row, Row]:
    """Return the first work with a changed title and an image, before and after."""
    old = then.select(_KEY, then[_TITLE].alias("old_title"))
    changed = (
        now.join(old, _KEY)
        .where(now[_TITLE] != old["old_title"])
        .where(now[_NEW_COLUMN].isNotNull() & now[_MASKED_COLUMN].isNotNull())
    )
    key = changed.orderBy(_KEY).select(_KEY).first()[_KEY]
    return then.where(then[_KEY] == key).first(), now.where(now[_KEY] == key).first()


def _side_by_side(before: Row, after: Row, steps: list[_Step]) -> Table:
    table = new_table("column", steps[0].date, steps[-1].date, overflow="ellipsis", max_width=44)
    old, new = before.asDict(), after.asDict()
    for name, value in new.items():
        if (
            name in (_KEY, _TITLE, "artist", "artist_bio", "date", _MASKED_COLUMN, _NEW_COLUMN, "__op")
            or old.get(name) != value
        ):
            style = "" if old.get(name) == value else "green"
            table.add_row(name, _cell(old.get(name)) if name in old else _EMPTY_CELL, _cell(value), style=style)
    return table


def _counts(ops: dict[str, int]) -> str:
    words = {"r": "snapshot rows", "c": "inserts", "u": "updates", "d": "deletes"}
    return ", ".join(f"{ops[op]:,} {words[op]}" for op in "rcud" if ops.get(op))


def _cell(value: Any) -> str:
    return shorten("null" if value is None else str(value), 80)


def _number(value: int | None) -> str:
    return _EMPTY_CELL if value is None else f"{value:,}"
