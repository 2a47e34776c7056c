"""The demonstration: the Museum of Modern Art's collection at three real dates, into two lakehouse tables."""

from headrace.hookspecs import hookimpl


@hookimpl
def headrace_commands() -> dict[str, str]:
    """``headrace demo``."""
    return {"demo": "headrace_demo.command:demo|Run the main job on real data and show what came out."}
