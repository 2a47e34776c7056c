"""Built-in transforms: ``from headrace_transforms import Mask``."""

from typing import TYPE_CHECKING

from headrace.sdk import hookimpl
from headrace.sdk.exports import lazy_plugins

if TYPE_CHECKING:
    from headrace_transforms.cast import Cast as Cast
    from headrace_transforms.compute import Compute as Compute
    from headrace_transforms.drop import Drop as Drop
    from headrace_transforms.expand import Expand as Expand
    from headrace_transforms.explode import Explode as Explode
    from headrace_transforms.filter import Filter as Filter
    from headrace_transforms.flatten import Flatten as Flatten
    from headrace_transforms.insert import Insert as Insert
    from headrace_transforms.keep import Keep as Keep
    from headrace_transforms.lookup import Lookup as Lookup
    from headrace_transforms.mask import Mask as Mask
    from headrace_transforms.outbox import Outbox as Outbox
    from headrace_transforms.rename import Rename as Rename
    from headrace_transforms.timestamp import Timestamp as Timestamp
    from headrace_transforms.unwrap import Unwrap as Unwrap

#: Name in a pipeline file → module and class.
_CLASSES = {
    "unwrap": "headrace_transforms.unwrap:Unwrap",
    "outbox": "headrace_transforms.outbox:Outbox",
    "rename": "headrace_transforms.rename:Rename",
    "keep": "headrace_transforms.keep:Keep",
    "drop": "headrace_transforms.drop:Drop",
    "cast": "headrace_transforms.cast:Cast",
    "timestamp": "headrace_transforms.timestamp:Timestamp",
    "insert": "headrace_transforms.insert:Insert",
    "compute": "headrace_transforms.compute:Compute",
    "expand": "headrace_transforms.expand:Expand",
    "explode": "headrace_transforms.explode:Explode",
    "flatten": "headrace_transforms.flatten:Flatten",
    "filter": "headrace_transforms.filter:Filter",
    "lookup": "headrace_transforms.lookup:Lookup",
    "mask": "headrace_transforms.mask:Mask",
}


@hookimpl
def headrace_transforms() -> dict[str, str]:
    """Return the transforms, by name."""
    return _CLASSES


@hookimpl
def headrace_commands() -> dict[str, str]:
    """Return the commands of this plugin."""
    return {"scan": "headrace_transforms.scan.command:scan|Report columns of files that look like personal data."}


__getattr__ = lazy_plugins(__name__, _CLASSES)
