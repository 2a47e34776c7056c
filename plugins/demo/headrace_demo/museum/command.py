"""``headrace demo``: the main job on real input, with what came out of it on the screen."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.copy_commands import print_commands
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from rich.console import Console

    from headrace.pipeline import Pipeline
    from headrace.progress.model import BatchProgress

#: The folder's own mark: only a folder that has it is ever removed.
_MARK = ".headrace-demo"
_TABLE, _KEY, _TITLE, _NEW, _MASKED, _EVENT = (
    "moma.artworks",
    "artwork_id",
    "title",
    "image_url",
    "donor",
    "credit_line",
)
_SALT = "pepper"
#: Where there is nothing to show.
_NOTHING = "\N{EN DASH}"


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("headrace-demo"),
    show_default=True,
    help="Where to put files and tables.",
)
def demo(folder: Path) -> None:
    """Run the main job on real data and show what came out.

    MoMA's collection at 2015-07-17, 07-23 and 08-15, as Debezium change events of a PostgreSQL database in Avro files,
    into a Hudi and an Iceberg table at once.
    """
    from rich.console import Console

    console = Console(highlight=False)
    clock = time.monotonic()
    bronze = _prepare(folder, console)
    os.environ.setdefault("SALT", _SALT)
    from headrace.pipeline import Pipeline

    pipeline = Pipeline.from_file("pipeline.yaml")
    with console.status("finding Java and jars, starting Spark"):
        started = time.monotonic()
        spark = pipeline.session(console.print)
    console.print(f"Spark {spark.version} is up after {time.monotonic() - started:.0f} s\n")
    try:
        steps = [
            _step(pipeline, spark, console, bronze, date)
            for date in sorted(json.loads((bronze / "manifest.json").read_text())["dates"])
        ]
        _report(pipeline, spark, console, steps, bronze)
    finally:
        spark.stop()
    console.print(
        f"\n[bold]All of it took {time.monotonic() - clock:.0f} s.[/] The tables are in [cyan]{folder}/lake[/]; look around:"
    )
    show = "show pipeline.yaml moma.artworks"
    print_commands(console, folder, [f"{show} --limit 5", f"{show} --as-of {steps[0].version}"], env="SALT=pepper")


@dataclass(frozen=True)
class _Step:
    """A date's events, applied. ``version``: the Iceberg table as it was then."""

    date: str
    seconds: float
    progress: BatchProgress
    version: str


def _prepare(folder: Path, console: Console) -> Path:
    """A fresh folder with the pipeline file, made the current one; the shipped events' folder."""
    if folder.exists() and not (folder / _MARK).exists() and any(folder.iterdir()):
        raise ConfigError("is not empty and not a demo's", where=str(folder), fix="name another folder with --folder")
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "bronze").mkdir(parents=True)
    (folder / _MARK).touch()
    package = Path(__file__).parent
    shutil.copy(package / "pipeline.yaml", folder)
    text = (folder / "pipeline.yaml").read_text()
    os.chdir(folder)
    console.rule("[bold]headrace demo")
    console.print(
        "The collection of the Museum of Modern Art at three real dates (CC0), about 20,000 of its works, as Debezium would "
        "report them from PostgreSQL: change events in Avro files. One pipeline file keeps two tables true to them:\n"
    )
    from rich.syntax import Syntax

    console.print(Syntax(text, "yaml", background_color="default"))
    return package / "data"


def _step(pipeline: Pipeline, spark: SparkSession, console: Console, bronze: Path, date: str) -> _Step:
    """The files of one date arrive; the pipeline applies them."""
    from rich.table import Table

    events = json.loads((bronze / "manifest.json").read_text())["dates"][date]
    shutil.copytree(bronze / date, "bronze", dirs_exist_ok=True)
    said = "; ".join(f"{_counts(found['ops'])} of {topic.rpartition('.')[2]}" for topic, found in events.items())
    batches: list[BatchProgress] = []
    clock = time.monotonic()
    with console.status(f"{date}: {said}"):
        pipeline.run(spark, on_progress=batches.append)
    seconds = time.monotonic() - clock
    console.print(f"[bold]{date}[/]  {said}  [dim]applied in {seconds:.1f} s[/]")
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name in ("table", "sink"):
        table.add_column(name)
    for name in ("events in", "rows applied", "late", "dead letters"):
        table.add_column(name, justify="right")
    for t in batches[-1].tables:
        table.add_row(t.table, t.sink, _number(t.rows_in), _number(t.applied), _number(t.late), _number(t.dead_letters))
    console.print(table)
    console.print()
    version = next(t.version for t in batches[-1].tables if t.table == _TABLE and t.sink == "iceberg")
    assert version is not None
    return _Step(date, seconds, batches[-1], version)


