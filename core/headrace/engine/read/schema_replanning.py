"""Batches that are planned again, because a record named a writer schema that their plan did not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.schema_log import SchemaLog

#: Plans of one batch, each with the writer schemas that the one before met and did not know.
MAX_REPLANS = 20

Answer = TypeVar("Answer")


def until_schemas_known(plan_and_apply: Callable[[], Answer], schemas: SchemaLog) -> Answer:
    """What the call returns; it is called again while it meets unknown writer schemas, which are noted for it to learn."""
    for _ in range(MAX_REPLANS):
        try:
            return plan_and_apply()
        except UnknownSchemaError as error:
            schemas.note_unknown(error.schemas)
    return plan_and_apply()
