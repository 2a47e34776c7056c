"""Spark's JVM, started so that no command line has a setting and nobody else may read what it writes."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.runtime.ivy import spark_home
from headrace.sdk.secrets import Secret, has_secret_name

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SUBMIT_ARGS, FILE_OPTION = "PYSPARK_SUBMIT_ARGS", "--properties-file"
#: Of files and folders that the JVM makes, nothing is for others.
UMASK = 0o077


def start_jvm(conf: Mapping[str, str]) -> None:
    """Starts this process's JVM with ``conf``, unless there is one.

    Every user of the machine can read command lines, so the settings are in files, which are gone when it runs.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # noqa: SLF001 - PySpark has no public way to start the JVM alone
        return
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder, _submit_args(Path(folder), conf):
        gateway = launch_gateway(popen_kwargs={"umask": UMASK})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001


def spark_conf_home() -> Path:
    """The folder of Spark's own configuration files."""
    return Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")


def read_spark_default(key: str) -> str | None:
    """What Spark's own file of settings says of a key."""
    file = spark_conf_home() / "spark-defaults.conf"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found = re.search(rf"^[ \t]*{re.escape(key)}[ \t=:]+(.*?)[ \t]*$", text, re.MULTILINE)
    return re.sub(r"\\(.)", r"\1", found[1]) if found else None


def write_properties(file: Path, conf: Mapping[str, str], base: Path | None = None) -> None:
    """Settings as a file of Java properties that only this user may read; what they do not say is as in ``base``."""
    said = base.read_bytes() if base and base.is_file() else b""
    lines = [f"{_escape(key)}={_escape(value)}\n" for key, value in conf.items()]
    write_private(file, said + b"\n\n" + "".join(lines).encode("utf-8", "surrogateescape"))


def write_private(file: Path, content: bytes) -> None:
    """Creates a file that only this user may read."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)


@contextmanager
def _submit_args(folder: Path, conf: Mapping[str, str]) -> Iterator[None]:
    """PySpark's arguments for ``spark-submit``, with a file in ``folder`` that has the settings."""
    before = os.environ.get(SUBMIT_ARGS)
    arguments, base = shlex.split(before or "pyspark-shell"), spark_conf_home() / "spark-defaults.conf"
    if FILE_OPTION in arguments:  # of two, Spark reads the last alone
        at = arguments.index(FILE_OPTION)
        base = Path(arguments[at + 1])
        del arguments[at : at + 2]
    file = folder / "spark.properties"
    write_properties(file, {**conf, **_hide_java_options(folder, conf.get(JAVA_OPTIONS, ""))}, base)
    os.environ[SUBMIT_ARGS] = shlex.join([FILE_OPTION, str(file), *arguments])
    try:
        yield
    finally:
        if before is None:
            del os.environ[SUBMIT_ARGS]
        else:
            os.environ[SUBMIT_ARGS] = before


def _hide_java_options(folder: Path, options: str) -> dict[str, str]:
    """Java options with a secret, which Spark would put into the command line, as a file that Java reads them from."""
    if not isinstance(options, Secret) and not has_secret_name(options):
        return {}
    file = folder / "java.options"
    quoted = ['"' + re.sub(r'(["\\])', r"\\\1", option) + '"\n' for option in shlex.split(options)]
    write_private(file, "".join(quoted).encode("utf-8", "surrogateescape"))
    return {JAVA_OPTIONS: f'"@{file}"'}


def _escape(text: str) -> str:
    """A key or a value as Java's Properties read it."""
    codes = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}
    return re.sub(r"[\\\s=:#!]", lambda match: codes.get(match[0], "\\" + match[0]), text)
