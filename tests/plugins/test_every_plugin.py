"""What headrace brings keeps what every plugin has to keep; what each kind has to keep is tested where the kind is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.sdk.plugin import Plugin
from headrace.sdk.plugin_checks import BASES
from headrace.sdk.plugins import registry
from headrace.testing.plugins import PluginConformance

#: Kind and name → options with which it works; ``{folder}`` is an empty one.
OPTIONS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("source", "files"): {"path": "{folder}", "format": "json"},
    ("source", "kafka"): {"bootstrap.servers": "broker:9092", "subscribe": "shop.people"},
    ("source", "kinesis"): {"stream": "shop", "region": "eu-west-1"},
    ("format", "avro"): {"registry": "http://registry:8081", "basic.auth.user.info": "reader:hush and hush"},
    ("format", "json"): {"registry": "http://registry:8081", "bearer.auth.token": "hush and hush"},
    ("format", "parquet"): {},
    ("dialect", "debezium"): {},
    ("dialect", "dms"): {},
    ("dialect", "flat"): {},
    ("transform", "mask"): {"columns": {"name": {"sha256": {"salt": "pepper and salt of 24 b."}}}},
    ("transform", "rename"): {"columns": {"name": "artist"}},
    ("transform", "unwrap"): {},
    ("sink", "console"): {},
    ("sink", "files"): {"path": "{folder}"},
    ("sink", "hudi"): {"path": "{folder}"},
    ("sink", "iceberg"): {"warehouse": "{folder}"},
    ("sink", "s3"): {"path": "s3a://lake/tables", "flush.size": 1000},
    ("auth", "msk-iam"): {"region": "eu-west-1"},
    ("filesystem", "s3a"): {},
    ("catalog", "glue"): {"region": "eu-west-1"},
}
#: Says of every pipeline why it does not work.
REFUSES = ("format", "protobuf")


class _Kit(PluginConformance):
    options: ClassVar[Mapping[str, Any]]

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {key: str(folder) if value == "{folder}" else value for key, value in self.options.items()}


def test_none_is_left_out() -> None:
    brought = [item for item in registry().registrations() if item.kind in BASES and item.is_own]
    assert {(item.kind, item.name) for item in brought} == {*OPTIONS, REFUSES}


for (kind, name), options in OPTIONS.items():
    plugin: type[Plugin] = registry().get(kind, name)
    test = f"Test{plugin.__name__}"
    globals()[test] = type(test, (_Kit,), {"plugin_class": plugin, "options": options})
