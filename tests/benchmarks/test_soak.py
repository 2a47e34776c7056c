from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from benchmarks.soak import Figures, Shop, main


def test_the_latest_change_of_each_row_is_the_row_however_late_it_comes(tmp_path: Path) -> None:
    shop = Shop(tmp_path, random.Random(3))
    shop.fill(50)
    for _ in range(30):
        shop.change()
    shop.release()
    events = [json.loads(line) for file in sorted(tmp_path.rglob("*.json")) for line in file.read_text().splitlines()]
    latest = {}
    for event in sorted(events, key=lambda event: event["source"]["lsn"]):
        latest[(event["after"] or event["before"])["id"]] = event["after"]
    assert {key: row["turn"] for key, row in latest.items() if row} == shop.rows
    places = [event["source"]["lsn"] for event in events]
    assert places != sorted(places)  # some come late
    assert len(set(places)) < len(places)  # and some again
    assert {event["op"] for event in events} == {"r", "c", "u", "d"}


def test_figures_are_one_line() -> None:
    text = str(Figures(1000, 5, [float(at) for at in range(1, 21)], {"hudi": "12 rows are right"}))
    assert text == "1,000 commits, 5 kills: batch median 10.50 s, p95 19.00 s; hudi: 12 rows are right"


def test_a_sink_that_is_no_table_format_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--work", "out", "--sinks", "files"])
    assert "invalid choice: 'files'" in capsys.readouterr().err
