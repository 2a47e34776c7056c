from __future__ import annotations

import pytest
from benchmarks.store import Interval, describe, main


def test_requests_are_grouped_by_path_and_times_are_medians() -> None:
    def requests(batch: int, more: int = 0) -> tuple[tuple[str, str], ...]:
        puts = [("PUT", f"/lake/checkpoint/stream/offsets/{batch}")]
        data = [("GET", f"/lake/silver/data/0000-{batch}-6f9619ff-8b86-d011-b42d-00c04fc964ff.parquet")] * (2 + more)
        lists = [("GET", f"/lake/?list-type=2&max-keys=2&prefix=silver/metadata/v{batch}.metadata.json/")]
        return (*puts, *data, *lists)

    intervals = [
        Interval(2.0, 1.0, requests(7)),
        Interval(9.0, 8.0, requests(8, more=50)),
        Interval(3.0, 1.5, requests(9)),
    ]
    assert describe(intervals).splitlines() == [
        "4 requests, 3.00 s from batch to batch, 1.50 s of them the batch",
        "    2 GET /lake/silver/data/n-n-n.parquet",
        "    1 PUT /lake/checkpoint/stream/offsets/n",
        "    1 GET (list) silver/metadata/vn.metadata.json/",
    ]


def test_sink_other_than_table_format_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["files", "--work", "out"])
    assert "invalid choice: 'files'" in capsys.readouterr().err
