"""Plugins with conflicts: a source whose name another distribution has, and a transform for an older plugin API."""

from headrace.sdk import Changes, Transform, hookimpl


class Lower(Transform):
    name = "rival_lower"
    api_version = 0

    def apply(self, changes: Changes) -> Changes:
        return changes


@hookimpl
def headrace_sources() -> dict[str, str]:
    return {"acme_log": "headrace_rival:Log"}


@hookimpl
def headrace_transforms() -> dict[str, type[Transform]]:
    return {"rival_lower": Lower}
