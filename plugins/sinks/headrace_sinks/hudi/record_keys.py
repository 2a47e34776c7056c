"""Record keys of Hudi tables.

Hudi joins several key columns without escaping them, and rejects an empty string. New tables therefore have a column with an
unambiguous key, unless all key columns are integers, dates or booleans. Existing tables keep their record keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError, Table, TableMode
from headrace.sdk.changes import POSITION, PREFIX
from headrace.sdk.columns import any_of, quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

RECORD_KEY = "hoodie.datasource.write.recordkey.field"
#: Column with the encoded key.
ENCODED_KEY = PREFIX + "record_key"
#: Options that name key columns. If one of them is set, the key columns are Hudi's record key.
_OWN_KEYS = (RECORD_KEY, "hoodie.bucket.index.hash.field")
#: Types whose record keys are unambiguous, and the same in Hudi's bulk insert and upsert.
_PLAIN_TYPES = ("int", "bigint", "date", "boolean")
#: Hudi's record keys for an empty string and for null, among several columns.
_PLACEHOLDERS = ("__empty__", "__null__")


def choose_record_key(
    table: Table, mode: TableMode, schema: StructType, options: Mapping[str, str], stored: Any | None
) -> list[str]:
    """Return the columns of Hudi's record key. ``stored``: the HoodieTableConfig of an existing table."""
    if mode != "upsert":
        # Each appended row has its own position. With positions as record keys, a repeated batch changes nothing.
        return [POSITION]
    if stored is not None:
        fields = list_record_key(stored)
        # Another writer may have listed the key columns in another order.
        return fields if fields == [ENCODED_KEY] or sorted(fields) == sorted(table.key) else list(table.key)
    is_own = any(option in options for option in _OWN_KEYS)
    return list(table.key) if is_own or has_plain_key(table, schema) else [ENCODED_KEY]


def list_record_key(stored: Any) -> list[str]:
    """List the columns of a table's record key. ``stored``: its HoodieTableConfig."""
    return [str(field) for field in stored.getRecordKeyFields().orElse([])]


def check_stored_mode(table: Table, mode: TableMode, stored: Any) -> None:
    """Raise ConfigError if an existing table has appended rows and the mode is upsert, or conversely. ``stored``: its HoodieTableConfig."""
    if (list_record_key(stored) == [POSITION]) is (mode == "upsert"):
        previous = "has one row per change" if mode == "upsert" else "has one row per key"
        raise ConfigError(
            f"the table {previous}, and the sink's mode is now {mode}",
            where=f"table {table.name}, sink hudi, mode",
            fix="restore the previous `mode:`, or give the table another `target:`",
        )


def has_plain_key(table: Table, schema: StructType) -> bool:
    """Return whether all key columns have types whose record keys are unambiguous."""
    return all(schema[name].dataType.simpleString() in _PLAIN_TYPES for name in table.key)


def add_record_key(rows: DataFrame, table: Table, record_key: Sequence[str]) -> DataFrame:
    """Return the rows with the column of the record key, unless the record key consists of the key columns."""
    from pyspark.sql import functions as F

    if record_key == [ENCODED_KEY]:
        return rows.withColumn(ENCODED_KEY, encode_key(rows, table.key))
    if record_key == [POSITION]:
        # Hudi may not find the bucket of a string with commas and colons. A position may contain the name of a file.
        position = F.col(POSITION)
        separated = F.when(position.contains(","), F.translate(position, ":", ";")).otherwise(position)
        return rows.withColumn(POSITION, separated)
    return rows


def make_record_key_optional(stored: StructType) -> StructType:
    """Return the schema of a table with a nullable ENCODED_KEY, which incoming rows get in ``add_record_key``."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(f.name, f.dataType, f.nullable or f.name == ENCODED_KEY) for f in stored])


def make_optional(stored: StructType) -> StructType:
    """Return the schema of a table with nullable columns."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, field.dataType) for field in stored])


def encode_key(rows: DataFrame, key: Sequence[str]) -> Column:
    """Return the key as one unambiguous string; null if a column is null.

    Commas separate the columns. No encoded value has a comma, a colon, or a percent sign without two digits.
    """
    from pyspark.sql import functions as F

    cells = [_encode(F.col(quote_name(name)), rows.schema[name].dataType) for name in key]
    text = reduce(lambda a, b: F.concat(a, F.lit(","), b), cells)
    # Hudi rejects an empty key.
    return F.when(text == "", F.lit("%")).otherwise(text)


def find_ambiguous(schema: StructType, key: Sequence[str], *, has_buckets: bool) -> Column:
    """Return a condition for rows with an ambiguous record key, for a table whose record key consists of the key columns.

    ``has_buckets``: Hudi splits keys to find the bucket of a row. For some keys with commas and colons, this does not terminate.
    """
    from pyspark.sql import functions as F, types as T

    texts = [F.col(quote_name(name)) for name in key if isinstance(schema[name].dataType, T.StringType)]
    if len(key) == 1:
        wrong = [
            (text == "") | (text.contains(",") & text.contains(":") if has_buckets else F.lit(False)) for text in texts
        ]
    else:
        parts = [f",{name}:" for name in key[1:]]
        wrong = [text.isin(*_PLACEHOLDERS) | any_of(text.contains(part) for part in parts) for text in texts]
        wrong += [text.rlike("(?s),.*:") for text in texts if has_buckets]
    return any_of(F.coalesce(condition, F.lit(False)) for condition in wrong)


def _encode(column: Column, data_type: DataType) -> Column:
    from pyspark.sql import functions as F, types as T

    if isinstance(data_type, T.BinaryType):
        return F.hex(column)
    if isinstance(data_type, T.TimestampType):  # Its local time repeats an hour at the end of daylight saving time.
        return F.unix_micros(column).cast("string")
    if isinstance(data_type, T.FloatType | T.DoubleType):  # -0.0 equals 0.0.
        column += F.lit(0.0).cast(data_type)
    text = F.to_json(column) if isinstance(data_type, T.ArrayType) else column.cast("string")
    for character in "%,:" if isinstance(data_type, T.StringType | T.TimestampNTZType | T.ArrayType) else "":
        text = F.replace(text, F.lit(character), F.lit(f"%{ord(character):02X}"))
    return text
