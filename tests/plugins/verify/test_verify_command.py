"""``headrace verify``: options and wrong input, without Spark, and what it prints."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from headrace_verify.compared_table import ComparedColumn, ComparedTable
from headrace_verify.comparison import Comparison, Difference
from headrace_verify.source_table import SourceTable
from headrace_verify.table_verification import Verified
from headrace_verify.value_texts import TextForm
from headrace_verify.verify_report import choose_exit_code, describe_all, format_table, list_keys, list_notes

from headrace.cli.main import cli
from headrace.sdk import RetriableError

POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"


def run(folder: Path, *options: str, **blocks: Any) -> Result:
    file = folder / "pipeline.yaml"
    source = {"kafka": {"bootstrap.servers": "broker:9092", "subscribe": "shop.public.orders"}, "value": "json"}
    pipeline = {"name": "shop", "source": source, "sink": "console", "checkpoint": "checkpoint/", **blocks}
    file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    return CliRunner().invoke(cli, ["verify", str(file), *options])


def find_closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_file_must_name_the_database(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "the file does not name the source database" in result.stderr


@pytest.mark.parametrize("block", ["connect", "verify"])
def test_database_that_cannot_be_reached(tmp_path: Path, block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2")
    config = {
        "connector.class": "PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": find_closed_port(),
        "database.user": "reader",
    }
    blocks: dict[str, Any] = {block: {"config": config}}
    blocks.setdefault("verify", {}).setdefault("config", {})["database.password"] = "${env:DB_PASSWORD}"
    result = run(tmp_path, **blocks)
    assert result.exit_code == 5
    assert "the database did not respond: [Errno 111] Connection refused" in result.stderr
    assert "hunter2" not in result.stderr


def test_options_of_verify_replace_those_of_connect(tmp_path: Path) -> None:
    config = {"connector.class": POSTGRES, "database.hostname": "db.invalid", "database.dbname": "shop"}
    own = {"database.hostname": "127.0.0.1", "database.port": (port := find_closed_port())}
    result = run(tmp_path, connect={"config": config}, verify={"config": own})
    assert f"where: 127.0.0.1:{port}" in result.stderr


def test_other_databases_are_rejected(tmp_path: Path) -> None:
    config = {"connector.class": "io.debezium.connector.oracle.OracleConnector", "database.hostname": "db"}
    result = run(tmp_path, connect={"config": config})
    assert result.exit_code == 2
    assert "tables of io.debezium.connector.oracle.OracleConnector cannot be verified" in result.stderr


@pytest.mark.parametrize("sample", ["0%", "101%", "few", "nan"])
def test_sample_is_a_percentage(tmp_path: Path, sample: str) -> None:
    result = run(tmp_path, "--sample", sample)
    assert result.exit_code == 2
    assert "is no percentage" in result.stderr


@pytest.mark.parametrize(
    "options",
    [["--against", "{file}"], ["--against-sink", "lake"], ["--sink", "lake", "--against-sink", "lake"]],
)
def test_tables_are_not_compared_with_themselves(tmp_path: Path, options: list[str]) -> None:
    result = run(tmp_path, *(option.format(file=tmp_path / "pipeline.yaml") for option in options))
    assert result.exit_code == 2
    assert "Name another file, or two sinks of FILE" in result.stderr


def test_other_tables_are_not_repaired(tmp_path: Path) -> None:
    result = run(tmp_path, "--repair", "--against", "other.yaml")
    assert result.exit_code == 2
    assert "--repair reads rows of the database again" in result.stderr


def test_other_file_must_exist(tmp_path: Path) -> None:
    result = run(tmp_path, "--against", str(tmp_path / "other.yaml"))
    assert result.exit_code == 2
    assert f"{tmp_path}/other.yaml" in result.stderr


def make_result(*differences: Difference, error: RetriableError | None = None) -> Verified:
    form = TextForm("{c}", "{c}", is_free=True)
    key = (ComparedColumn("id", form, "", ""),)
    source = SourceTable("public", "orders", (), ("id",))
    compared = ComparedTable(source, key, key, {"phone": "a transform changes it"})
    comparison = Comparison(10)
    for difference in differences:
        comparison.add(difference)
    return Verified("shop.orders", 1.25, "public.orders", compared, comparison, error)


DIFFERENCES = (
    Difference(("2:12",), "different", ("fee", "note")),
    Difference(("1:3",), "missing"),
    Difference(("3:a:b",), "extra"),
)


def test_table_of_results() -> None:
    lines = format_table([make_result(*DIFFERENCES), make_result()])
    assert [line.split() for line in lines] == [
        ["table", "rows", "equal", "missing", "extra", "different", "columns", "seconds"],
        ["shop.orders", "10", "8", "1", "1", "1", "fee,", "note", "1.2"],
        ["shop.orders", "10", "10", "0", "0", "0", "1.2"],
    ]


def test_keys_and_columns_are_named_without_values() -> None:
    assert list_keys(make_result(*DIFFERENCES)) == [
        "shop.orders: id=12: different in fee, note",
        "shop.orders: id=3: missing",
        "shop.orders: id=a:b: extra",
    ]
    assert list_notes(make_result()) == ["shop.orders: phone is left out: a transform changes it"]


def test_json_has_counts_keys_and_errors() -> None:
    failed = make_result(error=RetriableError("the pipeline has not applied the changes", fix="start it"))
    found = describe_all([make_result(*DIFFERENCES), failed])
    assert found["exit_code"] == 2
    table, error = found["tables"]
    assert (table["rows"], table["equal"], table["missing"], table["extra"], table["different"]) == (10, 8, 1, 1, 1)
    assert table["columns"] == {"fee": 1, "note": 1}
    assert table["keys"][2] == {"key": {"id": "a:b"}, "kind": "extra", "columns": []}
    assert error == {"table": "shop.orders", "error": "the pipeline has not applied the changes", "fix": "start it"}


def test_exit_codes() -> None:
    unsettled = make_result()
    unsettled.comparison.unsettled.append(("1:1",))
    assert [choose_exit_code([result]) for result in (make_result(), make_result(*DIFFERENCES), unsettled)] == [0, 1, 2]
