"""Dialects, which locate the operation, key, row images and position in an event."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from headrace.sdk.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.sdk.changes import Changes
    from headrace.sdk.events import Events


class Dialect(Plugin, ABC):
    """Reader of events of one structure. The first dialect that matches a topic's schema reads the topic."""

    #: Dialects are tried from low to high: more specific structures come first.
    priority: int = 50
    #: Event fields that hold rows of the table. An event without them is the row itself.
    row_fields: tuple[str, ...] = ("before", "after")

    @classmethod
    @abstractmethod
    def matches(cls, schema: StructType) -> bool:
        """Return whether the dialect reads events of this schema."""

    def metadata_topic(self, topic: str, schema: StructType) -> str | None:
        """Return the kind of a topic that describes the stream itself ("heartbeats") and has no table; otherwise None."""
        return None

    def read_schema(self, schema: StructType, *, key: Collection[str], with_row_before: bool) -> StructType:
        """Return the part of the schema that has to be read. ``key``: key columns from the pipeline file."""
        return schema

    def source_table(self, schema: StructType, key: Collection[str]) -> Column | None:
        """Return the database table of a change as a string column over the event's columns; null where an event does not name it.

        ``key``: the key's columns. None when no event names its table, or when the key identifies rows across tables.
        """
        return None

    def source_path(self, schema: StructType) -> Column | None:
        """Return the server and the table of a change as a string column over the event's columns; null where an event does not name them.

        A truncate concerns only the rows of its source. The default is ``source_table``.
        """
        return self.source_table(schema, ())

    def unavailable_tests(self, schema: StructType) -> Mapping[str, Callable[[Column], Column]]:
        """Return row column → test for a placeholder of an omitted, unchanged value; empty when no event has placeholders.

        Such values are taken from older changes and from the stored row; placeholders are never written to a table.
        """
        return {}

    def order(self, events: Events) -> str:
        """Return a description of the position's parts, for users; ``OFFSET_ORDER`` when the database provides no position.

        When the description changes, old and new positions cannot be compared, and the table gets a new epoch. An empty string never changes.
        """
        return ""

    def position_parts(self, events: Events) -> str | None:
        """Return a regular expression, without groups, of the part between the epoch and the record's offset in a position.

        Called for topics in which a tombstone may be the only record of a delete: ``changes`` then returns tombstones with a key as
        changes, DELETED and with a ``tombstone_position``. None: ``changes`` returns no tombstones for this topic.
        """
        return None

    @abstractmethod
    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        """Return the changes of an events frame, with the columns OP, DELETED, KEY, POSITION, COMMITTED and ERROR.

        KEY comes from the record's key, or from the columns in ``key`` if records have none; it is absent without both. NEW_KEY and
        KEY_CHANGE_POSITION are present when ``unavailable_tests`` finds omitted values and records report key changes. SNAPSHOT is present
        when events identify the rows that a snapshot of the whole table read.
        """
