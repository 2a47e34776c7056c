"""Base class of SQL Server types: stored values and their TDS encoding."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import NamedTuple

#: Decimals, times and GUIDs are strings in the format of the database.
Value = None | int | float | str | bytes


class Refused(Exception):  # noqa: N818 - what the server did, in the server's words
    """Error of the server, as returned to a client."""

    def __init__(self, words: str, number: int = 50000) -> None:
        super().__init__(words)
        self.number = number


class Odbc(NamedTuple):
    """Fields of sp_columns_100 for a column of the type."""

    data_type: int
    precision: int
    length: int
    scale: int | None = None
    radix: int | None = None
    sql_data_type: int | None = None
    datetime_sub: int | None = None
    octet_length: int | None = None
    ss_data_type: int = 0


class SqlType(ABC):
    """Declared type."""

    #: Name in sys.types.
    name: str
    #: Null in TDS.
    null: bytes = b"\0"
    #: USERTYPE of a column's metadata.
    user_type: int = 0
    #: The metadata of its columns contains the table's name, and each value starts with a pointer.
    pointed: bool = False
    #: Stored outside the row: change tables omit it from an update that does not change it ...
    large: bool = False
    #: ... and out of the row before a change in any case.
    never_before: bool = False

    @abstractmethod
    def keep(self, value: Value) -> Value:
        """Return the stored value of a written, non-null value. Refused for an invalid value."""

    @abstractmethod
    def info(self) -> bytes:
        """Return TYPE_INFO of TDS."""

    @abstractmethod
    def body(self, value: Value) -> bytes:
        """Encode a stored, non-null value with its length."""

    @abstractmethod
    def odbc(self) -> Odbc: ...

    def keep_or_null(self, value: Value) -> Value:
        return None if value is None else self.keep(value)

    def encode(self, value: Value) -> bytes:
        return self.null if value is None else self.body(value)

    def unfit_error(self, value: Value) -> Refused:
        shown = repr(value)
        return Refused(f"{shown if len(shown) < 80 else shown[:80] + '…'} is not a valid {self.name}", 245)


def short(data: bytes) -> bytes:
    """Prefix bytes with a length of one byte."""
    return bytes([len(data)]) + data


def long(data: bytes) -> bytes:
    """Prefix bytes with a length of two bytes."""
    return struct.pack("<H", len(data)) + data


def parts(data: bytes) -> bytes:
    """Encode a (max) type in TDS: total length, chunks with their lengths, and an empty chunk."""
    chunk = struct.pack("<I", len(data)) + data if data else b""
    return struct.pack("<Q", len(data)) + chunk + bytes(4)


LONG_NULL = b"\xff\xff"
PARTS_NULL = b"\xff" * 8
