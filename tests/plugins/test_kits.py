"""Conformance kits of the shipped dialects, formats and transforms. Kits of sinks and sources are next to their other tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.dialects import DialectConformance
from headrace.testing.formats import FormatConformance
from headrace.testing.transforms import TransformConformance
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.dialects.dms import DmsDialect
from headrace_sources.dialects.flat import FlatDialect
from headrace_sources.formats.avro import AvroFormat
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_transforms.mask import Mask
from headrace_transforms.rename import Rename
from headrace_transforms.unwrap import Unwrap

pytestmark = [pytest.mark.spark, pytest.mark.steps]


class TestMask(TransformConformance):
    plugin_class = Mask
    schema = "id int, email string, home struct<town: string>"
    golden = (
        ((1, "arp@example.org", {"town": "Zürich"}), (1, "arp@", {"town": "Zürich"})),
        ((2, None, None), (2, None, None)),
    )

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"columns": {"email": {"truncate": 4}}}


class TestSaltedMask(TransformConformance):
    plugin_class = Mask
    schema = "email string, born int"
    key = ("email",)
    golden = (
        # printf 'pepper and salt of 24 b.arp@example.org' | sha256sum
        (("arp@example.org", 1886), ("a6d69209b3dfad2ef63715bcb2b7fc07da8075bce4e45056defe3862236e881d", 1886)),
        ((None, None), (None, None)),
    )

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"columns": {"email": {"sha256": {"salt": "pepper and salt of 24 b."}}}}


class TestRename(TransformConformance):
    plugin_class = Rename
    schema = "id int, name string"
    golden = (((1, "Arp"), (1, "Arp")), ((2, None), (2, None)))

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"columns": {"name": "artist", "id": "number"}}


class TestUnwrap(TransformConformance):
    plugin_class = Unwrap
    schema = "id int, name string"
    golden = (((1, "Arp"), (1, "Arp")), ((2, None), (2, None)))

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {}


class TestJson(FormatConformance):
    plugin_class = JsonFormat
    golden = (
        (b'{"id": 1, "name": "Arp, \\"Hans\\""}', {"id": 1, "name": 'Arp, "Hans"'}),
        (b'{"name": null, "id": 2}', {"id": 2, "name": None}),
        ('{"id": 3, "name": "žlutý kůň 🐎"}'.encode(), {"id": 3, "name": "žlutý kůň 🐎"}),
    )
    malformed = (b'{"id": 4, "name": "Kle', b"<id>5</id>")

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {}


class TestAvro(FormatConformance):
    """Bare records with the schema of ``schema.file``. Tests of registries cover records with schema ids."""

    plugin_class = AvroFormat
    golden = ((b"\x02\x02\x06Arp", {"id": 1, "name": "Arp"}), (b"\x04\x00", {"id": 2, "name": None}))
    malformed = (b"\x02\x02\x40Klee", b"\x02")

    def config(self, folder: Path) -> Mapping[str, Any]:
        fields = [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}]
        (folder / "people.avsc").write_text(json.dumps({"type": "record", "name": "people", "fields": fields}))
        return {"schema.file": str(folder / "people.avsc")}


ROW = "struct<id: int, name: string>"


class TestDebezium(DialectConformance):
    plugin_class = DebeziumDialect
    schema = (
        f"before {ROW}, after {ROW}, op string, ts_ms bigint, source struct<connector: string, lsn: bigint, ts_ms: bigint, "
        "snapshot: string, sequence: string, schema: string, table: string>"
    )
    malformed = ({"op": "?", "after": {"id": 9}, "source": {"connector": "postgresql", "lsn": 9}},)

    @staticmethod
    def event(op: str, lsn: int, before: Any, after: Any) -> dict[str, Any]:
        source = {"connector": "postgresql", "lsn": lsn, "ts_ms": 1_600_000_000_000}
        return {"op": op, "before": before, "after": after, "source": source}

    arp, hans, klee = {"id": 1, "name": "Arp"}, {"id": 1, "name": "Hans Arp"}, {"id": 2, "name": "Klee"}
    history = (
        (event("c", 8, None, arp), "c", arp),
        (event("c", 9, None, klee), "c", klee),
        (event("u", 10, arp, hans), "u", hans),
        (event("d", 100, klee, None), "d", klee),
    )

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {}


class TestDms(DialectConformance):
    plugin_class = DmsDialect
    schema = f"data {ROW}, metadata struct<timestamp: string, `record-type`: string, operation: string, `table-name`: string>"
    malformed = ({"data": {"id": 9}, "metadata": {"record-type": "data", "operation": "?", "table-name": "people"}},)

    @staticmethod
    def event(operation: str, second: int, row: Any) -> dict[str, Any]:
        time = f"2024-02-29T10:00:{second:02}.000000Z"
        metadata = {"timestamp": time, "record-type": "data", "operation": operation, "table-name": "people"}
        return {"data": row, "metadata": metadata}

    arp, hans, klee = {"id": 1, "name": "Arp"}, {"id": 1, "name": "Hans Arp"}, {"id": 2, "name": "Klee"}
    history = (
        (event("load", 8, arp), "r", arp),
        (event("insert", 9, klee), "c", klee),
        (event("update", 10, hans), "u", hans),
        (event("delete", 11, klee), "d", klee),
    )

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {}


class TestFlat(DialectConformance):
    """The dialect matches every shape. These events are rows without metadata."""

    plugin_class = FlatDialect
    schema = "id int, name string"
    history = (({"id": 1, "name": "Arp"}, None, {"id": 1}), ({"id": 2, "name": None}, None, {"id": 2}))
    other_shapes = ()
    has_order = False

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {}
