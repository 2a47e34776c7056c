"""Pipeline from a Flink CDC pipeline. A Debezium connector takes the place of its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.sdk import ConfigError
from headrace_import.connect.kafka_client import ClientInputs
from headrace_import.connect.topics import Topics
from headrace_import.flink.cdc_sinks import read_sink, read_spark
from headrace_import.flink.cdc_tables import CdcTables
from headrace_import.flink.table_patterns import TablePattern, parse_patterns
from headrace_import.import_report import Kind, Report
from headrace_import.input_files import flatten_mapping
from headrace_import.pipeline_draft import Block, Blocks, Line, list_comments
from headrace_import.settings import Settings

#: Database → number of parts that a topic has after its prefix: of MySQL the database and the table.
_LEVELS = {"mysql": 2, "postgres": 2, "sqlserver": 3}
_PREFIX = "${env:TOPIC_PREFIX}"
_ROUTE_MODE = "route-mode"
_SECTIONS = ("source", "sink", "transform", "route", "pipeline")
_EFFECTS = {
    "user-defined-function": ("headrace runs no functions of Flink", "`compute` with SQL, or a transform plugin"),
    "model": ("headrace calls no models", None),
    "local-time-zone": ("times are in UTC", "`from_utc_timestamp` in `compute`"),
    _ROUTE_MODE: ("the first rule of a topic applies", "`route-mode: FIRST_MATCH` writes the same tables"),
}


@dataclass
class CdcPipeline:
    """Sections of a file of Flink CDC."""

    place: str
    source: Settings
    sink: Settings
    pipeline: Settings
    routes: list[Settings] = field(default_factory=list)
    transforms: list[Settings] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.pipeline.get("name")

    @property
    def is_first_match(self) -> bool:
        return self.pipeline.get(_ROUTE_MODE).upper().replace("-", "_") == "FIRST_MATCH"

    def list_settings(self) -> list[Settings]:
        return [self.source, self.sink, self.pipeline, *self.routes, *self.transforms]


def is_cdc_pipeline(document: Any) -> bool:
    """Return whether a YAML document is a pipeline of Flink CDC."""
    has_types = isinstance(document, dict) and all(
        isinstance(section := document.get(name), dict) and "type" in section for name in ("source", "sink")
    )
    return bool(has_types)


def read_pipeline(document: Mapping[str, Any], place: str, report: Report) -> CdcPipeline:
    """Return the sections of a document."""
    source, sink, job = (
        _read_section(document.get(name), name, place, report) for name in ("source", "sink", "pipeline")
    )
    found = CdcPipeline(place, source, sink, job)
    for name, settings in (("route", found.routes), ("transform", found.transforms)):
        items = document.get(name) or []
        if not isinstance(items, list):
            raise ConfigError(f"`{name}` is not a list", where=place, fix="correct the file")
        for number, item in enumerate(items, 1):
            settings.append(_read_section(item, f"{name}[{number}]", place, report))
    extra = {name: "" for name in document if name not in _SECTIONS}
    Settings(place, extra, report).report_unknown(_SECTIONS)
    return found


def import_pipeline(pipeline: CdcPipeline, report: Report, bootstrap_servers: str | None) -> Block:
    """Return the pipeline without its name. ConfigError for a source that headrace cannot replace."""
    draft, kafka = Block(), Block()
    kind = pipeline.source.get("type")
    if kind not in _LEVELS:
        where, fix = f"{pipeline.place}, source.type", f"known sources: {', '.join(_LEVELS)}"
        raise ConfigError("headrace has no source for this database", where=where, fix=fix)
    is_written = pipeline.sink.get("type") == "kafka"
    ClientInputs([_read_client(pipeline)] if is_written else [], bootstrap_servers, report).write(kafka)
    tables = CdcTables(_PREFIX, _LEVELS[kind], is_first_match=pipeline.is_first_match)
    if is_written:
        _read_written_topics(pipeline).write(kafka)
    else:
        _read_connector_topics(pipeline).write(kafka)
    value = Line("json", "default: choose the format of the topics")
    draft.entries["source"] = Block({"kafka": kafka, "value": value})
    if is_written:
        _split_topic(draft, pipeline)
        _report_written(pipeline)
    else:
        _add_tables(draft, pipeline, tables)
    draft.entries["sink"] = read_sink(pipeline.sink, tables.partitions)
    if (spark := read_spark(pipeline.sink)).entries:
        draft.entries["spark"] = spark
    draft.add("checkpoint", "checkpoints", "default: choose a durable folder")
    _report_rest(pipeline, draft)
    return draft


def _read_section(section: Any, name: str, place: str, report: Report) -> Settings:
    if not isinstance(section or {}, dict):
        raise ConfigError(f"`{name}` is not a mapping", where=place, fix="correct the file")
    options = flatten_mapping(section or {})
    return Settings(place, options, report, spelling={key: f"{name}.{key}" for key in options})


def _read_connector_topics(pipeline: CdcPipeline) -> Topics:
    """Return the topics of a Debezium connector for the tables of the source; report that one is needed."""
    source = pipeline.source
    patterns = _parse_tables(source)
    why = "headrace reads the topics of a Debezium connector, which Flink CDC does without"
    fix = "deploy a connector for these tables, and set the environment variable TOPIC_PREFIX to its `topic.prefix`"
    source.reject(["type"], why, fix, Kind.TO_DO)
    comment = source.cite("tables")
    if patterns and all(pattern.is_name for pattern in patterns):
        return Topics([f"{_PREFIX}.{pattern.text}" for pattern in patterns], comment=comment)
    texts = "|".join(pattern.text for pattern in patterns)
    return Topics(pattern=f"{_PREFIX}[.](?:{texts})" if texts else f"{_PREFIX}[.].+", comment=comment)


def _parse_tables(source: Settings) -> list[TablePattern]:
    where = f"{source.place}, {source.spell('tables')}"
    return parse_patterns(source.get("tables"), _LEVELS[source.get("type")], where)


def _read_client(pipeline: CdcPipeline) -> Settings:
    """Return the options of the Kafka client of a sink."""
    keys = {
        f"consumer.override.{key.removeprefix('properties.')}": key for key in pipeline.sink.list_keys("properties.")
    }
    options = {name: pipeline.sink.get(key).removeprefix("PLAINTEXT://") for name, key in keys.items()}
    pipeline.sink.cite(*keys.values())
    spelling = {name: pipeline.sink.spell(key) for name, key in keys.items()}
    return Settings(pipeline.place, options, pipeline.sink.report, spelling=spelling)


def _read_written_topics(pipeline: CdcPipeline) -> Topics:
    """Return the topics that the sink ``kafka`` writes."""
    sink, source = pipeline.sink, pipeline.source
    if sink.get("topic"):
        return Topics((sink.read("topic"),), comment=sink.cite("topic"))
    mapping = "sink.tableId-to-topic.mapping"
    if sink.get(mapping):
        pairs = [item.partition(":")[2].strip() for item in sink.get(mapping).split(";")]
        return Topics(tuple(dict.fromkeys(filter(None, pairs))), comment=sink.cite(mapping))
    patterns = _parse_tables(source)
    if all(pattern.is_name for pattern in patterns):
        return Topics(tuple(pattern.text for pattern in patterns), comment=source.cite("tables"))
    return Topics(pattern="|".join(pattern.text for pattern in patterns), comment=source.cite("tables"))


def _split_topic(draft: Block, pipeline: CdcPipeline) -> None:
    """Add the rule for a topic with all tables, and the transform for Debezium's envelopes."""
    if pipeline.sink.get("topic"):
        rule = Block()
        rule.add("source", pipeline.sink.read("topic"), pipeline.sink.cite("topic"))
        rule.add("target", "{topic}", "the values of `route.by.field`")
        rule.add("route.by.field", ["source.db", "source.table"])
        draft.entries["tables"] = Blocks([rule])
    unwrap = Block(comment="the topics have envelopes, and the tables rows")
    draft.entries["transforms"] = Blocks([Block({"unwrap": unwrap})])


