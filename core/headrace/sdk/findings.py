"""Findings of plugins for ``headrace doctor``."""

from __future__ import annotations

from headrace.findings import Checkup, Finding, FindingKind, Severity

__all__ = ["Checkup", "Finding", "FindingKind", "Severity"]
