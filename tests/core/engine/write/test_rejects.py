"""Handling of rejected changes without a pipeline: they are stored, dropped, or stop the run."""

from __future__ import annotations

import string
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from tests.support.memory_sink import MemorySink
from tests.support.tiers import nightly_after

from headrace.checkpoint.layout import Checkpoint
from headrace.dead_letters.file_store import DeadLetterFiles
from headrace.dead_letters.table_store import DeadLetterTable
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.write.rejects import Rejected, Rejects
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.errors import DataError, RuleError
from headrace.sdk.changes import Changes
from headrace.sdk.dialect import Dialect
from headrace.sdk.events import Events
from headrace.sdk.sink import Batch, Sink, Table, TableMode
from headrace.spark.sessions import Sessions
from headrace.upsert.table_sources import EARLIER
from headrace.upsert.table_state import TableState
from headrace_sources import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from headrace.config.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

TABLE = Table("shop.orders", ("id",))
CHANGES = (
    "id int, name string, _headrace_key struct<id: int>, _headrace_position string, _headrace_error string, "
    "_headrace_topic string, _headrace_source string, _headrace_partition int, _headrace_offset bigint, _headrace_file string, "
    "_headrace_place string, _headrace_raw binary"
)


class AnyShape(Dialect):
    """Dialect that matches every shape. The tests provide its changes."""

    name = "anything"
    api_version = 1

    @classmethod
    def matches(cls, schema: StructType) -> bool:
        return True

    def changes(self, *_: Any) -> Changes:
        raise NotImplementedError


class RejectsStep:
    """Rejects step with its dependencies, and a table with the rows 1 (old) and 2 (new)."""

    def __init__(self, spark: SparkSession, folder: Path, **settings: Any) -> None:
        from headrace.config.settings import Settings

        self.spark, self.sink = spark, MemorySink(store=uuid.uuid4().hex)
        self.settings: Settings = Settings(**settings)
        source = FilesSource(path="x", format="json")
        plan = Plan("shop", source, (self.sink,), str(folder), Routes([]), (AnyShape(),), settings=self.settings)
        self.checkpoint = Checkpoint(spark, str(folder), "shop")
        self.rejects = Rejects(plan, self.checkpoint, SinkWriter(plan, Sessions(spark)))
        self.state = TableState(self.checkpoint, "shop.orders", 3600)
        self.state.sources.add(["shop.orders"])
        stored = spark.createDataFrame(
            [(1, "old", False, "0A"), (2, "new", False, "0D")],
            "id int, name string, _headrace_deleted boolean, _headrace_position string",
        )
        self.sink.write(TABLE, stored, Batch("checkpoint", 6, "upsert"))

    def handle(
        self,
        *reasons: str | None,
        truncates: bool = True,
        others: Mapping[Sink, TableMode] | None = None,
        file: str | None = None,
        raws: Sequence[str] = (),
        source: str | None = "shop.orders",
    ) -> Rejected:
        """Handle changes with these reasons at the positions 0A, 0B …; the bytes of each change are its reason.

        ``others`` are additional sinks, ``file`` is the source file, ``raws`` replace the bytes, and ``source`` is that of all changes.
        """
        rows = [
            (n, "a", (n,), f"0{n + 10:X}", why, "shop.orders", source, 0, 0 if file else n, file, f"{n:03}", raw.encode())
            for n, (why, raw) in enumerate(zip(reasons, raws or map(str, reasons), strict=True))
        ]  # fmt: skip
        changes = Changes(self.spark.createDataFrame(rows, CHANGES), envelope=False)
        sinks = (self.sink,) if truncates else ()
        modes: dict[Sink, TableMode] = {self.sink: "upsert", **(others or {})}
        table_plan = TablePlan(TABLE, BatchMarks("checkpoint", 7), modes, ("id", "name"), truncated_sinks=sinks)
        events = Events("shop.orders", changes.frame.schema, lambda session, _: session.range(0))
        return self.rejects.handle(changes, table_plan, events, self.state)

    @property
    def rows(self) -> list[int]:
        return sorted(row["id"] for row in self.sink.read_back(self.spark, TABLE).collect())

    @property
    def dead_letters(self) -> list[tuple[Any, ...]]:
        kept = DeadLetterFiles(self.checkpoint.dead_letters).read(self.spark)
        return [] if kept is None else sorted(tuple(row) for row in kept.select("reason", "offset", "value").collect())


def test_rejected_record_is_stored_with_its_bytes_and_location(spark: SparkSession, tmp_path: Path) -> None:
    step = RejectsStep(spark, tmp_path)
    for _ in range(2):  # a repeated batch stores them once
        assert step.handle(None, "key-missing", "undecodable") == Rejected(dead_letters=2)
        assert step.dead_letters == [("key-missing", 1, b"key-missing"), ("undecodable", 2, b"undecodable")]


