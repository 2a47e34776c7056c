# mypy: disable-error-code="import-not-found"
from pathlib import Path

from headrace_acme.sink import AcmeCsv

from headrace.testing.sinks import SinkConformance


class TestAcmeCsv(SinkConformance):
    plugin_class = AcmeCsv

    def config(self, folder: Path) -> dict[str, str]:
        return {"path": str(folder)}
