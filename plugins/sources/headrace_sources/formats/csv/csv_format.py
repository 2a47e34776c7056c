"""CSV files: a record per line, the names of columns in the first line or in the pipeline file.

Spark splits the lines into texts. Types come from ``columns:`` of a rule, and other columns are text. Only the line that does not
fit is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar, TypeVar

from headrace.sdk import Config, ConfigError, DataError, Format, Scan, SchemaLog, Subject
from headrace_sources.formats.csv.csv_header import parse_header, read_header
from headrace_sources.formats.csv.csv_scan import CsvScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_READERS = 8

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


class CsvConfig(Config):
    """Options of Spark's CSV reader."""

    passthrough: ClassVar[tuple[str, ...]] = (
        "charToEscapeQuoteEscaping",
        "comment",
        "dateFormat",
        "emptyValue",
        "encoding",
        "escape",
        "header",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "lineSep",
        "locale",
        "maxCharsPerColumn",
        "maxColumns",
        "multiLine",
        "nullValue",
        "quote",
        "sep",
        "timestampFormat",
        "timestampNTZFormat",
        "unescapedQuoteHandling",
    )


class CsvFormat(Format):
    """``format: csv``."""

    name = "csv"
    api_version = 1
    Config = CsvConfig
    container = True

    def scans(self, spark: SparkSession, files: Sequence[str], options: Mapping[str, str]) -> list[Scan]:
        from pyspark.sql.types import StructType

        _check_encoding(options)
        options = _read_escapes(options)
        if options.get("header", "false").lower() != "true":
            return [CsvScan(tuple(files), StructType([]), (), ())]
        with ThreadPoolExecutor(max_workers=_READERS) as pool:
            headers = list(pool.map(lambda file: read_header(spark, file, options), files))
        # An empty file has no header and no records.
        groups = _group((header, file) for header, file in zip(headers, files, strict=True) if header)
        texts = {header.text: group[0] for header, group in groups.items()}
        names = {text: parse_header(spark, text, options, file) for text, file in texts.items()}
        scans = _group((names[header.text], header) for header in groups)
        return [
            CsvScan.of(tuple(file for header in found for file in groups[header]), columns, tuple(found))
            for columns, found in scans.items()
        ]

    def keep_table_types(self, scan: Scan, subject: Subject, log: SchemaLog) -> Scan:
        assert isinstance(scan, CsvScan), "a scan of this format"
        types = log.file_types(subject)
        if not scan.names and not types:
            raise DataError(
                "the files have no header, and no rule names their columns",
                where=f"topic {subject.topic}",
                fix="set `header: true` next to `path:`, or name all columns in their order in `columns:` of the rule",
            )
        return scan.with_types(types, f"topic {subject.topic}, `columns:` of its rule")

    def read(self, spark: SparkSession, scan: Scan, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        assert isinstance(scan, CsvScan), "a scan of this format"
        return scan.read(spark, schema, _read_escapes(options))


def _read_escapes(options: Mapping[str, str]) -> Mapping[str, str]:
    r"""Return the options with a separator as it is in files. Spark also accepts a tab as the two characters ``\t``."""
    return {**options, "sep": options["sep"].replace(r"\t", "\t")} if "sep" in options else options


def _check_encoding(options: Mapping[str, str]) -> None:
    """Raise ConfigError for an encoding in which the bytes of a line break may be a part of another character."""
    encoding = options.get("encoding", "")
    if re.match(r"(x-)?utf[-_]?(16|32)", encoding, re.IGNORECASE) and options.get("multiLine", "").lower() != "true":
        raise ConfigError(
            f"lines in {encoding} cannot be found by their bytes",
            where="source files, encoding",
            fix="set `multiLine: true` next to `path:`, or convert the files to UTF-8",
        )


def _group(pairs: Iterable[tuple[_Key, _Item]]) -> dict[_Key, list[_Item]]:
    """Return key → its items."""
    found: dict[_Key, list[_Item]] = {}
    for key, item in pairs:
        found.setdefault(key, []).append(item)
    return found
