"""Dialects: where an event keeps its op, key, images and position."""

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
    """Reads events of one shape. The first one that matches a topic's schema gets it."""

    #: Dialects are asked from low to high: a shape that says more goes first.
    priority: int = 50
    #: The fields of events that are rows of their table. An event that has none of them is the row itself.
    row_fields: tuple[str, ...] = ("before", "after")

    @classmethod
    @abstractmethod
    def matches(cls, schema: StructType) -> bool:
        """Whether events of this schema are of this dialect."""

    def metadata_topic(self, topic: str, schema: StructType) -> str | None:
        """What a topic of this schema tells of the stream itself ("heartbeats"), for which there is no table; else None."""
        return None

    def read_schema(self, schema: StructType, *, key: Collection[str], whole_before: bool) -> StructType:
        """The part of the schema that has to be read. ``key``: key columns the pipeline file names."""
        return schema

    def source_table(self, schema: StructType, key: Collection[str]) -> Column | None:
        """The table of the database that a change is of, as a text, from the event's columns; null where an event does not say.

        ``key``: the key's columns. None where no event says, or where the key tells rows of several tables apart.
        """
        return None

    def unavailable_tests(self, schema: StructType) -> Mapping[str, Callable[[Column], Column]]:
        """Row column → whether a value says that it is as it was, and was left out; empty where no event does so.

        Such values are kept from older changes and from the stored row, and never come into a table.
        """
        return {}

    def order(self, events: Events) -> str:
        """What the positions of a topic's changes are made of, as words for people; ``PLACE_ORDER`` where none is the database's.

        When it is no longer what it was, positions from before and from now on cannot be compared, and the table gets an epoch
        of its own. An empty text: it never changes.
        """
        return ""

    def position_parts(self, events: Events) -> str | None:
        """What positions have between the epoch and the record's place, as a regular expression without groups.

        Asked for topics of which a tombstone may be all that is left of a delete: ``changes`` then has tombstones with a key among
        the changes, DELETED and with a ``tombstone_position``. None: of this topic it has none.
        """
        return None

    @abstractmethod
    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        """An events frame as changes, with headrace's columns OP, DELETED, KEY, POSITION, COMMITTED and ERROR.

        KEY comes from the record's key, else from the columns named in ``key``; it is absent when there is neither.
        NEW_KEY and KEY_CHANGE_POSITION are there too where ``unavailable_tests`` says that values are left out and records
        tell of changes of the key. SNAPSHOT is there where events tell which rows a snapshot of the whole table read.
        """
