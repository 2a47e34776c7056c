"""A second run on a checkpoint: its error names the other one."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.orders import KINDS, Orders
from tests.support.tiers import nightly_after

from headrace import ConfigError
from headrace.checkpoint.run_note import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace import BatchProgress

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: A run on another machine, which may be active.
ELSEWHERE = Run("lake-7", 4711, 12, "2026-01-02T03:04:05+00:00")


def note(orders: Orders) -> Path:
    return orders.checkpoint / "run.json"


def test_run_of_another_process_is_detected_at_the_start(spark: SparkSession, tmp_path: Path) -> None:
    orders = Orders(tmp_path / "orders", "native")
    orders.add(1)
    orders.pipeline().run(spark)
    assert not note(orders).exists()
    code = "from headrace.checkpoint.run_note import Run; from dataclasses import asdict; import json\n"
    code += "print(json.dumps(asdict(Run.of_this_process())), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        note(orders).write_text(other.stdout.readline())
        text = f"is in use by another run: process {other.pid} on {socket.gethostname()}, started "
        pipeline = orders.pipeline()
        commands: list[Callable[[], object]] = [
            lambda: pipeline.run(spark),
            lambda: pipeline.raise_epoch(spark=spark),
            lambda: pipeline.resync("orders", spark=spark),
            lambda: list(pipeline.replay(spark=spark)),
        ]
        for command in commands:
            with pytest.raises(ConfigError, match=re.escape(text)) as caught:
                command()
            assert str(orders.checkpoint) in str(caught.value.where)
        other.communicate("\n")
    orders.add(2)
    orders.pipeline().run(spark)  # The note of a process that has ended is replaced.
    assert orders.ids() == [1, 2]
    assert not note(orders).exists()


@pytest.mark.parametrize("kind", nightly_after(1, KINDS))
def test_batch_of_another_run_is_reported(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    orders = Orders(tmp_path / "orders", kind)
    orders.add(1)

    def plan_next(batch: BatchProgress) -> None:
        """Plan the next batch, like a run on another machine."""
        if batch.batch == 0:
            log = next(orders.checkpoint.glob("*/offsets"))
            (log / "1").write_bytes((log / "0").read_bytes())
            note(orders).write_text(json.dumps(asdict(ELSEWHERE)))
            orders.add(2)

    query = orders.start(spark, on_progress=plan_next)
    with pytest.raises(ConfigError, match=f"is in use by another run: {re.escape(str(ELSEWHERE))}"):
        query.await_termination(60)
    query.stop()
    assert json.loads(note(orders).read_text()) == asdict(ELSEWHERE)
