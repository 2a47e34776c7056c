from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.growth import UPDATES, Growth, deliver, main


def test_figures_are_medians_per_span_and_ratios() -> None:
    batches = [1.0] * 49 + [9.0] + [2.0] * 50 + [3.0] * 10
    text = str(
        Growth(batches, maintenance=30.0, seconds=200.0, files=1234, bytes=3 * 2**20, scan=0.6, copy_scan=0.4, failed=2)
    )
    assert text == (
        "batches, median of each 50: 1.00 / 2.00 / 3.00 s, p95 3.00 s; maintenance 15% of the time, 2 steps failed; 1,234 files, 3.0 MiB; "
        "scan 0.60 s, 1.5 of a copy's"
    )


def test_updates_have_increasing_lsns_and_are_reproducible(tmp_path: Path) -> None:
    for turn in range(2):
        deliver(tmp_path / "a", 1000, turn)
        deliver(tmp_path / "b", 1000, turn)
    first, second = sorted((tmp_path / "a").rglob("*.json"), key=lambda file: file.stat().st_mtime)
    events = [[json.loads(line) for line in file.read_text().splitlines()] for file in (first, second)]
    assert [len({event["after"]["id"] for event in found}) for found in events] == [UPDATES] * 2
    lsn = [event["source"]["lsn"] for found in events for event in found]
    assert lsn == sorted(set(lsn))
    again = [file.read_text() for file in sorted((tmp_path / "b").rglob("*.json"))]
    assert again == [first.read_text(), second.read_text()]


def test_sink_other_than_table_format_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["files", "--work", "out"])
    assert "invalid choice: 'files'" in capsys.readouterr().err
