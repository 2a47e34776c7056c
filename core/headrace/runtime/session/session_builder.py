"""Builder of a Spark session with the jars and settings of the plugins."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import ConfigError, HeadraceError
from headrace.registry.plugin_errors import as_plugin_error
from headrace.runtime.jars.ivy import spark_conf_home
from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.jars.jar_locks import read_locks
from headrace.runtime.jars.resolution import SETTINGS as IVY_SETTINGS, cache_home, resolve_jars
from headrace.runtime.java.installation import Java, find_java, use_java
from headrace.runtime.java.jvm import JAVA_OPTIONS, SUBMIT_ARGS, read_spark_default, start_jvm
from headrace.runtime.java.trust_store import trust_options, write_trust_store
from headrace.runtime.reporter import LineReporter, Reporter
from headrace.runtime.session.class_path_check import check_class_path
from headrace.runtime.session.spark_support import (
    check_scala,
    check_supported,
    describe_nearest,
    has_jars_of_user,
    spark_line,
    spark_version,
)
from headrace.sdk.file_system import FileSystem
from headrace.sdk.plugin import Plugin
from headrace.secret_values import SECRET_KEYS, Secret, propagate_secret
from headrace.spark.sessions import HUGE_METHODS
from headrace.spark.tuning import tune_py4j

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = "spark.sql.extensions"
EXECUTOR_JAVA_OPTIONS = "spark.executor.extraJavaOptions"
#: Spark redacts settings whose key or value matches this expression in its log, UI and event log.
REDACTION = "spark.redaction.regex"
#: Whether Spark logs events that a listener handles slowly. Such a line contains all settings of a job, including secrets.
SLOW_EVENTS = "spark.scheduler.listenerbus.logSlowEvent"
#: Tables that are written concurrently share the executors equally (``spark.job_tags``). The history of finished jobs stays small:
#: by default Spark keeps a thousand of them with their plans.
_MANY_TABLES = {
    "spark.scheduler.mode": "FAIR",
    **dict.fromkeys(("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.sql.ui.retainedExecutions"), "20"),
    "spark.ui.retainedTasks": "2000",
}
#: If tasks run in the driver, a missing heartbeat means that the machine was suspended. By default Spark removes its only executor
#: after two minutes and exits after sixty failed heartbeats. A task that runs out of memory or stack fails alone: by default Spark
#: ends the JVM, which is the driver.
_TASKS_IN_DRIVER = {
    "spark.storage.blockManagerHeartbeatTimeoutMs": "3650d",
    "spark.executor.killOnFatalError.depth": "0",
}
#: The jars that Spark itself resolves at the start.
PACKAGES = "spark.jars.packages"
#: Settings that are lists, and their separators.
_SEPARATORS = {EXTENSIONS: ",", JAVA_OPTIONS: " ", EXECUTOR_JAVA_OPTIONS: " "}


def with_parts(plugins: Iterable[Plugin]) -> list[Plugin]:
    """Return plugins and the plugins they contain, without duplicates."""
    found: dict[Plugin, None] = {}
    for plugin in plugins:
        with as_plugin_error(f"{plugin.name!r} fails to return its parts", HeadraceError):
            parts = list(plugin.parts())
        found |= dict.fromkeys((plugin, *with_parts(parts)))
    return list(found)


def merge_session_conf(plugins: Iterable[Plugin]) -> dict[str, str]:
    """Return the settings that plugins require of a new session. Extensions and Java options are joined.

    ConfigError if two plugins require different values of any other setting.
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
                    f"two plugins require different values of {key}: {conf[key]!r} and {value!r}",
                    fix=f"set {key} under `spark:`",
                )
            conf[key] = value
    return conf


def list_defaults(plugins: Iterable[Plugin], line: str, configured: Callable[[str], str | None]) -> dict[str, str]:
    """Return the Hadoop options of file systems that are not configured. ``configured`` returns a key's value elsewhere."""
    systems = (plugin for plugin in plugins if isinstance(plugin, FileSystem))
    options = {f"spark.hadoop.{key}": value for system in systems for key, value in system.hadoop_options(line).items()}
    return {key: value for key, value in options.items() if configured(key) is None}


def class_path(jars: Sequence[str], *, listed: str, is_local: bool) -> dict[str, str]:
    """Return the settings that add jars to the JVMs. ``listed`` is the current, comma-separated value of ``spark.jars``."""
    if not jars:
        return {"spark.jars": listed} if listed else {}
    paths = [*(listed.split(",") if listed else ()), *jars]
    if is_local:
        # The driver is the only JVM. On its class path, the jars are not copied for executors.
        return {"spark.driver.extraClassPath": os.pathsep.join(paths)}
    return {"spark.jars": ",".join(paths)}


