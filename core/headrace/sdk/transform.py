"""Transforms of changes, as Column expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

from headrace.sdk.changes import IMAGES, PREFIX, Changes
from headrace.sdk.plugin import Plugin
from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Transform(Plugin, ABC):
    """Mapping of changes. A change of a column applies to each row image and to the key."""

    #: True when it hides values: dead letters then hold its output, not its input.
    hides_values: ClassVar[bool] = False
    #: True when it turns envelopes into rows: the row before the change need not be read.
    flattens: ClassVar[bool] = False
    #: True when it uses columns of the row before the change other than its key.
    reads_before: bool = False
    #: True when it removes changes, which are then counted. A transform never multiplies changes.
    filters: bool = False
    #: True when its output contains deletes, which the sink must support.
    deletes_rows: bool = False

    @abstractmethod
    def apply(self, changes: Changes) -> Changes:
        """Return the mapped changes."""

    def reads(self) -> Collection[str]:
        """Return the columns that it names: each must exist in at least one table."""
        return ()

    def reads_in(self, table: str | None) -> Collection[str]:
        """Return the columns of ``reads`` that it uses in a table; None: in a DataFrame outside of a pipeline."""
        return self.reads()

    def tables(self) -> Collection[str]:
        """Return the tables that it names. ``headrace check`` warns about a name that no known topic becomes."""
        return ()

    def hides(self, changes: Changes) -> Mapping[str, str]:
        """Return hidden column of these changes → rule, without secrets."""
        return {}

    def rules(self) -> Mapping[str, str]:
        """Return hidden column → rule, without secrets. The checkpoint stores them, so that headrace detects new and changed rules."""
        return {}

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Apply the transform to any DataFrame: to envelopes if it has ``op`` and a row image, otherwise to rows."""
        envelope = "op" in frame.columns and any(image in frame.columns for image in IMAGES)
        changes = self.apply(Changes(frame, envelope))
        names = [c for c in changes.frame.columns if not c.startswith(PREFIX) or c in frame.columns]
        return changes.frame.select(*map(quote_name, names))
