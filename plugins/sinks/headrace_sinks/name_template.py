"""Names of topics and streams, made from names of tables."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

#: Placeholder of the whole name of a table.
NAME = "{name}"


def _check_placeholders(value: str) -> str:
    if set("{}$") & set(value.replace(NAME, "")):
        raise ValueError(f"{value!r} has an unknown placeholder: the only one is {NAME}")
    return value


#: Option with the placeholder.
NameTemplate = Annotated[str, AfterValidator(_check_placeholders)]
