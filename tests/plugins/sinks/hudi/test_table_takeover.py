"""Takeover of tables that the real Hudi Streamer 0.14 wrote: ``tests/data/hudi_streamer``, by ``benchmarks/streamer_tables.py``."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.dist import ROOT

from headrace.errors import ConfigError, DataError, HeadraceError
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.hudi import HudiSink

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TABLES = ROOT / "tests/data/hudi_streamer"
ORDERS = "id int, line int, country string, item string"
PARTITION = {"hoodie.datasource.write.partitionpath.field": "country"}
PLAIN = {"hoodie.index.type": "SIMPLE"}


def unpack(folder: Path, name: str) -> Path:
    with tarfile.open(TABLES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def take_over(folder: Path, name: str, sessions: Sessions, key: str = "id", **options: object) -> Target:
    unpack(folder, name)
    return open_table(folder, name, sessions, key, **{"take.over": True, **options})


def open_table(folder: Path, name: str, sessions: Sessions, key: str = "id", **options: object) -> Target:
    sink = HudiSink({"path": str(folder), **options})
    return Target(sink, sessions.of("one"), key=tuple(key.split(",")), name=name)


def read(target: Target, folder: Path) -> dict[int, tuple[str, str]]:
    """Return country and item by id, as a plain read of Hudi returns them."""
    rows = target.session.read.format("hudi").load(str(folder / target.name)).select("id", "country", "item").collect()
    assert len({row.id for row in rows}) == len(rows), rows
    return {row.id: (row.country, row.item) for row in rows}


def refuse(target: Target, work: Callable[[], object]) -> str:
    """Return the refusal of a batch, which leaves every file of the table as it was."""
    refusal = target.refusal(work)
    assert isinstance(refusal, HeadraceError)
    return str(refusal)


def list_files(table: Path) -> dict[str, bytes]:
    return {str(path.relative_to(table)): path.read_bytes() for path in table.rglob("*") if path.is_file()}


def set_properties(table: Path, **changes: str) -> None:
    """Change properties of a table, as a Streamer with other options writes them."""
    file = table / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "checksum" not in line]
    for name, value in changes.items():
        lines = [line for line in lines if not line.startswith(f"{name}=")] + ([f"{name}={value}"] if value else [])
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


@pytest.mark.nightly
def test_rows_of_an_unpartitioned_table(tmp_path: Path, sessions: Sessions) -> None:
    target = take_over(tmp_path, "plain", sessions, **PLAIN)
    before = {1: ("de", "lamp"), 2: ("fr", "desk, oak"), 4: ("fr", "shelf")}
    assert read(target, tmp_path) == before
    note = target.sink.check_stored(target.session, target.table)
    assert note is not None
    assert "ordered by ts" in note
    assert "its table version is 6, and headrace writes 9" in note
    target.write(ORDERS, put(5, 1, 1, "de", "lamp, red"), remove(5, 2, None, None, None), put(5, 9, 1, "it", "sofa"))
    expected = {1: ("de", "lamp, red"), 4: ("fr", "shelf"), 9: ("it", "sofa")}
    assert read(target, tmp_path) == expected
    # A late event loses, and the first event of a row of the Streamer wins.
    target.write(ORDERS, put(4, 1, 1, "de", "late"), put(1, 4, 1, "fr", "shelf, old"))
    expected[4] = ("fr", "shelf, old")
    assert read(target, tmp_path) == expected
    assert target.write_again(ORDERS, put(1, 77, 1, "de", "not read")).skipped
    assert target.sink.check_stored(target.session, target.table) is None


@pytest.mark.nightly
def test_logs_and_moves_in_a_partitioned_table(tmp_path: Path, sessions: Sessions) -> None:
    target = take_over(tmp_path, "logs", sessions, "line,id", **PARTITION)
    assert any((tmp_path / "logs").rglob(".*.log.*"))
    before = {1: ("de", "lamp"), 2: ("fr", "desk, oak"), 4: ("fr", "shelf")}
    assert read(target, tmp_path) == before
    target.write(ORDERS, put(5, 1, 1, "it", "lamp"), remove(5, 4, 1, None, None), put(5, 3, 1, "de", "chair, new"))
    expected = {1: ("it", "lamp"), 2: ("fr", "desk, oak"), 3: ("de", "chair, new")}
    assert read(target, tmp_path) == expected
    target.write(ORDERS, put(6, 2, 1, "de", "desk"), put(4, 1, 1, "fr", "late"))
    assert read(target, tmp_path) == {**expected, 2: ("de", "desk")}
    assert {path.name for path in (tmp_path / "logs").glob("country=*")} == {"country=de", "country=fr", "country=it"}


@pytest.mark.nightly
@pytest.mark.parametrize("readers", [(), ("athena",)], ids=["newest version", "version 6"])
def test_rows_of_a_complex_key_generator(tmp_path: Path, sessions: Sessions, readers: tuple[str, ...]) -> None:
    target = take_over(tmp_path, "complex", sessions, readers=readers, **PARTITION)
    target.write(ORDERS, put(5, 1, 1, "it", "lamp"), remove(5, 4, None, None, None), put(5, 3, 1, "de", "chair, new"))
    target.write(ORDERS, put(6, 2, 1, "de", "desk"), put(4, 1, 1, "fr", "late"))
    assert read(target, tmp_path) == {1: ("it", "lamp"), 2: ("de", "desk"), 3: ("de", "chair, new")}
    properties = (tmp_path / "complex/.hoodie/hoodie.properties").read_text(encoding="utf-8")
    assert f"hoodie.table.version={6 if readers else 9}\n" in properties


def test_doubled_rows_and_other_types_are_refused(tmp_path: Path, sessions: Sessions) -> None:
    target = take_over(tmp_path, "moved", sessions, **PARTITION)
    before = list_files(tmp_path / "moved")
    assert "1 keys have several rows" in refuse(target, lambda: target.write(ORDERS, put(5, 1, 1, "de", "lamp")))
    schema = ORDERS.replace("item string", "item array<int>")
    refusal = refuse(target, lambda: target.write(schema, put(5, 1, 1, "de", None)))
    assert "column 'item' has type array<int> in the batch and string in the table" in refusal
    assert list_files(tmp_path / "moved") == before


def test_a_table_is_not_taken_over_without_the_option(tmp_path: Path, sessions: Sessions) -> None:
    unpack(tmp_path, "plain")
    target = open_table(tmp_path, "plain", sessions, "id", **PLAIN)
    before = list_files(tmp_path / "plain")
    for work in (
        lambda: target.sink.check_stored(target.session, target.table),
        lambda: target.write(ORDERS, put(5, 1, 1, "de", "lamp")),
    ):
        refusal = refuse(target, work)
        assert (
            "another writer created the table: its rows have no `_headrace_position` and are ordered by ts" in refusal
        )
        assert "stop the other writer and set `take.over: true`" in refusal
    assert list_files(tmp_path / "plain") == before


def test_a_new_table_is_not_created_instead_of_a_takeover(tmp_path: Path, sessions: Sessions) -> None:
    unpack(tmp_path, "plain")
    target = open_table(tmp_path, "plane", sessions, "id", **{"take.over": True, **PLAIN})
    for work in (
        lambda: target.sink.check_stored(target.session, target.table),
        lambda: target.write(ORDERS, put(5, 1, 1, "de", "lamp")),
    ):
        refusal = refuse(target, work)
        assert re.search(r"table plane, sink hudi, take\.over: there is no table to take over in .*/plane\n", refusal)
        assert "fix: correct `path`, or `target`" in refusal
    assert not (tmp_path / "plane").exists()


def test_a_table_of_another_pipeline_is_not_taken_over(tmp_path: Path, sessions: Sessions) -> None:
    target = open_table(tmp_path, "own", sessions, **PLAIN)
    target.write(ORDERS, put(5, 1, 1, "de", "lamp"))
    again = open_table(tmp_path, "own", sessions, "id", **{"take.over": True, **PLAIN})
    again = replace(again, pipeline=target.pipeline, batch=target.batch)
    again.write(ORDERS, put(6, 1, 1, "de", "lamp, red"))
    other = replace(again, pipeline="other")
    assert "another pipeline of headrace" in refuse(other, lambda: other.write(ORDERS, put(4, 2, 1, "de", "lost")))
    assert read(target, tmp_path) == {1: ("de", "lamp, red")}


CUSTOM = "org.apache.hudi.keygen.CustomKeyGenerator"
WRONG: list[tuple[dict[str, Any], dict[str, str], str]] = [
    (
        {"hoodie.index.type": "BUCKET"},
        {},
        r"the index BUCKET does not find rows in its files \(set `hoodie.index.type: SIMPLE`\)",
    ),
    (
        {"key": "id,line"},
        {},
        r"its record key is id, and the key of the events is id,line \(set `key: \[id\]` under `tables:`\)",
    ),
    (PARTITION, {}, "it is partitioned by no column, and the option names another value"),
    ({"table.type": "MERGE_ON_READ"}, {}, "it is COPY_ON_WRITE, and `table.type` is MERGE_ON_READ"),
    ({}, {"hoodie.table.recordkey.fields": ""}, "its rows have keys that Hudi generated"),
    (
        {},
        {"hoodie.table.keygenerator.class": CUSTOM},
        "its key generator CustomKeyGenerator computes keys or partition paths",
    ),
    ({}, {"hoodie.datasource.write.drop.partition.columns": "true"}, "its files have no partition columns"),
    (
        {},
        {"hoodie.populate.meta.fields": "false"},
        "`hoodie.populate.meta.fields` is false, and no index finds its rows",
    ),
    ({}, {"hoodie.table.version": "5"}, "its table version 5 is older than 6"),
    ({}, {"hoodie.table.version": "99"}, "Hudi 1.2 does not read the version of the table"),
]


def test_tables_that_cannot_be_taken_over(tmp_path: Path, sessions: Sessions) -> None:
    for number, (options, properties, text) in enumerate(WRONG):
        folder = tmp_path / str(number)
        target = take_over(folder, "plain", sessions, **{**PLAIN, **options})
        set_properties(folder / "plain", **properties)
        assert re.search(text, refuse(target, lambda t=target: t.sink.check_stored(t.session, t.table))), text  # type: ignore[misc]


def test_log_files_of_an_unknown_payload_class(tmp_path: Path, sessions: Sessions) -> None:
    target = take_over(tmp_path, "logs", sessions, "line,id", **PARTITION)
    set_properties(tmp_path / "logs", **{"hoodie.compaction.payload.class": "com.acme.Payload"})
    refusal = refuse(target, lambda: target.write(ORDERS, put(5, 1, 1, "de", "lamp")))
    assert (
        "the payload class com.acme.Payload of its log files is not on the class path (complete a compaction" in refusal
    )


def test_an_unfinished_write_of_the_other_writer(tmp_path: Path, sessions: Sessions) -> None:
    target = take_over(tmp_path, "plain", sessions, **PLAIN)
    (tmp_path / "plain/.hoodie/20300101000000000.commit.requested").touch()
    with pytest.raises(
        ConfigError, match=r"its commit 20300101000000000 is not complete \(stop the other writer after"
    ):
        target.sink.check_stored(target.session, target.table)


@pytest.mark.nightly
@pytest.mark.parametrize("step", ["_set_ordering_field", "_read_rows"])
def test_a_killed_takeover_is_repeated(
    tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    target = take_over(tmp_path, "logs", sessions, "id,line", **PARTITION)
    change = put(5, 1, 1, "it", "lamp")

    def fail(_: object) -> None:
        raise DataError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(f"headrace_sinks.hudi.table_takeover.Takeover.{step}", fail)
        assert "killed" in refuse(target, lambda: target.write(ORDERS, change))
    assert read(target, tmp_path) == {1: ("de", "lamp"), 2: ("fr", "desk, oak"), 4: ("fr", "shelf")}
    target.write(ORDERS, change)
    assert read(target, tmp_path) == {1: ("it", "lamp"), 2: ("fr", "desk, oak"), 4: ("fr", "shelf")}
