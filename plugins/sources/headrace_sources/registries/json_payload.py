"""JSON behind a schema's id."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace_sources.connect import schema as connect
from headrace_sources.connect.schema import Wire
from headrace_sources.formats.json.json_schema import as_connect
from headrace_sources.registries.decoder import Parsing, Reading

if TYPE_CHECKING:
    from pyspark.sql import Column

_CORRUPT = "_headrace_corrupt"


class JsonParsing(Parsing):
    """Records are JSON; their schemas are JSON Schema, or Kafka Connect's own. ``options`` are those of Spark's reader."""

    texts = True
    nothing = b"null"
    elsewhere = "leave `registry:` out: JSON without ids brings its schema itself, or has none"

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {**options, "columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}

    def readings(self, text: str) -> tuple[Reading, ...]:
        tree = connect.of_connect(_block(json.loads(text)))
        # Decimals are written in one of two ways, and no schema says which.
        trees = filter(None, (tree, connect.numeric(tree)))
        return tuple(Reading(tree, self._steps) for tree in trees)

    def _steps(self, part: Wire) -> Sequence[Callable[[Column], Column]]:
        return _text, partial(_parsed, part=part, options=self._options), _whole


def _block(schema: Any) -> Any:
    """The schema as Connect's. Its own one says of every value whether that may be null, and JSON Schema has no such word."""
    return schema if isinstance(schema, dict) and "optional" in schema else as_connect(schema)


def _text(body: Column) -> Column:
    """Null for bytes that are no UTF-8: parsers put another character in their place, and say nothing."""
    from pyspark.sql import functions as F

    text = body.cast("string")
    # What is written anew is written right.
    return F.when(F.format_string("%s", text) == text, text)


def _parsed(text: Column, part: Wire, options: Mapping[str, str]) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    kind = StructType([StructField("v", ArrayType(connect.wire_type(part))), StructField(_CORRUPT, StringType())])
    # In a list with a second element: a parser stops behind the first document, and what follows would not be seen.
    return F.from_json(F.concat(F.lit('{"v":['), text, F.lit(",null]}")), kind, dict(options))


def _whole(parsed: Column) -> Column:
    from pyspark.sql import functions as F

    values = parsed.getField("v")
    return F.when(parsed.getField(_CORRUPT).isNull() & (F.size(values) == 2), values.getItem(0))
