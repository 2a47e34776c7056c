"""Location of the demo data: the clone, or the distribution ``headrace-demo-data``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from headrace.errors import ConfigError

_PACKAGE = "headrace_demo_data"
#: Where a clone of the repository has the data.
_CLONE = Path(__file__).parents[2] / "demo-data" / _PACKAGE


def find_data(name: str, command: str) -> Path:
    """Return the folder of one data set. ConfigError if the data of ``command`` is not installed."""
    if _CLONE.is_dir():
        return _CLONE / name
    package = find_spec(_PACKAGE)
    if not package or not package.origin:
        raise ConfigError("the demo data is not installed", where=command, fix="pip install 'headrace[demo]'")
    return Path(package.origin).parent / name
