"""A view that is kept by its touched keys equals its SQL, after each batch of random histories."""

from __future__ import annotations

import pytest
from hypothesis import Phase, find, given, settings, strategies as st
from tests.support.view_shapes import SHAPES, SHOP
from tests.support.view_world import Batch, Row, ViewWorld

SMALL = st.integers(0, 2)
VALUE = st.none() | SMALL


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Draw the changes of one batch: a truncate deletes all keys."""
    batch: dict[str, dict[int, Row | None]] = {}
    for table in draw(st.lists(st.sampled_from(list(SHOP)), min_size=1, max_size=3, unique=True)):
        width = len(SHOP[table]) - 1
        if draw(st.integers(0, 9)) == 0:
            batch[table] = dict.fromkeys(range(6))
            continue
        row = st.tuples(*[VALUE] * width)
        rows = st.one_of(row, row, row, st.none())
        changes = draw(st.dictionaries(st.integers(0, 5), rows, min_size=1, max_size=5))
        batch[table] = {key: row and (key, *row) for key, row in changes.items()}
    return batch


#: Batches by refresh: a refresh may follow several batches.
HISTORIES = st.lists(st.lists(batches(), min_size=1, max_size=2), min_size=2, max_size=5)


def check_history(world: ViewWorld, history: list[list[Batch]]) -> None:
    for queued in history:
        for batch in queued:
            world.apply(batch)
        world.refresh()
        assert world.view == world.compute_whole()


@pytest.mark.parametrize("shape", ["total_of_one_table", "left_join", "not_exists", "row_number"])
def test_view_without_old_rows_becomes_wrong(shape: str) -> None:
    """The histories can show a missing key: `find` fails if no history makes the view wrong."""

    def becomes_wrong(history: list[list[Batch]]) -> bool:
        try:
            check_history(ViewWorld(shape, forgets_old_rows=True), history)
        except AssertionError:
            return True
        return False

    find(HISTORIES, becomes_wrong, settings=settings(max_examples=100, phases=[Phase.generate]))


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=2)
@given(history=HISTORIES)
def test_view_equals_its_sql(shape: str, history: list[list[Batch]]) -> None:
    check_history(ViewWorld(shape), history)


@pytest.mark.parametrize("shape", ["sides_of_other_types", "except_of_other_types"])
def test_keys_of_one_side_have_the_common_type_of_all_sides(shape: str) -> None:
    check_history(ViewWorld(shape), [[{"shop.orders": {0: (0, 1, 1, 1, 1)}}], [{"shop.orders": {0: (0, 2, 1, 1, 1)}}]])


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=40)
@given(history=HISTORIES)
def test_view_equals_its_sql_over_many_histories(shape: str, history: list[list[Batch]]) -> None:
    check_history(ViewWorld(shape), history)
