"""Checks of the machine: Spark, Java, jars, memory, and installed plugins."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.cluster.session import is_submitted
from headrace.doctor import finding_kinds as kinds
from headrace.doctor.examination import Check, Passed, Result, Skipped
from headrace.errors import ConfigError
from headrace.findings import Finding
from headrace.registry.plugin_errors import describe_error
from headrace.registry.plugin_registry import registry
from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.jars.jar_locks import read_locks
from headrace.runtime.jars.resolution import cache_home, find_cached_jars, resolve_jars
from headrace.runtime.java.installation import find_java
from headrace.runtime.java.jvm import read_spark_default
from headrace.runtime.session.session_builder import with_parts
from headrace.runtime.session.spark_support import (
    check_supported,
    find_version_warnings,
    has_jars_of_user,
    spark_version,
)

if TYPE_CHECKING:
    from headrace.engine.plan.pipeline_plan import Plan

_DRIVER_MEMORY = "spark.driver.memory"
#: Value of a local run without the setting.
_DEFAULT_MEMORY = "2g"
#: Share of the driver's memory that Java needs besides the heap.
_OVERHEAD = 1.1
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
#: Limits of a container, of both versions of Linux's control groups.
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def list_machine_checks(plan: Plan | None) -> Iterator[Check]:
    """Yield the checks of the machine; of a pipeline that cannot be built, those that need no plan."""
    yield Check("PySpark", _check_versions, kinds.SPARK_UNUSABLE)
    yield Check("Java", _check_java, kinds.JAVA_MISSING)
    yield Check("plugins", _check_plugins, kinds.PLUGIN_BROKEN)
    if plan is not None:
        yield Check("Spark", lambda: _check_spark(plan), kinds.SPARK_UNSUPPORTED)
        yield Check("jars", lambda: _check_jars(plan), kinds.JAR_INVALID)
        yield Check("memory", lambda: _check_memory(plan), kinds.OPTION_REJECTED)


def _check_versions() -> Iterator[Result]:
    yield Passed("headrace", __version__)
    yield Passed("Python", f"{platform.python_version()} in {sys.prefix}")
    yield Passed("PySpark", spark_version())


def _check_java() -> Iterator[Result]:
    try:
        version = spark_version()
    except ConfigError:
        yield Skipped("Java", "the version of Spark is unknown")
        return
    java = find_java(version)
    yield Passed("Java", f"{java.version} in {java.home} ({java.origin})")
    if (home := os.environ.get("JAVA_HOME")) and java.origin != "JAVA_HOME":
        what = f"JAVA_HOME has no Java for Spark {version}: Java {java.version} in {java.home} ({java.origin}) is used"
        yield Finding(kinds.JAVA_IGNORED, what, f"JAVA_HOME={home}", "unset JAVA_HOME, or set it to that Java")


def _check_plugins() -> Iterator[Result]:
    for broken in registry().broken:
        what = f"{broken.distribution} cannot be loaded: {describe_error(broken.error)}"
        yield Finding(kinds.PLUGIN_BROKEN, what, f"distribution {broken.distribution}", "reinstall it, or uninstall it")
    count = sum(1 for _ in registry().registrations())
    yield Passed("plugins", f"{count} registered")


def _check_spark(plan: Plan) -> Iterator[Result]:
    try:
        version = spark_version()
    except ConfigError:  # reported as such
        yield Skipped("plugins on Spark", "the version of Spark is unknown")
        return
    plugins = with_parts(plan.all_plugins)
    check_supported(plugins, version, has_own_jars=lambda plugin: has_jars_of_user(plan.spark_conf))
    for text in find_version_warnings(plugins, version):
        yield Finding(
            kinds.SPARK_UNTESTED,
            text,
            f"Spark {version}",
            "test the pipeline before you rely on it, or use a tested version",
        )


def _check_jars(plan: Plan) -> Iterator[Result]:
    try:
        version = spark_version()
    except ConfigError:
        yield Skipped("jars", "the version of Spark is unknown")
        return
    plugins = with_parts(plan.all_plugins)
    coordinates, locks = list_coordinates(plugins, version), read_locks(plugins)
    cached = find_cached_jars(coordinates, spark_version=version, conf=plan.spark_conf, locks=locks)
    if cached is None:
        fix = "headrace jars FILE --download"
        yield Finding(kinds.JARS_MISSING, "jars of the pipeline are not on this machine", str(cache_home()), fix)
        return
    # Nothing is missing, so this only compares the digests.
    jars = resolve_jars(coordinates, spark_version=version, conf=plan.spark_conf, locks=locks)
    yield Passed("jars", f"{len(jars)} in {cache_home()}")


def _check_memory(plan: Plan) -> Iterator[Result]:
    if is_submitted():
        yield Skipped("memory", "spark-submit has started the driver")
        return
    written = read_setting(plan, _DRIVER_MEMORY) or _DEFAULT_MEMORY
    wanted = int(_parse_size(written) * _OVERHEAD)
    total, free = read_memory()
    where, fix = f"{_DRIVER_MEMORY}: {written}", f"lower `{_DRIVER_MEMORY}` under `spark:`, or use a larger machine"
    if total is not None and wanted > total:
        what = f"the driver needs {format_size(wanted)}, and the machine or container has {format_size(total)}"
        yield Finding(kinds.MEMORY_EXCEEDED, what, where, fix)
    elif free is not None and wanted > free:
        what = f"the driver may need {format_size(wanted)}, and {format_size(free)} are free now"
        yield Finding(kinds.MEMORY_LOW, what, where, f"end other programs, or {fix}")
    else:
        yield Passed("memory", f"{written} for the driver" + ("" if free is None else f", {format_size(free)} free"))


def read_setting(plan: Plan, key: str) -> str | None:
    """Return a setting of a pipeline, or of Spark's configuration."""
    if value := plan.spark_conf.get(key):
        return value
    with suppress(ConfigError):  # PySpark is not installed
        return read_spark_default(key)
    return None


def _parse_size(text: str) -> int:
    """Return the bytes of a size as Spark writes it: ``2g``, ``512m``; without a unit, mebibytes."""
    match = re.fullmatch(r"(\d+)\s*([bkmgt]?)b?", text.strip().lower())
    if not match:
        raise ConfigError(f"{text!r} is not a size", where=_DRIVER_MEMORY, fix="write it like 2g")
    return int(match[1]) * _UNITS[match[2] or "m"]


def read_memory() -> tuple[int | None, int | None]:
    """Return the bytes of memory of the machine or container, and those that are free; None if they are unknown."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None, None
    sizes = {name: int(value) << 10 for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable")
    limits = [limit for name in _CONTAINER_LIMITS if (limit := _read_number(Path(name)))]
    return min([size for size in (total, *limits) if size], default=None), free


def _read_number(file: Path) -> int | None:
    try:
        text = file.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def format_size(size: int) -> str:
    """Return a size as ``1.5 GB``."""
    return f"{size / 1e9:.1f} GB"
