"""Encodings of records after a schema id: the base of ``avro_payload`` and ``json_payload``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from headrace_sources.kafka_connect.connect_schema import ConnectSchema, drop_bad_names
from headrace_sources.kafka_connect.connect_types import wire_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class PayloadReader:
    """Reader of the payloads of one writer schema."""

    tree: ConnectSchema
    #: Steps of a plan from a record's bytes to its parsed struct, restricted to a part of ``tree``; null if it is unreadable.
    #: The first step of JSON returns its string.
    steps: Callable[[ConnectSchema], Sequence[Callable[[Column], Column]]]
    #: Whether the parsed struct has all fields of ``tree`` in its order, regardless of the part.
    is_complete: bool = False
    #: Whether ``tree`` lacks fields that the payloads have, because their names cannot be columns.
    is_partial: bool = False

    def drop_bad_names(self) -> PayloadReader:
        """Return the reader without the fields whose names cannot be columns."""
        tree = drop_bad_names(self.tree)
        if tree is self.tree:
            return self
        return replace(self, tree=tree, steps=self._narrow_steps, is_complete=False, is_partial=True)

    def _narrow_steps(self, part: ConnectSchema) -> Sequence[Callable[[Column], Column]]:
        """Return the steps, the last of which leaves out the fields that ``part`` lacks: not every parser does."""
        *first, last = self.steps(part)
        return *first, lambda column: _narrow(last(column), wire_type(part))


def _narrow(column: Column, data_type: DataType) -> Column:
    """Return a value restricted to a type's fields at all depths."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(data_type, StructType):
        cells = [_narrow(column.getField(field.name), field.dataType).alias(field.name) for field in data_type]
        return F.when(column.isNotNull(), F.struct(*cells))
    if isinstance(data_type, ArrayType):
        element = data_type.elementType
        return F.transform(column, lambda item: _narrow(item, element))
    if isinstance(data_type, MapType):
        value = data_type.valueType
        return F.transform_values(column, lambda _, item: _narrow(item, value))
    return column


class PayloadParser(ABC):
    """The encoding of payloads and of their schemas."""

    #: Whether ids may also be in JSON around a record (``framing``).
    texts: ClassVar[bool] = False
    #: Options of Spark's JSON reader; None for other encodings.
    json_options: Mapping[str, str] | None = None
    #: Payload that has the meaning of a tombstone.
    null_payload: ClassVar[bytes | None] = None
    #: Fix for records without ids.
    fix_without_ids: ClassVar[str]

    @abstractmethod
    def parse_schema(self, text: str) -> tuple[PayloadReader, ...]:
        """Return the readers of a schema's payloads, in order of preference. DataError for an invalid schema."""
