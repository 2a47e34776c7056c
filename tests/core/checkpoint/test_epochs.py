"""Epochs and orders in the checkpoint, by batch and table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint.epochs import Epochs
from headrace.checkpoint.orders import Order, Orders
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Folder:
    return Folder(spark, str(tmp_path))


def test_epoch_applies_from_the_batch_in_which_it_was_raised(folder: Folder) -> None:
    epochs = Epochs(folder)
    epochs.add(3, "restored")
    assert [epochs.of(batch, "a") for batch in (2, 3, 4)] == [0, 1, 1]
    assert Epochs(folder).of(3, "b") == 1


def test_epochs_before_the_first_batch_are_counted(folder: Folder) -> None:
    epochs = Epochs(folder)
    epochs.add(0, "new cluster")
    epochs.adopt(4, 0, "older", "a")
    epochs.add(1, "restored")
    adopted = [epochs.is_adopted("a", 0, "older"), epochs.is_adopted("a", 1, "older"), epochs.is_adopted("a", 0, "")]
    assert (epochs.initial, adopted) == (1, [True, False, False])


def test_epoch_of_one_table_is_raised_once_per_batch(folder: Folder) -> None:
    epochs = Epochs(folder)
    for _ in range(2):  # the second time as a repeated batch
        assert epochs.add(5, "ordered anew", "a").number == 1
    assert [epochs.of(5, table) for table in ("a", "b")] == [1, 0]
    epochs.add(6, "restored")
    assert [Epochs(folder).of(6, table) for table in ("a", "b")] == [2, 2]


def test_numbers_of_a_table_do_not_depend_on_other_tables(folder: Folder) -> None:
    """A restored checkpoint may raise the epochs of its tables again in another order."""
    epochs = Epochs(folder)
    assert [epochs.add(batch, "ordered anew", table).number for batch, table in ((1, "a"), (2, "b"), (3, "b"))] == [
        1,
        1,
        2,
    ]
    assert epochs.adopt(5, 4, "older", "a").number == epochs.of(4, "a") == 5
    assert epochs.add(5, "restored").number == 6


def test_file_without_epochs_per_table_is_read(folder: Folder) -> None:
    old = {"number": 1, "from_batch": 2, "raised": "2026-11-01T00:00:00+00:00", "reason": ""}
    folder.write("epochs.json", json.dumps([old]))
    epochs = Epochs(folder)
    assert epochs.of(2, "a") == 1
    epochs.add(7, "restored")
    text = folder.read("epochs.json")
    assert text is not None
    assert json.loads(text)[0] == old


def test_orders_are_stored_per_topic(folder: Folder) -> None:
    assert Orders(folder).get("orders") is None
    Orders(folder).put({"orders": Order("place", "cluster a"), "lines": Order("lsn")}, 0)
    Orders(folder).put({"orders": Order("lsn")}, 1)
    orders = Orders(folder)
    assert (orders.get("orders"), orders.get("lines")) == (Order("lsn"), Order("lsn"))
