# mypy: disable-error-code="import-not-found, misc"
from pathlib import Path

from headrace_example import Example

from headrace.testing.sinks import SinkConformance


class TestExample(SinkConformance):
    """Some thirty tests of headrace's, by what the sink's `capabilities` claim."""

    sink_class = Example

    def config(self, folder: Path) -> dict[str, str]:
        return {"path": str(folder)}
