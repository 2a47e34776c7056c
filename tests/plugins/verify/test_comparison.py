"""Comparison of two sides that are held in memory: what differs is found, and what is on its way does not count."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from headrace_verify import comparison
from headrace_verify.comparison import Comparison, Difference, Settlement, count_digits, find_candidates
from headrace_verify.sides import Buckets, Key, Row
from hypothesis import given, settings, strategies as st

from headrace.sdk import RetriableError

COLUMNS = ("id", "name", "fee")


def hash_text(text: str) -> int:
    return int(hashlib.md5(text.encode()).hexdigest()[:15], 16)


@dataclass
class Memory:
    """Side in memory: id → the other columns. ``twice``: ids with two rows."""

    rows: dict[str, tuple[str, ...]]
    versions: dict[str, int] = field(default_factory=dict)
    twice: tuple[str, ...] = ()

    def _list(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for key, values in self.rows.items():
            yield from [(key, values)] * (2 if key in self.twice else 1)

    def sum_buckets(self) -> Buckets:
        sums: dict[str, tuple[int, int]] = {}
        for key, values in self._list():
            rows, digests = sums.get(self._bucket(key), (0, 0))
            sums[self._bucket(key)] = (rows + 1, digests + hash_text("|".join((key, *values))))
        return sums

    def list_rows(self, buckets: Sequence[str]) -> Iterator[tuple[Key, int]]:
        for key, values in self._list():
            if self._bucket(key) in buckets:
                yield (key,), hash_text("|".join((key, *values)))

    def find_rows(self, keys: Sequence[Key]) -> dict[Key, Row]:
        return {
            (key,): Row(
                tuple(map(hash_text, (key, *self.rows[key]))), self.versions.get(key, 0), 2 if key in self.twice else 1
            )
            for (key,) in keys
            if key in self.rows
        }

    @staticmethod
    def _bucket(key: str) -> str:
        return hashlib.md5(key.encode()).hexdigest()[:1]


def compare(source: Memory, lake: Memory, await_applied: Callable[[], None] = lambda: None) -> Comparison:
    result = Comparison()
    candidates = find_candidates(source, lake, result)
    Settlement(source, lake, COLUMNS, await_applied).settle(candidates, result, 5)
    return result


ROWS = st.dictionaries(
    st.text("ab|:", max_size=3), st.tuples(st.text("xN|", max_size=2), st.text("01.", max_size=2)), max_size=12
)


@given(ROWS, ROWS)
@settings(deadline=None)
def test_each_difference_is_found(source: dict[str, tuple[str, str]], lake: dict[str, tuple[str, str]]) -> None:
    found = {
        item.key[0]: (item.kind, item.columns) for item in compare(Memory({**source}), Memory({**lake})).differences
    }
    expected: dict[str, tuple[str, tuple[str, ...]]] = {}
    for key in {*source, *lake}:
        if key not in lake:
            expected[key] = ("missing", ())
        elif key not in source:
            expected[key] = ("extra", ())
        elif source[key] != lake[key]:
            names = [
                name for name, ours, theirs in zip(COLUMNS[1:], source[key], lake[key], strict=True) if ours != theirs
            ]
            expected[key] = ("different", tuple(names))
    assert found == expected


def test_second_row_of_a_key_is_extra() -> None:
    rows: dict[str, tuple[str, ...]] = {"1": ("a", "2"), "2": ("b", "1")}
    result = compare(Memory(rows), Memory(rows, twice=("2",)))
    assert result.differences == [Difference(("2",), "extra")]
    assert (result.rows, result.equal) == (2, 2)


def test_rows_that_arrive_later_are_equal() -> None:
    source, lake = Memory({"1": ("new", "2"), "2": ("b", "1")}), Memory({"1": ("old", "2"), "3": ("c", "1")})

    def apply() -> None:
        lake.rows = dict(source.rows)

    result = compare(source, lake, apply)
    assert (result.rows, result.equal, result.differences) == (2, 2, [])


class Flickering(Memory):
    """Side with one row, which changes before each second look and then changes back."""

    looks = 0

    def find_rows(self, keys: Sequence[Key]) -> dict[Key, Row]:
        self.looks += 1
        self.rows["1"] = ("before" if self.looks % 2 else "after", "2")
        return super().find_rows(keys)


def test_row_that_changes_during_each_round_is_no_difference() -> None:
    result = compare(Flickering({"1": ("0", "2")}), Memory({"1": ("behind", "2")}))
    assert result.differences == []
    assert result.unsettled == [("1",)]


def test_row_with_another_version_is_no_difference() -> None:
    """The row has changed and changed back between the two reads of a round."""
    source = Memory({"1": ("a", "2")})

    def change() -> None:
        source.versions["1"] = source.versions.get("1", 0) + 1

    result = compare(source, Memory({"1": ("behind", "2")}), change)
    assert (result.differences, result.unsettled) == ([], [("1",)])


def test_row_that_changes_back_and_forth_is_no_difference() -> None:
    """The table has the state between the two reads of the database, which are equal."""
    source, lake = Memory({"1": ("a", "2")}), Memory({"1": ("before", "2")})
    states = iter(["b", "c", "d", "e", "f"])

    def change() -> None:
        lake.rows["1"] = (next(states), "2")

    assert compare(source, lake, change).differences == []


def test_difference_counts_after_the_changes_are_applied() -> None:
    def never() -> None:
        raise RetriableError("the pipeline has not applied the changes")

    with pytest.raises(RetriableError):
        compare(Memory({"1": ("a", "2")}), Memory({"1": ("b", "2")}), never)
    assert compare(Memory({"1": ("a", "2")}), Memory({"1": ("a", "2")}), never).differences == []


def test_many_differences_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_KEYS", 10)
    monkeypatch.setattr(comparison, "_ROWS", 20)
    result = compare(Memory({str(n): ("a", "1") for n in range(200)}), Memory({}))
    assert result.has_more
    assert len(result.differences) == 10


def test_buckets_stay_small() -> None:
    assert [count_digits(rows) for rows in (0, 8_000, 8_001, 2_000_000, 10_000_000, 10**9)] == [1, 1, 2, 3, 4, 4]


def test_differences_name_no_values() -> None:
    [found] = compare(Memory({"1": ("secret", "2")}), Memory({"1": ("other", "2")})).differences
    assert found == Difference(("1",), "different", ("name",))
