"""Tables in the folder of another table. Folders of a disk stand in for those of Hadoop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from tests.support.disk_folder import DiskFolder

from headrace import ConfigError
from headrace_sinks import nested_tables
from headrace_sinks.nested_tables import TableFolders

SPARK: Any = None


class Sink:
    """Sink whose tables are folders with a file ``log``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folders = TableFolders("kit", self._has_log, self._has_log, "which deletes it", "which it deletes")
        self.probed: list[str] = []

    def _has_log(self, spark: Any, path: str) -> bool:
        self.probed.append(path)
        return Path(path, "log").exists()

    def check(self, name: str) -> str | None:
        path = self.path.joinpath(*name.split("."))
        is_stored = path.joinpath("log").exists()
        try:
            self.folders.check(SPARK, name, str(path), is_stored=is_stored, is_exclusive=True)
        except ConfigError as error:
            return str(error)
        return None

    def create(self, name: str) -> None:
        path = self.path.joinpath(*name.split("."))
        path.mkdir(parents=True, exist_ok=True)
        (path / "log").touch()


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sink:
    monkeypatch.setattr(nested_tables, "Folder", DiskFolder)
    return Sink(tmp_path / "lake")


def test_table_in_the_folder_of_another_table(sink: Sink) -> None:
    sink.create("shop")
    assert f"its folder is in that of the table at {sink.path}/shop, which deletes it" in str(
        sink.check("shop.old.orders")
    )


def test_table_around_another_table(sink: Sink) -> None:
    sink.create("shop.old.orders")
    assert f"its folder has that of the table at {sink.path}/shop/old/orders, which it deletes" in str(
        sink.check("shop")
    )


def test_path_of_a_sink_in_a_table_of_another_sink(sink: Sink) -> None:
    sink.create("shop")
    assert f"in that of the table at {sink.path}/shop" in str(Sink(sink.path / "shop").check("orders"))


def test_tables_of_one_batch_are_found_in_the_next_batch(sink: Sink) -> None:
    names = ("shop", "shop.orders")
    assert [sink.check(name) for name in names] == [None, None]
    for name in names:
        sink.create(name)
    assert sink.check("shop") is None
    for _ in range(2):
        assert f"its folder is in that of the table at {sink.path}/shop" in str(sink.check("shop.orders"))


def test_folders_around_existing_tables_are_probed_once(sink: Sink) -> None:
    for name in ("shop.orders", "shop.lines"):
        sink.create(name)
        assert sink.check(name) is None
    probed = len(sink.probed)
    for name in ("shop.orders", "shop.lines"):
        assert sink.check(name) is None
    assert len(sink.probed) == probed == len(set(sink.probed))


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """Error of the JVM without a JVM."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def test_folders_without_permission_have_no_table(sink: Sink) -> None:
    def make_folders(text: str) -> TableFolders:
        def fail(spark: Any, path: str) -> bool:
            raise JavaError(text)

        return TableFolders("kit", fail, fail, "", "")

    sink.create("orders")
    sink.folders = make_folders("java.nio.file.AccessDeniedException: s3a://lake: getFileStatus: Forbidden")
    assert sink.check("orders") is None
    sink.folders = make_folders("java.net.SocketTimeoutException: timeout")
    with pytest.raises(JavaError):
        sink.check("orders")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3a://lake/shop/orders", ["s3a://lake/shop", "s3a://lake"]),
        ("s3a://lake/orders", ["s3a://lake"]),
        ("file:/data/lake/orders", ["file:/data/lake", "file:/data"]),
        ("hdfs://host:8020/lake/orders", ["hdfs://host:8020/lake", "hdfs://host:8020"]),
    ],
)
def test_folders_around_a_folder(path: str, expected: Sequence[str]) -> None:
    assert list(nested_tables._list_ancestors(path)) == expected
