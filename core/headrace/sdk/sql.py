"""SQL expressions over a row, in the options of transforms."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from headrace.spark.decimal_texts import DECIMAL_CHARACTERS, EXPONENT_DIGITS, limit_decimal_text
from headrace.spark.row_expressions import check_sql, evaluate, read_columns

__all__ = ["DECIMAL_CHARACTERS", "EXPONENT_DIGITS", "SqlExpression", "evaluate", "limit_decimal_text", "read_columns"]

#: A SQL expression over a row that calls no function which reaches outside of the row.
SqlExpression = Annotated[str, AfterValidator(check_sql)]
