"""Errors of the options of the source ``kafka`` and of the schema registry."""

from __future__ import annotations

import pytest

from headrace import ConfigError
from headrace_sources import AvroFormat, JsonFormat, KafkaSource


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("group.id", "write `kafka.group.id:`"),
        ("security.protocol", "write `kafka.security.protocol:`"),
        ("ssl.truststore.location", "write `kafka.ssl.truststore.location:`"),
        ("auto.offset.reset", "write `startingOffsets:`"),
        ("kafka.auto.offset.reset", "write `startingOffsets:`"),
        ("schema.registry.url", "write `value: {avro: {registry: …}}` next to `kafka:`"),
        ("maxOffsetsPerTrigger", "write digits only"),
        ("topics", "write `subscribe:` with names of topics"),
        ("kafka.bootstrap.servers", "write `bootstrap.servers:`"),
        ("kafka.bootstrap.server", "did you mean `bootstrap.servers`?"),
        ("kafka.sasl.mecanism", "did you mean `kafka.sasl.mechanism`?"),
        ("kafka.sasl.jaas.conf", "did you mean `kafka.sasl.jaas.config`?"),
        ("kafka.ssl.trustore.location", "did you mean `kafka.ssl.truststore.location`?"),
    ],
)
def test_option_with_another_or_misspelled_name_is_explained(key: str, fix: str) -> None:
    with pytest.raises(ConfigError) as raised:
        KafkaSource({"bootstrap.servers": "broker:9092", "subscribe": "orders", key: "x"})
    assert f"fix: {fix}" in str(raised.value)


@pytest.mark.parametrize("format_class", [AvroFormat, JsonFormat])
def test_address_of_the_registry_with_another_name_is_explained(format_class: type) -> None:
    with pytest.raises(ConfigError, match="fix: write `registry:`"):
        format_class({"schema.registry.url": "http://registry:8081"})


@pytest.mark.parametrize("format_class", [AvroFormat, JsonFormat])
@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (
            "http://me:hunter2@registry:8081",
            "the address contains a login: write `basic.auth.user.info: USER:PASSWORD`",
        ),
        ("registry:8081", "it is not the address of a registry: write `https://HOST:PORT`"),
        ("https://", "it is not the address of a registry"),
    ],
)
def test_invalid_address_of_the_registry_is_rejected(format_class: type, address: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        format_class({"registry": address})
    assert problem in str(raised.value)
    assert "hunter2" not in str(raised.value)
