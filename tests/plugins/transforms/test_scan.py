"""``headrace scan``: columns with personal data are found, and no value is printed."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
import yaml
from benchmarks.scan import COLUMNS, compute_figures, count_results
from click.testing import CliRunner, Result
from pyarrow import parquet
from pydantic import TypeAdapter
from tests.data.pii.generate import make_columns

from headrace.cli.main import cli
from headrace.config.model import PipelineConfig, Tags
from headrace.engine.plan.column_tags import ColumnTags
from headrace_transforms import Mask
from headrace_transforms.scan import samples
from headrace_transforms.scan.findings import find_personal_data
from headrace_transforms.scan.samples import Sample

ROWS = [
    {"id": n, "email": f"canary{n}@example.org", "client": f"198.51.100.{n}", "home": {"Tel.": f"+41 79 471 10 {n:02}"}}
    for n in range(20)
]


def scan(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["scan", *map(str, arguments)])


def write_jsonl(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_precision_and_recall_on_labelled_columns() -> None:
    """benchmarks/README.md has the figures."""
    precision, recall = compute_figures(count_results())
    assert precision >= 0.95
    assert recall >= 0.95


def test_labelled_columns_are_those_of_the_generator() -> None:
    assert [json.loads(line) for line in COLUMNS.read_text(encoding="utf-8").splitlines()] == make_columns()


def test_report_has_counts_and_a_valid_block_but_no_value(tmp_path: Path) -> None:
    envelopes = [
        {"before": None, "after": row, "op": "c", "source": {}} for row in [*ROWS, {"id": 99, "email": "none"}]
    ]
    result = scan(write_jsonl(tmp_path / "people.jsonl", envelopes))
    assert result.exit_code == 0, result.output
    table, _, block = result.output.partition("\n\n")
    assert [line.split() for line in table.splitlines()] == [
        ["email", "email", "95%", "20", "of", "21", "values"],
        ["client", "ip", "100%", "20", "of", "20", "values"],
        ["home.Tel.", "phone", "100%", "20", "of", "20", "values"],
    ]
    assert not any(value in result.output for value in ("canary", "198.51", "471"))
    data = yaml.safe_load(block.replace("${env:MASK_KEY}", "a-key-of-sixteen-characters"))
    assert set(data) <= set(PipelineConfig.keys())
    mask = Mask(data["transforms"][1]["mask"])
    assert {name: rule.kind for name, rule in mask.config.columns.items()} == {
        "email": "token",
        "client": "ip_network",
        "home": "nullify",
    }
    assert data["tags"] == {"pii": ["email", "client", "home"]}


def test_formats_have_the_same_report(tmp_path: Path) -> None:
    rows = [{name: str(value) for name, value in row.items() if name != "home"} for row in ROWS]
    expected = scan(write_jsonl(tmp_path / "a.ndjson", rows)).output
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text(
        "\n".join(",".join(row) for row in [list(rows[0]), *(list(row.values()) for row in rows)])
    )
    fields = [{"name": name, "type": "string"} for name in rows[0]]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "V", "fields": fields}, rows)
    assert "email" in expected
    for name in ("a.parquet", "a.csv", "a.avro"):
        assert scan(tmp_path / name).output == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", b"", "files end with .json, .jsonl, .ndjson, .csv, .parquet, .avro"),
        ("a.jsonl", b'{"secret": "canary', "its content is damaged"),
        ("a.avro", b"canary", "its content is damaged"),
        ("a.parquet", b"canary", "its content is damaged"),
        ("a.json.gz", b"canary", "it is not a gzip file"),
        ("a.csv", b'id,name\n1,"a\nb"\n2,"canary\n3,x\n4,y', "the quote that opens in line 4 does not close"),
        ("a.csv", b'id,"canary\n3,x\n', "the quote that opens in line 1 does not close"),
        pytest.param("a.csv", "id,name\n1,canary\n".encode("utf-16"), "its text is not UTF-8", id="utf-16"),
        pytest.param("a.csv", "id,name\n1,canary\n".encode("utf-16-le"), "its text is not UTF-8", id="utf-16-le"),
        pytest.param("a.json", '{"id": 1}\n{"id": 2}'.encode("utf-16"), "its text is not UTF-8", id="json-utf-16"),
        pytest.param(
            "a.json.gz", gzip.compress(b'{"a": "canary"}')[:-9], "its content is damaged (EOFError)", id="truncated"
        ),
        ("a.csv", b"name,home\ncanary,a,b\n", "row 2 has more fields than the first line"),
        ("a.csv", b"canary@example.org;079 471 10 10\n", "the first line has values, not the names of columns"),
        ("a.jsonl", b'{"canary@example.org": {"age": 9}}', "the names of columns are values"),
        ("a.csv", b"mail,mail\ncanary,b\n", "two columns have the same name"),
        pytest.param("a.jsonl", b'{"a":' * 9_000, "its content is damaged (RecursionError)", id="deep"),
    ],
)
def test_file_that_cannot_be_read_is_named_without_its_content(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    result = scan(tmp_path / name)
    assert result.exit_code != 0
    assert f"{name}: {message}" in result.output
    assert "canary" not in result.output


def test_columns_without_personal_data(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"id": n, "version": f"1.{n}.0.1"} for n in range(30)])
    assert scan(path).output == "none of 2 columns looks like personal data\n"


def test_few_matches_by_chance_are_not_confident() -> None:
    """One in ten numbers has the check digit of a card."""
    one, many = ["4111111111111111"], ["4111111111111111", "4242424242424242", "5555555555554444"]
    [single], [several] = (find_personal_data([Sample(("n",), values)], 0) for values in (one, many))
    assert (single.detector.kind, several.detector.kind) == ("card", "card")
    assert single.confidence == pytest.approx(0.9)
    assert several.confidence == pytest.approx(0.999)


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_quoted_lines_are_one_field(end: str, tmp_path: Path) -> None:
    rows = "\n".join(f'"x\ny",canary{n}@example.org' for n in range(9))
    (tmp_path / "a.csv").write_text(f"notes,email\n{rows}{end}", newline="")
    assert scan(tmp_path / "a.csv").output.startswith("email  email        100%  9 of 9 values")


def test_quote_that_closes_after_too_many_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_LONGEST_FIELD", 1000)
    rows = "".join(f"{n},canary\n" for n in range(200))
    (tmp_path / "a.csv").write_text(f'id,name\n1,"a\nb"\n2,"c\n{rows}')
    result = scan(tmp_path / "a.csv")
    assert result.exit_code != 0
    assert "a.csv: the row that begins in line 4 has a value of more than 1,000 characters" in result.output
    assert "if a quote does not close, close it" in result.output
    assert "canary" not in result.output
    (tmp_path / "a.csv").write_text("id,name\n1,a\rb\n")
    assert "its content is damaged (Error)" in scan(tmp_path / "a.csv").output
    csv.field_size_limit(1 << 17)  # the default


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_of_csv_is_found(delimiter: str, tmp_path: Path) -> None:
    path, notes = tmp_path / "a.csv", "x" * 200_000
    rows = [["notes", "email"], *([notes, f"canary{n}@example.org"] for n in range(9))]
    path.write_text("".join(f"{delimiter.join(row)}\n" for row in rows))
    assert scan(path).output.startswith("email  email")


def test_document_with_one_list_has_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"email": f"canary{n}@example.org"} for n in range(9)]))
    assert scan(path).output.startswith("email  email")


def test_structs_may_be_nested_deeply(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a":' * 900 + '"canary@example.org"' + "}" * 900)
    result = scan(path)
    assert (result.exit_code, "a: {nullify: true}" in result.output) == (0, True)


def test_names_that_are_values_are_not_printed(tmp_path: Path) -> None:
    rows = [{"users": {f"canary{n}@example.org": {"phone": f"+41 79 471 10 {n:02}"}}} for n in range(20)]
    result = scan(write_jsonl(tmp_path / "a.jsonl", rows))
    lines = [line.split() for line in result.output.partition("\n\n")[0].splitlines()]
    assert sorted(lines) == [
        ["users.*", "email", "100%", "20", "of", "20", "values"],
        ["users.*.phone", "phone", "100%", "20", "of", "20", "values"],
    ]
    assert "users: {nullify: true}" in result.output


def test_names_in_objects_that_look_like_values_are_not_printed(tmp_path: Path) -> None:
    names = ("+41791234500", "079 123 45 01", "192.168.7.20", "10.1.2.0", "Hans Meier", "Bahnhofstrasse 12, Bern")
    rows = [{"people": {name: {"mail": f"canary{n}@example.org"} for name in names}} for n in range(20)]
    result = scan(write_jsonl(tmp_path / "a.jsonl", rows))
    assert "people.*.mail" in result.output
    assert [name for name in names if name in result.output] == []


@pytest.mark.parametrize(
    "column",
    ["null", "on", 'q"uote', "back\\slash", "a\x1b[31m", "b\nevil: 1", " lead", "trail ", "`q`", "em[0]", "st*r?", "a.b.", "/e/", "é"],
)  # fmt: skip
def test_block_names_every_column(tmp_path: Path, column: str) -> None:
    rows = [{column: f"canary{n}@example.org"} for n in range(9)]
    result = scan(write_jsonl(tmp_path / "a.jsonl", rows))
    assert all(character.isprintable() for character in result.output.replace("\n", ""))
    data = yaml.safe_load(result.output.partition("\n\n")[2])
    tags = ColumnTags(TypeAdapter(Tags).validate_python(data["tags"]))
    assert tags.find("people", [column, "other", ""]) == {"pii": {column}}
    assert list(data["transforms"][1]["mask"]["columns"]) == [column]


def test_text_in_binary_columns_is_found(tmp_path: Path) -> None:
    emails = [f"canary{n}@example.org".encode() for n in range(9)]
    table = pa.table({"email": emails, "picture": [bytes(range(256))] * 9})
    parquet.write_table(table, tmp_path / "a.parquet")
    output = scan(tmp_path / "a.parquet").output
    assert output.startswith("email  email        100%  9 of 9 values\n\n")
    assert "email: {hmac_sha256: " in output


def test_rules_fit_the_types_and_the_columns(tmp_path: Path) -> None:
    cards = [4111111111111111, 4242424242424242, 5555555555554444]
    rows = [
        {"card": card, "emails": [f"canary{card}@example.org"], "home.mail": f"{card}@example.org"} for card in cards
    ]
    block = scan(write_jsonl(tmp_path / "a.jsonl", rows)).output.partition("\n\n")[2]
    assert yaml.safe_load(block)["transforms"][1]["mask"]["columns"] == {
        "card": {"hmac_sha256": {"key": "${env:MASK_KEY}"}},
        "emails": {"nullify": True},
        "home.mail": {"token": {"format": "email", "key": "${env:MASK_KEY}"}},
    }


def test_values_that_a_change_removes_are_found(tmp_path: Path) -> None:
    deletes = [{"op": "d", "before": row, "after": None} for row in ROWS]
    erasures = [{"op": "u", "before": row, "after": {**row, "email": None}} for row in ROWS]
    for name, events in (("deletes", deletes), ("erasures", erasures)):
        assert "20 of 20 values" in scan(write_jsonl(tmp_path / f"{name}.jsonl", events)).output.partition("\n")[0]


def test_rows_of_dms_are_read_as_rows(tmp_path: Path) -> None:
    records = [{"data": row, "metadata": {"record-type": "data", "operation": "load"}} for row in ROWS]
    records += [{"data": {"id": 1}, "before-image": row, "metadata": {"operation": "delete"}} for row in ROWS]
    block = scan(write_jsonl(tmp_path / "dms.jsonl", records)).output.partition("\n\n")[2]
    assert yaml.safe_load(block)["tags"] == {"pii": ["email", "client", "home"]}


def test_column_with_numbers_and_texts_gets_a_rule_for_both(tmp_path: Path) -> None:
    cards: list[object] = [4111111111111111, "4242 4242 4242 4242", 5555555555554444, "378282246310005"]
    block = scan(write_jsonl(tmp_path / "a.jsonl", [{"card": card} for card in cards])).output.partition("\n\n")[2]
    assert yaml.safe_load(block)["transforms"][1]["mask"]["columns"] == {
        "card": {"hmac_sha256": {"key": "${env:MASK_KEY}"}}
    }
