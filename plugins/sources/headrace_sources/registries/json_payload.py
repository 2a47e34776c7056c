"""JSON after a schema id."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace_sources.kafka_connect.connect_schema import ConnectSchema, limit_schema, parse_connect_schema
from headrace_sources.kafka_connect.connect_types import wire_type
from headrace_sources.kafka_connect.decimals import with_numeric_decimals
from headrace_sources.kafka_connect.json_values import has_half_pair, keep_utf8, parse_json
from headrace_sources.registries.connect_json_schema import to_connect_block
from headrace_sources.registries.payload import PayloadParser, PayloadReader

if TYPE_CHECKING:
    from pyspark.sql import Column

_CORRUPT = "_headrace_corrupt"


class JsonPayloadParser(PayloadParser):
    """Parser of JSON records with JSON Schemas or Kafka Connect schemas. ``options``: options of Spark's reader."""

    texts = True
    null_payload = b"null"
    fix_without_ids = "remove `registry:`: JSON without ids contains its schema or has none"

    def __init__(self, options: Mapping[str, str]) -> None:
        self.json_options = options
        self._options = {**options, "columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}

    def parse_schema(self, text: str) -> tuple[PayloadReader, ...]:
        tree = _parse_schema(text)
        # Decimals have one of two encodings, which no schema shows.
        trees = filter(None, (tree, with_numeric_decimals(tree)))
        return tuple(PayloadReader(tree, self._steps) for tree in trees)

    def _steps(self, part: ConnectSchema) -> Sequence[Callable[[Column], Column]]:
        return _decode_text, partial(_parse, part=part, options=self._options), _get_single_document


@limit_schema
def _parse_schema(text: str) -> ConnectSchema:
    return parse_connect_schema(_to_block(json.loads(text)))


def _to_block(schema: Any) -> Any:
    """Return the Kafka Connect schema. Connect's own states nullability for every value, JSON Schema does not."""
    return schema if isinstance(schema, dict) and "optional" in schema else to_connect_block(schema)


def _decode_text(payload: Column) -> Column:
    from pyspark.sql import functions as F

    text = payload.cast("string")
    return F.when(~has_half_pair(text), keep_utf8(text))


def _parse(text: Column, part: ConnectSchema, options: Mapping[str, str]) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    parsed = StructType([StructField("v", ArrayType(wire_type(part))), StructField(_CORRUPT, StringType())])
    # Wrapped in a list with a second element: otherwise the parser stops after the first document and ignores the rest.
    return parse_json(F.concat(F.lit('{"v":['), text, F.lit(",null]}")), parsed, options)


def _get_single_document(parsed: Column) -> Column:
    from pyspark.sql import functions as F

    values = parsed.getField("v")
    return F.when(parsed.getField(_CORRUPT).isNull() & (F.size(values) == 2), values.getItem(0))
