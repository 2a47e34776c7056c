"""String and binary types, xml, uniqueidentifier and rowversion."""

from __future__ import annotations

import struct
import uuid

from headrace_stack.sqlserver.sql_types import (
    LONG_NULL,
    PARTS_NULL,
    Odbc,
    Refused,
    SqlType,
    Value,
    long,
    parts,
    short,
)

#: Collation SQL_Latin1_General_CP1_CI_AS with code page 1252.
COLLATION = bytes.fromhex("0904d00034")
CODE_PAGE = "cp1252"
_NO_END = struct.pack("<H", 0xFFFF)
_CHAR, _VARCHAR, _NCHAR, _NVARCHAR = 0xAF, 0xA7, 0xEF, 0xE7
_BINARY, _VARBINARY, _TEXT, _NTEXT, _IMAGE, _XML, _GUID = 0xAD, 0xA5, 0x23, 0x63, 0x22, 0xF1, 0x24
#: Prefix of text, ntext and image values: two pointers with their lengths, which clients ignore.
_POINTER = b"\x10" + bytes(16) + bytes(8)


class Text(SqlType):
    """Types char, varchar, nchar and nvarchar; ``length`` None is (max)."""

    def __init__(self, name: str, length: int | None = 1) -> None:
        self.name, self._length = name, length
        self._unicode, self._fixed = name.startswith("n"), "var" not in name
        self.large = length is None
        self.null = PARTS_NULL if self.large else LONG_NULL

    def keep(self, value: Value) -> Value:
        if not isinstance(value, str):
            raise self.unfit_error(value)
        # Characters outside the code page become question marks, as in SQL Server.
        text = value if self._unicode else value.encode(CODE_PAGE, "replace").decode(CODE_PAGE)
        if self._length is None:
            return text
        room = self._length - self._length_of(text)
        if room < 0:
            raise Refused(
                f"String or binary data would be truncated: {value!r} does not fit {self.name}({self._length})", 2628
            )
        return text + " " * room if self._fixed else text

    def info(self) -> bytes:
        kind = {"char": _CHAR, "varchar": _VARCHAR, "nchar": _NCHAR, "nvarchar": _NVARCHAR}[self.name]
        width = _NO_END if self._length is None else struct.pack("<H", self._length * (2 if self._unicode else 1))
        return bytes([kind]) + width + COLLATION

    def body(self, value: Value) -> bytes:
        assert isinstance(value, str)
        data = value.encode("utf-16-le" if self._unicode else CODE_PAGE)
        return parts(data) if self._length is None else long(data)

    def odbc(self) -> Odbc:
        kind = {"char": 1, "varchar": 12, "nchar": -8, "nvarchar": -9}[self.name]
        length = self._length or 0
        size = length * (2 if self._unicode else 1)
        return Odbc(kind, length, size, None, None, kind, None, size, 39)

    def _length_of(self, text: str) -> int:
        """Return the length in the units of ``length``: bytes, or UTF-16 code units."""
        return len(text.encode("utf-16-le")) // 2 if self._unicode else len(text)


class Name(Text):
    """Type sysname, for metadata."""

    def __init__(self) -> None:
        super().__init__("nvarchar", 128)


class Binary(SqlType):
    """Types binary and varbinary; ``length`` None is (max)."""

    def __init__(self, name: str, length: int | None = 1) -> None:
        self.name, self._length = name, length
        self.large = length is None
        self.null = PARTS_NULL if self.large else LONG_NULL

    def keep(self, value: Value) -> Value:
        if not isinstance(value, bytes):
            raise self.unfit_error(value)
        if self._length is None:
            return value
        if len(value) > self._length:
            raise Refused(
                f"String or binary data would be truncated: {value!r} does not fit {self.name}({self._length})", 2628
            )
        return value.ljust(self._length, b"\0") if self.name == "binary" else value

    def info(self) -> bytes:
        width = _NO_END if self._length is None else struct.pack("<H", self._length)
        return bytes([_BINARY if self.name == "binary" else _VARBINARY]) + width

    def body(self, value: Value) -> bytes:
        assert isinstance(value, bytes)
        return parts(value) if self._length is None else long(value)

    def odbc(self) -> Odbc:
        kind, length = (-2 if self.name == "binary" else -3), self._length or 0
        return Odbc(kind, length, length, None, None, kind, None, length, 37)


class RowVersion(SqlType):
    """Type rowversion (timestamp): an eight-byte counter of the database."""

    name = "timestamp"
    null = LONG_NULL
    user_type = 80

    def keep(self, value: Value) -> Value:
        return value

    def info(self) -> bytes:
        return bytes([_BINARY]) + struct.pack("<H", 8)

    def body(self, value: Value) -> bytes:
        assert isinstance(value, bytes)
        return long(value)

    def odbc(self) -> Odbc:
        return Odbc(-2, 8, 8, None, None, -2, None, 8, 45)


class OldLarge(SqlType):
    """Types text, ntext and image."""

    pointed = large = never_before = True

    def __init__(self, name: str) -> None:
        self.name = name

    def keep(self, value: Value) -> Value:
        if not isinstance(value, bytes if self.name == "image" else str):
            raise self.unfit_error(value)
        return value.encode(CODE_PAGE, "replace").decode(CODE_PAGE) if self.name == "text" else value  # type: ignore[union-attr]

    def info(self) -> bytes:
        kind, most = {"text": (_TEXT, 2**31 - 1), "ntext": (_NTEXT, 2**31 - 2), "image": (_IMAGE, 2**31 - 1)}[self.name]
        return bytes([kind]) + struct.pack("<I", most) + (b"" if self.name == "image" else COLLATION)

    def body(self, value: Value) -> bytes:
        assert isinstance(value, str | bytes)
        encoding = "utf-16-le" if self.name == "ntext" else CODE_PAGE
        data = value if isinstance(value, bytes) else value.encode(encoding)
        return _POINTER + struct.pack("<I", len(data)) + data

    def odbc(self) -> Odbc:
        most = 2**31 - 1
        kind, length, ss_type = {"text": (-1, most, 35), "ntext": (-10, most - 1, 35), "image": (-4, most, 34)}[
            self.name
        ]
        precision = length // 2 if self.name == "ntext" else length
        return Odbc(kind, precision, length, None, None, kind, None, length, ss_type)


class Xml(SqlType):
    """Type xml, stored as written; SQL Server would normalize it."""

    name = "xml"
    null = PARTS_NULL
    large = True

    def keep(self, value: Value) -> Value:
        if not isinstance(value, str):
            raise self.unfit_error(value)
        return value

    def info(self) -> bytes:
        return bytes([_XML, 0])

    def body(self, value: Value) -> bytes:
        assert isinstance(value, str)
        return parts(value.encode("utf-16-le"))

    def odbc(self) -> Odbc:
        return Odbc(-152, 0, 0, None, None, -152, None, 0)


class Guid(SqlType):
    """Type uniqueidentifier, printed in upper case."""

    name = "uniqueidentifier"

    def keep(self, value: Value) -> Value:
        try:
            return str(uuid.UUID(value if isinstance(value, str) else "")).upper()
        except ValueError:
            raise self.unfit_error(value) from None

    def info(self) -> bytes:
        return bytes([_GUID, 16])

    def body(self, value: Value) -> bytes:
        assert isinstance(value, str)
        return short(uuid.UUID(value).bytes_le)

    def odbc(self) -> Odbc:
        return Odbc(-11, 36, 16, None, None, -11, None, None, 37)
