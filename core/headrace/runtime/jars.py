"""Jar files for Maven coordinates, fetched once per machine and then found without starting a JVM."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import ConfigError
from headrace.runtime import ivy

#: The settings of Spark's that decide where jars come from and which are left out.
SETTINGS = ("spark.jars.ivySettings", "spark.jars.repositories", "spark.jars.excludes")


def resolve_jars(
    coordinates: Sequence[str],
    *,
    spark_version: str,
    conf: Mapping[str, str] | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """The jar files of ``group:artifact:version`` coordinates and of everything that they need.

    What was resolved before is answered from the cache. Otherwise ``report`` gets a line for every jar that is fetched;
    of ``conf`` only SETTINGS matter. ConfigError for what no repository has, RetriableError when none answers.
    """
    wanted = sorted(set(coordinates))
    if not wanted:
        return []
    if wrong := [name for name in wanted if len(list(filter(None, name.split(":")))) != 3]:
        raise ConfigError("not Maven coordinates", where=", ".join(wrong), fix="write group:artifact:version")
    settings = _settings(conf)
    cache = cache_home()
    record = _record_file(cache, wanted, spark_version, settings)
    if jars := _read_record(cache, record):
        return jars
    try:
        with _lock_cache(cache, report) as lock:
            if not (jars := _read_record(cache, record)):
                jars = ivy.fetch(
                    wanted, cache / "ivy", spark_version=spark_version, conf=settings, report=report, lock=lock
                )
                _write_record(cache, record, jars)
    except OSError as error:
        raise ConfigError(
            f"the jar cache cannot be written: {error.strerror or error}",
            where=str(cache),
            fix="set HEADRACE_CACHE to a folder that you may write, on a disk with room",
        ) from error
    return jars


def find_cached_jars(
    coordinates: Sequence[str], *, spark_version: str, conf: Mapping[str, str] | None = None
) -> list[Path] | None:
    """The jars that ``resolve_jars`` would give without fetching anything; None when it would have to."""
    if not coordinates:
        return []
    cache = cache_home()
    return _read_record(cache, _record_file(cache, sorted(set(coordinates)), spark_version, _settings(conf)))


def cache_home() -> Path:
    """HEADRACE_CACHE, or headrace's folder under XDG_CACHE_HOME or ~/.cache."""
    if named := os.environ.get("HEADRACE_CACHE"):
        return Path(named).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def _settings(conf: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key in SETTINGS if (value := (conf or {}).get(key))}


def _record_file(cache: Path, wanted: Sequence[str], spark_version: str, settings: Mapping[str, str]) -> Path:
    """The file in which a resolve of exactly this leaves its result."""
    key = "\n".join([spark_version, *wanted, *(f"{key}={value}" for key, value in settings.items())])
    return cache / "jars" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _read_record(cache: Path, record: Path) -> list[Path] | None:
    """The jars that an earlier resolve left, if every one of them is still there in its size."""
    try:
        files = json.loads(record.read_bytes())["jars"]
        if all((cache / name).stat().st_size == size for name, size in files.items()):
            return [cache / name for name in files]
    except (OSError, ValueError, KeyError):
        pass
    return None


def _write_record(cache: Path, record: Path, jars: Sequence[Path]) -> None:
    # Names relative to the cache: the whole folder can be copied to a machine without a network.
    files = {str(jar.relative_to(cache)): jar.stat().st_size for jar in jars}
    record.parent.mkdir(exist_ok=True)
    half = record.with_suffix(".half")
    half.write_text(json.dumps({"jars": files}, indent=1), encoding="utf-8")
    half.replace(record)


@contextmanager
def _lock_cache(cache: Path, report: Callable[[str], None]) -> Iterator[int]:
    """Keeps other processes out of the cache; the lock goes with the processes that hold its descriptor, however they end."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that fetches jars")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
