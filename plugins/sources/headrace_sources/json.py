"""JSON without a schema of its own, one event a record.

Types are taken from the data once and remembered: a later batch adds columns and never changes a type. A record that
does not fit is an error of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.changes import quoted
from headrace.contracts.format import Format
from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from headrace.engine.schemas import SchemaLog

_CORRUPT = "_headrace_corrupt"


class JsonFormat(Format):
    """``format: json``, ``value: {json: {}}``."""

    name = "json"
    api_version = 1

    def schema(self, spark: SparkSession, frame: DataFrame, column: str, subject: str, log: SchemaLog) -> StructType:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        texts = frame.where(F.col(column).isNotNull()).select(F.col(column).cast("string"))
        encoders = spark._jvm.org.apache.spark.sql.Encoders  # type: ignore[union-attr]  # noqa: SLF001
        dataset = getattr(texts._jdf, "as")(encoders.STRING())  # noqa: SLF001
        # A column that is null everywhere has no type yet: it joins when its first value comes.
        reader = spark.read.option("dropFieldIfAllNull", "true").option("columnNameOfCorruptRecord", _CORRUPT)._jreader  # type: ignore[attr-defined]  # noqa: SLF001
        import json

        found = StructType.fromJson(json.loads(reader.json(dataset).schema().json()))
        found = StructType([field for field in found if field.name != _CORRUPT])
        known = log.get(subject)
        if known is None and not found.fields:
            raise DataError("none of its records is a JSON object", where=f"topic {subject.rsplit('-', 1)[0]}", fix="check `format:`, and that a line is one event")
        schema = found if known is None else _grown(known, found)
        assert isinstance(schema, StructType)
        log.remember(subject, schema)
        return schema

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        parsed = StructType([*schema, StructField(_CORRUPT, StringType())])
        options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
        struct = F.from_json(F.col(column).cast("string"), parsed, options)
        others = [F.col(quoted(c)) for c in frame.columns if c != column]
        bad = F.col("_parsed").isNull() | F.col(f"_parsed.{_CORRUPT}").isNotNull()
        fields = F.struct(*[F.col("_parsed").getField(name).alias(name) for name in schema.names])
        return frame.select(*others, F.col(column).alias("_body"), struct.alias("_parsed")).select(
            *others,
            F.when(~bad & F.col("_body").isNotNull(), fields).alias(column),
            F.when(bad & F.col("_body").isNotNull(), F.lit("undecodable")).alias(error),
        )


def _grown(known: DataType, found: DataType) -> DataType:
    """``known`` with the fields that only ``found`` has; types that are known stay."""
    from pyspark.sql.types import ArrayType, StructField, StructType

    if isinstance(known, StructType) and isinstance(found, StructType):
        theirs = {field.name: field for field in found}
        fields = []
        for field in known:
            other = theirs.pop(field.name, None)
            fields.append(StructField(field.name, _grown(field.dataType, other.dataType) if other else field.dataType))
        return StructType([*fields, *theirs.values()])
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(_grown(known.elementType, found.elementType))
    return known
