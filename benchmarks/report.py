"""Markdown report of results: medians over the rounds, and ratios of headrace to the others."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from benchmarks.results import Check, Result
from benchmarks.run import STEPS

ALL = "steps 1-3"
COLUMNS = ("start", *STEPS, ALL, "total")
#: Variants of headrace and their counterparts.
PAIRS = (
    ("headrace-iceberg-mor", "byhand-iceberg-mor"),
    ("headrace-hudi-mor", "byhand-hudi-mor-bucket"),
    ("headrace-hudi-mor", "byhand-hudi-mor-bucket-nometa"),
    ("headrace-hudi-mor", "streamer-mor"),
    ("headrace-hudi-mor", "streamer-mor-continuous"),
    ("headrace-delta", "byhand-delta"),
)

#: Results of a round by step, including ALL.
Round = dict[str, Result]
Figure = Callable[[Round], float]


def report(results: Iterable[Result], checks: Iterable[Check], changes: Mapping[str, int]) -> str:
    """Write the report. ``changes`` maps each step to its number of changes."""
    rounds, failed = _rounds(results)
    verdicts = defaultdict(list)
    for check in checks:
        verdicts[check.variant].append(check)
    lines = [
        "Changes: " + ", ".join(f"{step} {changes[step]:,}" for step in STEPS) + ".",
        f"Rounds: {max(map(len, rounds.values()), default=0)}. Medians, wall s / CPU s.",
        "",
        f"| variant | {' | '.join(COLUMNS)} | changes/s | peak MiB | table |",
        "|---|" + "---|" * (len(COLUMNS) + 3),
    ]
    for variant in dict.fromkeys([*rounds, *failed]):
        done = list(rounds[variant].values())
        cells = [_wall_and_cpu(done, step) for step in COLUMNS]
        cells += (
            [f"{sum(changes.values()) / _median(done, wall(ALL)):,.0f}", f"{_median(done, peak):,.0f}"]
            if done
            else ["-", "-"]
        )
        lines.append(f"| {variant} | {' | '.join(cells)} | {_verdict(verdicts[variant], len(done), failed[variant])} |")
    lines += ["", *_ratios(rounds), "", _others(rounds)]
    return "\n".join(lines) + "\n"


def wall(step: str) -> Figure:
    """Return the figure of a step's wall seconds."""
    return lambda done: done[step].wall_s


def cpu(step: str) -> Figure:
    """Return the figure of a step's CPU seconds."""
    return lambda done: done[step].cpu_s


def peak(done: Round) -> float:
    """Return the peak memory of a round."""
    return done["total"].peak_mib or 0.0


def ratio(headrace: Mapping[int, Round], other: Mapping[int, Round], figure: Figure) -> str:
    """Format the ratio of two medians, and the range of the ratios of single rounds."""
    middle = _median(list(headrace.values()), figure) / _median(list(other.values()), figure)
    each = [figure(headrace[number]) / figure(other[number]) for number in headrace if number in other]
    return f"{middle:.2f} ({min(each):.2f} to {max(each):.2f})" if len(each) > 1 else f"{middle:.2f}"


def _rounds(results: Iterable[Result]) -> tuple[dict[str, dict[int, Round]], dict[str, int]]:
    """Return variant → round → results, and variant → number of unfinished rounds."""
    measured: dict[str, dict[int, Round]] = defaultdict(lambda: defaultdict(dict))
    for result in results:
        measured[result.variant][result.round][result.step] = result
    rounds: dict[str, dict[int, Round]] = defaultdict(dict)
    failed: dict[str, int] = defaultdict(int)
    for variant, numbered in measured.items():
        for number, done in numbered.items():
            steps = [done[step] for step in STEPS if step in done]
            if len(steps) < len(STEPS) or "total" not in done or done["total"].code:
                failed[variant] += 1
                continue
            sums = sum(step.wall_s for step in steps), sum(step.cpu_s for step in steps)
            rounds[variant][number] = {**done, ALL: Result(variant, number, ALL, *sums)}
    return rounds, failed


def _ratios(rounds: Mapping[str, Mapping[int, Round]]) -> list[str]:
    names = {
        "steps wall": wall(ALL),
        "steps CPU": cpu(ALL),
        "total wall": wall("total"),
        "total CPU": cpu("total"),
        "peak memory": peak,
    }
    lines = [
        "headrace as a multiple of the other: the medians' ratio (the lowest and the highest of a round).",
        "",
        f"| headrace | other | {' | '.join(names)} |",
        "|---|---|" + "---|" * len(names),
    ]
    for headrace, other in PAIRS:
        if rounds.get(headrace) and rounds.get(other):
            cells = [ratio(rounds[headrace], rounds[other], figure) for figure in names.values()]
            lines.append(f"| {headrace} | {other} | {' | '.join(cells)} |")
    return lines


def _others(rounds: Mapping[str, Mapping[int, Round]]) -> str:
    """Describe the load of other processes."""
    totals = [done["total"] for numbered in rounds.values() for done in numbered.values()]
    cores = max(((total.others_cpu_s or 0) / total.wall_s for total in totals), default=0.0)
    return f"Other processes used at most {cores:.2f} of a core during a run."


def _wall_and_cpu(done: Sequence[Round], step: str) -> str:
    known = [each for each in done if step in each]
    return f"{_median(known, wall(step)):.1f} / {_median(known, cpu(step)):.1f}" if known else "-"


def _median(done: Sequence[Round], figure: Figure) -> float:
    return median(map(figure, done))


def _verdict(checks: Sequence[Check], done: int, failed: int) -> str:
    parts = [f"{failed} FAILED"] if failed else []
    if wrong := [check for check in checks if not check.right]:
        example = wrong[0]
        parts.append(
            f"{len(wrong)} WRONG: {example.rows:,} rows (want {example.wanted_rows:,}), wrong cells {example.wrong or 0}"
        )
    if right := [check for check in checks if check.right]:
        example = right[-1]
        parts.append(f"{len(right)} right: {example.rows:,} rows, {example.files} files, {example.mib} MiB")
    if unknown := done - len(checks):
        parts.append(f"{unknown} not verified")
    return "; ".join(parts)
