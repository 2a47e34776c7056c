from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.soak import Figures, Shop, Soak, TableFigures, main
from tests.support.pipelines import TABLE_SINKS
from tests.support.spark_conf import interpret_plans

from headrace.sdk import TableSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_latest_change_of_each_row_wins_even_if_it_arrives_late(tmp_path: Path) -> None:
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
    offsets = [event["source"]["lsn"] for event in events]
    assert offsets != sorted(offsets)  # some events arrive late
    assert len(set(offsets)) < len(offsets)  # and some arrive twice
    assert {event["op"] for event in events} == {"r", "c", "u", "d"}


def test_figures_are_printed_on_one_line() -> None:
    table = TableFigures(1200, TableSize(files=3, delete_files=1, versions=20), 40, 5 << 20, 0.25)
    text = str(Figures(1000, 5, [float(at) for at in range(1, 21)], 900 << 20, {"hudi": table}))
    assert text == (
        "1,000 commits, 5 kills: batch median 10.50 s, p95 19.00 s, memory 900 MiB; hudi: 1,200 rows are right, 3 files, 1 of deletes, "
        "20 versions, 40 files and 5.0 MiB on disk, read in 0.2 s"
    )


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_spark
@pytest.mark.timeout(2400)
def test_rows_are_correct_and_files_are_few_after_many_commits_and_two_kills(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in interpret_plans(tmp_path / "conf").items():
        monkeypatch.setenv(name, value)
    run = Soak(tmp_path / "soak", sinks=TABLE_SINKS, files=10, history="1 minute")
    run.shop.fill(1000)
    for _ in range(300 // len(TABLE_SINKS)):
        run.shop.change()
    run.shop.release()
    run.run(2)
    assert run.kills == 2
    tables = run.compare(spark)
    assert tables.keys() == set(TABLE_SINKS)
    log = run.log.read_text(encoding="utf-8")
    for sink, table in tables.items():
        assert table.rows == len(run.shop.rows)
        # Without maintenance, there would be 600 files. Maintenance is due at 40 log files, starts at least
        # eight batches later and takes one or two batches.
        assert (table.size.files or 0) + (table.size.delete_files or 0) < 120, table
        assert f"shop.orders → {sink}: compact: " in log
        assert f"shop.orders → {sink}: expire: " in log
    assert "failed" not in log


def test_interrupted_soak_resumes_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs and the comparison are mocked, so that no Spark starts."""
    runs: list[tuple[int, dict[int, int]]] = []

    def run(soak: Soak, kills: int) -> None:
        if len(runs) == 3:
            raise KeyboardInterrupt
        runs.append((soak.shop.commits, dict(soak.shop.rows)))

    monkeypatch.setattr(Soak, "run", run)
    monkeypatch.setattr(Soak, "compare", lambda *_: {})
    monkeypatch.setattr(Soak, "session", lambda _: None)
    monkeypatch.setattr(Soak, "seconds", lambda *_: [1.0])
    options = ["--commits", "40", "--rows", "20", "--kills", "0"]
    with pytest.raises(KeyboardInterrupt):
        main(["--work", str(tmp_path / "stopped"), *options])
    sent = {file.name: file.read_bytes() for file in tmp_path.rglob("*.json") if "bronze" in str(file)}
    before, runs[:] = capsys.readouterr().out.splitlines(), []
    assert [line.split(" ")[0] for line in before] == ["4", "8", "12"]

    monkeypatch.setattr(Soak, "run", lambda soak, _: runs.append((soak.shop.commits, dict(soak.shop.rows))))
    main(["--work", str(tmp_path / "stopped"), *options])
    after, rest = capsys.readouterr().out.splitlines(), list(runs)
    runs.clear()
    main(["--work", str(tmp_path / "whole"), *options])
    assert after == capsys.readouterr().out.splitlines()
    assert after[:3] == before
    assert runs[3:] == rest
    assert all((tmp_path / "whole/bronze/shop.public.orders/partition=0" / n).read_bytes() == sent[n] for n in sent)

    with pytest.raises(SystemExit, match=r"has a soak of .*'rows': 20"):
        main(["--work", str(tmp_path / "stopped"), *options, "--rows", "30"])


def test_sink_other_than_table_format_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--work", "out", "--sinks", "files"])
    assert "invalid choice: 'files'" in capsys.readouterr().err
