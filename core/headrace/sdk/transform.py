"""Transforms: changes → changes, as Column expressions."""

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
    """Maps changes. What it does to a column it does to every row image and to the key."""

    #: True when it hides values: dead letters are then made from what it gives, not from what came in.
    hides_values: ClassVar[bool] = False
    #: True when it turns envelopes into rows: then the row before the change need not be read.
    flattens: ClassVar[bool] = False
    #: True when it uses columns of the row before the change, beyond its key.
    reads_before: bool = False
    #: True when it leaves changes out, which are counted then. No transform makes several of one.
    filters: bool = False
    #: True when a delete leaves it as "remove the row", so that a sink has to be able to delete.
    deletes_rows: bool = False

    @abstractmethod
    def apply(self, changes: Changes) -> Changes:
        """The mapped changes."""

    def reads(self) -> Collection[str]:
        """Columns it names: each must exist in at least one table."""
        return ()

    def reads_in(self, table: str | None) -> Collection[str]:
        """Those of ``reads`` that it looks for in a table; None: in a DataFrame of one's own."""
        return self.reads()

    def hides(self, changes: Changes) -> Mapping[str, str]:
        """Columns of these changes that it hides → by which rule, without anything secret."""
        return {}

    def rules(self) -> Mapping[str, str]:
        """All columns that it hides → by which rule, without anything secret: by these a checkpoint sees that one is new."""
        return {}

    def __call__(self, frame: DataFrame) -> DataFrame:
        """The transform on a DataFrame of your own: envelopes when it has ``op`` and a row image, rows otherwise."""
        envelope = "op" in frame.columns and any(image in frame.columns for image in IMAGES)
        changes = self.apply(Changes(frame, envelope))
        names = [c for c in changes.frame.columns if not c.startswith(PREFIX) or c in frame.columns]
        return changes.frame.select(*map(quote_name, names))
