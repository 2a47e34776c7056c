"""A small database whose changes pass through the engine into a sink, in batches chosen by a test.

::

    database, stream = Database(), Stream(sink, spark, tmp_path)
    database.insert("kit.people", {"id": 1, "name": "a"})
    database.delete("kit.people", 1)
    insert, delete = database.log
    stream.apply(delete)
    stream.restart()
    stream.apply(insert)                      # late
    assert stream.rows("kit.people") == []
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.layout import Checkpoint
from headrace.config.maintenance_options import Maintenance
from headrace.config.settings import Settings
from headrace.engine.batch.maintenance import maintain
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.run.batch_runner import BatchRunner
from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.run.maintainer import Maintainer
from headrace.errors import HeadraceError
from headrace.progress.maintained import Maintained
from headrace.progress.model import BatchProgress
from headrace.sdk import changes as C, events as E
from headrace.sdk.changes import Changes
from headrace.sdk.dialect import Dialect
from headrace.sdk.events import Events
from headrace.sdk.positions import position, sortable
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.sink import Sink, Table
from headrace.sdk.source import Offset, RangedSource, SourceContext
from headrace.spark.sessions import Sessions
from headrace.testing.tables import plain

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

Row = Mapping[str, Any]
#: The key column of every table.
KEY = "id"
#: Placeholder for a string that the database did not send.
UNAVAILABLE = "<as it was>"
_LARGEST_INT = 2**31 - 1
#: Spark types of columns by the first letter of their names.
_TYPES = {"i": "integer", "n": "string", "t": "string"}


@dataclass(frozen=True)
class Change:
    """A change of a row. ``at`` is its position in commit order."""

    table: str
    op: str
    at: int
    key: int | None
    row: Row | None
    #: The new key, if this is the delete of a key change.
    new_key: int | None = None


@dataclass
class Database:
    """Tables of rows with an integer ``id``, and the log of their changes.

    The first letter of a column's name selects its type: ``n`` and ``t`` are strings, ``i`` is int, or bigint for larger values.
    Columns that start with ``t`` may be unavailable in updates.
    """

    tables: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    log: list[Change] = field(default_factory=list)

    def insert(self, table: str, row: Row) -> None:
        """Insert a row."""
        self._put(table, "c", row)

    def update(self, table: str, row: Row, unavailable: Sequence[str] = ()) -> None:
        """Update a row. ``unavailable``: columns that ``row`` lacks; they keep their values, and the event omits them."""
        stored = self.tables[table][row[KEY]]
        self._put(
            table, "u", {**row, **{name: stored[name] for name in unavailable if name in stored}}, tuple(unavailable)
        )

    def snapshot(self, table: str) -> None:
        """Read every row again."""
        for row in list(self.tables[table].values()):
            self._put(table, "r", row)

    def delete(self, table: str, key: int) -> None:
        """Delete a row."""
        del self.tables[table][key]
        self.log.append(Change(table, "d", len(self.log), key, None))

    def truncate(self, table: str) -> None:
        """Truncate a table."""
        self.tables[table].clear()
        self.log.append(Change(table, "t", len(self.log), None, None))

    def rekey(self, table: str, old: int, new: int, unavailable: Sequence[str] = ()) -> None:
        """Change the key of a row, which is a delete and an insert. ``unavailable``: columns that the insert omits."""
        row = {**self.tables[table].pop(old), KEY: new}
        self.log.append(Change(table, "d", len(self.log), old, None, new))
        self._put(table, "c", row, tuple(unavailable))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows that the target must have, ordered by key."""
        return [row for _, row in sorted(self.tables[table].items())]

    def _put(self, table: str, op: str, row: Row, unavailable: tuple[str, ...] = ()) -> None:
        self.tables[table][row[KEY]] = dict(row)
        image = {name: UNAVAILABLE if name in unavailable else value for name, value in row.items()}
        self.log.append(Change(table, op, len(self.log), row[KEY], image))


class Stream:
    """A pipeline into ``sink`` with the batches of a test."""

    def __init__(self, sink: Sink, spark: SparkSession, folder: Path, *, delete_retention: float = 3600) -> None:
        """``folder`` contains the checkpoint; ``delete_retention`` is in seconds."""
        self.sink, self._spark = sink, spark
        self._source = _ChangeSource()
        self._plan = Plan(
            name="kit",
            source=self._source,
            sinks=(sink,),
            checkpoint=f"{folder}/checkpoint",
            routes=Routes([]),
            dialects=(_ChangeDialect(),),
            settings=Settings(delete_retention=f"{delete_retention} seconds"),
        )
        self.progress: list[BatchProgress] = []
        #: Errors that would stop a run.
        self.failed: list[HeadraceError] = []
        #: Completed maintenance steps.
        self.maintained: list[Maintained] = []
        self.restart()

    def apply(self, *changes: Change, current: Mapping[str, Sequence[Row]] | None = None) -> None:
        """Apply the next batch. ``current``: table → the rows with whose keys the stored rows are compared."""
        self._source.batches.append(changes)
        self._source.current.append(current or {})
        self.apply_again()

    def apply_again(self) -> None:
        """Apply the last batch again, as after a crash before its commit."""
        empty = self._spark.range(0)
        self._runner.run_batch(empty.select("id"), len(self._source.batches) - 1)

    def restart(self) -> None:
        """Continue like a new process, with only the checkpoint and the tables."""
        checkpoint = Checkpoint(self._spark, self._plan.checkpoint, self._plan.name)
        sessions = Sessions(self._spark, self._plan.sql_conf)
        # Maintenance runs only on request of a test.
        idle = replace(self._plan, settings=Settings(maintenance=Maintenance(enabled=False)))
        self._runner = BatchRunner(
            CurrentPlan(self._plan),
            checkpoint,
            sessions,
            self.progress.append,
            on_rule_error=self.failed.append,
            names_checked=True,
            maintainer=Maintainer(CurrentPlan(idle), sessions, self.maintained.append),
        )
        self._runner.start()

    def maintain(self, *tables: str) -> None:
        """Run all maintenance steps of tables, whether they are due or not."""
        for done in maintain(self._plan, self._spark, tables, dry_run=False):
            assert done.error is None, done
            self.maintained.append(done)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the table's rows as plain values, ordered by key; empty if the table does not exist."""
        frame = self.sink.read_or_none(self._spark, Table(table, (KEY,)))
        if frame is None:
            return []
        names = [c for c in frame.columns if not c.startswith(self.sink.hidden_prefixes)]
        rows = [{name: plain(row[name]) for name in names} for row in frame.collect()]
        return sorted(rows, key=lambda row: int(row[KEY]))


