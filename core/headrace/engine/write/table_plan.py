"""What one batch does to one table, decided from schemas before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.engine.read.reserved_names import refuse_reserved_names
from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import HEADERS, NEW_KEY, RAW, RAW_KEY, SNAPSHOT, TOMBSTONE, UNAVAILABLE, Changes
from headrace.sdk.positions import epoch_text
from headrace.sdk.sink import Sink, Table, TableMode

if TYPE_CHECKING:
    from headrace.engine.plan.pipeline_plan import Plan

#: What is said of a table whose rows cannot be found again.
KEYLESS = "its events carry no key, so every change is a row, with its `__op`; `key:` in `tables:` names key columns"


@dataclass(frozen=True)
class BatchMarks:
    """The names by which sinks know again what a batch wrote: a write that a sink has under its mark is skipped.

    ``pipeline``: the checkpoint's id, and a replay's name where dead letters are replayed.
    """

    pipeline: str
    batch: int
    epoch: int = 0

    @property
    def truncate(self) -> str:
        return f"{self.pipeline}/truncate"

    @property
    def tombstones(self) -> str:
        return f"{self.pipeline}/tombstones"

    def dead_letters(self, table: str) -> str:
        return f"{self.pipeline}/dead_letters/{table}"


@dataclass(frozen=True)
class TablePlan:
    """What one batch does to one table. Decided from schemas alone: nothing has been read yet."""

    table: Table
    marks: BatchMarks
    modes: Mapping[Sink, TableMode]
    #: The event's own columns, which sinks are given.
    columns: tuple[str, ...]
    #: Those whose values this batch's events may leave out.
    unavailable: tuple[str, ...] = ()
    #: Events say where a row's primary key changed.
    has_key_changes: bool = False
    #: Events say which rows a snapshot of the whole table read, and what is older may be removed.
    has_snapshots: bool = False
    #: Keys of deleted rows are remembered, so that a late change does not bring one back.
    remembers_deletes: bool = False
    #: Where tombstones may remove rows: what positions have between the epoch and the record's place; None: they are left out.
    position_parts: str | None = None
    #: The sinks whose table a truncate empties; in the others it is a dead letter.
    truncated_sinks: tuple[Sink, ...] = ()

    @classmethod
    def decide(cls, plan: Plan, table: str, changes: Changes, marks: BatchMarks) -> TablePlan:
        """DataError or ConfigError when a sink is asked for what these changes cannot give, or it cannot keep: this is the one
        place that refuses.
        """
        if not changes.event_columns:  # none of its records could be read
            return cls(Table(table), marks, dict.fromkeys(plan.sinks, "append"), ())
        target = Table(table, tuple(changes.key_columns))
        modes = {sink: decide_mode(sink, changes) for sink in plan.sinks}
        upserts = tuple(sink for sink, mode in modes.items() if mode == "upsert")
        if upserts and not target.key:
            raise DataError(
                "its events carry no key, so rows cannot be found again",
                where=f"table {table}",
                fix="name the key columns: `tables: - {source: …, key: [id]}`, or write `mode: append`",
            )
        columns = tuple(changes.event_columns)
        refuse_reserved_names(columns, table, plan.sinks)
        for sink, mode in modes.items():
            sink.check_table(target, mode)
            sink.check_columns(target, columns)
        return cls(
            table=target,
            marks=marks,
            modes=modes,
            columns=columns,
            unavailable=_unavailable_columns(changes, columns),
            has_key_changes=UNAVAILABLE in changes.own_columns and NEW_KEY in changes.own_columns,
            has_snapshots=bool(upserts and plan.removes_rows and SNAPSHOT in changes.own_columns),
            remembers_deletes=bool(upserts and plan.settings.delete_retention_seconds),
            position_parts=changes.position_parts if upserts and plan.removes_rows else None,
            truncated_sinks=upserts if plan.removes_rows else (),
        )

    @property
    def record_columns(self) -> frozenset[str]:
        """What sinks want to know of the records that appended rows are from."""
        return frozenset(c for sink, mode in self.modes.items() if mode != "upsert" for c in sink.record_columns())

    @property
    def keeps_tombstones(self) -> bool:
        """Whether a sink that appends is given tombstones."""
        return TOMBSTONE in self.record_columns

    @property
    def has_tombstones(self) -> bool:
        """Whether what is upserted may be tombstones, which no such sink is given."""
        return self.position_parts is not None

    @property
    def before_place(self) -> str:
        """What the batch's positions have before the record's place, as a regular expression."""
        return epoch_text(self.marks.epoch) + (self.position_parts or "")

    @property
    def upsert_sinks(self) -> tuple[Sink, ...]:
        return tuple(sink for sink, mode in self.modes.items() if mode == "upsert")

    @property
    def default_modes(self) -> dict[str, TableMode]:
        """Sink → mode, where the file says none, so that the events decide."""
        return {sink.name: mode for sink, mode in self.modes.items() if sink.config.mode is None}

    @property
    def is_read_once(self) -> bool:
        """Whether writing reads the rows a single time, so that they need not be cached."""
        sink, *others = self.modes
        return not others and sink.capabilities.single_pass

    @property
    def note(self) -> str | None:
        """What a user has to know of the table, when there is something."""
        return KEYLESS if "changelog" in self.modes.values() and not self.table.key else None


def decide_mode(sink: Sink, changes: Changes) -> TableMode:
    """How a sink keeps these changes: as its options say, else upsert for rows with a key."""
    mode: TableMode | None = sink.config.mode
    if mode in ("upsert", "changelog") and changes.envelope:
        raise DataError(
            f"mode {mode} needs rows, and these are envelopes",
            where=f"sink {sink.name}",
            fix="add `- unwrap: {}` to `transforms:`",
        )
    if mode:
        return mode
    if changes.envelope or not sink.capabilities.upsert:
        return "append"
    return "upsert" if changes.key_columns else "changelog"


def check_capabilities(plan: Plan) -> None:
    """ConfigError when a sink cannot keep what the pipeline asks of it, as far as that is known without Spark."""
    for sink in plan.sinks:
        mode = sink.config.mode
        if mode == "upsert" and not sink.capabilities.upsert:
            raise ConfigError(
                "cannot keep one row per key",
                where=f"sink {sink.name}",
                fix="write `mode: append`, or use another sink",
            )
        appends = mode == "append" or (mode is None and not sink.capabilities.upsert)
        if mode == "changelog":  # what is deleted is a row of it
            continue
        if any(t.deletes_rows for t in plan.transforms) and (appends or not sink.capabilities.delete):
            raise ConfigError(
                "it appends, and cannot remove the rows that the database deletes",
                where=f"sink {sink.name}",
                fix="set `delete.tombstone.handling.mode: rewrite` in `unwrap` to keep a delete as a row, or `drop` to leave it out",
            )
    for sink in plan.sinks:
        _check_record_columns(plan, sink)


def _check_record_columns(plan: Plan, sink: Sink) -> None:
    """ConfigError when a sink stores what the source's records have not, or what transforms do not reach."""
    columns = set(sink.record_columns())
    if not columns:
        return
    if not plan.source.yields_records:
        raise ConfigError(
            f"it stores records by their offsets, and the source {plan.source.name!r} reads files, whose records have none",
            where=f"sink {sink.name}",
            fix="use it for a source of records, or another sink",
        )
    if plan.transforms and RAW in columns:
        raise ConfigError(
            "it stores values as they came, and transforms do not reach into them",
            where=f"sink {sink.name}",
            fix="choose a format of rows, or leave out `transforms:`",
        )
    if plan.hides_values and columns & {RAW_KEY, HEADERS}:
        raise ConfigError(
            "it stores keys or headers as they came, and what hides values does not reach into them",
            where=f"sink {sink.name}",
            fix="store decoded keys and no headers, or hide nothing",
        )


def _unavailable_columns(changes: Changes, columns: tuple[str, ...]) -> tuple[str, ...]:
    if UNAVAILABLE not in changes.own_columns:
        return ()
    names: list[str] = getattr(changes.frame.schema[UNAVAILABLE].dataType, "names", [])
    return tuple(name for name in names if name in columns)
