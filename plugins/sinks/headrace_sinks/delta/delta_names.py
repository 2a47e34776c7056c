"""Names of columns that Delta allows only if columns are mapped to other names in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.sdk import DataError
from headrace_sinks.delta.delta_handle import MAPPING
from headrace_sinks.delta.delta_readers import explain_mapping

_FORBIDDEN = frozenset(" ,;{}()\n\t=")


def needs_mapping(names: Iterable[str]) -> bool:
    """Return whether Delta allows one of the names only in a table with mapped columns."""
    return any(not _FORBIDDEN.isdisjoint(name) for name in names)


def check_names(names: Iterable[str], properties: Mapping[str, str], readers: Sequence[str]) -> None:
    """Raise DataError for the name of a column or nested field that a table with these properties cannot have."""
    if properties.get(MAPPING, "none") != "none":
        return
    for name in names:
        if needs_mapping([name]):
            reason = explain_mapping(readers)
            way_on = (
                f"remove the reader from `readers`, because {reason}"
                if reason
                else f"set the table property `{MAPPING}` to `name` (for an existing table with `ALTER TABLE … SET TBLPROPERTIES`)"
            )
            raise DataError(
                f"Delta does not allow the column name {name!r}: it has a space or one of `,;{{}}()=`",
                where="sink delta",
                fix=f"change the name with `rename` under `transforms:`, that of a nested field after `flatten`; or {way_on}",
            )


def check_merged_names(names: Iterable[str]) -> None:
    """Raise DataError for the name of a column that Delta's MERGE cannot resolve, because it does not escape the quotes."""
    for name in names:
        if "`" in name:
            raise DataError(
                f"Delta cannot update a column of the name {name!r}: it has a backquote",
                where="sink delta",
                fix="change the name with `rename` under `transforms:`, or set `mode: append`",
            )
