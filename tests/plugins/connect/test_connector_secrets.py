"""Secrets of connectors on the screen: in differences, warnings, errors and JSON; and control characters of workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.plugins.connect.conftest import CONFIG, POSTGRES, FakeConnect, make_status, make_validation

from headrace.cli.main import cli
from headrace_connect.connector_secrets import ConnectorSecrets

Write = Callable[..., Path]
STATUS, DEPLOYED = "GET /connectors/shop/status", "GET /connectors/shop/config"
VALIDATE = f"PUT /connector-plugins/{POSTGRES}/config/validate"
SECRET = "hunter2xyz"
#: Option → what the screen shows of it.
SECRETS = {
    "database.password": (SECRET, "******"),
    "ssl.keystore.key": (f"-----BEGIN PRIVATE KEY----- {SECRET}", "******"),
    "transforms.h.salt": (SECRET, "******"),
    "transforms.h.apikey": (SECRET, "******"),
    "transforms.h.credentials": (SECRET, "******"),
    "transforms.h.hmac": (SECRET, "******"),
    "transforms.h.private_key": (SECRET, "******"),
    "value.converter.schema.registry.url": (f"http://u:{SECRET}@reg:8081", "http://u:******@reg:8081"),
    "database.url": (f"jdbc:x?user=a&password={SECRET}&ssl=true", "jdbc:x?user=a&password=******&ssl=true"),
    "database.initial.statements": (f"SET PASSWORD = '{SECRET}'; SET x = 1", "SET PASSWORD = '******'; SET x = 1"),
    "storage.connection": (f"AccountName=a;AccountKey={SECRET};X=y", "AccountName=a;AccountKey=******;X=y"),
    "http.headers": (f"X-Api-Key: {SECRET}", "X-Api-Key: ******"),
    "oracle.url": (f"jdbc:oracle:thin:scott/{SECRET}@//h:1521/x", "jdbc:oracle:thin:scott/******@//h:1521/x"),
    "driver.options": (f'{{"password": "{SECRET}"}}', '{"password": "******"}'),
    "redshift.url": (f"jdbc:x?a=b&SecretAccessKey={SECRET}", "jdbc:x?a=b&SecretAccessKey=******"),
    "extra.options": (f"user: a, password: {SECRET}, x: 1", "user: a, password: ******, x: 1"),
}
SALTED = "column.mask.hash.v2.SHA-256.with.salt."


def run(command: str, file: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["connect", command, str(file), *options])


def test_secrets_are_not_shown_and_are_warned_about(server: FakeConnect, write_pipeline: Write) -> None:
    options = {key: value for key, (value, _) in SECRETS.items()}
    result = run("deploy", write_pipeline(server.endpoint_url, {**options, f"{SALTED}{SECRET}": "a.b.c"}), "--dry-run")
    assert (result.exit_code, SECRET in result.output) == (0, False)
    lines = result.stdout.splitlines()
    for key, (_, shown) in SECRETS.items():
        assert f"  + {key}: {shown}" in lines
        assert f"warning: {key} contains plain text, which Kafka Connect's API shows" in result.stderr
    assert f"  + {SALTED}******: a.b.c" in lines


def test_references_are_shown(server: FakeConnect, write_pipeline: Write) -> None:
    options = {
        "transforms.h.salt": "${file:/s:salt}",
        "database.url": "jdbc:x?password=${file:/s:password}",
        "value.converter.schema.registry.url": "http://u:${file:/s:login}@reg",
        "basic.auth.credentials.source": "USER_INFO",
        "driver.options": 'password: "${file:/s:password}", token = ${file:/s:token};',
    }
    result = run("deploy", write_pipeline(server.endpoint_url, options), "--dry-run")
    assert "plain text" not in result.stderr
    for key, value in options.items():
        assert f"  + {key}: {value}" in result.stdout.splitlines()


def test_options_that_the_connector_declares_as_passwords(server: FakeConnect, write_pipeline: Write) -> None:
    code, answer = make_validation(**{"driver.pin": f"cannot use {SECRET}"})
    for info in answer["configs"]:
        info["definition"]["type"] = "PASSWORD" if info["value"]["name"] == "driver.pin" else "STRING"
    server.answer(VALIDATE, (code, answer))
    file = write_pipeline(server.endpoint_url, {"driver.pin": SECRET})
    failed = run("deploy", file)
    assert (failed.exit_code, "driver.pin: cannot use ******" in failed.stderr) == (2, True)
    answer["configs"][-1]["value"]["errors"], answer["error_count"] = [], 0
    result = run("deploy", file, "--dry-run")
    assert "  + driver.pin: ******" in result.stdout.splitlines()
    assert "warning: driver.pin contains plain text" in result.stderr
    assert SECRET not in failed.output + result.output


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("trace", [SECRET, f'login required password="{SECRET}";', f"http://u:{SECRET}@reg", "pin%2Fx"])
def test_traces_in_each_format(server: FakeConnect, write_pipeline: Write, form: str, trace: str) -> None:
    """A password in a JAAS login, of the file or not, is hidden as a whole value is."""
    server.answer(STATUS, make_status("RUNNING", "FAILED", trace=f"cannot log in: {trace}"))
    jaas = f'ScramLoginModule required username="a" password="{SECRET}";'
    for options in (
        {"database.password": SECRET, "x.password": "pin/x"},
        {"sasl.jaas.config": jaas, "x.password": "pin/x"},
    ):
        result = run("status", write_pipeline(server.endpoint_url, options), "--format", form)
        assert result.exit_code == 6
        assert SECRET not in result.output
        assert "pin%2Fx" not in result.output
        assert "cannot log in" in result.stderr


def test_errors_of_a_validation_are_whole(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer(VALIDATE, make_validation(**{"database.password": "A value is required"}))
    result = run("validate", write_pipeline(server.endpoint_url))
    assert "database.password: A value is required" in result.stderr
    hide = ConnectorSecrets({}).hide
    for said in ("Invalid value null for database.password: String must not be empty", "no token: it is missing"):
        assert hide(said) == said
    assert hide(f"cannot use password: {SECRET}, token: {SECRET} or") == "cannot use password: ******, token: ****** or"


def test_short_secret_leaves_texts_readable() -> None:
    assert ConnectorSecrets({"password": "a"}).hide("a database at a=a") == "****** database at ******=******"
    assert ConnectorSecrets({"password": "", "a.token": " "}).hide("a database") == "a database"


@pytest.mark.parametrize("dry", [True, False])
def test_control_characters_of_the_worker(server: FakeConnect, write_pipeline: Write, *, dry: bool) -> None:
    hostile = "a\x1b]0;owned\x07b\nconnector shop at x: connector RUNNING"
    server.answer(DEPLOYED, (200, {**CONFIG, "x": hostile, f"y{hostile}": "z"}))
    state: Any = make_status(f"RUN{hostile}", "RUNNING")
    server.answer(STATUS, state)
    file = write_pipeline(server.endpoint_url)
    result = run("deploy", file, "--dry-run") if dry else run("status", file)
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "connector shop at x: connector RUNNING" not in result.output.splitlines()
    assert "a\\x1b]0;owned\\x07b\\nconnector shop at x" in result.stdout


def test_json_is_one_line(server: FakeConnect, write_pipeline: Write) -> None:
    server.answer("GET /connectors/shop/offsets", (200, {"offsets": [{"offset": {"a\x1b[2J\n": "b\x1b"}}]}))
    result = run("offsets", write_pipeline(server.endpoint_url))
    assert json.loads(result.stdout) == {"offset": {"a\x1b[2J\n": "b\x1b"}}
    assert "\x1b" not in result.stdout
