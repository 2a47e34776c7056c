"""First lines of CSV files, with the names of their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError, DataError
from headrace.sdk.changes import PREFIX
from headrace.sdk.error_text import first_line
from headrace_sources.formats.missing_files import make_missing_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Bytes that are read at once, and at most, to find the end of the header.
_CHUNK, _MOST = 1 << 14, 1 << 20
_BOM = "\ufeff"
_CORRUPT = PREFIX + "corrupt"
_LINE_END = re.compile("\r\n|\n|\r")


@dataclass(frozen=True)
class CsvHeader:
    """First line of a file that is not blank and no comment, and the number of lines before it."""

    text: str
    before: int


def read_header(spark: SparkSession, file: str, options: Mapping[str, str]) -> CsvHeader | None:
    """Return the first line of a file that is not blank and no comment; None for a file without such a line.

    With ``multiLine``, a quoted name may contain line breaks.
    """
    try:
        return _find_header(_read_start(spark, file, options), options, file)
    except (ConfigError, DataError):
        raise
    except Exception as error:
        text = first_line(error)
        if "FileNotFound" in text:
            raise make_missing_error(file) from error
        if options.get("ignoreCorruptFiles") == "true":
            return None
        move = "move it out of the folder and set `ignoreMissingFiles: true` next to `path:`"
        fix = f"replace it with a complete file, or {move}; nothing of this batch was written"
        raise DataError(f"its first line cannot be read: {text}", where=file, fix=fix) from error


def parse_header(spark: SparkSession, header: str, options: Mapping[str, str], file: str) -> tuple[str, ...]:
    """Return the names in a header; a column without a name gets Spark's name for it (``_c0``). DataError for equal names."""
    from pyspark.sql import functions as F

    # A separator in a quoted name is counted, too: the last fields are then null.
    count = header.count(options.get("sep", ",")) + 1
    fields = ", ".join(f"c{number} STRING" for number in range(count))
    kept = {key: value for key, value in options.items() if key not in ("header", "nullValue", "emptyValue")}
    parsed = F.from_csv(F.lit(header), f"{fields}, {_CORRUPT} STRING", {**kept, "columnNameOfCorruptRecord": _CORRUPT})
    row = spark.sql("SELECT 1").select(parsed.alias("row")).head()
    assert row is not None, "a query without a table has a row"
    *cells, corrupt = row[0]
    while corrupt is not None and cells and cells[-1] is None:
        cells.pop()
    names = tuple(cell or f"_c{number}" for number, cell in enumerate(cells))
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise DataError(
            f"the header names the column {repeated!r} more than once", where=file, fix="give each column its own name"
        )
    return names


def _find_header(start: bytes, options: Mapping[str, str], file: str) -> CsvHeader | None:
    lines = _split_lines(start, options)
    header, end = _locate_header(lines, options)
    if end is not None:
        return CsvHeader("\n".join(header), end)
    if header:
        raise DataError(
            "a quoted name in the header has no end",
            where=file,
            fix="correct the header, or set `quote` next to `path:`",
        )
    if len(start) >= _MOST:
        raise DataError(
            f"the first {_MOST >> 20} MiB contain only comments and blank lines",
            where=file,
            fix="correct `comment` next to `path:`, or shorten the comments",
        )
    return None


def _split_lines(start: bytes, options: Mapping[str, str]) -> list[str]:
    encoding = options.get("encoding", "UTF-8")
    try:
        text = start.decode(encoding, errors="replace").removeprefix(_BOM)
    except LookupError:
        raise ConfigError(
            f"{encoding!r} is not an encoding", where="source files, encoding", fix="write a name like ISO-8859-1"
        ) from None
    return text.split(options["lineSep"]) if "lineSep" in options else _LINE_END.split(text)


def _locate_header(lines: Sequence[str], options: Mapping[str, str]) -> tuple[list[str], int | None]:
    """Return the lines of the header, and the position of its last one; None if the header does not end."""
    comment, quote = options.get("comment"), options.get("quote", '"')
    header: list[str] = []
    for number, line in enumerate(lines):
        if not header and (not line.strip() or (comment and line.startswith(comment))):
            continue
        header.append(line)
        is_open = options.get("multiLine") == "true" and quote and "\n".join(header).count(quote) % 2
        if not is_open:
            return header, number
    return header, None


def _read_start(spark: SparkSession, file: str, options: Mapping[str, str]) -> bytes:
    """Return the first bytes of a file, which may be compressed: all of its header, and the comments before it."""
    jvm: Any = spark._jvm  # noqa: SLF001
    conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(file)
    opened = path.getFileSystem(conf).open(path)
    codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(conf).getCodec(path)
    stream = opened if codec is None else codec.createInputStream(opened)
    found = b""
    try:
        while len(found) < _MOST:
            part = jvm.org.apache.commons.io.input.BoundedInputStream(stream, _CHUNK)
            chunk = bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(part))
            found += chunk
            # The last line may be cut.
            if len(chunk) < _CHUNK or _locate_header(_split_lines(found, options)[:-1], options)[1] is not None:
                break
    finally:
        stream.close()
    return found
