"""Plan of one batch for one table, decided from schemas before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.row_store import BATCH_BITS
from headrace.engine.read.reserved_names import reject_empty_structs, reject_reserved_names
from headrace.engine.write.feed_writer import check_feed, check_feed_options
from headrace.engine.write.history_plan import HISTORY_MODES, KEYED, check_history, check_history_options, name_history
from headrace.engine.write.view_modes import check_views
from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import HEADERS, KEY, NEW_KEY, RAW, RAW_KEY, SNAPSHOT, TOMBSTONE, UNAVAILABLE, Changes
from headrace.sdk.positions import epoch_text
from headrace.sdk.sink import Sink, Table, TableMode
from headrace.spark.columns import fold_name

if TYPE_CHECKING:
    from headrace.engine.plan.pipeline_plan import Plan

#: Note for a table without a key.
KEYLESS = "its events have no key, so every change is a row with its `__op`; `key:` in `tables:` names key columns"


@dataclass(frozen=True)
class BatchMarks:
    """Marks by which sinks recognize the writes of a batch: a write whose mark a sink already has is skipped.

    ``pipeline``: the checkpoint's id, and the name of a replay or of a series of batches (``Target.split_by_series``), in which the numbers
    ascend; ``digest``: digest of the batch's offsets, if known;
    ``write``: number that no other write has, if a replay has the number of an earlier batch.
    """

    pipeline: str
    batch: int
    epoch: int = 0
    digest: str = ""
    write: int | None = None

    @property
    def number(self) -> int:
        """Number of the write in the state of its table. Two writes of one batch read other offsets."""
        if self.write is not None:
            return self.write
        return int(self.digest or "0", 16) << BATCH_BITS | self.batch

    @property
    def truncate(self) -> str:
        return f"{self.pipeline}/truncate"

    @property
    def tombstones(self) -> str:
        return f"{self.pipeline}/tombstones"

    @property
    def missing(self) -> str:
        return f"{self.pipeline}/missing"

    def dead_letters(self, table: str) -> str:
        return f"{self.pipeline}/dead_letters/{table}"


@dataclass(frozen=True)
class TablePlan:
    """Plan of one batch for one table. Decided from schemas only: nothing has been read yet."""

    table: Table
    marks: BatchMarks
    modes: Mapping[Sink, TableMode]
    #: The event's own columns, which sinks write.
    columns: tuple[str, ...]
    #: Rows are whole events: a delete is a row like any other.
    has_envelopes: bool = False
    #: Columns whose values events of this batch may leave out.
    unavailable: tuple[str, ...] = ()
    #: Events report changes of a row's primary key.
    has_key_changes: bool = False
    #: Events identify the rows of a snapshot of the whole table, and older rows may be removed.
    has_snapshots: bool = False
    #: Keys of deleted rows are remembered, so that no late change restores a row.
    remembers_deletes: bool = False
    #: If tombstones may remove rows: the part of positions between the epoch and the record's location; None: tombstones are left
    #: out.
    position_parts: str | None = None
    #: Sinks whose table a truncate empties; in the others it is a dead letter.
    truncated_sinks: tuple[Sink, ...] = ()
    #: Note for the user about the epoch of the stored rows, if any.
    epoch_note: str | None = None
    #: Plan of the second table, with the versions of the rows, for the sinks in mode ``both``; None without one.
    history: TablePlan | None = None

    @classmethod
    def decide(
        cls, plan: Plan, table: str, changes: Changes, marks: BatchMarks, rule_key: Sequence[str] = ()
    ) -> TablePlan:
        """Decide the plan. DataError or ConfigError if a sink cannot keep these changes; no other place checks this.

        ``rule_key``: key columns of the pipeline file, by which a truncate removes rows if no record shows a column.
        """
        if not changes.event_columns:
            return cls._without_columns(plan, Table(table, tuple(rule_key)), marks)
        target = Table(table, tuple(changes.key_columns))
        modes = {sink: decide_mode(sink, changes) for sink in plan.sinks}
        upserts = tuple(sink for sink, mode in modes.items() if mode in KEYED)
        if upserts and not target.key:
            raise DataError(
                "its events have no key, so rows cannot be updated",
                where=f"table {table}",
                fix="name the key columns: `tables: - {source: …, key: [id]}`, or set `mode: append`",
            )
        if upserts:
            _check_key_columns(table, changes)
        if plan.source.finds_missing_rows and len(upserts) < len(modes):
            raise DataError(
                "the source compares keys to find missing rows, and its events have no key",
                where=f"table {table}",
                fix="name the key columns: `tables: - {source: …, key: [id]}`",
            )
        columns = tuple(changes.event_columns)
        reject_reserved_names(columns, table, plan.sinks)
        if any(sink.capabilities.upsert for sink in modes):
            reject_empty_structs((changes.frame.schema[name] for name in columns), table)
        _check_sinks(plan, target, modes, changes)
        made = cls(
            table=target,
            marks=marks,
            modes=modes,
            columns=columns,
            has_envelopes=changes.envelope,
            unavailable=_unavailable_columns(changes, columns),
            has_key_changes=UNAVAILABLE in changes.own_columns and NEW_KEY in changes.own_columns,
            has_snapshots=bool(upserts and plan.removes_rows(table) and SNAPSHOT in changes.own_columns),
            remembers_deletes="upsert" in modes.values() and bool(plan.settings.delete_retention_seconds),
            position_parts=changes.position_parts if upserts and plan.removes_rows(table) else None,
            truncated_sinks=upserts if plan.removes_rows(table) else (),
        )
        return made.with_history()

    def with_history(self) -> TablePlan:
        """Return the plan with the one of the second table, if a sink in mode ``both`` upserts the table."""
        sinks = [sink for sink in dict.fromkeys([*self.modes, *self.truncated_sinks]) if sink.config.mode == "both"]
        if not sinks:
            return self
        table = Table(name_history(self.table.name), self.table.key)
        truncated = tuple(sink for sink in sinks if sink in self.truncated_sinks)
        return replace(
            self, history=replace(self, table=table, modes=dict.fromkeys(sinks, "history"), truncated_sinks=truncated)
        )

    @classmethod
    def _without_columns(cls, plan: Plan, table: Table, marks: BatchMarks) -> TablePlan:
        """Return the plan of a batch of which no record becomes a row."""
        can_upsert = bool(table.key) and plan.removes_rows(table.name)
        modes: dict[Sink, TableMode] = {
            sink: _main_mode(sink) or ("upsert" if can_upsert and sink.capabilities.upsert else "append")
            for sink in plan.sinks
        }
        upserts = tuple(sink for sink, mode in modes.items() if mode in KEYED and can_upsert)
        return cls(table, marks, modes, (), truncated_sinks=upserts).with_history()

    @property
    def record_columns(self) -> frozenset[str]:
        """Columns of the source records that append sinks store."""
        return frozenset(c for sink, mode in self.modes.items() if mode not in KEYED for c in sink.record_columns())

    @property
    def keeps_tombstones(self) -> bool:
        """Whether an append sink stores tombstones."""
        return TOMBSTONE in self.record_columns

    @property
    def has_tombstones(self) -> bool:
        """Whether the rows to upsert may include tombstones. They are dropped before the write."""
        return self.position_parts is not None

    @property
    def before_place(self) -> str:
        """Part of the batch's positions before the record's location, as a regular expression."""
        return epoch_text(self.marks.epoch) + (self.position_parts or "")

    @property
    def upsert_sinks(self) -> tuple[Sink, ...]:
        """Sinks that find rows by their key."""
        return tuple(sink for sink, mode in self.modes.items() if mode in KEYED)

    @property
    def keeps_history(self) -> bool:
        """Whether a sink keeps versions of the rows, in this table or in a second one."""
        return self.history is not None or bool(self.history_sinks)

    @property
    def history_sinks(self) -> tuple[Sink, ...]:
        """Sinks that keep versions of the rows in this table."""
        return tuple(sink for sink, mode in self.modes.items() if mode == "history")

    @property
    def feed_sinks(self) -> tuple[Sink, ...]:
        """Sinks that also keep the changes of this table's rows."""
        sinks = dict.fromkeys([*self.modes, *self.truncated_sinks])
        return tuple(s for s in sinks if s.config.changes and self.modes.get(s, "upsert") == "upsert")

    @property
    def needs_commit_times(self) -> bool:
        """Whether a table with versions or changes stores commit times."""
        return self.keeps_history or bool(self.feed_sinks)

    @property
    def writes(self) -> list[tuple[Table, Sink, TableMode]]:
        """Tables that sinks write with their modes; the second tables of mode ``both`` come last."""
        own = [(self.table, sink, mode) for sink, mode in self.modes.items()]
        return [*own, *self.history.writes] if self.history else own

    @property
    def is_read_once(self) -> bool:
        """Whether the write reads the rows only once, so that they need no cache."""
        sink, *others = self.modes
        return not others and sink.capabilities.single_pass and not self.needs_commit_times

    @property
    def note(self) -> str | None:
        """Note for the user about the table, if any."""
        is_keyless = "changelog" in self.modes.values() and not self.table.key
        return self.epoch_note or (KEYLESS if is_keyless else None)


