"""Committed jar with the broker's IAM classes."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace_stack.msk import iam_jar


def class_files(jar: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(jar) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}


def test_jar_was_built_from_the_sources() -> None:
    assert iam_jar.read_digest() == iam_jar.digest_sources(), "run `python -m headrace_stack compile`"


def test_class_files_run_on_java_17() -> None:
    classes = class_files(iam_jar.JAR)
    assert {f"headrace/msk/{source.stem}.class" for source in iam_jar.SOURCES} <= classes.keys()
    assert {int.from_bytes(content[6:8]) for content in classes.values()} == {61}


def test_entries_have_no_build_time() -> None:
    with zipfile.ZipFile(iam_jar.JAR) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_missing_jdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="javac is not on the PATH"):
        iam_jar.compile_jar(tmp_path / "iam.jar")


@pytest.mark.dist
@pytest.mark.one_spark
@pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK")
def test_build_is_reproducible(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jar", tmp_path / "second.jar"
    iam_jar.compile_jar(first)
    iam_jar.compile_jar(second)
    assert first.read_bytes() == second.read_bytes()
    assert class_files(first).keys() == class_files(iam_jar.JAR).keys()
    assert iam_jar.read_digest(first) == iam_jar.digest_sources()
