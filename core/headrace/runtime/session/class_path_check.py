"""Check of the jars and the Java of a running session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import ConfigError
from headrace.runtime.jars.jar_choice import choose_jars, parse_version
from headrace.sdk.plugin import Plugin
from headrace.spark.sessions import find_java_release, has_class, list_class_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The oldest Java that runs the current jars of table formats.
_OLDEST_JAVA = 17
#: The versions of Scala and Spark in the name of an artifact.
_SCALA, _SPARK = re.compile(r"_(\d+\.\d+)(?=-|$)"), re.compile(r"[-_]?(\d+\.\d+)")


def check_java(spark: SparkSession, plugins: Iterable[Plugin]) -> None:
    """Raise ConfigError for a session whose Java is too old to load a class of a plugin that its class path has."""
    release = find_java_release(spark)
    if release >= _OLDEST_JAVA:
        return
    classes = {plugin.jvm_class: plugin.name for plugin in plugins if plugin.jvm_class}
    for jvm_class, name in classes.items():
        if has_class(spark, jvm_class) or not (files := list_class_files(spark, jvm_class)):
            continue
        raise ConfigError(
            f"the session runs on Java {release}, which cannot load {files[0]}: {name!r} requires Java {_OLDEST_JAVA}",
            where="the session of the caller",
            fix=f"set JAVA_HOME to a Java {_OLDEST_JAVA} before Spark starts; on a cluster, also for its executors",
        )


def check_class_path(spark: SparkSession, plugins: Iterable[Plugin]) -> None:
    """Raise ConfigError for a class of a plugin that two different jars have, or a jar for another Spark or Scala."""
    for plugin in plugins:
        if plugin.jvm_class and (coordinates := choose_jars(plugin, spark.version)):
            check_files(plugin.name, coordinates, list_class_files(spark, plugin.jvm_class), spark.version)


def check_files(name: str, coordinates: Sequence[str], files: Sequence[str], version: str) -> None:
    """Raise ConfigError for jars that conflict. ``files``: those with the class of the plugin ``name``."""
    groups = [coordinate.split(":")[0] for coordinate in coordinates]
    jars = {_strip_group(file.rpartition("/")[2], groups): file for file in files if file.endswith(".jar")}
    if len(jars) > 1:
        raise ConfigError(
            f"the class path has {len(jars)} different jars of {name!r}, and Java uses the first one: {', '.join(jars.values())}",
            where="the class path of Spark",
            fix="remove all but one: from `spark.jars`, `spark.jars.packages`, `spark.driver.extraClassPath`, or the folder "
            "`jars` of Spark",
        )
    for coordinate in coordinates:
        artifact = coordinate.split(":")[1]
        wanted = _JarTarget.parse(artifact, line=parse_version(version).line)
        for jar, file in jars.items():
            if wanted is not None and wanted.conflicts_with(_JarTarget.parse(jar, line=wanted.line)):
                raise ConfigError(
                    f"{jar} is a jar for another Spark or Scala: on Spark {version}, {name!r} requires {artifact}",
                    where=file,
                    fix=f"replace it with {coordinate}",
                )


def _strip_group(jar: str, groups: Iterable[str]) -> str:
    """Return the name of a jar in a Maven repository. Spark prefixes jars of ``--packages`` with their group and ``_``."""
    return next((jar.removeprefix(f"{group}_") for group in groups if jar.startswith(f"{group}_")), jar)


@dataclass(frozen=True)
class _JarTarget:
    """Versions of Spark and Scala in a name: ``lake-spark``, ``3.5`` and ``2.12`` in ``lake-spark-3.5_2.12-1.0.jar``."""

    project: str
    line: str
    scala: str

    @classmethod
    def parse(cls, name: str, *, line: str) -> _JarTarget | None:
        """Parse the name of an artifact or a jar; None without a version of Scala. ``line``: that of a name without a version of Spark."""
        found = _SCALA.search(name)
        if found is None:
            return None
        project = name[: found.start()]
        spark = _SPARK.search(project)
        return cls(_SPARK.sub("", project), spark[1] if spark else line, found[1])

    def conflicts_with(self, other: _JarTarget | None) -> bool:
        """Return whether the other jar is the same project for another Spark or Scala."""
        return other is not None and other.project == self.project and other != self
