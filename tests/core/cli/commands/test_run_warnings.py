"""Warnings of a run that are added while it is active."""

from __future__ import annotations

from headrace.cli.commands.run import _Warnings


def test_each_warning_is_reported_once() -> None:
    texts, reported = ["the driver is old"], list[str]()
    warnings = _Warnings(texts, reported.append)
    warnings.report()
    warnings.report()
    assert reported == ["the driver is old"]
    texts.append("serve: misses events")
    warnings.report()
    warnings.report()
    assert reported == ["the driver is old", "serve: misses events"]
