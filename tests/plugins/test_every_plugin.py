"""What headrace brings keeps what every plugin has to keep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.registry.plugin_registry import registry
from headrace.registry.validation import BASES
from headrace.sdk.plugin import Plugin
from headrace.testing.plugins import PluginConformance

#: Kind and name → options with which it works; ``{folder}`` is an empty one.
OPTIONS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("source", "files"): {"path": "{folder}", "format": "json"},
    ("format", "parquet"): {},
    ("sink", "console"): {},
    ("auth", "msk-iam"): {"region": "eu-west-1"},
    ("filesystem", "s3a"): {},
    ("catalog", "glue"): {"region": "eu-west-1"},
}
#: Those that the kit of their kind asks for it: here, in test_kits.py, or where their tests start servers.
ELSEWHERE = {
    ("source", "kafka"),
    ("source", "kinesis"),
    *(("transform", name) for name in ("mask", "rename", "unwrap")),
    *(("dialect", name) for name in ("debezium", "dms", "flat")),
    *(("connector", name) for name in ("mariadb", "mysql", "postgresql", "sqlserver")),
    *(("format", name) for name in ("avro", "json")),
    *(("sink", name) for name in ("files", "hudi", "iceberg", "s3")),
}
#: Says of every pipeline why it does not work.
REFUSES = ("format", "protobuf")


class _Kit(PluginConformance):
    options: ClassVar[Mapping[str, Any]]

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {key: str(folder) if value == "{folder}" else value for key, value in self.options.items()}


def test_none_is_left_out() -> None:
    brought = [item for item in registry().registrations() if item.kind in BASES and item.is_own]
    assert {(item.kind, item.name) for item in brought} == {*OPTIONS, *ELSEWHERE, REFUSES}


for (kind, name), options in OPTIONS.items():
    plugin: type[Plugin] = registry().get(kind, name)
    test = f"Test{plugin.__name__}"
    globals()[test] = type(test, (_Kit,), {"plugin_class": plugin, "options": options})
