"""Types by which records of a table are rejected: the revision changes with the types that accept other records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as T
from tests.support.memory_folder import MemoryFolder

from headrace.upsert.table_types import TableTypes

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


class Notes:
    """Notes of one table. Each is written by another process."""

    def __init__(self) -> None:
        self.folder: Any = MemoryFolder()

    def note(
        self, incompatible: dict[str, str] | None = None, *, is_inferred: bool = True, **columns: T.DataType
    ) -> int:
        folder: Folder = self.folder
        row = T.StructType([T.StructField(name, kind) for name, kind in columns.items()])
        return TableTypes(folder, "shop.orders").note(row, incompatible or {}, is_inferred=is_inferred)


@pytest.fixture
def notes() -> Notes:
    return Notes()


def point(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def test_types_of_records_with_schemas_are_not_stored(notes: Notes) -> None:
    assert notes.note(x=T.IntegerType(), is_inferred=False) == notes.note(x=T.LongType(), is_inferred=False) == 0
    assert not notes.folder.content


def test_new_columns_and_fields_keep_the_revision(notes: Notes) -> None:
    long, text = T.LongType(), T.StringType()
    assert notes.note(x=long) == 0
    assert notes.note(x=long, y=T.ArrayType(point(a=long)), z=T.MapType(text, long)) == 0
    assert notes.note(y=T.ArrayType(point(a=long, b=text))) == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (T.IntegerType(), T.LongType()),
        (point(a=T.IntegerType()), point(a=T.LongType())),
        (T.ArrayType(T.IntegerType()), T.ArrayType(T.LongType())),
        (T.MapType(T.StringType(), T.IntegerType()), T.MapType(T.StringType(), T.LongType())),
    ],
)
def test_other_type_of_a_known_column_begins_a_revision(notes: Notes, before: T.DataType, after: T.DataType) -> None:
    notes.note(x=before)
    assert [notes.note(x=after), notes.note(x=after), notes.note(x=before)] == [1, 1, 2]


@pytest.mark.parametrize("is_inferred", [True, False])
def test_rejected_column_that_fits_begins_a_revision(notes: Notes, is_inferred: bool) -> None:
    assert notes.note({"x": "string"}, is_inferred=is_inferred) == 0
    assert notes.note({"x": "string"}, is_inferred=is_inferred) == 0
    assert notes.note(x=T.StringType(), is_inferred=is_inferred) == 1
    assert notes.note(x=T.StringType(), is_inferred=is_inferred) == 1
    assert notes.note({"x": "string"}, is_inferred=is_inferred) == 1


def test_batches_of_another_topic_keep_the_revision(notes: Notes) -> None:
    """A topic with texts is rejected, and the batches between have only a topic with numbers."""
    found = [notes.note({"x": "string"}, is_inferred=False), notes.note(x=T.IntegerType(), is_inferred=False)]
    assert [*found, notes.note({"x": "string"}, is_inferred=False)] == [0, 0, 0]
