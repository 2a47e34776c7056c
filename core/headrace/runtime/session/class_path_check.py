"""Check of the jars and the Java of a running session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.errors import ConfigError
from headrace.runtime.jars.jar_choice import choose_jars
from headrace.sdk.plugin import Plugin
from headrace.spark.sessions import find_java_release, has_class, list_class_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The oldest Java that runs the current jars of table formats.
_OLDEST_JAVA = 17


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
    jars = {file.rpartition("/")[2]: file for file in files if file.endswith(".jar")}
    if len(jars) > 1:
        raise ConfigError(
            f"the class path has {len(jars)} different jars of {name!r}, and Java uses the first one: {', '.join(jars.values())}",
            where="the class path of Spark",
            fix="remove all but one: from `spark.jars`, `spark.jars.packages`, `spark.driver.extraClassPath`, or the folder "
            "`jars` of Spark",
        )
    for wanted in (coordinate.split(":")[1] for coordinate in coordinates):
        for jar, file in jars.items():
            if _name_project(jar) == _name_project(wanted) and not jar.startswith(f"{wanted}-"):
                raise ConfigError(
                    f"{jar} is a jar for another Spark or Scala: on Spark {version}, {name!r} requires {wanted}",
                    where=file,
                    fix=f"replace it with {next(c for c in coordinates if c.split(':')[1] == wanted)}",
                )


def _name_project(artifact: str) -> str:
    """Return the part of an artifact's name in front of the versions of Spark, Scala and itself: ``lake-spark`` for ``lake-spark-3.5_2.12``."""
    return re.split(r"[-_]?\d+\.\d", artifact, maxsplit=1)[0]
