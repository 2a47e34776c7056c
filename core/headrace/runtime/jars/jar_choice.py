"""Choice of a plugin's jars by the running version of Spark."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from headrace.errors import ConfigError
from headrace.sdk.plugin import Plugin


class SparkVersion(NamedTuple):
    """Version of Spark without a vendor's suffix. The patch of a line (``3.5``) is infinite: it is newer than each patch."""

    major: int
    minor: int
    patch: float

    @property
    def line(self) -> str:
        """The minor version, for which plugins declare jars: ``3.5``."""
        return f"{self.major}.{self.minor}"

    @property
    def is_line(self) -> bool:
        """Whether the version has no patch."""
        return math.isinf(self.patch)

    def __str__(self) -> str:
        return self.line if self.is_line else f"{self.line}.{self.patch}"


def parse_version(text: str) -> SparkVersion:
    """Return a version of Spark: (3, 5, 4) for ``3.5.4-amzn-0``. ConfigError for a text without a minor version."""
    numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if not numbers:
        raise ConfigError(
            f"PySpark has a version that is not one of Spark: {text!r}", fix="pip install 'headrace[spark]'"
        )
    major, minor, patch = numbers.groups()
    return SparkVersion(int(major), int(minor), math.inf if patch is None else int(patch))


def choose_key(keys: Iterable[str], version: str) -> str | None:
    """Return the key of ``Plugin.jars`` for a version of Spark; None if the plugin has no jars for it.

    A line (``3.5``) applies to all its patches. Of the patches of a line (``3.5.7``), the nearest one applies: the newest that is not
    newer than Spark, because each patch keeps the classes of the previous ones; otherwise the oldest. A Spark that is newer than all
    keys gets the newest patch of its major version.
    """
    running, known = parse_version(version), {parse_version(key): key for key in keys}
    line = running._replace(patch=math.inf)
    if chosen := known.get(running) or known.get(line):
        return chosen
    patches = sorted(key for key in known if not key.is_line and key.major == running.major)
    of_line = [key for key in patches if key.line == running.line]
    older = [key for key in of_line or patches if key <= running]
    if not of_line and any(key > line for key in known):
        return None
    nearest = older[-1:] or of_line[:1]
    return known[nearest[0]] if nearest else None


def choose_jars(plugin: Plugin | type[Plugin], version: str) -> tuple[str, ...]:
    """Return the coordinates of a plugin's jars for a version of Spark."""
    key = choose_key(plugin.jars, version)
    return () if key is None else tuple(plugin.jars[key])


def list_coordinates(plugins: Iterable[Plugin], version: str) -> list[str]:
    """Return the distinct Maven coordinates of plugins for a version of Spark."""
    return list(dict.fromkeys(c for plugin in plugins for c in choose_jars(plugin, version)))


def find_nearest(plugins: Iterable[Plugin | type[Plugin]], version: str) -> dict[str, list[str]]:
    """Return patch → names of the plugins that have jars of this patch only, and not of the running one."""
    found: dict[str, list[str]] = {}
    for plugin in plugins:
        key = choose_key(plugin.jars, version)
        if key and not parse_version(key).is_line and parse_version(key) != parse_version(version):
            found.setdefault(key, []).append(plugin.name)
    return {key: list(dict.fromkeys(names)) for key, names in found.items()}
