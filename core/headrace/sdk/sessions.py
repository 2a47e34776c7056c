"""Helpers for DataFrames: sessions, materialization and observed metrics."""

from __future__ import annotations

from headrace.spark.observation import Observation, materialize_with
from headrace.spark.sessions import materialize, move_to_session, read_once

__all__ = ["Observation", "materialize", "materialize_with", "move_to_session", "read_once"]
