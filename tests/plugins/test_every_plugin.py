"""Conformance of every plugin that headrace ships."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.registry.plugin_registry import registry
from headrace.registry.validation import BASES
from headrace.sdk.plugin import Plugin
from headrace.testing.plugins import PluginConformance

#: Kind and name → options of a working configuration; ``{folder}`` is an empty folder.
OPTIONS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("source", "files"): {"path": "{folder}", "format": "json"},
    ("format", "csv"): {},
    ("format", "parquet"): {},
    ("dialect", "jdbc"): {},
    ("dialect", "lake"): {},
    ("source", "delta"): {"path": "{folder}", "tables": ["silver.orders"]},
    ("source", "hudi"): {"path": "{folder}", "tables": ["silver.orders"]},
    ("source", "iceberg"): {"warehouse": "{folder}", "tables": ["silver.orders"]},
    ("sink", "console"): {},
    ("sink", "kafka"): {"bootstrap.servers": "broker:9092"},
    ("sink", "kinesis"): {"stream": "replica.{name}", "region": "eu-west-1"},
    ("auth", "msk-iam"): {"region": "eu-west-1"},
    ("filesystem", "s3a"): {},
    ("catalog", "glue"): {"region": "eu-west-1"},
    ("catalog", "hive"): {"hive.metastore.uris": "thrift://metastore:9083"},
}
#: Plugins whose kind has its own kit, which runs in test_kits.py or next to the tests that start servers.
TESTED_ELSEWHERE = {
    *(("source", name) for name in ("jdbc", "kafka", "kinesis")),
    *(("transform", name) for name in ("cast", "compute", "drop", "filter", "flatten", "insert", "keep", "timestamp")),
    *(("transform", name) for name in ("expand", "explode", "lookup", "mask", "outbox", "rename", "unwrap")),
    *(("dialect", name) for name in ("debezium", "dms", "flat")),
    *(("connector", name) for name in ("mariadb", "mysql", "postgresql", "sqlserver")),
    *(("format", name) for name in ("avro", "json")),
    *(("observer", name) for name in ("alerts", "cloudwatch", "openlineage", "otel", "serve")),
    *(("sink", name) for name in ("delta", "files", "hudi", "iceberg", "s3")),
}


@pytest.fixture(autouse=True)
def aws_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set keys, without which clients of AWS cannot be created. No request is sent."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


class _Kit(PluginConformance):
    options: ClassVar[Mapping[str, Any]]

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {key: str(folder) if value == "{folder}" else value for key, value in self.options.items()}


def test_every_shipped_plugin_is_covered() -> None:
    shipped = [item for item in registry().registrations() if item.kind in BASES and item.is_own]
    assert {(item.kind, item.name) for item in shipped} == {*OPTIONS, *TESTED_ELSEWHERE}


for (kind, name), options in OPTIONS.items():
    plugin: type[Plugin] = registry().get(kind, name)
    test = f"Test{plugin.__name__}"
    globals()[test] = type(test, (_Kit,), {"plugin_class": plugin, "options": options})
