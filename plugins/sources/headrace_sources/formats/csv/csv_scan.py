"""Reading of CSV files with the same columns: Spark splits the lines, and texts become values of the columns' types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, RejectReason, Scan, changes as C
from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import barrier, fold_name
from headrace_sources.formats.csv.csv_header import CsvHeader
from headrace_sources.formats.csv.csv_lines import LINE, PROBLEM, split_files, split_lines
from headrace_sources.formats.csv.csv_values import is_rounded, parse_value

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

#: Prefixes of a column as text, which its number follows, and of its value, which the name of the text follows.
_TEXT, _VALUE = PREFIX + "text", PREFIX + "value"
_TYPE = re.compile(
    r"boolean|tinyint|smallint|int|integer|bigint|float|double|decimal\( ?\d+ ?(, ?\d+ ?)?\)|string|date|timestamp|timestamp_ntz",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CsvScan(Scan):
    """Files whose lines have the same columns in the same order; ``names`` is empty while they are unknown."""

    names: tuple[str, ...]
    #: First lines of the files, all with these names; empty without headers.
    headers: tuple[CsvHeader, ...]

    @classmethod
    def of(cls, files: tuple[str, ...], names: tuple[str, ...], headers: tuple[CsvHeader, ...] = ()) -> CsvScan:
        """Return the scan of files with text columns."""
        from pyspark.sql.types import StringType, StructField, StructType

        return cls(files, StructType([StructField(name, StringType()) for name in names]), names, headers)

    def merge(self, other: Scan) -> Scan | None:
        """Return None: Spark reads the columns of a file by their places."""
        return None

    def with_types(self, types: Mapping[str, str], where: str) -> CsvScan:
        """Return the scan with the declared types of its columns; without a header, with the declared columns in their order.

        ``where``: the place of the declarations, for errors.
        """
        from pyspark.sql.types import StructField, StructType

        scan = self if self.names else self.of(self.files, tuple(types))
        kinds = {fold_name(column): _parse_type(text, column, where) for column, text in types.items()}
        fields = [StructField(field.name, kinds.get(fold_name(field.name), field.dataType)) for field in scan.schema]
        return replace(scan, schema=StructType(fields))

    def read(self, spark: SparkSession, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        """Return the columns of ``schema``, and UNREADABLE, ERROR, DETAIL and RAW."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType

        texts = {name: f"{_TEXT}{number}" for number, name in enumerate(self.names)}
        if options.get("multiLine") == "true":
            frame = split_files(spark, self.files, list(texts.values()), options)
        else:
            frame = split_lines(spark, self.files, list(texts.values()), self.headers, options)
        typed = {name: texts[name] for name in schema.names if not isinstance(schema[name].dataType, StringType)}
        values = {name: parse_value(text, schema[name].dataType, options) for name, text in typed.items()}
        frame = frame.select("*", *[barrier(value).alias(f"{_VALUE}{texts[name]}") for name, value in values.items()])
        misfits = {
            name: F.coalesce(
                ((F.col(text) != "") & F.col(f"{_VALUE}{text}").isNull()) | is_rounded(text, schema[name].dataType),
                F.lit(False),
            )
            for name, text in typed.items()
        }
        frame = frame.select("*", barrier(self._describe(misfits, schema)).alias(C.DETAIL))
        cells = {name: F.col(text) for name, text in texts.items()}
        cells |= {name: F.when(~test, F.col(f"{_VALUE}{texts[name]}")) for name, test in misfits.items()}
        error = F.when(F.col(C.DETAIL).isNotNull(), F.lit(RejectReason.UNDECODABLE))
        row = F.to_json(F.struct(*[F.col(text).alias(name) for name, text in texts.items()]))
        raw = F.coalesce(F.col(LINE), row).cast("binary")
        return frame.select(
            *[cells[name].alias(name) for name in schema.names],
            F.col(PROBLEM).isNotNull().alias(C.UNREADABLE),
            error.alias(C.ERROR),
            C.DETAIL,
            raw.alias(C.RAW),
        )

    def _describe(self, misfits: Mapping[str, Column], schema: StructType) -> Column:
        """Return the description of a line that does not fit; null for all others."""
        from pyspark.sql import functions as F

        texts = [
            F.when(test, F.lit(f"the field `{name}` does not fit its type {schema[name].dataType.simpleString()}"))
            for name, test in misfits.items()
        ]
        found = F.coalesce(*texts) if texts else F.lit(None).cast("string")
        return F.coalesce(F.col(PROBLEM), found)


def _parse_type(text: str, column: str, where: str) -> DataType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import _parse_datatype_string  # PySpark 3.5 has no public function to parse a type's name

    if _TYPE.fullmatch(text):
        with suppress(PySparkException):
            return _parse_datatype_string(text)
    raise ConfigError(
        f"{text!r} is not a type of the column {column!r} in a CSV file",
        where=where,
        fix="use a Spark type of single values, like bigint or decimal(10,2); `expand` reads JSON in text columns",
    )
