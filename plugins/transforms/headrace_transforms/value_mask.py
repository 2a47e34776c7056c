"""Mask of a value, and the values that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class ValueMask:
    """Mask of a column's values."""

    apply: Callable[[Column], Column]
    #: Whether the mask takes a value that is not null; None: it takes every value.
    fits: Callable[[Column], Column] | None = None
    #: Description of a value that fits: "an IP address".
    takes: str = ""
    #: Result for every value that is not null; None: it depends on the value.
    constant: Column | None = None

    def __call__(self, value: Column) -> Column:
        """Return the masked value; null for a value that does not fit."""
        from pyspark.sql import functions as F

        return self.apply(value) if self.fits is None else F.when(self.fits(value), self.apply(value))

    def rejects(self, value: Column) -> Column:
        """Return whether a value does not fit."""
        from pyspark.sql import functions as F

        return F.lit(False) if self.fits is None else value.isNotNull() & ~F.coalesce(self.fits(value), F.lit(False))


class UnsupportedTypeError(Exception):
    """A type of column that a mask does not take. ``args[0]``: the types that it takes."""
