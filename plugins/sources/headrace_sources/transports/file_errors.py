"""Spark's errors about missing and damaged files, as errors with the file's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.sdk import DataError
from headrace.sdk.error_text import find_missing_file, full_text
from headrace.sdk.storage import is_under
from headrace_sources.formats.missing_files import make_missing_error
from headrace_sources.formats.oversized_data import ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Errors of Hadoop's decompressors for a truncated or damaged file.
_DECOMPRESSION = re.compile(
    r"EOFException|ZipException|ZlibException|DataFormatException|not a gzip file|invalid (?:stored|distance|code|bit|block)"
    r"|incorrect (?:header|data) check|stored gzip|unexpected end of (?:input|block|file|stream)|bad block header|stream CRC"
    r"|org\.apache\.hadoop\.io\.compress|(?:Lz4|Snappy|Zstd|BZip2)\w*(?:Exception|Codec|Decompressor)",
    re.IGNORECASE,
)
_DAMAGED = re.compile(
    r"Encountered error while reading file (\w+:\S+?)\.?(?:\s|$)|\[FAILED_READ_FILE\S*\].* (\w+:/\S+?)\.?(?:\s|$)"
)


def explain_read_error(error: BaseException, path: str) -> DataError | None:
    """Return the error for a missing or damaged file under ``path``; None for other files, which a sink may have read."""
    if (missing := find_missing_file(error)) and is_under(missing, path):
        return make_missing_error(missing)
    if match := _DAMAGED.search(full_text(error)):
        file = re.sub("^file:/+", "file:/", unquote(match[1] or match[2]))
        return make_damage_error(file, error) if is_under(file, path) else None
    return None


def find_damaged_compression(spark: SparkSession, files: Sequence[str], error: BaseException) -> str | None:
    """Return the first compressed file that cannot be read completely, if ``error`` comes from a decompressor.

    The errors of Hadoop's decompressors do not name the file.
    """
    if not _DECOMPRESSION.search(full_text(error)):
        return None
    jvm: Any = spark._jvm  # noqa: SLF001
    conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    codecs = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(conf)
    return next((file for file in files if not _is_whole(jvm, conf, codecs, file)), None)


def _is_whole(jvm: Any, conf: Any, codecs: Any, file: str) -> bool:
    path = jvm.org.apache.hadoop.fs.Path(file)
    codec = codecs.getCodec(path)
    if codec is None:
        return True
    try:
        stream = codec.createInputStream(path.getFileSystem(conf).open(path))
        try:
            jvm.org.apache.commons.io.IOUtils.consume(stream)
        finally:
            stream.close()
    except Exception:  # noqa: BLE001 - any error means that the file is damaged
        return False
    return True


def make_damage_error(file: str, error: BaseException) -> DataError:
    """Return the error for a file that cannot be read completely, from the error of its reader."""
    is_oversized = any(name in full_text(error) for name in ERRORS)
    what = (
        "a block or a line of the file is too large for the memory"
        if is_oversized
        else "the file is truncated or damaged"
    )
    move = "move it out of the folder and set `ignoreMissingFiles: true` next to `path:`"
    fix = f"replace it with a complete file, or {move}; nothing of this batch was written"
    return DataError(what, where=file, fix=fix)
