"""Records inside a ``payload`` without a schema: ``{"schema": null, "payload": …}`` and ``{"payload": …}``.

Kafka Connect's JsonConverter writes the first form for records without schemas, unless ``schemas.enable`` is false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.sdk.changes import IMAGES
from headrace.sdk.columns import any_of
from headrace_sources.formats.json.inference import has_null_schema

if TYPE_CHECKING:
    from pyspark.sql import Column

_NULL_SCHEMA = r'"schema"\s*+:\s*+null'
_BEGIN = rf'^\s*+\{{\s*+(?:{_NULL_SCHEMA}\s*+,\s*+)?"payload"\s*+:\s*+(?=\{{)'
_END = rf"(?<!\s)\s*+(?:,\s*+{_NULL_SCHEMA}\s*+)?\}}\s*$"


def are_wrapped(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a new topic's first records are inside a payload, or none has a field ``payload``."""
    payloads = [record for record in records if "payload" in record]
    return not payloads or any(map(_is_wrapped, payloads))


def take_payload(text: Column) -> Column:
    """Return the record inside a payload; other text stays as it is."""
    from pyspark.sql import functions as F

    keys = F.array_sort(F.json_object_keys(text))
    is_alone = keys.isin(F.array(F.lit("payload")), F.array(F.lit("payload"), F.lit("schema")))
    inner = F.regexp_replace(F.regexp_replace(text, _BEGIN, ""), _END, "")
    return F.when(is_wrapper(text) & is_alone, inner).otherwise(text)


def is_wrapper(text: Column) -> Column:
    """Return whether JSON has a payload without a schema.

    Without ``"schema": null``, the payload must be an envelope, because a row may have a column ``payload``.
    """
    from pyspark.sql import functions as F

    images = [F.get_json_object(text, f"$.payload.{name}").isNotNull() for name in (*IMAGES, "source")]
    is_event = F.get_json_object(text, "$.payload.op").isNotNull() & any_of(images)
    has_schema = F.array_contains(F.json_object_keys(text), "schema")
    is_inside = (has_schema & F.get_json_object(text, "$.schema").isNull()) | is_event
    return F.when(text.rlike(_BEGIN), F.coalesce(is_inside, F.lit(False))).otherwise(F.lit(False))


def _is_wrapped(record: Mapping[str, Any]) -> bool:
    payload = record["payload"]
    if not isinstance(payload, dict):
        return False
    is_event = payload.get("op") is not None and any(payload.get(name) is not None for name in (*IMAGES, "source"))
    return has_null_schema(record) or (set(record) == {"payload"} and is_event)
