"""Start of Spark's JVM with settings in private files, not on the command line."""

from __future__ import annotations

import atexit
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.runtime.jars.ivy import spark_conf_home, spark_home
from headrace.runtime.jars.resolution import cache_home
from headrace.runtime.java.class_archive import (
    archive_options,
    delete_archives,
    find_archive,
    list_archives,
    makes_archive,
)
from headrace.runtime.java.private_files import FILE_OPTION, PrivateFiles, to_properties
from headrace.secret_values import Secret, has_secret_name

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
#: Environment variable with the address on which Spark's UI listens.
LOCAL_IP = "SPARK_LOCAL_IP"
#: Environment variable with the folder for class archives, or ``off``. The default is in headrace's cache.
CLASS_ARCHIVES = "HEADRACE_CLASS_ARCHIVES"
#: Files and folders that the JVM creates are private to this user.
UMASK = 0o077
#: Whether a JVM that this thread starts may write an archive when it exits.
_may_write_archive = ContextVar("may_write_archive", default=True)


@contextmanager
def without_new_archive() -> Iterator[None]:
    """Start JVMs of short commands: they use an archive, but theirs would lack the classes of a batch."""
    token = _may_write_archive.set(False)
    try:
        yield
    finally:
        _may_write_archive.reset(token)


def start_jvm(conf: Mapping[str, str]) -> None:
    """Start this process's JVM with ``conf``, unless it is running already.

    Every user of the machine can read command lines, so the settings are passed in files.
    """
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError

    if SparkContext._gateway is not None:  # noqa: SLF001 - no public API starts only the JVM
        return
    archive = _list_archive_options(conf)
    try:
        gateway = _launch(conf, archive)
    except PySparkRuntimeError:
        if not (files := list_archives(archive)):
            raise
        # Java crashes on a damaged archive.
        _launch(conf, [])
        delete_archives(files)
        return
    if makes_archive(archive):
        atexit.register(_close_streams, gateway)


def _launch(conf: Mapping[str, str], archive: Sequence[str]) -> JavaGateway:
    """Start the JVM. ``archive``: its options about archives of classes. PySparkRuntimeError if it exits."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    options = " ".join([conf.get(JAVA_OPTIONS, ""), *(f'"{option}"' for option in archive)])
    started = {**conf, JAVA_OPTIONS: options} if archive else conf
    with PrivateFiles() as files, _submit_args(files, started), _local_address(conf):
        popen = {"umask": UMASK, "pass_fds": files.descriptors}
        gateway: JavaGateway = launch_gateway(popen_kwargs=popen)  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
    return gateway


def list_class_path(conf: Mapping[str, str]) -> list[Path]:
    """Return the existing entries of the class path that ``spark-submit`` gives to a driver."""
    first = [Path(path) for path in conf.get("spark.driver.extraClassPath", "").split(os.pathsep) if path]
    settings = [spark_conf_home()] if spark_conf_home().exists() else []
    others = map(os.environ.get, ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"))
    return [*first, *settings, *sorted((spark_home() / "jars").glob("*.jar")), *map(Path, filter(None, others))]


def read_spark_default(key: str) -> str | None:
    """Return the value of a key in ``spark-defaults.conf``."""
    file = spark_conf_home() / "spark-defaults.conf"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found = re.search(rf"^[ \t]*{re.escape(key)}[ \t=:]+(.*?)[ \t]*$", text, re.MULTILINE)
    return re.sub(r"\\(.)", r"\1", found[1]) if found else None


@contextmanager
def _submit_args(files: PrivateFiles, conf: Mapping[str, str]) -> Iterator[None]:
    """Set PySpark's arguments for ``spark-submit``, including a properties file with the settings."""
    before = os.environ.get(SUBMIT_ARGS)
    arguments, base = shlex.split(before or "pyspark-shell"), spark_conf_home() / "spark-defaults.conf"
    if FILE_OPTION in arguments:  # Spark reads only the last one
        at = arguments.index(FILE_OPTION)
        base = Path(arguments[at + 1])
        del arguments[at : at + 2]
    file = files.add(to_properties({**conf, **_hide_java_options(files, conf.get(JAVA_OPTIONS, ""))}, base))
    os.environ[SUBMIT_ARGS] = shlex.join([FILE_OPTION, file, *arguments])
    try:
        yield
    finally:
        if before is None:
            del os.environ[SUBMIT_ARGS]
        else:
            os.environ[SUBMIT_ARGS] = before


@contextmanager
def _local_address(conf: Mapping[str, str]) -> Iterator[None]:
    """Make a local session's UI listen on the address of the driver. Spark has no setting for the address of the UI."""
    address = conf.get("spark.driver.bindAddress")
    if not conf.get("spark.master", "").startswith("local") or not address or LOCAL_IP in os.environ:
        yield
        return
    os.environ[LOCAL_IP] = address
    try:
        yield
    finally:
        del os.environ[LOCAL_IP]


def _list_archive_options(conf: Mapping[str, str]) -> list[str]:
    """Return Java options that use or create an archive of the driver's classes, unless CLASS_ARCHIVES is ``off``."""
    folder, options = os.environ.get(CLASS_ARCHIVES) or str(cache_home() / "classes"), conf.get(JAVA_OPTIONS, "")
    if folder == "off" or _has_secret(options):  # checking the options puts them on a command line
        return []
    memory = [f"-Xmx{size}" for size in [conf.get("spark.driver.memory")] if size]
    configured = [*shlex.split(os.environ.get("SPARK_SUBMIT_OPTS", "")), *memory, *shlex.split(options)]
    home = Path(os.environ["JAVA_HOME"])  # used by ``spark-submit``
    find = archive_options if _may_write_archive.get() else find_archive
    return find(home, list_class_path(conf), configured, Path(folder).expanduser().absolute())


def _close_streams(gateway: JavaGateway) -> None:
    """Close the output of a JVM that writes an archive when it exits, so that nobody waits for the end of a pipe."""
    with suppress(Exception):  # Java may have ended
        gateway.jvm.System.out.close()
        gateway.jvm.System.err.close()


def _has_secret(options: str) -> bool:
    return isinstance(options, Secret) or has_secret_name(options)


def _hide_java_options(files: PrivateFiles, options: str) -> dict[str, str]:
    """Return Java options that contain a secret as an argument file, because Spark puts them on the command line."""
    if not _has_secret(options):
        return {}
    quoted = ['"' + re.sub(r'(["\\])', r"\\\1", option) + '"\n' for option in shlex.split(options)]
    return {JAVA_OPTIONS: f'"@{files.add("".join(quoted).encode("utf-8", "surrogateescape"))}"'}
