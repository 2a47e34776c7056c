"""Options of dead letters in a pipeline file."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

Policy = Literal["dead-letter", "stop", "drop"]


def parse_percentage(text: str) -> float:
    """Return ``"5%"`` as 0.05. ValueError for other strings."""
    if not (found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())) or float(found[1]) > 100:
        raise ValueError(f'{text!r} is not a percentage: write it like "5%", or a number of records')
    return float(found[1]) / 100


def _share(text: str) -> str:
    parse_percentage(text)
    return text


#: A number of records, or a percentage.
Limit = Annotated[int, Field(ge=0)] | Annotated[str, AfterValidator(_share)]
