"""Tests to skip because of the Spark version."""

from __future__ import annotations

from tests.support import pipelines

# `headrace live` also writes to Hudi. It does not start with a Spark version that Hudi does not support.
collect_ignore = [] if "hudi" in pipelines.TABLE_SINKS else ["test_live_command.py"]
