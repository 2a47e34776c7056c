"""`headrace connect` against real workers of Kafka Connect with Debezium's connectors and real databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from headrace_connect import deployment
from headrace_stack import Connect, Kafka, MariaDb, Postgres, SqlServer
from headrace_stack.servers import json_http

pytestmark = [pytest.mark.dist, pytest.mark.timeout(240, func_only=True), pytest.mark.one_spark]

TABLE = "create table artists (id int primary key, name varchar(40)); insert into artists values (1, 'Arp')"


def run(command: str, file: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["connect", command, str(file), *options])


@pytest.fixture(autouse=True)
def _settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "SETTLE", 1.0)


def write_pipeline(folder: Path, name: str, connect: Connect, kafka: Kafka, config: dict[str, Any]) -> Path:
    """Write a pipeline whose connector has the login and the tables of ``config``; the password is a reference."""
    secrets = folder / "db.properties"
    secrets.write_text(f"password={config['database.password']}\n", encoding="utf-8")
    pipeline = {
        "name": name,
        "source": {
            "kafka": {"bootstrap.servers": kafka.bootstrap_servers, "subscribePattern": f"{name}[.].*[.]artists"},
            "value": "json",
        },
        "sink": "console",
        "checkpoint": "checkpoint/",
        "connect": {"url": connect.url, "config": {**config, "database.password": f"${{file:{secrets}:password}}"}},
    }
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    return file


def own_options(config: dict[str, str], *more: str) -> dict[str, str]:
    """Return the options of a connector that headrace has no default for."""
    names = ("connector.class", "database.hostname", "database.port", "database.user", "database.password", *more)
    return {name: config[name] for name in names}


def read_images(kafka: Kafka, topic: str, count: int) -> list[Any]:
    return [json.loads(record.value or b"")["payload"]["after"] for record in kafka.read(topic, count)]


def change_option(file: Path, **options: str) -> None:
    pipeline = yaml.safe_load(file.read_text(encoding="utf-8"))
    pipeline["connect"]["config"] |= options
    file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")


@pytest.fixture
def atelier(
    request: pytest.FixtureRequest, tmp_path: Path, connect: Connect, kafka: Kafka, postgres: Postgres
) -> Iterator[Path]:
    """Provide the pipeline file of a connector for one table of PostgreSQL, and remove connector and table."""
    # Kafka Connect keeps the offsets of a deleted connector for the next one of its name.
    name = request.node.name.removeprefix("test_")
    postgres.execute(f"create schema {name}; set search_path = {name}; {TABLE}")
    config = own_options(postgres.debezium(name), "database.dbname") | {"table.include.list": f"{name}.artists"}
    yield write_pipeline(tmp_path, name, connect, kafka, config)
    connect.delete(name)
    postgres.execute(f"drop schema {name} cascade; drop publication if exists {name}")
    postgres.execute(f"select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '{name}'")


def test_deploy(atelier: Path, connect: Connect, kafka: Kafka, postgres: Postgres) -> None:
    name = atelier.stem
    created = run("deploy", atelier)
    assert created.exit_code == 0, created.output
    assert created.stdout.endswith(f"connector {name} at {connect.url}: connector RUNNING, task 0 RUNNING\n")
    assert created.stderr == ""
    assert read_images(kafka, f"{name}.{name}.artists", 1) == [{"id": 1, "name": "Arp"}]
    # The configuration of the worker has the reference, not the password.
    _, deployed = json_http.request("GET", f"{connect.url}/connectors/{name}/config")
    assert postgres.password not in json.dumps(deployed) + created.output
    unchanged = run("deploy", atelier)
    assert (unchanged.exit_code, unchanged.stdout.splitlines()[0].endswith(": unchanged")) == (0, True)


@pytest.mark.nightly
def test_control(atelier: Path, connect: Connect, kafka: Kafka, postgres: Postgres) -> None:
    name = atelier.stem
    topic = f"{name}.{name}.artists"
    assert run("deploy", atelier).exit_code == 0
    read_images(kafka, topic, 1)
    assert run("pause", atelier).exit_code == 0
    postgres.execute(f"insert into {name}.artists values (2, 'Höch')")
    assert run("resume", atelier).exit_code == 0
    assert read_images(kafka, topic, 2)[1] == {"id": 2, "name": "Höch"}
    change_option(atelier, **{"poll.interval.ms": "20"})
    changed = run("deploy", atelier)
    assert (changed.exit_code, changed.stdout.splitlines()[1]) == (0, "  + poll.interval.ms: 20")
    assert run("restart", atelier, "--all").exit_code == 0
    # A reset starts with a new snapshot.
    assert run("offsets", atelier, "--reset", "--yes").exit_code == 0
    assert [image["id"] for image in read_images(kafka, topic, 4)] == [1, 2, 1, 2]
    assert run("delete", atelier, "--yes").exit_code == 0
    assert connect.status(name) is None


@pytest.mark.nightly
def test_failures_of_debezium(atelier: Path, tmp_path: Path, connect: Connect) -> None:
    change_option(atelier, **{"publication.autocreate.mode": "disabled"})
    failed = run("deploy", atelier)
    assert failed.exit_code == 6
    assert "Publication autocreation is disabled, please create one and restart" in failed.stderr
    assert "at io.debezium.connector.postgresql." in failed.stderr
    assert run("status", atelier).exit_code == 6
    change_option(atelier, **{"publication.autocreate.mode": "filtered"})
    repaired = run("deploy", atelier)
    assert repaired.exit_code == 0, repaired.stderr
    (tmp_path / "db.properties").write_text("password=guessed\n", encoding="utf-8")
    rejected = run("validate", atelier)
    assert (rejected.exit_code, "password authentication failed" in rejected.stderr) == (2, True)
    connect.delete(atelier.stem)


@pytest.mark.nightly
@pytest.mark.parametrize("server", ["mariadb", "mysql", "sqlserver"])
def test_other_databases(
    request: pytest.FixtureRequest, tmp_path: Path, connect: Connect, kafka: Kafka, server: str
) -> None:
    database: MariaDb | SqlServer = request.getfixturevalue(server)
    config = database.debezium(server, "")
    extra = {
        key: value for key, value in config.items() if key in ("database.names", "driver.encrypt", "database.sslMode")
    }
    if isinstance(database, SqlServer):
        database.create_table("museums", ["id int not null", "name varchar(40)"], key=["id"])
    else:
        database.execute(TABLE)
        extra["database.include.list"] = "test"
    file = write_pipeline(tmp_path, server, connect, kafka, {**own_options(config), **extra})
    deployed = run("deploy", file)
    assert deployed.exit_code == 0, deployed.output
    assert run("delete", file, "--yes").exit_code == 0
