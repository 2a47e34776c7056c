"""What servers are made of, as ``artefacts.lock`` names it, fetched once per machine into headrace's cache."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import http.client
import os
import platform
import sys
import tarfile
import tempfile
import time
import urllib.error
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ConfigError, RetriableError
from headrace.runtime.jars import cache_home
from headrace.sdk.http import make_opener

LOCK = Path(__file__).with_name("artefacts.lock")
CENTRAL = "https://repo.maven.apache.org/maven2"
#: Seconds of silence from the repository, bytes a second below which it is too slow, and how often a file is asked for.
_SILENCE, _SLOWEST, _TRIES = 60, 10_000, 3
#: What trying again does not repair.
_DISK = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT)
_NO_NETWORK = (
    "check the network; behind a proxy set https_proxy, for a mirror DEFAULT_ARTIFACT_REPOSITORY; without a network "
    "run `python -m headrace.testing.stack fetch` on a machine that has one and copy its cache folder here "
    "(HEADRACE_CACHE names it)"
)


@dataclass(frozen=True)
class Artefact:
    """One line of the lock: a file of a Maven repository."""

    coordinate: str
    sha256: str
    size: int

    def __str__(self) -> str:
        return f"{self.coordinate} {self.sha256} {self.size}"

    @property
    def path(self) -> str:
        return path_of(self.coordinate)


def path_of(coordinate: str) -> str:
    """The path of an artefact in a repository, and in the cache."""
    group, artifact, version, *rest = coordinate.split(":")
    kind, *classifier = rest or ["jar"]
    return f"{group.replace('.', '/')}/{artifact}/{version}/{'-'.join([artifact, version, *classifier])}.{kind}"


def repository() -> str:
    """DEFAULT_ARTIFACT_REPOSITORY, as Spark's Ivy has it, or Maven Central."""
    return (os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or CENTRAL).rstrip("/")


def read_lock(lock: Path = LOCK) -> dict[str, list[Artefact]]:
    """Group → its artefacts, as the lock has them."""
    groups: dict[str, list[Artefact]] = {}
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            coordinate, sha256, size = line.split()
            group.append(Artefact(coordinate, sha256, int(size)))
    return groups


def fetch(*groups: str, say: Callable[[str], None] | None = None) -> list[Path]:
    """The files of some groups of the lock; what the cache lacks is fetched, and ``say`` (default: stderr) gets lines about it.

    RetriableError when the repository does not answer, ConfigError when it lacks a file or has another one than the
    lock, and when the cache cannot be written.
    """
    wanted = {artefact.path: artefact for group in groups for artefact in read_lock()[group]}
    cache = _cache()
    if _find_missing(cache, wanted.values()):
        with _writable(cache), _lock(cache):
            # Another process may have fetched them while this one waited.
            if missing := _find_missing(cache, wanted.values()):
                _fetch_all(missing, cache, ", ".join(groups), say or _to_stderr)
    return [cache / path for path in wanted]


def unpack(group: str) -> Path:
    """Unpack the one archive of ``group``; the folder with what it held. Errors as ``fetch``."""
    (artefact,) = read_lock()[group]
    cache = _cache()
    folder = cache / "unpacked" / f"{group}-{artefact.sha256[:12]}"
    if not folder.is_dir():
        (archive,) = fetch(group)
        with _writable(cache), _lock(cache):
            if not folder.is_dir():
                folder.parent.mkdir(exist_ok=True)
                half = Path(tempfile.mkdtemp(prefix="half-", dir=folder.parent))
                _extract(archive, half)
                half.rename(folder)
            # Nobody asks for it again, and it is up to 140 MB.
            archive.unlink(missing_ok=True)
    return folder


def unpack_native(group: str) -> Path:
    """Unpack programs in machine code; ConfigError on a machine that they are not for."""
    if (machine := (platform.system(), platform.machine())) != ("Linux", "x86_64"):
        raise ConfigError(
            f"there is no {group} for {' on '.join(machine)}", fix="run these tests on Linux on x86_64, or without it"
        )
    return unpack(group)


def fetch_everything() -> None:
    """All that any server needs, for a machine without a network; errors as ``fetch``."""
    for group, artefacts in read_lock().items():
        if len(artefacts) == 1:
            unpack(group)
        else:
            fetch(group)


