from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.moma import VARIANTS, parse_arguments, select_variants
from benchmarks.report import report
from benchmarks.results import Check, Result, append, read

CHANGES = {"step1": 1000, "step2": 2000, "step3": 500}


def run(variant: str, number: int, seconds: float, *, code: int = 0) -> list[Result]:
    """Return the results of a run whose steps take ``seconds`` each on two cores."""
    steps = [Result(variant, number, step, seconds, 2 * seconds) for step in CHANGES]
    total = Result(
        variant, number, "total", 4 * seconds, 8 * seconds, peak_mib=100 * seconds, others_cpu_s=seconds, code=code
    )
    return [*steps, total]


def test_options_select_variants_and_have_defaults() -> None:
    options = parse_arguments(["--moma", "in", "--work", "out"])
    assert (options.every, options.repeat, select_variants(options.only)) == (1, 3, list(VARIANTS))
    assert select_variants(parse_arguments(["--moma", "in", "--work", "out", "--only", "^headrace"]).only) == [
        "headrace-iceberg-mor",
        "headrace-hudi-mor",
        "headrace-delta",
    ]


def test_options_that_match_no_variant_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--moma", "in", "--work", "out", "--only", "flink"])
    assert "--only matches none of headrace-iceberg-mor" in capsys.readouterr().err


def test_report_contains_medians_ratios_and_verdicts(tmp_path: Path) -> None:
    ours, theirs = "headrace-iceberg-mor", "byhand-iceberg-mor"
    lines = tmp_path / "results.jsonl"
    for number, (mine, other) in enumerate([(2.0, 4.0), (3.0, 3.0), (5.0, 4.0)], 1):
        for result in run(ours, number, mine) + run(theirs, number, other):
            append(lines, result)
    checks = [
        Check(ours, 1, 9, 9, 2, 0.5),
        Check(ours, 2, 9, 9, 2, 0.5),
        Check(ours, 3, 9, 9, 2, 0.5, {"Title": 4}),
        Check(theirs, 1, 8, 9, 2, 0.5),
    ]

    text = report(read(lines, Result), checks, CHANGES)

    assert "Rounds: 3." in text
    verdict = "1 WRONG: 9 rows (want 9), wrong cells {'Title': 4}; 2 right: 9 rows, 2 files, 0.5 MiB"
    assert (
        f"| {ours} | - | 3.0 / 6.0 | 3.0 / 6.0 | 3.0 / 6.0 | 9.0 / 18.0 | 12.0 / 24.0 | 389 | 300 | {verdict} |" in text
    )
    assert "| 1 WRONG: 8 rows (want 9), wrong cells 0; 2 not verified |" in text
    assert f"| {ours} | {theirs} |" + " 0.75 (0.50 to 1.25) |" * 5 in text
    assert "Other processes used at most 0.25 of a core" in text


def test_report_of_failed_run_contains_no_figures() -> None:
    text = report(run("streamer-mor", 1, 2.0, code=1), [], CHANGES)
    assert "| streamer-mor | - | - | - | - | - | - | - | - | 1 FAILED |" in text
