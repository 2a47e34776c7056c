"""History of one row: its states in the readable versions of a table, or the versions of the row in a table with a history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.engine.commands.row_key import match_key, parse_key, type_key
from headrace.engine.commands.table_changes import AFTER, BEFORE, OP, name_change
from headrace.engine.commands.table_reads import check_time_travel, find_sink, read_table
from headrace.engine.write.history_plan import name_history
from headrace.errors import ConfigError
from headrace.schema.projection import align
from headrace.sdk.changes import POSITION, PREFIX
from headrace.sdk.sink import Table, TableVersion
from headrace.spark.columns import quote_name
from headrace.upsert.versions import PERIOD, START, VALID_FROM, VALID_TO, VERSION as PERIOD_VERSION, is_history

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.engine.plan.pipeline_plan import Plan
    from headrace.sdk.sink import Sink

#: Columns of the result, in addition to those of a comparison. ``op`` is also r: the oldest version that was read has the row.
TABLE_VERSION, WRITTEN, ROW_POSITION, COMMITTED = "version", "written", "position", "committed"
#: Versions that one call reads: each one takes a fraction of a second.
MAX_VERSIONS = 100
_NUMBER, _IS_FOUND, _PREVIOUS, _NEXT, _EVENT = (
    PREFIX + name for name in ("number", "found", "previous", "next", "event")
)


@dataclass(frozen=True)
class RowHistory:
    """Changes of one row."""

    #: The oldest change first: ``op`` (c, u, d, or r for the row in the oldest version that was read); ``version`` and ``written``, the
    #: table's version and its time; ``position`` and ``committed``, those of the change in the source, null if unknown; and the structs
    #: ``before`` and ``after``.
    changes: DataFrame
    #: The table that was read: the one with the history, if there is one.
    table: str
    key: Mapping[str, Any]
    #: The oldest version that was read; None for a table with a history.
    oldest: TableVersion | None = None
    #: Number of older versions that can be read, too.
    unread: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether there are no earlier changes."""
        return self.oldest is None or self.oldest.is_first


@dataclass(frozen=True)
class RowReader:
    """Reader of the history of rows of one table."""

    plan: Plan
    session: SparkSession
    table: str
    sink: str | None

    def read(
        self, key: str | Mapping[str, Any], columns: Sequence[str], since: str | None, until: str | None
    ) -> RowHistory:
        """Read the history of the row with a key. ``columns``: the table's key columns; ``since`` and ``until``: as for ``as_of``."""
        parsed = parse_key(key, columns)
        sink = find_sink(self.plan, self.table, self.sink)
        table, newest = self.table, self._read(self.table)
        if sink.config.mode == "both" and not is_history(newest):
            table = name_history(self.table)
            newest = self._read(table)
        typed = type_key(parsed, newest)
        if is_history(newest):
            _reject_ends(since, until, table)
            rows = newest.where(match_key(typed, newest))
            return RowHistory(list_period_changes(rows, sink.hidden_prefixes), table, parsed)
        chosen = choose_versions(self._list_versions(sink, table), since, until, self._to_millis)
        read, columns_read = chosen[-MAX_VERSIONS:], _select_columns(newest, sink.hidden_prefixes)
        states = [
            _select_state(self._read(table, version), number, typed, columns_read)
            for number, version in enumerate(read)
        ]
        changes = list_changes(_number_versions(self.session, read), states, is_first=read[0].is_first)
        return RowHistory(changes, table, parsed, read[0], len(chosen) - len(read))

    def _list_versions(self, sink: Sink, table: str) -> Sequence[TableVersion]:
        check_time_travel(self.plan, sink)
        if listed := sink.list_versions(self.session, Table(table)):
            return listed
        raise ConfigError(
            "the versions of the table are unknown",
            where=f"table {table}, sink {self.plan.name_of(sink)}",
            fix="set `mode: both`, by which a second table keeps the versions of all rows",
        )

    def _read(self, table: str, version: TableVersion | None = None) -> DataFrame:
        as_of = version.version if version else None
        return read_table(self.plan, self.session, table, as_of=as_of, sink=self.sink, own_columns=True)

    def _to_millis(self, text: str) -> int | None:
        from pyspark.sql import functions as F

        time = F.unix_millis(F.try_to_timestamp(F.lit(text)))
        return self.session.range(0, 1, 1, 1).select(time).collect()[0][0]  # type: ignore[no-any-return]


def choose_versions(
    versions: Sequence[TableVersion], since: str | None, until: str | None, to_millis: Callable[[str], int | None]
) -> Sequence[TableVersion]:
    """Return the versions from the one that was the newest at ``since`` to the one that was it at ``until``."""
    first = 0 if since is None else max(0, _find_version(versions, since, to_millis))
    last = len(versions) - 1 if until is None else _find_version(versions, until, to_millis)
    if last < first:
        raise ConfigError(
            f"no readable version lies between {since or versions[0].version!r} and {until!r}",
            fix="name a later time or version as the end",
        )
    return versions[first : last + 1]


