"""Conformance of the transforms that change the columns of rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.transforms import TransformConformance as _Kit
from headrace_transforms import Cast, Compute, Drop, Filter, Flatten, Insert, Keep, Timestamp

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


class TransformConformance(_Kit):
    """The kit without the test that starts a process, which the kit of `mask` has."""

    test_plugin_is_picklable = None  # type: ignore[assignment]


class TestKeep(TransformConformance):
    plugin_class = Keep
    schema = "id int, name string, note string"
    golden = (((1, "Arp", "x"), (1, "Arp")), ((2, None, None), (2, None)))

    def config(self, folder: Path) -> dict[str, Any]:
        return {"columns": ["name"]}


class TestDrop(TransformConformance):
    plugin_class = Drop
    schema = "id int, name string, note string"
    golden = (((1, "Arp", "x"), (1, "Arp")), ((2, None, None), (2, None)))

    def config(self, folder: Path) -> dict[str, Any]:
        return {"columns": ["note"]}


class TestCast(TransformConformance):
    plugin_class = Cast
    schema = "id int, price string, size bigint"
    golden = (((1, "1.50", 7), ("1", Decimal("1.50"), 7)), ((2, None, None), ("2", None, None)))

    def config(self, folder: Path) -> dict[str, Any]:
        return {"columns": {"id": "string", "price": "decimal(10,2)", "size": "int32"}}


class TestCompute(TransformConformance):
    plugin_class = Compute
    schema = "id int, first string, last string"
    golden = (((1, "Jean", "Arp"), (1, "JEAN", "Arp", "Jean Arp")), ((2, None, "Höch"), (2, None, "Höch", None)))

    def config(self, folder: Path) -> dict[str, Any]:
        return {"columns": {"first": "upper(first)", "full name": "concat(first, ' ', last)"}}


class TestFlatten(TransformConformance):
    plugin_class = Flatten
    schema = "id int, address struct<city string, geo struct<lat double>>"
    golden = (((1, {"city": "Bern", "geo": {"lat": 46.9}}), (1, "Bern", 46.9)), ((2, None), (2, None, None)))

    def config(self, folder: Path) -> dict[str, Any]:
        return {"columns": ["address"], "delimiter": "_"}


class TestFilter(TransformConformance):
    """The kit compares rows one by one, so all of them fulfill the condition. These tests remove a value that it needs."""

    plugin_class = Filter
    schema = "id int, country string"
    golden = (((1, "CH"), (1, "CH")), ((2, "CH"), (2, "CH")))

    def config(self, folder: Path) -> dict[str, Any]:
        return {"condition": "country = 'CH'", "updates": "drop"}

    test_reads_lists_all_columns_that_are_read = None  # type: ignore[assignment]
    test_missing_image_stays_null = None  # type: ignore[assignment]


class TestTimestamp(TransformConformance):
    plugin_class = Timestamp
    schema = "id int, at bigint"
    golden = (((1, 1_700_000_000), (1, "2023-11-14 22:13")), ((2, None), (2, None)))

    def config(self, folder: Path) -> dict[str, Any]:
        return {"field": "at", "target.type": "string", "format": "yyyy-MM-dd HH:mm", "unix.precision": "seconds"}


class TestInsert(TransformConformance):
    plugin_class = Insert
    schema = "id int"
    golden = (((1,), (1, "shop", "kit.people")), ((2,), (2, "shop", "kit.people")))

    def config(self, folder: Path) -> dict[str, Any]:
        return {"static.field": "system", "static.value": "shop", "topic.field": "topic?"}

    test_table_without_the_columns_is_unchanged = None  # type: ignore[assignment] # it needs no column
