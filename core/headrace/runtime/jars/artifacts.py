"""Files of a Maven repository that a lock names with their digests, fetched by Python: with its proxies and its certificates."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import http.client
import os
import ssl
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ConfigError, HeadraceError, RetriableError
from headrace.http_client import make_opener
from headrace.runtime.java.trust_store import build_tls_context

CENTRAL = "https://repo.maven.apache.org/maven2"
#: Seconds of silence from the repository, bytes a second below which it is too slow, and how often a file is asked for.
_SILENCE_SECONDS, _SLOWEST, _TRIES = 60, 10_000, 3
#: What trying again does not repair.
_DISK = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT)
_PARALLEL_FILES = 8
#: Of a file whose size is not known yet.
_MOST_BYTES = 4 << 30


@dataclass(frozen=True)
class Artifact:
    """One line of a lock: a file of a Maven repository."""

    coordinate: str
    sha256: str
    size: int

    def __str__(self) -> str:
        return f"{self.coordinate} {self.sha256} {self.size}"

    @property
    def path(self) -> str:
        return path_of(self.coordinate)


@dataclass(frozen=True)
class Fetcher:
    """Brings the files of a lock into a folder.

    ``lock``: what errors call the lock; ``command``: fetches everything, for a machine without a network; ``report`` gets lines.
    """

    folder: Path
    lock: str
    command: str
    report: Callable[[str], None]

    def find_missing(self, wanted: Iterable[Artifact]) -> list[Artifact]:
        """Those that are not in the folder yet. A file appears under its name when it is whole and its digest is right."""
        return [artifact for artifact in wanted if not (self.folder / artifact.path).is_file()]

    def fetch(self, missing: Sequence[Artifact], what: str) -> None:
        """RetriableError when the repository does not answer, ConfigError when it lacks a file or has another than the lock."""
        started = reported = time.monotonic()
        total, done = sum(artifact.size for artifact in missing) / 1e6, 0.0
        self.report(f"{what}: fetching {len(missing)} files ({total:.0f} MB) into {self.folder}, once")
        with ThreadPoolExecutor(_PARALLEL_FILES, "fetch") as pool:
            try:
                for future in as_completed([pool.submit(self._fetch, artifact) for artifact in missing]):
                    done += future.result() / 1e6
                    if time.monotonic() - reported > 2:
                        reported = time.monotonic()
                        self.report(f"{what}: {done:.0f} of {total:.0f} MB")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        self.report(f"{what}: ready after {time.monotonic() - started:.0f} s")

    def _fetch(self, artifact: Artifact) -> int:
        """One file, under its name when it is whole. Returns its size in bytes."""
        address, target = f"{repository()}/{artifact.path}", self.folder / artifact.path
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f"{target.name}.{os.getpid()}.half")
        try:
            for attempt in range(1, _TRIES + 1):
                try:
                    digest = download(address, half, artifact.size)
                    break
                except (OSError, http.client.HTTPException) as error:
                    if attempt == _TRIES or not _is_worth_a_try(error):
                        raise self._explain(error, address) from error
                    time.sleep(attempt)
            if digest != artifact.sha256:
                raise ConfigError(
                    f"it has SHA-256 {digest}, and {self.lock} wants {artifact.sha256}: it was not kept",
                    where=address,
                    fix="ask who runs the repository that DEFAULT_ARTIFACT_REPOSITORY names what they changed",
                )
            half.replace(target)
        finally:
            half.unlink(missing_ok=True)
        return artifact.size

    def _explain(self, error: Exception, address: str) -> Exception:
        """An error of a download as one of headrace's; one of the disk as it is."""
        if isinstance(error, OSError) and error.errno in _DISK:
            return error
        if isinstance(error, urllib.error.HTTPError) and not _is_worth_a_try(error):
            return ConfigError(
                f"the repository answers {error.code} {error.reason}",
                where=address,
                fix="unset DEFAULT_ARTIFACT_REPOSITORY or name a repository that has it",
            )
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            return untrusted_certificate_error(reason.verify_message, address)
        return RetriableError(
            f"it cannot be fetched: {reason}",
            where=address,
            fix="check the network; behind a proxy set https_proxy, for a mirror DEFAULT_ARTIFACT_REPOSITORY; without a network "
            f"run `{self.command}` on a machine that has one and copy its cache folder here (HEADRACE_CACHE names it)",
        )


def untrusted_certificate_error(why: str, where: str) -> HeadraceError:
    """The error of a server whose certificate nobody here vouches for."""
    return ConfigError(
        f"the server's certificate is not trusted: {why}",
        where=where,
        fix="a proxy or a mirror may have a certificate authority of its own: let SSL_CERT_FILE name a file with its certificate",
    )


def path_of(coordinate: str) -> str:
    """The path of an artifact in a repository, and in a cache."""
    group, artifact, version, *rest = coordinate.split(":")
    kind, *classifier = rest or ["jar"]
    return f"{group.replace('.', '/')}/{artifact}/{version}/{'-'.join([artifact, version, *classifier])}.{kind}"


def is_single_jar(coordinate: str) -> bool:
    """Whether it names one jar, and nothing of what that says it needs."""
    return coordinate.count(":") > 2


def repository() -> str:
    """DEFAULT_ARTIFACT_REPOSITORY, as Spark's Ivy has it, or Maven Central."""
    return (os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or CENTRAL).rstrip("/")


def parse_lock(text: str) -> dict[str, list[Artifact]]:
    """Group → its artifacts, of a lock: ``[group]``, then lines of coordinate, SHA-256 and size in bytes."""
    groups: dict[str, list[Artifact]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            coordinate, sha256, size = line.split()
            group.append(Artifact(coordinate, sha256, int(size)))
    return groups


def download(address: str, file: Path, most_bytes: int) -> str:
    """Write what comes from an address into a file. Returns its SHA-256, of larger ones that of the beginning."""
    digest, left = hashlib.sha256(), most_bytes + 1
    # The scheme is the user's choice; file:// is a mirror too. A mirror may redirect to any host: it gets no login, and the
    # digest decides.
    opener = make_opener(timeout=_SILENCE_SECONDS + most_bytes / _SLOWEST, tls=build_tls_context())
    with opener.open(address, timeout=_SILENCE_SECONDS) as answer, file.open("wb") as out:
        while left and (chunk := answer.read(min(left, 1 << 20))):
            digest.update(chunk)
            out.write(chunk)
            left -= len(chunk)
    return digest.hexdigest()


def describe(coordinate: str) -> Artifact:
    """An artifact of the repository with its digest and size, fetched for that and not kept. Errors as ``download``."""
    with tempfile.TemporaryDirectory(prefix="headrace-lock-") as folder:
        file = Path(folder, "artifact")
        digest = download(f"{repository()}/{path_of(coordinate)}", file, _MOST_BYTES)
        return Artifact(coordinate, digest, file.stat().st_size)


@contextmanager
def hold_lock(cache: Path, report: Callable[[str], None] = lambda text: None) -> Iterator[int]:
    """Keeps other processes out of a cache; gives the descriptor, with which the lock goes, however its processes end.

    ConfigError when the cache cannot be written, before or meanwhile.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report("waiting for another process that fetches jars")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock.fileno()
    except OSError as error:
        raise ConfigError(
            f"the cache cannot be written: {error.strerror or error}",
            where=str(cache),
            fix="set HEADRACE_CACHE to a folder that you may write, on a disk with room",
        ) from error


def _is_worth_a_try(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code == 429
    if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
        return False
    return not (isinstance(error, OSError) and error.errno in _DISK)
