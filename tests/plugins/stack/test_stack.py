"""Real servers: requests, data after stop, kill and start, and the helpers of each class."""

from __future__ import annotations

import io
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pg8000.native import Connection, DatabaseError

from headrace.errors import ConfigError, FatalError
from headrace_stack import (
    S3,
    Connect,
    IcebergRest,
    Kafka,
    Kinesis,
    MariaDb,
    Metastore,
    Postgres,
    Record,
    SchemaRegistry,
    Server,
)
from headrace_stack.servers.json_http import request

# Fixtures download and build servers on a new machine; the limit does not include it.
pytestmark = [pytest.mark.dist, pytest.mark.timeout(240, func_only=True), pytest.mark.one_spark]

ROOT = Path(__file__).parents[3]
TABLE = "create table artists (id int primary key, name varchar(40)); insert into artists values (1, 'Arp')"


def thrift(metastore: Metastore, method: bytes) -> bytes:
    """Return the bytes of a response to a call without arguments."""
    with socket.create_connection((metastore.host, metastore.port), timeout=30) as client:
        client.sendall(struct.pack(">II", 0x80010001, len(method)) + method + struct.pack(">IB", 1, 0))
        return client.recv(65536)


def put_schema(registry: SchemaRegistry) -> None:
    schema = {"schema": json.dumps({"type": "string"})}
    assert request("POST", f"{registry.ccompat_url}/subjects/names/versions", schema) == (200, {"id": 1})


def put_object(s3: S3) -> None:
    s3.create_bucket("lake")
    s3.put("lake", "artists/1", b"Arp")


#: Server → function that writes, function that reads, and the expected result of the read.
PERSISTENT: dict[type[Server], tuple[Callable[[Any], object], Callable[[Any], object], object]] = {
    Kafka: (
        lambda kafka: kafka.produce("artists", Record(b"Arp")),
        lambda kafka: [record.value for record in kafka.read("artists", 1)],
        [b"Arp"],
    ),
    Postgres: (lambda db: db.execute(TABLE), lambda db: db.query("select * from artists"), [(1, "Arp")]),
    S3: (put_object, lambda s3: s3.read("lake", "artists/1"), b"Arp"),
    MariaDb: (lambda db: db.execute(TABLE), lambda db: db.query("select * from artists"), [(1, "Arp")]),
    SchemaRegistry: (put_schema, lambda registry: request("GET", f"{registry.ccompat_url}/subjects"), (200, ["names"])),
    Metastore: (
        lambda metastore: None,
        lambda metastore: b"default" in thrift(metastore, b"get_all_databases"),
        True,
    ),
}


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> type[Server]:
    """Return the class of a server whose artifacts are in the cache."""
    found: type[Server] = request.param
    found().fetch()
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("kind", PERSISTENT, ids=lambda kind: kind.name, indirect=True)
def test_server_keeps_its_address_and_its_data(kind: type[Server]) -> None:
    put, get, kept = PERSISTENT[kind]
    with kind() as server:
        folder, address = server.folder, server.address
        put(server)
        assert get(server) == kept
        server.stop()
        assert get(server.start()) == kept
        server.kill()
        assert get(server.start()) == kept
        assert server.address == address
    assert not folder.exists()


def test_rest_catalog_serves_iceberg_clients(iceberg_rest: IcebergRest) -> None:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.schema import Schema
    from pyiceberg.types import IntegerType, NestedField

    catalog = RestCatalog("stack", uri=iceberg_rest.uri)
    catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "id", IntegerType()))
    created = catalog.create_table("shop.orders", schema)
    assert created.location() == f"{iceberg_rest.warehouse}/shop/orders"
    with created.transaction() as change:
        change.set_properties(owner="museum")
    assert catalog.load_table("shop.orders").properties["owner"] == "museum"
    assert catalog.list_tables("shop") == [("shop", "orders")]
    with pytest.raises(NoSuchTableError):
        catalog.load_table("shop.absent")
    status, answer = request("GET", f"{iceberg_rest.uri}/v1/nowhere/at/all")
    assert (status, answer["error"]["code"]) == (404, 404)


def test_records_are_read_as_produced(kafka: Kafka) -> None:
    kafka.create_topic("records", partitions=2)
    records = [
        Record(b"value", b"key", [("h", b"1"), ("h", None)], partition=1, timestamp=1_700_000_000_123),
        Record(None, b"key", partition=1, timestamp=1_700_000_000_124),
        Record(b"", partition=0, timestamp=1_700_000_000_125),
    ]
    kafka.produce("records", *records)
    assert kafka.end_offsets("records") == {0: 1, 1: 2}
    assert kafka.read("records") == [
        Record(b"", None, [], 0, 1_700_000_000_125, 0),
        Record(b"value", b"key", [("h", b"1"), ("h", None)], 1, 1_700_000_000_123, 0),
        Record(None, b"key", [], 1, 1_700_000_000_124, 1),
    ]


