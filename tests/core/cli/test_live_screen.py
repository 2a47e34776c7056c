"""Screen and log output during a run and at its end."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console

from headrace.cli import live_screen as screens, run_totals as totals
from headrace.cli.formatting import count_noun, format_count, format_duration, format_json, format_size
from headrace.cli.live_screen import Screen
from headrace.cli.run_log import JsonLines, TextLines
from headrace.cli.run_totals import Totals
from headrace.cli.table_output import print_records, print_rows
from headrace.progress.activity import BatchActivity
from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.rates import TableFailure, TableStatus
from headrace.progress.status import Status, describe_run

ARTISTS = TableProgress(
    "moma.artists",
    "iceberg",
    rows_in=1200,
    applied=1190,
    late=7,
    dead_letters=3,
    latency_ms=2300,
    bytes=4096,
    version="77",
    seconds=0.81,
)
WORKS = TableProgress("moma.artworks", "hudi", rows_in=40, applied=40, seconds=1.2)
FAILED = TableProgress("moma.artists", "iceberg", seconds=0.5, error="table x: full\n  fix: y")
SINCE = "2015-07-17T12:00:00+00:00"
LINE = "2015-07-17T12:00:00Z moma batch 0  moma.artists → iceberg: "


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (totals, screens):
        monkeypatch.setattr(module, "monotonic", lambda: 100.0)


def batch(number: int, *tables: TableProgress, unrouted: tuple[str, ...] = ()) -> BatchProgress:
    return BatchProgress("moma", number, "2015-07-17T12:00:00.000+00:00", 1.5, tables, unrouted)


def terminal(width: int = 100) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=30, highlight=False, color_system=None)


def text(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def render(screen: Screen, width: int = 100) -> list[str]:
    """Return the part of the screen that is updated in place."""
    console = terminal(width)
    console.print(screen._render())
    return text(console)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "–"), (-1, "0.0 s"), (0.81, "0.8 s"), (12.4, "12 s"), (200, "3.3 min"), (7200, "2.0 h"), (9e4, "1.0 d"), (1.6e8, "5.1 y")],
)  # fmt: skip
def test_durations_are_short(seconds: float | None, expected: str) -> None:
    assert format_duration(seconds) == expected


def test_counts_and_sizes_are_short() -> None:
    assert [format_count(None), format_count(0), format_count(12345)] == ["–", "0", "12,345"]
    assert [count_noun(1, "batch", "batches"), count_noun(2, "batch", "batches"), count_noun(None, "row")] == [
        "1 batch",
        "2 batches",
        "– rows",
    ]
    assert [format_size(900), format_size(48_312_000)] == ["0.9 kB", "48.3 MB"]


def test_screen_before_the_first_batch() -> None:
    screen = Screen(Totals("moma"), "moma.yaml", terminal())
    screen.step("starting Spark 3.5.7")
    (line,) = render(screen)
    assert line.split()[1:5] == ["moma", "starting", "Spark", "3.5.7"]
    assert line.endswith("up 0.0 s")


def test_screen_during_a_run() -> None:
    screen = Screen(Totals("moma"), "moma.yaml", terminal())
    screen.add(batch(0, ARTISTS, WORKS))
    screen.add(batch(1, replace(ARTISTS, rows_in=1, applied=1, late=0, dead_letters=0)))
    now = TableStatus("moma.artists", "iceberg", 2300, 2900, lag=12, lag_seconds=2.5, rows_per_second=20.4)
    screen.show(Status(active=True, message="waiting for data", batch=1, latency_ms=2300, tables=(now,)))
    head, _, names, artists, works = render(screen)
    assert "moma  waiting for data 0.0 s" in head
    assert head.endswith("Ctrl-C: end after the batch")
    assert names.split()[-5:] == ["lag", "rows/s", "latency", "last", "batch"]
    assert artists.split() == [
        "moma.artists",
        "iceberg",
        "1,201",
        "1,191",
        "7",
        "3",
        "12",
        "20",
        "2.3",
        "s",
        "#1,",
        "0.0",
        "s",
        "ago",
    ]
    assert works.split() == ["moma.artworks", "hudi", "40", "40", "–", "0", "–", "–", "–", "#0,", "0.0", "s", "ago"]
    assert max(map(len, (head, names, artists, works))) <= 100


def test_screen_during_a_batch() -> None:
    activity = BatchActivity()
    screen = Screen(Totals("moma"), "moma.yaml", terminal())

    def lines() -> list[str]:
        screen.show(describe_run([], {}, 3, None, step=activity.describe(["iceberg", "hudi"])))
        return [line.strip() for line in render(screen)]

    activity.begin()
    assert lines()[1] == "finding the tables of the records"
    activity.begin_tables(15)
    for name in ("a", "b", "c", "d"):
        activity.begin_table(name)
    activity.end_table("a", 1200)
    activity.end_table("c", 0)
    head, step = lines()
    assert "moma  applying batch 3 0.0 s" in head
    assert step == "table 3 of 15 → iceberg, hudi: b and 1 more; 1,200 records so far"
    activity.begin_tables(1)
    activity.begin_table("b\x1b[31m")
    assert lines()[1] == "table 1 of 1 → iceberg, hudi: b\\x1b[31m"
    activity.end_table("b\x1b[31m", 7)
    assert lines()[1] == "saving the progress of 7 records"
    screen.show(describe_run([], {}, None, None, step="table 1 of 1"))
    assert len(render(screen)) == 1


def test_failed_table_is_shown_until_it_recovers() -> None:
    screen = Screen(Totals("moma"), "moma.yaml", terminal())
    screen.add(batch(0, FAILED))
    assert render(screen)[-2] == "moma.artists → iceberg: table x: full"
    screen.add(batch(1, ARTISTS))
    assert render(screen)[-1].split()[:4] == ["moma.artists", "iceberg", "1,200", "1,190"]


def test_failed_table_shows_no_lag_or_latency_of_an_earlier_batch() -> None:
    screen = Screen(Totals("moma"), "moma.yaml", terminal(120))
    screen.add(batch(7, ARTISTS))
    screen.add(batch(8, FAILED))
    progress = [batch(7, ARTISTS), batch(8, FAILED)]
    failures = {("moma.artists", "iceberg"): TableFailure(SINCE, "table x: full", backlog=31)}
    screen.show(describe_run(progress, failures, None, None))
    names, artists, why = render(screen, 120)[-3:]
    assert re.split(" {2,}", names)[-4:] == ["lag", "rows/s", "latency", "last batch"]
    assert re.split(" {2,}", artists)[-4:] == ["31 batches", "0", "–", "#7, 0.0 s ago"]
    assert why == f"moma.artists → iceberg: failing since {SINCE}, 31 batches waiting: table x: full"
    screen.show(describe_run(progress, {}, None, None))
    artists, why, fix = render(screen, 120)[-3:]
    assert (why, fix) == (f"moma.artists → iceberg: failing since {SINCE}: table x: full", "  fix: y")
    assert re.split(" {2,}", artists)[-4:] == ["–", "0", "–", "#7, 0.0 s ago"]
    screen.add(batch(8, ARTISTS))
    screen.show(describe_run([*progress, batch(8, ARTISTS)], {}, None, None))
    assert re.split(" {2,}", render(screen)[-1])[-2:] == ["2.3 s", "#8, 0.0 s ago"]


def test_table_that_was_never_written_has_no_last_batch() -> None:
    screen = Screen(Totals("moma"), "moma.yaml", terminal())
    screen.add(batch(0, FAILED))
    assert re.split(" {2,}", render(screen)[-3])[-4:] == ["–", "–", "–", "–"]


def test_messages_are_above_the_live_part_and_the_summary_is_below() -> None:
    console = terminal()
    screen = Screen(Totals("moma"), "moma.yaml", console)
    with screen:
        screen.report("Java 17 in /opt/java")
        screen.add(batch(0, ARTISTS, unrouted=("moma.public.users",)))
    screen.print_summary()
    lines = text(console)
    assert any("Java 17 in /opt/java" in line for line in lines)
    assert any("skipped: topic moma.public.users (no rule of `tables:` matches)" in line for line in lines)
    assert "moma: 1 batch in 1.5 s (0.0 s with startup)" in lines[-5]
    assert lines[-3].split() == ["moma.artists", "iceberg", "1,200", "1,190", "7", "3"]
    assert lines[-2] == "skipped, no rule of `tables:` matches: moma.public.users"
    assert lines[-1] == "3 dead letters, stored with their bytes: headrace dead-letters moma.yaml"


def test_topic_without_rows_is_reported_once() -> None:
    console = terminal()
    screen = Screen(Totals("moma"), "moma.yaml", console)
    for number in range(2):
        notices = {"moma.transaction": "transaction boundaries"}
        screen.add(replace(batch(number, ARTISTS), notices=notices, left_out={"moma.transaction": 700}))
    assert text(console).count("no table: topic moma.transaction (transaction boundaries)") == 1


def test_records_of_topics_without_rows_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TextLines(Totals("moma"), "moma.yaml")
    notices = {"moma.transaction": "transaction boundaries"}
    for number in range(2):
        lines.add(replace(batch(number), notices=notices, left_out={"moma.transaction": 700}))
    lines.print_summary()
    assert capsys.readouterr().out.splitlines()[-1] == (
        "skipped, topics without rows: moma.transaction (1,400 records, transaction boundaries)"
    )


def test_batches_are_logged_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TextLines(Totals("moma"), "moma.yaml")
    lines.report("Java 17 in /opt/java")
    lines.add(batch(0, ARTISTS, WORKS, unrouted=("users",)))
    lines.add(
        batch(
            1, replace(ARTISTS, skipped=True, applied=0, rows_in=None, late=None, dead_letters=0), unrouted=("users",)
        )
    )
    lines.add(batch(2, FAILED))
    lines.print_summary()
    out, err = capsys.readouterr()
    times, texts = zip(*(line.split(" ", 1) for line in err.splitlines()), strict=True)
    assert texts == ("Java 17 in /opt/java", "skipped: topic users (no rule of `tables:` matches)")
    assert all(datetime.fromisoformat(time).tzinfo is UTC for time in times)
    assert out.splitlines() == [
        f"{LINE}1,200 rows in, 1,190 applied, 7 late, 3 dead letters, latency 2.3 s, took 0.8 s",
        "2015-07-17T12:00:00Z moma batch 0  moma.artworks → hudi: 40 rows in, 40 applied, – late, 0 dead letters, took 1.2 s",
        f"{LINE.replace('batch 0', 'batch 1')}already applied",
        f"{LINE.replace('batch 0', 'batch 2')}FAILED after 0.5 s: table x: full",
        "moma: 3 batches in 4.5 s (0.0 s with startup)",
        "  moma.artists → iceberg: FAILED, 1,200 rows in, 1,190 applied, 7 late, 3 dead letters",
        "  moma.artworks → hudi: 40 rows in, 40 applied, – late, 0 dead letters",
        "skipped, no rule of `tables:` matches: users",
        "3 dead letters, stored with their bytes: headrace dead-letters moma.yaml",
    ]


def test_superseded_changes_are_printed_if_there_are_any(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = batch(0, replace(ARTISTS, rows_in=26, applied=25, superseded=1, late=0, dead_letters=0))
    lines = TextLines(Totals("moma"), "moma.yaml")
    lines.add(progress)
    lines.print_summary()
    line, _, total = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{LINE}26 rows in, 25 applied, 1 superseded, 0 late, 0 dead letters, ")
    assert total == "  moma.artists → iceberg: 26 rows in, 25 applied, 1 superseded, 0 late, 0 dead letters"
    console = terminal()
    screen = Screen(Totals("moma"), "moma.yaml", console)
    screen.add(progress)
    screen.print_summary()
    assert [line.split() for line in text(console)[-2:]] == [
        ["table", "sink", "rows", "in", "applied", "superseded", "late", "dead", "letters"],
        ["moma.artists", "iceberg", "26", "25", "1", "0", "0"],
    ]


def test_note_about_a_table_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TextLines(Totals("moma"), "moma.yaml")
    for number in range(2):
        lines.add(batch(number, replace(ARTISTS, note="its events carry no key")))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.partition(" ")[2] == "moma.artists → iceberg: its events carry no key"


def test_one_row_is_singular(capsys: pytest.CaptureFixture[str]) -> None:
    TextLines(Totals("moma"), "moma.yaml").add(batch(0, replace(ARTISTS, rows_in=1)))
    assert "  moma.artists → iceberg: 1 row in, " in capsys.readouterr().out


def test_stdout_contains_only_json(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines(Totals("moma"), "moma.yaml")
    lines.step("starting Spark 3.5.7")
    lines.add(batch(0, ARTISTS, unrouted=("users",)))
    lines.print_summary()
    out, err = capsys.readouterr()
    assert BatchProgress.from_json(out) == batch(0, ARTISTS, unrouted=("users",))
    assert out.count("\n") == 1
    assert json.loads(out)["tables"][0]["late"] == 7
    assert "starting Spark 3.5.7\n" in err
    assert "moma: 1 batch" in err


def test_dead_letter_is_counted_once_for_several_sinks() -> None:
    run = Totals("moma")
    run.add(batch(0, ARTISTS, replace(ARTISTS, sink="hudi")))
    assert run.dead_letters == 3


def test_summary_of_a_run_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    TextLines(Totals("moma"), "moma.yaml").print_summary()
    assert capsys.readouterr().out == "moma: nothing new in 0.0 s\n"


ROWS = [
    [1, "Hans Arp", None, {"died": 1966}],
    [22, "Hannah\nHöch \x1b[2J", True, ["Berlin", "Gotha"]],
]


def test_rows_are_aligned_and_cannot_move_the_cursor() -> None:
    console = terminal()
    print_rows(console, ["id", "name", "dada", "facts"], ROWS, {"id"})
    assert text(console) == [
        "id  name                  dada  facts",
        ' 1  Hans Arp              null  {"died": 1966}',
        '22  Hannah\\nHöch \\x1b[2J  true  ["Berlin", "Gotha"]',
    ]


def test_long_values_are_truncated_and_omitted_columns_are_listed() -> None:
    console = terminal(40)
    print_rows(console, ["id", "name", "bio", "country", "gender"], [[1, "x" * 90, "y" * 90, "France", "m"]], {"id"})
    names, row, *note = text(console)
    assert names.split() == ["id", "name", "bio", "country"]
    assert row.split() == ["1", "x" * 11 + "…", "y" * 11 + "…", "France"]
    assert " ".join(note) == "1 more column, from gender on: --format record shows them"
    assert all(len(line) <= 40 for line in (names, row))


def test_numbers_are_not_truncated() -> None:
    console = terminal(40)
    print_rows(console, ["name", "ts_ms"], [["x" * 90, 1633899967483000000]], {"ts_ms"})
    assert text(console)[1].split() == ["x" * 15 + "…", "1633899967483000000"]


def test_values_are_not_truncated_in_a_pipe() -> None:
    console = Console(file=io.StringIO(), width=100_000, highlight=False)
    print_rows(console, ["id", "name"], [[1, "x" * 5000]], {"id"})
    assert text(console)[1] == " 1  " + "x" * 5000


def test_record_has_one_line_per_column() -> None:
    console = terminal(60)
    print_records(console, ["id", "name", "born"], [[1, "Arp", None], [2, "z" * 3000, 1889]])
    lines = text(console)
    assert lines[:5] == ["id    1", "name  Arp", "born  null", "", "id    2"]
    assert lines[5] == "name  " + "z" * 54
    assert "".join(line[6:] for line in lines[5:-1]) == "z" * 2000 + "… (3,000 characters, --format json has them all)"
    assert lines[-1] == "born  1889"


#: Name of a topic, a field or an error that the producer of events controls.
HOSTILE = "a\x1b[2J\x9b31m\n2015-07-17T12:00:00Z moma batch 1\u202eb"
SHOWN = "a\\x1b[2J\\x9b31m\\n2015-07-17T12:00:00Z moma batch 1\\u202eb"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def hostile_batch() -> BatchProgress:
    failed = replace(FAILED, error=f"no column {HOSTILE}")
    tables = (replace(ARTISTS, note=HOSTILE, table=HOSTILE), failed)
    return replace(batch(0, *tables, unrouted=(HOSTILE,)), notices={HOSTILE: "heartbeats"})


def test_foreign_strings_cannot_move_the_cursor_or_forge_a_log_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TextLines(Totals("moma"), "moma.yaml")
    lines.add(hostile_batch())
    lines.report(f"trying again: {HOSTILE}")
    lines.print_summary()
    out, err = capsys.readouterr()
    assert not RAW.search(out + err)
    assert f"skipped: topic {SHOWN} (no rule" in err
    assert f"{SHOWN} → iceberg: 1,200 rows in" in out
    assert [line for line in out.splitlines() if line.startswith("2015")] == [
        line for line in out.splitlines() if line.startswith("2015-07-17T12:00:00Z moma batch 0  ")
    ]


def test_json_lines_escape_control_characters_without_data_loss(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines(Totals("moma"), "moma.yaml")
    lines.add(hostile_batch())
    out, _ = capsys.readouterr()
    assert not RAW.search(out)
    assert json.loads(out)["unrouted"] == [HOSTILE]


def test_json_values_escape_control_characters_without_data_loss() -> None:
    expected = format_json({HOSTILE: [HOSTILE, None]}, indent=2)
    assert not RAW.search(expected)
    assert expected.count("\n") == 5
    assert json.loads(expected) == {HOSTILE: [HOSTILE, None]}


def test_screen_escapes_control_characters() -> None:
    console = terminal(400)
    screen = Screen(Totals("moma"), "moma.yaml", console)
    screen.add(hostile_batch())
    status = TableStatus("moma.artists", "iceberg", error=HOSTILE)
    screen.show(Status(True, f"trying again: {HOSTILE}", 0, None, (status,)))
    seen = "\n".join([*render(screen, 400), *text(console)])
    screen.print_summary()
    seen += "\n".join(text(console))
    assert SHOWN in seen
    assert not RAW.search(seen)
