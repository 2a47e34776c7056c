"""Columns with the record's place, headers and fixed values, with the options of InsertField and of Debezium's HeaderToValue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, field_validator, model_validator

from headrace.sdk import Changes, DataError, Transform, TransformConfig
from headrace.sdk.changes import HEADERS, OFFSET, PARTITION, PREFIX, TIMESTAMP, TOPIC
from headrace.sdk.columns import fold_name
from headrace.sdk.events import header_value
from headrace.sdk.transform import Strings
from headrace_transforms.row_images import add_columns

if TYPE_CHECKING:
    from pyspark.sql import Column


class InsertConfig(TransformConfig):
    """Options of Kafka Connect's InsertField and Debezium's HeaderToValue. A ``?`` or ``!`` after a name has no effect."""

    static_field: str | None = Field(None, alias="static.field")
    """Column with the same string in every row."""

    static_value: str | None = Field(None, alias="static.value")
    """The string."""

    topic_field: str | None = Field(None, alias="topic.field")
    """Column with the topic."""

    partition_field: str | None = Field(None, alias="partition.field")
    """Column with the partition."""

    offset_field: str | None = Field(None, alias="offset.field")
    """Column with the offset."""

    timestamp_field: str | None = Field(None, alias="timestamp.field")
    """Column with the record's timestamp. Records in files have none."""

    headers: Strings = ()
    """Headers of the record to insert, as text. Records in files have none."""

    fields: Strings = ()
    """Columns for ``headers``, in the same order."""

    @field_validator("static_field", "topic_field", "partition_field", "offset_field", "timestamp_field")
    @classmethod
    def _column_name(cls, value: str | None) -> str | None:
        name = value[:-1] if value and value[-1] in "?!" else value
        if name == "" or (name and name.lower().startswith(PREFIX)):
            raise ValueError(f"{value!r} is not a valid column name")
        return name

    @model_validator(mode="after")
    def _names_differ(self) -> InsertConfig:
        names = [name for name in (self.static_field, *(name for name, _ in self.places()), *self.fields) if name]
        if not names:
            raise ValueError(
                "requires static.field, topic.field, partition.field, offset.field, timestamp.field or headers"
            )
        if len(self.headers) != len(self.fields) or any(not n or n.lower().startswith(PREFIX) for n in self.fields):
            raise ValueError("`headers` and `fields` have one column for each header")
        if len(set(map(fold_name, names))) < len(names):
            raise ValueError(f"two columns would be named {max(names, key=names.count)!r}")
        if (self.static_field is None) != (self.static_value is None):
            raise ValueError("static.field and static.value belong together")
        return self

    def places(self) -> list[tuple[str, str]]:
        """Return each column with headrace's own column from which it is taken."""
        names = {TOPIC: self.topic_field, PARTITION: self.partition_field}
        names |= {OFFSET: self.offset_field, TIMESTAMP: self.timestamp_field}
        return [(name, own) for own, name in names.items() if name]


class Insert(Transform):
    """``insert: {topic.field: topic, headers: [trace], fields: [trace_id]}``."""

    name = "insert"
    api_version = 1
    Config = InsertConfig
    config: InsertConfig

    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        columns: dict[str, Column] = {}
        if self.config.static_field is not None:
            columns[self.config.static_field] = F.lit(self.config.static_value)
        for name, own in (*self.config.places(), *((name, HEADERS) for name in self.config.fields)):
            if own not in changes.own_columns:
                raise DataError(
                    f"the records have no {own.removeprefix(PREFIX)} for the column {name!r}",
                    fix="remove the option; a field of the event can be added with `add.fields` of `unwrap`",
                )
            columns[name] = F.col(own)
        for header, name in zip(self.config.headers, self.config.fields, strict=True):
            columns[name] = header_value(header, HEADERS).cast("string")
        return add_columns(changes, columns)
