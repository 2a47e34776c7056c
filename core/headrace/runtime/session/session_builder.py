"""A Spark session with the jars and settings that plugins need."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import ConfigError
from headrace.runtime.jars.jar_locks import read_locks
from headrace.runtime.jars.resolution import cache_home, resolve_jars
from headrace.runtime.java.installation import Java, find_java, use_java
from headrace.runtime.java.jvm import JAVA_OPTIONS, read_spark_default, spark_conf_home, start_jvm
from headrace.runtime.java.trust_store import trust_options, write_trust_store
from headrace.runtime.reporter import LineReporter, Reporter
from headrace.sdk.file_system import FileSystem
from headrace.sdk.plugin import Plugin
from headrace.secret_values import SECRET_KEYS, Secret, propagate_secret
from headrace.spark.jvm_cache import cache_jvm_lookups
from headrace.spark.sessions import HUGE_METHODS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = "spark.sql.extensions"
EXECUTOR_JAVA_OPTIONS = "spark.executor.extraJavaOptions"
#: Which settings Spark's log, UI and event log do not show: those whose key or value this finds.
REDACTION = "spark.redaction.regex"
#: Whether Spark logs an event that a listener took long for: that of a job with all settings it was given, secrets too.
SLOW_EVENTS = "spark.scheduler.listenerbus.logSlowEvent"
#: Tables that are written side by side have equal turns (``spark.job_tags``), and what Spark remembers of jobs that are done does
#: not grow with the batches: it keeps a thousand of them otherwise, with their plans.
_MANY_TABLES = {
    "spark.scheduler.mode": "FAIR",
    **dict.fromkeys(("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.sql.ui.retainedExecutions"), "20"),
    "spark.ui.retainedTasks": "2000",
}
#: Where tasks run in the driver itself, who has said nothing for so long is not lost: the machine slept. After two minutes Spark
#: would take its only executor for lost, and end once sixty heartbeats have failed.
_NO_HEARTBEATS = {"spark.storage.blockManagerHeartbeatTimeoutMs": "3650d"}
#: Settings that are lists, and what is between their items.
_SEPARATORS = {EXTENSIONS: ",", JAVA_OPTIONS: " ", EXECUTOR_JAVA_OPTIONS: " "}


def spark_version() -> str:
    """The installed PySpark's version. ConfigError when there is none."""
    try:
        import pyspark
    except ModuleNotFoundError:
        raise ConfigError("PySpark is not installed", fix="pip install 'headrace[spark]'") from None
    return str(pyspark.__version__)


def spark_line(version: str) -> str:
    """``3.5`` of ``3.5.7``: the line by which plugins name their jars."""
    return ".".join(version.split(".")[:2])


def with_parts(plugins: Iterable[Plugin]) -> list[Plugin]:
    """Plugins and those within them, each once."""
    return list(dict.fromkeys(one for plugin in plugins for one in (plugin, *with_parts(plugin.parts()))))


def list_coordinates(plugins: Iterable[Plugin], line: str) -> list[str]:
    """The Maven coordinates that plugins need on a Spark line, each once."""
    return list(dict.fromkeys(c for plugin in plugins for c in plugin.jars.get(line, ())))


def check_supported(plugins: Iterable[Plugin], line: str) -> None:
    """ConfigError when a plugin cannot work on a Spark line."""
    for plugin in plugins:
        if line in plugin.refuses:
            raise ConfigError(
                f"{plugin.name!r} does not work on Spark {line}: {plugin.refuses[line]}",
                fix="pip install 'pyspark==3.5.7'",
            )


def merge_session_conf(plugins: Iterable[Plugin]) -> dict[str, str]:
    """The settings that plugins need a session to be built with. Extensions and Java options are joined.

    ConfigError when two plugins need different values of a setting that is no list.
    """
    conf: dict[str, str] = {}
    for plugin in plugins:
        for key, value in plugin.session_conf().items():
            if key in _SEPARATORS and key in conf:
                separator = _SEPARATORS[key]
                joined = separator.join(dict.fromkeys([*conf[key].split(separator), *value.split(separator)]))
                conf[key] = propagate_secret(joined, conf[key], value)
                continue
            if conf.get(key, value) != value:
                raise ConfigError(
                    f"two plugins want different values of {key}: {conf[key]!r} and {value!r}",
                    fix=f"set {key} yourself under `spark:`",
                )
            conf[key] = value
    return conf


def list_defaults(plugins: Iterable[Plugin], line: str, said: Callable[[str], str | None]) -> dict[str, str]:
    """What file systems ask of Hadoop, where nobody has said it. ``said``: a key's value elsewhere."""
    systems = (plugin for plugin in plugins if isinstance(plugin, FileSystem))
    options = {f"spark.hadoop.{key}": value for one in systems for key, value in one.hadoop_options(line).items()}
    return {key: value for key, value in options.items() if said(key) is None}


def class_path(jars: Sequence[str], *, listed: str, is_local: bool) -> dict[str, str]:
    """The settings that bring jars to the JVMs. ``listed``: what ``spark.jars`` names already, with commas between."""
    if not jars:
        return {"spark.jars": listed} if listed else {}
    paths = [*(listed.split(",") if listed else ()), *jars]
    if is_local:
        # The driver is the only JVM: on its class path the jars need not be copied for executors.
        return {"spark.driver.extraClassPath": os.pathsep.join(paths)}
    return {"spark.jars": ",".join(paths)}


