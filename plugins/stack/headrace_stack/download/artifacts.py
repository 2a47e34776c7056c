"""What servers are made of, as ``artifacts.lock`` names it, fetched once per machine into headrace's cache."""

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
    """Group → its artifacts, as the lock has them."""
    return parse_lock(lock.read_text(encoding="utf-8"))


def fetch(*groups: str, say: Callable[[str], None] | None = None) -> list[Path]:
    """The files of some groups of the lock; what the cache lacks is fetched, and ``say`` (default: stderr) gets lines about it.

    RetriableError when the repository does not answer, ConfigError when it lacks a file or has another one than the
    lock, and when the cache cannot be written.
    """
    wanted = {artifact.path: artifact for group in groups for artifact in read_lock()[group]}
    fetcher = Fetcher(_cache(), "artifacts.lock", "python -m headrace_stack fetch", say or report_to_stderr)
    if fetcher.find_missing(wanted.values()):
        with hold_lock(fetcher.folder):
            # Another process may have fetched them while this one waited.
            missing = fetcher.find_missing(wanted.values())
            packages = [artifact for artifact in missing if artifact.coordinate.startswith(npm.GROUP)]
            for package in packages:
                npm.fetch(package, fetcher.folder, fetcher.report)
            if files := [artifact for artifact in missing if artifact not in packages]:
                fetcher.fetch(files, ", ".join(groups))
    return [fetcher.folder / path for path in wanted]


def unpack(group: str) -> Path:
    """Unpack the one archive of ``group``; the folder with what it held. Errors as ``fetch``."""
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
    for group, artifacts in read_lock().items():
        if len(artifacts) == 1:
            unpack(group)
        else:
            fetch(group)


def report_to_stderr(text: str) -> None:
    """Say to a person what they wait for."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _cache() -> Path:
    return cache_home() / "stack"


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