def list_changes(versions: DataFrame, states: Sequence[DataFrame], *, is_first: bool) -> DataFrame:
    """Return the changes between the states of a row. ``is_first``: the table had no rows before the first version."""
    from pyspark.sql import Window, functions as F

    rows = reduce(lambda a, b: a.union(b), states)
    columns = [quote_name(name) for name in rows.columns if not name.startswith(PREFIX)]
    image, in_order = F.when(F.col(_IS_FOUND), F.struct(*columns)), Window.orderBy(_NUMBER)
    lines = versions.join(rows, _NUMBER, "left").select(_NUMBER, TABLE_VERSION, WRITTEN, POSITION, image.alias(AFTER))
    lines = lines.withColumns({BEFORE: F.lag(AFTER).over(in_order), _PREVIOUS: F.lag(POSITION).over(in_order)})
    is_oldest = (F.col(_NUMBER) == 0) & F.col(AFTER).isNotNull() & F.lit(not is_first)
    op = F.when(is_oldest, "r").otherwise(name_change(F.col(_PREVIOUS), F.col(POSITION)))
    committed = F.lit(None).cast("timestamp").alias(COMMITTED)
    found = lines.select(
        op.alias(OP), TABLE_VERSION, WRITTEN, F.col(POSITION).alias(ROW_POSITION), committed, BEFORE, AFTER, _NUMBER
    )
    return found.where(F.col(OP).isNotNull()).orderBy(_NUMBER).drop(_NUMBER)


def list_period_changes(rows: DataFrame, hidden_prefixes: tuple[str, ...]) -> DataFrame:
    """Return the changes of a row from its rows in a table with a history."""
    from pyspark.sql import Window, functions as F

    names = [name for name in rows.columns if not name.startswith(hidden_prefixes) and name not in PERIOD]
    image, in_order = F.struct(*map(quote_name, names)), Window.orderBy(START)
    ended = F.col(PERIOD_VERSION).getField("ended")
    previous = F.lag(F.struct(image.alias("row"), ended.alias("ended"))).over(in_order)
    lines = rows.withColumns({_PREVIOUS: previous, _NEXT: F.lead(START).over(in_order)})
    follows = F.coalesce(F.col(_PREVIOUS).getField("ended") == F.col(START), F.lit(False))
    start = _event(
        F.when(follows, "u").otherwise("c"),
        F.col(START),
        F.col(VALID_FROM),
        before=F.when(follows, F.col(_PREVIOUS).getField("row")),
        after=image,
    )
    # The end of a version is no change of its own where the next version starts.
    is_delete = ended.isNotNull() & ~ended.eqNullSafe(F.col(_NEXT))
    nothing = F.when(F.lit(False), image)
    end = F.when(is_delete, _event(F.lit("d"), ended, F.col(VALID_TO), before=image, after=nothing))
    events = lines.select(START, F.posexplode(F.array_compact(F.array(start, end))).alias(_NUMBER, _EVENT))
    return events.orderBy(START, _NUMBER).select(f"{_EVENT}.*")


def _event(op: Column, position: Column, committed: Column, *, before: Column, after: Column) -> Column:
    from pyspark.sql import functions as F

    return F.struct(
        op.alias(OP),
        F.lit(None).cast("string").alias(TABLE_VERSION),
        F.lit(None).cast("timestamp").alias(WRITTEN),
        position.alias(ROW_POSITION),
        committed.alias(COMMITTED),
        before.alias(BEFORE),
        after.alias(AFTER),
    )


def _select_columns(newest: DataFrame, hidden_prefixes: tuple[str, ...]) -> StructType:
    """Return the columns of the newest version, without those of headrace and the format, except the position."""
    from pyspark.sql import types as T

    own = [field for field in newest.schema if not field.name.startswith(hidden_prefixes)]
    return T.StructType([*own, T.StructField(POSITION, T.StringType())])


def _select_state(rows: DataFrame, number: int, key: Mapping[str, Column], columns: StructType) -> DataFrame:
    """Return the row with a key in one version. Columns that the version lacks are null."""
    from pyspark.sql import functions as F

    state = align(rows.where(match_key(key, rows)), columns)
    return state.withColumns({_NUMBER: F.lit(number), _IS_FOUND: F.lit(True)})


def _number_versions(session: SparkSession, versions: Sequence[TableVersion]) -> DataFrame:
    """Return the versions as rows, without data of the driver that Python would have to send."""
    from pyspark.sql import functions as F

    rows = [
        F.struct(
            F.lit(number).alias(_NUMBER),
            F.lit(version.version).alias(TABLE_VERSION),
            F.timestamp_millis(F.lit(version.written_ms)).alias(WRITTEN),
        )
        for number, version in enumerate(versions)
    ]
    return session.range(0, 1, 1, 1).select(F.inline(F.array(*rows)))


def _find_version(versions: Sequence[TableVersion], text: str, to_millis: Callable[[str], int | None]) -> int:
    """Return the number of a version, or of the newest one at a time; -1 for a time before all versions."""
    if (named := next((i for i, version in enumerate(versions) if version.version == text), None)) is not None:
        return named
    millis = None if text.isdigit() else to_millis(text)
    if millis is None:
        raise ConfigError(
            f"{text!r} is neither a readable version nor a timestamp; the oldest readable version is {versions[0].version}",
            fix='write a timestamp like "2015-07-17 12:00:00", or name a version of `headrace show FILE TABLE --versions`',
        )
    return sum(version.written_ms <= millis for version in versions) - 1


def _reject_ends(since: str | None, until: str | None, table: str) -> None:
    if since is not None or until is not None:
        raise ConfigError(
            "the table has all versions of its rows, with their periods",
            where=f"table {table}",
            fix="leave out `since` and `until`",
        )
