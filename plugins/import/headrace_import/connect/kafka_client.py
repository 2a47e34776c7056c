"""Brokers and options of Kafka's client, from workers, client properties and connectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace_import.import_report import Kind, Report
from headrace_import.pipeline_draft import Block
from headrace_import.settings import Settings

#: Environment variable of brokers that no input names.
_VARIABLE = "KAFKA_BOOTSTRAP"
#: Options of connectors that name the brokers, first the most specific.
_BOOTSTRAP = (
    "consumer.override.bootstrap.servers",
    "iceberg.kafka.bootstrap.servers",
    "bootstrap.servers",
    "schema.history.internal.kafka.bootstrap.servers",
    "database.history.kafka.bootstrap.servers",
    "signal.kafka.bootstrap.servers",
)
_OVERRIDE = "consumer.override."
#: Starts of the names of consumer options, in the order of their precedence.
_PREFIXES = (
    _OVERRIDE,
    "iceberg.kafka.",
    "consumer.",
    "schema.history.internal.consumer.",
    "database.history.consumer.",
)
_SECURITY = ("security.", "sasl.", "ssl.")
#: Options that the plugin for MSK's IAM login sets.
_OF_MSK_IAM = ("security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.client.callback.handler.class")
_STARTS = {"earliest": "earliest", "latest": "latest"}
#: Consumer options that Spark sets.
_OF_SPARK = (
    "group.id",
    "client.id",
    "enable.auto.commit",
    "key.deserializer",
    "value.deserializer",
    "interceptor.classes",
)


@dataclass(frozen=True)
class ClientInputs:
    """Inputs that may have options of the client, and the brokers of the command line.

    ``bare_options``: starts of the consumer options that the inputs have without a prefix, in addition to those of security.
    """

    inputs: Sequence[Settings]
    bootstrap_servers: str | None
    report: Report
    bare_options: tuple[str, ...] = ()

    def write(self, kafka: Block) -> None:
        """Add brokers and consumer options to the options of the source."""
        self._write_brokers(kafka)
        for settings in self.inputs:
            options = _list_consumer_options(settings)
            bare = [key for key in settings.list_keys() if key.startswith(self.bare_options)]
            options |= {key: key for key in bare if key not in options}
            if "auth" not in kafka.entries and settings.get(options.get("sasl.mechanism", "")) == "AWS_MSK_IAM":
                comment = settings.cite(*(options.pop(name) for name in _OF_MSK_IAM if name in options))
                kafka.entries["auth"] = Block({"msk-iam": Block(comment=comment)})
            for name, key in options.items():
                self._write_option(kafka, settings, name, key)

    def _write_brokers(self, kafka: Block) -> None:
        found = [(s, key) for key in _BOOTSTRAP for s in self.inputs if s.get(key)]
        if self.bootstrap_servers:
            kafka.add("bootstrap.servers", self.bootstrap_servers, "--bootstrap-servers")
        elif found:
            settings, key = found.pop(0)
            kafka.add("bootstrap.servers", settings.read(key), settings.cite(key))
        else:
            kafka.add("bootstrap.servers", f"${{env:{_VARIABLE}}}", "no input names the brokers")
            fix = f"set the environment variable {_VARIABLE}, or use --bootstrap-servers"
            self.report.add(Kind.TO_DO, "bootstrap.servers", (), "no input names the brokers", fix)
        for settings, key in found:
            settings.ignore([key], "`bootstrap.servers` of the source has the brokers")

    def _write_option(self, kafka: Block, settings: Settings, name: str, key: str) -> None:
        option = f"kafka.{name}"
        is_set = option in kafka.entries or (name in _OF_MSK_IAM and "auth" in kafka.entries)
        if name == "auto.offset.reset" and settings.get(key) in _STARTS:
            kafka.add("startingOffsets", settings.get(key), settings.cite(key))
        elif name in (*_OF_SPARK, "auto.offset.reset") or is_set:
            settings.ignore([key], "Spark sets this option of the consumer, or another option here has precedence")
        else:
            kafka.add(option, settings.read(key), settings.cite(key))


def ignore_clients(inputs: Sequence[Settings], why: str) -> None:
    """Report the options of Kafka's client in the inputs of a pipeline that reads no topics."""
    for settings in inputs:
        settings.ignore([*_BOOTSTRAP, *(key for _, key in _iterate_options(settings))], why)


def _list_consumer_options(settings: Settings) -> dict[str, str]:
    """Return option of the consumer → option of the input."""
    found: dict[str, str] = {}
    for name, key in _iterate_options(settings):
        if name in found:
            settings.ignore([key], "another option here has precedence")
        elif name != "bootstrap.servers":
            found[name] = key
    return found


def _iterate_options(settings: Settings) -> Iterator[tuple[str, str]]:
    for prefix in _PREFIXES:
        for key in settings.list_keys(prefix):
            if prefix != _OVERRIDE and key.startswith(_OVERRIDE):
                continue
            name = key.removeprefix(prefix)
            is_of_history = "history" in prefix
            if not is_of_history or name.startswith(_SECURITY):
                yield name, key
    for key in settings.list_keys():
        if key.startswith(_SECURITY):
            yield key, key