def _check_sinks(plan: Plan, table: Table, modes: Mapping[Sink, TableMode], changes: Changes) -> None:
    """Raise DataError or ConfigError if a sink cannot keep these changes with its options."""
    session = changes.frame.sparkSession
    for sink, mode in modes.items():
        if sink.config.mode in HISTORY_MODES:
            check_history(sink, table, changes.event_columns)
        if sink.config.changes and mode == "upsert":
            check_feed(sink, table, changes.event_columns)
        if mode != "history":
            sink.check_table(table, mode)
        sink.check_columns(session, table, changes.event_columns)
        sink.check_source(plan.source, [table.name], session)


def decide_mode(sink: Sink, changes: Changes) -> TableMode:
    """Return the mode of a sink: its option ``mode``, or the default for the changes."""
    mode = _main_mode(sink)
    if mode in (*KEYED, "changelog") and changes.envelope:
        raise DataError(
            f"mode {mode} requires rows, and the events are envelopes",
            where=f"sink {sink.name}",
            fix="add `- unwrap: {}` to `transforms:`",
        )
    if mode:
        return mode
    if changes.envelope or not sink.capabilities.upsert:
        return "append"
    return "upsert" if changes.key_columns else "changelog"


def _main_mode(sink: Sink) -> TableMode | None:
    """Return the mode of a sink for the table itself, without the second table of mode ``both``."""
    mode: TableMode | None = sink.config.mode
    return "upsert" if mode == "both" else mode


