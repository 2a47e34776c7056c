"""SQL Server stand-in: it works with Debezium's connector, identifies itself and reports unsupported requests."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.pages import find_block

from headrace.errors import ConfigError
from headrace_stack import Connect, Kafka, SqlServer
from headrace_stack.sqlserver import Refused

pytestmark = [pytest.mark.nightly, pytest.mark.dist, pytest.mark.timeout(240), pytest.mark.one_spark]

ARTISTS = ["id int not null", "name varchar(40)", "born date default '1900-01-01'"]
ARP: dict[str, Any] = {"id": 1, "name": "Arp", "born": "1886-09-16"}


def test_server_keeps_its_address_and_its_rows() -> None:
    with SqlServer() as server:
        folder, address = server.folder, server.address
        server.create_table("artists", ARTISTS, key=["id"])
        server.insert("artists", ARP, {"id": 2, "name": "Höch"})
        server.add_column("artists", "fee money not null default 1.5")
        server.update("artists", {"id": 2}, {"born": None, "fee": "-0.00005"})
        with server.transaction() as changes:
            changes.insert("artists", {"id": 3})
            changes.delete("artists", {"id": 1})
        kept = [
            {"id": 2, "name": "Höch", "born": None, "fee": "-0.0001"},
            {"id": 3, "name": None, "born": "1900-01-01", "fee": "1.5000"},
        ]
        assert server.rows("artists") == kept
        server.stop()
        assert server.start().rows("artists") == kept
        server.kill()
        with (folder / "journal.jsonl").open("ab") as journal:
            journal.write(b'["2026-01-01T00:00:00+00:00", {"do": "tra')
        assert server.start().rows("artists") == kept
        server.delete("artists", {"id": 2})
        server.kill()
        assert server.start().rows("artists") == kept[1:]
        assert server.address == address
        assert "[NOT A SERVER: headrace's stand-in for tests]" in server.log.read_text()
    assert not folder.exists()


@pytest.fixture(scope="module")
def one_row_server(sqlserver: SqlServer) -> SqlServer:
    sqlserver.create_table("refusing", ARTISTS, key=["id"])
    sqlserver.insert("refusing", ARP)
    return sqlserver


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1}, r"Violation of PRIMARY KEY constraint. Cannot insert duplicate key \(1,\) in 'refusing'"),
        ({"name": "x"}, "Cannot insert the value NULL into column 'id'"),
        ({"id": 2**31}, "Arithmetic overflow error for data type int, value = 2147483648"),
        ({"id": 2, "name": "x" * 41}, r"would be truncated: 'x+' does not fit varchar\(40\)"),
        ({"id": 2, "born": "1886-09-31"}, "'1886-09-31' is not a valid date"),
        ({"id": 2, "fee": 1}, "Invalid column name 'fee'; refusing has id, name, born"),
    ],
)
def test_invalid_row_is_rejected_and_changes_nothing(
    one_row_server: SqlServer, row: dict[str, Any], message: str
) -> None:
    def insert_row() -> None:
        with one_row_server.transaction() as changes:
            changes.update("refusing", {"id": 1}, {"name": "Hans"})
            changes.insert("refusing", row)

    with pytest.raises(Refused, match=message):
        insert_row()
    assert one_row_server.rows("refusing") == [ARP]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("place geography", "has no type geography; it has bit, tinyint"),
        ("fee decimal(39)", r"invalid type decimal\(39,0\)"),
        ("made datetime2 default sysutcdatetime()", r"supports only literals as defaults, not `sysutcdatetime\(\)`"),
        ("fee", "a column is `name type "),
        ("name text", "'name' is in 'refusing'"),
        ("fee int not null", "only allows columns to be added that can contain nulls or have a default"),
    ],
)
def test_unsupported_column_is_rejected(one_row_server: SqlServer, column: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        one_row_server.add_column("refusing", column)
    assert one_row_server.rows("refusing") == [ARP]


def test_example_in_the_docs(sqlserver: SqlServer, connect: Connect, kafka: Kafka) -> None:
    example = find_block("docs/test-servers.md", "python", "def test_a_change_of_the_key(")
    names: dict[str, Any] = {}
    exec(example, names)
    try:
        names["test_a_change_of_the_key"](sqlserver, connect, kafka)
    finally:
        connect.delete("artists")


@pytest.fixture(scope="module")
def painters_server(sqlserver: SqlServer, connect: Connect, kafka: Kafka) -> Iterator[SqlServer]:
    """Start a connector that reads ``painters`` into ``following.test.dbo.painters``, and return the server after its first row."""
    sqlserver.create_table("painters", ARTISTS, key=["id"])
    sqlserver.insert("painters", ARP)
    connect.put("following", config(sqlserver, kafka, "following", "painters"))
    kafka.read("following.test.dbo.painters", 1)
    yield sqlserver
    connect.delete("following")


def config(sqlserver: SqlServer, kafka: Kafka, prefix: str, table: str) -> dict[str, str]:
    own = sqlserver.debezium(prefix, kafka.bootstrap_servers)
    # The default pause after an error is 10 s.
    return {**own, "table.include.list": f"dbo.{table}", "retriable.restart.connector.wait.ms": "200"}


def last_event(kafka: Kafka, count: int) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(kafka.read("following.test.dbo.painters", count)[count - 1].value or b"")
    return event


def test_changes_arrive(painters_server: SqlServer, kafka: Kafka) -> None:
    painters_server.update("painters", {"id": 1}, {"name": "Jean Arp"})
    painters_server.update("painters", {"id": 1}, {"id": 10})
    painters_server.delete("painters", {"id": 10})
    records = kafka.read("following.test.dbo.painters", 7)
    events = [json.loads(record.value or b"null") for record in records]
    assert [event and (event["op"], event["source"]["event_serial_no"]) for event in events] == [
        ("r", None),
        ("u", 2),
        ("d", 1),
        None,
        ("c", 2),
        ("d", 1),
        None,
    ]
    update, deleted, inserted = events[1], events[2], events[4]
    assert update["source"]["connector"] == "sqlserver"
    assert (update["before"]["name"], update["after"]["name"]) == ("Arp", "Jean Arp")
    assert deleted["source"]["change_lsn"] == inserted["source"]["change_lsn"]
    assert (deleted["before"]["id"], inserted["after"]["id"]) == (1, 10)
    assert not {name for record in records for name, _ in record.headers} & {"__debezium.newkey", "__debezium.oldkey"}


def test_disconnecting_clients_do_not_affect_others(painters_server: SqlServer, kafka: Kafka) -> None:
    def send_bytes(data: bytes) -> None:
        with socket.create_connection((painters_server.host, painters_server.port), timeout=30) as client:
            client.sendall(data)

    count = len(kafka.read("following.test.dbo.painters"))
    for data in (
        b"",
        b"\x12\x01",
        struct.pack(">BBH4x", 0x12, 1, 100) + b"half",
        struct.pack(">BBH4x", 0x10, 1, 12) + b"what",
    ):
        send_bytes(data)
    # The first bytes of TLS, which the server parses as the length of a TDS message.
    send_bytes(b"\x16\x03\x01\x02" + bytes(0x102))
    painters_server.insert("painters", {"id": 20 + count})
    assert last_event(kafka, count + 1)["after"]["id"] == 20 + count
    wait_for(
        lambda: painters_server.log_says(
            "first message of a client has kind 22; the connection was closed: set encrypt=false"
        )
    )


def test_connector_resumes_after_a_kill(painters_server: SqlServer, kafka: Kafka) -> None:
    count = len(kafka.read("following.test.dbo.painters"))
    painters_server.kill()
    painters_server.start()
    painters_server.insert("painters", {"id": 40 + count})
    assert last_event(kafka, count + 1)["after"]["id"] == 40 + count


def test_wrong_password_is_rejected(painters_server: SqlServer, connect: Connect, kafka: Kafka) -> None:
    invalid = {**config(painters_server, kafka, "wrong", "painters"), "database.password": "guessed"}
    with pytest.raises(ConfigError, match="Login failed for user 'sa'"):
        connect.put("wrong", invalid)
    assert connect.status("wrong") is None
    assert painters_server.log_says("login failed for user 'sa'")


def test_unsupported_statement_has_plain_error(painters_server: SqlServer, connect: Connect, kafka: Kafka) -> None:
    statement = "SELECT [id], [name], [born] FROM dbo.painters WHERE id > 5"
    options = {
        "snapshot.select.statement.overrides": "dbo.painters",
        "snapshot.select.statement.overrides.dbo.painters": statement,
        "errors.max.retries": "0",
    }
    connect.put("asking", {**config(painters_server, kafka, "asking", "painters"), **options})
    try:
        sentence = f"this stand-in for SQL Server does not support the statement: {statement}"
        wait_for(lambda: painters_server.log_says(f"refused: {sentence}"))
        wait_for(lambda: sentence in str(connect.status("asking")))
    finally:
        connect.delete("asking")


def wait_for(condition: Any, patience: float = 60) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_up_and_down(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "headrace_stack", *arguments, "--state", str(tmp_path / "up.json")]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout

    table = run("up", "sqlserver")
    try:
        name, address, pid, log = table.splitlines()[-1].split()
        assert (name, address.split(":")[:2]) == ("sqlserver", ["jdbc", "sqlserver"])
        assert "NOT A SERVER" in Path(log).read_text()
        assert run("status") == table
    finally:
        assert run("down") == "1 servers stopped\n"
    assert not Path("/proc", pid).exists()
