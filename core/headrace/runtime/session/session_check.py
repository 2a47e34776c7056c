"""Check of a Spark session that the caller built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import ConfigError, PluginError
from headrace.runtime.jars.artifacts import is_single_jar, path_of, repository
from headrace.runtime.jars.jar_choice import choose_jars, list_coordinates
from headrace.runtime.java.jvm import JAVA_OPTIONS
from headrace.runtime.session.class_path_check import check_class_path, check_java
from headrace.runtime.session.session_builder import EXECUTOR_JAVA_OPTIONS, EXTENSIONS, merge_session_conf
from headrace.runtime.session.spark_support import check_supported
from headrace.sdk.plugin import Plugin
from headrace.secret_values import show_value
from headrace.spark.sessions import has_class, is_stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_is_session(spark: object) -> None:
    """Raise ConfigError for an argument that is not a running Spark session, or is one of Spark Connect."""
    from pyspark.sql import SparkSession

    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise ConfigError(
            "it is a session of Spark Connect, which has no access to the JVM of Spark. headrace needs it for streams, the checkpoint "
            "and the tables of its sinks",
            where="spark",
            fix="pass a classic session, for example SparkSession.builder.master(…).getOrCreate() without SPARK_REMOTE; or submit the "
            "pipeline to the cluster with `headrace package`",
        )
    if not isinstance(spark, SparkSession):
        raise ConfigError(
            f"must be of type SparkSession, and is of type {type(spark).__name__}",
            where="spark",
            fix="pass a session, or None",
        )
    if is_stopped(spark):
        raise ConfigError("the session was stopped", where="spark", fix="create a new session")


def check_session(spark: SparkSession, plugins: Sequence[Plugin]) -> None:
    """Raise PluginError with the missing builder lines if the session lacks jars or settings of the plugins."""
    check_java(spark, plugins)
    check_class_path(spark, plugins)
    check_supported(
        plugins, spark.version, has_own_jars=lambda plugin: not plugin.jvm_class or has_class(spark, plugin.jvm_class)
    )
    context_conf = spark.sparkContext.getConf()
    lines = [
        *list_missing_jars(plugins, spark.version, partial(has_class, spark)),
        *list_missing_conf(plugins, lambda key: spark.conf.get(key, None) or context_conf.get(key, None)),
    ]
    if lines:
        raise PluginError(
            "this Spark session lacks jars or settings that the pipeline requires",
            where="the session of the caller",
            fix="add these lines to its builder, or build it with headrace.session(pipeline):\n    SparkSession.builder\n      "
            + "\n      ".join(lines),
        )


def find_exposures(spark: SparkSession) -> list[str]:
    """Return warnings about a cluster on which other users of the network can read what Spark's processes exchange."""
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return []
    conf = context.getConf()

    def is_on(*keys: str) -> bool:
        return any((conf.get(key) or "").lower() == "true" for key in keys)

    warnings = []
    if not is_on("spark.authenticate"):
        warnings.append(
            "the processes of Spark accept connections without authentication: any user who reaches their ports can read the "
            "rows, the salts of masks and the credentials of file systems. Set `spark.authenticate: true` under `spark:`"
        )
    if not is_on("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption", "spark.ssl.rpc.enabled"):
        warnings.append(
            "the processes of Spark exchange rows and secrets unencrypted. Set `spark.network.crypto.enabled: true` under "
            "`spark:`, if the network between them is not private"
        )
    if not is_on("spark.io.encryption.enabled"):
        warnings.append(
            "Spark writes shuffle files and spilled rows unencrypted. Set `spark.io.encryption.enabled: true` under `spark:`, "
            "if other users can read the disks of the workers"
        )
    return warnings


def find_missing(plugins: Sequence[Plugin], version: str, has_class: Callable[[str], bool]) -> list[str]:
    """Return the coordinates of plugins whose classes cannot be loaded."""
    missing = [p for p in plugins if p.jvm_class and choose_jars(p, version) and not has_class(p.jvm_class)]
    return list_coordinates(missing, version)


def list_missing_jars(plugins: Sequence[Plugin], version: str, has_class: Callable[[str], bool]) -> list[str]:
    """Return the builder lines for the jars of plugins whose classes cannot be loaded."""
    wanted = find_missing(plugins, version, has_class)
    names = {
        "spark.jars.packages": [name for name in wanted if not is_single_jar(name)],
        # `spark.jars.packages` does not support single jars.
        "spark.jars": [f"{repository()}/{path_of(name)}" for name in wanted if is_single_jar(name)],
    }
    return [f'.config("{key}", "{",".join(values)}")' for key, values in names.items() if values]


def list_missing_conf(plugins: Sequence[Plugin], setting: Callable[[str], str | None]) -> list[str]:
    """Return the builder lines for missing settings of plugins. ``setting`` returns a key's value in the session."""
    lines = []
    for key, needed in merge_session_conf(plugins).items():
        if key in (JAVA_OPTIONS, EXECUTOR_JAVA_OPTIONS):
            continue  # not required: the pipeline is correct without them
        value = setting(key)
        if key == EXTENSIONS:
            present = value.split(",") if value else []
            missing = [name for name in needed.split(",") if name not in present]
            if missing:
                lines.append(f'.config("{key}", "{",".join([*present, *missing])}")')
        elif value is None or (value != needed and not key.startswith("spark.sql.catalog.")):
            lines.append(f'.config("{key}", "{show_value(key, needed)}")')
    return lines
