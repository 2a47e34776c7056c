"""Splitting of CSV files into texts, with Spark's parser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import barrier
from headrace_sources.formats.csv.csv_header import CsvHeader
from headrace_sources.kafka_connect.json_values import keep_utf8

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: The line as it was read; null in a file with ``multiLine``, of which Spark keeps only damaged lines.
LINE = PREFIX + "line"
#: Why a line has no texts, or null.
PROBLEM = PREFIX + "problem"
_CORRUPT, _CELLS, _ROW, _END = (PREFIX + name for name in ("corrupt", "cells", "row", "end"))
#: Text of an empty cell without quotes, unless the file sets `nullValue`. Spark's default, an empty text, is also that of `""`.
_DEFAULTS: Mapping[str, str] = {"nullValue": "\x01null\x01"}
#: Last cell that is added to each line. A quoted value without an end contains it.
_END_TEXT = "\x01end\x01"
#: Options of the reader of files, which are not options of the parser of a line.
_FILE_OPTIONS = ("header", "encoding", "lineSep", "multiLine", "comment", "ignoreMissingFiles", "ignoreCorruptFiles")
_UTF8 = ("UTF-8", "UTF8")


def split_lines(
    spark: SparkSession,
    files: Sequence[str],
    names: Sequence[str],
    headers: Sequence[CsvHeader],
    options: Mapping[str, str],
) -> DataFrame:
    """Return a row per line, without headers, comments and blank lines: the columns ``names`` with texts, LINE and PROBLEM."""
    from pyspark.sql import functions as F

    frame = _read_lines(spark, files, headers, options)
    parser = {key: value for key, value in options.items() if key not in _FILE_OPTIONS}
    parser = {**_DEFAULTS, **parser, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    whole = F.concat(F.col(LINE), F.lit(options.get("sep", ",")), F.lit(_END_TEXT))
    cells = F.from_csv(whole, _text_columns([*names, _END, _CORRUPT]), parser)
    frame = frame.select(LINE, _find_bad_bytes(options).alias(PROBLEM), barrier(cells).alias(_CELLS))
    is_split = F.col(f"{_CELLS}.{_CORRUPT}").isNull() & (F.col(f"{_CELLS}.{_END}") == _END_TEXT)
    problem = F.coalesce(F.col(PROBLEM), F.when(~F.coalesce(is_split, F.lit(False)), F.lit(_describe(len(names)))))
    return frame.select(
        *[F.col(f"{_CELLS}.{name}").alias(name) for name in names], LINE, barrier(problem).alias(PROBLEM)
    )


def split_files(
    spark: SparkSession, files: Sequence[str], names: Sequence[str], options: Mapping[str, str]
) -> DataFrame:
    """Return the same for files whose values may contain line breaks."""
    from pyspark.sql import functions as F

    reader = spark.read.schema(_text_columns([*names, _CORRUPT])).options(**{**_DEFAULTS, **options})
    # Spark only reports lines with too few or too many columns in this mode.
    frame = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _CORRUPT).csv(list(files))
    problem = F.when(F.col(_CORRUPT).isNotNull(), F.lit(_describe(len(names))))
    return frame.select(*names, F.col(_CORRUPT).alias(LINE), barrier(problem).alias(PROBLEM))


def _read_lines(
    spark: SparkSession, files: Sequence[str], headers: Sequence[CsvHeader], options: Mapping[str, str]
) -> DataFrame:
    from pyspark.sql import functions as F

    kept = {key: value for key, value in options.items() if key not in _FILE_OPTIONS or key.startswith("ignore")}
    kept |= {"lineSep": options["lineSep"]} if "lineSep" in options else {}
    encoding = options.get("encoding", _UTF8[0])
    text = F.col("value") if encoding.upper() in _UTF8 else F.decode(F.col("value").cast("binary"), encoding)
    frame = spark.read.format("text").options(**kept).load(list(files))
    # The lower bits are the row in the task, which reads one block of one file (``BLOCK_CONF`` of the source).
    row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    frame = frame.select(text.alias(LINE), F.when(F.expr("input_file_block_start()") == 0, row).alias(_ROW))
    is_left_out = F.trim(LINE) == ""
    if comment := options.get("comment"):
        is_left_out |= F.col(LINE).startswith(comment)
    for header in headers:
        is_left_out |= F.coalesce(F.col(_ROW) == header.before, F.lit(False)) & (F.col(LINE) == header.text)
    return frame.where(~is_left_out)


def _find_bad_bytes(options: Mapping[str, str]) -> Column:
    from pyspark.sql import functions as F

    if options.get("encoding", _UTF8[0]).upper() not in _UTF8:
        return F.lit(None).cast("string")
    return F.when(keep_utf8(F.col(LINE)).isNull(), F.lit("the line is not UTF-8: set `encoding` next to `path:`"))


def _text_columns(names: Sequence[str]) -> str:
    return ", ".join(f"{name} STRING" for name in names)


def _describe(count: int) -> str:
    return (
        f"the line does not have {count} columns, or a quoted value does not end in it: set `multiLine: true` if values contain "
        "line breaks"
    )