def check_capabilities(plan: Plan) -> None:
    """Raise ConfigError if a sink lacks a capability that the pipeline needs, as far as known without Spark."""
    for variant in plan.table_variants:
        _check_modes(variant)
        _check_missing_rows(variant)
        for sink in variant.sinks:
            _check_record_columns(variant, sink)
    _check_places(plan)
    _check_loops(plan)
    check_views(plan)


def _check_modes(plan: Plan) -> None:
    """Raise ConfigError if a sink has a mode that it does not support, or cannot apply deletes."""
    for sink in plan.sinks:
        mode = sink.config.mode
        check_history_options(plan, sink)
        check_feed_options(plan, sink)
        if mode == "upsert" and not sink.capabilities.upsert:
            raise ConfigError(
                "cannot keep one row per key",
                where=f"sink {plan.name_of(sink)}",
                fix="set `mode: append`, or use another sink",
            )
        appends = mode == "append" or (mode is None and not sink.capabilities.upsert)
        if mode == "changelog":  # A changelog keeps deletes as rows.
            continue
        removes = sink.capabilities.delete and not (appends and sink.capabilities.upsert)
        if any(t.deletes_rows for t in plan.transforms) and not removes:
            raise ConfigError(
                "it appends, so it cannot remove rows that the database deletes",
                where=f"sink {plan.name_of(sink)}",
                fix="set `delete.tombstone.handling.mode: rewrite` in `unwrap` to keep a delete as a row, or `drop` to leave it "
                "out; in `filter`, set `updates: drop`",
            )


