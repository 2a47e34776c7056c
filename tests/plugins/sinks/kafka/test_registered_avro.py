"""Registration of schemas. The server returns responses of Confluent's registry; test_kafka_sink_avro.py has a real registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headrace import ConfigError, DataError, HeadraceError, RetriableError
from headrace.sdk import LoginError
from headrace_kafka import registry_client
from headrace_sinks import KafkaSink
from headrace_sinks.kafka.registered_avro import RegisteredAvro

SCHEMA = '{"type": "record", "name": "Value", "fields": []}'
INCOMPATIBLE = {
    "error_code": 409,
    "message": "Schema being registered is incompatible with an earlier schema for subject "
    "\"replica.orders-value\", details: [{errorType:'TYPE_MISMATCH', description:'The type (path '/fields/1/type/1') "
    "of a field in the new schema does not match with the old schema'}]",
}


class FakeRegistry(ThreadingHTTPServer):
    """Registry with one response. ``requests`` holds the path, the type and the content of each request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.response: tuple[int, Any] = (200, {"id": 7})
        self.requests: list[tuple[str, str | None, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeRegistry

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers["Content-Type"], content))
        status, body = self.server.response
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    monkeypatch.setattr(registry_client, "PAUSES", (0.01,))
    server = FakeRegistry()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_schema_is_registered_once(registry: FakeRegistry) -> None:
    avro = RegisteredAvro({"registry": f"{registry.url}/"})
    assert [avro.register("replica/orders-value", SCHEMA) for _ in range(3)] == [7, 7, 7]
    registry.response = 200, {"id": 8}
    assert avro.register("replica/orders-value", SCHEMA.replace("Value", "Other")) == 8
    content_type = "application/vnd.schemaregistry.v1+json"
    assert registry.requests[0] == ("/subjects/replica%2Forders-value/versions", content_type, {"schema": SCHEMA})
    assert len(registry.requests) == 2


def test_schema_is_looked_up_without_registration(registry: FakeRegistry) -> None:
    avro = RegisteredAvro({"registry": registry.url, "auto.register.schemas": False})
    assert avro.register("replica.orders-value", SCHEMA) == 7
    assert registry.requests[0][0] == "/subjects/replica.orders-value"
    registry.response = 404, {"error_code": 40403, "message": "Schema not found"}
    with pytest.raises(DataError, match=r"schema of replica\.orders-key was refused.*Schema not found") as raised:
        avro.register("replica.orders-key", SCHEMA)
    assert "`auto.register.schemas: true`" in str(raised.value.fix)


@pytest.mark.parametrize("id_", [True, -1, 1 << 31, "7", None])
def test_invalid_id_of_a_schema_is_rejected(registry: FakeRegistry, id_: Any) -> None:
    registry.response = 200, {"id": id_}
    with pytest.raises(ConfigError, match=r"no valid id of the schema of replica\.orders-key"):
        RegisteredAvro({"registry": registry.url}).register("replica.orders-key", SCHEMA)


@pytest.mark.parametrize(
    ("response", "kind", "what", "fix"),
    [
        ((404, {"error_code": 40401, "message": "No subject"}), DataError, "value was refused", "correct `registry:`"),
        ((409, INCOMPATIBLE), DataError, "TYPE_MISMATCH", "`cast` under `transforms:`"),
        ((422, {"error_code": 42201, "message": "Invalid schema"}), DataError, "Invalid schema", "compatibility"),
        ((401, {"message": "Unauthorized"}), LoginError, "401", "`basic.auth.user.info`"),
        ((403, {"message": "Denied"}), ConfigError, "permission denied", "DeveloperWrite"),
        ((500, {"message": "no leader"}), RetriableError, "no leader", ""),
        ((200, []), ConfigError, "the server is not a schema registry", "`registry:`"),
        ((200, {"id": "7"}), ConfigError, "the server is not a schema registry", "`registry:`"),
    ],
)
def test_refused_schema_is_explained(
    registry: FakeRegistry, response: tuple[int, Any], kind: type[HeadraceError], what: str, fix: str
) -> None:
    registry.response = response
    with pytest.raises(HeadraceError) as raised:
        RegisteredAvro({"registry": registry.url}).register("replica.orders-value", SCHEMA)
    assert type(raised.value) is kind
    assert what in raised.value.what
    assert registry.url in str(raised.value)
    assert fix in str(raised.value.fix)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value.format": "avro"}, "needs `registry:` for Avro"),
        ({"keys.format": "avro"}, "needs `registry:` for Avro"),
        ({"registry": "https://registry:8081"}, "has registry without Avro"),
        ({"ssl.ca.location": "ca.pem"}, "has ssl.ca.location without Avro"),
        ({"value.format": "avro", "registry": "glue"}, "/apis/ccompat/v7"),
        ({"value.format": "avro", "registry": "http://apicurio/apis/registry/v3"}, "/apis/ccompat/v7"),
        ({"value.format": "avro", "registry": "https://user:canary@registry"}, "`basic.auth.user.info: USER:PASSWORD`"),
        ({"value.format": "avro", "schema.registry.url": "http://registry"}, "write `registry:`"),
    ],
)
def test_wrong_options_of_the_registry_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        KafkaSink({"bootstrap.servers": "broker:9092", **options})
    assert message in str(raised.value)
    assert "canary" not in str(raised.value)


def test_jars_of_avro_are_needed_for_avro_alone() -> None:
    broker = {"bootstrap.servers": "broker:9092"}
    assert not list(KafkaSink(broker).parts())
    (part,) = KafkaSink({**broker, "keys.format": "avro", "registry": "http://registry"}).parts()
    assert any("spark-avro" in jar for jars in part.jars.values() for jar in jars)
