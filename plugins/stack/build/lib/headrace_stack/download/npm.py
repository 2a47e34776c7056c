"""Packages of npm, fetched by npm itself: with its registry, its proxies and its certificates."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from headrace.errors import ConfigError, RetriableError
from headrace.runtime.jars.artifacts import Artifact

#: What the coordinate of a package begins with in a lock: ``npm:NAME:VERSION:tgz``.
GROUP = "npm:"
_SECONDS = 300


def find_program(name: str) -> str:
    """The path of ``node`` or ``npm``; ConfigError where it is not on the PATH."""
    if program := shutil.which(name):
        return program
    raise ConfigError(f"there is no {name} on the PATH", fix="install Node 18 or a later one, which brings npm")


def fetch(artifact: Artifact, cache: Path, report: Callable[[str], None]) -> None:
    """A package of the lock into the cache, under its name when its digest is right. ConfigError when it has another."""
    report(f"{artifact.coordinate}: fetching {artifact.size / 1e6:.0f} MB by npm into {cache}, once")
    target = cache / artifact.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="half-", dir=target.parent) as folder:
        file = pack(artifact.coordinate, Path(folder))
        if (digest := digest_of(file)) != artifact.sha256:
            raise ConfigError(
                f"it has SHA-256 {digest}, and artifacts.lock wants {artifact.sha256}: it was not kept",
                where=artifact.coordinate,
                fix="ask who runs the registry that `npm config get registry` names what they changed",
            )
        file.replace(target)


def describe(coordinate: str) -> Artifact:
    """A package with its digest and size, fetched for that and not kept."""
    with tempfile.TemporaryDirectory(prefix="headrace-lock-") as folder:
        file = pack(coordinate, Path(folder))
        return Artifact(coordinate, digest_of(file), file.stat().st_size)


def pack(coordinate: str, folder: Path) -> Path:
    """The package as npm packs it into an empty folder."""
    _, name, version, _ = coordinate.split(":")
    command = [find_program("npm"), "pack", f"{name}@{version}", "--ignore-scripts", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd=folder, check=False)
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if line.startswith("npm error")), done.stderr.strip())
        raise RetriableError(
            f"npm cannot fetch it: {said}",
            where=coordinate,
            fix="check the network, and what npm is told: `npm config list` (npm_config_registry names a mirror); without a network "
            "run `python -m headrace_stack fetch` on a machine that has one and copy its cache folder here",
        )
    (file,) = folder.glob("*.tgz")
    return file


def digest_of(file: Path) -> str:
    """Its SHA-256."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