def test_dropped_records_are_counted_and_not_stored(spark: SparkSession, tmp_path: Path) -> None:
    step = RejectsStep(spark, tmp_path, **{"dead.letters": {"key-missing": "drop"}})
    rejected = step.handle("key-missing", "key-missing", "undecodable")
    assert (rejected, rejected.reasons) == (Rejected(dead_letters=1, dropped=2), {"undecodable": 1})
    assert [reason for reason, *_ in step.dead_letters] == ["undecodable"]


def test_stop_rule_stores_nothing(spark: SparkSession, tmp_path: Path) -> None:
    step = RejectsStep(spark, tmp_path, **{"dead.letters": {"key-missing": "stop"}})
    with pytest.raises(RuleError, match="1 record: key-missing"):
        step.handle("key-missing", "undecodable")
    assert step.dead_letters == []


def test_truncate_removes_rows_up_to_its_position(spark: SparkSession, tmp_path: Path) -> None:
    step = RejectsStep(spark, tmp_path)
    assert step.handle(None, "truncated", "undecodable") == Rejected(dead_letters=1)
    assert (step.rows, step.state.truncate.positions) == ([2], {"shop.orders": "0B"})
    assert [reason for reason, *_ in step.dead_letters] == ["undecodable"]


def test_truncate_of_a_table_that_keeps_deleted_rows_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    step = RejectsStep(spark, tmp_path)
    assert step.handle("truncated", truncates=False) == Rejected(dead_letters=1)
    assert (step.rows, step.state.truncate.positions) == ([1, 2], {})


@pytest.mark.parametrize(("known", "source"), nightly_after(1, [(EARLIER, "shop.orders"), ("us.shop.orders", None)]))
def test_truncate_of_unknown_rows_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path, known: str, source: str | None
) -> None:
    step = RejectsStep(spark, tmp_path)
    step.state.sources.add([known])
    assert step.handle(None, "truncated", "undecodable", source=source) == Rejected(dead_letters=2)
    assert (step.rows, step.state.truncate.positions) == ([1, 2], {})
    assert [reason for reason, *_ in step.dead_letters] == ["truncated-source", "undecodable"]


def test_truncate_applied_by_one_sink_is_a_dead_letter_of_an_append_sink(spark: SparkSession, tmp_path: Path) -> None:
    step = RejectsStep(spark, tmp_path)
    log = MemorySink(store=uuid.uuid4().hex)
    assert step.handle("truncated", "truncated", others={log: "changelog"}) == Rejected(dead_letters=2)
    assert (step.rows, step.state.truncate.positions) == ([2], {"shop.orders": "0B"})
    assert [reason for reason, *_ in step.dead_letters] == ["truncated", "truncated"]


def test_only_dead_letters_are_spilled_to_disk_in_private_files(spark: SparkSession, tmp_path: Path) -> None:
    # A string without repeated characters is not compressible.
    row, letter = string.ascii_uppercase, string.ascii_lowercase
    for attempt in (
        "first",
        "second",
        "third",
    ):  # Spark may remove the files of a job as soon as Java collects garbage.
        step = RejectsStep(spark, tmp_path / attempt)
        before = set(find_local_files(spark))
        step.handle(None, "undecodable", None, file="a.json", raws=(row, letter, row))
        assert step.dead_letters == [("undecodable", 1, letter.encode())]
        files = [path for path in find_local_files(spark) if path not in before]
        if files:
            break
    shuffled = b"".join(path.read_bytes() for path in files)
    assert letter.encode() in shuffled
    assert row.encode() not in shuffled
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {parent.stat().st_mode & 0o777 for path in files for parent in path.parents[:2]} == {0o700}


def find_local_files(spark: SparkSession) -> list[Path]:
    """Return the temporary files of Spark on the local disks."""
    jvm: Any = spark._jvm
    folders = jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs()
    return [path for folder in folders for path in Path(str(folder)).rglob("*") if path.is_file()]


def test_local_checkpoint_is_a_private_folder(spark: SparkSession, tmp_path: Path) -> None:
    RejectsStep(spark, tmp_path / "new" / "checkpoint")
    assert (tmp_path / "new" / "checkpoint").stat().st_mode & 0o777 == 0o700
    (tmp_path / "shared").mkdir(mode=0o750)
    RejectsStep(spark, tmp_path / "shared")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o750


def test_error_of_the_dead_letter_table_names_that_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = RejectsStep(spark, tmp_path)
    table = DeadLetterTable(step.sink, Table("ops.dead_letters", ("id",)), "shop")
    monkeypatch.setattr(step.rejects, "_store", table)
    monkeypatch.setattr(step.sink, "write", Mock(side_effect=DataError("the value is too long")))
    with pytest.raises(DataError) as caught:
        step.handle("undecodable")
    assert caught.value.where == f"table ops.dead_letters, sink {step.sink.name}"
