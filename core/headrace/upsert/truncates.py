"""Truncates: no row of a source is older than the source's last TRUNCATE, and no late change restores such a row.

A resync truncates at the start of a snapshot.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace.sdk.changes import COMMITTED, DELETED, POSITION, PREFIX
from headrace.sdk.positions import is_tombstone
from headrace.spark.columns import any_of, quote_name
from headrace.upsert.table_sources import EARLIER, SOURCE, are_several
from headrace.upsert.versions import START, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from headrace.spark.storage import Folder
    from headrace.upsert.table_sources import TableSources

#: Source of a marker from before the checkpoint recorded sources.
ANY_SOURCE = ""
#: Maximum number of sources with a marker in a table. The number comes from records.
MAX_SOURCES = 100
_ENDED = PREFIX + "ended"


class TruncateMarker:
    """Positions of a table's last truncates by source, in a file of the checkpoint.

    Positions of two servers cannot be compared, so a marker applies only to the changes of its source.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self.positions: dict[str, str] = folder.load(name, _parse) or {}

    def accepts(self, truncates: Mapping[str | None, str], sources: TableSources) -> bool:
        """Return whether the rows of the truncated sources can be distinguished from other rows."""
        return (
            None not in truncates
            and EARLIER not in sources.names
            and len(self.positions.keys() | truncates.keys()) <= MAX_SOURCES
        )

    def advance(self, truncates: Mapping[str, str]) -> dict[str, str]:
        """Move the markers of sources to newer truncates. Return the positions of the markers."""
        moved = {s: p for s, p in truncates.items() if s not in self.positions or p > self.positions[s]}
        if moved:
            positions = {**self.positions, **moved}
            self._folder.write(self._name, json.dumps(positions, ensure_ascii=False))
            self.positions = positions
        return {source: self.positions[source] for source in truncates}

    def drop_older(self, rows: DataFrame, sources: TableSources) -> DataFrame:
        """Drop the rows before the last truncate of their source. Tombstones stay: their positions cannot be compared."""
        from pyspark.sql import functions as F

        positions = dict(self.positions)
        earlier = positions.pop(ANY_SOURCE, None)
        if earlier is not None and not are_several({*sources.names} - {EARLIER}):
            rows = rows.where((F.col(POSITION) > earlier) | is_tombstone(F.col(POSITION)))
        if positions:
            markers = [F.when(F.col(SOURCE) == source, position) for source, position in positions.items()]
            is_older = F.coalesce(F.col(POSITION) <= F.coalesce(*markers), F.lit(False))
            rows = rows.where(~is_older | is_tombstone(F.col(POSITION)))
        return rows


def deletes_before(
    stored: DataFrame, key: Sequence[str], truncates: Mapping[str, str], sources: TableSources
) -> DataFrame:
    """Return deletes of the stored rows that are older than a truncate of their source, at its position."""
    from pyspark.sql import functions as F

    tagged = F.coalesce(F.col(POSITION), F.lit(""))
    positions = [
        F.lit(position) if source == ANY_SOURCE else F.when(sources.is_of(tagged, source), position)
        for source, position in truncates.items()
    ]
    truncate = F.coalesce(*positions)
    columns = [F.lit(True).alias(DELETED), truncate.alias(POSITION)]
    return stored.where(tagged < truncate).select(*[stored[quote_name(name)].alias(name) for name in key], *columns)


def ends_of_versions(
    versions: DataFrame, key: Sequence[str], truncates: DataFrame, names: Iterable[str], sources: TableSources
) -> DataFrame:
    """Return deletes of the stored versions that started before a truncate of their source and end after it, at its position and time.

    ``truncates``: SOURCE, POSITION and COMMITTED of each; ``names``: their sources.
    """
    from pyspark.sql import functions as F

    stored = versions.select(
        *[versions[quote_name(name)].alias(name) for name in key],
        F.col(START),
        F.col(VERSION).getField("ended").alias(_ENDED),
    )
    is_own = any_of((F.col(SOURCE) == name) & sources.is_of(F.col(START), name) for name in names)
    ends_later = F.col(_ENDED).isNull() | (F.col(POSITION) < F.col(_ENDED))
    spans = is_own & (F.col(START) < F.col(POSITION)) & ends_later
    ends = stored.join(F.broadcast(truncates), spans)
    return ends.select(*map(quote_name, key), F.lit(True).alias(DELETED), POSITION, COMMITTED)


def _parse(text: str) -> dict[str, str]:
    if not text.startswith("{"):
        if not text[:1].isdigit():
            raise ValueError("no position")
        return {ANY_SOURCE: text}
    positions = json.loads(text)
    if not positions or not all(isinstance(position, str) and position for position in positions.values()):
        raise ValueError(text)
    return {str(source): str(position) for source, position in positions.items()}
