"""Findings of the checks that need a session: their kinds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from headrace.doctor.session_checks import _check_maintenance, _check_pipeline
from headrace.engine.commands.check_item import CheckItem
from headrace.errors import DataError
from headrace.findings import Finding
from headrace.progress.maintained import Maintained


def make_pipeline(**methods: Any) -> Any:
    """Return a pipeline whose runs maintain the table `kept` only."""

    def for_table(table: str) -> Any:
        return SimpleNamespace(settings=SimpleNamespace(maintenance=SimpleNamespace(enabled=table == "kept")))

    return SimpleNamespace(name="shop", plan=SimpleNamespace(for_table=for_table), **methods)


def test_due_maintenance() -> None:
    due = [Maintained(table, "hudi", "compact", "40 log files") for table in ("kept", "left")]
    failed = Maintained("kept", "hudi", "check", "", error="the metastore is gone")
    pipeline = make_pipeline(maintain=lambda **_: [*due, failed])
    found = [cast("Finding", one) for one in _check_maintenance(pipeline, cast("Any", None))]
    assert [(one.kind.name, one.what, one.where) for one in found] == [
        ("maintenance-due", "compact is due: 40 log files", "table kept, sink hudi"),
        ("maintenance-overdue", "compact is due: 40 log files", "table left, sink hudi"),
        ("maintenance-failed", "the metastore is gone", "table kept, sink hudi"),
    ]


def test_items_of_a_check() -> None:
    items = [
        CheckItem("plugins", "files, console"),
        CheckItem("warning", "mask: the salt is short"),
        CheckItem("warning", "the source has no files yet"),
        CheckItem("topic a", "no key", DataError("no key", fix="add `key:`")),
    ]
    pipeline = make_pipeline(check=lambda spark: items)
    found = list(_check_pipeline(pipeline, cast("Any", None), {"the salt is short"}))
    findings = [one for one in found if isinstance(one, Finding)]
    assert [(one.kind.name, one.what, one.where, one.fix) for one in findings] == [
        ("option-unwise", "the source has no files yet", "pipeline shop", None),
        ("data-invalid", "no key", "topic a", "add `key:`"),
    ]
    assert len(found) == 3, "another check has the warning about the salt"
