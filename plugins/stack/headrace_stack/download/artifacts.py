"""Artifacts of the servers in ``artifacts.lock``, fetched once per machine into headrace's cache."""

from __future__ import annotations

import platform
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from headrace.errors import ConfigError
from headrace.runtime.jars.artifacts import Artifact, Fetcher, hold_lock, parse_lock
from headrace.runtime.jars.resolution import cache_home
from headrace_stack.download import npm

LOCK = Path(__file__).with_name("artifacts.lock")


def read_lock(lock: Path = LOCK) -> dict[str, list[Artifact]]:
    """Return group → artifacts of the lock."""
    return parse_lock(lock.read_text(encoding="utf-8"))


def fetch(*groups: str, say: Callable[[str], None] | None = None) -> list[Path]:
    """Return the files of groups of the lock, and fetch missing ones; ``say`` (default: stderr) receives progress lines.

    RetriableError if the repository does not respond. ConfigError if it lacks a file, if a digest differs from the lock, and
    if the cache is not writable.
    """
    wanted = {artifact.path: artifact for group in groups for artifact in read_lock()[group]}
    fetcher = Fetcher(_cache(), "artifacts.lock", "python -m headrace_stack fetch", say or report_to_stderr)
    if fetcher.find_missing(wanted.values()):
        with hold_lock(fetcher.folder):
            # Another process may have fetched them meanwhile.
            missing = fetcher.find_missing(wanted.values())
            packages = [artifact for artifact in missing if artifact.coordinate.startswith(npm.GROUP)]
            for package in packages:
                npm.fetch(package, fetcher.folder, fetcher.report)
            if files := [artifact for artifact in missing if artifact not in packages]:
                fetcher.fetch(files, ", ".join(groups))
    return [fetcher.folder / path for path in wanted]


def unpack(group: str) -> Path:
    """Unpack the archive of ``group`` and return the folder. Errors as in ``fetch``."""
    (artifact,) = read_lock()[group]
    cache = _cache()
    folder = cache / "unpacked" / f"{group}-{artifact.sha256[:12]}"
    if not folder.is_dir():
        (archive,) = fetch(group)
        with hold_lock(cache):
            if not folder.is_dir():
                folder.parent.mkdir(exist_ok=True)
                half = Path(tempfile.mkdtemp(prefix="half-", dir=folder.parent))
                _extract(archive, half)
                half.rename(folder)
            # The archive has up to 140 MB and is no longer needed.
            archive.unlink(missing_ok=True)
    return folder


def unpack_native(group: str) -> Path:
    """Unpack native programs; ConfigError on an unsupported platform."""
    if (machine := (platform.system(), platform.machine())) != ("Linux", "x86_64"):
        raise ConfigError(
            f"{group} does not support {' on '.join(machine)}",
            fix="run these tests on Linux on x86_64, or without this server",
        )
    return unpack(group)


def fetch_everything() -> None:
    """Fetch the artifacts of all servers. Errors as in ``fetch``."""
    for group, artifacts in read_lock().items():
        if len(artifacts) == 1:
            unpack(group)
        else:
            fetch(group)


def report_to_stderr(text: str) -> None:
    """Print a progress line."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _cache() -> Path:
    return cache_home() / "stack"


def _extract(archive: Path, folder: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as jar:
            jar.extractall(folder)  # noqa: S202 - its digest is in the lock
        # Zip files from Java have no file modes.
        for program in folder.rglob("bin/*"):
            program.chmod(0o755)
        for inner in folder.glob("*.txz"):
            _extract(inner, folder)
            inner.unlink()
    else:
        with tarfile.open(archive) as tar:
            # Filters exist since Python 3.11.4.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(folder)  # noqa: S202 - its digest is in the lock
