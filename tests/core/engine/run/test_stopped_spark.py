"""Somebody stops Spark under runs that go on: they end and say so, and the next run has everything once."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from tests.support.dist import ROOT, run
from tests.support.orders import RUNS, Orders


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.one_spark
def test_runs_end_and_the_next_ones_bring_everything_once(tmp_path: Path) -> None:
    """In a process of its own, for the session of the tests goes on."""
    python = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = run([sys.executable, "-m", "tests.support.orders", tmp_path], ROOT, environment=python)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["said"] == ["Spark was stopped while the pipeline ran"] * len(RUNS)
    assert told["are_active"] == [False] * len(RUNS)
    ids = {(kind, state): Orders(tmp_path / f"{kind}-{state}", kind).ids() for kind, state in RUNS}
    assert ids == {one: [1, 2, 3, 4] if "held" in one else [1, 2, 4] for one in RUNS}
