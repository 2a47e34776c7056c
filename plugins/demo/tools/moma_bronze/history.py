"""The museum's collection at three dates, and the changes between these dates."""

import gzip
import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]

DATES = ("2015-07-17", "2015-07-23", "2015-08-15")
_COLLECTION = dict(
    zip(DATES, (f"artworks_{day}.jsonl.gz" for day in ("T1_20150717", "T2_20150723", "T3_20150815")), strict=True)
)
_CHANGES = dict(zip(DATES[1:], ("changes_T1_T2.jsonl.gz", "changes_T2_T3.jsonl.gz"), strict=True))
_ARTISTS = "artists_T3_20150815.jsonl.gz"


class ArtworkChange(NamedTuple):
    """Change of one row. ``op``: Debezium's operation (r, c, u or d)."""

    op: str
    before: Row | None
    after: Row | None


class History:
    """Files of the collection in a folder, limited to one of `every` artworks. Each date has the same artworks."""

    def __init__(self, folder: Path, every: int = 1) -> None:
        self._folder = folder
        self._every = every

    def artworks(self, date: str) -> Iterator[Row]:
        """Yield all artworks at a date by ascending ObjectID."""
        return filter(self._keeps, _lines(self._folder / _COLLECTION[date]))

    def changes(self, date: str) -> Iterator[ArtworkChange]:
        """Yield the changes between the previous date and this date."""
        for line in _lines(self._folder / _CHANGES[date]):
            change = ArtworkChange(line["op"], line.get("before"), line.get("after"))
            if self._keeps(change.after or change.before or {}):
                yield change

    def artists(self) -> Iterator[Row]:
        """Yield all artists at the last date by ascending ArtistID."""
        return _lines(self._folder / _ARTISTS)

    def _keeps(self, artwork: Row) -> bool:
        return zlib.crc32(artwork["ObjectID"].encode()) % self._every == 0


def midnight_ms(date: str) -> int:
    """Return the start of a date in UTC, in milliseconds since 1970."""
    return int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()) * 1000


def _lines(path: Path) -> Iterator[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