def _check_missing_rows(plan: Plan) -> None:
    """Raise ConfigError if the source finds missing rows, and a sink cannot remove them: only rows with keys can be compared."""
    if not plan.source.finds_missing_rows:
        return
    for sink in plan.sinks:
        if sink.config.mode in ("append", "changelog") or not (sink.capabilities.upsert and sink.capabilities.delete):
            raise ConfigError(
                "the source compares keys to find missing rows, and the sink does not keep one row per key",
                where=f"sink {plan.name_of(sink)}",
                fix="set `mode: upsert`, use a sink of tables, or remove the comparison from the options of the source",
            )


def _check_places(plan: Plan) -> None:
    """Raise ConfigError for two sinks in one place. Both have the marks of the same batches: the second would skip all of them."""
    found: dict[str, Sink] = {}
    for sink in plan.sinks:
        place = (sink.place() or "").rstrip("/")
        if place and (other := found.setdefault(place, sink)) is not sink:
            raise ConfigError(
                f"it writes to the same place as the sink {plan.name_of(other)}: {place}",
                where=f"sink {plan.name_of(sink)}",
                fix="give each sink its own folder or catalog",
            )


def _check_loops(plan: Plan) -> None:
    """Raise ConfigError if a sink writes records that the source reads, as far as the file names the topics."""
    for topic in plan.source.named_topics():
        route = plan.routes.of(topic)
        if route is not None and not route.by and not route.error:
            for sink in plan.for_table(route.table).sinks:
                sink.check_source(plan.source, [route.table])


def _check_record_columns(plan: Plan, sink: Sink) -> None:
    """Raise ConfigError if a sink stores columns that the source's records lack, or that transforms do not process."""
    columns = set(sink.record_columns())
    if not columns:
        return
    if not plan.source.yields_records:
        raise ConfigError(
            f"it stores records by offset, and the source {plan.source.name!r} reads files, whose records have no offsets",
            where=f"sink {plan.name_of(sink)}",
            fix="use it with a source of records, or use another sink",
        )
    if plan.transforms and RAW in columns:
        raise ConfigError(
            "it stores raw values, which transforms do not change",
            where=f"sink {plan.name_of(sink)}",
            fix="choose a row format, or remove `transforms:`",
        )
    # A tagged column may be dropped, or computed again, instead of masked.
    if (plan.hides_values or plan.tags) and columns & {RAW_KEY, HEADERS}:
        raise ConfigError(
            "it stores raw keys or headers, which masks do not change, and which may contain columns of `tags:`",
            where=f"sink {plan.name_of(sink)}",
            fix="store decoded keys and no headers, or mask nothing and remove `tags:`",
        )


def _check_key_columns(table: str, changes: Changes) -> None:
    """Raise DataError for a key column that the rows lack, and for a struct or a map: sinks cannot find rows by such values."""
    columns = set(map(fold_name, changes.event_columns))
    if missing := [name for name in changes.key_columns if fold_name(name) not in columns]:
        raise DataError(
            f"the keys of its records have the column {missing[0]!r}, and the rows lack it",
            where=f"table {table}",
            fix="keep the column in the value of the records, such as in `include` of the connector's ReplaceField, or set "
            "`mode: append`",
        )
    key: Any = changes.frame.schema[KEY].dataType
    for field in key:
        if field.dataType.typeName() in ("struct", "map"):
            raise DataError(
                f"key column {field.name!r} has the type {field.dataType.simpleString()}, and a key consists of plain values",
                where=f"table {table}",
                fix="name columns with plain values: `tables: - {source: …, key: [COLUMN]}`, or set `mode: append`",
            )


def _unavailable_columns(changes: Changes, columns: tuple[str, ...]) -> tuple[str, ...]:
    if UNAVAILABLE not in changes.own_columns:
        return ()
    names: list[str] = getattr(changes.frame.schema[UNAVAILABLE].dataType, "names", [])
    return tuple(name for name in names if name in columns)
