# mypy: disable-error-code="import-not-found, misc"
from pathlib import Path

from headrace_example import Example

from headrace.testing.sinks import SinkConformance


class TestExample(SinkConformance):
    """What every plugin has to keep, and what a sink that claims these `capabilities`: some thirty tests of headrace's."""

    plugin_class = Example

    def config(self, folder: Path) -> dict[str, str]:
        return {"path": str(folder)}
