"""JSON without a schema of its own, one event a record.

Types are taken from the data once and remembered: a later batch adds columns and never changes a type. A record that
does not fit is an error of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config.base import Config
from headrace.contracts.changes import UNDECODABLE, quoted
from headrace.contracts.format import Format
from headrace.engine.schemas import grown
from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.engine.schemas import SchemaLog

_BODY, _PARSED, _CORRUPT = "_headrace_body", "_headrace_parsed", "_headrace_corrupt"


class JsonConfig(Config):
    """Options of Spark's JSON reader."""

    passthrough: ClassVar[tuple[str, ...]] = (
        "allowBackslashEscapingAnyCharacter",
        "allowComments",
        "allowNonNumericNumbers",
        "allowNumericLeadingZeros",
        "allowSingleQuotes",
        "allowUnquotedControlChars",
        "allowUnquotedFieldNames",
        "dateFormat",
        "lineSep",
        "locale",
        "prefersDecimal",
        "primitivesAsString",
        "timestampFormat",
        "timestampNTZFormat",
    )


class JsonFormat(Format):
    """``format: json``, ``value: {json: {}}``."""

    name = "json"
    api_version = 1
    Config = JsonConfig

    def schema(self, spark: SparkSession, frame: DataFrame, column: str, subject: str, log: SchemaLog) -> StructType:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        texts = frame.where(F.col(column).isNotNull()).select(F.col(column).cast("string"))
        encoders: Any = spark._jvm.org.apache.spark.sql.Encoders  # type: ignore[union-attr]  # noqa: SLF001
        dataset = getattr(texts._jdf, "as")(encoders.STRING())  # noqa: SLF001
        # A column that is null everywhere has no type yet: it joins when its first value comes.
        options = {**self._options(), "dropFieldIfAllNull": "true"}
        reader: Any = spark.read.options(**options)._jreader  # noqa: SLF001
        inferred = StructType.fromJson(json.loads(reader.json(dataset).schema().json()))
        found = StructType([field for field in inferred if field.name != _CORRUPT])
        known = log.get(subject)
        if known is None and not found.fields:
            if texts.isEmpty():
                return found
            topic = subject.rsplit("-", 1)[0]
            fix = "check `format:`, and that a line is one event"
            raise DataError("none of its records is a JSON object", where=f"topic {topic}", fix=fix)
        schema = found if known is None else grown(known, found)
        assert isinstance(schema, StructType)
        log.remember(subject, schema)
        return schema

    def decode(self, frame: DataFrame, column: str, schema: StructType, error: str) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        parsed = StructType([*schema, StructField(_CORRUPT, StringType())])
        text = F.col(column).cast("string")
        others = [F.col(quoted(c)) for c in frame.columns if c != column]
        there = F.col(_BODY).isNotNull()
        bad = F.col(_PARSED).isNull() | F.col(f"{_PARSED}.{_CORRUPT}").isNotNull() | self._several(F.col(_BODY))
        fields = F.struct(*[F.col(_PARSED).getField(name).alias(name) for name in schema.names])
        struct = F.from_json(text, parsed, self._options())
        return frame.select(*others, text.alias(_BODY), struct.alias(_PARSED)).select(
            *others,
            F.when(there & ~bad, fields).alias(column),
            F.when(there & bad, F.lit(UNDECODABLE)).alias(error),
        )

    def _several(self, text: Column) -> Column:
        """Whether a text holds more than one document: Spark would read the first and say nothing of the others."""
        from pyspark.sql import functions as F

        if any(key.startswith("allow") and value == "true" for key, value in self.config.options().items()):
            return F.lit(False)  # what is counted below is JSON as it is written by the book
        # What follows a brace makes it likely; only then is counting worth a second parse.
        likely = text.rlike(r"\}\s*([^\s,}\]]|,\s*\{)")
        return likely & ~F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(F.lit(1))

    def _options(self) -> dict[str, str]:
        return {**self.config.options(), "columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
