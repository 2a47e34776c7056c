"""Debezium's placeholder of unavailable values (``unavailable.value.placeholder``), in the column's type.

PostgreSQL omits large values that an update did not change (TOAST), as do MySQL and MariaDB with ``binlog_row_image=NOBLOB``. SQL
Server omits large values of the row before an update.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

PLACEHOLDER = "__debezium_unavailable_value"
#: Prefix of a placeholder that is written as hexadecimal bytes.
_HEX = "hex:"


def check_placeholder(placeholder: str) -> str:
    """Return the placeholder. Raise ValueError if it is not valid."""
    if placeholder.startswith(_HEX) and not re.fullmatch("(?:[0-9A-Fa-f]{2})+", placeholder.removeprefix(_HEX)):
        raise ValueError(f"after {_HEX!r}, two hexadecimal digits per byte are expected")
    return placeholder


def placeholder_tests(columns: Mapping[str, DataType], placeholder: str) -> dict[str, Callable[[Column], Column]]:
    """Return column → test for the placeholder, for the columns whose type can contain it."""
    is_hex = placeholder.startswith(_HEX)
    data = bytes.fromhex(placeholder.removeprefix(_HEX)) if is_hex else placeholder.encode()
    tests = {name: _placeholder_test(data_type, data) for name, data_type in columns.items()}
    return {name: test for name, test in tests.items() if test is not None}


@cache
def _placeholder_test(data_type: DataType, data: bytes) -> Callable[[Column], Column] | None:
    from pyspark.sql import functions as F, types as T

    placeholder = _decode(data)
    if isinstance(data_type, T.StringType):
        return lambda value: value.isin(*_texts(data))
    if isinstance(data_type, T.BinaryType):
        return lambda value: value == F.lit(data)
    # An hstore. Maps with values of another type cannot contain the placeholder, and comparing them with it would be null.
    if isinstance(data_type, T.MapType) and {type(data_type.keyType), type(data_type.valueType)} == {T.StringType}:
        return lambda value: (F.size(value) == 1) & value.getItem(placeholder).eqNullSafe(placeholder)
    if isinstance(data_type, T.ArrayType):
        return _array_test(data_type.elementType, data)
    return None


def _array_test(element: DataType, data: bytes) -> Callable[[Column], Column] | None:
    from pyspark.sql import functions as F, types as T

    if isinstance(element, T.StringType):
        texts = _decode(data), str(_uuid(data))
        return lambda value: (F.size(value) == 1) & F.coalesce(value.getItem(0).isin(*texts), F.lit(False))
    if isinstance(element, T.BinaryType):
        return lambda value: (F.size(value) == 1) & value.getItem(0).eqNullSafe(F.lit(data))
    # Arrays of numbers or dates contain one element for each byte of the placeholder. Java's bytes are signed.
    signed = memoryview(data).cast("b")
    if isinstance(element, T.NumericType):
        numbers = [F.lit(byte).cast(element) for byte in signed]
    elif isinstance(element, T.DateType):
        numbers = [F.date_from_unix_date(F.lit(byte)) for byte in signed]
    else:
        return None
    return lambda value: value == F.array(*numbers)


def _decode(data: bytes) -> str:
    """Return the placeholder as a string. Like Java, replace bytes that are not UTF-8."""
    return data.decode(errors="replace")


def _texts(data: bytes) -> list[str]:
    """Return the string forms of the placeholder: itself, its bytes by ``binary.handling.mode``, and an hstore as JSON."""
    placeholder = _decode(data)
    binary = [encode(data).decode() for encode in (base64.b64encode, base64.urlsafe_b64encode)]
    hstore = json.dumps({placeholder: placeholder}, separators=(",", ":"))
    return list(dict.fromkeys([placeholder, *binary, data.hex(), hstore]))


def _uuid(data: bytes) -> uuid.UUID:
    """Return the result of Java's UUID.nameUUIDFromBytes: an MD5 without a namespace."""
    return uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)
