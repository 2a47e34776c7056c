"""Comparison of the two sides: buckets first, then the rows of buckets that differ, then single keys until they are settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from headrace_verify.sides import Buckets, Key, Row, Side

#: Keys that are looked at one by one. More differences are only counted as "more".
MAX_KEYS = 10_000
#: Rows of the buckets that are read together.
_ROWS = 200_000
#: Rows of a bucket, and the most digits of its name.
_BUCKET_ROWS, _MOST_DIGITS = 500, 4


@dataclass(frozen=True)
class Difference:
    """Key that differs: ``missing`` or ``extra`` in the table, or ``different`` in some columns."""

    key: Key
    kind: str
    columns: tuple[str, ...] = ()


@dataclass
class Comparison:
    """Result for a table."""

    #: Rows of the database.
    rows: int = 0
    #: Kind of a difference → its number of rows.
    counts: Counter[str] = field(default_factory=Counter)
    #: Column → its number of rows that differ.
    columns: Counter[str] = field(default_factory=Counter)
    #: Keys that differ. Against a stored table, at most MAX_KEYS of them.
    differences: list[Difference] = field(default_factory=list)
    #: Keys whose rows changed each time they were looked at.
    unsettled: list[Key] = field(default_factory=list)
    #: There are more candidates than MAX_KEYS.
    has_more: bool = False

    def add(self, difference: Difference) -> None:
        """Count and keep a difference of one row."""
        self.counts[difference.kind] += 1
        self.columns.update(difference.columns)
        self.differences.append(difference)

    def drop(self, keys: Collection[Key]) -> None:
        """Remove the differences of some keys, which are equal now."""
        kept = [difference for difference in self.differences if difference.key not in keys]
        self.differences, self.counts, self.columns = [], Counter(), Counter()
        for difference in kept:
            self.add(difference)

    @property
    def is_different(self) -> bool:
        """Whether rows differ."""
        return self.counts.total() > 0

    @property
    def equal(self) -> int:
        """Rows of the database that the table has with the same values."""
        return self.rows - self.counts["missing"] - self.counts["different"] - len(self.unsettled)


def count_digits(rows: int) -> int:
    """Return the number of hexadecimal digits of buckets for a table of this size."""
    return next((n for n in range(1, _MOST_DIGITS) if 16**n * _BUCKET_ROWS >= rows), _MOST_DIGITS)


def find_candidates(source: Side, lake: Side, result: Comparison) -> list[Key]:
    """Return the keys whose rows differ, or are on one side only, at most MAX_KEYS. The rows may still be on their way."""
    with ThreadPoolExecutor(1, "headrace-verify") as pool:
        sums = pool.submit(source.sum_buckets)
        stored: Buckets = lake.sum_buckets()
        wanted = sums.result()
    result.rows = sum(rows for rows, _ in wanted.values())
    names = sorted(name for name in {*wanted, *stored} if wanted.get(name) != stored.get(name))
    found: list[Key] = []
    for some in _group(names, wanted, stored):
        ours, theirs = _sum_rows(source.list_rows(some)), _sum_rows(lake.list_rows(some))
        found += sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
        if len(found) > MAX_KEYS:
            result.has_more = True
            break
    return found[:MAX_KEYS]


def _sum_rows(rows: Iterable[tuple[Key, int]]) -> dict[Key, tuple[int, int]]:
    """Return key → its number of rows, and the sum of their digests."""
    sums: dict[Key, tuple[int, int]] = {}
    for key, digest in rows:
        count, total = sums.get(key, (0, 0))
        sums[key] = (count + 1, total + digest)
    return sums


def _group(names: Sequence[str], *sides: Buckets) -> Iterator[list[str]]:
    """Yield the buckets in groups of a bounded number of rows."""
    group: list[str] = []
    rows = 0
    for name in names:
        size = max(side.get(name, (0, 0))[0] for side in sides)
        if group and rows + size > _ROWS:
            yield group
            group, rows = [], 0
        group.append(name)
        rows += size
    if group:
        yield group


class Settlement:
    """Repeated comparison of single keys, until they are equal, or differ although the table has all changes.

    A round reads the rows of the database, waits until the pipeline has applied all changes that were committed before, and reads the
    table and again the database. A key is settled as equal if the table has one of the two states of its row. A difference counts if two
    rounds in a row find the same rows on both sides, so that no change was on its way.
    """

    def __init__(self, source: Side, lake: Side, columns: Sequence[str], await_applied: Callable[[], None]) -> None:
        """``await_applied`` returns when the pipeline has applied all changes that are committed now; it raises after a timeout."""
        self._source, self._lake, self._columns, self._await = source, lake, columns, await_applied

    def settle(self, keys: Sequence[Key], result: Comparison, rounds: int) -> None:
        """Add the differences to ``result``, and the keys that still change after some rounds."""
        seen: dict[Key, tuple[Row | None, Row | None]] = {}
        keys = self._drop_equal(keys)  # rows that were on their way, in most cases
        for _ in range(rounds):
            if not keys:
                return
            seen, keys = self._look(keys, seen, result)
        result.unsettled += keys

    def _drop_equal(self, keys: Sequence[Key]) -> list[Key]:
        stored = self._lake.find_rows(keys) if keys else {}
        rows = self._source.find_rows(keys)
        return [key for key in keys if not is_equal(stored.get(key), rows.get(key))]

    def _look(
        self, keys: Sequence[Key], seen: Mapping[Key, tuple[Row | None, Row | None]], result: Comparison
    ) -> tuple[dict[Key, tuple[Row | None, Row | None]], list[Key]]:
        before = self._source.find_rows(keys)
        self._await()
        stored, after = self._lake.find_rows(keys), self._source.find_rows(keys)
        different: dict[Key, tuple[Row | None, Row | None]] = {}
        waiting = []
        for key in keys:
            row, now, copy = before.get(key), after.get(key), stored.get(key)
            if is_equal(copy, row) or is_equal(copy, now):
                continue
            if row == now and seen.get(key) == (now, copy):
                result.add(self._describe(key, now, copy))
                continue
            if row == now:
                different[key] = (now, copy)
            waiting.append(key)
        return different, waiting

    def _describe(self, key: Key, row: Row | None, copy: Row | None) -> Difference:
        if copy is None:
            return Difference(key, "missing")
        if row is None or copy.copies > row.copies:
            return Difference(key, "extra")
        pairs = zip(self._columns, row.digests, copy.digests, strict=True)
        return Difference(key, "different", tuple(name for name, ours, theirs in pairs if ours != theirs))


def is_equal(one: Row | None, other: Row | None) -> bool:
    """Return whether the rows of a key have the same values, or are missing on both sides."""
    return (one and (one.digests, one.copies)) == (other and (other.digests, other.copies))
