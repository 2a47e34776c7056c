"""What all SQL Server types have in common: what a column keeps of a value, and how TDS carries it."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import NamedTuple

#: Numbers and bytes are themselves; decimals, times and GUIDs are the text that the database prints.
Value = None | int | float | str | bytes


class Refused(Exception):  # noqa: N818 - what the server did, in the server's words
    """An error of the server's, as a client gets it."""

    def __init__(self, words: str, number: int = 50000) -> None:
        super().__init__(words)
        self.number = number


class Odbc(NamedTuple):
    """The fields of sp_columns_100 for a column of the type."""

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
    """A type as it was declared."""

    #: As sys.types has it.
    name: str
    #: TDS's null.
    null: bytes = b"\0"
    #: USERTYPE of a column's metadata.
    user_type: int = 0
    #: Its columns have a table's name in their metadata, and a pointer before each value.
    pointed: bool = False
    #: Kept beside the row: change tables leave it out of an update that does not touch it ...
    large: bool = False
    #: ... and out of the row before a change in any case.
    never_before: bool = False

    @abstractmethod
    def keep(self, value: Value) -> Value:
        """The value that a column has after ``value``, which is not null, was written to it. Refused for what does not fit."""

    @abstractmethod
    def info(self) -> bytes:
        """TDS's TYPE_INFO."""

    @abstractmethod
    def body(self, value: Value) -> bytes:
        """A kept value that is not null, with its length before it."""

    @abstractmethod
    def odbc(self) -> Odbc: ...

    def keep_or_null(self, value: Value) -> Value:
        return None if value is None else self.keep(value)

    def encode(self, value: Value) -> bytes:
        return self.null if value is None else self.body(value)

    def unfit_error(self, value: Value) -> Refused:
        shown = repr(value)
        return Refused(f"{shown if len(shown) < 80 else shown[:80] + '…'} is no {self.name}", 245)


def short(data: bytes) -> bytes:
    """The bytes behind a length of one byte."""
    return bytes([len(data)]) + data


def long(data: bytes) -> bytes:
    """The bytes behind a length of two bytes."""
    return struct.pack("<H", len(data)) + data


def parts(data: bytes) -> bytes:
    """The bytes of a (max) type in TDS: the whole length, parts with their lengths, and an empty one."""
    chunk = struct.pack("<I", len(data)) + data if data else b""
    return struct.pack("<Q", len(data)) + chunk + bytes(4)


LONG_NULL = b"\xff\xff"
PARTS_NULL = b"\xff" * 8
