"""Built-in transforms."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.sdk import hookimpl

if TYPE_CHECKING:
    from headrace_transforms.mask import Mask as Mask
    from headrace_transforms.rename import Rename as Rename
    from headrace_transforms.unwrap import Unwrap as Unwrap

#: The name that users write → where the class is.
_CLASSES = {
    "unwrap": "headrace_transforms.unwrap:Unwrap",
    "rename": "headrace_transforms.rename:Rename",
    "mask": "headrace_transforms.mask:Mask",
}


@hookimpl
def headrace_transforms() -> dict[str, str]:
    """The transforms by the names that users write."""
    return _CLASSES


# Imported on first use: to list plugins needs none of them. Without __dir__, as who looks for hooks asks for all of its names.
def __getattr__(name: str) -> Any:
    for place in _CLASSES.values():
        module, _, attribute = place.partition(":")
        if attribute == name:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
