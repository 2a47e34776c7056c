"""What a pipeline's file says of dead letters."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

Policy = Literal["dead-letter", "stop", "drop"]


def share_of(text: str) -> float:
    """``"5%"`` as 0.05. ValueError for anything else."""
    if not (found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())) or float(found[1]) > 100:
        raise ValueError(f'{text!r} is no share: write it like "5%", or a number of records')
    return float(found[1]) / 100


def _share(text: str) -> str:
    share_of(text)
    return text


#: A number of records, or a share of them.
Limit = Annotated[int, Field(ge=0)] | Annotated[str, AfterValidator(_share)]
