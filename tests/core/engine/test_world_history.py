"""Random histories of the database model, without Spark: their topics have what the topics of a connector have."""

from __future__ import annotations

import pytest
from tests.support.world import Event
from tests.support.world_history import history


@pytest.mark.parametrize("seed", [*range(100), 2817, 3375])  # The last two repeat a delete, and then compact the topic.
def test_compaction_keeps_the_newest_change_of_each_key(seed: int) -> None:
    world, newest = history(seed).world, dict[tuple[str, int], Event]()
    for event in world.sent:
        if event.key is not None:
            newest[event.table, event.key] = max(newest.get((event.table, event.key), event), event, key=_number)
    kept = {record.event.number for record in world.records}
    assert [str(event) for event in newest.values() if event.number not in kept] == []


def _number(event: Event) -> int:
    return event.number
