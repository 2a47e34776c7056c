"""Pipeline that applies the records of a history in batches to two failing sinks, and the expected rows of its tables."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.world import Event, Record, Row
from tests.support.world_history import History, Step

from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.offset_log import OffsetLog
from headrace.config.maintenance_options import Maintenance
from headrace.config.model import TableRule
from headrace.config.settings import Settings
from headrace.dead_letters.file_store import DeadLetterFiles
from headrace.engine.commands.resync import resync
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.run.batch_runner import BatchRunner
from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.run.maintainer import Maintainer
from headrace.engine.write.feed_writer import name_feed
from headrace.errors import ConfigError, HeadraceError
from headrace.progress.maintained import Maintained
from headrace.progress.model import BatchProgress
from headrace.sdk.changes import POSITION, PREFIX
from headrace.sdk.sink import Batch, Sink, Table, WriteResult
from headrace.sdk.source import Offset, RangedSource
from headrace.spark.sessions import Sessions
from headrace.testing.tables import plain
from headrace.upsert.change_feed import FEED_COLUMNS
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_transforms import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORD = "partition int, offset bigint, topic string, key string, value string, headers array<struct<key: string, value: string>>"
#: Kafka Connect types of the columns. The key is never null.
_TYPES = {"id": "int32", "size": "int32", "name": "string", "note": "string", "ts_ms": "int64", "lsn": "int64"}
_TYPES |= dict.fromkeys(("pos", "server_id"), "int64") | {"row": "int32"}
#: Time of the failure (before or after the commit) by sink and table.
_FAULTS: dict[str, dict[str, str]] = defaultdict(dict)


def make_failing(sink: type[Sink], name: str) -> type[Sink]:
    """Return the sink, which fails for a table on request, before or after its commit."""

    def write(self: Sink, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        when = _FAULTS[name].get(table.name)
        if when == "before":
            raise ConfigError("the disk is full", fix="mend it")
        result = sink.write(self, table, rows, batch)
        if when and not result.skipped:
            raise ConfigError("the answer was lost", fix="mend it")
        return result

    return type(f"Failing{sink.__name__}", (sink,), {"name": name, "write": write})


class HistorySource(RangedSource):
    """Source of the records of a history up to an end set by a test."""

    name = "world"
    api_version = 1

    def __init__(self, history: History) -> None:
        super().__init__()
        self._world = history.world
        self.end: Offset = {}

    def initial(self) -> Offset:
        return {}

    def latest(self, start: Offset, limit: int | None) -> Offset:
        return self.end

    def between(self, start: Offset, end: Offset) -> list[Record]:
        """Return the records of a range in the order of ``read``."""
        found = []
        for (topic, partition), log in sorted(self._world.logs.items()):
            part = f"{topic}/{partition}"
            found += [record for record in log[start.get(part, 0) : end.get(part, 0)] if record is not None]
        return found

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        from pyspark.sql import DataFrame

        # The JVM parses the rows once. Python objects would need a Python process, and each plan would parse a string again.
        session: Any = spark._jsparkSession
        strings = spark._jvm.org.apache.spark.sql.Encoders.STRING()  # type: ignore[union-attr]
        texts = [json.dumps(self._encode(record)) for record in self.between(start, end)]
        parsed = DataFrame(session.createDataset(texts, strings).toDF(), spark).selectExpr(
            f"inline(array(from_json(value, '{_RECORD}')))"
        )
        rows = DataFrame(session.createDataFrame(parsed._jdf.collectAsList(), parsed._jdf.schema()), spark)
        return rows.selectExpr(
            "cast(key as binary)",
            "cast(value as binary)",
            "cast(headers as array<struct<key: string, value: binary>>)",
            *("topic", "partition", "offset"),
            "cast(null as timestamp) as timestamp",
        )

    def _encode(self, record: Record) -> dict[str, Any]:
        event, wrap = record.event, _with_schema if self._world.shape.has_schemas else _without_schema
        key = None if event.key is None else wrap({"id": event.key}, f"{event.table}.Key")
        value = {"before": event.before, "after": event.after, "source": event.source, "op": event.op}
        value |= {"ts_ms": event.source["ts_ms"], "transaction": None}
        return {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "key": key,
            "value": None if record.is_tombstone else wrap(value, f"{event.table}.Envelope"),
            "headers": [{"key": name, "value": text} for name, text in event.headers],
        }


class Run:
    """Pipeline controlled by a test."""

    def __init__(self, history: History, sinks: Sequence[Sink], spark: SparkSession, folder: Path) -> None:
        shape = history.world.shape
        self.history, self.shape, self._spark = history, shape, spark
        rule: dict[str, Any] = {"source": "w.*", "target": "w.all" if shape.is_merged else "w.{table}"}
        if shape.shared == "routed":
            rule["route.by.field"] = "source.table"
        if shape.shared == "logical":
            rule["logical.table"] = True
        self.source = HistorySource(history)
        handling = {"delete.tombstone.handling.mode": "rewrite"} if shape.rewrites else {}
        self.plan = Plan(
            name="world",
            source=self.source,
            sinks=tuple(sinks),
            checkpoint=f"{folder}/checkpoint",
            routes=Routes([TableRule.model_validate(rule)]),
            dialects=(DebeziumDialect(),),
            transforms=(Unwrap(handling),),
            value_format=JsonFormat(),
            key_format=JsonFormat(),
            # Without a policy, many records of a second table in the first batch are an error.
            settings=Settings.model_validate(
                {"maintenance": Maintenance(files=2), "dead.letters": {"other-table": "dead-letter"}}
            ),
        )
        self.batches: list[BatchProgress] = []
        self.stopped: list[HeadraceError] = []
        self.maintained: list[Maintained] = []
        self.sent: list[Record] = []
        #: Number of the oldest change of a source table that its target keeps after a resync. Older rows were removed.
        self.floors: dict[str, int] = {}
        self._sessions = Sessions(spark, self.plan.sql_conf)
        _FAULTS.clear()
        self._start()

    @property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Source tables in the database by target."""
        if self.shape.is_merged:
            return {"w.all": self.shape.tables}
        if self.shape.shared != "unrouted":
            return {f"w.{table}": (table,) for table in self.shape.tables}
        return {"w.all": tuple(record.event.table for record in self.sent if not record.is_tombstone)[:1]}

    def go(self) -> None:
        """Execute all steps of the history."""
        for step in self.history.steps:
            self.take(step)

    def take(self, step: Step) -> None:
        """Execute one step."""
        getattr(self, f"_{step.what}")(step)
        assert not self.stopped, self.stopped

    def of_table(self, target: str) -> list[Record]:
        """Return the changes of a table that were read so far."""
        return [r for r in self.sent if not r.is_tombstone and r.event.table in self.tables[target]]

    def stop(self) -> None:
        self._runner.catch_up.stop()
        self._maintainer.stop()
        assert not [done for done in self.maintained if done.error], self.maintained

    def _start(self) -> None:
        checkpoint = Checkpoint(self._spark, self.plan.checkpoint, self.plan.name)
        self._log = OffsetLog(checkpoint.range_log)
        self._maintainer = Maintainer(CurrentPlan(self.plan), self._sessions, self.maintained.append)
        self._runner = BatchRunner(
            CurrentPlan(self.plan),
            checkpoint,
            self._sessions,
            self.batches.append,
            on_rule_error=self.stopped.append,
            names_checked=True,
            maintainer=self._maintainer,
        )
        self._runner.start()

    def apply(self, step: Step, *, notes: bool = True) -> None:
        """Apply the records up to the end of a step. ``notes``: commit the batch."""
        self.source.end = step.ends
        batch = self._log.next(self.source.initial, lambda start: self.source.latest(start, None))
        if batch is None:
            return
        frame = self.source.read(self._sessions.of("ranged"), batch.start, batch.end)
        try:
            self._runner.run_batch(frame, batch.id, (batch.start, batch.end))
        except HeadraceError:
            if not any(_FAULTS.values()):
                raise
            # All tables failed, so the run ended.
            self._mend(step)
            self.apply(step)
            return
        if notes:
            self._log.commit(batch)
            self.sent += self.source.between(batch.start, batch.end)

    def _batch(self, step: Step) -> None:
        self.apply(step)

    def _crash(self, step: Step) -> None:
        self.apply(step, notes=False)
        self._kill(step)
        self.apply(step)

    def _restart(self, step: Step) -> None:
        self._runner.catch_up.finish()
        self._start()

    def _kill(self, step: Step) -> None:
        self.stop()
        self._start()

    def _break(self, step: Step) -> None:
        names = [name for name, tables in self.tables.items() if {*tables} & {*step.tables}]
        _FAULTS[self.plan.sinks[step.sink].name].update(dict.fromkeys(names, step.when))

    def _mend(self, step: Step) -> None:
        """Stop the faults and let failed tables catch up."""
        _FAULTS.clear()
        error = self._runner.catch_up.finish()
        assert error is None, error
        self._start()

    def _resync(self, step: Step) -> None:
        """Resync the tables with their newest snapshot and the later changes."""
        self._runner.catch_up.finish()
        for target in self.tables:
            before = {sink: self.expect_rows(target) for sink in self.plan.sinks}
            newest = [r.event for r in self.of_table(target) if r.event.op == "r"]
            if not newest:
                continue
            number = max(event.number for event in newest)
            last = next(event for event in newest if event.number == number)
            start = min(event.number for event in newest if _is_of_snapshot(event, last))
            if len({r.event.table for r in self.of_table(target) if r.event.op in "cru"}) > 1:
                with pytest.raises(ConfigError, match="several sources"):
                    self._call_resync(target)
                continue
            self.floors[last.table] = max(start, self.floors.get(last.table, 0))
            for done in self._call_resync(target):
                assert done.removed == len(before[self.plan.sinks[0]]) - len(self.expect_rows(target)), done
        self._start()

    def _call_resync(self, target: str) -> Any:
        try:
            return resync(self.plan, self._spark, target)
        except ConfigError as error:
            # The snapshot of a first table with one row has no end marker, and a topic with two tables has dead letters.
            if not any(reason in str(error) for reason in ("has not ended", "dead letters")):
                raise
            return resync(self.plan, self._spark, target, now=True)

    # Expected results.

    def expect_rows(self, target: str) -> dict[int, Row]:
        """Return the expected rows of an upserted table by key: the newest change of each key after the last truncate."""
        records = self.of_table(target)
        newest: dict[int | None, Record] = {}
        floors = {table: self.floors.get(table, 0) for table in self.tables[target]}
        for record in records if self.shape.removes_rows else ():
            if record.event.op == "t":
                floors[record.event.table] = max(floors[record.event.table], record.event.number)
        for record in records:
            event, current = record.event, newest.get(record.event.key)
            if event.op == "t" or event.number < floors[event.table]:
                continue
            if current is None or (event.position, record.location) > (current.event.position, current.location):
                newest[event.key] = record
        for (table, key), number in self.history.world.compacted.items():
            if table in self.tables[target] and key in newest and newest[key].event.number <= number:
                del newest[key]
        rows = {key: self._row_of(record.event) for key, record in newest.items() if key is not None}
        return {key: row for key, row in rows.items() if row is not None}

    def expect_log(self, target: str, mode: str) -> list[Row]:
        """Return the accepted records of an append-only table, ordered within each key."""
        records = [record for record in self.of_table(target) if record.event.op != "t"]
        records.sort(key=lambda record: (record.event.key, record.event.position, record.location))
        rows = []
        for record in records:
            row = self._row_of(record.event) or {"id": record.event.key}
            rows.append({**row, "__op": record.event.op} if mode == "changelog" else row)
        return rows

    @property
    def _empties_all(self) -> bool:
        """Whether a truncate empties the table in both sinks. An append-only sink rejects it as a dead letter."""
        return self.shape.removes_rows and set(self.shape.modes) == {"upsert"}

    def expect_dead_letters(self) -> list[tuple[Any, ...]]:
        found = []
        for target, tables in self.tables.items():
            for record in self.sent:
                topic = self.shape.topic(record.event.table)
                if record.is_tombstone or (self.shape.shared != "unrouted" and record.event.table not in tables):
                    continue
                if record.event.table not in tables:
                    found.append((target, "other-table", topic, record.partition, record.offset))
                elif record.event.op == "t" and not self._empties_all:
                    found.append((target, "truncated", topic, record.partition, record.offset))
        return sorted(found)

    def _row_of(self, event: Event) -> Row | None:
        """Return the row after a change; None if it is removed."""
        if event.op == "d" and not self.shape.rewrites:
            return None
        row = _drop_nulls((event.before if event.op == "d" else event.after) or {})
        return {**row, "__deleted": "true" if event.op == "d" else "false"} if self.shape.rewrites else row

    # Actual results.

    def check(self) -> None:
        """Check the tables of both sinks and the dead letters."""
        for target, tables in self.tables.items():
            for table in tables if self.shape.removes_rows else ():
                self._check_model(target, table)
            for sink, mode in zip(self.plan.sinks, self.shape.modes, strict=True):
                rows = self._read(sink, target)
                where = f"{target} of sink {sink.name}, mode {mode}"
                if mode == "upsert":
                    rows = sorted(({n: v for n, v in row.items() if n != POSITION} for row in rows), key=_key)
                    assert rows == sorted(self.expect_rows(target).values(), key=_key), where
                    assert not sink.config.changes or rows == self._fold_changes(sink, target), f"{where}, changes"
                    continue
                assert len({row[POSITION] for row in rows}) == len(rows), f"{where}: two records of one position"
                rows.sort(key=lambda row: (row["id"], row.pop(POSITION)))
                assert rows == self.expect_log(target, mode), where
        assert self.dead_letters() == self.expect_dead_letters()

    def _fold_changes(self, sink: Sink, target: str) -> list[Row]:
        """Return the rows after all changes of a table's feed, whose first images are the rows before each change."""
        changes = sorted(self._read(sink, name_feed(target)), key=lambda row: (row["change_sequence"], row["id"]))
        rows: dict[int, Row] = {}
        for each in itertools.groupby(changes, lambda row: (row["change_sequence"], row["id"])):
            for change in sorted(each[1], key=lambda row: "_postimage" in row["change_type"]):
                row = {n: v for n, v in change.items() if n not in FEED_COLUMNS and not n.startswith(PREFIX)}
                kind, key = change["change_type"], row["id"]
                if kind in ("insert", "update_postimage"):
                    assert (key in rows) is (kind == "update_postimage"), (target, change)
                    rows[key] = row
                else:
                    assert rows[key] == row, (target, change)
                    rows = rows if kind == "update_preimage" else {k: r for k, r in rows.items() if k != key}
        return sorted(rows.values(), key=_key)

    def _check_model(self, target: str, table: str) -> None:
        """Check that the table has all rows of the database, and no others except unreported deletes."""
        expected = {key: row for key, row in self.expect_rows(target).items() if key in self.shape.keys(table)}
        world = self.history.world
        rows = {key: _drop_nulls(row) for key, row in world.rows[table].items()}
        assert {key: row for key, row in expected.items() if key in rows} == rows
        assert {(table, key) for key in expected.keys() - rows.keys()} <= world.unreported_deletes

    def _read(self, sink: Sink, target: str) -> list[Row]:
        frame = sink.read_or_none(self._spark, Table(target, ("id",)))
        if frame is None:
            return []
        rows = [_drop_nulls(plain(row)) for row in frame.collect()]
        return [{name: v for name, v in row.items() if not name.startswith("_hoodie")} for row in rows]

    def dead_letters(self) -> list[tuple[Any, ...]]:
        """Return table, reason and offset of each dead letter."""
        folder = Checkpoint(self._spark, self.plan.checkpoint, self.plan.name).dead_letters
        found = DeadLetterFiles(folder).read(self._spark)
        columns = ("table", "reason", "topic", "partition", "offset")
        return [] if found is None else sorted(tuple(row) for row in found.select(*columns).collect())