def complete_session_conf(plugins: Sequence[Plugin], conf: Mapping[str, str], jars: Sequence[str]) -> dict[str, str]:
    """Return all settings of a new session. ``conf`` (the pipeline's ``spark:``) overrides the settings of plugins."""
    plugin_conf = merge_session_conf(plugins)
    # If two options conflict, Java uses the later one.
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
    if not _has_packages(
        merged
    ):  # Spark prints the repositories, which may have a login, although it does not use them
        merged = {key: value for key, value in merged.items() if key not in IVY_SETTINGS}
    merged[REDACTION] = redaction_regex(plugins, merged)
    master = merged["spark.master"]
    # The executors of a local-cluster are separate processes.
    is_local = re.match(r"local(\[|$)", master) is not None
    if master.startswith("local"):
        merged = {
            **_local_defaults(),
            **_authentication(is_local=is_local),
            **(_TASKS_IN_DRIVER if is_local else {}),
            **merged,
        }
    listed = merged.pop("spark.jars", "")
    return {**merged, **class_path(jars, listed=listed, is_local=is_local)}


def _has_packages(conf: Mapping[str, str]) -> bool:
    """Return whether Spark resolves jars at the start, in addition to those of the plugins."""
    return bool(conf.get(PACKAGES) or read_spark_default(PACKAGES) or "--packages" in os.environ.get(SUBMIT_ARGS, ""))


def with_trust_store(conf: Mapping[str, str], java: Java) -> dict[str, str]:
    """Return the settings with a trust store of this machine's certificates, if the Java trusts only its own."""
    options = conf[JAVA_OPTIONS]
    configured = f"{options} {os.environ.get('JAVA_TOOL_OPTIONS', '')} {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
    if not java.is_bundled or "javax.net.ssl.trustStore" in configured:
        return dict(conf)
    store = write_trust_store(cache_home() / "trusted.jks")
    return {**conf, JAVA_OPTIONS: propagate_secret(f"{options} {trust_options(store)}", options)}


def redaction_regex(plugins: Iterable[Plugin], conf: Mapping[str, str]) -> str:
    """Return an expression that matches each key with a secret in settings, plugin options and Java properties."""
    hidden = {key: value for key, value in conf.items() if isinstance(value, Secret)}
    keys = hidden.keys() | {key for plugin in plugins for key, _ in plugin.config.secrets()}
    keys |= {key.removeprefix("spark.hadoop.") for key in hidden}  # Hadoop's names
    for options in (hidden.get(JAVA_OPTIONS), hidden.get(EXECUTOR_JAVA_OPTIONS)):
        keys |= set(re.findall(r"-D([^\s=]+)=", options or ""))
    known = conf.get(REDACTION) or read_spark_default(REDACTION) or f"(?i:{SECRET_KEYS})"
    return f"{known}|(?i:^({'|'.join(map(re.escape, sorted(keys)))})$)" if keys else known


def build_session(plugins: Sequence[Plugin], conf: Mapping[str, str], reporter: Reporter | None = None) -> SparkSession:
    """Build a session for plugins. ``conf`` (the pipeline's ``spark:``) overrides their settings.

    All checks that need no JVM run before it starts.
    """
    reporter, plugins = reporter or LineReporter(), with_parts(plugins)
    version = spark_version()
    check_supported(plugins, version, has_own_jars=lambda plugin: has_jars_of_user(conf))
    java = find_java(version)
    use_java(java)
    reporter.report(f"Java {java.version} in {java.home} ({java.origin})")
    for line in describe_nearest(plugins, version):
        reporter.report(line)
    coordinates = list_coordinates(plugins, version)
    check_scala(coordinates)
    jars = resolve_jars(
        coordinates,
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
            f"Spark failed to start: {error}",
            fix="read the lines above; check JAVA_HOME and the settings under `spark:`",
        ) from error
    tune_py4j(session)
    check_class_path(session, plugins)
    return session


def _authentication(*, is_local: bool) -> dict[str, str]:
    """Return settings with which Spark's ports, which serve broadcasts and blocks, reject other users of the machine."""
    # If tasks run in the driver, Spark itself creates a secret in memory.
    secret = {} if is_local else {"spark.authenticate.secret": Secret(secrets.token_hex(32))}
    return {"spark.authenticate": "true", **secret}


def _local_defaults() -> dict[str, str]:
    """Return the defaults for a single machine."""
    cores = os.cpu_count() or 2
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(2 * cores),
        # By default Spark caches 100 compiled classes, which is the plans of a few tables; every batch then compiles all of them again.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }


def _driver_java_options(options: str) -> str:
    """Return the options with a garbage collector and a log4j2 file, unless they name their own.

    The parallel collector needs less CPU than G1 for a batch, and its pauses matter less. The log file applies from
    the JVM's first line; a file in Spark's conf folder takes precedence.
    """
    parts = [options] if options else []
    if "-XX:+Use" not in options:
        parts.append("-XX:+UseParallelGC")
    if "log4j" not in options and not any(spark_conf_home().glob("log4j2.*")):
        file = Path(__file__).with_name("log4j2.properties")
        parts.append(f'"-Dlog4j2.configurationFile={file.as_uri()}"')
    return with_huge_methods(" ".join(parts))


def with_huge_methods(options: str) -> str:
    """Return Java options with which large methods are compiled too; Spark generates one for a plan of many columns."""
    return options if "DontCompileHugeMethods" in options else f"{options} {HUGE_METHODS}".strip()
