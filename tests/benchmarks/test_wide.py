from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.wide import deliver, main, report


def test_seconds_are_compared_with_narrowest_complete_rows() -> None:
    medians = {"whole": {12: 0.5, 500: 2.0}, "left out": {12: 1.0, 500: 3.0}}
    assert report("iceberg", medians) == [
        "iceberg, whole: 12 columns 0.50 s (1.0x), 500 columns 2.00 s (4.0x)",
        "iceberg, left out: 12 columns 1.00 s (2.0x), 500 columns 3.00 s (6.0x)",
    ]


def test_file_contains_one_change_with_requested_columns(tmp_path: Path) -> None:
    deliver(tmp_path, 500, 0, leaves_out=False)
    deliver(tmp_path, 500, 1, leaves_out=True)
    first, second = (json.loads(file.read_text())["payload"] for file in sorted(tmp_path.rglob("*.json")))
    assert len(first["after"]) == len(second["after"]) == 500
    assert first["source"]["lsn"] < second["source"]["lsn"]
    left_out = [name for name, value in second["after"].items() if value == "__debezium_unavailable_value"]
    assert left_out == ["c0"]


def test_sink_other_than_table_format_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["files", "--work", "out"])
    assert "invalid choice: 'files'" in capsys.readouterr().err
