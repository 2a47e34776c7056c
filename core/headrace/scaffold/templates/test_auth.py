# mypy: disable-error-code="import-not-found, misc"
from pathlib import Path

from headrace_example import Example

from headrace import Pipeline
from headrace.testing.plugins import PluginConformance


class TestExample(PluginConformance):
    """Tests for every plugin, such as that secrets are never shown."""

    plugin_class = Example

    def config(self, folder: Path) -> dict[str, str]:
        return {"username": "orders", "password": 'a p"assword'}


def test_the_options_are_those_of_kafka(tmp_path: Path) -> None:
    login = {"username": "orders", "password": 'a p"assword'}
    kafka = {"bootstrap.servers": "broker:9092", "subscribe": "shop.people", "auth": {"example": login}}
    file = {
        "name": "people",
        "source": {"kafka": kafka, "value": "json"},
        "sink": "console",
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    options = Pipeline.from_dict(file).source.config.auth.client_options("broker:9092")
    assert options["sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["sasl.jaas.config"].endswith(r'ScramLoginModule required username="orders" password="a p\"assword";')
