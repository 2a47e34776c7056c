"""Avro behind a schema's id, by Spark's ``from_avro``."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from headrace_sources.connect import schema as connect
from headrace_sources.registries.decoder import Parsing, Reading

if TYPE_CHECKING:
    from pyspark.sql import Column


class AvroParsing(Parsing):
    """Records are Avro, and so are their schemas."""

    elsewhere = "name the format that they are written in, or bring their schema with `schema.file`"

    def readings(self, text: str) -> tuple[Reading, ...]:
        schema = json.loads(connect.avro_reader(text))
        # A record around the schema, of the same bytes. What cannot be read is a null in it.
        around = {"type": "record", "name": "headrace_record", "fields": [{"name": "v", "type": schema}]}
        parsed = partial(_parsed, schema=json.dumps(around, ensure_ascii=False))
        return (Reading(connect.of_avro(text), lambda part: (parsed,)),)


def _parsed(body: Column, schema: str) -> Column:
    from pyspark.sql.avro.functions import from_avro

    return from_avro(body, schema, {"mode": "PERMISSIVE"}).getField("v")
