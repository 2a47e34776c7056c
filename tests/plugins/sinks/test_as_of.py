"""Errors of versions that have expired: each table format names the option that keeps versions, and its default."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.config.maintenance_options import Maintenance
from headrace.errors import ConfigError, HeadraceError
from headrace_sinks.as_of import KEEP_VERSIONS, expired_version
from headrace_sinks.delta import delta_errors
from headrace_sinks.hudi import hudi_timeline
from headrace_sinks.iceberg import iceberg_errors


def test_fix_names_the_default_of_the_option() -> None:
    assert f"`history` (default: {Maintenance().history}) under `maintenance:`" in KEEP_VERSIONS
    assert "under `tables:`" in KEEP_VERSIONS


@pytest.mark.parametrize(
    "error",
    [
        iceberg_errors.explain_version(RuntimeError("Cannot find snapshot with ID 5")),
        iceberg_errors.explain_version(RuntimeError("Cannot find a snapshot older than 2020-01-01")),
        delta_errors.explain_version(RuntimeError("Cannot time travel Delta table to version 0. Available: [3, 4].")),
        delta_errors.explain_version(RuntimeError("The provided timestamp is before the earliest version available")),
        expired_version("0", "3", "table a, sink delta"),
    ],
)
def test_expired_version_is_a_config_error_with_the_option(error: HeadraceError | None) -> None:
    assert isinstance(error, ConfigError)
    assert KEEP_VERSIONS in str(error)


@pytest.mark.parametrize("oldest", ["20261130120000000", None])
def test_expired_instant_is_a_config_error_with_the_option(monkeypatch: pytest.MonkeyPatch, oldest: str | None) -> None:
    versions = SimpleNamespace(oldest=oldest) if oldest else None
    monkeypatch.setattr(hudi_timeline, "open_table", lambda spark, path: None)
    monkeypatch.setattr(hudi_timeline, "read_versions", lambda table: versions)
    with pytest.raises(ConfigError, match="no version as old as '20261130115959000'; its oldest version is") as raised:
        hudi_timeline.find_version(cast("Any", None), "lake/a", "20261130115959000", "table a")
    assert KEEP_VERSIONS in str(raised.value)
    assert "`hoodie.clean.commits.retained`" in str(raised.value)
