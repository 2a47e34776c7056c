"""Model of a view in the pipeline file."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from headrace.config.column_lists import check_distinct_columns, read_one_or_many
from headrace.config.maintenance_options import Maintenance
from headrace.config.table_names import check_table_name
from headrace.sdk.config import Config


class ViewRule(Config):
    """View: a table that one SELECT computes from tables of the same pipeline, and that each batch keeps equal to them."""

    name: str
    """Name of the view's own table, with dots as in ``target``."""

    key: tuple[str, ...] = Field(min_length=1)
    """Columns of the result that identify a row. No two rows have the same key, and no column of it is null."""

    sql: str = Field(min_length=1)
    """One SELECT in Spark SQL. Tables have the names of ``target``, such as ``shop.orders``; other views may be used like
    tables.
    """

    touched_by: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Table → expressions over its row that give the key columns of the view's rows that a change of the row affects, in the order of ``key``.
    Default: derived from the SQL.
    """

    recompute: Literal["touched", "full"] = "touched"
    """``touched`` computes only the rows that a batch can have changed; ``full`` computes the whole view after each batch that
    changes one of its tables.
    """

    from_: str | None = Field(default=None, alias="from")
    """Name of the sink from which the tables are read. Default: the only sink that keeps tables."""

    sinks: tuple[str, ...] | None = None
    """Names of the sinks that receive the view. Default: all sinks of the pipeline."""

    sink: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of sinks for the view, by the sink's name, as in ``tables:``."""

    maintenance: Maintenance | None = None
    """Maintenance of the view's table. Each option replaces the pipeline's own."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        return check_table_name(value)

    @field_validator("key", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return read_one_or_many(value)

    @field_validator("touched_by", mode="before")
    @classmethod
    def _one_or_many_of_each(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {table: read_one_or_many(expressions) for table, expressions in value.items()}

    @field_validator("key")
    @classmethod
    def _distinct_columns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_distinct_columns(value)
        return value

    @field_validator("sinks")
    @classmethod
    def _some_sinks(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not value:
            raise ValueError("names no sink", "name one, or remove the key: then all sinks receive the view")
        return value
