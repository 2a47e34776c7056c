"""Connectors: the order of the changes that one connector captures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from headrace.sdk.plugin import Plugin
from headrace.spark.columns import any_of

if TYPE_CHECKING:
    from pyspark.sql import Column


class Connector(Plugin, ABC):
    """Order of a connector's changes, read from the ``source`` block of its events.

    It is registered under the connector's name, the value of ``source.connector``. Dialects choose it per topic by the names
    of the fields, so that a plan holds the expressions of one connector. Events with another ``source.connector`` than the names
    of connectors with this order are ordered by the record's offset. The fields are read from an envelope's ``source``, or
    from the columns of a flattened row (``__scn``, ``__source_scn``). It has no block in a pipeline file.
    """

    #: Connectors are tried from low to high; the first one that matches orders the topic.
    priority: ClassVar[int] = 50
    #: Name of the order, in words. Positions of two orders are not comparable: a table whose order changes gets a new epoch.
    order: ClassVar[str]
    #: Source fields that positions are made of.
    fields: ClassVar[tuple[str, ...]]
    #: Those of ``fields`` that together identify the connector. A topic that has these of two orders is an error.
    own_fields: ClassVar[tuple[str, ...]] = ()
    #: Fields of connectors whose events have fields of the same names: events with one of these do not match.
    foreign_fields: ClassVar[tuple[str, ...]] = ()
    #: Regular expression, without groups, of the parts that ``log_position`` returns: ``SORTABLE * 2`` for two ``sortable`` parts.
    pattern: ClassVar[str]
    #: Whether events hold every value of a row, so that none can be the placeholder of an unavailable value.
    sends_whole_rows: ClassVar[bool] = False

    @classmethod
    def matches(cls, fields: Collection[str]) -> bool:
        """Return whether events with these source fields come from this connector."""
        is_foreign = not set(cls.foreign_fields).isdisjoint(fields)
        return bool(cls.own_fields) and set(cls.own_fields) <= set(fields) and not is_foreign

    @abstractmethod
    def log_position(self, source: Mapping[str, Column]) -> Sequence[Column]:
        """Return the parts of a change's position in the database's log, most significant first.

        ``source``: those of ``fields`` that the topic's events have. Parts are strings that sort as the log does, made by
        ``sortable``. They must not be null: ``sortable`` turns null into the lowest value.
        """

    def lacks_position(self, source: Mapping[str, Column]) -> Column:
        """Return whether a change has no position: it lacks one of ``own_fields``, or all of ``fields``."""
        own = [source[name].isNull() for name in self.own_fields if name in source]
        return any_of(own) if own else ~any_of(column.isNotNull() for column in source.values())

    def snapshot_start(self, parts: Sequence[Column]) -> Sequence[Column]:
        """Return the parts that a snapshot's rows share, from those of one row: a change that has lower ones is older.

        By default all parts: the rows of a snapshot have one position.
        """
        return parts