def _cache() -> Path:
    return cache_home() / "stack"


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - what a person waits for


def _find_missing(cache: Path, wanted: Iterable[Artefact]) -> list[Artefact]:
    # A file appears under its name when it is whole and its digest is right.
    return [artefact for artefact in wanted if not (cache / artefact.path).is_file()]


def _fetch_all(missing: Sequence[Artefact], cache: Path, what: str, say: Callable[[str], None]) -> None:
    started = reported = time.monotonic()
    total, done = sum(artefact.size for artefact in missing) / 1e6, 0.0
    say(f"{what}: fetching {len(missing)} files ({total:.0f} MB) into {cache}, once")
    with ThreadPoolExecutor(8, "fetch") as pool:
        try:
            for future in as_completed([pool.submit(_fetch, artefact, cache) for artefact in missing]):
                done += future.result() / 1e6
                if time.monotonic() - reported > 2:
                    reported = time.monotonic()
                    say(f"{what}: {done:.0f} of {total:.0f} MB")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    say(f"{what}: ready after {time.monotonic() - started:.0f} s")


def _fetch(artefact: Artefact, cache: Path) -> int:
    """One file, under its name when it is whole. Returns its size in bytes."""
    address, target = f"{repository()}/{artefact.path}", cache / artefact.path
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f"{target.name}.{os.getpid()}.half")
    try:
        for attempt in range(1, _TRIES + 1):
            try:
                digest = download(address, half, artefact.size)
                break
            except urllib.error.HTTPError as error:
                if error.code < 500 and error.code != 429:
                    raise ConfigError(
                        f"the repository answers {error.code} {error.reason}",
                        where=address,
                        fix="unset DEFAULT_ARTIFACT_REPOSITORY or name a repository that has it",
                    ) from error
                _wait_or_raise(attempt, address, error)
            except (OSError, http.client.HTTPException) as error:
                _wait_or_raise(attempt, address, error)
        if digest != artefact.sha256:
            raise ConfigError(
                f"it has SHA-256 {digest}, and artefacts.lock wants {artefact.sha256}: it was not kept",
                where=address,
                fix="ask who runs the repository that DEFAULT_ARTIFACT_REPOSITORY names what they changed",
            )
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)
    return artefact.size


def _wait_or_raise(attempt: int, address: str, error: Exception) -> None:
    """Wait before the next attempt; RetriableError after the last."""
    if isinstance(error, OSError) and error.errno in _DISK:
        raise error
    if attempt == _TRIES:
        reason = getattr(error, "reason", None) or error
        raise RetriableError(f"it cannot be fetched: {reason}", where=address, fix=_NO_NETWORK) from error
    time.sleep(attempt)


def download(address: str, file: Path, most_bytes: int) -> str:
    """Write what comes from an address into a file. Returns its SHA-256, of larger ones that of the beginning."""
    digest, left = hashlib.sha256(), most_bytes + 1
    # The scheme is the user's choice; file:// is a mirror too. A mirror may redirect to any host: it gets no login, and the
    # digest decides.
    opener = make_opener(seconds=_SILENCE + most_bytes / _SLOWEST)
    with opener.open(address, timeout=_SILENCE) as answer, file.open("wb") as out:
        while left and (chunk := answer.read(min(left, 1 << 20))):
            digest.update(chunk)
            out.write(chunk)
            left -= len(chunk)
    return digest.hexdigest()


def _extract(archive: Path, folder: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as jar:
            jar.extractall(folder)  # noqa: S202 - its digest is in the lock
        # A zip that was made by Java says nothing of modes.
        for program in folder.rglob("bin/*"):
            program.chmod(0o755)
        for inner in folder.glob("*.txz"):
            _extract(inner, folder)
            inner.unlink()
    else:
        with tarfile.open(archive) as tar:
            # Python has filters since 3.11.4.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(folder)  # noqa: S202 - its digest is in the lock


@contextmanager
def _writable(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"the cache cannot be written: {error.strerror or error}",
            where=str(cache),
            fix="set HEADRACE_CACHE to a folder that you may write, on a disk with room",
        ) from error


@contextmanager
def _lock(cache: Path) -> Iterator[None]:
    """Let one process at a time use the cache; the lock goes with the process, however it ends."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
