"""Resolution of Maven coordinates to jar files. Each machine downloads them once; later runs find them without starting a JVM.

Python downloads the jars in a plugin's lock and checks their digests. Spark's Ivy resolves other coordinates; the first result is
recorded with its digests, and later results must match. A coordinate that ends in ``:jar`` is a single jar without its
dependencies, and ``:jar:classifier`` selects one of several. Both must be in a lock, because Spark's Ivy does not support them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.errors import ConfigError
from headrace.registry.validation import COORDINATE
from headrace.runtime.jars import ivy
from headrace.runtime.jars.artifacts import Artifact, Fetcher, describe, hold_lock, is_single_jar
from headrace.runtime.jars.jar_locks import Locks, find_locked

#: Spark settings that select the repositories of jars and the jars to exclude.
SETTINGS = ("spark.jars.ivySettings", ivy.REPOSITORIES, "spark.jars.excludes")
#: Folder of the cache for the jars in locks, laid out like a Maven repository.
_LOCKED = "maven"


def resolve_jars(
    coordinates: Sequence[str],
    *,
    spark_version: str,
    conf: Mapping[str, str] | None = None,
    locks: Locks | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Return the jar files of ``group:artifact:version[:jar[:classifier]]`` coordinates and their dependencies.

    ``locks``: the plugins' locks. Jars that are not in the cache are downloaded, and ``report`` receives progress lines. Only
    SETTINGS of ``conf`` are used. ConfigError if no repository has an artifact or a digest does not match; RetriableError if
    the repositories are unreachable.
    """
    wanted = sorted(set(coordinates))
    if not wanted:
        return []
    if wrong := [name for name in wanted if not COORDINATE.fullmatch(name)]:
        raise ConfigError("invalid Maven coordinates", where=", ".join(wrong), fix="write group:artifact:version")
    settings = _settings(conf)
    locked, wanted = _split(wanted, locks, settings)
    jars = _fetch_locked(locked, report)
    return [*jars, *_resolve(wanted, spark_version, settings, report)] if wanted else jars


def describe_jars(coordinate: str, *, spark_version: str, report: Callable[[str], None]) -> Sequence[Artifact]:
    """Return the jars of a coordinate and its dependencies with their digests, for a lock."""
    if is_single_jar(coordinate):
        return [describe(coordinate.removesuffix(":jar"))]
    return ivy.describe_jars(coordinate, cache_home() / "ivy", spark_version=spark_version, report=report)


def _resolve(
    wanted: Sequence[str], spark_version: str, settings: Mapping[str, str], report: Callable[[str], None]
) -> list[Path]:
    """Return the jars of coordinates from the record of an earlier resolution, or from Ivy."""
    cache = cache_home()
    record = _record_file(cache, wanted, spark_version, settings)
    if jars := _read_record(cache, record):
        return jars
    with hold_lock(cache, report) as lock:
        if not (jars := _read_record(cache, record)):
            jars = ivy.fetch(
                wanted, cache / "ivy", spark_version=spark_version, conf=settings, report=report, lock=lock
            )
            _write_record(cache, record, jars)
    return jars


def find_cached_jars(
    coordinates: Sequence[str],
    *,
    spark_version: str,
    conf: Mapping[str, str] | None = None,
    locks: Locks | None = None,
) -> list[Path] | None:
    """Return the result of ``resolve_jars`` if everything is cached; otherwise None."""
    if not coordinates:
        return []
    cache, wanted, settings = cache_home(), sorted(set(coordinates)), _settings(conf)
    locked, wanted = _split(wanted, locks, settings)
    paths = [cache / _LOCKED / artifact.path for artifact in locked]
    if not all(path.is_file() for path in paths):
        return None
    if not wanted:
        return paths
    found = _read_record(cache, _record_file(cache, wanted, spark_version, settings))
    return None if found is None else [*paths, *found]


