"""Report of ``headrace doctor`` on the screen."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from headrace.cli.formatting import count_noun
from headrace.cli.table_output import make_console, make_text
from headrace.findings import Severity

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.doctor.examination import Report
    from headrace.findings import Finding

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: ""}


def print_report(report: Report, *, bundle: str | None, uses_spark: bool) -> None:
    """Print the findings by severity, then the numbers of other checks."""
    console, file = make_console(), shlex.quote(report.file)
    for severity in Severity:
        if found := report.of(severity):
            console.print(make_text(count_noun(len(found), severity), f"bold {_STYLES[severity]}".strip()))
            for finding in found:
                _print_finding(console, finding)
    if report.skipped:
        console.print(make_text("skipped", "bold"))
        for item in report.skipped:
            console.print(make_text(f"  {item.what}: {item.why}"), soft_wrap=True)
    numbers = [count_noun(len(report.of(severity)), severity) for severity in Severity]
    style = next((_STYLES[one] for one in (Severity.ERROR, Severity.WARNING) if report.of(one)), "green")
    console.print(make_text(f"{report.file}: {', '.join(numbers)}, {len(report.passed)} ok", style), soft_wrap=True)
    if not uses_spark and any("--spark" in item.why for item in report.skipped):
        console.print(make_text(f"the checks with Spark: headrace doctor {file} --spark"), soft_wrap=True)
    if bundle:
        console.print(make_text(f"written: {bundle}; read it before you publish it"), soft_wrap=True)


def _print_finding(console: Console, finding: Finding) -> None:
    head = make_text(f"  {finding.kind.name}", _STYLES[finding.severity])
    first, *rest = finding.what.split("\n")
    console.print(head + make_text(f": {first}"), soft_wrap=True)
    for line in rest:
        console.print(make_text(f"      {line}"), soft_wrap=True)
    if finding.where:
        console.print(make_text(f"    where: {finding.where}"), soft_wrap=True)
    if finding.fix:
        fix = finding.fix.replace("\n", "\n         ")
        console.print(make_text(f"      fix: {fix}", keep_lines=True), soft_wrap=True)
