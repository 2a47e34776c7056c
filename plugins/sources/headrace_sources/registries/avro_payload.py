"""Avro after a schema id, read with Spark's ``from_avro``."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from headrace_sources.kafka_connect.avro_schema import make_reader_schema, parse_avro_schema
from headrace_sources.registries.payload import PayloadParser, PayloadReader

if TYPE_CHECKING:
    from pyspark.sql import Column


class AvroPayloadParser(PayloadParser):
    """Parser of Avro records with Avro schemas."""

    fix_without_ids = "name the format that they are written in, or name a file with their schema in `schema.file`"

    def parse_schema(self, text: str) -> tuple[PayloadReader, ...]:
        tree = parse_avro_schema(text)  # first, because it rejects invalid schemas
        schema = json.loads(make_reader_schema(text))
        # The schema is wrapped in a record, which has the same bytes: an unreadable payload is a null field.
        around = {"type": "record", "name": "headrace_record", "fields": [{"name": "v", "type": schema}]}
        parse = partial(_parse, schema=json.dumps(around, ensure_ascii=False))
        return (PayloadReader(tree, lambda part: (parse,), is_complete=True),)


def _parse(payload: Column, schema: str) -> Column:
    from pyspark.sql.avro.functions import from_avro

    return from_avro(payload, schema, {"mode": "PERMISSIVE"}).getField("v")
