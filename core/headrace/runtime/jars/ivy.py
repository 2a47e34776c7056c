"""Resolution of Maven coordinates with Spark's Ivy, by a ``spark-submit`` of an empty program."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr
from zipfile import is_zipfile

from headrace.errors import ConfigError, HeadraceError, RetriableError
from headrace.runtime.jars.artifacts import Artifact, hold_lock, untrusted_certificate_error
from headrace.runtime.java.installation import find_java
from headrace.runtime.java.private_files import FILE_OPTION, PrivateFiles, to_properties
from headrace.runtime.java.trust_store import trust_options, write_trust_store
from headrace.secret_values import hide_credentials

#: Every Spark includes its own versions of these. Fetching them again costs 50 MB, and a second slf4j in front of
#: Spark's turns off the log.
SHIPPED = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime", "org.slf4j:slf4j-api")

#: Addresses of repositories, which may have a login.
REPOSITORIES = "spark.jars.repositories"

NO_NETWORK = (
    "check the network; behind a proxy set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT', for a "
    "mirror set DEFAULT_ARTIFACT_REPOSITORY or spark.jars.ivySettings; without a network run `headrace jars --download` "
    "on another machine and copy its cache folder here (HEADRACE_CACHE)"
)

# Spark's default settings have no timeout and hang on an unresponsive network. They query a second repository without
# success for each module. They trust ~/.m2, where a .pom without its .jar fails the whole resolution.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers><ibiblio name="maven" m2compatible="true" timeoutConstraint="patient"{root}/></resolvers>
</ivysettings>
"""


def fetch(
    coordinates: Sequence[str],
    folder: Path,
    *,
    spark_version: str,
    conf: Mapping[str, str],
    report: Callable[[str], None],
    lock: int,
) -> list[Path]:
    """Fetch the jars of ``coordinates`` and their dependencies into ``folder``/jars.

    ``lock`` is the descriptor of a file lock against other processes. Ivy inherits it, in case it outlives this process.
    """
    started = time.monotonic()
    # A process that was killed while copying leaves a partial jar, which Ivy treats as newer.
    _drop_broken((folder / "jars").glob("*.jar"))

    report(
        f"looking up {', '.join(name.split(':', 1)[-1].replace(':', ' ') for name in coordinates)} and their dependencies"
    )
    environment = _environment(folder, spark_version)
    with PrivateFiles() as files:
        command = _command(coordinates, folder, conf, files)
        descriptors = [lock, *files.descriptors]
        output, code = _run(command, environment, descriptors, _IvyOutput(folder / "jars", report).read_line)
    if code != 0:
        raise _failure(coordinates, output, code)

    _, _, classpath = output.partition("Classpath elements:\n")
    jars = [
        folder / "jars" / line.rsplit("/", 1)[1] for line in classpath.splitlines() if re.match(r"file:.*\.jar$", line)
    ]
    jars = [jar for jar in jars if jar.exists()]
    if not jars:
        raise _add_output(
            ConfigError("Spark's Ivy succeeded without reporting a jar", where=", ".join(coordinates)), output
        )
    if _drop_broken(jars):
        shutil.rmtree(folder / "cache", ignore_errors=True)
        raise RetriableError(
            "a jar was downloaded incompletely and deleted", where=", ".join(coordinates), fix="run again"
        )
    size = sum(jar.stat().st_size for jar in jars) / 1e6
    report(f"{len(jars)} jars ({size:.1f} MB) ready after {time.monotonic() - started:.0f} s")
    return jars


def describe_jars(
    coordinate: str, folder: Path, *, spark_version: str, report: Callable[[str], None]
) -> list[Artifact]:
    """Return the jars of a coordinate and its dependencies with their digests."""
    with hold_lock(folder) as lock:
        jars = fetch([coordinate], folder, spark_version=spark_version, conf={}, report=report, lock=lock)
    return [_to_artifact(jar) for jar in jars]


def spark_home() -> Path:
    """Return SPARK_HOME, or the folder of the installed PySpark without importing it."""
    if configured := os.environ.get("SPARK_HOME"):
        return Path(configured)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("PySpark is not installed", fix="pip install 'headrace[spark]'")
    return Path(spec.submodule_search_locations[0])


@dataclass(frozen=True)
class SparkCore:
    """Jar of Spark's core, whose name has the versions of Spark and Scala."""

    jar: Path
    version: str
    scala: str


def find_spark_core() -> SparkCore | None:
    """Return the jar of Spark's core; None for a Spark that is laid out differently."""
    for jar in sorted((spark_home() / "jars").glob("spark-core_*.jar")):
        if match := re.fullmatch(r"spark-core_(\d+\.\d+)-(\d.*)\.jar", jar.name):
            return SparkCore(jar, match[2], match[1])
    return None


def spark_conf_home() -> Path:
    """Return the folder of Spark's configuration files."""
    return Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")


