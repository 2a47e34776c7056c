"""Rebuilding a pipeline after the values of its references changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Renewal:
    """Renewal of a pipeline whose secrets may have been rotated.

    ``references``: the references of the file, as written; ``build`` returns the pipeline with their present values, None if
    the values are unchanged.
    """

    references: Sequence[str]
    build: Callable[[], Any]
