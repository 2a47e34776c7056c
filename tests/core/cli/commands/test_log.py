"""Output of ``headrace log``, from a checkpoint on a local disk, without Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.core.conftest import Headrace

ENTRY = {
    "started": "2026-11-28T12:00:00.000Z",
    "command": "resync",
    "arguments": {"tables": ["shop.orders"], "now": True},
    "user": "ann",
    "host": "etl-1",
    "pid": 17,
    "result": "done",
    "ended": "2026-11-28T12:00:09.000Z",
    "error": None,
}
EPOCH = {"started": "2026-11-28T13:00:00.000Z", "command": "epoch", "arguments": {"reason": "Monday's backup"}}


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\nsource: {{files: {{path: {tmp_path}/in, format: json}}}}\nsink: console\ncheckpoint: {tmp_path}/c\n"
    )
    audit = tmp_path / "c/audit"
    audit.mkdir(parents=True)
    (tmp_path / "c/headrace.json").write_text('{"layout": 2, "pipeline": "shop", "id": "1", "epochs": true}')
    (audit / "2026-11-28T120000.000Z-1.json").write_text(json.dumps(ENTRY))
    failed = {**ENTRY, **EPOCH, "user": None, "result": "failed", "error": "in use\n  fix: stop the run"}
    (audit / "2026-11-28T130000.000Z-2.json").write_text(json.dumps(failed))
    return str(tmp_path / "shop.yaml")


def test_commands_are_printed_with_their_results(headrace: Headrace, file: str) -> None:
    done = headrace("log", file)
    assert done.exit_code == 0, done.output
    assert [re.split(" {3,}", line) for line in done.output.splitlines()] == [
        ["started", "command", "result", "by"],
        ["2026-11-28T12:00:00.000Z", "resync shop.orders --now", "done", "ann, etl-1, process 17"],
        [
            "2026-11-28T13:00:00.000Z",
            """epoch --reason 'Monday'"'"'s backup'""",
            "failed: in use",
            "unknown user, etl-1, process 17",
        ],
    ]


def test_json_lines(headrace: Headrace, file: str) -> None:
    done = headrace("log", file, "--format", "json", "--last", "2")
    assert [json.loads(line)["command"] for line in done.output.splitlines()] == ["resync", "epoch"]
    assert json.loads(done.output.splitlines()[0]) == ENTRY
    assert len(headrace("log", file, "--last", "1", "--format", "json").output.splitlines()) == 1


def test_pipeline_without_commands(headrace: Headrace, file: str, tmp_path: Path) -> None:
    for path in (tmp_path / "c/audit").iterdir():
        path.unlink()
    done = headrace("log", file)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nobody has run" in done.stderr
