"""Properties of Delta tables that all readers support."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.sdk import ConfigError
from headrace_sinks.delta.delta_handle import MAPPING, DeltaHandle
from headrace_sinks.delta.delta_names import needs_mapping
from headrace_sinks.delta.delta_readers import explain_mapping, find_support
from headrace_sinks.reader_support import (
    Support,
    all_read,
    describe,
    incompatible_readers,
    join_names,
    unknown_readers,
)

DELETION_VECTORS = "delta.enableDeletionVectors"
_FEATURE = "deletion vectors"
_WHERE = "sink delta"


@dataclass(frozen=True)
class DeltaTableOptions:
    """Options for new tables, and the readers that must support them."""

    readers: Sequence[str] = ()
    #: The configured table properties.
    options: Mapping[str, str] = field(default_factory=dict)

    def properties(self, names: Collection[str] = ()) -> dict[str, str]:
        """Return the properties of new tables. ConfigError for a property that a reader does not support.

        ``names``: names of a table's columns and nested fields. Delta allows some of them only if columns are mapped.
        """
        support, configured = self._support, self.options.get(DELETION_VECTORS)
        if configured == "true" and incompatible_readers(support):
            raise ConfigError(
                f"batches mark replaced rows with {_FEATURE}, but {describe(support, _FEATURE)}",
                where=f"{_WHERE}, {DELETION_VECTORS}",
                fix=f"remove the option, or remove {join_names(incompatible_readers(support))} from `readers`",
            )
        is_mapped = needs_mapping(names) and explain_mapping(self.readers) is None
        mapping = {MAPPING: "name"} if is_mapped else {}
        return {DELETION_VECTORS: str(all_read(support)).lower(), **mapping, **self.options}

    def warnings(self) -> Iterator[str]:
        """Warn about costs of the choice and about unknown support."""
        support, configured = self._support, self.options.get(DELETION_VECTORS)
        unknown = join_names(unknown_readers(support))
        if configured == "true" and unknown:
            yield f"batches write {_FEATURE}, and it is not known whether {unknown} can read them: test it before you rely on it"
        elif configured is None and not all_read(support):
            reasons = [describe(support, _FEATURE)] if incompatible_readers(support) else []
            reasons += [f"it is not known whether {unknown} can read {_FEATURE}"] if unknown else []
            yield (
                f"new tables have no {_FEATURE}, so a batch rewrites every file that has a changed row: {', and '.join(reasons)}"
            )

    def check_stored(self, handle: DeltaHandle, name: str) -> None:
        """Raise ConfigError when a reader would not read the right rows of an existing table."""
        support = self._support
        if not incompatible_readers(support):
            return
        if handle.properties.get(DELETION_VECTORS) == "true" or handle.count_deletion_vectors():
            raise ConfigError(
                f"the table has {_FEATURE}, and {describe(support, _FEATURE)}",
                where=f"table {name}, {_WHERE}, readers",
                fix=f"ALTER TABLE delta.`{handle.path}` SET TBLPROPERTIES ('{DELETION_VECTORS}' = 'false'); then REORG TABLE "
                f"delta.`{handle.path}` APPLY (PURGE); or remove {join_names(incompatible_readers(support))} from `readers`",
            )

    @property
    def _support(self) -> dict[str, Support]:
        return find_support(self.readers, "deletion_vectors")
