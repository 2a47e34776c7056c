"""JSON in text columns, read by the format of JSON records: as strictly, and with inferred types that are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk import Changes, ConfigError, RejectReason, SchemaLog, Subject, changes as C, get_plugin
from headrace.sdk.columns import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from headrace.sdk import RecordReader

#: Fields of the object around a document, which may also be an array or a plain value. The first one exists in each record, so
#: that a batch in which no value has a type yet has a schema, too.
_IS_JSON, _VALUE = "is_json", "value"
#: Types that JSON records do not have.
_UNREAD = ("char", "varchar", "daytimeinterval", "yearmonthinterval", "void")
_BODY = f"{C.PREFIX}document"


@dataclass(frozen=True)
class JsonColumnReader:
    """Reader of the JSON in a text column."""

    reader: RecordReader

    @property
    def kind(self) -> DataType | None:
        """Type of the values; None if no record has shown it yet."""
        schema = self.reader.schema
        return schema[_VALUE].dataType if _VALUE in schema.names else None

    def parse(self, frame: DataFrame, text: Column, name: str) -> DataFrame:
        """Return the frame with the value as ``name``, and ``name`` and ``_error``, null where the text is JSON of this type."""
        from pyspark.sql import functions as F

        frame = frame.withColumn(name, _wrap(text))
        if not self.reader.schema.fields:  # No text was JSON so far. Spark does not parse text without fields to read.
            is_bad = F.col(name) == ""
            return frame.withColumns(
                {f"{name}_error": F.when(is_bad, F.lit(RejectReason.UNDECODABLE)), name: F.lit(None)}
            )
        frame = self.reader.decode(frame, name, self.reader.schema, f"{name}_error")
        return frame.withColumn(name, F.col(name).getField(_VALUE) if self.kind else F.lit(None))

    def locate_errors(self, frame: DataFrame, text: Column, column: str, name: str) -> DataFrame:
        """Return the frame with the column ``name``: the place in ``column`` that does not fit, without its value."""
        from pyspark.sql import functions as F

        frame = self.reader.locate_errors(frame.withColumn(name, _wrap(text)), name, self.reader.schema)
        found = F.col(name)
        for part, own in ((f"`{_VALUE}", f"`{column}"), ("the record", f"the column `{column}`")):
            found = F.call_function("replace", found, F.lit(part), F.lit(own))
        return frame.withColumn(name, found)


def parse_type(text: str, option: str) -> DataType:
    """Return the type of a name in Spark SQL. ConfigError for other text."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import _parse_datatype_string  # PySpark 3.5 has no public function to parse a type's name

    try:
        kind = _parse_datatype_string(text)
    except PySparkException:
        raise ConfigError(
            f"`{option}`: {text!r} is not a type of Spark SQL",
            fix="write columns and their types: `id INT, total DECIMAL(10,2)`",
        ) from None
    if unread := next((name for name in _list_type_names(kind) if name in _UNREAD), None):
        raise ConfigError(f"`{option}`: JSON has no values of the type {unread}", fix="use STRING")
    return kind


def _list_type_names(kind: DataType) -> Iterator[str]:
    yield kind.typeName()
    inner = [field.dataType for field in getattr(kind, "fields", ())]
    for name in ("elementType", "keyType", "valueType"):
        inner += [getattr(kind, name)] if hasattr(kind, name) else []
    for item in inner:
        yield from _list_type_names(item)


def read_as(spark: SparkSession, kind: DataType) -> JsonColumnReader:
    """Return the reader of JSON of a type."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType, StructType

    log, subject = SchemaLog(), Subject("document", _VALUE)
    log.remember(subject, StructType().add(_IS_JSON, BooleanType()).add(_VALUE, kind))
    nothing = spark.range(0).select(F.lit("").alias(_BODY))
    return JsonColumnReader(get_plugin("format", "json")().open(spark, nothing, _BODY, subject, log))


def read_inferred(changes: Changes, column: str, texts: Sequence[Column]) -> JsonColumnReader:
    """Return the reader of a column whose type comes from its values in this and in earlier batches. ``texts``: the values."""
    from pyspark.sql import functions as F

    log = SchemaLog() if changes.schemas is None else changes.schemas
    subject = Subject(f"{changes.table}/{fold_name(column)}", _VALUE)
    frame = changes.frame.where(F.col(C.ERROR).isNull()) if C.ERROR in changes.own_columns else changes.frame
    values = frame.select(F.explode(F.array(*texts)).alias(_BODY)).select(_wrap(F.col(_BODY)).alias(_BODY))
    documents = values.where(F.col(_BODY) != "")
    with log.hold(subject.topic):
        return JsonColumnReader(get_plugin("format", "json")().open(frame.sparkSession, documents, _BODY, subject, log))


def _wrap(text: Column) -> Column:
    """Return an object around a document; empty text, which is not JSON, for other text than one document."""
    from pyspark.sql import functions as F

    # In an object, text such as `1,"value":2` would be two fields. In an array, it is not valid.
    is_one = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(F.lit(1))
    document = F.concat(F.lit(f'{{"{_IS_JSON}":true,"{_VALUE}":'), text, F.lit("}"))
    return F.when(is_one, document).when(text.isNotNull(), F.lit(""))
