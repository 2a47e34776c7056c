"""Key columns of ``tables:``, which have their names in the events, before any ``rename``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace_import.connect.smt import NotImportableError, split_list
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block, Line, read_values
from headrace_import.settings import Settings


def read_key(settings: Settings, option: str, steps: Sequence[Block]) -> list[str]:
    """Return the names that the key columns of an option, which the rows have after the steps, have in the events.

    NotImportableError for a column that a step makes. The report names those that may be fields of structs.
    """
    names = split_list(settings.get(option))
    found = {name: _find_name(name, steps) for name in names}
    if made := [name for name, own in found.items() if own is None]:
        why = (
            f"the events have no column {', '.join(made)}, which an SMT adds, and `key:` has the columns of the events"
        )
        raise NotImportableError(why, "name columns of the events in `key:` of `tables:`")
    if nested := [name for name in names if any(_flattens(step, name) for step in steps)]:
        why = f"`key:` has the columns of the events, and Flatten may make {', '.join(nested)} of a struct"
        fix = "name other columns in `key:` of `tables:`, if a struct has the fields"
        settings.reject([option], why, fix, Kind.TO_DO)
    return [own for own in found.values() if own is not None]


def _find_name(name: str, steps: Sequence[Block]) -> str | None:
    """Return the name of a column in the events; None if a step makes it, or renames it in some rows only."""
    for step in reversed(steps):
        if name in _list_made(step):
            return None
        renames = _list_renames(step)
        older = {new: old for old, new in renames.items()}
        if name in (older if "when" in read_values(step).get("rename", {}) else renames.keys() - older.keys()):
            return None
        name = older.get(name, name)
    return name


def _list_renames(step: Block) -> dict[str, str]:
    columns = read_values(step).get("rename", {}).get("columns", {})
    return {old: str(new) for old, new in columns.items()}


def _list_made(step: Block) -> Iterator[str]:
    """Yield the columns that a step adds to the rows."""
    values = read_values(step)
    insert, unwrap = values.get("insert", {}), values.get("unwrap", {})
    yield from insert.get("fields", ())
    yield from (name.rstrip("?!") for option, name in insert.items() if option.endswith(".field"))
    for option in ("add.fields", "add.headers"):
        for item in split_list(unwrap.get(option, "")):
            yield unwrap.get(f"{option}.prefix", "__") + item.rpartition(":")[2].replace(".", "_")


def _flattens(step: Block, name: str) -> bool:
    options = read_values(step).get("flatten")
    return options is not None and options.get("delimiter", ".") in name


def keep_key_columns(key: Block, steps: Sequence[Block]) -> list[str]:
    """Keep the key columns in the rows of `drop` and `keep`, and return those that the transforms would remove.

    Kafka Connect has the key columns in the record's key as well, and a table in its rows alone.
    """
    line, kept = key.entries["key"], list[str]()
    names = list(line.value) if isinstance(line, Line) else []
    for step in steps:
        renames = _list_renames(step)
        names = [renames.get(name, name) for name in names]
        for kind, options in step.entries.items():
            columns = options.entries.get("columns") if isinstance(options, Block) else None
            if kind in ("drop", "keep") and isinstance(columns, Line):
                kept += (removed := [name for name in names if (name in columns.value) == (kind == "drop")])
                rest = [column for column in columns.value if column not in removed]
                columns.value = rest if kind == "drop" else [*columns.value, *removed]
    return kept
