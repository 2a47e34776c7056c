"""Log of the commands that somebody ran by hand on a pipeline, in its checkpoint."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from headrace.progress.audit_entry import DONE, FAILED, INTERRUPTED, AuditEntry, format_time
from headrace.sdk.file_system import TextFolder

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


@contextmanager
def record_command(
    folder: Folder, command: str, arguments: Mapping[str, Any], redact: Callable[[str], str]
) -> Iterator[None]:
    """Keep an entry of the command in the block: written before the block, and with the result after it."""
    entry = AuditEntry.of_this_process(command, arguments)
    name = f"{entry.started.replace(':', '')}-{uuid.uuid4().hex[:8]}.json"
    folder.write(name, json.dumps(asdict(entry), ensure_ascii=False))
    result, error = INTERRUPTED, None
    try:
        yield
        result = DONE
    except Exception as raised:
        result, error = FAILED, redact(str(raised))
        raise
    finally:
        ended = replace(entry, result=result, ended=format_time(), error=error)
        with suppress(Exception):  # The entry stays `started`; the command has done its work, or raises its own error.
            folder.write(name, json.dumps(asdict(ended), ensure_ascii=False))


def read_audit(folder: TextFolder, last: int | None = None) -> list[AuditEntry]:
    """Return the entries in a folder, oldest first, or the ``last`` ones. Files that are no entries are left out."""
    names = sorted(name for name in folder.names() if name.endswith(".json"))
    texts = (folder.read(name) for name in (names if last is None else names[max(len(names) - last, 0) :]))
    return [entry for entry in map(_parse, texts) if entry]


def _parse(text: str | None) -> AuditEntry | None:
    try:
        return AuditEntry(**json.loads(text or ""))
    except (ValueError, TypeError):
        return None
