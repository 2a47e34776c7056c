"""Connection of the preflight to SQL Server: the login, and the encryption of TDS.

The stand-in of the test servers replaces SQL Server. It has no encryption, so this module adds the server's side of it.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.cli.main import cli
from headrace.sdk import ConfigError, HeadraceError
from headrace_connect.preflight.source_database import check_database
from headrace_stack.sqlserver import tds
from headrace_stack.sqlserver.client_session import ClientSession
from headrace_stack.sqlserver.database import CapturedDatabase

USER, PASSWORD = "administrator", "hunter2"
#: Place of the encryption in the stand-in's PRELOGIN message.
ENCRYPTION = 32


class EncryptedClient:
    """Client of the stand-in whose connection is encrypted after PRELOGIN; ``received``: its bytes."""

    def __init__(self, client: socket.socket, context: ssl.SSLContext, received: bytearray) -> None:
        self._client, self._received = client, received
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._receive_packet()
        hello = bytearray(tds.hello())
        hello[ENCRYPTION] = 1
        self._send_packet(4, bytes(hello))
        self._shake_hands()

    def recv(self, size: int) -> bytes:
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                if not (data := self._client.recv(65536)):
                    return b""
                self._received += data
                self._incoming.write(data)

    def sendall(self, data: bytes) -> None:
        self._tls.write(data)
        self._client.sendall(self._outgoing.read())

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_packet(0x12, self._outgoing.read())
                self._incoming.write(self._receive_packet())
            else:
                self._send_packet(0x12, self._outgoing.read())
                return

    def _send_packet(self, kind: int, data: bytes) -> None:
        if data:
            self._client.sendall(struct.pack(">BBHHBB", kind, 1, len(data) + 8, 0, 0, 0) + data)

    def _receive_packet(self) -> bytes:
        header = self._client.recv(8, socket.MSG_WAITALL)
        if len(header) < 8:
            raise EOFError
        data = self._client.recv(struct.unpack_from(">H", header, 2)[0] - 8, socket.MSG_WAITALL)
        self._received += header + data
        return data


class TdsServer:
    """The stand-in on a port of this process, with encryption if there is a ``context``."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.received = bytearray()
        self._context = context
        self._database = CapturedDatabase("test")
        now = datetime.now(UTC)
        self._database.create_table("artists", ["id int not null", "name nvarchar(40)"], ["id"], now)
        self._database.create_table("keyless", ["name nvarchar(40)"], [], now)
        self._database.add_column("artists", "fee money", now)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def options(self, **driver: str) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.names": "test",
            "signal.data.collection": "test.dbo.signals",
            **{f"driver.{name}": value for name, value in driver.items()},
        }

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                try:
                    wrapped = EncryptedClient(client, self._context, self.received) if self._context else client
                    ClientSession(wrapped, self._database, threading.Lock(), USER, PASSWORD).run()  # type: ignore[arg-type]
                except (EOFError, OSError):
                    pass  # the client rejected the certificate


