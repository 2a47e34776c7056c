"""Options that all sources of a pipeline must share, because the pipeline has them once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.sdk import ConfigError
from headrace_import.connect import debezium_source
from headrace_import.connect.smt import split_list
from headrace_import.settings import Settings

#: Endings of the options that give the format of the values or keys, after the name of the converter.
_FORMAT = ("", ".schema.registry.url", ".apicurio.registry.url")


def check_shared_options(sources: Sequence[Settings], sinks: Sequence[Settings], workers: Sequence[Settings]) -> None:
    """Raise ConfigError for sources that write different placeholders or formats. A sink with a converter names the format."""
    debezium = [source for source in sources if source.get("connector.class") in debezium_source.CLASSES]
    placeholders = {source.place: debezium_source.read_placeholder(source) for source in debezium}
    _check_one_value(placeholders, "the sources have different values of `unavailable.value.placeholder`")
    for converter in ("value.converter", "key.converter"):
        if not any(sink.get(converter) for sink in sinks):
            owners = {s.place: next((o for o in (s, *workers) if o.get(converter)), None) for s in sources}
            formats = {
                place: tuple(owner.get(f"{converter}{ending}") for ending in _FORMAT)
                for place, owner in owners.items()
                if owner
            }
            _check_one_value(formats, f"the sources have different options of `{converter}`")


def check_brokers(workers: Sequence[Settings]) -> None:
    """Raise ConfigError for workers of different brokers."""
    key = "bootstrap.servers"
    brokers = {worker.place: frozenset(split_list(worker.get(key))) for worker in workers if worker.get(key)}
    if len(set(brokers.values())) > 1:
        fix = "give the properties of the worker whose brokers have the topics, or `--bootstrap-servers`"
        what = "the files have different values of `bootstrap.servers`"
        raise ConfigError(what, where=", ".join(brokers), fix=fix)


def _check_one_value(values: Mapping[str, object], what: str) -> None:
    """Raise if the inputs, by their places, have several values."""
    if len(set(values.values())) > 1:
        fix = "import each source into a pipeline file of its own"
        raise ConfigError(what, where=", ".join(values), fix=fix)