def _key(row: Row) -> int:
    return int(row["id"])


def _is_of_snapshot(event: Event, last: Event) -> bool:
    names = ("sequence", "lsn", "file", "pos")
    return event.op == "r" and all(event.source.get(name) == last.source.get(name) for name in names)


def _drop_nulls(row: Row) -> Row:
    """Remove nulls from a row: a later column is null in older rows."""
    return {name: value for name, value in row.items() if value is not None}


def _without_schema(value: Row, name: str) -> str:
    return json.dumps(value)


def _with_schema(value: Row, name: str) -> str:
    """Encode a value with its schema, as JsonConverter does."""
    schema = _struct(value, name, is_optional=False)
    return json.dumps({"schema": schema, "payload": value})


def _struct(value: Row, name: str, *, is_optional: bool) -> Row:
    fields = []
    for column, inner in value.items():
        schema: Row = {"type": _TYPES.get(column, "string"), "optional": column != "id"}
        if column in ("before", "after"):
            row = value["after"] or value["before"] or {"id": 0}
            schema = _struct(row, name.replace("Envelope", "Value"), is_optional=True)
        elif isinstance(inner, dict):
            schema = _struct(inner, f"{name}.{column}", is_optional=False)
        elif column == "transaction":
            schema = _struct({"id": "", "total_order": 0}, "event.block", is_optional=True)
        fields.append({**schema, "field": column})
    return {"type": "struct", "fields": fields, "optional": is_optional, "name": f"w.{name}"}
