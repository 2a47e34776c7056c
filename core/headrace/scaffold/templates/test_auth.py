from pathlib import Path

import pytest

from headrace import ConfigError, Pipeline


def pipeline(folder: Path, **login: str) -> Pipeline:
    kafka = {"bootstrap.servers": "broker:9092", "subscribe": "shop.people", "auth": {"example": login}}
    return Pipeline.from_dict(
        {
            "name": "people",
            "source": {"kafka": kafka, "value": "json"},
            "sink": "console",
            "checkpoint": str(folder / "checkpoint"),
        }
    )


def test_the_login_is_kafkas_and_the_password_is_nowhere_else(tmp_path: Path) -> None:
    source = pipeline(tmp_path, username="orders", password='p"ass').source
    options = source.config.auth.client_options("broker:9092")
    assert options["sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["sasl.jaas.config"].endswith(r'ScramLoginModule required username="orders" password="p\"ass";')
    assert 'p"ass' not in repr(source.config)


def test_a_login_without_a_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="password"):
        pipeline(tmp_path, username="orders")
