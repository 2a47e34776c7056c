"""Replanning of batches whose records name writer schemas that were unknown when the batch was planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.schema_log import SchemaLog

#: Maximum number of plans of one batch. Each plan includes the writer schemas that were unknown in the previous one.
MAX_REPLANS = 20

Result = TypeVar("Result")


def until_schemas_known(plan_and_apply: Callable[[], Result], schemas: SchemaLog) -> Result:
    """Return the result of the call. Repeat it with the writer schemas that were unknown."""
    for _ in range(MAX_REPLANS):
        try:
            return plan_and_apply()
        except UnknownSchemaError as error:
            schemas.note_unknown(error.schemas)
    return plan_and_apply()
