"""Runs whose Spark session is stopped by the user.

They end with an error, and the next run applies every change once.
"""

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
def test_runs_end_and_the_next_ones_apply_every_change_once(tmp_path: Path) -> None:
    """The test uses a separate process to keep the session of the other tests."""
    python = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = run([sys.executable, "-m", "tests.support.orders", tmp_path], ROOT, environment=python)
    output = json.loads(done.stdout.splitlines()[-1])
    assert output["said"] == ["Spark was stopped while the pipeline ran"] * len(RUNS)
    assert output["are_active"] == [False] * len(RUNS)
    ids = {(kind, state): Orders(tmp_path / f"{kind}-{state}", kind).ids() for kind, state in RUNS}
    assert ids == {one: [1, 2, 3, 4] if "held" in one else [1, 2, 4] for one in RUNS}
