"""Checks that fail or never end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headrace.doctor import finding_kinds as kinds
from headrace.doctor.connections import check_findings
from headrace.doctor.examination import Check, Passed, Report, Result
from headrace.errors import ConfigError, DataError, FatalError, HeadraceError, LoginError, PluginError, RetriableError
from headrace.findings import Finding, FindingKind

PASSED = Passed("first", "ok")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LoginError("no", fix="log in"), kinds.LOGIN_REJECTED),
        (ConfigError("no", fix="log in"), kinds.OPTION_REJECTED),
        (RetriableError("no", fix="log in"), kinds.SERVER_UNREACHABLE),
        (PluginError("no", fix="log in"), kinds.PLUGIN_BROKEN),
        (DataError("no", fix="log in"), kinds.DATA_INVALID),
        (FatalError("no", fix="log in"), kinds.CHECK_FAILED),
    ],
)
def test_error_is_a_finding_after_the_results_before_it(error: HeadraceError, kind: FindingKind) -> None:
    def run() -> Iterator[Result]:
        yield PASSED
        raise error

    found = Check("disk", run, kinds.OPTION_REJECTED).results()
    assert found == [PASSED, Finding(kind, "no", "disk", "log in")]


def test_check_that_never_ends_keeps_its_results() -> None:
    release = threading.Event()

    def run() -> Iterator[Result]:
        yield PASSED
        release.wait(30)

    passed, finding = Check("server", run, limit=0.2).results()
    release.set()
    assert passed == PASSED
    assert isinstance(finding, Finding)
    assert (finding.kind, finding.what) == (kinds.CHECK_TIMED_OUT, "the check of server did not end within 0.2 seconds")


def test_equal_findings_are_reported_once_and_errors_first() -> None:
    warning, error = Finding(kinds.DISK_LOW, "low"), Finding(kinds.DISK_FULL, "full", fix="headrace run FILE; AWS_FILE")
    report = Report("a b.yaml", [warning, error, warning])
    report.name_file()
    assert [(one.kind.name, one.fix) for one in report.findings] == [
        ("disk-full", "headrace run 'a b.yaml'; AWS_FILE"),
        ("disk-low", None),
    ]
    assert report.has_errors


def test_hook_that_returns_no_findings() -> None:
    with pytest.raises(PluginError, match="diagnose returns str instead of findings"):
        list(check_findings(["disk is full"], "sink acme"))
    with pytest.raises(PluginError, match="diagnose returns NoneType"):
        list(check_findings(None, "sink acme"))
