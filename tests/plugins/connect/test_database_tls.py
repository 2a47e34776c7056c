"""TLS of the preflight: which servers get the password. Small servers ask for it; no real one offers each of these faults."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.cli.main import cli

PASSWORD = "hunter2"
_CLIENT_SSL = 0x0800
#: Protocol 4.1, a long password, TLS, a salted login, and names of logins.
_CAPABILITIES = 0x00000200 | 0x00000001 | 0x00008000 | 0x00080000


class AskingServer:
    """Server that speaks the start of a protocol, asks for the password, and records what it gets."""

    def __init__(self, talk: Callable[[AskingServer, socket.socket], None], tls: ssl.SSLContext | None = None) -> None:
        self.talk, self.tls, self.received = talk, tls, b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with suppress(OSError), connection:
                    self.talk(self, connection)

    def encrypt(self, connection: socket.socket) -> socket.socket:
        assert self.tls
        return self.tls.wrap_socket(connection, server_side=True)

    def read(self, connection: socket.socket, size: int = 4096) -> bytes:
        data = connection.recv(size)
        self.received += data
        return data

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def talk_postgresql(server: AskingServer, connection: socket.socket) -> None:
    start = server.read(connection)
    if start[4:8] == struct.pack(">I", 80877103):
        connection.sendall(b"S" if server.tls else b"N")
        connection = server.encrypt(connection) if server.tls else connection
        start = server.read(connection)
    if start:
        connection.sendall(b"R" + struct.pack(">II", 8, 3))
        server.read(connection)
    connection.close()


def talk_mysql(server: AskingServer, connection: socket.socket, login: bytes = b"mysql_clear_password") -> None:
    capabilities = _CAPABILITIES | (_CLIENT_SSL if server.tls else 0)
    low, high = struct.pack("<H", capabilities & 0xFFFF), struct.pack("<H", capabilities >> 16)
    salt, name = b"123456789012\0", b"mysql_native_password\0"
    hello = (
        b"\x0a8.0.36\0" + bytes(4) + b"12345678\0" + low + b"\x21\x02\x00" + high + b"\x15" + bytes(10) + salt + name
    )
    connection.sendall(struct.pack("<I", len(hello)) + hello)
    # The first message of TLS follows at once, and must stay in the socket.
    answer = server.read(connection, 36)
    if server.tls and answer[5] & (_CLIENT_SSL >> 8):
        connection = server.encrypt(connection)
        answer = server.read(connection)
    else:
        answer += server.read(connection)
    if answer:
        ask = b"\xfe" + login + b"\0" + b"12345678901234567890\0"
        connection.sendall(struct.pack("<I", len(ask))[:3] + bytes([answer[3] + 1]) + ask)
        more = server.read(connection)
        if login == b"caching_sha2_password" and more:
            connection.sendall(b"\x02\0\0" + bytes([more[3] + 1]) + b"\x01\x04")
            server.read(connection)
    connection.close()


def make_certificate(folder: Path, name: str) -> Path:
    """Create a key with a self-signed certificate for ``localhost``, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file = folder / f"{name}.pem"
    file.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain) + made.public_bytes(encoding)
    )
    return file


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return make_certificate(tmp_path, "own")


@contextmanager
def serve(talk: Callable[..., None], certificate: Path | None) -> Iterator[AskingServer]:
    tls = None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    server = AskingServer(talk, tls)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    yield server
    server.close()
    thread.join(10)


def preflight(folder: Path, kind: str, port: int, host: str = "127.0.0.1", **options: Any) -> Result:
    login = {"database.hostname": host, "database.port": port, "database.user": "u", "database.password": PASSWORD}
    config = {"connector.class": f"io.debezium.connector.{kind}", **login, "database.dbname": "d", **options}
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump({"name": "market", "connect": {"config": config}}), encoding="utf-8")
    return CliRunner().invoke(cli, ["connect", "preflight", str(file)])