def make_certificate(folder: Path, *, host: str = "", address: str = "127.0.0.1") -> tuple[ssl.SSLContext, str]:
    """Return the context of a server with a certificate of its own, and the certificate's file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "SSL_Self_Signed_Fallback")])
    names: list[x509.GeneralName] = [x509.DNSName(host)] if host else [x509.IPAddress(ip_address(address))]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # as SQL Server in this protocol
    context.load_cert_chain(folder / "server.pem", folder / "key.pem")
    return context, str(folder / "server.pem")


@pytest.fixture
def plain_server() -> Iterator[TdsServer]:
    server = TdsServer(None)
    yield server
    server.close()


@pytest.fixture
def own_certificate(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    return make_certificate(tmp_path)


@pytest.fixture
def encrypted_server(own_certificate: tuple[ssl.SSLContext, str]) -> Iterator[TdsServer]:
    server = TdsServer(own_certificate[0])
    yield server
    server.close()


def test_check_of_the_stand_in(plain_server: TdsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", PASSWORD)
    config = plain_server.options(encrypt="false") | {"database.names": "test,missing"}
    block = {"config": {**config, "database.password": "${file:/worker:password}"}}
    file = tmp_path / "pipeline.yaml"
    pipeline = {"name": "test", "connect": {**block, "preflight": {"database.password": "${env:PASSWORD}"}}}
    file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    result = CliRunner().invoke(cli, ["connect", "preflight", str(file)])
    assert result.stdout.splitlines() == [
        (
            "warning: test.dbo.artists has 2 capture instances: a new column cannot get one: USE [test]; "
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'artists', "
            "@capture_instance = N'dbo_artists'; after the connector reads dbo_artists_v3"
        ),
        (
            "error: test.dbo.keyless has neither a primary key nor a unique index: its events have no key: USE [test]; "
            "ALTER TABLE [dbo].[keyless] ADD PRIMARY KEY (…); or set `message.key.columns`"
        ),
        (
            "warning: there is no signal table test.dbo.signals: snapshots on request fail: USE [test]; "
            "CREATE TABLE [dbo].[signals] (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)); "
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'signals', @role_name = NULL;"
        ),
        "error: there is no database missing: correct `database.names`, or create the database",
    ]
    assert (result.exit_code, "the database loses changes: 2 of the settings above" in result.stderr) == (2, True)
    assert PASSWORD not in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"database.password": "wrong"}, "the database cannot be checked: Login failed for user 'administrator'."),
        ({"driver.encrypt": "true"}, "the server has no encryption: the password would not be safe"),
        ({"driver.encrypt": "strict"}, "the preflight has no strict encryption"),
        ({"driver.trustStore": "/missing/store.jks"}, "there is no trust store /missing/store.jks on this machine"),
        ({"driver.trustStore": __file__}, f"the trust store {__file__} is not a PEM file"),
        (
            {"driver.integratedSecurity": "true"},
            "the preflight has logins with a user and a password of SQL Server alone",
        ),
        ({"driver.authentication": "NTLM"}, "the preflight has logins with a user and a password of SQL Server alone"),
        ({"database.port": "1"}, "the database did not respond: [Errno 111] Connection refused"),
    ],
)
def test_rejected_connection(plain_server: TdsServer, options: dict[str, str], message: str) -> None:
    with pytest.raises(HeadraceError) as error:
        check_database(plain_server.options(encrypt="false") | options)
    assert error.value.what == message


def test_instance_without_a_port(plain_server: TdsServer) -> None:
    options = plain_server.options() | {"database.instance": "ONE"}
    del options["database.port"]
    with pytest.raises(ConfigError, match=r"add the port of the instance, `database\.port`"):
        check_database(options)


@pytest.mark.parametrize(
    "driver", [{"trustStore": "server.pem"}, {"trustServerCertificate": "true"}, {"encrypt": "false"}]
)
def test_encrypted_login(encrypted_server: TdsServer, tmp_path: Path, driver: dict[str, str]) -> None:
    """The driver of Microsoft also encrypts the login with ``encrypt=false``, without a check of the certificate."""
    if "trustStore" in driver:
        driver = {"trustStore": str(tmp_path / driver["trustStore"])}
    assert len(check_database(encrypted_server.options(**driver))) == 3
    assert encrypted_server.received
    assert USER.encode("utf-16-le") not in encrypted_server.received


def test_certificate_of_an_unknown_authority(encrypted_server: TdsServer) -> None:
    with pytest.raises(ConfigError) as error:
        check_database(encrypted_server.options())
    assert error.value.what == "the certificate of the server is not valid for 127.0.0.1: self-signed certificate"
    assert "driver.trustStore" in str(error.value)


def test_certificate_of_another_name(tmp_path: Path) -> None:
    context, trust_store = make_certificate(tmp_path, host="db.example.com")
    server = TdsServer(context)
    try:
        with pytest.raises(ConfigError, match=r"IP address mismatch.*not valid for '127\.0\.0\.1'"):
            check_database(server.options(trustStore=trust_store))
        options = server.options(trustStore=trust_store, hostNameInCertificate="db.example.com")
        assert len(check_database(options)) == 3
    finally:
        server.close()
