"""Versions of Spark that headrace and its plugins support."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from headrace.errors import ConfigError
from headrace.runtime.jars.ivy import find_spark_core
from headrace.runtime.jars.jar_choice import SparkVersion, choose_key, find_nearest, parse_version
from headrace.sdk.plugin import Plugin

#: Lines on which every release is tested. The first one is the default of a fix.
TESTED_LINES = ("3.5", "4.1")
#: Lines that had a release when this headrace was made.
KNOWN_LINES = ("3.5", "4.0", "4.1", "4.2", "4.3")
#: The oldest tested patch, and the oldest line whose sessions have the methods that headrace calls.
_OLDEST_TESTED, _OLDEST_LINE = SparkVersion(3, 5, 5), SparkVersion(3, 5, 0)
#: Settings with jars of the user.
_OWN_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


def spark_version() -> str:
    """Return the version of Spark that this process starts: of SPARK_HOME, or of the installed PySpark.

    ConfigError if PySpark is not installed, or is of another line than SPARK_HOME.
    """
    try:
        import pyspark
    except ModuleNotFoundError:
        raise ConfigError("PySpark is not installed", fix="pip install 'headrace[spark]'") from None
    core = find_spark_core()
    if core is None:
        return str(pyspark.__version__)
    line = parse_version(core.version).line
    if line != parse_version(pyspark.__version__).line:
        raise ConfigError(
            f"PySpark is {pyspark.__version__}, and the Spark that it starts is {core.version}",
            where=f"SPARK_HOME={os.environ.get('SPARK_HOME', core.jar.parent.parent)}",
            fix=f"unset SPARK_HOME, or pip install 'pyspark=={line}.*'",
        )
    return core.version


def spark_line(version: str) -> str:
    """Return the minor version of Spark: ``3.5`` for ``3.5.7``."""
    return parse_version(version).line


def check_supported(
    plugins: Iterable[Plugin], version: str, *, has_own_jars: Callable[[Plugin], bool] = lambda plugin: False
) -> None:
    """Raise ConfigError for a version of Spark that headrace or a plugin does not support, or for which a plugin has no jars.

    ``has_own_jars``: whether the user provides the jars of a plugin.
    """
    if parse_version(version) < _OLDEST_LINE:
        raise ConfigError(f"Spark {version} is too old: headrace requires Spark 3.5 or newer", fix=_name_fix())
    line = spark_line(version)
    for plugin in plugins:
        if reason := plugin.refuses.get(line):
            raise ConfigError(
                f"{plugin.name!r} does not work on Spark {line}: {reason}",
                fix="install a version of PySpark that it supports"
                if TESTED_LINES[0] in plugin.refuses
                else _name_fix(),
            )
        if plugin.jars and choose_key(plugin.jars, version) is None and not has_own_jars(plugin):
            raise _no_jars_error(plugin, line)


def list_lines(plugin: type[Plugin]) -> list[str]:
    """Return the known lines of Spark that a plugin supports."""
    return [
        line
        for line in KNOWN_LINES
        if line not in plugin.refuses and (not plugin.jars or choose_key(plugin.jars, line) is not None)
    ]


def check_scala(coordinates: Iterable[str]) -> None:
    """Raise ConfigError for jars that are compiled for another Scala than Spark."""
    core = find_spark_core()
    for coordinate in coordinates:
        artifact = coordinate.split(":")[1]
        _, mark, scala = artifact.rpartition("_2.")
        if core and mark and f"2.{scala}" != core.scala:
            raise ConfigError(
                f"this Spark is built with Scala {core.scala}, and {artifact} is for Scala 2.{scala}",
                where=str(core.jar),
                fix=f"install Spark's build with Scala 2.{scala}, for example pip install 'pyspark=={spark_line(core.version)}.*'",
            )


def find_version_warnings(plugins: Iterable[Plugin], version: str) -> Iterator[str]:
    """Yield warnings about an untested version of Spark, about its known errors, and about jars of another line."""
    plugins, running = list(plugins), parse_version(version)
    lines = " and ".join(TESTED_LINES)
    if running.line not in TESTED_LINES:
        yield f"headrace is not tested on Spark {version}; it is tested on Spark {lines}"
    elif running < _OLDEST_TESTED:
        yield f"headrace is not tested on Spark {version}; the oldest tested patch is {_OLDEST_TESTED}"
    for plugin in plugins:
        if caution := plugin.cautions.get(running.line):
            yield f"{plugin.name}: {caution}"
        if plugin.jars and choose_key(plugin.jars, version) is None:
            yield f"{plugin.name}: it declares no jars for Spark {running.line}; your own jars are not tested with it"
    for patch, names in find_nearest(plugins, version).items():
        if spark_line(patch) != running.line:
            yield f"{', '.join(names)}: the jars are those of Spark {patch}, and Spark {version} may not work with them"


def describe_nearest(plugins: Iterable[Plugin | type[Plugin]], version: str) -> list[str]:
    """Return a line for each patch whose jars are used because the running patch has none."""
    return [
        f"Spark {version}: {', '.join(names)} with the jars of Spark {patch}, the nearest patch"
        for patch, names in find_nearest(plugins, version).items()
    ]


def has_jars_of_user(conf: Mapping[str, str]) -> bool:
    """Return whether settings have jars of the user."""
    return any(conf.get(key) for key in _OWN_JARS)


def _no_jars_error(plugin: Plugin, line: str) -> ConfigError:
    known = ", ".join(dict.fromkeys(spark_line(key) for key in plugin.jars))
    return ConfigError(
        f"{plugin.name!r} has no jars for Spark {line}: it has jars for Spark {known}",
        fix=f"{_name_fix(*plugin.jars)}, or set `spark.jars.packages` or `spark.jars` under `spark:` to its jars for Spark {line}",
    )


def _name_fix(*keys: str) -> str:
    """Return the command that installs the newest tested line of these keys of ``Plugin.jars``, or the first tested one."""
    lines = [line for line in TESTED_LINES if line in map(spark_line, keys)]
    return f"pip install 'pyspark=={lines[-1] if lines else TESTED_LINES[0]}.*'"
