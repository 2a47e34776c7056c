"""Helpers for option values."""

from __future__ import annotations

from headrace.control_characters import escape_controls
from headrace.sdk.auth import jaas_config
from headrace.sdk.config import option_text
from headrace.sdk.interval import seconds_of
from headrace.secret_values import has_secret_name
from headrace.suggestions import did_you_mean

__all__ = ["did_you_mean", "escape_controls", "has_secret_name", "jaas_config", "option_text", "seconds_of"]
