"""Lenses' S3 sink connector: its KCQL statement as the options of Confluent's connector."""

from __future__ import annotations

import re
from typing import NamedTuple

from headrace.sdk import ConfigError
from headrace_import.connect.s3_sink import CLASS as CONFLUENT_CLASS
from headrace_import.connect.smt import split_list
from headrace_import.settings import Settings

CLASSES = (
    "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "com.datamountaineer.streamreactor.connect.aws.s3.sink.S3SinkConnector",
)
_KCQL = "connect.s3.kcql"
#: A name with parts in backticks, in which any character may be.
_NAME = r"(?:`[^`]+`|[\w.])+"
_STATEMENT = re.compile(
    rf"""\s*insert\s+into\s+(?P<target>(?:`[^`]+`|[^\s`])+)\s+select\s+(?P<columns>(?:`[^`]*`|[^`])+?)\s+from\s+(?P<topic>`[^`]+`|\S+)
    (?:\s+partitionby\s+(?P<partitions>{_NAME}(?:\s*,\s*{_NAME})*))? (?P<no_partition>\s+nopartition)? (?:\s+storeas\s+[`']?(?P<format>\w+)[`']?)?
    (?:\s+withpartitioner\s*=?\s*`?(?P<partitioner>\w+)`?)?
    (?P<flushes>(?:\s+with_flush_\w+\s*=?\s*\d+)*) (?:\s+properties\s*\((?P<properties>.*)\))? \s*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
#: Parts of KCQL that other sinks of Lenses have, behind the topic.
_OTHER_PARTS = re.compile(
    r"(?<![,\s])(?<!by)\s+(batch|autocreate|autoevolve)\b(?:\s*=?\s*\d+)?(?!.*\sfrom\s)(?=[^']*(?:'[^']*'[^']*)*$)",
    re.IGNORECASE | re.DOTALL,
)
_FORMATS = {"json": "JsonFormat", "avro": "AvroFormat", "parquet": "ParquetFormat", "bytes": "ByteArrayFormat"}
#: Option of Lenses → option of Confluent's connector.
_SAME = {
    "connect.s3.aws.region": "s3.region",
    "connect.s3.aws.access.key": "aws.access.key.id",
    "connect.s3.aws.secret.key": "aws.secret.access.key",
    "connect.s3.custom.endpoint": "store.url",
}
#: Count and interval of flushes → the default of Lenses.
_FLUSHES = {"flush.count": "50000", "flush.interval": "3600"}
_CODEC = "connect.s3.compression.codec"
_FIX = "`INSERT INTO bucket:prefix SELECT * FROM topic STOREAS JSON PROPERTIES ('flush.count'=5000)`"


class _Kcql(NamedTuple):
    """Parts of a statement. ``properties``: with those of the older syntax, by their names in the newer one."""

    target: str
    columns: str
    topic: str
    partitions: tuple[str, ...]
    format: str
    properties: dict[str, str]

    @property
    def flushes(self) -> dict[str, str]:
        """Return the count and the interval above zero."""
        return {name: text for name, text in self.properties.items() if name in _FLUSHES and text.strip("0").isdigit()}


def translate_connector(settings: Settings) -> Settings:
    """Return the options as those of Confluent's connector. ConfigError for statements that are not one sink."""
    statements = [_parse(text, settings) for text in settings.get(_KCQL).split(";") if text.strip()]
    if len({(s.target, s.partitions, s.format, tuple(sorted(s.properties.items()))) for s in statements}) != 1:
        fix = "import one connector for each bucket, path and format"
        raise ConfigError("the statements do not make one sink", where=f"{settings.place}, {_KCQL}", fix=fix)
    statement = statements[0]
    options = {key: settings.get(key) for key in settings.list_keys() if key not in (_KCQL, *_SAME)}
    found = _list_options(statement) | {_SAME[key]: settings.get(key) for key in settings.list_keys() if key in _SAME}
    if not options.get("topics") and not options.get("topics.regex"):
        found["topics"] = ",".join(s.topic for s in statements if s.topic != "*")
    spelling = dict.fromkeys(found, _KCQL) | {name: key for key, name in _SAME.items() if settings.has(key)}
    del spelling["connector.class"]
    for name, option in {"flush.size": "flush.count", "rotate.schedule.interval.ms": "flush.interval"}.items():
        if option not in statement.flushes:
            spelling[name] = f"{_KCQL} (default of {option})"
    translated = Settings(settings.place, options | found, settings.report, name=settings.name, spelling=spelling)
    _report_differences(translated, statement)
    if any(s.columns != "*" for s in statements):
        why = "the connector ignores the columns that SELECT names, and writes all; the pipeline writes all, too"
        fix = "`keep` and `rename` in `transforms:`, if the objects should have these columns only"
        translated.add_to_do(["s3.bucket.name"], why, fix)
    topics, named = split_list(options.get("topics", "")), {s.topic for s in statements}
    if topics and "*" not in named and named != set(topics):
        translated.add_to_do(["topics"], "the statements name other topics than this list", "check `subscribe`")
    return translated


def _parse(text: str, settings: Settings) -> _Kcql:
    others = dict.fromkeys((part.lower() for part in _OTHER_PARTS.findall(text)), "")
    match = _STATEMENT.fullmatch(_OTHER_PARTS.sub("", text))
    if match is None:
        raise ConfigError("not a statement of KCQL", where=f"{settings.place}, {_KCQL}", fix=_FIX)
    pairs = re.findall(r"'([^']+)'\s*=\s*'?([^',]+)'?", match["properties"] or "")
    older = re.findall(r"with_flush_(\w+)\s*=?\s*(\d+)", match["flushes"] or "", re.IGNORECASE)
    properties = others | {f"flush.{name.lower()}": value for name, value in older}
    properties |= {name: value.strip() for name, value in pairs}
    partitions = tuple(name.replace("`", "") for name in re.findall(_NAME, match["partitions"] or ""))
    if match["partitioner"]:
        properties["partition.include.keys"] = str(match["partitioner"].lower() == "keysandvalues").lower()
    target, columns, topic = (match[name].replace("`", "") for name in ("target", "columns", "topic"))
    return _Kcql(target, columns, topic, partitions, match["format"] or "JSON", properties)


def _list_options(statement: _Kcql) -> dict[str, str]:
    """Return the options of Confluent's connector for a statement."""
    bucket, _, prefix = statement.target.partition(":")
    kind = next((name for name in _FORMATS if statement.format.lower().startswith(name)), statement.format)
    flushes = _FLUSHES | statement.flushes
    found = {
        "connector.class": CONFLUENT_CLASS,
        "s3.bucket.name": bucket,
        "format.class": _FORMATS.get(kind, kind),
        "flush.size": flushes["flush.count"],
        "rotate.schedule.interval.ms": f"{flushes['flush.interval']}000",
        "timezone": "UTC",
    }
    if prefix:
        found["topics.dir"] = prefix
    fields = [name.removeprefix("_value.") for name in statement.partitions]
    if fields and not any(name.startswith("_") for name in fields):
        found |= {"partitioner.class": "FieldPartitioner", "partition.field.name": ",".join(fields)}
    return found


def _report_differences(translated: Settings, statement: _Kcql) -> None:
    """Report the parts of a statement that the sink ``s3`` does not have."""
    why = "objects get the names of Confluent's connector: topic, partition and offset, in other folders than before"
    translated.add_to_do(["s3.bucket.name"], why, "choose another `topics.dir`, so that readers see one layout")
    if any(name.removeprefix("_value.").startswith("_") for name in statement.partitions):
        why = "the sink partitions by columns, not by keys, headers or metadata"
        translated.add_to_do(["s3.bucket.name"], why, "`partitioner: field` with columns of the row")
    fix = "`parquet.codec`, `avro.codec`, or `s3.compression.type` for JSON"
    translated.reject([_CODEC], "the codec of Lenses is for several formats", fix)
    if lost := sorted(statement.properties.keys() - statement.flushes.keys()):
        translated.add_to_do(
            ["s3.bucket.name"], f"without a counterpart: {', '.join(lost)}", "`flush.size` counts records"
        )
