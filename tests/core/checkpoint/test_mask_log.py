"""Log of mask rules in the checkpoint, which detects masks that were added later."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint.mask_log import MaskLog
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]


def test_mask_applies_from_the_batch_in_which_it_was_added(spark: SparkSession, tmp_path: Path) -> None:
    def since(batch: int, **rules: str) -> dict[str, int]:
        log = MaskLog(Folder(spark, str(tmp_path)))
        columns = log.compare(rules, batch)
        log.remember(columns)
        return {name: column.since for name, column in columns.items()}

    # A checkpoint without a log does not record what was masked before.
    assert since(5, email="sha256") == {"email": 0}
    assert since(6, email="sha256", phone="nullify") == {"email": 0, "phone": 6}
    assert since(9, email="sha512", phone="nullify") == {"email": 9, "phone": 6}
    assert since(10, phone="nullify") == {"phone": 6}
    assert since(11, email="sha512", phone="nullify") == {"email": 11, "phone": 6}
    assert "sha512" not in (tmp_path / "masks.json").read_text()


def test_comparison_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    assert MaskLog(Folder(spark, str(tmp_path))).compare({"email": "sha256"}, 0)["email"].since == 0
    assert list(tmp_path.iterdir()) == []
