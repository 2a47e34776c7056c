"""Whether a Spark session that somebody else built has what plugins need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import PluginError
from headrace.runtime.jars.artifacts import is_single_jar, path_of, repository
from headrace.runtime.java.jvm import JAVA_OPTIONS
from headrace.runtime.session.session_builder import (
    EXECUTOR_JAVA_OPTIONS,
    EXTENSIONS,
    check_supported,
    list_coordinates,
    merge_session_conf,
    spark_line,
)
from headrace.sdk.plugin import Plugin
from headrace.secret_values import show_value
from headrace.spark.sessions import has_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_session(spark: SparkSession, plugins: Sequence[Plugin]) -> None:
    """PluginError with the lines to add, when the session lacks something."""
    line = spark_line(spark.version)
    check_supported(plugins, line)
    context_conf = spark.sparkContext.getConf()
    lines = [
        *list_missing_jars(plugins, line, partial(has_class, spark)),
        *list_missing_conf(plugins, lambda key: spark.conf.get(key, None) or context_conf.get(key, None)),
    ]
    if lines:
        raise PluginError(
            "this Spark session lacks what the pipeline needs",
            where="the session that was given",
            fix="build it with these lines, or let headrace.session(pipeline) build it:\n    SparkSession.builder\n      "
            + "\n      ".join(lines),
        )


def find_missing(plugins: Sequence[Plugin], line: str, has_class: Callable[[str], bool]) -> list[str]:
    """The coordinates of the plugins whose classes cannot be loaded."""
    missing = [p for p in plugins if p.jvm_class and p.jars.get(line) and not has_class(p.jvm_class)]
    return list_coordinates(missing, line)


def list_missing_jars(plugins: Sequence[Plugin], line: str, has_class: Callable[[str], bool]) -> list[str]:
    """The lines of a builder that name the jars of plugins whose classes cannot be loaded; none when all can be."""
    wanted = find_missing(plugins, line, has_class)
    names = {
        "spark.jars.packages": [name for name in wanted if not is_single_jar(name)],
        # `packages` knows no jar that is alone.
        "spark.jars": [f"{repository()}/{path_of(name)}" for name in wanted if is_single_jar(name)],
    }
    return [f'.config("{key}", "{",".join(values)}")' for key, values in names.items() if values]


def list_missing_conf(plugins: Sequence[Plugin], setting: Callable[[str], str | None]) -> list[str]:
    """The lines of a builder for the settings that plugins need. ``setting``: a key's value in the session."""
    lines = []
    for key, needed in merge_session_conf(plugins).items():
        if key in (JAVA_OPTIONS, EXECUTOR_JAVA_OPTIONS):
            continue  # guards: without them the pipeline is as right
        value = setting(key)
        if key == EXTENSIONS:
            present = value.split(",") if value else []
            missing = [name for name in needed.split(",") if name not in present]
            if missing:
                lines.append(f'.config("{key}", "{",".join([*present, *missing])}")')
        elif value is None or (value != needed and not key.startswith("spark.sql.catalog.")):
            lines.append(f'.config("{key}", "{show_value(key, needed)}")')
    return lines