def _report_written(pipeline: CdcPipeline) -> None:
    """Report the parts of a pipeline that continues to write Kafka's topics."""
    sink = pipeline.sink
    if sink.get("value.format") == "canal-json":
        fix = "set `value.format: debezium-json`"
        sink.reject(["value.format"], "headrace has no format for the records", fix, Kind.TO_DO)
    if sink.get("key.format") == "csv":
        sink.reject(
            ["key.format"], "headrace reads no keys in CSV", "set `key: none`, and `key:` in `tables:`", Kind.TO_DO
        )
    why = "Flink CDC still writes the topics"
    for settings in (*pipeline.routes, *pipeline.transforms):
        settings.ignore(settings.list_keys(), why)
    if pipeline.routes:
        sink.add_to_do(["type"], "routes may give the topics other names", "check `subscribe` or `subscribePattern`")
    sink.ignore(sink.list_keys(), why)


def _add_tables(draft: Block, pipeline: CdcPipeline, tables: CdcTables) -> None:
    for route in pipeline.routes:
        tables.add_route(route)
    draft.entries["tables"] = Blocks(tables.finish_rules())
    unwrap = Block(comment="the topics have envelopes, and the tables rows")
    if tables.has_soft_deletes(pipeline.transforms):
        unwrap.add("delete.tombstone.handling.mode", "rewrite", "converter-after-transform")
    tables.add_transforms(pipeline.transforms)
    if tables.added_fields:
        fields = ",".join(f"{source}:{name}" for name, source in tables.added_fields.items())
        unwrap.add("add.fields", fields, tables.unwrap_comment)
        unwrap.add("add.fields.prefix", "")
    if "op" in tables.added_fields.values():
        pipeline.source.report.add(
            Kind.TO_DO, pipeline.place, ["transform"], "the operations are c, u, d and r here, not +I, +U and -D"
        )
    draft.entries["transforms"] = Blocks([Block({"unwrap": unwrap}), *tables.steps])


