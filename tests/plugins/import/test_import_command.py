"""The command: its output, and errors of its input."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.dist import ROOT
from tests.support.pages import list_blocks

from headrace.cli.main import cli

SOURCE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "shop",
    "database.password": "hunter2",
    "database.hostnme": "db",
}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["import", *map(str, arguments)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source.json"
    file.write_text(json.dumps(SOURCE), encoding="utf-8")
    return file


def test_prints_the_file_and_reports_on_stderr(source: Path) -> None:
    result = run(source, "--bootstrap-servers", "broker:9092")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:5] == [
        "# Imported from source.json",
        "name: source",
        "source:",
        "  kafka:",
        "    bootstrap.servers: broker:9092  # --bootstrap-servers",
    ]
    assert (
        "unknown options, not imported:\n"
        "- source.json: database.hostnme\n"
        "    headrace does not know this option\n"
        "    fix: did you mean 'database.hostname'?\n"
    ) in result.stderr
    assert "- source.json: database.password\n    the connector still connects to the database" in result.stderr
    assert "hunter2" not in result.output


def test_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = {block.language: block.body for block in list_blocks(ROOT / "docs/import.md")}
    Path("orders-source.json").write_text(blocks["json"], encoding="utf-8")
    result = run("orders-source.json", "--bootstrap-servers", "broker:9092")
    assert (result.stdout, result.stderr) == (blocks["yaml"], blocks[""])


def test_writes_a_file_once(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "pipeline.yaml"
    assert run(source, "-o", output).exit_code == 0
    text = output.read_text(encoding="utf-8")
    assert text.partition("\n")[2].startswith("# Imported from source.json\nname: source\n")
    again = run(source, "-o", output)
    assert (again.exit_code, "the file exists already" in again.stderr) == (2, True)
    assert output.read_text(encoding="utf-8") == text


def test_written_file_names_a_schema_that_accepts_it(source: Path, tmp_path: Path) -> None:
    """As an editor does: resolve the first line next to the file, and validate the rest."""
    output = tmp_path / "folder/pipeline.yaml"
    output.parent.mkdir()
    assert run(source, "--output", output, "--bootstrap-servers", "broker:9092").exit_code == 0
    text = output.read_text(encoding="utf-8")
    key, _, name = text.splitlines()[0].partition("$schema=")
    assert key == "# yaml-language-server: "
    schema = json.loads((output.parent / name).read_text(encoding="utf-8"))
    assert schema == json.loads(CliRunner().invoke(cli, ["schema"]).stdout)
    pipeline = yaml.safe_load(text)
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(pipeline)) == []
    (error,) = jsonschema.Draft202012Validator(schema).iter_errors({**pipeline, "chekpoint": "c"})
    assert "'chekpoint' was unexpected" in error.message


def test_check_of_the_written_file(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    output = tmp_path / "pipeline.yaml"
    result = run(source, "--output", output, "--check")
    assert (result.exit_code, output.exists()) == (2, True)
    report, _, error = result.stderr.partition(f"written: {output}, and headrace.schema.json for editors\n")
    assert "to do before a run" in report
    assert "KAFKA_BOOTSTRAP" in error
    assert str(output) in error
    assert run(source, "--check").exit_code == 2


@pytest.mark.parametrize(
    ("content", "error", "place"),
    [
        (b"", "the file is empty", ""),
        (b" \n\xef\xbb\xbf", "not valid JSON", ", line 2, column 1"),
        (b"\xff\xfe{\x00", "the file is UTF-16", ""),
        (b'{\n"a": "\xff"}', "the file is not UTF-8", ", line 2"),
        (b'{"a": 1,\n}', "not valid JSON", ", line 2, column 1"),
        (b'{"a": "1", "a": "2"}', "an object has the key `a` twice", ""),
        (b"[]", "the file has no connector", ""),
        (b"[1]", "not a connector", ""),
        (b'{"a": 1}', "not a connector: it has no `connector.class`", ""),
        (b'{"config": 1}', "`config` is not an object", ""),
        (b"[" * 100_000, "nested too deeply", ""),
        (b'{"connector.class": "a", "b": {"c": "hunter2"}}', "the value of `b` is not a text, number or boolean", ""),
        (b'{"connector.class": "com.acme.Own"}', "headrace imports no connector of this class", ", connector.class"),
        (
            b'{"connector.class": "io.debezium.connector.mysql.MySqlConnector"}',
            "the connector has no prefix of its topics",
            "",
        ),
        (
            b'{"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "a", "topics.regex": "a"}',
            "the topics of the connector are not known",
            "",
        ),
        (
            b"""{"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "a",
            "value.converter": "io.confluent.connect.protobuf.ProtobufConverter"}""",
            "headrace has no format for the records of this converter",
            ", value.converter",
        ),
    ],
)
def test_wrong_input_is_one_error_with_its_place(content: bytes, error: str, place: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    file.write_bytes(content)
    result = run(file)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["error", "where", "fix"]
    assert error in lines[0]
    assert f"wrong.json{place}" in lines[1]
    assert "hunter2" not in result.output


def test_byte_order_mark_is_ignored(source: Path) -> None:
    source.write_bytes(b"\xef\xbb\xbf" + source.read_bytes())
    assert run(source).exit_code == 0


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.properties", "hello=world\n", "the file has no option of a worker or a client"),
        ("a.properties", "group.id=a\ngroup.id=b\n", "the file has two values for `group.id`"),
        ("a.properties", "bootstrap.servers=a:1\n", "no input is a connector"),
        ("a.txt", "hello", "the file is neither JSON nor properties"),
    ],
)
def test_wrong_properties(name: str, content: str, error: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(content, encoding="utf-8")
    result = run(file)
    assert (result.exit_code, error in result.stderr) == (2, True), result.stderr


def test_folder_and_missing_file(tmp_path: Path, source: Path) -> None:
    folder = run(tmp_path)
    assert (folder.exit_code, "this is a folder" in folder.stderr, str(source) in folder.stderr) == (2, True, True)
    missing = run(tmp_path / "none.json")
    assert (missing.exit_code, "No such file" in missing.stderr) == (2, True)


def test_sinks_of_different_topics_are_an_error(tmp_path: Path) -> None:
    sink = {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "s3.bucket.name": "b", "flush.size": "1"}
    file = tmp_path / "sinks.json"
    file.write_text(json.dumps([sink | {"topics": "a"}, sink | {"topics": "b"}]), encoding="utf-8")
    result = run(file)
    assert (result.exit_code, "the sinks read different topics" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{{"connector.class": "x", "{0}": "a", "{0}": "b"}}'),
        ("a.json", '{{"connector.class": "x", "{0}": ["a"]}}'),
        ("a.properties", "connector.class=x\n{0}=a\n{0}=b\n"),
        ("a.yaml", "debezium:\n  {0}: a\n  {0}: b\n"),
    ],
)
def test_errors_do_not_show_salts(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text.format("column.mask.hash.v2.SHA-256.with.salt.hunter2.name"), encoding="utf-8")
    result = CliRunner().invoke(cli, ["import", str(file)])
    assert (result.exit_code, "with.salt.******`" in result.stderr) == (2, True), result.stderr
    assert "hunter2" not in result.stderr
