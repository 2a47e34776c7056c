"""Location of the demo data: the clone, or the distribution ``headrace-demo-data``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_PACKAGE = "headrace_demo_data"
#: Where a clone of the repository has the data.
_CLONE = Path(__file__).parents[2] / "demo-data" / _PACKAGE


def has_data() -> bool:
    """Return whether the demo data is installed."""
    return _CLONE.is_dir() or find_spec(_PACKAGE) is not None


def find_data(name: str) -> Path:
    """Return the folder of one data set, which must be installed."""
    if _CLONE.is_dir():
        return _CLONE / name
    package = find_spec(_PACKAGE)
    assert package, "check_extras comes before"
    return Path(str(package.origin)).parent / name
