"""Sessions: one that fits a pipeline, and whether one that somebody else built does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import ConfigError, PluginError
from headrace.runtime.ivy import spark_home
from headrace.runtime.jars import resolve_jars
from headrace.runtime.java import find_java, use_java
from headrace.sdk.plugin import Plugin
from headrace.spark.sessions import HUGE_METHODS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = "spark.sql.extensions"
_JAVA_OPTIONS, _EXECUTORS_JAVA_OPTIONS = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
#: Settings that are lists, and what is between their items.
_LISTS = {EXTENSIONS: ",", _JAVA_OPTIONS: " ", _EXECUTORS_JAVA_OPTIONS: " "}


def spark_version() -> str:
    """The installed PySpark's version. ConfigError when there is none."""
    try:
        import pyspark
    except ModuleNotFoundError:
        raise ConfigError("PySpark is not installed", fix="pip install 'headrace[spark]'") from None
    return str(pyspark.__version__)


def line_of(version: str) -> str:
    """``3.5`` of ``3.5.7``: the line by which plugins name their jars."""
    return ".".join(version.split(".")[:2])


def coordinates(plugins: Iterable[Plugin], line: str) -> list[str]:
    """The Maven coordinates that plugins need on a Spark line, each once."""
    return list(dict.fromkeys(c for plugin in plugins for c in plugin.jars.get(line, ())))


def refuse(plugins: Iterable[Plugin], line: str) -> None:
    """ConfigError when a plugin cannot work on a Spark line."""
    for plugin in plugins:
        if line in plugin.refuses:
            raise ConfigError(
                f"{plugin.name!r} does not work on Spark {line}: {plugin.refuses[line]}",
                fix="pip install 'pyspark==3.5.7'",
            )


def settings(plugins: Iterable[Plugin]) -> dict[str, str]:
    """What the plugins need a session to be built with; extensions and Java options are joined."""
    conf: dict[str, str] = {}
    for plugin in plugins:
        for key, value in plugin.session_conf().items():
            if key in _LISTS and key in conf:
                between = _LISTS[key]
                conf[key] = between.join(dict.fromkeys([*conf[key].split(between), *value.split(between)]))
                continue
            if conf.get(key, value) != value:
                raise ConfigError(
                    f"two plugins want different values of {key}: {conf[key]!r} and {value!r}",
                    fix=f"set {key} yourself under `spark:`",
                )
            conf[key] = value
    return conf


def build(
    plugins: list[Plugin], conf: Mapping[str, str], say: Callable[[str], None] = lambda text: None
) -> SparkSession:
    """A new session for these plugins; ``conf`` (the pipeline's ``spark:``) wins over what they ask."""
    version = spark_version()
    refuse(plugins, line_of(version))
    use_java(find_java(version))
    jars = resolve_jars(coordinates(plugins, line_of(version)), spark_version=version, say=say, conf=conf)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    asked = settings(plugins)
    # Of two that contradict each other, Java takes the later.
    java, executors = (
        " ".join(filter(None, [asked.get(key), conf.get(key)])) for key in (_JAVA_OPTIONS, _EXECUTORS_JAVA_OPTIONS)
    )
    merged = {
        "spark.master": os.environ.get("MASTER", "local[*]"),
        **asked,
        **conf,
        _JAVA_OPTIONS: _java_options(java),
        _EXECUTORS_JAVA_OPTIONS: _with_huge_methods(executors),
    }
    if merged["spark.master"].startswith("local"):
        merged = {**_local_defaults(), **merged}
    if jars:
        own = merged.get("spark.jars", "")
        merged["spark.jars"] = ",".join([*([own] if own else []), *map(str, jars)])
        if merged["spark.master"].startswith("local"):
            # The driver is the only JVM: on its class path the jars need not be copied for executors.
            merged["spark.driver.extraClassPath"] = os.pathsep.join(
                [*own.split(","), *map(str, jars)] if own else map(str, jars)
            )
            merged.pop("spark.jars")
    builder = SparkSession.builder.appName("headrace")
    for key, value in merged.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise ConfigError(
            f"Spark does not start: {error}", fix="look at the lines above; check JAVA_HOME and what `spark:` sets"
        ) from error
    return spark


def _local_defaults() -> dict[str, str]:
    """For one machine; a cluster brings its own."""
    cores = os.cpu_count() or 2
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(2 * cores),
        # Of what Java compiled, Spark keeps a hundred: a few tables' plans, and then each batch compiles all of them again.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }


def _java_options(said: str) -> str:
    """What plugins and the pipeline say, with a collector and a log4j2 file where they say none.

    The parallel collector does a batch's work with less CPU than G1, and pauses matter less to a batch. The log file
    counts from the JVM's first line on; one in Spark's conf folder comes first.
    """
    options = [said] if said else []
    if "-XX:+Use" not in said:
        options.append("-XX:+UseParallelGC")
    folder = Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")
    if "log4j" not in said and not any(folder.glob("log4j2.*")):
        file = Path(__file__).with_name("log4j2.properties")
        options.append(f'"-Dlog4j2.configurationFile={file.as_uri()}"')
    return _with_huge_methods(" ".join(options))


def _with_huge_methods(options: str) -> str:
    """Java options with which a plan of many columns, which Spark makes one large method of, is compiled too."""
    return options if "DontCompileHugeMethods" in options else f"{options} {HUGE_METHODS}".strip()


def fits(spark: SparkSession, plugins: list[Plugin]) -> None:
    """PluginError with the lines to add, when a session that somebody else built lacks something."""
    line = line_of(spark.version)
    refuse(plugins, line)
    lines: list[str] = []
    missing = [p for p in plugins if p.jvm_class and p.jars.get(line) and not _has_class(spark, p.jvm_class)]
    if missing:
        lines.append(f'.config("spark.jars.packages", "{",".join(coordinates(missing, line))}")')
    for key, value in settings(plugins).items():
        if key in (_JAVA_OPTIONS, _EXECUTORS_JAVA_OPTIONS):
            continue  # guards: without them the pipeline is as right
        have = spark.conf.get(key, None) or spark.sparkContext.getConf().get(key, None)
        if key == EXTENSIONS:
            lacking = [name for name in value.split(",") if name not in (have or "").split(",")]
            if lacking:
                lines.append(f'.config("{key}", "{",".join([*(have.split(",") if have else []), *lacking])}")')
        elif have is None or (have != value and not key.startswith("spark.sql.catalog.")):
            lines.append(f'.config("{key}", "{value}")')
    if lines:
        raise PluginError(
            "this Spark session lacks what the pipeline needs",
            where="the session that was given",
            fix="build it with these lines, or let headrace.session(pipeline) build it:\n    SparkSession.builder\n      "
            + "\n      ".join(lines),
        )


def _has_class(spark: SparkSession, name: str) -> bool:
    jvm = spark._jvm  # noqa: SLF001 - the only way to ask the JVM
    assert jvm is not None
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Exception:  # noqa: BLE001 - py4j wraps ClassNotFoundException
        return False
    return True
