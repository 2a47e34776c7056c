"""Jar files for Maven coordinates, fetched once per machine and then found without starting a JVM.

What a plugin's lock names is fetched by Python, and each file has the digest that stands there. Other coordinates are resolved by
Spark's Ivy; what came the first time is recorded with its digests, and is all that is taken later. A coordinate with
``:jar`` behind it is one jar alone, without what that says it needs; with ``:jar:classifier`` one of several. These are in a lock, for
Spark's Ivy knows neither.
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

#: The settings of Spark's that decide where jars come from and which are left out.
SETTINGS = ("spark.jars.ivySettings", "spark.jars.repositories", "spark.jars.excludes")
#: Of the cache: what locks name, as a Maven repository has it.
_LOCKED = "maven"


def resolve_jars(
    coordinates: Sequence[str],
    *,
    spark_version: str,
    conf: Mapping[str, str] | None = None,
    locks: Locks | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """The jar files of ``group:artifact:version[:jar[:classifier]]`` coordinates and of everything that they need.

    ``locks``: what the plugins' locks name. What was resolved before is answered from the cache. Otherwise ``report`` gets lines
    about what is fetched; of ``conf`` only SETTINGS matter. ConfigError for what no repository has, and for a file that is not the
    one it should be; RetriableError when none answers.
    """
    wanted = sorted(set(coordinates))
    if not wanted:
        return []
    if wrong := [name for name in wanted if not COORDINATE.fullmatch(name)]:
        raise ConfigError("not Maven coordinates", where=", ".join(wrong), fix="write group:artifact:version")
    settings = _settings(conf)
    locked, wanted = _split(wanted, locks, settings)
    jars = _fetch_locked(locked, report)
    return [*jars, *_resolve(wanted, spark_version, settings, report)] if wanted else jars


def describe_jars(coordinate: str, *, spark_version: str, report: Callable[[str], None]) -> Sequence[Artifact]:
    """The jars of a coordinate and of all it needs, with their digests, for a lock."""
    if is_single_jar(coordinate):
        return [describe(coordinate.removesuffix(":jar"))]
    return ivy.describe_jars(coordinate, cache_home() / "ivy", spark_version=spark_version, report=report)


def _resolve(
    wanted: Sequence[str], spark_version: str, settings: Mapping[str, str], report: Callable[[str], None]
) -> list[Path]:
    """The jars of coordinates as Ivy finds them, or as it found them once."""
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
    """The jars that ``resolve_jars`` would give without fetching anything; None when it would have to."""
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
    """HEADRACE_CACHE, or headrace's folder under XDG_CACHE_HOME or ~/.cache."""
    if named := os.environ.get("HEADRACE_CACHE"):
        return Path(named).expanduser().absolute()
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
    """ConfigError for a jar that was changed since it was fetched."""
    for jar, digest in zip(jars, _digests(jars), strict=True):
        if digest != jars[jar]:
            raise ConfigError(
                f"it was changed: it has SHA-256 {digest}, and {record} wants {jars[jar]}",
                where=str(jar),
                fix="find out who changed it; delete it, and it is fetched again",
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
    """The jars that the locks name, and the coordinates that are Ivy's: none, or all but jars that are alone.

    Ivy's are they where the locks lack one, and where the pipeline says itself where jars come from.
    """
    if not settings and (locked := find_locked(wanted, locks or {})) is not None:
        return locked, []
    alone = [name for name in wanted if is_single_jar(name)]
    if (locked := find_locked(alone, locks or {})) is None:
        raise ConfigError(
            "a jar that is named alone is in no lock",
            where=", ".join(alone),
            fix="its plugin's author makes one: headrace jars --lock PACKAGE",
        )
    return locked, [name for name in wanted if name not in alone]


def _settings(conf: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key in SETTINGS if (value := (conf or {}).get(key))}


def _record_file(cache: Path, wanted: Sequence[str], spark_version: str, settings: Mapping[str, str]) -> Path:
    """The file in which a resolve of exactly this leaves its result."""
    key = "\n".join([spark_version, *wanted, *(f"{key}={value}" for key, value in settings.items())])
    return cache / "jars" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _read_record(cache: Path, record: Path) -> list[Path] | None:
    """The jars that an earlier resolve left, if every one of them is still there in its size, and as it was."""
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
    # Names relative to the cache: the whole folder can be copied to a machine without a network.
    names = [str(jar.relative_to(cache)) for jar in jars]
    digests = dict(zip(names, _digests(jars), strict=True))
    _check_first_digests(record, digests)
    files = {name: (cache / name).stat().st_size for name in names}
    record.parent.mkdir(exist_ok=True)
    half = record.with_suffix(".half")
    half.write_text(json.dumps({"jars": files, "sha256": digests}, indent=1), encoding="utf-8")
    half.replace(record)


def _check_first_digests(record: Path, digests: Mapping[str, str]) -> None:
    """ConfigError when what comes now is not what came first."""
    try:
        first = json.loads(record.read_bytes())["sha256"]
    except (OSError, ValueError, KeyError):
        return
    for name in first.keys() & digests.keys():
        if first[name] != digests[name]:
            raise ConfigError(
                f"the repository has another file than when it was first asked: SHA-256 {digests[name]}, and was {first[name]}",
                where=name,
                fix=f"ask who runs the repository; if it is right so, delete {record}",
            )