def _report_rest(pipeline: CdcPipeline, draft: Block) -> None:
    pipeline.source.reject(
        ["tables.exclude"], "the topics include these tables", "exclude them in the connector", Kind.TO_DO
    )
    pipeline.source.ignore(pipeline.source.list_remaining(), "the connector connects to the database")
    pipeline.pipeline.ignore(["name"], "the name of the pipeline")
    if pipeline.is_first_match:
        pipeline.pipeline.ignore([_ROUTE_MODE], "the first rule of a topic applies")
    for key, (why, fix) in _EFFECTS.items():
        names = [name for name in pipeline.pipeline.list_keys(key) if name in pipeline.pipeline.list_remaining()]
        pipeline.pipeline.reject(names, why, fix)
    behavior = pipeline.pipeline.get("schema.change.behavior").lower()
    if behavior in ("ignore", "exception"):
        fix = "`columns:` in `tables:` fixes types; `keep` fixes columns"
        pipeline.pipeline.reject(["schema.change.behavior"], "new columns become columns of the tables", fix)
    pipeline.pipeline.ignore(["schema.change.behavior"], "new columns become columns of the tables")
    pipeline.pipeline.ignore(pipeline.pipeline.list_remaining(), "options of Flink's job")
    pipeline.sink.ignore_matches(
        ["sink.maintenance.*", "sink.compaction.*"], "headrace maintains its tables: `maintenance:`"
    )
    pipeline.sink.ignore_matches(["name", "type", "sink.*", "write.*", "commit.user"], "options of Flink's job")
    pipeline.sink.report_unknown(["catalog.properties.type", "partition.key", "path"])
    for settings in pipeline.list_settings():
        settings.report_replaced(list_comments(draft))
