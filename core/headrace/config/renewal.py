"""Rebuilding of a pipeline after a secret was rotated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Renewal:
    """Renewal of a pipeline whose secrets may have been rotated.

    ``references``: the references in the pipeline file, as written. ``build``: resolves them again and returns a new pipeline,
    or None if the values are unchanged.
    """

    references: Sequence[str]
    build: Callable[[], Any]
