"""Versions of Spark: errors and warnings."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from headrace.errors import ConfigError
from headrace.runtime.session.spark_support import (
    check_scala,
    check_supported,
    describe_nearest,
    find_version_warnings,
    has_jars_of_user,
    list_lines,
    spark_version,
)
from headrace.sdk.plugin import Plugin


class Lake(Plugin):
    """Plugin with one jar per line, and an error on one of them."""

    name = "lake"
    jars: ClassVar = {"3.5": ("org.lake:lake_2.12:1",), "4.0": ("org.lake:lake_2.13:1",)}
    cautions: ClassVar = {"4.0": "it runs out of memory"}


class Stream(Plugin):
    """Plugin whose jar is released with Spark."""

    name = "stream"
    jars: ClassVar = {patch: (f"org.spark:stream:{patch}",) for patch in ("3.5.7", "4.1.1")}


class Pond(Plugin):
    """Plugin that does not work on a line."""

    name = "pond"
    refuses: ClassVar = {"4.0": "there is no build for it"}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a Spark's jars; PySpark is 3.5.7."""
    pyspark = ModuleType("pyspark")
    pyspark.__version__ = "3.5.7"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", pyspark)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    jars = tmp_path / "jars"
    jars.mkdir()
    return jars


def test_version_is_that_of_spark_home(install: Path) -> None:
    assert spark_version() == "3.5.7"  # a Spark without the jar of its core
    core = install / "spark-core_2.12-3.5.4-amzn-0.jar"
    core.touch()
    assert spark_version() == "3.5.4-amzn-0"
    core.rename(install / "spark-core_2.13-4.0.2-emr-7.9.jar")
    with pytest.raises(ConfigError) as caught:
        spark_version()
    assert str(caught.value) == (
        f"SPARK_HOME={install.parent}: PySpark is 3.5.7, and the Spark that it starts is 4.0.2-emr-7.9\n"
        "  fix: unset SPARK_HOME, or pip install 'pyspark==4.0.*'"
    )


def test_jars_for_another_scala_are_rejected(install: Path) -> None:
    (install / "spark-core_2.13-3.5.7.jar").touch()
    check_scala(["org.lake:lake_2.13:1", "org.lake:lake:1", "org.lake:lake_2:1"])
    with pytest.raises(ConfigError) as caught:
        check_scala(["org.lake:lake:1", "org.lake:lake_2.12:1"])
    assert str(caught.value) == (
        f"{install / 'spark-core_2.13-3.5.7.jar'}: this Spark is built with Scala 2.13, and lake_2.12 is for Scala 2.12\n"
        "  fix: install Spark's build with Scala 2.12, for example pip install 'pyspark==3.5.*'"
    )


def test_old_spark_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"Spark 3\.4\.1-amzn-2 is too old: headrace requires Spark 3\.5 or newer"):
        check_supported([], "3.4.1-amzn-2")
    check_supported([Lake(), Stream()], "3.5.0")


def test_line_that_a_plugin_refuses_is_rejected() -> None:
    check_supported([Pond()], "4.1.0")
    with pytest.raises(ConfigError, match=r"'pond' does not work on Spark 4\.0: there is no build for it\n.*3\.5"):
        check_supported([Pond()], "4.0.1")


def test_plugin_without_jars_for_a_line_needs_those_of_the_user() -> None:
    with pytest.raises(ConfigError) as caught:
        check_supported([Stream(), Lake()], "4.2.0")
    assert str(caught.value) == (
        "'lake' has no jars for Spark 4.2: it has jars for Spark 3.5, 4.0\n"
        "  fix: pip install 'pyspark==3.5.*', or set `spark.jars.packages` or `spark.jars` under `spark:` to its jars for Spark 4.2"
    )
    check_supported([Lake()], "4.2.0", has_own_jars=lambda plugin: has_jars_of_user({"spark.jars": "/lake.jar"}))
    assert not has_jars_of_user({"spark.jars": "", "spark.master": "local"})


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.5.9", []),
        ("4.1.4-vendor", ["lake: it declares no jars for Spark 4.1; your own jars are not tested with it"]),
        (
            "3.5.4-amzn-0",
            ["headrace is not tested on Spark 3.5.4-amzn-0; the oldest tested patch is 3.5.5"],
        ),
        (
            "4.0.5",
            [
                "headrace is not tested on Spark 4.0.5; it is tested on Spark 3.5 and 4.1",
                "lake: it runs out of memory",
            ],
        ),
        (
            "4.7.0",
            [
                "headrace is not tested on Spark 4.7.0; it is tested on Spark 3.5 and 4.1",
                "lake: it declares no jars for Spark 4.7; your own jars are not tested with it",
                "stream: the jars are those of Spark 4.1.1, and Spark 4.7.0 may not work with them",
            ],
        ),
    ],
)
def test_untested_versions_have_warnings(version: str, expected: list[str]) -> None:
    plugins = [Lake(), Pond()] if version == "4.0.5" else [Lake(), Stream()]
    assert list(find_version_warnings(plugins, version)) == expected


def test_nearest_jars_are_reported() -> None:
    assert describe_nearest([Lake(), Stream()], "3.5.9") == [
        "Spark 3.5.9: stream with the jars of Spark 3.5.7, the nearest patch"
    ]
    assert describe_nearest([Lake(), Stream()], "3.5.7") == []


def test_known_lines_of_plugins() -> None:
    assert [list_lines(plugin) for plugin in (Lake, Stream, Pond)] == [
        ["3.5", "4.0"],
        ["3.5", "4.1", "4.2", "4.3"],
        ["3.5", "4.1", "4.2", "4.3"],
    ]
