"""Damaged files of a checkpoint: the error names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint.backlog import Backlog
from headrace.checkpoint.epochs import Epochs
from headrace.checkpoint.mask_log import MaskLog
from headrace.checkpoint.orders import Orders
from headrace.checkpoint.source_tables import SourceTables
from headrace.dead_letters.replay_queue import ReplayQueue
from headrace.errors import ConfigError
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.spark.storage import Folder
from headrace.upsert.snapshots import NewestSnapshot
from headrace.upsert.table_modes import TableModes
from headrace.upsert.table_sources import TableSources
from headrace.upsert.truncates import TruncateMarker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

#: File → what reads it, and a content of another shape. Each is also emptied and cut.
FILES: dict[str, tuple[Callable[[SparkSession, Folder], object], str]] = {
    "epochs.json": (lambda spark, folder: Epochs(folder), "[1]"),
    "orders.json": (lambda spark, folder: Orders(folder), '{"shop.people": {"order": "lsn"}}'),
    "masks.json": (lambda spark, folder: MaskLog(folder).compare({}, 0), "[1]"),
    "shop.people.table.json": (lambda spark, folder: SourceTables(folder).get("shop.people"), "[1]"),
    "shop.people-value.json": (lambda spark, folder: SchemaLog(folder).get("shop.people-value"), '{"type": "struct"}'),
    "shop.people-value.writers.json": (
        lambda spark, folder: SchemaLog(folder).writers(Subject("shop.people", "value")),
        "[1]",
    ),
    "people": (lambda spark, folder: NewestSnapshot(folder, "people"), '{"position": "0"}'),
    "places": (lambda spark, folder: TableSources(folder, "places"), '{"shop.places": 1}'),
    "paths": (lambda spark, folder: TruncateMarker(folder, "paths"), '{"shop.paths": null}'),
    "people.json": (lambda spark, folder: TableModes(folder, "people"), "[1]"),
    "0000000003.json": (lambda spark, folder: Backlog(folder), '{"first": 3}'),
    "_claim": (lambda spark, folder: ReplayQueue(spark, folder).finish_claim(), "{}"),
}


@pytest.mark.parametrize("name", FILES)
def test_error_names_the_file(spark: SparkSession, tmp_path: Path, name: str) -> None:
    read, other = FILES[name]
    for text in ("", "{", "\0" * 20, other):
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match="is damaged\n  fix: restore it") as error:
            read(spark, Folder(spark, str(tmp_path)))
        assert str(error.value.where).endswith(name)
