"""Properties of an Iceberg catalog in the block of a sink."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from headrace.sdk.options import option_text


def _to_text(value: Any) -> Any:
    return option_text(value) if isinstance(value, bool | int | float) else value


#: Name → value. Booleans and numbers of YAML become text: ``rest.sigv4-enabled: true``.
CatalogProperties = dict[str, Annotated[str, BeforeValidator(_to_text)]]
