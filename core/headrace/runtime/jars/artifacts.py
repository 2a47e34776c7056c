"""Download of the files in a lock from a Maven repository, with Python's proxies and certificates."""

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
from headrace.secret_values import hide_credentials

CENTRAL = "https://repo.maven.apache.org/maven2"
#: Seconds between two reads; lowest speed in bytes per second; attempts per file.
_IDLE_SECONDS, _MIN_SPEED, _ATTEMPTS = 60, 10_000, 3
#: Errors that another attempt does not fix.
_DISK_ERRORS = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT)
_PARALLEL_FILES = 8
#: Limit for a file of unknown size.
_MAX_BYTES = 4 << 30


@dataclass(frozen=True)
class Artifact:
    """A line of a lock: one file of a Maven repository."""

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
    """Download of a lock's files into a folder.

    ``lock``: name of the lock in errors; ``command``: command that downloads everything, for a machine without a network; ``report``:
    receives progress lines.
    """

    folder: Path
    lock: str
    command: str
    report: Callable[[str], None]

    def find_missing(self, wanted: Iterable[Artifact]) -> list[Artifact]:
        """Return the artifacts that are not in the folder yet. A file gets its name when it is complete and its digest matches."""
        return [artifact for artifact in wanted if not (self.folder / artifact.path).is_file()]

    def fetch(self, missing: Sequence[Artifact], label: str) -> None:
        """Download files. RetriableError if the repository is unreachable, ConfigError if a file is missing or does not match the lock."""
        started = reported = time.monotonic()
        total, done = sum(artifact.size for artifact in missing) / 1e6, 0.0
        self.report(f"{label}: fetching {len(missing)} files ({total:.0f} MB) into {self.folder}, once")
        with ThreadPoolExecutor(_PARALLEL_FILES, "fetch") as pool:
            try:
                for future in as_completed([pool.submit(self._fetch, artifact) for artifact in missing]):
                    done += future.result() / 1e6
                    if time.monotonic() - reported > 2:
                        reported = time.monotonic()
                        self.report(f"{label}: {done:.0f} of {total:.0f} MB")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        self.report(f"{label}: ready after {time.monotonic() - started:.0f} s")

    def _fetch(self, artifact: Artifact) -> int:
        """Download one file, rename it when it is complete, and return its size in bytes."""
        address, target = f"{repository()}/{artifact.path}", self.folder / artifact.path
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f"{target.name}.{os.getpid()}.half")
        try:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    digest = download(address, half, artifact.size)
                    break
                except (OSError, http.client.HTTPException) as error:
                    if attempt == _ATTEMPTS or not _is_retriable(error):
                        raise self._explain(error, address) from error
                    time.sleep(attempt)
            if digest != artifact.sha256:
                raise ConfigError(
                    f"the file has SHA-256 {digest}, and {self.lock} requires {artifact.sha256}; the download was discarded",
                    where=hide_credentials(address),
                    fix="contact the operator of the repository in DEFAULT_ARTIFACT_REPOSITORY, or unset it",
                )
            half.replace(target)
        finally:
            half.unlink(missing_ok=True)
        return artifact.size

    def _explain(self, error: Exception, address: str) -> Exception:
        """Return the headrace error for a failed download. Disk errors stay as they are."""
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            return error
        address = hide_credentials(address)
        if isinstance(error, urllib.error.HTTPError) and not _is_retriable(error):
            return ConfigError(
                hide_credentials(f"the repository returns {error.code} {error.reason}"),
                where=address,
                fix="unset DEFAULT_ARTIFACT_REPOSITORY, or set it to a repository that has this file",
            )
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            return untrusted_certificate_error(reason.verify_message, address)
        return RetriableError(
            hide_credentials(f"the download failed: {reason}"),
            where=address,
            fix="check the network; behind a proxy set https_proxy, for a mirror set DEFAULT_ARTIFACT_REPOSITORY; without a network "
            f"run `{self.command}` on another machine and copy its cache folder here (HEADRACE_CACHE)",
        )


def untrusted_certificate_error(reason: str, where: str) -> HeadraceError:
    """Return the error for a server with an untrusted certificate."""
    return ConfigError(
        f"the server's certificate is not trusted: {reason}",
        where=where,
        fix="if a proxy or a mirror has its own certificate authority, set SSL_CERT_FILE to a file with its certificate",
    )


def path_of(coordinate: str) -> str:
    """Return the path of an artifact within a repository or a cache."""
    group, artifact, version, *rest = coordinate.split(":")
    kind, *classifier = rest or ["jar"]
    return f"{group.replace('.', '/')}/{artifact}/{version}/{'-'.join([artifact, version, *classifier])}.{kind}"


def is_single_jar(coordinate: str) -> bool:
    """Return whether a coordinate names one jar without its dependencies."""
    return coordinate.count(":") > 2


def repository() -> str:
    """Return DEFAULT_ARTIFACT_REPOSITORY, which Spark's Ivy also reads, or Maven Central."""
    return (os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or CENTRAL).rstrip("/")


def parse_lock(text: str) -> dict[str, list[Artifact]]:
    """Return the artifacts of a lock by group: ``[group]``, then lines of coordinate, SHA-256 and size in bytes."""
    groups: dict[str, list[Artifact]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            coordinate, sha256, size = line.split()
            group.append(Artifact(coordinate, sha256, int(size)))
    return groups


def download(address: str, file: Path, max_bytes: int) -> str:
    """Download an address into a file and return its SHA-256. A larger response is cut off one byte after the limit."""
    digest, remaining = hashlib.sha256(), max_bytes + 1
    # Any scheme is valid: file:// is a mirror too. A mirror may redirect to any host, because no credentials are sent and the
    # digest is checked.
    opener = make_opener(timeout=_IDLE_SECONDS + max_bytes / _MIN_SPEED, tls=build_tls_context())
    with opener.open(address, timeout=_IDLE_SECONDS) as response, file.open("wb") as out:
        while remaining and (chunk := response.read(min(remaining, 1 << 20))):
            digest.update(chunk)
            out.write(chunk)
            remaining -= len(chunk)
    return digest.hexdigest()


def describe(coordinate: str) -> Artifact:
    """Return an artifact with its digest and size, from a temporary download. Raises the errors of ``download``."""
    with tempfile.TemporaryDirectory(prefix="headrace-lock-") as folder:
        file = Path(folder, "artifact")
        digest = download(f"{repository()}/{path_of(coordinate)}", file, _MAX_BYTES)
        return Artifact(coordinate, digest, file.stat().st_size)


@contextmanager
def hold_lock(cache: Path, report: Callable[[str], None] = lambda text: None) -> Iterator[int]:
    """Lock a cache against other processes and yield the lock's descriptor, which a child process may inherit.

    The lock ends with the processes that hold the descriptor. ConfigError if the cache is not writable.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report("waiting for another process that is fetching jars")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock.fileno()
    except OSError as error:
        raise ConfigError(
            f"the cache is not writable: {error.strerror or error}",
            where=str(cache),
            fix="set HEADRACE_CACHE to a writable folder on a disk with free space",
        ) from error


def _is_retriable(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code == 429
    if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
        return False
    return not (isinstance(error, OSError) and error.errno in _DISK_ERRORS)