class _ChangeSource(RangedSource):
    """Source of the changes of a batch, with one topic per table."""

    name = "kit"
    api_version = 1
    yields_records = False
    finds_missing_rows = True

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Sequence[Change]] = []
        #: Batch → table → its current rows.
        self.current: list[Mapping[str, Sequence[Row]]] = []

    def initial(self) -> Offset:
        return {}

    def latest(self, start: Offset, limit: int | None) -> Offset:
        return start

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        raise NotImplementedError("the kit passes batches to the engine directly")

    def events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        assert context.batch is not None
        tables: dict[str, list[Change]] = defaultdict(list)
        for change in self.batches[context.batch]:
            tables[change.table].append(change)
        so_far = [change for batch in self.batches[: context.batch + 1] for change in batch]
        current = self.current[context.batch]
        return [
            _events(table, tables[table], so_far, current.get(table)) for table in dict.fromkeys([*tables, *current])
        ]


class _ChangeDialect(Dialect):
    """Dialect of the events of ``_ChangeSource``."""

    name = "kit"
    api_version = 1

    @classmethod
    def matches(cls, schema: StructType) -> bool:
        return "at" in schema.names

    def unavailable_tests(self, schema: StructType) -> Mapping[str, Callable[[Column], Column]]:
        row: Any = schema["row"].dataType
        return {name: lambda value: value == UNAVAILABLE for name in row.names if name.startswith("t")}

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        value = F.col(E.VALUE)
        row: Any = events.schema["row"].dataType
        op = value.getField("op")
        return Changes(
            frame.select(
                *[
                    F.coalesce(
                        value.getField("row").getField(name), *([F.col(E.KEY).getField(KEY)] if name == KEY else [])
                    ).alias(name)
                    for name in row.names
                ],
                op.alias(C.OP),
                (op == "d").alias(C.DELETED),
                F.col(E.KEY).alias(C.KEY),
                position(sortable(value.getField("at")), place=F.lit("")).alias(C.POSITION),
                F.when(value.getField("new").isNotNull(), F.struct(value.getField("new").alias(KEY))).alias(C.NEW_KEY),
                position(sortable(value.getField("at")), place=F.lit("")).alias(C.KEY_CHANGE_POSITION),
                F.lit(None).cast("bigint").alias(C.COMMITTED),
                F.when(op == "t", RejectReason.TRUNCATED).alias(C.ERROR),
                F.lit(events.topic).alias(C.TOPIC),
                *[
                    F.lit(None).cast(data_type).alias(name)
                    for name, data_type in (
                        (C.PARTITION, "int"),
                        (C.OFFSET, "bigint"),
                        (C.FILE, "string"),
                        (C.PLACE, "string"),
                        (C.RAW, "binary"),
                    )
                ],
            ),
            envelope=False,
        )


def _events(
    table: str, changes: Sequence[Change], so_far: Sequence[Change], current: Sequence[Row] | None = None
) -> Events:
    """Return the events of a topic. ``so_far``: all changes up to this batch, which define the columns."""
    from pyspark.sql import types as T

    rows = [change.row for change in so_far if change.table == table and change.row]
    types = {name: _TYPES[name[0]] for name in (KEY, *(name for row in rows for name in row))}
    types |= {n: "long" for row in rows for n, value in row.items() if isinstance(value, int) and value > _LARGEST_INT}
    row = T.StructType.fromJson(
        {"fields": [{"name": n, "type": data_type, "nullable": True, "metadata": {}} for n, data_type in types.items()]}
    )
    key = T.StructType([T.StructField(KEY, T.IntegerType())])
    fields = {"op": T.StringType(), "at": T.LongType(), "row": row, "new": T.IntegerType()}
    value = T.StructType([T.StructField(name, data_type) for name, data_type in fields.items()])
    found = Events(table, value, partial(_load, changes=changes, key=key), key)
    if current is None:
        return found
    found_rows = [Change(table, "r", 0, current_row[KEY], current_row) for current_row in current]
    return replace(found, load_current=partial(_load, changes=found_rows, key=key))


def _load(session: SparkSession, schema: StructType, *, changes: Sequence[Change], key: StructType) -> DataFrame:
    """Return changes as a DataFrame from JSON in the plan; Python rows would pass through a Python process each time."""
    from pyspark.sql import functions as F, types as T

    event = T.StructType([T.StructField(E.VALUE, schema), T.StructField(E.KEY, key)])
    events = [{E.VALUE: {"op": c.op, "at": c.at, "row": c.row, "new": c.new_key}, E.KEY: {KEY: c.key}} for c in changes]
    text = F.lit(json.dumps(events))
    # One partition needs no shuffle, and histories are short.
    return session.range(0, 1, 1, 1).select(F.inline(F.from_json(text, T.ArrayType(event))))
