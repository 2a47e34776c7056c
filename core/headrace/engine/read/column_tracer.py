"""Columns of a topic that are followed through the transforms, as tags are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.engine.read.tagged_columns import add_places, find_copies, list_prefixes
from headrace.progress.lineage import ColumnSource
from headrace.sdk.changes import Changes
from headrace.sdk.rows import row_types
from headrace.sdk.transform import Transform
from headrace.spark.columns import fold_name
from headrace.spark.row_expressions import read_columns

#: Prefix of the tags of followed columns. Tags of a pipeline do not begin with it.
_MARK = "\0"


@dataclass(frozen=True)
class TopicTrace:
    """Columns of a topic and of its table. ``given``, ``made``: column → type in Spark SQL."""

    topic: str
    given: Mapping[str, str]
    made: Mapping[str, str]
    sources: Mapping[str, frozenset[ColumnSource]]
    filters: frozenset[ColumnSource]


class ColumnTracer:
    """Tracer of the columns of one topic. Each has a tag of its own, which follows its values as a tag of the pipeline does."""

    def __init__(self, topic: str, changes: Changes) -> None:
        self._topic, self._given = topic, list_types(changes)
        #: Column of the topic, and what was done to its values → the columns that have them now.
        self._traces: dict[ColumnSource, frozenset[str]] = {
            ColumnSource(topic, name): frozenset(_add_copies(changes, [name])) for name in self._given
        }
        self._filters: set[ColumnSource] = set()
        self._is_broken = False

    def mark(self, changes: Changes) -> Changes:
        """Return the changes with the tags of followed columns, which the transforms rename with the columns."""
        marks = {f"{_MARK}{number}": names for number, names in enumerate(self._traces.values())}
        return replace(changes, tags={**changes.tags, **marks})

    def follow(self, before: Changes, after: Changes, transform: Transform) -> Changes:
        """Note what a transform did to the columns; return its changes without the tags of followed columns."""
        try:
            if transform.applies_to(before.table):
                self._note_filter(before, transform)
                self._traces = self._find_traces(before, after, transform)
        except Exception:  # noqa: BLE001 - an unknown lineage never fails a batch
            self._is_broken = True
        return replace(after, tags={tag: names for tag, names in after.tags.items() if not tag.startswith(_MARK)})

    def end(self, changes: Changes) -> TopicTrace | None:
        """Return the columns of the table with their sources; None after an error of a transform's plugin."""
        if self._is_broken:
            return None
        made, found = list_types(changes), defaultdict[str, set[ColumnSource]](set)
        for source, names in self._traces.items():
            for name in names & made.keys():
                is_converted = made[name] != self._given[source.column]
                found[name].add(replace(source, is_changed=source.is_changed or is_converted))
        sources = {name: frozenset(found[name]) for name in made}
        return TopicTrace(self._topic, self._given, made, sources, frozenset(self._filters))

    def _find_traces(self, before: Changes, after: Changes, transform: Transform) -> dict[ColumnSource, frozenset[str]]:
        hidden = set(map(fold_name, transform.hides(before))) if transform.hides_values else set()
        around = set[str]().union(*map(list_prefixes, hidden)) - hidden
        computed = {name: reads for name, reads in after.derived.items() if before.derived.get(name) != reads}
        present = set(map(fold_name, after.row_columns)) - set(map(fold_name, computed))
        added = replace(after, origins={n: path for n, path in after.origins.items() if n not in before.origins})
        found = self._find_computed(computed)
        for number, (source, names) in enumerate(self._traces.items()):
            kept = {name for name in after.tags.get(f"{_MARK}{number}", names) if fold_name(name) in present}
            masked = {name for name in kept if fold_name(name) in hidden}
            parts = {name for name in kept if fold_name(name) in around}
            changed = replace(source, is_changed=True)
            # A mask with `when` leaves the values of other rows.
            found[replace(changed, is_masked=source.is_masked or transform.condition is None)] |= masked
            found[changed] |= parts
            found[source] |= add_places(after, kept - masked - parts) | _add_copies(added, kept - masked - parts)
        return {source: frozenset(names) for source, names in found.items() if names}

    def _find_computed(self, computed: Mapping[str, Collection[str]]) -> defaultdict[ColumnSource, set[str]]:
        """Return the columns of the topic → the columns that a transform computed from them."""
        holders, found = defaultdict[str, set[ColumnSource]](set), defaultdict[ColumnSource, set[str]](set)
        for source, names in self._traces.items():
            for name in names:
                holders[fold_name(name)].add(replace(source, is_changed=True))
        for column, reads in computed.items():
            for name in {prefix for read in reads for prefix in list_prefixes(read)}:
                for source in holders.get(name, ()):
                    found[source].add(column)
        return found

    def _note_filter(self, changes: Changes, transform: Transform) -> None:
        """Note the columns that decide which rows are left out."""
        if transform.filters:
            names = [*transform.reads_in(changes.table), *read_columns(transform.condition)]
            folded = set(map(fold_name, names))
            self._filters |= {source for source, columns in self._traces.items() if _has_any(columns, folded)}


def list_types(changes: Changes) -> dict[str, str]:
    """Return column → type in Spark SQL, of rows in row images too."""
    types = row_types(changes)
    return {name: types[name].simpleString() for name in changes.row_columns if name in types}


def _add_copies(changes: Changes, names: Iterable[str]) -> set[str]:
    return find_copies(changes, names) | set(names)


def _has_any(columns: Collection[str], folded: set[str]) -> bool:
    return any(fold_name(name) in folded for name in columns)
