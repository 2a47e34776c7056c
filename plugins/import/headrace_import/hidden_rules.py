"""Rules of ``tables:`` that never apply, because an earlier rule has all of their topics."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headrace_import.connect.shared_tables import match_source
from headrace_import.import_report import Kind, Report
from headrace_import.pipeline_draft import Block, Blocks, list_comments, read_values

#: Options that only the first rule of a topic sets. Each of the others comes from the first rule that has it.
_OF_FIRST = ("target", "key", "columns", "order.by", "route.by.field", "logical.table")
_REFERENCE = re.compile(r"\$\{[^}]*\}")
#: Regular expressions that a glob can express, and the parts of such globs.
_TOKENS = {"*": r"\.\*", "?*": r"\.\+", ".": r"\[\.\]|\\\.", "?": r"\.", "": r"\((?:\?:)?|\)"}
_TOKEN = re.compile("|".join([*(f"({token})" for token in _TOKENS.values()), r"([\w-])"]))


def remove_hidden_rules(draft: Block, report: Report) -> None:
    """Remove and report the rules of the inputs that an earlier rule hides.

    Options of such a rule, for example those of its sink, would apply to the table of the earlier rule.
    """
    tables = draft.entries.get("tables")
    if not isinstance(tables, Blocks):
        return
    kept: list[Block] = []
    for rule in tables.items:
        earlier = next((other for other in kept if _is_hidden(rule, other)), None)
        if earlier is None or not any(_list_options(rule)):
            kept.append(rule)
        else:
            _report(rule, str(read_values(earlier)["source"]), report)
    tables.items = kept


def _report(rule: Block, source: str, report: Report) -> None:
    reported = {(finding.place, key) for finding in report.findings for key in finding.keys}
    places: dict[str, list[str]] = {}
    for place, key in _list_options(rule):
        if (place, key) not in reported:
            places.setdefault(place, []).append(key)
    why = f"the rule for {source} precedes it in `tables:` and has all of its topics, and a topic becomes one table"
    for place, keys in places.items():
        report.add(Kind.NOT_IMPORTED, place, keys, why, "write a second pipeline file for this table")


def _list_options(rule: Block) -> Iterator[tuple[str, str]]:
    """Yield place and name of each option of an input that gives a part of the rule."""
    for comment in dict.fromkeys(list_comments(rule)):
        for part in comment.split("; "):
            place, _, keys = part.rpartition(": ")
            yield from ((place, key) for key in keys.split(", ") if place)


def _is_hidden(rule: Block, earlier: Block) -> bool:
    """Return whether a rule never sets the options of a topic. A rule with the same options as the earlier one loses nothing."""
    options, other = ({**read_values(each)} for each in (rule, earlier))
    source, earlier_source = (_REFERENCE.sub(_make_word, str(each.pop("source"))) for each in (options, other))
    has_own = any(options.get(name) != other.get(name) for name in _OF_FIRST if name in options)
    return has_own and (source == earlier_source or _has_all(earlier_source, source))


def _has_all(source: str, other: str) -> bool:
    """Return whether ``source`` matches all topics of another source; False if that is not known."""
    if re.fullmatch(r"[\w.-]+", other):
        try:
            return match_source(source, other) is not None
        except re.error:
            return False
    outer, inner = _make_glob(source), _make_glob(other)
    if outer is None or inner is None:
        return False
    # Only `*` of the outer glob has what `*` of the inner one stands for.
    pattern = "".join({"*": ".*", "?": r"[^\0]"}.get(mark, re.escape(mark)) for mark in outer)
    return re.fullmatch(pattern, inner.replace("*", "\0")) is not None


def _make_glob(source: str) -> str | None:
    """Return the glob for the source of a rule; None for a regular expression or a glob with other parts than ``*`` and ``?``."""
    if not (len(source) > 1 and source.startswith("/") and source.endswith("/")):
        return None if "[" in source else source
    text, end, glob = source[1:-1], 0, ""
    marks = [*_TOKENS]
    while end < len(text):
        match = _TOKEN.match(text, end)
        if match is None:
            return None
        glob, end = (
            glob + (match[0] if match.lastindex == len(marks) + 1 else marks[(match.lastindex or 1) - 1]),
            match.end(),
        )
    return glob


def _make_word(reference: re.Match[str]) -> str:
    """Return a name in place of a reference, whose value is not known."""
    return re.sub(r"\W", "_", reference[0])
