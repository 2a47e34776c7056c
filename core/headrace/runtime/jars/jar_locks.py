"""The locks of plugins: a file ``jars.lock`` in a plugin's package names every jar that it needs, with its digest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from headrace.errors import ConfigError
from headrace.runtime.jars.artifacts import Artifact, parse_lock
from headrace.sdk.plugin import Plugin

#: Coordinate → the jars that it is made of, itself among them.
Locks = Mapping[str, Sequence[Artifact]]
#: A coordinate → the jars that it is made of, found out by Ivy.
ResolveJars = Callable[[str], Sequence[Artifact]]

LOCK = "jars.lock"


def read_locks(plugins: Iterable[Plugin | type[Plugin]]) -> Locks:
    """What the locks of the plugins' packages name; a package need not have one."""
    locks: dict[str, Sequence[Artifact]] = {}
    for plugin in plugins:
        kind = plugin if isinstance(plugin, type) else type(plugin)
        locks.update(_read_lock(package_of(kind)))
    return locks


def package_of(plugin: type[Plugin]) -> str:
    """The package in which a plugin's lock lies: the outermost."""
    return plugin.__module__.partition(".")[0]


def find_locked(coordinates: Iterable[str], locks: Locks) -> list[Artifact] | None:
    """The jars of these coordinates, each once; None where a lock lacks one, or two want different versions of a jar."""
    jars: dict[str, Artifact] = {}
    for coordinate in coordinates:
        if coordinate not in locks:
            return None
        for artifact in locks[coordinate]:
            if jars.setdefault(artifact.coordinate.rpartition(":")[0], artifact) != artifact:
                return None
    return list(jars.values())


@cache
def _read_lock(package: str) -> Locks:
    try:
        text = files(package).joinpath(LOCK).read_text(encoding="utf-8")
    except (OSError, ModuleNotFoundError, AttributeError, TypeError):  # no file, or no package
        return {}
    try:
        return parse_lock(text)
    except ValueError:
        raise ConfigError(
            "not lines of coordinate, SHA-256 and size",
            where=f"{LOCK} of {package}",
            fix=f"write it again: headrace jars --lock {package}",
        ) from None


def write_lock(plugins: Iterable[type[Plugin]], package: str, resolve: ResolveJars) -> Path:
    """Writes the lock of a package that lies in a folder: what its plugins need on every Spark. ``resolve``: Ivy."""
    needed = sorted({c for p in plugins if package_of(p) == package for line in p.jars.values() for c in line})
    lines = ["# Made by `headrace jars --lock`: what each coordinate is made of, with SHA-256 and size in bytes."]
    for coordinate in needed:
        lines += ["", f"[{coordinate}]", *sorted(map(str, resolve(coordinate)))]
    file = Path(str(files(package))) / LOCK
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
