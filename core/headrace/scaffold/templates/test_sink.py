# mypy: disable-error-code="import-not-found, misc"
from pathlib import Path

from headrace_example import Example

from headrace.testing.sinks import SinkConformance


class TestExample(SinkConformance):
    """About thirty tests: those for every plugin and those for a sink with these `capabilities`."""

    plugin_class = Example

    def config(self, folder: Path) -> dict[str, str]:
        return {"path": str(folder)}
