"""Options of dead letters in a pipeline file."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator

Policy = Literal["dead-letter", "stop", "drop"]


def parse_percentage(text: str) -> float:
    """Return ``"5%"`` as 0.05. ValueError for other strings."""
    if not (found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())) or float(found[1]) > 100:
        raise ValueError(f'{text!r} is not a limit: write a number of records, or a percentage such as "5%"')
    return float(found[1]) / 100


def _check_limit(value: int | str) -> int | str:
    if re.fullmatch(r"\d+", str(value)):
        return int(value)
    parse_percentage(str(value))
    return value


#: A number of records, or a percentage.
Limit = Annotated[int | str, AfterValidator(_check_limit)]
