"""Debezium Server: its properties as those of a connector, and its sink as source or sink of the pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from headrace_import.connect.debezium_source import TOPIC_PREFIX, list_levels, split_topics
from headrace_import.connect.iceberg_sink import TABULAR
from headrace_import.connect.known_options import list_reasons
from headrace_import.connect.naming_strategy import names_tables
from headrace_import.connect.smt import Smt, split_list
from headrace_import.connect.smt_chain import Chain
from headrace_import.connect.topics import Topics
from headrace_import.import_report import Kind, Report
from headrace_import.pipeline_draft import Block, Line
from headrace_import.settings import Settings

_SOURCE, _FORMAT, _SINK, _TYPE = "debezium.source.", "debezium.format.", "debezium.sink.", "debezium.sink.type"
_PRODUCER = f"{_SINK}kafka.producer."
_ICEBERG = f"{_SINK}iceberg."
_KINESIS = {"region": "region", "endpoint": "endpoint.url", "credentials.profile": "profile"}
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_CONVERTERS = {"json": _JSON, "jsonbytearray": _JSON, "avro": "io.confluent.connect.avro.AvroConverter"}
#: Converters of formats with an address of Apicurio's registry.
_APICURIO = {
    kind: f"io.apicurio.registry.utils.converter.{name}"
    for kind, name in (("avro", "AvroConverter"), ("json", "ExtJsonConverter"), ("jsonbytearray", "ExtJsonConverter"))
}
#: Options of the Iceberg sink → options of Iceberg's connector. Other options belong to the catalog.
_OF_ICEBERG = {
    "catalog-name": "iceberg.catalog",
    "upsert": "iceberg.tables.upsert-mode-enabled",
    "write.format.default": "iceberg.tables.auto-create-props.write.format.default",
}
_OF_SINK = (
    "upsert-",
    "table-",
    "destination-",
    "allow-",
    "create-",
    "preserve-",
    "nested-as-",
    "excluded-",
    "partition-",
)
_KEEPS_DELETES = f"{_ICEBERG}upsert-keep-deletes"
_TABLE_NAMES = (f"{_ICEBERG}table-namespace", f"{_ICEBERG}table-prefix")
#: An expression of Quarkus: a variable or another option, with a default that may have an expression. A backslash escapes it.
_EXPRESSION = re.compile(r"(?P<escaped>\\?)\$\{(?P<name>[\w.-]+)(?::(?P<default>(?:[^{}]|\{[^{}]*\})*))?\}")
#: Options whose values decide how others are imported.
_STRUCTURE = re.compile(
    r"debezium\.(transforms|predicates|sink\.type|source\.(connector\.class|.+\.list|database\.names))"
)
#: A reference, or a dot outside of references.
_DOT = re.compile(r"(\$\{[^}]*\})|[.]")


@dataclass(frozen=True)
class DebeziumServer:
    """Inputs of a properties file: the source as a connector, the sink if it is Iceberg, and the other options."""

    source: Settings
    sink: Settings | None
    others: Settings
    #: Option → the environment variables that had a default.
    defaults: Mapping[str, Sequence[str]]

    @property
    def sink_type(self) -> str:
        return self.others.get(_TYPE)

    def write_source(self, draft: Block, topics: Topics) -> None:
        """Replace the source ``kafka`` by the one that the sink of Debezium Server feeds; report a sink without a source."""
        source = draft.entries["source"]
        assert isinstance(source, Block)
        if self.sink_type == "kinesis":
            source.entries = {"kinesis": self._read_stream(topics), **source.entries}
            del source.entries["kafka"]
        elif self.sink_type == "kafka":
            self.others.ignore([_TYPE], "the source `kafka` reads its topics")
        else:
            fix = "set `debezium.sink.type=kafka`, or name another source, such as that of a plugin"
            if self.sink_type == "eventhubs":
                fix = "`--bootstrap-servers NAMESPACE.servicebus.windows.net:9093` reads the Kafka endpoint of the event hubs"
            why = f"headrace has no source for events of the sink {self.sink_type or 'without a type'}"
            self.others.reject([_TYPE], f"{why}; the file names Kafka", fix, Kind.TO_DO)

    def find_stream(self) -> str | None:
        """Return the Kinesis stream to which a router sends all records, without its account for the options."""
        aliases = split_list(self.source.get("transforms")) if self.sink_type == "kinesis" else []
        routers = [smt for smt in (Smt(self.source, alias) for alias in aliases) if smt.class_name == "RegexRouter"]
        names = [smt.get("replacement") for smt in routers if "$" not in smt.get("replacement")]
        return names[-1] if names else None

    @property
    def removes_rewritten_deletes(self) -> bool:
        """Whether an Iceberg sink removes the rows of deletes that ExtractNewRecordState keeps as rows."""
        return self.sink is not None and self.others.get(_KEEPS_DELETES).lower() == "false"

    def read_rules(self) -> list[Block]:
        """Return the rule for all tables in one stream, or for the names of the tables of the Iceberg sink."""
        rule = Block()
        if stream := self.find_stream():
            rule.add("source", stream, "the router sends all tables to this stream")
            rule.add("target", "{topic}", "the values of `route.by.field`")
            rule.add("route.by.field", [f"source.{level}" for level in list_levels(self.source)])
            return [rule]
        if self.sink is None:
            return []
        if not names_tables(self.source):
            why, fix = (
                "the sink names its tables by the topics of this strategy",
                "write `target:` in rules of `tables:`",
            )
            self.source.add_to_do(["topic.naming.strategy"], why, fix)
            return []
        pattern, topic = split_topics(self.source)
        rule.add("source", f"/{pattern}/", self.source.cite(*TOPIC_PREFIX))
        rule.add("target", self._name_table(topic), self._cite_names())
        return [rule]

    def name_tables(self, chain: Chain) -> None:
        """Give the tables of routers the names that the Iceberg sink makes of topics."""
        if self.sink is None:
            return
        steps = [options for step in chain.steps for options in step.entries.values() if isinstance(options, Block)]
        lines = [rule.entries.get("target") for rule in chain.rules]
        lines += [options.entries.get(name) for options in steps for name in ("tables", "tables.exclude")]
        for line in lines:
            if isinstance(line, Line):
                names = line.value if isinstance(line.value, list) else [line.value]
                named = [self._name_table(name) for name in names]
                line.value = named if isinstance(line.value, list) else named[0]
                line.comment = "; ".join(filter(None, [line.comment, self._cite_names()]))

    def _name_table(self, topic: str) -> str:
        """Return the name that the Iceberg sink makes of a topic. References keep their dots."""
        namespace, prefix = (self.sink.get(key) if self.sink else "" for key in _TABLE_NAMES)
        return f"{namespace or 'default'}.{prefix}{_DOT.sub(lambda match: match[1] or '_', topic)}"

    def _cite_names(self) -> str:
        return self.sink.cite(*_TABLE_NAMES) if self.sink else ""

    def report_defaults(self, comments: Iterable[str]) -> None:
        """Report the variables without their defaults, of options that the comments name as imported."""
        names = {
            name for text in comments for part in text.split("; ") for name in part.rpartition(": ")[2].split(", ")
        }
        for key, variables in self.defaults.items():
            if key in names:
                fix = f"set the environment variable {', '.join(variables)}"
                self.others.report.add(Kind.TO_DO, self.others.place, [key], "a reference here has no default", fix)

    def report_rest(self) -> None:
        """Report the options that are not imported."""
        for options, why in list_reasons("debezium-server"):
            self.others.ignore_matches(options, why)
        profiles = [key for key in self.others.list_remaining() if key.startswith("%")]
        self.others.reject(profiles, "the profile of an option is not known here", "remove the `%profile.` of its name")
        names = [key for key in self.others.list_remaining() if key.startswith(f"{_ICEBERG}destination-")]
        self.others.reject(names, "the tables have the names of their topics", "write `target:` in a rule of `tables:`")
        partitions = [key for key in self.others.list_remaining() if key.startswith(f"{_ICEBERG}partition-")]
        fix = "`partition.by` in the options of the sink, such as `{'*': ['days(ts)']}`"
        self.others.reject(partitions, "the tables have no partitions", fix, Kind.TO_DO)
        sinks = [key for key in self.others.list_remaining() if key.startswith(_SINK)]
        self.others.reject(sinks, "the pipeline has another source or sink")
        self.others.report_unknown([f"{_SOURCE}connector.class", _TYPE, f"{_FORMAT}value", f"{_FORMAT}key"])

    def _read_stream(self, topics: Topics) -> Block:
        block = Block(comment=self.others.cite(_TYPE))
        if stream := self.find_stream():
            block.add("stream", stream, f"{topics.comment}; the router sends all tables to this stream")
        elif len(topics.names) == 1 and not topics.pattern:
            block.add("stream", topics.names[0], topics.comment)
        else:
            topics.write(block)
        for option, name in _KINESIS.items():
            if self.others.get(f"{_SINK}kinesis.{option}"):
                block.add(
                    name, self.others.read(f"{_SINK}kinesis.{option}"), self.others.cite(f"{_SINK}kinesis.{option}")
                )
        return block


def is_debezium_server(options: Mapping[str, str]) -> bool:
    """Return whether properties are those of Debezium Server."""
    return any(key.startswith((_SOURCE, _SINK)) for key in options)


def read_server(options: Mapping[str, str], place: str, report: Report) -> DebeziumServer:
    """Return the inputs of a properties file."""
    options, defaults = _translate_expressions(options, place, report)
    spelling: dict[str, str] = {}
    source: dict[str, str] = {}
    for key, value in options.items():
        for name in _name_connector_options(key):
            if spelling.get(name, _FORMAT + name).startswith(_FORMAT):  # an option of one format precedes one of all
                source[name], spelling[name] = value, key
    spelling.setdefault("connector.class", f"{_SOURCE}connector.class")
    _name_converters(source, spelling)
    names = {key: _name_sink_option(key) for key in options if options.get(_TYPE) == "iceberg"}
    sink = {name: key for key, name in names.items() if name}
    used = {*spelling.values(), *sink.values()}
    others = {key: value for key, value in options.items() if key not in used}
    iceberg = {name: options[key] for name, key in sink.items()}
    if sink:
        iceberg.setdefault("iceberg.tables.upsert-mode-enabled", "true")
        sink.setdefault("iceberg.tables.upsert-mode-enabled", f"{_ICEBERG}upsert (default)")
        iceberg["connector.class"], sink["connector.class"] = TABULAR, _TYPE
    return DebeziumServer(
        Settings(place, source, report, name=options.get(f"{_SOURCE}name", ""), spelling=spelling),
        Settings(place, iceberg, report, spelling=sink) if sink else None,
        Settings(place, others, report),
        defaults,
    )


def _name_connector_options(key: str) -> list[str]:
    """Return the options of a connector that an option of Debezium Server sets."""
    for start in ("debezium.transforms", "debezium.predicates"):
        if key == start or key.startswith(f"{start}."):
            return [key.removeprefix("debezium.")]
    if key.startswith(_SOURCE):
        return [key.removeprefix(_SOURCE)]
    if key.startswith(_PRODUCER):
        name = key.removeprefix(_PRODUCER)
        is_shared = name == "bootstrap.servers" or name.startswith(("security.", "sasl.", "ssl."))
        return [f"{'consumer' if is_shared else 'producer'}.override.{name}"]
    if not key.startswith(_FORMAT):
        return []
    part, _, name = key.removeprefix(_FORMAT).partition(".")
    if part in ("key", "value", "header"):
        return [f"{part}.converter.{name}" if name else f"{part}.converter"]
    return [f"{part}.converter.{key.removeprefix(_FORMAT)}" for part in ("value", "key")]


def _name_converters(source: dict[str, str], spelling: dict[str, str]) -> None:
    """Replace the names of formats by the classes of converters. The default is JSON."""
    for part in ("value", "key"):
        key = f"{part}.converter"
        kind = source.get(key, "json").lower()
        converters = {**_CONVERTERS, **(_APICURIO if f"{key}.apicurio.registry.url" in source else {})}
        source[key] = converters.get(kind, kind)
        spelling.setdefault(key, f"{_FORMAT}{part} (default)")


def _name_sink_option(key: str) -> str | None:
    """Return the option of Iceberg's connector for one of the Iceberg sink; None for other options."""
    name = key.removeprefix(_ICEBERG)
    if name == key:
        return None
    if key in _TABLE_NAMES:
        return key
    if name.startswith(_OF_SINK):
        return None
    if name.startswith(("fs.", "hadoop.")):
        return f"iceberg.hadoop.{name}"
    return _OF_ICEBERG.get(name, f"iceberg.catalog.{name}")


def _translate_expressions(
    options: Mapping[str, str], place: str, report: Report
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the options with references in place of expressions of Quarkus, and the variables that had a default.

    An option that decides how others are imported gets its default.
    """
    defaults: dict[str, list[str]] = {}

    def translate(key: str, match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if match["escaped"]:
            return match[0][1:]
        if name in options and "${" not in options[name]:
            return options[name]
        variable = re.sub(r"\W", "_", name).upper()
        if default and "$" not in default and _STRUCTURE.fullmatch(key):
            report.add(Kind.TO_DO, place, [key], "the default of its expression is imported", "import its real value")
            return default
        if default:
            defaults.setdefault(key, []).append(variable)
        return f"${{env:{variable}}}"

    translated = {key: _EXPRESSION.sub(partial(translate, key), value) for key, value in options.items()}
    return translated, defaults
