"""Avro schemas over mutual TLS.

The registry is real. Quarkus fixes client authentication at build time (``quarkus.http.ssl.client-auth``), and the
distributed build does not enable it, so a proxy in front of the registry requires the client certificate.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import ProxyHandler, build_opener

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from tests.plugins.sources.formats.test_avro_records import ROW, body, make_topic, read, session

from headrace.errors import ConfigError, RetriableError
from headrace_kafka import registry_client
from headrace_sources.formats.avro import AvroFormat
from headrace_stack import SchemaRegistry
from headrace_stack.servers import key_stores
from headrace_stack.servers.json_http import request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

__all__ = ["session"]


class TlsProxy(ThreadingHTTPServer):
    """Proxy that forwards requests to ``target`` for clients with a trusted certificate."""

    def __init__(self, target: str, tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.tls = target, tls

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_port}"

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = super().get_request()
        connection = self.tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        try:
            connection.do_handshake()
        except ssl.SSLError:
            # With TLS 1.3 the client writes before it receives the alert. An unread socket could drop the alert.
            with connection, suppress(ConnectionError):
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
            raise
        return connection, address


class _Handler(BaseHTTPRequestHandler):
    server: TlsProxy

    def do_GET(self) -> None:
        with build_opener(ProxyHandler({})).open(f"{self.server.target}{self.path}", timeout=30) as answer:
            self.send_response(answer.status)
            self.end_headers()
            self.wfile.write(answer.read())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with certificates (``NAME.pem``) and keys (``NAME.key``) of the registry, a client and a third party."""
    folder = tmp_path_factory.mktemp("pem")
    for name in ("registry", "client", "stranger"):
        key_stores.make(folder, name)
        store = (folder / f"{name}.p12").read_bytes()
        key, _, _ = pkcs12.load_key_and_certificates(store, key_stores.PASSWORD.encode())
        assert key is not None
        written = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (folder / f"{name}.key").write_bytes(key.private_bytes(*written, serialization.NoEncryption()))
        locked = serialization.BestAvailableEncryption(b"secret")
        (folder / f"{name}.locked").write_bytes(key.private_bytes(*written, locked))
    return folder


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """Return the address of a registry whose only schema, 1, is ROW."""
    with SchemaRegistry() as server:
        schema = {"schema": json.dumps(ROW)}
        assert request("POST", f"{server.ccompat_url}/subjects/rows/versions", schema) == (200, {"id": 1})
        yield server.url


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda version: version.name)
def url(request: pytest.FixtureRequest, target: str, pem: Path) -> Iterator[str]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pem / "client.pem"))
    tls.load_cert_chain(pem / "registry.pem", pem / "registry.key")
    tls.verify_mode, tls.maximum_version = ssl.CERT_REQUIRED, request.param
    server = TlsProxy(target, tls)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"{server.url}/apis/ccompat/v7"
    server.shutdown()
    thread.join(10)
    server.server_close()


def avro(url: str, pem: Path, ca: str, certificate: str | None = None, key: str | None = None) -> AvroFormat:
    given = {"ssl.ca.location": ca, "ssl.certificate.location": certificate, "ssl.key.location": key}
    files = {name: str(pem / file) for name, file in given.items() if file}
    return AvroFormat({"registry": url, **files})


def records(session: SparkSession, avro: AvroFormat) -> list[tuple[int, str]]:
    found = read(session, avro, make_topic(session, b"\0\0\0\0\1" + body(1, "a")))
    return [tuple(row) for row in found.select("value.*").collect()]


@pytest.mark.nightly
def test_records_are_read_with_a_client_certificate(session: SparkSession, url: str, pem: Path) -> None:
    avro_format = avro(url, pem, "registry.pem", "client.pem", "client.key")
    assert records(session, avro_format) == [(1, "a")]
    assert list(avro_format.connect(session)) == [(f"registry {url}", "responds, 1 subjects")]


@pytest.mark.nightly
def test_certificate_and_key_in_one_file(session: SparkSession, url: str, pem: Path) -> None:
    both = pem / "both.pem"
    both.write_text((pem / "client.pem").read_text() + (pem / "client.key").read_text())
    assert records(session, avro(url, pem, "registry.pem", "both.pem")) == [(1, "a")]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("files", "message", "fix"),
    [
        (
            ("registry.pem",),
            "TLS handshake failed: .*ALERT",
            "set `ssl.certificate.location` and `ssl.key.loc",
        ),
        (
            ("registry.pem", "stranger.pem", "stranger.key"),
            "TLS handshake failed: .*ALERT",
            "to a certificate that the registry trusts",
        ),
        (
            ("stranger.pem", "client.pem", "client.key"),
            "TLS handshake failed: .*CERTIFICATE_VERIFY_FAILED",
            "set `ssl.ca.location` to the certificate that signed the registry's",
        ),
        (("gone.pem",), r"`ssl.ca.location`, \S+/gone.pem, cannot be used: No such file", "name PEM files"),
        (
            ("registry.pem", "gone.pem"),
            r"`ssl.certificate.location`, \S+/gone.pem, cannot be used",
            "name PEM files",
        ),
        (
            ("registry.pem", "client.pem", "stranger.key"),
            r"`ssl.certificate.location`, \S+/client.pem and \S+/stranger.key, cannot be used: .*MISMATCH",
            "the key must belong to the certificate",
        ),
        (
            ("registry.pem", "client.pem", "client.locked"),
            "client.locked, cannot be used",
            "and have no password",
        ),
    ],
    ids=["no certificate", "untrusted", "wrong ca", "no such ca", "no such certificate", "another's key", "locked key"],
)
def test_invalid_certificates(
    session: SparkSession,
    url: str,
    pem: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: tuple[str, ...],
    message: str,
    fix: str,
) -> None:
    monkeypatch.setattr(registry_client, "PAUSES", (0.01,))
    with pytest.raises(ConfigError, match=message) as caught:
        records(session, avro(url, pem, *files))
    assert caught.value.where == url
    assert fix in str(caught.value)


@pytest.mark.nightly
def test_registry_closes_the_connection(session: SparkSession, pem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may reject a client by closing the connection without an alert."""
    monkeypatch.setattr(registry_client, "PAUSES", ())
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.recv(4096)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(RetriableError, match="the schema registry did not respond: ") as caught:
            records(session, avro(f"https://127.0.0.1:{server.getsockname()[1]}", pem, "registry.pem"))
        thread.join(10)
    assert "running and trusts `ssl.certificate.location`" in str(caught.value)
