"""Marks of batches in the snapshots of a table, by which a repeated batch and a new batch are distinguished.

Two pipelines may append rows with the same positions to one table, so positions alone do not identify the rows of a batch. The
snapshot of an append therefore also has the newest marks of other pipelines, which may be in snapshots too old to search.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk import Batch
from headrace_sinks.iceberg.table_handle import MARK

if TYPE_CHECKING:
    from headrace_sinks.iceberg.table_handle import TableHandle

#: The snapshot property with carried marks.
CARRIED = "headrace.batches"
#: Part of ``Batch.pipeline`` of a replay of dead letters.
REPLAY = "/replay/"
#: Maximum number of carried marks: each of the table's snapshots has them.
MAX_CARRIED = 20


@dataclass(frozen=True)
class CarriedMarks:
    """Newest marks of pipelines and replays other than the snapshot's own."""

    marks: Sequence[str]
    #: Every other pipeline and replay has a mark here, unless there are ``MAX_CARRIED``.
    is_complete: bool

    @classmethod
    def parse(cls, text: str) -> CarriedMarks:
        """Parse a snapshot property."""
        data = json.loads(text)
        return cls(data["marks"], data["complete"])

    def __str__(self) -> str:
        """Return the snapshot property."""
        return json.dumps({"marks": self.marks, "complete": self.is_complete})

    def has_all(self, pipeline: str) -> bool:
        """Return whether a pipeline or replay without a mark here has no batch in the table. Pipelines come before replays."""
        count = sum(1 for mark in self.marks if REPLAY in pipeline or not _is_of_replay(mark))
        return self.is_complete and count < MAX_CARRIED


@dataclass(frozen=True)
class SnapshotMarks:
    """Marks of a table's newest snapshots."""

    #: Marks of the snapshots, the newest first.
    own: Sequence[str]
    #: Carried marks of the snapshots, the newest first.
    carried: Sequence[CarriedMarks]
    #: The snapshots are all snapshots that the table ever had.
    is_whole: bool

    @classmethod
    def read(cls, handle: TableHandle, batch: Batch) -> SnapshotMarks:
        """Read the marks of a table that are relevant for a batch: for an upsert, only its pipeline's newest mark."""
        oldest, own, carried = None, list[str](), list[CarriedMarks]()
        for oldest in handle.walk_snapshots():
            summary = oldest.summary()
            if (text := summary.get(CARRIED)) is not None:
                carried.append(CarriedMarks.parse(text))
            if (mark := summary.get(MARK)) is not None:
                own.append(str(mark))
                if batch.mode == "upsert" and own[-1].startswith(batch.mark_prefix):
                    break
        return cls(own, carried, is_whole=oldest is not None and oldest.parentId() is None)

    def is_applied(self, batch: Batch) -> bool | None:
        """Return whether the table has a batch. Only a pipeline's last batch is repeated.

        None if unknown: the checkpoint is older than the table; or there is no mark of the pipeline, and older snapshots are expired or
        too many to search.
        """
        marks = [mark for mark in self.own if mark.startswith(batch.mark_prefix)]
        if not marks and (newest := self._carried_marks.get(batch.pipeline)) is not None:
            marks = [newest]
        if marks:
            return batch.is_applied(marks)
        has_all = self.is_whole or (bool(self.carried) and all(c.has_all(batch.pipeline) for c in self.carried))
        return False if has_all else None

    def carry(self, batch: Batch) -> dict[str, str]:
        """Return the snapshot property of an append. Pipelines come before replays, which are finished."""
        if batch.mode == "upsert":
            return {}
        newest = self._carried_marks
        for mark in reversed(self.own):
            newest[_pipeline_of(mark)] = mark
        newest.pop(batch.pipeline, None)
        is_complete = self.is_whole or any(carried.is_complete for carried in self.carried)
        return {CARRIED: str(CarriedMarks(sorted(newest.values(), key=_is_of_replay)[:MAX_CARRIED], is_complete))}

    @property
    def _carried_marks(self) -> dict[str, str]:
        """Pipeline → its carried mark with the highest number. Of concurrent appends, one may carry an older mark."""
        marks = sorted((mark for carried in self.carried for mark in carried.marks), key=_number_of)
        return {_pipeline_of(mark): mark for mark in marks}


#: Marks of a new table.
NO_MARKS = SnapshotMarks((), (), is_whole=True)


def _pipeline_of(mark: str) -> str:
    return mark.partition(":")[0]


def _number_of(mark: str) -> int:
    return int(mark.split(":")[1])


def _is_of_replay(mark: str) -> bool:
    return REPLAY in _pipeline_of(mark)
