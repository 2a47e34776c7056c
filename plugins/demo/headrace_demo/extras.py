"""Extras of headrace that the demo commands require."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec

from headrace.errors import ConfigError
from headrace_demo.data import has_data

#: Extra → whether it is installed.
_INSTALLED: Mapping[str, Callable[[], bool]] = {
    "demo": has_data,
    "spark": lambda: find_spec("pyspark") is not None,
    "stack": lambda: find_spec("headrace_stack") is not None,
}


def check_extras(command: str, *extras: str) -> None:
    """Raise one ConfigError that names all missing extras."""
    missing = sorted(extra for extra in extras if not _INSTALLED[extra]())
    if missing:
        noun = "extra is" if len(missing) == 1 else "extras are"
        raise ConfigError(
            f"the {noun} not installed: {', '.join(missing)}",
            where=command,
            fix=f"pip install 'headrace[{','.join(missing)}]'",
        )
