"""`headrace connect`: what it sends, what it prints, and its errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result
from tests.plugins.connect.conftest import CONFIG, POSTGRES, Answer, FakeConnect, make_status, make_validation
from tests.support.pages import find_block

from headrace import ConfigError, Pipeline
from headrace.cli.main import cli
from headrace_connect import connect_client

PAGE = "docs/connect.md"
Write = Callable[..., Path]
STATUS, PUT = "GET /connectors/shop/status", "PUT /connectors/shop/config"
VALIDATE = f"PUT /connector-plugins/{POSTGRES}/config/validate"
RUNNING = make_status("RUNNING", "RUNNING")
NO_STATUS: Answer = (404, {"error_code": 404, "message": "No status found for connector shop"})
REBALANCE = 409, {"error_code": 409, "message": "Cannot complete request momentarily due to no known leader URL"}
DEFAULTS = {
    "tasks.max": "1",
    "topic.prefix": "shop",
    "heartbeat.interval.ms": "10000",
    "skipped.operations": "none",
    "plugin.name": "pgoutput",
    "slot.name": "shop",
    "publication.name": "shop",
    "publication.autocreate.mode": "filtered",
    "signal.data.collection": "debezium.signals",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "key.converter.replace.null.with.default": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
    "value.converter.replace.null.with.default": "false",
}


def run(command: str, file: Path, *options: str, answer: str = "") -> Result:
    return CliRunner().invoke(cli, ["connect", command, str(file), *options], input=answer)


def test_deploy_creates_the_connector_and_waits(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer(STATUS, (404, {"error_code": 404, "message": "No status found"}), make_status("RUNNING"), RUNNING)
    result = run("deploy", write_pipeline(server.endpoint_url))
    assert result.exit_code == 0, result.output
    assert server.sent("PUT") == [("/connectors/shop/config", {**DEFAULTS, **CONFIG})]
    lines = result.stdout.splitlines()
    assert lines[0] == f"connector shop at {server.endpoint_url}: new"
    assert "  + database.password: ${file:/etc/connect/db.properties:password}" in lines
    assert lines[-1] == f"connector shop at {server.endpoint_url}: connector RUNNING, task 0 RUNNING"
    assert result.stderr == ""


def test_deploy_shows_each_difference_and_no_secret(server: FakeConnect, write_pipeline: Write) -> None:
    before = {**DEFAULTS, **CONFIG, "name": "shop", "database.password": "hunter1", "old.option": "x", "tasks.max": "2"}
    server.answer("GET /connectors/shop/config", (200, before))
    server.answer(STATUS, RUNNING)
    file = write_pipeline(server.endpoint_url, {"database.password": "hunter2", "heartbeat.interval.ms": None})
    dry = run("deploy", file, "--dry-run")
    assert (dry.exit_code, server.sent("PUT")) == (0, [])
    assert dry.stdout.splitlines() == [
        f"connector shop at {server.endpoint_url}: changed",
        "  ~ database.password: ****** -> ******",
        "  - heartbeat.interval.ms: 10000",
        "  - old.option: x",
        "  ~ tasks.max: 2 -> 1",
    ]
    assert "database.password contains plain text" in dry.stderr
    result = run("deploy", file)
    ((_, sent),) = server.sent("PUT")
    assert (result.exit_code, sent["database.password"], "heartbeat.interval.ms" in sent) == (0, "hunter2", False)
    assert "hunter" not in result.output


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (
            {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "a"},
            "its connector.class is io.confluent",
        ),
        ({**CONFIG, "database.hostname": "db2"}, "its database.hostname is db2"),
        ({**CONFIG, "topic.prefix": "museum"}, "its topic.prefix is museum"),
    ],
)
def test_deploy_asks_before_it_replaces_a_connector_of_another_pipeline(
    server: FakeConnect, write_pipeline: Write, other: dict[str, str], reason: str
) -> None:
    server.answer("GET /connectors/shop/config", (200, other))
    server.answer(STATUS, RUNNING)
    file = write_pipeline(server.endpoint_url)
    assert run("deploy", file, "--dry-run").exit_code == 0
    refused = run("deploy", file, answer="n\n")
    assert (refused.exit_code, server.sent("PUT")) == (1, [])
    assert reason in refused.stderr
    assert run("deploy", file, "--yes").exit_code == 0
    assert len(server.sent("PUT")) == 1


def test_deploy_without_a_difference_changes_nothing(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer("GET /connectors/shop/config", (200, {**DEFAULTS, **CONFIG, "name": "shop"}))
    server.answer(STATUS, RUNNING)
    result = run("deploy", write_pipeline(server.endpoint_url))
    assert (result.exit_code, server.sent("PUT")) == (0, [])
    assert result.stdout.startswith(f"connector shop at {server.endpoint_url}: unchanged\n")


def test_connector_that_fails_after_its_start(server: FakeConnect, write_pipeline: Write) -> None:
    trace = "org.postgresql.util.PSQLException: ERROR: no slot; password=hunter2\n\tat io.debezium.Thread.run(Thread.java:1)"
    server.answer(STATUS, NO_STATUS, RUNNING, RUNNING, make_status("RUNNING", "FAILED", trace=trace))
    result = run("deploy", write_pipeline(server.endpoint_url, {"database.password": "hunter2"}))
    assert result.exit_code == 6
    assert "error: the connector failed:\n       org.postgresql.util.PSQLException: ERROR: no slot" in result.stderr
    assert "at io.debezium.Thread.run(Thread.java:1)" in result.stderr
    assert "hunter2" not in result.output


def test_failure_of_the_configuration_before_is_not_reported(server: FakeConnect, write_pipeline: Write) -> None:
    failed = make_status("RUNNING", "FAILED", trace="wrong slot")
    server.answer("GET /connectors/shop/config", (200, {**CONFIG, "slot.name": "wrong"}))
    server.answer(STATUS, failed, failed, make_status("RUNNING", "UNASSIGNED"), RUNNING)
    file = write_pipeline(server.endpoint_url)
    assert run("deploy", file).exit_code == 0
    # Without a change it is the failure of this configuration.
    server.answer("GET /connectors/shop/config", (200, {**DEFAULTS, **CONFIG}))
    server.answer(STATUS, failed)
    result = run("deploy", file)
    assert (result.exit_code, "wrong slot" in result.stderr) == (6, True)


def test_connector_that_does_not_start_in_time(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer(STATUS, NO_STATUS, make_status("UNASSIGNED"))
    result = run("deploy", write_pipeline(server.endpoint_url), "--timeout", "0.1")
    assert result.exit_code == 5
    assert "the connector is not RUNNING after 0 seconds: connector UNASSIGNED, no tasks" in result.stderr


def test_paused_connector_stays_paused(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer("GET /connectors/shop/config", (200, CONFIG))
    server.answer(STATUS, make_status("PAUSED", "PAUSED"))
    file = write_pipeline(server.endpoint_url)
    result = run("deploy", file)
    assert (result.exit_code, len(server.sent("PUT"))) == (0, 1)
    assert result.stdout.endswith(f"the connector is PAUSED: `headrace connect resume {file}` starts it\n")


def test_requests_during_a_rebalance_are_repeated(
    server: FakeConnect, write_pipeline: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer(STATUS, RUNNING)
    server.answer(PUT, REBALANCE, REBALANCE, (201, {}))
    file = write_pipeline(server.endpoint_url)
    assert run("deploy", file).exit_code == 0
    assert len(server.sent("PUT")) == 3
    server.answer(PUT, REBALANCE)
    monkeypatch.setattr(connect_client, "PATIENCE", 0.1)
    result = run("deploy", file)
    assert (result.exit_code, "Kafka Connect is busy: Cannot complete request" in result.stderr) == (5, True)


def test_all_errors_of_a_configuration(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer(VALIDATE, make_validation(**{"database.hostname": "A value is required", "slot.name": "is invalid"}))
    result = run("deploy", write_pipeline(server.endpoint_url))
    assert (result.exit_code, server.sent("PUT")) == (2, [])
    assert "database.hostname: A value is required\n       slot.name: is invalid" in result.stderr
    assert "needs `config.providers=file`" in result.stderr


def test_misspelled_option_and_unread_topic_are_warnings(server: FakeConnect, write_pipeline: Write) -> None:
    file = write_pipeline(
        server.endpoint_url, {"slot.nmae": "x", "driver.x": "y", "table.include.list": "public.people"}
    )
    result = run("validate", file)
    assert result.exit_code == 0
    assert result.stdout == f"connector shop at {server.endpoint_url}: the configuration is valid\n"
    assert result.stderr.splitlines() == [
        "warning: the source of the pipeline does not read the topic shop.public.people, which the connector writes",
        "warning: 'slot.nmae' is no option of the connector, which may pass it to its driver; did you mean 'slot.name'?",
    ]
    assert server.sent("PUT") == []


def test_worker_without_the_connector(server: FakeConnect, write_pipeline: Write) -> None:
    file = write_pipeline(server.endpoint_url, {"connector.class": POSTGRES.replace("Postgres", "Postgre")})
    result = run("validate", file)
    assert result.exit_code == 2
    assert "the worker has no connector io.debezium.connector.postgresql.PostgreConnector" in result.stderr
    assert f"did you mean '{POSTGRES}'?" in result.stderr


@pytest.mark.parametrize("alias", ["PostgresConnector", "Postgres"])
def test_alias_of_a_class(server: FakeConnect, write_pipeline: Write, alias: str) -> None:
    server.answer(f"PUT /connector-plugins/{alias}/config/validate", make_validation())
    server.answer("GET /connectors/shop/config", (200, {**DEFAULTS, **CONFIG}))
    server.answer(STATUS, RUNNING)
    result = run("deploy", write_pipeline(server.endpoint_url, {"connector.class": alias}))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:-1] == [f"  ~ connector.class: {POSTGRES} -> {alias}"]


@pytest.mark.parametrize("name", [".", ".."])
def test_name_that_is_no_part_of_an_address(server: FakeConnect, write_pipeline: Write, name: str) -> None:
    result = run("deploy", write_pipeline(server.endpoint_url, name=name))
    assert (result.exit_code, f"the connector cannot have the name {name!r}" in result.stderr) == (2, True)
    assert server.requests == []


def test_timeout_that_is_no_number(server: FakeConnect, write_pipeline: Write) -> None:
    result = run("deploy", write_pipeline(server.endpoint_url), "--timeout", "nan")
    assert (result.exit_code, "it is not a number of seconds" in result.stderr) == (2, True)


def test_login(server: FakeConnect, write_pipeline: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_LOGIN", "headrace:hunter2")
    file = write_pipeline(server.endpoint_url, **{"basic.auth.user.info": "${env:CONNECT_LOGIN}"})
    server.answer(STATUS, (401, "<html>Unauthorized hunter2</html>"))
    result = run("status", file)
    assert result.exit_code == 2
    assert "Kafka Connect rejected the login: 401" in result.stderr
    assert "set `basic.auth.user.info: ${env:NAME}`" in result.stderr
    assert server.logins == {"Basic aGVhZHJhY2U6aHVudGVyMg=="}
    assert "hunter2" not in result.output


def test_unreachable_worker(write_pipeline: Write) -> None:
    result = run("status", write_pipeline("http://127.0.0.1:9"))
    assert result.exit_code == 5
    assert "Kafka Connect did not respond: [Errno 111] Connection refused\nwhere: http://127.0.0.1:9" in result.stderr
    assert "check that a worker of Kafka Connect runs" in result.stderr


@pytest.mark.parametrize("answer", [(200, "<html>Welcome</html>"), (404, "<html>no such page</html>")])
def test_other_server(server: FakeConnect, write_pipeline: Write, answer: tuple[int, str]) -> None:
    server.answer(STATUS, answer)
    result = run("status", write_pipeline(server.endpoint_url))
    assert (result.exit_code, "not Kafka Connect" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    "answer", ["", [], "null", {"name": "shop"}, {"connector": {"state": "RUNNING"}, "tasks": None}, {"connector": 1}]
)
def test_answers_of_another_form(server: FakeConnect, write_pipeline: Write, answer: Any) -> None:
    file = write_pipeline(server.endpoint_url)
    server.answer("GET /connectors/shop/offsets", (200, answer))
    server.answer("GET /connectors/shop/config", (200, answer if answer != {"name": "shop"} else [answer]))
    server.answer(STATUS, (200, answer))
    for command in ("status", "pause", "resume", "restart", "offsets", "delete", "deploy"):
        result = run(command, file)
        assert (result.exit_code, "not Kafka Connect: the response of /connectors/shop/" in result.stderr) == (2, True)
        assert "set `url` in `connect:`" in result.stderr
    server.answer(VALIDATE, (200, answer))
    assert "not Kafka Connect: the response of /connector-plugins/" in run("validate", file).stderr
    server.answer("GET /connector-plugins", (200, [answer]))
    result = run("validate", file)
    assert (result.exit_code, "not Kafka Connect: the response of /connector-plugins has" in result.stderr) == (2, True)


def test_validation_with_errors_that_it_does_not_list(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer(VALIDATE, (200, {"error_count": 3, "configs": [{"definition": {"name": "a"}, "value": None}]}))
    result = run("validate", write_pipeline(server.endpoint_url))
    assert (result.exit_code, "the connector reports 3 errors without a text" in result.stderr) == (2, True)


def test_kafka_without_an_api_for_offsets(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer("GET /connectors/shop/offsets", (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
    result = run("offsets", write_pipeline(server.endpoint_url))
    assert (result.exit_code, "did you mean" in result.stderr) == (2, False)
    assert "Kafka shows offsets since 3.5, and deletes them since 3.6" in result.stderr


def test_unknown_connector(server: FakeConnect, write_pipeline: Write) -> None:
    for command in ("status", "pause", "resume", "restart", "offsets", "delete"):
        result = run(command, write_pipeline(server.endpoint_url, name="musuem"))
        assert result.exit_code == 2
        assert "there is no connector 'musuem'" in result.stderr
        assert "did you mean 'museum'?" in result.stderr


def test_status_of_a_failed_task(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer(STATUS, make_status("RUNNING", "FAILED", trace="the trace"))
    result = run("status", write_pipeline(server.endpoint_url), "--format", "json")
    assert result.exit_code == 6
    (task,) = json.loads(result.stdout)["tasks"]
    assert (task["state"], task["trace"], "the trace" in result.stderr) == ("FAILED", "the trace", True)


def test_control(server: FakeConnect, write_pipeline: Write) -> None:
    file = write_pipeline(server.endpoint_url)
    accepted = 202, None
    for action, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        server.answer(f"PUT /connectors/shop/{action}", accepted)
        server.answer(STATUS, make_status(state, state))
        assert run(action, file).stdout.endswith(f"connector {state}, task 0 {state}\n")
    for option, only_failed in ((), "true"), (("--all",), "false"):
        server.answer(f"POST /connectors/shop/restart?includeTasks=true&onlyFailed={only_failed}", (204, None))
        assert run("restart", file, *option).exit_code == 0
    assert [path for path, _ in server.sent("PUT")] == ["/connectors/shop/pause", "/connectors/shop/resume"]


def test_reset_of_offsets_asks_first(server: FakeConnect, write_pipeline: Write) -> None:
    offset = {"partition": {"server": "shop"}, "offset": {"lsn": 22143808}}
    server.answer("GET /connectors/shop/offsets", (200, {"offsets": [offset]}))
    server.answer("DELETE /connectors/shop/offsets", (200, {"message": "deleted"}))
    server.answer(STATUS, RUNNING, make_status("STOPPED"), RUNNING)
    for action in ("stop", "resume"):
        server.answer(f"PUT /connectors/shop/{action}", (204, None))
    file = write_pipeline(server.endpoint_url)
    assert json.loads(run("offsets", file).stdout) == offset
    assert run("offsets", file, "--reset", answer="n\n").exit_code == 1
    assert server.sent("PUT") == []
    assert run("offsets", file, "--reset", answer="y\n").exit_code == 0
    changes = [(kind, path.rpartition("/")[2]) for kind, path, _ in server.requests if kind != "GET"]
    assert changes == [("PUT", "stop"), ("DELETE", "offsets"), ("PUT", "resume")]


def prepare_reset(server: FakeConnect, *states: Answer) -> None:
    server.answer("GET /connectors/shop/offsets", (200, {"offsets": []}))
    server.answer("DELETE /connectors/shop/offsets", (200, {"message": "deleted"}))
    for action in ("stop", "resume", "pause"):
        server.answer(f"PUT /connectors/shop/{action}", (204, None))
    server.answer(STATUS, *states)


def list_changes(server: FakeConnect) -> list[str]:
    return [f"{kind} {path.rpartition('/')[2]}" for kind, path, _ in server.requests if kind != "GET"]


@pytest.mark.parametrize(
    ("states", "changes"),
    [
        ([make_status("STOPPED")], ["DELETE offsets"]),
        (
            [make_status("PAUSED", "PAUSED"), make_status("STOPPED"), make_status("PAUSED")],
            ["PUT stop", "DELETE offsets", "PUT pause"],
        ),
        # The failure of before ends with the stop.
        (
            [
                make_status("FAILED", trace="no slot"),
                make_status("FAILED", trace="no slot"),
                make_status("STOPPED"),
                RUNNING,
            ],
            ["PUT stop", "DELETE offsets", "PUT resume"],
        ),
    ],
)
def test_reset_keeps_the_state(
    server: FakeConnect, write_pipeline: Write, states: list[Answer], changes: list[str]
) -> None:
    prepare_reset(server, *states)
    result = run("offsets", write_pipeline(server.endpoint_url), "--reset", "--yes")
    assert (result.exit_code, list_changes(server)) == (0, changes), result.output
    last = states[-1][1]["connector"]["state"]
    assert f"connector shop at {server.endpoint_url}: connector {last}" in result.stdout


@pytest.mark.parametrize(
    ("state", "changes", "sentence"),
    [
        (RUNNING, ["PUT stop", "DELETE offsets", "PUT resume"], "the connector is started again, as before"),
        (
            make_status("PAUSED", "PAUSED"),
            ["PUT stop", "DELETE offsets", "PUT pause"],
            "the connector is PAUSED again, as before",
        ),
        (make_status("STOPPED"), ["DELETE offsets"], "the connector is STOPPED, as before"),
    ],
)
@pytest.mark.parametrize(("status", "code"), [(500, 5), (400, 2)])
def test_failed_reset_restores_the_state(
    server: FakeConnect,
    write_pipeline: Write,
    state: Answer,
    changes: list[str],
    sentence: str,
    status: int,
    code: int,
) -> None:
    prepare_reset(server, state, make_status("STOPPED"))
    server.answer("DELETE /connectors/shop/offsets", (status, {"error_code": status, "message": "no fencing"}))
    result = run("offsets", write_pipeline(server.endpoint_url), "--reset", "--yes")
    assert (result.exit_code, list_changes(server)) == (code, changes), result.output
    assert "the offsets are not deleted: Kafka Connect" in result.stderr
    assert sentence in result.stderr


def test_failed_reset_that_cannot_restore_the_state(server: FakeConnect, write_pipeline: Write) -> None:
    prepare_reset(server, RUNNING, make_status("STOPPED"))
    for request in ("DELETE /connectors/shop/offsets", "PUT /connectors/shop/resume"):
        server.answer(request, (500, {"error_code": 500, "message": "no fencing"}))
    result = run("offsets", write_pipeline(server.endpoint_url), "--reset", "--yes")
    assert result.exit_code == 5
    assert "the connector is STOPPED: `headrace connect resume FILE` restores its state" in result.stderr


def test_delete_asks_first(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer("GET /connectors/shop/config", (200, {"slot.name": "dbz"}))
    server.answer(STATUS, RUNNING, RUNNING, RUNNING, (404, {"error_code": 404, "message": "No status found"}))
    server.answer("DELETE /connectors/shop", (204, None))
    file = write_pipeline(server.endpoint_url)
    assert (run("delete", file, answer="n\n").exit_code, server.sent("DELETE")) == (1, [])
    result = run("delete", file, "--yes")
    assert server.sent("DELETE") == [("/connectors/shop", None)]
    assert result.stdout.splitlines()[-1].endswith("until you drop it: select pg_drop_replication_slot('dbz')")


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ("", "the file has no block `connect:`"),
        ("connect: http://connect:8083", "`connect:` must be a mapping of its options"),
        ("connect: {config: {database.hostname: db}}", "needs `connector.class`"),
        ("connect: {config: {connector.class: x, database: {hostname: db}}}", "'database' is a mapping"),
        ("connect: {ulr: http://connect:8083, config: {connector.class: x}}", "did you mean 'url'?"),
        ("connect: {url: connect, config: {connector.class: x}}", "it is not an address: write `http://HOST:8083`"),
        ("connect: {url: 'http://[::1', config: {connector.class: x}}", "it is not an address"),
        ("connect: {url: 'http://connect:8083/ a', config: {connector.class: x}}", "it is not an address"),
        ("connect: {url: 'http://connect:80830', config: {connector.class: x}}", "it is not an address"),
        ("connect: {url: 'http://a:hunter2@b', config: {connector.class: x}}", "the address contains a login"),
        ("connect: {url: '${env:NO_SUCH}', config: {connector.class: x}}", "the environment has no variable 'NO_SUCH'"),
    ],
)
def test_wrong_block(tmp_path: Path, block: str, error: str) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"name: shop\n{block}\n", encoding="utf-8")
    result = run("validate", file)
    assert (result.exit_code, error in result.stderr) == (2, True), result.stderr
    assert f"{file}:{2 if block else 1}" in result.stderr
    assert "hunter2" not in result.output


def test_run_ignores_the_block(write_pipeline: Write) -> None:
    """A machine that runs the pipeline has neither the references nor the address of Kafka Connect."""
    file = write_pipeline("${env:NO_SUCH_URL}")
    assert Pipeline.from_file(file).name == "shop"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("connect:\n", "conect:\n"), encoding="utf-8")
    with pytest.raises(ConfigError, match="did you mean 'connect'"):
        Pipeline.from_file(file)


def test_example_of_the_page(server: FakeConnect, tmp_path: Path) -> None:
    """The output on the page is that of its file. Only the address of the server differs."""
    text, output = find_block(PAGE, "yaml", "warehouse:"), find_block(PAGE, "", "connector shop at")
    file = tmp_path / "shop.yaml"
    file.write_text(text.replace("http://connect:8083", server.endpoint_url), encoding="utf-8")
    server.answer(STATUS, (404, {"error_code": 404, "message": "No status found"}), RUNNING)
    result = run("deploy", file)
    assert result.stderr == ""
    assert result.stdout == output.replace("http://connect:8083", server.endpoint_url)


def test_json_schema_has_the_block(write_pipeline: Write) -> None:
    schema = json.loads(CliRunner().invoke(cli, ["schema"]).stdout)
    pipeline = yaml.safe_load(write_pipeline("http://connect:8083").read_text(encoding="utf-8"))
    jsonschema.validate(pipeline, schema)
    pipeline["connect"]["ulr"] = pipeline["connect"].pop("url")
    with pytest.raises(jsonschema.ValidationError, match="'ulr' was unexpected"):
        jsonschema.validate(pipeline, schema)


def test_options_are_described() -> None:
    text = CliRunner().invoke(cli, ["plugins", "connect"]).stdout
    assert "headrace connect --help" in text
    assert "basic.auth.user.info  text, never shown" in text
