"""Topics of a source that the sinks read under the names that a router gives them."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.sdk import ConfigError
from headrace_import.connect.smt import Smt, split_list
from headrace_import.connect.topics import Topics, route_name
from headrace_import.import_report import Kind
from headrace_import.settings import Settings

_READ = ("topics", "topics.regex")
#: Router → its options with the regular expression and the replacement.
_OPTIONS = {
    "RegexRouter": ("regex", "replacement"),
    "ByLogicalTableRouter": ("topic.regex", "topic.replacement"),
    "ToLogicalTopicRouter": ("topic.regex", "topic.replacement"),
}


def select_read_topics(
    sources: Sequence[tuple[Settings, Topics]], written: Topics, sinks: Sequence[tuple[Settings, Topics]]
) -> Topics:
    """Return the topics of the sources that the sinks read. ConfigError for sinks that read different ones.

    A sink reads the names after the routers, and headrace the names before them. ``written``: the topics of all sources, which
    are returned and reported if the names after the routers are not known here.
    """
    routed = {name: _route(source, name) for source, topics in sources for name in topics.names}
    if written.pattern or None in routed.values():
        _report(sinks, "the pipeline reads all topics of the source, and the sink may read some of them")
        return written
    selected = [tuple(n for n, new in routed.items() if new is not None and read.has(new)) for _, read in sinks]
    if len(set(selected)) > 1:
        places = ", ".join(sink.place for sink, _ in sinks)
        fix = "import each sink into a pipeline file of its own"
        raise ConfigError("the sinks read different topics", where=places, fix=fix)
    if not selected[0]:
        _report(sinks, "the sink reads none of the topics of the source, and the pipeline all of them")
        return written
    comments = [written.comment, *(sink.cite(*_READ) for sink, _ in sinks)]
    return Topics(selected[0], comment="; ".join(comments))


def _report(sinks: Sequence[tuple[Settings, Topics]], why: str) -> None:
    for sink, _ in sinks:
        sink.reject(_READ, why, "name the topics before the router in `subscribe`", Kind.TO_DO)


def _route(source: Settings, topic: str) -> str | None:
    """Return the name that the routers of a source give to a topic; None if it is not known here."""
    name: str | None = topic
    for alias in split_list(source.get("transforms")):
        name = name and _apply(Smt(source, alias), name)
    return name


def _apply(smt: Smt, name: str) -> str | None:
    if "Router" not in smt.class_name:
        return name
    if smt.class_name not in _OPTIONS or smt.get("predicate") or "${" in name:
        return None
    regex, replacement = (smt.get(option) for option in _OPTIONS[smt.class_name])
    return route_name(name, regex, replacement)
