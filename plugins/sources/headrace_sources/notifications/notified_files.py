"""New files of a bucket, found by its event notifications, for Spark's file stream."""

from __future__ import annotations

import json
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.sdk.interval import seconds_of
from headrace_sources.notifications.notification_queue import Message, NotificationQueue
from headrace_sources.notifications.object_events import CreatedObject, UnknownMessageError, parse_message
from headrace_sources.notifications.object_selection import ObjectFile, ObjectSelection, name_file
from headrace_sources.notifications.pending_log import PendingLog, read_seen_files

if TYPE_CHECKING:
    from headrace.sdk.storage import Folder

_LOG = logging.getLogger(__name__)
#: Folder of the pending files in the checkpoint, and its file with the time of the last listing.
_FOLDER, _LISTED = "notified", "listed.json"
#: Messages of one poll: they are stored and deleted before the queue's timeout of 30 seconds makes them visible again.
_MESSAGES = 2_000
#: Names in keys that Hadoop's paths do not have.
_NAMES = frozenset({"", ".", ".."})
#: Pending files above which messages stay in the queue until batches have read some.
_MOST_PENDING = 100_000


class NotifiedFiles:
    """Files that Spark's stream has not planned yet. They are in the checkpoint before their messages are deleted."""

    def __init__(
        self,
        queue: NotificationQueue,
        stream: Folder,
        selection: ObjectSelection,
        list_files: Callable[[], Iterable[ObjectFile]],
        backfill_interval: str,
    ) -> None:
        """``stream``: folder of Spark's stream in the checkpoint; ``list_files``: lists the files that exist."""
        self._queue, self._selection, self._list_files = queue, selection, list_files
        self._folder, self._interval = stream.folder(_FOLDER), seconds_of(backfill_interval)
        self._log = PendingLog(self._folder)
        self._seen = read_seen_files(stream)
        self._pending = {path: file for path, file in self._log.read().items() if path not in self._seen}
        self._listed_at = self._folder.load(_LISTED, lambda text: float(json.loads(text)["time"]))
        #: Files of batches, from the thread of the batches.
        self._planned: deque[Sequence[str]] = deque()
        self._reported: set[str] = set()
        #: Whether the log lacks a change of the pending files.
        self._is_changed = True
        self._store()

    @property
    def path(self) -> str:
        """Folder for Spark's file stream."""
        return self._log.path

    def drain(self) -> None:
        """Poll until the queue has no more messages of before this call."""
        start = self._queue.read_time()
        while any(message.sent <= start for message in self.poll(most_pending=math.inf)):
            pass

    def note_planned(self, files: Sequence[str]) -> None:
        """Remove the files of a batch with the next poll: the stream has them in its own log."""
        self._planned.append(files)

    def poll(self, most_pending: float = _MOST_PENDING) -> list[Message]:
        """Store the files of available messages, delete the messages, and return them.

        Messages stay in the queue while ``most_pending`` files are pending.
        """
        self._remove_planned()
        self._list_if_due()
        messages = self._queue.receive(_MESSAGES) if len(self._pending) < most_pending else []
        done = []
        for message in messages:
            files = self._read_files(message)
            if files is not None:
                self._add(files)
                done.append(message)
        self._store()
        self._queue.delete(done)
        return done

    def _list_if_due(self) -> None:
        """Store the files that exist, once per interval."""
        now = time.time()
        # A clock that was set back must not delay the listing.
        if self._listed_at is None or abs(now - self._listed_at) >= self._interval:
            self._add(self._list_files())
            self._store()
            self._folder.write(_LISTED, json.dumps({"time": now}))
            self._listed_at = now

    def _store(self) -> None:
        """Write the pending files if the log does not have them, also after a write that failed."""
        if self._is_changed:
            self._log.write(self._pending)
            self._is_changed = False

    def _remove_planned(self) -> None:
        while self._planned:
            for path in self._planned.popleft():
                self._seen.add(path)
                self._is_changed |= self._pending.pop(path, None) is not None

    def _add(self, files: Iterable[ObjectFile]) -> None:
        """Add files that are selected and new. As in a listing, an overwritten file is not new."""
        for file in files:
            if file.path not in self._seen and file.path not in self._pending and self._selection.selects(file):
                self._pending[file.path] = file
                self._is_changed = True

    def _read_files(self, message: Message) -> list[ObjectFile] | None:
        """Return the new files of a message; None for a message of another kind, which stays in the queue."""
        try:
            objects = parse_message(message.body)
            return [self._find_file(one) for one in objects]
        except UnknownMessageError as error:
            if message.id not in self._reported:
                self._reported.add(message.id)
                _LOG.warning(
                    "source files: message %s stays in the queue: %s. A redrive policy of the queue moves it to another queue",
                    message.id,
                    error,
                )
            return None

    def _find_file(self, event: CreatedObject) -> ObjectFile:
        """Return the file of an object. UnknownMessageError for a selected object that Hadoop cannot read."""
        file = ObjectFile(name_file(self._selection.root, event.bucket, event.key), event.size, event.time)
        if not _NAMES.isdisjoint(event.key.split("/")) and self._selection.selects(file):
            raise UnknownMessageError(
                f"Hadoop has no path for the key {event.key!r}: it has an empty name, `.` or `..` between slashes"
            )
        return file
