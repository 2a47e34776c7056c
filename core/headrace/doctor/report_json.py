"""Report as values of JSON."""

from __future__ import annotations

from typing import Any

from headrace.doctor.examination import Report
from headrace.findings import Finding, Severity


def describe_report(report: Report) -> dict[str, Any]:
    """Return a report: the numbers of findings by severity, the findings, and the checks that passed and were skipped."""
    return {
        "file": report.file,
        **{f"{severity}s": len(report.of(severity)) for severity in Severity},
        "ok": len(report.passed),
        "findings": [_describe_finding(finding) for finding in report.findings],
        "passed": [{"what": item.what, "found": item.found} for item in report.passed],
        "skipped": [{"what": item.what, "why": item.why} for item in report.skipped],
    }


def _describe_finding(finding: Finding) -> dict[str, str | None]:
    parts = {"what": finding.what, "where": finding.where, "fix": finding.fix}
    return {"severity": finding.severity, "name": finding.kind.name, **parts}