def complete_session_conf(plugins: Sequence[Plugin], conf: Mapping[str, str], jars: Sequence[str]) -> dict[str, str]:
    """All settings of a new session; ``conf`` (the pipeline's ``spark:``) wins over what plugins ask."""
    plugin_conf = merge_session_conf(plugins)
    # Of two that contradict each other, Java takes the later.
    options = {
        key: [option for option in (plugin_conf.get(key), conf.get(key)) if option]
        for key in (JAVA_OPTIONS, EXECUTOR_JAVA_OPTIONS)
    }
    driver, executors = (" ".join(parts) for parts in options.values())
    merged = {
        "spark.master": os.environ.get("MASTER", "local[*]"),
        SLOW_EVENTS: "false",
        **{key: value for key, value in _MANY_TABLES.items() if read_spark_default(key) is None},
        **list_defaults(plugins, spark_line(spark_version()), read_spark_default),
        **plugin_conf,
        **conf,
        JAVA_OPTIONS: propagate_secret(_driver_java_options(driver), *options[JAVA_OPTIONS]),
        EXECUTOR_JAVA_OPTIONS: propagate_secret(with_huge_methods(executors), *options[EXECUTOR_JAVA_OPTIONS]),
    }
    merged[REDACTION] = redaction_regex(plugins, merged)
    master = merged["spark.master"]
    # A local-cluster has executors that are processes of their own.
    is_local = re.match(r"local(\[|$)", master) is not None
    if master.startswith("local"):
        merged = {**_local_defaults(), **(_NO_HEARTBEATS if is_local else {}), **merged}
    listed = merged.pop("spark.jars", "")
    return {**merged, **class_path(jars, listed=listed, is_local=is_local)}


def with_trust_store(conf: Mapping[str, str], java: Java) -> dict[str, str]:
    """The settings of a new session, in which a Java that brings its own list of certificates trusts those of this machine."""
    options = conf[JAVA_OPTIONS]
    given = f"{options} {os.environ.get('JAVA_TOOL_OPTIONS', '')} {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
    if not java.is_bundled or "javax.net.ssl.trustStore" in given:
        return dict(conf)
    store = write_trust_store(cache_home() / "trusted.jks")
    return {**conf, JAVA_OPTIONS: propagate_secret(f"{options} {trust_options(store)}", options)}


def redaction_regex(plugins: Iterable[Plugin], conf: Mapping[str, str]) -> str:
    """What finds every key that has a secret: in settings, in the options of plugins, in Java's own properties."""
    secrets = {key: value for key, value in conf.items() if isinstance(value, Secret)}
    keys = secrets.keys() | {key for plugin in plugins for key, _ in plugin.config.secrets()}
    keys |= {key.removeprefix("spark.hadoop.") for key in secrets}  # as Hadoop calls them
    for options in (secrets.get(JAVA_OPTIONS), secrets.get(EXECUTOR_JAVA_OPTIONS)):
        keys |= set(re.findall(r"-D([^\s=]+)=", options or ""))
    known = conf.get(REDACTION) or read_spark_default(REDACTION) or f"(?i:{SECRET_KEYS})"
    return f"{known}|(?i:^({'|'.join(map(re.escape, sorted(keys)))})$)" if keys else known


def build_session(plugins: Sequence[Plugin], conf: Mapping[str, str], reporter: Reporter | None = None) -> SparkSession:
    """A new session for these plugins; ``conf`` (the pipeline's ``spark:``) wins over what they ask.

    Everything that can be wrong without a JVM is looked at before one is started.
    """
    reporter, plugins = reporter or LineReporter(), with_parts(plugins)
    version = spark_version()
    line = spark_line(version)
    check_supported(plugins, line)
    java = find_java(version)
    use_java(java)
    reporter.report(f"Java {java.version} in {java.home} ({java.origin})")
    jars = resolve_jars(
        list_coordinates(plugins, line),
        spark_version=version,
        conf=conf,
        locks=read_locks(plugins),
        report=reporter.report,
    )
    if jars:
        reporter.report(f"{len(jars):,} jar{'s' * (len(jars) != 1)} in {cache_home()}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    settings = with_trust_store(complete_session_conf(plugins, conf, [str(jar) for jar in jars]), java)
    reporter.step(f"starting Spark {version}")
    try:
        start_jvm(settings)
        builder = SparkSession.builder.appName("headrace")
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except Exception as error:
        raise ConfigError(
            f"Spark does not start: {error}", fix="look at the lines above; check JAVA_HOME and what `spark:` sets"
        ) from error
    cache_jvm_lookups(session)
    return session


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


def _driver_java_options(options: str) -> str:
    """The options of plugins and the pipeline, with a collector and a log4j2 file where they name none.

    The parallel collector does a batch's work with less CPU than G1, and pauses matter less to a batch. The log file
    counts from the JVM's first line on; one in Spark's conf folder comes first.
    """
    parts = [options] if options else []
    if "-XX:+Use" not in options:
        parts.append("-XX:+UseParallelGC")
    if "log4j" not in options and not any(spark_conf_home().glob("log4j2.*")):
        file = Path(__file__).with_name("log4j2.properties")
        parts.append(f'"-Dlog4j2.configurationFile={file.as_uri()}"')
    return with_huge_methods(" ".join(parts))


def with_huge_methods(options: str) -> str:
    """Java options with which a plan of many columns, which Spark makes one large method of, is compiled too."""
    return options if "DontCompileHugeMethods" in options else f"{options} {HUGE_METHODS}".strip()
