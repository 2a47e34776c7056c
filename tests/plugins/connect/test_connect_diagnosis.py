"""Findings of ``headrace doctor`` about a connector and its database."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.plugins.connect.conftest import Answer, FakeConnect, make_status
from tests.plugins.connect.test_preflight import connect_as

from headrace.cli.main import cli
from headrace_connect.preflight.slot_health import check_slot_health
from headrace_stack import Postgres

Write = Callable[..., Path]
STATUS = "GET /connectors/shop/status"


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the broker of the pipeline out, whose name costs seconds to resolve."""
    monkeypatch.setattr("headrace_kafka.kafka_client.find_unreachable", lambda servers: iter(()))


def find(file: Path) -> dict[str, dict[str, str]]:
    """Return the findings by name."""
    report = json.loads(CliRunner().invoke(cli, ["doctor", str(file), "--json"]).stdout)
    return {finding["name"]: finding for finding in report["findings"]}


@pytest.mark.parametrize(
    ("answer", "name", "what"),
    [
        (make_status("RUNNING", "RUNNING"), None, ""),
        (
            make_status("RUNNING", "FAILED", trace="ReadError: gone\n\tat org.Acme.read(A.java:1)"),
            "connector-failed",
            "ReadError: gone",
        ),
        (make_status("PAUSED", "PAUSED"), "connector-stopped", "connector PAUSED, task 0 PAUSED"),
        ((404, {"error_code": 404, "message": "Connector shop not found"}), "connector-missing", "retry"),
        ((401, {"message": "Unauthorized"}), "login-rejected", "Kafka Connect rejected the login: Unauthorized"),
    ],
)
def test_state_of_the_connector(
    server: FakeConnect, write_pipeline: Write, answer: Answer, name: str | None, what: str
) -> None:
    server.answer(STATUS, answer)
    found = find(write_pipeline(server.endpoint_url))
    names = found.keys() & {"connector-failed", "connector-stopped", "connector-missing", "login-rejected"}
    assert names == ({name} if name else set())
    if name:
        assert what in f"{found[name]['what']} {found[name]['fix']}"
        assert "at org.Acme" not in found[name]["what"]


def test_unreachable_worker_and_database_without_a_login(write_pipeline: Write) -> None:
    """Only the worker has the password, so that the database is not asked."""
    found = find(write_pipeline("http://127.0.0.1:9"))
    assert found["server-unreachable"]["what"] == "Kafka Connect did not respond: [Errno 111] Connection refused"
    assert "only Kafka Connect resolves the reference" in found["database-unchecked"]["what"]
    stopped = {"database.hostname": "127.0.0.1", "database.port": "9", "database.password": "hunter2hunter2"}
    found = find(write_pipeline("http://127.0.0.1:9", stopped))
    assert "the database did not respond" in found["database-unchecked"]["what"]
    assert "hunter2" not in json.dumps(found)


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ((True, 0, 0), []),
        ((False, 0, 3_000_000_000), ["slot-inactive"]),
        ((True, 2_000_000_000, 2_000_000_000), ["slot-behind"]),
    ],
)
def test_state_of_a_slot(row: tuple[Any, ...], names: list[str]) -> None:
    found = list(check_slot_health(lambda _: [row], {"slot.name": "it's"}, "db:5432"))
    assert [one.kind.name for one in found] == names
    for one in found:
        assert one.fix
        assert f"{max(row[1:]) / 1e9:.1f} GB" in one.what
        assert one.kind.name != "slot-inactive" or "pg_drop_replication_slot('it''s')" in one.fix


@pytest.mark.dist
@pytest.mark.one_spark
def test_database_password_slot_and_clock(
    postgres: Postgres, server: FakeConnect, write_pipeline: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer(STATUS, make_status("RUNNING", "RUNNING"))
    password = "hunter2hunter2"
    postgres.execute(f"create role spy login password '{password}'")
    config = connect_as(
        postgres, "postgresql.PostgresConnector", "spy", **{"slot.name": "watched", "plugin.name": "pgoutput"}
    )
    try:
        wrong = find(write_pipeline(server.endpoint_url, {**config, "database.password": "wrong-password"}))
        assert "password authentication failed" in wrong["database-rejected"]["what"]
        postgres.execute("select pg_create_logical_replication_slot('watched', 'pgoutput')")
        clock = time.time
        monkeypatch.setattr("headrace.doctor.clock.time.time", lambda: clock() - 1000)
        found = find(write_pipeline(server.endpoint_url, {**config, "database.password": password}))
    finally:
        postgres.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots; drop role spy")
    assert "no connector reads the slot watched" in found["slot-inactive"]["what"]
    assert found["database-loses-changes"]["where"] == f"{postgres.host}:{postgres.port}"
    assert "seconds behind that of" in found["clock-wrong"]["what"]
    assert password not in json.dumps(found)
