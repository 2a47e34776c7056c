"""Files that the run may not read: their tables are set aside, and the stream continues with the other files.

Spark's stream requests the status of each file that it plans. A denied request would end the stream, and again after each start. In
the stream's log, such a file has a stand-in, a missing local file, which Spark ignores. The batch reads the file itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from headrace.sdk import ConfigError
from headrace.sdk.error_text import full_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.storage import Folder

    #: Returns a file's path and its file system, of Java.
    OpenFile = Callable[[str], tuple[Any, Any]]

_STAND_IN = "file:/headrace-forbidden-file/"
#: ``batchId`` of an entry that the stream has read and never plans.
_NO_BATCH = -1
_COMPACT = ".compact"
_REQUESTS_AT_ONCE = 16
_DENIED = ("AccessDenied", "AccessControlException", "Permission denied", "Status Code: 403", "403 Forbidden")
_FIX = (
    "allow the identity of the driver and the executors to read it (in S3: s3:GetObject on the object, and kms:Decrypt on the key of an "
    "encrypted object), or delete it and set `ignoreMissingFiles: true` next to `path:`; nothing of this batch was written"
)


def is_denied(error: BaseException) -> bool:
    """Return whether a file system refuses access."""
    text = full_text(error)
    return any(word in text for word in _DENIED)


def make_forbidden_error(file: str) -> ConfigError:
    """Return the error for a file whose folder can be listed, and which cannot be read."""
    return ConfigError("permission denied: this identity may not read the file", where=file, fix=_FIX)


def find_forbidden(spark: SparkSession, files: Sequence[str]) -> list[str]:
    """Return the files whose status is denied; none if their folder is denied, too: then the login may be wrong."""
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        answers = pool.map(partial(_is_forbidden, _make_opener(spark)), files)
        return [file for file, is_forbidden in zip(files, answers, strict=True) if is_forbidden]


def drop_missing(spark: SparkSession, files: Iterable[str]) -> list[str]:
    """Return the files that still exist, also those that are forbidden."""
    return list(filter(partial(_exists, _make_opener(spark)), files))


def restore_name(path: str) -> str:
    """Return the file of a path in the stream's log, which may be a stand-in."""
    return unquote(path.removeprefix(_STAND_IN)) if path.startswith(_STAND_IN) else path


def replace_forbidden(spark: SparkSession, stream: Folder) -> bool:
    """Give forbidden files of the planned batch stand-ins in the log of Spark's stream. Return whether there are any.

    The files stay recorded, so that a listing does not plan them again.
    """
    log = stream.folder("sources").folder("0")
    texts = {name: log.read(name) or "" for name in _find_planned(stream, log)}
    planned = [unquote(entry["path"]) for name, text in texts.items() for entry in _parse_planned(name, text)]
    forbidden = set(find_forbidden(spark, [path for path in planned if not path.startswith(_STAND_IN)]))
    for name, text in texts.items():
        changed = "\n".join(line for old in text.splitlines() for line in _replace_line(old, name, forbidden))
        if changed != text.rstrip("\n"):
            log.write(name, changed)
    return bool(forbidden)


def _find_planned(stream: Folder, log: Folder) -> Iterator[str]:
    """Yield the names of the log's entries that Spark plans at a start: of the batch in progress, and of the last finished one."""
    before = max(_find_numbers(stream.folder("commits")), default=0) - 1
    text = stream.folder("offsets").read(f"{before}") if before >= 0 else None
    first = int(json.loads(text.splitlines()[-1])["logOffset"]) + 1 if text else 0
    yield from (name for number, name in sorted(_find_numbers(log).items()) if number >= first)


def _find_numbers(folder: Folder) -> dict[int, str]:
    """Return number → name of the files of a log of Spark."""
    return {int(name.removesuffix(_COMPACT)): name for name in folder.names() if name.removesuffix(_COMPACT).isdigit()}


def _parse_planned(name: str, text: str) -> list[dict[str, Any]]:
    """Return the files that an entry of the log adds; every tenth entry repeats those of all earlier ones."""
    entries = [json.loads(line) for line in text.splitlines()[1:]]
    return [entry for entry in entries if entry["batchId"] == int(name.removesuffix(_COMPACT))]


def _replace_line(line: str, name: str, forbidden: set[str]) -> list[str]:
    entry = json.loads(line) if line.startswith("{") else {}
    file = unquote(entry.get("path", ""))
    if file not in forbidden or entry["batchId"] != int(name.removesuffix(_COMPACT)):
        return [line]
    # Spark decodes the path once. It then has no character of a glob.
    stand_in = {**entry, "path": _STAND_IN + quote(quote(file, safe=""), safe="")}
    # Spark takes the last entry's batch for the newest one.
    return [json.dumps({**entry, "batchId": _NO_BATCH}), json.dumps(stand_in)]


def _is_forbidden(open_file: OpenFile, file: str) -> bool:
    path, files = open_file(file)
    try:
        files.getFileStatus(path)
    except Exception as error:  # noqa: BLE001 - the batch raises other errors
        return is_denied(error) and _can_list(files, path.getParent())
    return False


def _can_list(files: Any, folder: Any) -> bool:
    try:
        files.listStatusIterator(folder).hasNext()
    except Exception:  # noqa: BLE001 - without a listing the cause is unknown
        return False
    return True


def _exists(open_file: OpenFile, file: str) -> bool:
    path, files = open_file(file)
    try:
        return bool(files.exists(path))
    except Exception as error:
        if is_denied(error):
            return True
        raise


def _make_opener(spark: SparkSession) -> OpenFile:
    conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001

    def open_file(file: str) -> tuple[Any, Any]:
        path = spark._jvm.org.apache.hadoop.fs.Path(file)  # type: ignore[union-attr]  # noqa: SLF001
        return path, path.getFileSystem(conf)

    return open_file