def _report(pipeline: Pipeline, spark: SparkSession, console: Console, steps: list[_Step], bronze: Path) -> None:
    from rich.table import Table

    manifest = json.loads((bronze / "manifest.json").read_text())
    console.rule("[bold]what is in the tables now")
    rows = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name in ("table", "Iceberg rows", "Hudi rows", "the database has"):
        rows.add_column(name, justify="left" if name == "table" else "right")
    last = manifest["dates"][steps[-1].date]
    for topic in last:
        name = topic.replace("moma.public", "moma")
        counts = [pipeline.read(name, sink=sink, spark=spark).count() for sink in ("iceberg", "hudi")]
        rows.add_row(name, *map(_number, counts), _number(last[topic]["rows_after"]))
    console.print(rows)

    then, now = pipeline.read(_TABLE, as_of=steps[0].version, spark=spark), pipeline.read(_TABLE, spark=spark)
    before, after = _a_changed_row(then, now)
    console.print(
        f"\n[bold]One work, at {steps[0].date} and at {steps[-1].date}[/]  [dim]({_KEY} {after[_KEY]}; a new column came on the third date)[/]"
    )
    console.print(_side_by_side(before, after, steps))

    deleted = manifest["deleted"]["moma.public.artworks"]
    left = now.where(now[_KEY].isin([int(key) for key in deleted])).count()
    console.print(
        f"\n[bold]Deletes[/]  The museum's history has none, so the demo adds {len(deleted)}: of those works {left} are left in the table;"
        f" at {steps[0].date} {then.where(then[_KEY].isin([int(key) for key in deleted])).count()} of them were in it."
    )
    console.print(
        f"[bold]As of {steps[0].date}[/]  the table had {then.count():,} rows; column {_NEW!r} was {'there' if _NEW in then.columns else 'not there yet'}."
    )

    event = spark.read.format("avro").option("recursiveFileLookup", "true").load(str(bronze / steps[0].date))
    original = event.where(event["after"][_KEY] == after[_KEY]).select(event["after"][_EVENT].alias("text")).first()
    console.print(f"[bold]Masked[/]  {_EVENT}, renamed to {_MASKED}; null stays null:")
    console.print(f"  in the event  {original['text'] if original else None}", markup=False)
    console.print(f"  in the table  {after[_MASKED]}", markup=False)


def _a_changed_row(then: Any, now: Any) -> tuple[Row, Row]:
    """The first work whose title changed and that has an image now."""
    old = then.select(_KEY, then[_TITLE].alias("old_title"))
    changed = (
        now.join(old, _KEY)
        .where(now[_TITLE] != old["old_title"])
        .where(now[_NEW].isNotNull() & now[_MASKED].isNotNull())
    )
    key = changed.orderBy(_KEY).select(_KEY).first()[_KEY]
    return then.where(then[_KEY] == key).first(), now.where(now[_KEY] == key).first()


def _side_by_side(before: Row, after: Row, steps: list[_Step]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name in ("column", steps[0].date, steps[-1].date):
        table.add_column(name, overflow="ellipsis", max_width=44)
    old, new = before.asDict(), after.asDict()
    for name, value in new.items():
        if name in (_KEY, _TITLE, "artist", "artist_bio", "date", _MASKED, _NEW, "__op") or old.get(name) != value:
            style = "" if old.get(name) == value else "green"
            table.add_row(name, _cell(old.get(name)) if name in old else _NOTHING, _cell(value), style=style)
    return table


def _counts(ops: dict[str, int]) -> str:
    words = {"r": "snapshot rows", "c": "inserts", "u": "updates", "d": "deletes"}
    return ", ".join(f"{ops[op]:,} {words[op]}" for op in "rcud" if ops.get(op))


def _cell(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _number(value: int | None) -> str:
    return _NOTHING if value is None else f"{value:,}"
