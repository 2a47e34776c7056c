"""Check of the columns that transforms name against those of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.engine.read.tagged_columns import list_names
from headrace.errors import ConfigError
from headrace.registry.hook_results import check_strings
from headrace.schema.field_paths import find_field
from headrace.sdk.changes import Changes
from headrace.sdk.rows import row_types
from headrace.sdk.transform import Transform
from headrace.spark.columns import name_fold
from headrace.spark.row_expressions import read_columns
from headrace.suggestions import did_you_mean


@dataclass
class _Seen:
    """All columns that one transform was given, and the names that were found."""

    columns: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)


@dataclass
class TopicMasks:
    """Masks of a topic: column → rule, and the names for which it has no column."""

    hidden: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        masks = ", ".join(f"{column} by {rule}" for column, rule in self.hidden.items()) or "nothing is masked"
        return masks + (f"; it has no column {', '.join(self.missing)}" if self.missing else "")


class SeenColumns:
    """Columns that transforms were given, to find names that no table has."""

    def __init__(self) -> None:
        self._seen: dict[Transform, _Seen] = {}
        self._skipped: set[Transform] = set()
        #: Topic → its masks; only topics that a masking transform was given.
        self.masks: dict[str, TopicMasks] = {}
        #: Table → its columns before and after the transforms.
        self.tables: dict[str | None, set[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._seen)

    def note(self, transform: Transform, topic: str, changes: Changes) -> None:
        """Record the columns that a transform receives for a topic."""
        seen = self._seen.setdefault(transform, _Seen())
        reads = check_strings(transform, "reads_in", transform.reads_in(changes.table))
        names = [*reads, *_condition_columns(transform)]
        # An expression may spell a column in two ways.
        found = {name for name in names if changes.find_columns([name])}
        if transform.hides_values:  # Other transforms name whole columns.
            found |= {name for name in reads if _has_field(changes, name)}
        seen.columns.update(changes.row_columns)
        seen.found.update(found)
        if transform.hides_values:
            masks = self.masks.setdefault(topic, TopicMasks())
            masks.hidden.update(transform.hides(changes))
            masks.missing += [name for name in reads if name not in found]

    def note_columns(self, changes: Changes) -> None:
        """Record the columns of a table."""
        self.tables.setdefault(changes.table, set()).update(list_names(changes))

    @property
    def is_complete(self) -> bool:
        """Return whether every transform was given its columns."""
        return not self._skipped

    def skip(self, transforms: Iterable[Transform]) -> None:
        """Record transforms that are not planned for a topic, because only data can show the type of a column."""
        self._skipped.update(transforms)

    def has_all(self, transforms: Iterable[Transform]) -> bool:
        """Return whether every name of every transform was found."""
        return not any(self._find_missing(transform) for transform in transforms)

    def check_names(self, *, has_every_column: bool = True) -> list[ConfigError]:
        """Raise ConfigError if a transform names a column that none of its tables has.

        ``has_every_column``: further records do not show further columns; otherwise return the errors for columns that no table has.
        """
        later = []
        for transform, seen in self._seen.items():
            for name in self._find_missing(transform):
                is_elsewhere = name in seen.columns
                error = ConfigError(
                    f"{'none of its tables' if is_elsewhere else 'no table'} has the column {name!r}",
                    where=f"transform {transform.name}",
                    fix="check the tables that it names" if is_elsewhere else did_you_mean(name, seen.columns),
                )
                if has_every_column or is_elsewhere:
                    raise error
                later.append(error)
        return later

    def _find_missing(self, transform: Transform) -> Sequence[str]:
        if transform in self._skipped:
            return []
        seen = self._seen.get(transform, _Seen())
        names = [*check_strings(transform, "reads", transform.reads()), *_condition_columns(transform)]
        return [name for name in names if name not in seen.found]


def _has_field(changes: Changes, name: str) -> bool:
    """Return whether a column of the row has the field of a path such as ``address.street``."""
    column, *path = name.split(".")
    fold = name_fold(changes.frame.sparkSession)
    kinds = [kind for name, kind in row_types(changes).items() if fold(name) == fold(column)]
    return bool(path) and any(find_field(kind, path, fold) for kind in kinds)


def _condition_columns(transform: Transform) -> Sequence[str]:
    return read_columns(transform.condition)
