"""Sources of each table: the topics and database tables whose rows the table contains.

A truncate removes the rows of one source. The position of a stored row ends with a tag of its source. Rows of the first source
have no tag, because most tables have only one source.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace.sdk.changes import DELETED, ERROR, PREFIX
from headrace.sdk.positions import is_tombstone
from headrace.sdk.reject_reason import RejectReason
from headrace.upsert.unavailable import FILLED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import Column

    from headrace.spark.storage import Folder

#: Column with the source of a change: its topic, then the server and the database table if events name them. Null if other events
#: of the topic name them, but not this one.
SOURCE = PREFIX + "source"
#: Source of the rows that were written before the checkpoint recorded sources.
EARLIER = "(earlier records)"
#: Maximum number of recorded sources and maximum characters of a source. Both values come from records.
_MAX_SOURCES, _MAX_LENGTH = 10, 1000
#: Regular expression of the tag at the end of a position.
TAG = f"/[0-9A-F]{{16}}(?={FILLED_SUFFIX}*$)"


class TableSources:
    """Sources of one table in a file of the checkpoint, the first source first. Sources beyond the maximum are not recorded."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._recorded = folder.load(name, _parse)

    @property
    def path(self) -> str:
        """Path of the file, which users may edit."""
        return f"{self._folder.path}/{self._name}"

    @property
    def is_recorded(self) -> bool:
        """Whether the file exists. A user may have removed all sources from it."""
        return self._recorded is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Recorded sources."""
        return self._recorded or ()

    @property
    def first(self) -> str | None:
        """Source of the rows without a tag; None if no row was recorded."""
        return next(iter(self.names), None)

    @property
    def is_shared(self) -> bool:
        """Whether the table has rows of several sources."""
        return are_several(self.names)

    def add(self, sources: Iterable[str]) -> bool:
        """Record sources. Return whether they make the table shared."""
        was_shared, known = self.is_shared, self.names
        new = sorted({source[:_MAX_LENGTH] for source in sources} - {*known})[: _MAX_SOURCES - len(known)]
        if new:
            names = (*known, *new)
            self._folder.write(self._name, json.dumps(names, ensure_ascii=False))
            self._recorded = names
        return self.is_shared and not was_shared

    def tag(self, position: Column, source: Column) -> Column:
        """Return the position of a row, with the tag of its source."""
        from pyspark.sql import functions as F

        if self.first is None:
            return position
        is_first = source.eqNullSafe(F.lit(self.first)) | is_tombstone(position)
        return F.when(is_first, position).otherwise(F.concat(position, _tag_of(source)))

    def is_of(self, position: Column, source: str) -> Column:
        """Return whether a stored row belongs to a source. All rows belong to a single source, also rows of removed sources."""
        from pyspark.sql import functions as F

        if self.names == (source,):
            return F.lit(True)
        tags = [_tag_of(F.lit(source)), *([F.lit("")] if source == self.first else [])]
        return F.regexp_extract(position, TAG, 0).isin(*tags)


def _tag_of(source: Column) -> Column:
    from pyspark.sql import functions as F

    return F.concat(F.lit("/"), F.lpad(F.hex(F.xxhash64(source)), 16, "0"))


def are_several(sources: Collection[str]) -> bool:
    """Return whether there may be several sources. Earlier records may have any number of sources."""
    return len(sources) > 1 or EARLIER in sources


def source_aggregates() -> dict[str, Column]:
    """Return aggregates over changes: the lowest and the highest source of a batch's rows."""
    from pyspark.sql import functions as F

    source = F.when(is_row(), F.col(SOURCE))
    return {"first_source": F.min(source), "last_source": F.max(source)}


def is_row() -> Column:
    """Return whether a change is a row of its source. A delete adds none."""
    from pyspark.sql import functions as F

    return F.col(ERROR).isNull() & ~F.col(DELETED)


def names_source() -> Column:
    """Return whether a change is a row or a truncate of a known source."""
    from pyspark.sql import functions as F

    is_truncate = F.coalesce(F.col(ERROR) == RejectReason.TRUNCATED, F.lit(False))
    return (is_row() | is_truncate) & F.col(SOURCE).isNotNull()


def _parse(text: str) -> tuple[str, ...]:
    names = json.loads(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(text)
    return tuple(dict.fromkeys(names))
