"""The columns that transforms were given and those that they name, table by table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.errors import ConfigError
from headrace.sdk.changes import Changes
from headrace.sdk.transform import Transform
from headrace.suggestions import did_you_mean


@dataclass
class _Seen:
    """Of one transform: all columns that it was given, and the names for which there was one where it looks."""

    columns: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)


@dataclass
class TopicMasks:
    """What transforms hide of a topic: column → rule, and the names for which it has no column."""

    hidden: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        masks = ", ".join(f"{column} by {rule}" for column, rule in self.hidden.items()) or "nothing is masked"
        return masks + (f"; it has no column {', '.join(self.missing)}" if self.missing else "")


class SeenColumns:
    """Notes what transforms are given, and says which of the names they use are in no table."""

    def __init__(self) -> None:
        self._seen: dict[Transform, _Seen] = {}
        #: Topic → what is hidden of it; only topics that a transform with such rules was given.
        self.masks: dict[str, TopicMasks] = {}

    def __bool__(self) -> bool:
        return bool(self._seen)

    def note(self, transform: Transform, topic: str, changes: Changes) -> None:
        """What a transform is given of a topic."""
        seen = self._seen.setdefault(transform, _Seen())
        wanted = transform.reads_in(changes.table)
        found = set(changes.find_columns(wanted).values())
        seen.columns.update(changes.row_columns)
        seen.found.update(found)
        if transform.hides_values:
            masks = self.masks.setdefault(topic, TopicMasks())
            masks.hidden.update(transform.hides(changes))
            masks.missing += [name for name in wanted if name not in found]

    def has_all(self, transforms: Iterable[Transform]) -> bool:
        """Whether every name of every transform was found."""
        return not any(self._find_missing(transform) for transform in transforms)

    def check_names(self) -> None:
        """ConfigError when a transform names a column that no table has, of those in which it looks for it."""
        for transform, seen in self._seen.items():
            for name in self._find_missing(transform):
                is_elsewhere = name in seen.columns
                raise ConfigError(
                    f"there is no column {name!r} in any table" + (" that it is for" if is_elsewhere else ""),
                    where=f"transform {transform.name}",
                    fix="check the tables that it names" if is_elsewhere else did_you_mean(name, seen.columns),
                )

    def _find_missing(self, transform: Transform) -> Sequence[str]:
        seen = self._seen.get(transform, _Seen())
        return [name for name in transform.reads() if name not in seen.found]
