"""Numeric types: bit, integers, real and float, decimal and numeric, money."""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from math import isfinite

from headrace_stack.sqlserver.sql_types import Odbc, Refused, SqlType, Value, short

#: Precision for 38 digits before rounding.
_WIDE = Context(prec=80)
_INTEGERS = {
    "bit": (1, Odbc(-7, 1, 1, None, None, -7, None, None, 50)),
    "tinyint": (1, Odbc(-6, 3, 1, 0, 10, -6, None, None, 38)),
    "smallint": (2, Odbc(5, 5, 2, 0, 10, 5, None, None, 52)),
    "int": (4, Odbc(4, 10, 4, 0, 10, 4, None, None, 56)),
    "bigint": (8, Odbc(-5, 19, 8, 0, 10, -5, None, None, 108)),
}
_BIT, _INTN, _FLTN, _MONEYN, _DECIMALN, _NUMERICN = 0x68, 0x26, 0x6D, 0x6E, 0x6A, 0x6C


class Integer(SqlType):
    """Types bit, tinyint, smallint, int and bigint. Only tinyint is unsigned."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._size, self._odbc = _INTEGERS[name]
        bits = 8 * self._size
        signed = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        self._range = {"bit": (0, 1), "tinyint": (0, 255)}.get(name, signed)

    def keep(self, value: Value) -> Value:
        if not isinstance(value, int):
            raise self.unfit_error(value)
        if not self._range[0] <= value <= self._range[1]:
            raise Refused(f"Arithmetic overflow error for data type {self.name}, value = {value}.", 220)
        return int(value)

    def info(self) -> bytes:
        return bytes([_BIT if self.name == "bit" else _INTN, self._size])

    def body(self, value: Value) -> bytes:
        assert isinstance(value, int)
        return short(value.to_bytes(self._size, "little", signed=self._size > 1))

    def odbc(self) -> Odbc:
        return self._odbc


class Float(SqlType):
    """Types real and float."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._size, self._format = (4, "<f") if name == "real" else (8, "<d")

    def keep(self, value: Value) -> Value:
        if not isinstance(value, int | float) or not isfinite(value):
            raise self.unfit_error(value)
        try:
            (number,) = struct.unpack(self._format, struct.pack(self._format, value))
        except OverflowError:
            raise self.unfit_error(value) from None
        return float(number)

    def info(self) -> bytes:
        return bytes([_FLTN, self._size])

    def body(self, value: Value) -> bytes:
        return short(struct.pack(self._format, value))

    def odbc(self) -> Odbc:
        wide = Odbc(6, 53, 8, None, 2, 6, None, None, 109)
        return wide if self.name == "float" else Odbc(7, 24, 4, None, 2, 7, None, None, 109)


class Exact(SqlType):
    """Types decimal and numeric."""

    def __init__(self, name: str, precision: int = 18, scale: int = 0) -> None:
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise Refused(f"invalid type {name}({precision},{scale})", 1007)
        self.name, self._precision, self._scale = name, precision, scale

    def keep(self, value: Value) -> Value:
        units = _to_units(self, value, self._scale)
        if abs(units) >= 10**self._precision:
            raise Refused(f"Arithmetic overflow error converting {value!s} to data type {self.name}.", 8115)
        return _format_units(units, self._scale)

    def info(self) -> bytes:
        return bytes([_DECIMALN if self.name == "decimal" else _NUMERICN, 17, self._precision, self._scale])

    def body(self, value: Value) -> bytes:
        units = _to_units(self, value, self._scale)
        size = next(size for digits, size in ((9, 4), (19, 8), (28, 12), (38, 16)) if self._precision <= digits)
        return short(bytes([units >= 0]) + abs(units).to_bytes(size, "little"))

    def odbc(self) -> Odbc:
        kind, ss_type = (3, 106) if self.name == "decimal" else (2, 108)
        return Odbc(kind, self._precision, self._precision + 2, self._scale, 10, kind, None, None, ss_type)


class Money(SqlType):
    """Types money and smallmoney, with four decimal places."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._size = 8 if name == "money" else 4

    def keep(self, value: Value) -> Value:
        units = _to_units(self, value, 4)
        most = 2 ** (8 * self._size - 1)
        if not -most <= units < most:
            raise Refused(f"Arithmetic overflow error converting {value!s} to data type {self.name}.", 8115)
        return _format_units(units, 4)

    def info(self) -> bytes:
        return bytes([_MONEYN, self._size])

    def body(self, value: Value) -> bytes:
        units = _to_units(self, value, 4)
        if self._size == 4:
            return short(struct.pack("<i", units))
        # The high half is first.
        high, low = divmod(units % 2**64, 2**32)
        return short(struct.pack("<II", high, low))

    def odbc(self) -> Odbc:
        wide = Odbc(3, 19, 21, 4, 10, 3, None, None, 110)
        return wide if self.name == "money" else Odbc(3, 10, 12, 4, 10, 3, None, None, 110)


def _to_units(kind: SqlType, value: Value, scale: int) -> int:
    """Convert a number to units of its last decimal place, rounded half away from zero as in SQL Server."""
    try:
        if isinstance(value, int | str):
            scaled = Decimal(value).scaleb(scale, _WIDE)
            return int(scaled.quantize(Decimal(1), ROUND_HALF_UP, _WIDE))
    except InvalidOperation:
        pass
    raise kind.unfit_error(value)


def _format_units(units: int, scale: int) -> str:
    return format(Decimal(units).scaleb(-scale, _WIDE), "f")
