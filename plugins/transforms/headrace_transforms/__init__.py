"""Built-in transforms."""

from headrace.sdk import hookimpl


@hookimpl
def headrace_transforms() -> dict[str, str]:
    """Their names."""
    return {
        "unwrap": "headrace_transforms.unwrap:Unwrap",
        "rename": "headrace_transforms.rename:Rename",
        "mask": "headrace_transforms.mask:Mask",
    }