@pytest.mark.nightly
def test_old_records_stay() -> None:
    with Kafka(config={"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "50"}) as kafka:
        kafka.produce("old", Record(b"of 1970", timestamp=1000))
        time.sleep(1)
        assert [record.value for record in kafka.read("old")] == [b"of 1970"]


@pytest.mark.nightly
def test_only_committed_transactions_are_read(kafka: Kafka) -> None:
    with kafka.transaction() as transaction:
        transaction.produce("committed", Record(b"yes"))
    with kafka.transaction() as transaction:
        transaction.produce("committed", Record(b"no"))
        transaction.abort()

    def fail() -> None:
        with kafka.transaction() as transaction:
            transaction.produce("committed", Record(b"neither"))
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [record.value for record in kafka.read("committed")] == [b"yes"]
    everything = [record.value for record in kafka.read("committed", read_uncommitted=True)]
    assert everything == [b"yes", b"no", b"neither"]
    # Each transaction ends with a marker, which also has an offset.
    assert kafka.end_offsets("committed") == {0: 6}


@pytest.mark.nightly
def test_read_timeout_reports_the_number_of_records(kafka: Kafka) -> None:
    kafka.produce("few", Record(b"1"))
    with pytest.raises(TimeoutError, match="few has 1 records after 1 s, not 2"):
        kafka.read("few", 2, timeout=1)


@pytest.mark.nightly
def test_errors_of_the_broker_are_raised(kafka: Kafka) -> None:
    kafka.create_topic("small", config={"max.message.bytes": "100"})
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        kafka.produce("small", Record(b"x" * 1000))
    with pytest.raises(KafkaException, match="already exists"):
        kafka.create_topic("small")
    kafka.delete_topic("small")


@pytest.fixture(scope="module")
def sasl_kafka() -> Iterator[Kafka]:
    with Kafka(sasl=True) as kafka:
        yield kafka


def login(kafka: Kafka, mechanism: str, **settings: str) -> set[str]:
    """Return the topics that a client lists."""
    client_settings = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(kafka.sasl.ca), "log_level": "0"}
    more = {name.replace("_", "."): value for name, value in settings.items()}
    client = AdminClient(
        {"bootstrap.servers": kafka.sasl.bootstrap_servers, "sasl.mechanism": mechanism, **client_settings, **more}
    )
    return set(client.list_topics(timeout=5).topics)


@pytest.mark.nightly
def test_shards_split_and_merge_like_kinesis(kinesis: Kinesis) -> None:
    kinesis.create_stream("shards")
    (parent,) = (shard["ShardId"] for shard in kinesis.shards("shards"))
    (before,) = kinesis.put("shards", ("key", b"before"))
    kinesis.split("shards", parent)
    (after,) = kinesis.put("shards", ("key", b"after"))
    _, *halves = kinesis.shards("shards")
    assert [half["ParentShardId"] for half in halves] == [parent] * 2
    assert int(after) > int(before)
    kinesis.merge("shards", *(half["ShardId"] for half in halves))
    child = kinesis.shards("shards")[-1]
    assert {child["ParentShardId"], child["AdjacentParentShardId"]} == {half["ShardId"] for half in halves}
    client = kinesis.client()
    begin = client.get_shard_iterator(StreamName="shards", ShardId=parent, ShardIteratorType="TRIM_HORIZON")
    page = client.get_records(ShardIterator=begin["ShardIterator"])
    assert [(record["PartitionKey"], record["Data"]) for record in page["Records"]] == [("key", b"before")]
    assert "NextShardIterator" not in page
    assert {one["ShardId"] for one in page["ChildShards"]} == {half["ShardId"] for half in halves}


@pytest.mark.nightly
def test_kinesis_listens_only_on_loopback(kinesis: Kinesis) -> None:
    listening = {line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"}
    assert f"0100007F:{kinesis.port:04X}" in listening
    assert f":{kinesis.port:04X}" not in Path("/proc/net/tcp6").read_text()


@pytest.mark.nightly
def test_clients_log_in(sasl_kafka: Kafka) -> None:
    sasl_kafka.create_topic("secret")
    login_settings = {"sasl_username": sasl_kafka.sasl.username, "sasl_password": sasl_kafka.sasl.password}
    assert "secret" in login(sasl_kafka, "SCRAM-SHA-512", **login_settings)
    assert "secret" in login(sasl_kafka, "PLAIN", **login_settings)
    token = {"enable_sasl_oauthbearer_unsecure_jwt": "true", "sasl_oauthbearer_config": "principal=alice"}
    assert "secret" in login(sasl_kafka, "OAUTHBEARER", **token)


@pytest.mark.nightly
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_wrong_password_is_rejected(sasl_kafka: Kafka, mechanism: str) -> None:
    with pytest.raises(KafkaException):
        login(sasl_kafka, mechanism, sasl_username=sasl_kafka.sasl.username, sasl_password="guessed")


@pytest.mark.nightly
def test_password_change(sasl_kafka: Kafka) -> None:
    sasl_kafka.create_topic("public")
    for password in ("first", "second"):
        sasl_kafka.change_password("alice", password)
        assert "public" in login(sasl_kafka, "SCRAM-SHA-512", sasl_username="alice", sasl_password=password)


def test_postgres_runs_unprivileged_and_requires_the_password(postgres: Postgres) -> None:
    assert Path(f"/proc/{postgres.pid}").stat().st_uid != 0
    assert postgres.query("show wal_level") + postgres.query("show synchronous_commit") == [("logical",), ("on",)]
    with pytest.raises(DatabaseError, match="password authentication failed"):
        Connection(postgres.user, host=postgres.host, port=postgres.port, password="guessed")


@pytest.mark.nightly
def test_sql_errors_are_raised(postgres: Postgres, mariadb: MariaDb) -> None:
    with pytest.raises(DatabaseError, match="syntax error"):
        postgres.execute("selec 1")
    with pytest.raises(Exception, match="error in your SQL syntax"):
        mariadb.execute("select 1; selec 2")


@pytest.fixture(scope="module")
def artists(postgres: Postgres) -> Postgres:
    postgres.execute(f"create table {TABLE.removeprefix('create table ')}")
    return postgres


def test_change_in_postgres_arrives_as_json(artists: Postgres, connect: Connect, kafka: Kafka) -> None:
    connect.put("as-json", artists.debezium("json"))
    (snapshot,) = kafka.read("json.public.artists", 1)
    artists.execute("insert into artists values (2, 'Höch'); delete from artists where id = 2")
    _, insert, delete, tombstone = kafka.read("json.public.artists", 4)
    assert [json.loads(record.value or b"")["op"] for record in (snapshot, insert, delete)] == ["r", "c", "d"]
    assert json.loads(insert.value or b"")["after"] == {"id": 2, "name": "Höch"}
    assert (tombstone.key, tombstone.value) == (b'{"id":2}', None)
    connect.delete("as-json")
    assert connect.status("as-json") is None


@pytest.mark.nightly
def test_change_in_postgres_arrives_as_confluent_avro(
    artists: Postgres, connect: Connect, kafka: Kafka, registry: SchemaRegistry
) -> None:
    connect.put("as-avro", {**artists.debezium("avro"), **registry.avro_converter()})
    (record,) = kafka.read("avro.public.artists", 1)
    assert record.value
    magic, number = struct.unpack(">bI", record.value[:5])
    code, answer = request("GET", f"{registry.ccompat_url}/schemas/ids/{number}")
    assert (magic, code) == (0, 200)
    schema = fastavro.parse_schema(json.loads(answer["schema"]))
    event: Any = fastavro.schemaless_reader(io.BytesIO(record.value[5:]), schema, None)
    assert event["after"] == {"id": 1, "name": "Arp"}
    connect.delete("as-avro")


@pytest.mark.nightly
def test_change_in_postgres_arrives_as_json_with_registered_schema(
    artists: Postgres, connect: Connect, kafka: Kafka, registry: SchemaRegistry
) -> None:
    connect.put("as-registered", {**artists.debezium("registered"), **registry.json_converter()})
    (record,) = kafka.read("registered.public.artists", 1)
    body = json.loads(record.value or b"")
    assert body["payload"]["after"] == {"id": 1, "name": "Arp"}
    code, schema = request("GET", f"{registry.url}/apis/registry/v2/ids/globalIds/{body['schemaId']}")
    assert (code, schema["name"]) == (200, "registered.public.artists.Envelope")
    connect.delete("as-registered")


@pytest.mark.nightly
@pytest.mark.parametrize(("server", "connector"), [("mariadb", "mariadb"), ("mysql", "mysql")])
def test_change_in_mariadb_arrives(
    request: pytest.FixtureRequest, connect: Connect, kafka: Kafka, server: str, connector: str
) -> None:
    database: MariaDb = request.getfixturevalue(server)
    database.execute(TABLE)
    connect.put(server, database.debezium(server, kafka.bootstrap_servers))
    kafka.read(f"{server}.test.artists", 1)
    database.execute("update artists set name = 'Jean Arp'")
    _, update = kafka.read(f"{server}.test.artists", 2)
    event = json.loads(update.value or b"")
    assert (event["source"]["connector"], event["op"]) == (connector, "u")
    assert (event["before"]["name"], event["after"]["name"]) == ("Arp", "Jean Arp")
    connect.delete(server)


@pytest.mark.nightly
def test_rejected_configuration_states_the_reason(artists: Postgres, connect: Connect) -> None:
    with pytest.raises(ConfigError, match=r"connector wrong: .*password authentication failed"):
        connect.put("wrong", {**artists.debezium("wrong"), "database.password": "guessed"})
    assert connect.status("wrong") is None


@pytest.mark.nightly
def test_failed_task_shows_its_trace(artists: Postgres, connect: Connect) -> None:
    config = {**artists.debezium("failing"), "publication.autocreate.mode": "disabled"}
    with pytest.raises(FatalError, match=r"(?s)connector failing: .*Publication autocreation is disabled.*\tat "):
        connect.put("failing", config)
    connect.delete("failing")


@pytest.mark.nightly
def test_connector_resumes_after_a_restart_of_connect(artists: Postgres, kafka: Kafka) -> None:
    with Connect(kafka, ["postgres"]) as connect:
        # With one table, because a connector that is stopped during its snapshot starts the snapshot again.
        connect.put("restarted", {**artists.debezium("restarted"), "table.include.list": "public.artists"})
        kafka.read("restarted.public.artists", 1)
        # A kill would lose the offsets of the last second, and the snapshot would repeat.
        connect.stop()
        artists.execute("insert into artists values (3, 'Taeuber')")
        connect.start().wait_until_running("restarted")
        events = [json.loads(record.value or b"") for record in kafka.read("restarted.public.artists", 2)]
        assert events[-1]["after"] == {"id": 3, "name": "Taeuber"}
    artists.execute("delete from artists where id = 3")


@pytest.mark.nightly
def test_unknown_connector_is_rejected(kafka: Kafka) -> None:
    with pytest.raises(ConfigError, match=r"unknown connector: db2\s+fix: use some of postgres, mysql"):
        Connect(kafka, ["db2"])


def commands_with(text: str) -> list[bytes]:
    """Return the command lines of processes that contain a string."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        # A process may end before its file is read.
        with suppress(OSError):
            found.append(path.read_bytes())
    return [command for command in found if text.encode() in command]


# One server that runs as the same user, and one that does not. All servers have the same guard.
@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["Kafka", "Postgres"])
def test_kill_9_of_the_test_process_leaves_no_server(kind: str) -> None:
    program = (
        f"import time; from headrace_stack import {kind}; server = {kind}().start(); "
        "print(server.pid, server.folder, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        pid, folder = process.stdout.readline().split()
        assert Path("/proc", pid).exists()
        process.kill()
        process.wait()
    deadline = time.monotonic() + 20
    while Path("/proc", pid).exists() or Path(folder).exists() or commands_with(folder):
        assert time.monotonic() < deadline, (pid, folder, commands_with(folder))
        time.sleep(0.05)


@pytest.mark.nightly
def test_two_processes_have_separate_servers(postgres: Postgres) -> None:
    program = (
        "from headrace_stack import Postgres\n"
        "with Postgres() as other: print(other.port, other.query('select count(*) from pg_tables'))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    assert printed.split()[0] != str(postgres.port)


@pytest.mark.nightly
def test_up_status_and_down(tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "up.json")]

    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "headrace_stack", *arguments, *state]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    assert run("status") == (1, "no server is running\n")
    code, table = run("up", "postgres", "mariadb")
    try:
        assert code == 0, table
        header, postgres, mariadb = table.splitlines()[-3:]
        assert header.split() == ["server", "listens", "at", "process", "log"]
        name, address, pid, log = postgres.split()
        assert (name, mariadb.split()[0]) == ("postgres", "mariadb")
        with closing(socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1].split("/")[0])))):
            pass
        assert Path(log).is_file()
        assert run("up", "kafka") == (
            1,
            "Error: servers are already running; `python -m headrace_stack down` stops them\n",
        )
        assert run("status") == (0, f"{header}\n{postgres}\n{mariadb}\n")
        os.kill(int(pid), 9)
        while Path("/proc", pid).exists():
            time.sleep(0.02)
        code, table = run("status")
        assert (code, table.splitlines()[1].split()[2]) == (1, "ended")
    finally:
        downed = run("down")
    assert downed == (0, "2 servers stopped\n")
    assert not Path("/proc", mariadb.split()[2]).exists()
    assert not Path(log).exists()
    assert run("status") == (1, "no server is running\n")
    assert run("down") == (0, "no server is running\n")
