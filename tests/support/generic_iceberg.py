"""Rows written with Iceberg's Java API, without an engine, in the way of Flink's sink and of Debezium Server's Iceberg consumer."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any


class UpsertWriter:
    """Writer of a table with identifier fields. Each commit adds rows, and deletes the earlier rows of their keys by equality."""

    def __init__(self, jvm: Any, table: Any) -> None:
        self._jvm, self._table = jvm, table
        self._iceberg = jvm.org.apache.iceberg
        self._schema = table.schema()

    def upsert(self, *rows: dict[str, Any]) -> None:
        """Commit the rows in place of the rows of their keys."""
        self._commit([self._to_record(row) for row in rows], [self._to_key(row) for row in rows])

    def delete(self, *keys: dict[str, Any]) -> None:
        """Commit deletes of the rows of these keys."""
        self._commit([], [self._to_key(key) for key in keys])

    def append(self, *rows: dict[str, Any]) -> None:
        """Commit the rows, and keep the earlier rows of their keys."""
        self._commit([self._to_record(row) for row in rows], [])

    def _commit(self, records: Sequence[Any], keys: Sequence[Any]) -> None:
        update, spec = self._table.newRowDelta(), self._table.spec()
        files = self._iceberg.io.OutputFileFactory.builderFor(self._table, 1, uuid.uuid4().int % 10**6).build()
        if keys:
            writer = self._factory.newEqualityDeleteWriter(files.newOutputFile(), spec, None)
            _write(writer, keys)
            update.addDeletes(writer.toDeleteFile())
        if records:
            writer = self._factory.newDataWriter(files.newOutputFile(), spec, None)
            _write(writer, records)
            update.addRows(writer.toDataFile())
        update.commit()

    @property
    def _key_schema(self) -> Any:
        return self._iceberg.types.TypeUtil.select(self._schema, self._schema.identifierFieldIds())

    @property
    def _factory(self) -> Any:
        ids = self._jvm.org.apache.iceberg.util.ArrayUtil.toIntArray(list(self._schema.identifierFieldIds()))
        builder = self._iceberg.data.GenericFileWriterFactory.Builder(self._table)
        return builder.equalityFieldIds(ids).equalityDeleteRowSchema(self._key_schema).build()

    def _to_record(self, row: dict[str, Any]) -> Any:
        return self._fill(self._iceberg.data.GenericRecord.create(self._schema), self._schema, row)

    def _to_key(self, row: dict[str, Any]) -> Any:
        schema = self._key_schema
        return self._fill(self._iceberg.data.GenericRecord.create(schema), schema, row)

    def _fill(self, record: Any, schema: Any, row: dict[str, Any]) -> Any:
        for field in schema.columns():
            record.setField(field.name(), self._to_java(row.get(field.name()), str(field.type())))
        return record

    def _to_java(self, value: Any, kind: str) -> Any:
        java = self._jvm.java
        if value is None:
            return None
        if kind == "long":
            return java.lang.Long.valueOf(str(value))
        if kind == "timestamptz":
            return java.time.OffsetDateTime.parse(value)
        if kind == "timestamp":
            return java.time.LocalDateTime.parse(value)
        if kind.startswith("decimal"):
            return java.math.BigDecimal(value)
        return value


def _write(writer: Any, records: Sequence[Any]) -> None:
    for record in records:
        writer.write(record)
    writer.close()
