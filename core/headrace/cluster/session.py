"""Session of a program that spark-submit started, with its JVM, master and jars."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import ConfigError, PluginError
from headrace.runtime.java.jvm import JAVA_OPTIONS
from headrace.runtime.reporter import LineReporter, Reporter
from headrace.runtime.session.session_builder import (
    EXECUTOR_JAVA_OPTIONS,
    EXTENSIONS,
    REDACTION,
    SLOW_EVENTS,
    list_defaults,
    merge_session_conf,
    redaction_regex,
    with_huge_methods,
    with_parts,
)
from headrace.runtime.session.session_check import check_session, find_missing
from headrace.runtime.session.spark_support import check_supported, spark_line, spark_version
from headrace.sdk.plugin import Plugin
from headrace.secret_values import propagate_secret
from headrace.spark.sessions import has_class
from headrace.spark.tuning import tune_py4j

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings of spark-submit, which a program would set too late.
SUBMITTERS = ("spark.master", "spark.submit.deployMode", "spark.jars", JAVA_OPTIONS)


def is_submitted() -> bool:
    """Return whether spark-submit started this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def build_submitted_session(
    plugins: Sequence[Plugin], conf: Mapping[str, str], reporter: Reporter | None = None
) -> SparkSession:
    """Return the program's session with the requirements of these plugins. PluginError if it lacks some of their jars."""
    reporter, plugins = reporter or LineReporter(), with_parts(plugins)
    version = spark_version()
    check_supported(plugins, version, has_own_jars=lambda plugin: True)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    reporter.step(f"starting Spark {version}")
    try:
        SparkContext._ensure_initialized()  # noqa: SLF001 - PySpark reads the submitted settings from its JVM
        builder = SparkSession.builder
        for key, value in complete_submitted_conf(plugins, conf, dict(SparkConf().getAll())).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except Exception as error:
        raise ConfigError(f"Spark does not start: {error}", fix="check the lines above and the cluster") from error
    if missing := find_missing(plugins, version, partial(has_class, session)):
        raise PluginError(
            f"spark-submit was started without the jars of {', '.join(missing)}",
            fix="`headrace package FILE` creates a folder with all of them, and the command",
        )
    check_session(session, plugins)
    tune_py4j(session)
    return session


def complete_submitted_conf(
    plugins: Sequence[Plugin], conf: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings that the program adds: those of plugins, overridden by ``conf``, the pipeline's ``spark:``.

    ``given``: the settings of spark-submit and of the cluster. Its extensions and its executors' Java options are kept.
    """
    defaults = {
        SLOW_EVENTS: given.get(SLOW_EVENTS, "false"),
        **list_defaults(plugins, spark_line(spark_version()), given.get),
    }
    asked = {**defaults, **merge_session_conf(plugins)}
    options = [part for part in (one.get(EXECUTOR_JAVA_OPTIONS) for one in (given, asked, conf)) if part]
    merged = {**asked, **conf, EXECUTOR_JAVA_OPTIONS: propagate_secret(with_huge_methods(" ".join(options)), *options)}
    if EXTENSIONS in given:
        names = [*given[EXTENSIONS].split(","), *merged.get(EXTENSIONS, "").split(",")]
        merged[EXTENSIONS] = ",".join(dict.fromkeys(filter(None, names)))
    merged[REDACTION] = redaction_regex(plugins, {**given, **merged})
    return {key: value for key, value in merged.items() if key not in SUBMITTERS}