def _command(coordinates: Sequence[str], folder: Path, conf: Mapping[str, str], files: PrivateFiles) -> list[str]:
    submit = spark_home() / "bin" / "spark-submit"
    if not submit.is_file():
        raise ConfigError(
            "no such file: bin/spark-submit", where=f"SPARK_HOME={submit.parent.parent}", fix="unset SPARK_HOME"
        )
    folder.mkdir(parents=True, exist_ok=True)
    program, settings = folder / "empty.py", folder / "settings.xml"
    program.touch()
    mirror = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    settings.unlink(missing_ok=True)
    settings.touch(0o600)  # the address of a mirror may have a login
    settings.write_text(_SETTINGS.format(root=f" root={quoteattr(mirror)}" if mirror else ""), encoding="utf-8")
    # Every user of the machine can read command lines.
    private = {key: value for key, value in conf.items() if key == REPOSITORIES}
    base = spark_conf_home() / "spark-defaults.conf"
    hidden = [FILE_OPTION, files.add(to_properties(private, base))] if private else []
    options = {
        "spark.jars.ivySettings": settings.as_uri(),
        **{key: value for key, value in conf.items() if key not in private},
        "spark.jars.ivy": str(folder),
        "spark.jars.packages": ",".join(coordinates),
        "spark.jars.excludes": ",".join([*SHIPPED, *filter(None, [conf.get("spark.jars.excludes")])]),
        # With another master, as in spark-defaults.conf, Spark reports the jars differently.
        "spark.master": "local[1]",
        "spark.submit.deployMode": "client",
    }
    return [
        str(submit),
        "--verbose",
        *hidden,
        *(part for item in options.items() for part in ("--conf", "=".join(item))),
        str(program),
    ]


def _environment(folder: Path, spark_version: str) -> dict[str, str]:
    java = find_java(spark_version, oldest=8)
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if java.is_bundled:
        options = f"{trust_options(write_trust_store(folder / 'trusted.jks'))} {options}".strip()
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(java.home),
        **({"SPARK_SUBMIT_OPTS": options} if options else {}),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    read_line: Callable[[str], None],
) -> tuple[str, int]:
    lines: list[str] = []
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            pass_fds=descriptors,
        )
    except OSError as error:
        raise ConfigError(f"spark-submit failed to start: {error.strerror}", where=command[0]) from error
    with process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line)
                read_line(line)
        except BaseException:
            process.kill()
            raise
    return "".join(lines), process.returncode


def _to_artifact(jar: Path) -> Artifact:
    """Return the artifact of Ivy's file ``<group>_<artifact>-<version>.jar``."""
    match = re.fullmatch(r"([^_]+)_(.+)-(\d.*)\.jar", jar.name)
    assert match, jar.name
    return Artifact(":".join(match.groups()), hashlib.sha256(jar.read_bytes()).hexdigest(), jar.stat().st_size)


class _IvyOutput:
    """Parser of Ivy's output that reports one line per jar."""

    def __init__(self, jars: Path, report: Callable[[str], None]) -> None:
        self._jars, self._report, self._missing, self._started = jars, report, 0, 0
        self._cached = {jar.name for jar in jars.glob("*.jar")}

    def read_line(self, line: str) -> None:
        if module := re.match(r"\s*found (\S+)#(\S+);(\S+) in ", line):
            self._missing += "{}_{}-{}.jar".format(*module.groups()) not in self._cached
        elif jar := re.match(r"downloading \S*/(\S+)\.jar \.\.\.", line):
            if not self._started:
                self._report(f"fetching {self._missing} jars into {self._jars}, once")
            self._started += 1
            self._report(f"  {self._started}/{max(self._started, self._missing)} {jar[1]}")


def _drop_broken(jars: Iterable[Path]) -> list[Path]:
    broken = [jar for jar in jars if not is_zipfile(jar)]
    for jar in broken:
        jar.unlink()
    return broken


def _failure(coordinates: Sequence[str], output: str, code: int) -> HeadraceError:
    names = ", ".join(coordinates)
    missing = ", ".join(dict.fromkeys(
        f"{group}:{name}:{version}" for group, name, version in re.findall(r":: (\S+)#(\S+);(\S+): not found", output)
    ))  # fmt: skip
    error: HeadraceError
    if "PKIX path building failed" in output or "SSLHandshakeException" in output:
        error = untrusted_certificate_error("Java found no path to a trusted certificate", missing or names)
    elif re.search(r"Server access error at url|Host \S+ not found|SERVER ERROR: ", output):
        error = RetriableError(
            "the Maven repository is unreachable, and the jars are not cached",
            where=missing or names,
            fix=NO_NETWORK,
        )
    elif missing:
        error = ConfigError(
            "no configured Maven repository has this artifact",
            where=missing,
            fix="check the name and the versions of the artifact, Scala and Spark; for another repository set spark.jars.repositories",
        )
    elif "download failed" in output:
        error = RetriableError("the download of a jar was interrupted", where=names, fix=NO_NETWORK)
    else:
        error = ConfigError(f"spark-submit failed with exit code {code} while resolving jars", where=names)
    return _add_output(error, output)


def _add_output(error: HeadraceError, output: str) -> HeadraceError:
    last_lines = [line for line in output.splitlines() if line.strip() and not line.startswith("\tat ")]
    error.add_note(hide_credentials("\n".join(["the end of Ivy's output:", *last_lines[-15:]])))
    return error
