"""Time intervals in the notation of Spark's triggers."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from headrace.errors import ConfigError

_UNITS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
_SECONDS = {**_UNITS, "ms": 0.001, **{unit[0]: seconds for unit, seconds in _UNITS.items() if seconds >= 1}}
#: Eight digits: Java counts in microseconds, and overflows above 292,000 years.
_PART = r"(\d{1,8}(?:\.\d+)?)\s*(millisecond|second|minute|hour|day|ms|s|m|h|d)s?\b"


def seconds_of(interval: str) -> float:
    """Return an interval in seconds: ``"500 milliseconds"``, ``"10 seconds"``, ``"1 minute 30 seconds"``."""
    if not re.fullmatch(rf"(\s*{_PART})+\s*", str(interval)):  # Python callers may pass a number
        raise ConfigError(f"{interval!r} is not an interval", fix='write it like "10 seconds"')
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_PART, interval))


def _check_interval(text: str) -> str:
    try:
        seconds_of(text)
    except ConfigError as error:
        raise ValueError(error.what, error.fix) from None
    return text


#: Type of an option that holds an interval.
Interval = Annotated[str, AfterValidator(_check_interval)]