def cache_home() -> Path:
    """Return HEADRACE_CACHE, or headrace's folder in XDG_CACHE_HOME or ~/.cache."""
    if configured := os.environ.get("HEADRACE_CACHE"):
        return Path(configured).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def _fetch_locked(artifacts: Sequence[Artifact], report: Callable[[str], None]) -> list[Path]:
    if not artifacts:
        return []
    cache = cache_home()
    fetcher = Fetcher(cache / _LOCKED, "its plugin's jars.lock", "headrace jars --download", report)
    if fetcher.find_missing(artifacts):
        with hold_lock(cache, report):
            if missing := fetcher.find_missing(artifacts):  # another process may have fetched them
                fetcher.fetch(missing, "jars")
    jars = {fetcher.folder / artifact.path: artifact.sha256 for artifact in artifacts}
    _check_digests(jars, "its plugin's jars.lock")
    return list(jars)


def _check_digests(jars: Mapping[Path, str], record: str) -> None:
    """Raise ConfigError for a jar that changed after its download."""
    for jar, digest in zip(jars, _digests(jars), strict=True):
        if digest != jars[jar]:
            raise ConfigError(
                f"the jar has changed: it has SHA-256 {digest}, and {record} requires {jars[jar]}",
                where=str(jar),
                fix="find the cause, then delete the jar; the next run downloads it again",
            )


def _digests(jars: Iterable[Path]) -> list[str]:
    def digest(jar: Path) -> str:
        with jar.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor() as pool:
        return list(pool.map(digest, jars))


def _split(
    wanted: Sequence[str], locks: Locks | None, settings: Mapping[str, str]
) -> tuple[Sequence[Artifact], list[str]]:
    """Return the jars from locks, and the coordinates for Ivy.

    If the locks lack a coordinate, or the pipeline configures its own repositories, Ivy resolves everything except single jars.
    """
    if not settings and (locked := find_locked(wanted, locks or {})) is not None:
        return locked, []
    single = [name for name in wanted if is_single_jar(name)]
    if (locked := find_locked(single, locks or {})) is None:
        raise ConfigError(
            "no lock contains this single jar",
            where=", ".join(single),
            fix="the plugin's author creates the lock with: headrace jars --lock PACKAGE",
        )
    return locked, [name for name in wanted if name not in single]


def _settings(conf: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key in SETTINGS if (value := (conf or {}).get(key))}


def _record_file(cache: Path, wanted: Sequence[str], spark_version: str, settings: Mapping[str, str]) -> Path:
    """Return the file that records the result of this resolution."""
    key = "\n".join([spark_version, *wanted, *(f"{key}={value}" for key, value in settings.items())])
    return cache / "jars" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _read_record(cache: Path, record: Path) -> list[Path] | None:
    """Return the jars of an earlier resolution, with checked digests; None if a jar is missing or has another size."""
    try:
        entry = json.loads(record.read_bytes())
        files: dict[str, int] = entry["jars"]
        if any((cache / name).stat().st_size != size for name, size in files.items()):
            return None
    except (OSError, ValueError, KeyError):
        return None
    _check_digests({cache / name: digest for name, digest in entry.get("sha256", {}).items()}, str(record))
    return [cache / name for name in files]


def _write_record(cache: Path, record: Path, jars: Sequence[Path]) -> None:
    # The names are relative to the cache, so that its folder can be copied to a machine without a network.
    names = [str(jar.relative_to(cache)) for jar in jars]
    digests = dict(zip(names, _digests(jars), strict=True))
    _check_first_digests(record, digests)
    files = {name: (cache / name).stat().st_size for name in names}
    record.parent.mkdir(exist_ok=True)
    half = record.with_suffix(".half")
    half.write_text(json.dumps({"jars": files, "sha256": digests}, indent=1), encoding="utf-8")
    half.replace(record)


def _check_first_digests(record: Path, digests: Mapping[str, str]) -> None:
    """Raise ConfigError if a jar differs from the first download."""
    try:
        first = json.loads(record.read_bytes())["sha256"]
    except (OSError, ValueError, KeyError):
        return
    for name in first.keys() & digests.keys():
        if first[name] != digests[name]:
            raise ConfigError(
                f"the repository's file has changed since the first download: it has SHA-256 {digests[name]}, and had {first[name]}",
                where=name,
                fix=f"contact the operator of the repository; if the change is intended, delete {record}",
            )
