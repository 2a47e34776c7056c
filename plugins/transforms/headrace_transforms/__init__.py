"""Built-in transforms: ``from headrace_transforms import Mask``."""

from typing import TYPE_CHECKING

from headrace.sdk import hookimpl
from headrace.sdk.exports import lazy_plugins

if TYPE_CHECKING:
    from headrace_transforms.mask import Mask as Mask
    from headrace_transforms.rename import Rename as Rename
    from headrace_transforms.unwrap import Unwrap as Unwrap

#: Name in a pipeline file → module and class.
_CLASSES = {
    "unwrap": "headrace_transforms.unwrap:Unwrap",
    "rename": "headrace_transforms.rename:Rename",
    "mask": "headrace_transforms.mask:Mask",
}


@hookimpl
def headrace_transforms() -> dict[str, str]:
    """Return the transforms, by name."""
    return _CLASSES


__getattr__ = lazy_plugins(__name__, _CLASSES)
