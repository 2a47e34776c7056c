"""Rebuilding a pipeline after the values of its references changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Renewal:
    """How. ``references``: those of the file, as they are written there; ``build``: the pipeline with what they say now, None when
    that is what they said.
    """

    references: Sequence[str]
    build: Callable[[], Any]
