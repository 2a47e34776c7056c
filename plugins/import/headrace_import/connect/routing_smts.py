"""Single message transforms that name topics and keys, as rules of ``tables:``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace_import.connect.smt import Imported, NotImportableError, Smt
from headrace_import.pipeline_draft import Block, Line

_GROUP = re.compile(r"\$(?:(\d)|\{(\w+)\})")
_TABLE_NAME = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)


def import_regex_router(smt: Smt) -> Imported:
    """Import new names for topics."""
    rule = _make_rule(smt, "regex", "replacement")
    return Imported(rules=[rule])


def import_logical_table_router(smt: Smt) -> Imported:
    """Import one table for several topics."""
    rule = _make_rule(smt, "topic.regex", "topic.replacement")
    rule.add("logical.table", value=True, comment=smt.cite("type"))
    keys = [
        key for key in smt.list_keys() if key.startswith(f"{smt.prefix}key.") and key in smt.settings.list_remaining()
    ]
    why = "headrace adds no field to the key: the key columns must be unique across the source tables"
    fix = "name unique key columns with `key:` in `tables:`, or leave the SMT in the connector"
    if smt.get("key.enforce.uniqueness").lower() == "false":
        smt.settings.ignore(keys, "headrace adds no field to the key")
    else:
        smt.settings.reject(keys, why, fix)
        smt.settings.add_to_do([smt.type_key], why, fix)
    smt.settings.ignore_matches([f"{smt.prefix}*"], "headrace makes no schema names and keeps no cache of them")
    return Imported(rules=[rule])


def import_value_to_key(smt: Smt) -> Imported:
    """Import the key columns."""
    columns = smt.list_items("fields")
    if not columns:
        raise NotImportableError("it names no fields", "name the key columns with `key:` in `tables:`")
    smt.settings.ignore_matches([f"{smt.prefix}replace.null.with.default"], "a key column is not null")
    return Imported(key=Block({"key": Line(columns, smt.cite("type", "fields"))}))


def _make_rule(smt: Smt, regex: str, replacement: str) -> Block:
    """Return the rule for topics that match a regular expression."""
    pattern, target = smt.get(regex), _GROUP.sub(lambda m: f"{{{m[1] or m[2]}}}", smt.get(replacement))
    check_pattern(pattern)
    if not is_table_name(re.sub(r"\{\d\}", "x", target)) or _has_missing_group(pattern, target):
        fix = "write `target:` in a rule of `tables:`"
        raise NotImportableError("its replacement is not the name of a table: letters, digits, `_`, `-` and dots", fix)
    rule = Block()
    rule.add("source", f"/{pattern}/", smt.cite("type", regex))
    rule.add("target", target, smt.cite(replacement))
    return rule


def check_pattern(pattern: str) -> None:
    """Raise NotImportableError for a regular expression that does not compile here."""
    try:
        re.compile(pattern)
    except re.error as error:
        why = f"its regular expression does not compile in Python: {error.msg} at position {error.pos}"
        raise NotImportableError(why, "write `source: /regular expression/` in `tables:`") from None


def is_table_name(name: str) -> bool:
    """Return whether a name is one of a table."""
    return bool(_TABLE_NAME.fullmatch(name))


def _has_missing_group(pattern: str, target: str) -> bool:
    groups = re.compile(pattern).groups
    return any(not 1 <= int(number) <= groups for number in re.findall(r"\{(\d)\}", target))


def report_extract_key(smt: Smt, key: Block | None, fields: Sequence[str]) -> bool:
    """Account for an ExtractField of a key that ValueToKey has made of these fields; return whether it is one."""
    node = key.entries.get("key") if key else None
    if not smt.is_of_key or smt.class_name != "ExtractField" or not isinstance(node, Line):
        return False
    if fields != [smt.get("field")]:
        return False
    node.comment = f"{node.comment}, {smt.cite('type', 'field').partition(': ')[2]}"
    return True


def reject_key_smt(smt: Smt) -> None:
    """Raise for an SMT of the key: the transforms of headrace change key and values alike."""
    if smt.is_of_key and smt.class_name != "ExtractField":
        why = "transforms change the key columns together with the row"
        raise NotImportableError(why, "the same transform without `$Key` also changes the key")
