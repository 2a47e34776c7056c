"""Committed jars of the servers."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from tests.support.tiers import nightly_after

from headrace.errors import ConfigError
from headrace_stack.iceberg_rest import rest_catalog
from headrace_stack.java_jar import JavaJar, read_digest
from headrace_stack.msk import broker

JARS = {"iam": broker.JAR, "catalog": rest_catalog.JAR}
each_jar = pytest.mark.parametrize("jar", JARS.values(), ids=JARS)


def class_files(jar: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(jar) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}


@each_jar
def test_jar_was_built_from_the_sources(jar: JavaJar) -> None:
    assert read_digest(jar.path) == jar.digest_sources(), "run `python -m headrace_stack compile`"


@each_jar
def test_class_files_run_on_java_17(jar: JavaJar) -> None:
    classes = class_files(jar.path)
    assert {source.stem for source in jar.sources} <= {Path(name).stem for name in classes}
    assert {int.from_bytes(content[6:8]) for content in classes.values()} == {61}


@each_jar
def test_entries_have_no_build_time(jar: JavaJar) -> None:
    with zipfile.ZipFile(jar.path) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_missing_jdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="javac is not on the PATH"):
        broker.JAR.compile(tmp_path / "iam.jar")


@pytest.mark.parametrize("jar", nightly_after(1, JARS.values()), ids=JARS)
@pytest.mark.dist
@pytest.mark.one_spark
@pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK")
def test_build_is_reproducible(jar: JavaJar, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jar", tmp_path / "second.jar"
    jar.compile(first)
    jar.compile(second)
    assert first.read_bytes() == second.read_bytes()
    assert class_files(first).keys() == class_files(jar.path).keys()
    assert read_digest(first) == jar.digest_sources()
