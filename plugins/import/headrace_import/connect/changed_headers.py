"""Headers that SMTs of a chain add or remove. The records that headrace reads have the headers before these SMTs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace_import.connect.smt import Condition, Imported, NotImportableError, Smt
from headrace_import.pipeline_draft import Block, Line, read_values

#: SMTs that add or remove headers, with the options that name them.
_OPTIONS = {
    "InsertHeader": ("header",),
    "HeaderFrom": ("headers",),
    "DropHeaders": ("headers",),
    "ExtractChangedRecordState": ("header.changed.name", "header.unchanged.name"),
}
#: Text that InsertHeader keeps as text: it reads numbers, times, `true` and `null` as values of their types.
_WORD = re.compile(r"(?!(?:true|false|null)$)[a-z_]+", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class ChangedHeader:
    """Header that an SMT adds or removes, as far as it is known. ``text``: its value; ``is_column``: `unwrap` makes a column of it."""

    text: str = ""
    is_column: bool = False


def list_changed_headers(smt: Smt) -> dict[str, ChangedHeader]:
    """Return the headers that an SMT adds or removes."""
    is_for_all = not smt.get("predicate")
    if smt.class_name == "ExtractNewRecordState":
        names = (item.rpartition(":")[2].replace(".", "_") for item in smt.list_items("add.headers"))
        return {smt.get("add.headers.prefix", "__") + name: ChangedHeader(is_column=is_for_all) for name in names}
    if smt.class_name.endswith("EventRouter"):
        placed = (item.split(":") for item in smt.list_items("table.fields.additional.placement"))
        return dict.fromkeys(["id", *(parts[-1 if parts[2:] else 0] for parts in placed)], ChangedHeader())
    if smt.class_name == "HeaderToValue":
        moved = smt.list_items("headers") if smt.get("operation").lower() == "move" else []
        return dict.fromkeys(moved, ChangedHeader())
    text = smt.get("value.literal") if smt.class_name == "InsertHeader" and is_for_all else ""
    known = ChangedHeader(text if _WORD.fullmatch(text) else "")
    return {name: known for option in _OPTIONS.get(smt.class_name, ()) for name in smt.list_items(option)}


def replace_headers(
    smt: Smt,
    result: Imported,
    condition: Condition | None,
    changed: Mapping[str, ChangedHeader],
    steps: Sequence[Block],
) -> None:
    """Take the columns of a HeaderToValue from what makes their headers, and report those whose values are not known.

    ``steps``: those before it. NotImportableError if no column is left.
    """
    headers, columns = smt.list_items("headers"), smt.list_items("fields")
    if not set(headers) & set(changed):
        return
    (step,) = result.steps
    pairs, comment = list(zip(headers, columns, strict=False)), smt.cite("headers", "fields")
    own = [(header, column) for header, column in pairs if header not in changed]
    others, lost, renames = list[Block](), list[str](), Block(comment=comment)
    for header, column in ((header, column) for header, column in pairs if header in changed):
        if text := changed[header].text:
            static = {"static.field": Line(column, comment), "static.value": Line(text)}
            others.append(Block({"insert": Block({**static}, smt.cite("type"))}))
        elif changed[header].is_column and not condition and header not in renames.entries and _is_kept(header, steps):
            renames.add(header, column)
        else:
            lost.append(header)
    if renames.entries:
        others.append(Block({"rename": Block({"columns": renames}, smt.cite("type"))}))
    if own:
        insert = {"headers": Line([h for h, _ in own], comment), "fields": Line([c for _, c in own], comment)}
        step.entries["insert"] = Block({**insert}, smt.cite("type"))
    result.steps = [*([step] if own else []), *others]
    if lost:
        _report(smt, lost, has_others=bool(result.steps))


def _report(smt: Smt, lost: Sequence[str], *, has_others: bool) -> None:
    why = f"it reads the headers {', '.join(lost)}, which an SMT before it adds or removes; headrace reads the headers before that SMT"
    fix = "`compute` or `rename` of the column that has the value, or `insert` with `static.field`"
    if not has_others:
        raise NotImportableError(why, fix)
    smt.settings.reject([f"{smt.prefix}headers"], why, fix)


def _is_kept(column: str, steps: Sequence[Block]) -> bool:
    """Return whether the rows still have the column of a header that the only `unwrap` of the steps has made."""
    places = [number for number, step in enumerate(steps) if "unwrap" in step.entries]
    if len(places) != 1:
        return False
    later = steps[places[0] + 1 :]
    return not any({"keep", "flatten"} & set(step.entries) or column in repr(read_values(step)) for step in later)
