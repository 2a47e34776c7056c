"""Predicates of Kafka Connect as conditions of transforms."""

from __future__ import annotations

from headrace_import.connect.smt import Condition, NotImportableError, Smt

PREDICATE_OPTIONS = ("predicate", "negate")


def read_condition(smt: Smt) -> Condition | None:
    """Return the predicate of an SMT; None without one, and for one that is true for every row.

    NotImportableError for a predicate without a counterpart.
    """
    alias = smt.get("predicate")
    if not alias:
        return None
    settings, prefix = smt.settings, f"predicates.{alias}."
    negate = smt.get("negate").lower() == "true"
    keys = [smt.prefix + option for option in PREDICATE_OPTIONS]
    keys += ["predicates", *settings.list_keys(prefix)]
    kind = settings.get(f"{prefix}type").rpartition(".")[2]
    if kind == "TopicNameMatches":
        pattern = settings.get(f"{prefix}pattern")
        sql = f"_headrace_topic RLIKE {_quote(f'^(?:{pattern})$')}"
        return Condition(f"NOT ({sql})" if negate else sql, keys, topics=pattern)
    if kind == "HasHeaderKey":
        header = settings.get(f"{prefix}name")
        sql = f"exists(_headrace_headers, h -> h.key = {_quote(header)})"
        return Condition(f"NOT coalesce({sql}, false)" if negate else sql, keys, header=header)
    if kind == "RecordIsTombstone" and negate:
        if smt.class_name == "Filter":
            raise NotImportableError("it drops every record but tombstones", "remove it, or write `filter` with SQL")
        settings.ignore(keys, "a transform changes no row of a tombstone")
        return None
    if kind == "RecordIsTombstone":
        why = "of a tombstone, transforms change only the key, so the predicate RecordIsTombstone has no meaning here"
        raise NotImportableError(why, "check whether the SMT is needed: headrace handles tombstones itself")
    raise NotImportableError(f"its predicate {alias} is not one of Kafka Connect's", "write a SQL condition in `when`")


def _quote(text: str) -> str:
    """Return a SQL string. A backslash is an escape character in Spark's strings."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
