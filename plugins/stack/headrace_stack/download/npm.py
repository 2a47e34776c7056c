"""Packages fetched by npm, with its registry, proxy and certificate settings."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from headrace.errors import ConfigError, RetriableError
from headrace.runtime.jars.artifacts import Artifact

#: Prefix of npm coordinates in the lock: ``npm:NAME:VERSION:tgz``.
GROUP = "npm:"
_SECONDS = 300


def find_program(name: str) -> str:
    """Return the path of ``node`` or ``npm``; ConfigError if it is not on the PATH."""
    if program := shutil.which(name):
        return program
    raise ConfigError(f"{name} is not on the PATH", fix="install Node 18 or later, which includes npm")


def fetch(artifact: Artifact, cache: Path, report: Callable[[str], None]) -> None:
    """Fetch a package of the lock into the cache. ConfigError for a different digest."""
    report(f"{artifact.coordinate}: fetching {artifact.size / 1e6:.0f} MB with npm into {cache}, once")
    target = cache / artifact.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="half-", dir=target.parent) as folder:
        file = pack(artifact.coordinate, Path(folder))
        if (digest := digest_of(file)) != artifact.sha256:
            raise ConfigError(
                f"SHA-256 mismatch: the file has {digest}, and artifacts.lock has {artifact.sha256}; the file was discarded",
                where=artifact.coordinate,
                fix="ask the operator of the registry in `npm config get registry` about the change",
            )
        file.replace(target)


def describe(coordinate: str) -> Artifact:
    """Fetch a package and return it with digest and size; the file is not kept."""
    with tempfile.TemporaryDirectory(prefix="headrace-lock-") as folder:
        file = pack(coordinate, Path(folder))
        return Artifact(coordinate, digest_of(file), file.stat().st_size)


def pack(coordinate: str, folder: Path) -> Path:
    """Download a package into an empty folder with ``npm pack``."""
    _, name, version, _ = coordinate.split(":")
    command = [find_program("npm"), "pack", f"{name}@{version}", "--ignore-scripts", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd=folder, check=False)
    if done.returncode:
        line = next((line for line in done.stderr.splitlines() if line.startswith("npm error")), done.stderr.strip())
        raise RetriableError(
            f"npm cannot fetch the package: {line}",
            where=coordinate,
            fix="check the network and npm's settings: `npm config list` (npm_config_registry names a mirror); without a network "
            "run `python -m headrace_stack fetch` on a machine that has one and copy its cache folder here",
        )
    (file,) = folder.glob("*.tgz")
    return file


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
