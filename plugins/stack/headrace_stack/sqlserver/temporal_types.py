"""Date and time types: date, time, datetime, smalldatetime, datetime2 and datetimeoffset."""

from __future__ import annotations

import datetime as dt
import re
import struct
from typing import NamedTuple

from headrace_stack.sqlserver.sql_types import Odbc, SqlType, Value, short

_DATEN, _TIMEN, _DATETIME2N, _DATETIMEOFFSETN, _DATETIMN = 0x28, 0x29, 0x2A, 0x2B, 0x6F
_MOMENT = re.compile(
    r"(?:(?P<date>\d{4}-\d\d-\d\d)(?:[ T]|$))?"
    r"(?:(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d{1,7}))?)?)?"
    r"(?: ?(?P<sign>[+-])(?P<off_hour>\d\d):(?P<off_minute>\d\d))?"
)
#: 100 ns, the resolution of SQL Server.
_TICKS = 10**7
_DAY = 86400 * _TICKS
#: Ordinal day in Python.
_ZERO = dt.date(1, 1, 1).toordinal()
_1900 = dt.date(1900, 1, 1).toordinal()
_1753 = dt.date(1753, 1, 1).toordinal()
_2079 = dt.date(2079, 6, 6).toordinal()


class Moment(NamedTuple):
    """Day, ticks of 100 ns since midnight, and offset from UTC in minutes."""

    day: int
    ticks: int
    offset: int

    def round_to(self, unit: int) -> Moment:
        """Round half up to a number of ticks; the result can be the next day."""
        days, ticks = divmod((self.ticks + unit // 2) // unit * unit, _DAY)
        return Moment(self.day + days, ticks, self.offset)

    def date(self) -> str:
        return dt.date.fromordinal(self.day).isoformat()

    def clock(self, scale: int) -> str:
        seconds, part = divmod(self.ticks, _TICKS)
        whole = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{whole}.{part:07}"[: len(whole) + 1 + scale] if scale else whole


class _Temporal(SqlType):
    """Base class of types whose values are strings, parsed on use."""

    def read(self, value: Value) -> Moment:
        """Parse a value; the defaults are 1900-01-01 and midnight."""
        found = _MOMENT.fullmatch(value) if isinstance(value, str) and value else None
        if not found:
            raise self.unfit_error(value)
        try:
            day = dt.date.fromisoformat(found["date"] or "1900-01-01").toordinal()
            clock = dt.time(int(found["hour"] or 0), int(found["minute"] or 0), int(found["second"] or 0))
        except ValueError:
            raise self.unfit_error(value) from None
        seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
        minutes = int(found["off_hour"] or 0) * 60 + int(found["off_minute"] or 0)
        offset = -minutes if found["sign"] == "-" else minutes
        return Moment(day, seconds * _TICKS + int((found["part"] or "").ljust(7, "0")), offset)

    def check_range(
        self, value: Value, moment: Moment, first: int = _ZERO, last: int = dt.date.max.toordinal()
    ) -> None:
        if not first <= moment.day <= last:
            raise self.unfit_error(value)


class Date(_Temporal):
    """Type date, from year 1 to 9999."""

    name = "date"

    def keep(self, value: Value) -> Value:
        return self.read(value).date()

    def info(self) -> bytes:
        return bytes([_DATEN])

    def body(self, value: Value) -> bytes:
        return short(_day_bytes(self.read(value).day))

    def odbc(self) -> Odbc:
        return Odbc(91, 10, 6, 0, None, 9, 1)


class _Scaled(_Temporal):
    """Base class of types with fractional seconds."""

    def __init__(self, scale: int = 7) -> None:
        self._scale = scale
        self._unit: int = 10 ** (7 - scale)
        #: Printed length of the fraction.
        self._more = scale + 1 if scale else 0

    def clock_bytes(self, moment: Moment) -> bytes:
        size = 3 if self._scale <= 2 else 4 if self._scale <= 4 else 5
        count = moment.ticks // self._unit
        return count.to_bytes(size, "little")


class Time(_Scaled):
    """Type time. Rounding beyond midnight wraps to 00:00:00, as in SQL Server."""

    name = "time"

    def keep(self, value: Value) -> Value:
        return self.read(value).round_to(self._unit).clock(self._scale)

    def info(self) -> bytes:
        return bytes([_TIMEN, self._scale])

    def body(self, value: Value) -> bytes:
        return short(self.clock_bytes(self.read(value)))

    def odbc(self) -> Odbc:
        return Odbc(-154, 8 + self._more, 10, self._scale, None, -154, 0)


class DateTime2(_Scaled):
    """Type datetime2, without a time zone."""

    name = "datetime2"

    def keep(self, value: Value) -> Value:
        moment = self.read(value).round_to(self._unit)
        self.check_range(value, moment)
        return f"{moment.date()} {moment.clock(self._scale)}"

    def info(self) -> bytes:
        return bytes([_DATETIME2N, self._scale])

    def body(self, value: Value) -> bytes:
        moment = self.read(value)
        return short(self.clock_bytes(moment) + _day_bytes(moment.day))

    def odbc(self) -> Odbc:
        return Odbc(93, 19 + self._more, 16, self._scale, None, 9, 3)


class DateTimeOffset(_Scaled):
    """Type datetimeoffset: printed in local time, sent in UTC."""

    name = "datetimeoffset"

    def keep(self, value: Value) -> Value:
        moment = self.read(value).round_to(self._unit)
        self.check_range(value, moment)
        self.check_range(value, _to_utc(moment))
        if abs(moment.offset) > 14 * 60:
            raise self.unfit_error(value)
        hours, minutes = divmod(abs(moment.offset), 60)
        sign = "-" if moment.offset < 0 else "+"
        return f"{moment.date()} {moment.clock(self._scale)} {sign}{hours:02}:{minutes:02}"

    def info(self) -> bytes:
        return bytes([_DATETIMEOFFSETN, self._scale])

    def body(self, value: Value) -> bytes:
        moment = _to_utc(self.read(value))
        return short(self.clock_bytes(moment) + _day_bytes(moment.day) + struct.pack("<h", moment.offset))

    def odbc(self) -> Odbc:
        return Odbc(-155, 26 + self._more, 20, self._scale, None, -155, 0)


class DateTime(_Temporal):
    """Type datetime, in steps of 1/300 s, printed as .000, .003 and .007."""

    name = "datetime"

    def keep(self, value: Value) -> Value:
        day, count = self._count(self.read(value))
        milliseconds = (count * 10 + 1) // 3
        moment = Moment(day, milliseconds * 10**4, 0)
        self.check_range(value, moment, first=_1753)
        return f"{moment.date()} {moment.clock(3)}"

    def info(self) -> bytes:
        return bytes([_DATETIMN, 8])

    def body(self, value: Value) -> bytes:
        day, count = self._count(self.read(value))
        return short(struct.pack("<iI", day - _1900, count))

    def odbc(self) -> Odbc:
        return Odbc(93, 23, 16, 3, None, 9, 3, None, 111)

    @staticmethod
    def _count(moment: Moment) -> tuple[int, int]:
        """Return the day and the steps of 1/300 s since midnight."""
        days, count = divmod((moment.ticks * 300 + _TICKS // 2) // _TICKS, 86400 * 300)
        return moment.day + days, count


class SmallDateTime(_Temporal):
    """Type smalldatetime, in minutes."""

    name = "smalldatetime"

    def keep(self, value: Value) -> Value:
        moment = self.read(value).round_to(60 * _TICKS)
        self.check_range(value, moment, _1900, _2079)
        return f"{moment.date()} {moment.clock(0)}"

    def info(self) -> bytes:
        return bytes([_DATETIMN, 4])

    def body(self, value: Value) -> bytes:
        moment = self.read(value)
        return short(struct.pack("<HH", moment.day - _1900, moment.ticks // (60 * _TICKS)))

    def odbc(self) -> Odbc:
        return Odbc(93, 16, 16, 0, None, 9, 3, None, 111)


def _to_utc(moment: Moment) -> Moment:
    days, ticks = divmod(moment.ticks - moment.offset * 60 * _TICKS, _DAY)
    return Moment(moment.day + days, ticks, moment.offset)


def _day_bytes(day: int) -> bytes:
    return (day - _ZERO).to_bytes(3, "little")