KINDS = {
    "postgresql.PostgresConnector": (
        talk_postgresql,
        "database.sslmode",
        "database.sslrootcert",
        {"off": "disable", "prefer": "prefer", "require": "require", "ca": "verify-ca", "name": "Verify-Full"},
    ),
    "mysql.MySqlConnector": (
        talk_mysql,
        "database.ssl.mode",
        "database.ssl.truststore",
        {"off": "disabled", "prefer": "preferred", "require": "required", "ca": "verify_ca", "name": "VERIFY_IDENTITY"},
    ),
    "mariadb.MariaDbConnector": (
        talk_mysql,
        "database.ssl.mode",
        "database.ssl.truststore",
        {"off": "disable", "require": "trust", "ca": "verify-ca", "name": "verify-full"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_server_that_the_connector_trusts(tmp_path: Path, own: Path, kind: str) -> None:
    talk, mode_key, store_key, modes = KINDS[kind]
    trusted = {store_key: str(own)}
    for mode, host, options in (
        ("require", "127.0.0.1", {}),
        ("prefer", "127.0.0.1", {}),
        ("ca", "127.0.0.1", trusted),
        ("name", "localhost", trusted),
    ):
        if mode in modes:
            with serve(talk, own) as server:
                result = preflight(tmp_path, kind, server.port, host, **{mode_key: modes[mode]}, **options)
            assert PASSWORD.encode() in server.received, (mode, result.output)
            assert PASSWORD not in result.output


@pytest.mark.parametrize("kind", KINDS)
def test_server_that_the_connector_rejects(tmp_path: Path, own: Path, kind: str) -> None:
    talk, mode_key, store_key, modes = KINDS[kind]
    other = make_certificate(tmp_path, "other")
    for mode, certificate, authority, error in (
        ("ca", own, other, "CERTIFICATE_VERIFY_FAILED"),
        ("name", own, other, "CERTIFICATE_VERIFY_FAILED"),
        ("name", own, own, "certificate is not valid for '127.0.0.1'"),
        ("require", None, own, "SSL"),
        ("ca", None, own, "SSL"),
        ("name", None, own, "SSL"),
    ):
        with serve(talk, certificate) as server:
            result = preflight(tmp_path, kind, server.port, **{mode_key: modes[mode], store_key: str(authority)})
        assert PASSWORD.encode() not in server.received, mode
        assert result.exit_code == 2, (mode, result.output)
        assert "the connection is not safe: " in result.stderr
        assert error in result.stderr
        assert f"where: 127.0.0.1:{server.port}" in result.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_trust_store_that_is_not_usable(tmp_path: Path, own: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    talk, mode_key, store_key, modes = KINDS[kind]
    (tmp_path / "trust.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    cases: list[tuple[dict[str, str], str]] = [
        ({store_key: str(tmp_path / "trust.jks")}, "it is not a PEM file"),
        ({store_key: "/worker/only.pem"}, "No such file or directory"),
    ]
    if kind == "postgresql.PostgresConnector":
        cases.append(({}, f"`database.sslrootcert`, {tmp_path}/.postgresql/root.crt, cannot be used on this machine"))
    for options, error in cases:
        with serve(talk, own) as server:
            result = preflight(tmp_path, kind, server.port, "localhost", **{mode_key: modes["name"]}, **options)
        assert (result.exit_code, server.received) == (2, b"")
        assert error in result.stderr
        assert f"set `{store_key}` in `connect: {{preflight: …}}` to a PEM file" in result.stderr


def test_client_certificate_that_is_not_usable(tmp_path: Path, own: Path) -> None:
    with serve(talk_postgresql, own) as server:
        options = {"database.sslmode": "require", "database.sslcert": str(own), "database.sslkey": "/worker/key.pk8"}
        result = preflight(tmp_path, "postgresql.PostgresConnector", server.port, **options)
    assert (result.exit_code, server.received) == (2, b"")
    assert f"`database.sslcert`, {own} and /worker/key.pk8, cannot be used on this machine" in result.stderr


@pytest.mark.parametrize("login", ["mysql_clear_password", "dialog", "sha256_password", "caching_sha2_password"])
@pytest.mark.parametrize("mode", ["disabled", "preferred"])
def test_mysql_without_tls_that_asks_for_the_password(tmp_path: Path, mode: str, login: str) -> None:
    def talk(server: AskingServer, connection: socket.socket) -> None:
        talk_mysql(server, connection, login.encode())

    with serve(talk, None) as server:
        result = preflight(tmp_path, "mysql.MySqlConnector", server.port, **{"database.ssl.mode": mode})
    assert PASSWORD.encode() not in server.received
    assert result.exit_code == 2, result.output
    assert "the login of this user sends the password, and the connection has no TLS" in result.stderr


def test_unknown_mode(tmp_path: Path) -> None:
    result = preflight(tmp_path, "mysql.MySqlConnector", 9, **{"database.ssl.mode": "verify_identiy"})
    assert (result.exit_code, "`database.ssl.mode` has no mode 'verify_identiy'" in result.stderr) == (2, True)
    assert "did you mean 'verify_identity'?" in result.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_database_that_is_down(tmp_path: Path, kind: str) -> None:
    result = preflight(tmp_path, kind, 9)
    assert result.exit_code == 5
    assert "the database did not respond: [Errno 111] Connection refused" in result.stderr
    assert "where: 127.0.0.1:9" in result.stderr


#: Start of a message that a server does not complete.
STARTS = {
    "postgresql.PostgresConnector": b"NR\x00\x00\x03\xe8",
    "mysql.MySqlConnector": b"\xc8\x00\x00\x00",
    "sqlserver.SqlServerConnector": b"\x04\x01\x03\x00\x00\x00\x00\x00",
}


@pytest.mark.parametrize("kind", STARTS)
def test_server_that_sends_one_byte_after_another(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_connect.preflight.source_database._LIMIT", 0.7)
    is_over = threading.Event()

    def talk(_: AskingServer, connection: socket.socket) -> None:
        connection.sendall(STARTS[kind])
        while not is_over.wait(0.1):
            connection.sendall(b"\0")

    with serve(talk, None) as server:
        result = preflight(tmp_path, kind, server.port)
        is_over.set()
    assert result.exit_code == 5
    assert "the database did not answer all queries within 0.7 seconds" in result.stderr
    assert f"where: 127.0.0.1:{server.port}" in result.stderr


def test_silent_server_leaves_no_message_of_the_driver(tmp_path: Path) -> None:
    """Run the program in a process of its own: pytest handles the messages of libraries."""
    with serve(lambda _, connection: time.sleep(1), None) as server:
        login = {"database.hostname": "127.0.0.1", "database.port": server.port, "database.user": "u"}
        kind = "io.debezium.connector.sqlserver.SqlServerConnector"
        block = {"config": {"connector.class": kind, "database.password": PASSWORD, "database.names": "d", **login}}
        file = tmp_path / "pipeline.yaml"
        file.write_text(yaml.safe_dump({"name": "market", "connect": block}), encoding="utf-8")
        program = (
            "from headrace.cli.main import main; from headrace_connect.preflight import source_database;"
            "source_database._TIMEOUT = 0.2; main()"
        )
        command = [sys.executable, "-c", program, "connect", "preflight", str(file)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 5
    assert result.stderr.startswith("error: the database did not respond: timed out\n"), result.stderr


def test_alias_and_misspelled_option(tmp_path: Path) -> None:
    login = {"database.hostname": "127.0.0.1", "database.port": 9, "database.user": "u"}
    block = {"config": {"connector.class": "MySql", **login}, "preflight": {"databse.password": "x", "driver.x": "y"}}
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump({"name": "market", "connect": block}), encoding="utf-8")
    result = CliRunner().invoke(cli, ["connect", "preflight", str(file)])
    assert "the database did not respond" in result.stderr
    assert result.stderr.splitlines()[0] == (
        "warning: 'databse.password' in `preflight:` is no option of the connector; did you mean 'database.password'?"
    )


def test_missing_host_and_reference_of_the_worker(tmp_path: Path) -> None:
    without = preflight(tmp_path, "mysql.MySqlConnector", 9, "")
    assert (without.exit_code, "`database.hostname` has no value" in without.stderr) == (2, True)
    reference = preflight(tmp_path, "mysql.MySqlConnector", 9, "${file:/worker:host}")
    assert (reference.exit_code, "the reference of `database.hostname`" in reference.stderr) == (2, True)
