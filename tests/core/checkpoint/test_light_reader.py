"""Checkpoint reader that does not start Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from headrace import ConfigError
from headrace.checkpoint.backlog import BacklogEntry
from headrace.checkpoint.layout import list_tables
from headrace.checkpoint.light_reader import LocalFolder, open_without_spark, read_history, read_status
from headrace.progress.model import BatchProgress, TableProgress
from headrace.sdk import FileSystem
from headrace.sdk.file_system import TextFolder


class Store(FileSystem):
    name = "store"
    api_version = 1

    def open_folder(self, address: str, options: Mapping[str, str]) -> TextFolder | None:
        return LocalFolder(Path(address, *options.values()))


WHERE = "checkpoint lake"


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_local_checkpoint_is_read(form: str, tmp_path: Path) -> None:
    folder = open_without_spark(form.format(tmp_path), {}, ())
    assert folder is not None
    assert read_history(folder, WHERE, "shop") == []
    (tmp_path / "progress").mkdir()
    batches = [BatchProgress("shop", n, "2026-11-28T02:00:00+00:00", 1.0, (TableProgress("a", "s"),)) for n in (0, 1)]
    for batch in batches:
        (tmp_path / f"progress/{batch.batch:010d}.json").write_text(batch.json())
    (tmp_path / "progress/.0000000000.json.crc").write_bytes(b"\xff")
    assert read_history(folder, WHERE, "shop") == batches
    entry = BacklogEntry(2, 2, "2026-11-28T02:00:00+00:00", "full", {"t": [1]})
    for name in ("public%24a", "_public.a", ".a", ".DS_Store"):
        (tmp_path / "backlog" / name).mkdir(parents=True)
        (tmp_path / "backlog" / name / "0000000002.json").write_text(json.dumps(asdict(entry)))
    status = read_status(folder, WHERE, "shop", lambda table: ["s"])
    assert [(table.table, table.sink, table.error) for table in status.tables] == [
        (".a", "s", "full"),
        ("_public.a", "s", "full"),
        ("a", "s", None),
        ("public$a", "s", "full"),
    ]
    assert status.summary.batches == 2


def test_tables_are_listed_without_temporary_files(tmp_path: Path) -> None:
    tables = ["_a.b.json", ".a.tmp", "public.a"]
    temporary = [
        ".a.json.0af3c2d1e5b64f7a8b9c0d1e2f3a4b5c.tmp",
        ".a.b1946ac9-2492-4d23-8e6c-8f1a4c0b3a57.tmp",
        ".a.crc",
    ]
    for name in [*tables, *temporary]:
        (tmp_path / name).touch()
    assert sorted(list_tables(LocalFolder(tmp_path))) == sorted(tables)


def test_file_system_plugin_opens_address_of_its_scheme(tmp_path: Path) -> None:
    conf = {"spark.hadoop.fs.store.key": "b", "spark.master": "local"}
    found = open_without_spark("STORE://a", conf, [Store()])
    assert isinstance(found, LocalFolder)
    assert found.path == Path("STORE://a/b")
    assert open_without_spark("hdfs://a/b", conf, [Store()]) is None


def test_address_that_depends_on_hadoop_settings_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_without_spark("lake", {"spark.hadoop.fs.defaultFS": "hdfs://a"}, ()) is None
    assert open_without_spark("file://host/lake", {}, ()) is None
    assert open_without_spark("lake", {}, ()) is not None
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert open_without_spark("lake", {}, ()) is None


@pytest.mark.parametrize("name", ["spark-defaults.conf", "core-site.xml"])
def test_address_is_not_opened_where_spark_has_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert open_without_spark("lake", {}, ()) is not None
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / name).touch()
    assert open_without_spark("lake", {}, ()) is None


def test_unreadable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "progress").write_text("")
    with pytest.raises(ConfigError, match="progress: cannot be read: Not a directory"):
        read_history(LocalFolder(tmp_path), WHERE, "shop")


def test_checkpoint_with_another_layout_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "headrace.json").write_text('{"layout": 1, "pipeline": "shop", "id": "a"}')
    with pytest.raises(
        ConfigError, match="checkpoint lake: the checkpoint has layout 1; this version of headrace reads layout 2 only"
    ):
        read_history(LocalFolder(tmp_path), WHERE, "shop")


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ("", "headrace.json is damaged"),
        ("[2]", "headrace.json is damaged"),
        ('{"layout": 2}', "headrace.json is damaged"),
        ('{"layout": "2", "pipeline": "shop", "id": "a"}', "the checkpoint has layout '2'"),
        ('{"layout": 2, "pipeline": "bank", "id": "a"}', "belongs to the pipeline 'bank', not to 'shop'"),
    ],
)
def test_invalid_header_is_rejected(tmp_path: Path, header: str, error: str) -> None:
    (tmp_path / "headrace.json").write_text(header)
    with pytest.raises(ConfigError, match=f"checkpoint lake: {error}"):
        read_status(LocalFolder(tmp_path), WHERE, "shop", lambda table: ["s"])


@pytest.mark.parametrize("log", ["stream", "ranged"])
def test_lost_header_is_rejected(tmp_path: Path, log: str) -> None:
    assert read_status(LocalFolder(tmp_path), WHERE, "shop", lambda table: ["s"]).tables == ()
    (tmp_path / log).mkdir()
    with pytest.raises(ConfigError, match=r"checkpoint lake: headrace\.json is missing"):
        read_status(LocalFolder(tmp_path), WHERE, "shop", lambda table: ["s"])


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b'{"batch": 1', b"\xff\xfe"])
def test_damaged_progress_file_counts_as_deleted(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "progress").mkdir()
    (tmp_path / "progress" / "0000000001.json").write_bytes(text)
    assert read_history(LocalFolder(tmp_path), WHERE, "shop") == []
