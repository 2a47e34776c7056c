"""Transforms of changes, as Column expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from headrace.errors import ConfigError
from headrace.schema.name_patterns import check_column_name, check_field_path, check_table_globs
from headrace.sdk.changes import IMAGES, PREFIX, Changes
from headrace.sdk.conditions import apply_when
from headrace.sdk.config import Config
from headrace.sdk.plugin import Plugin
from headrace.sdk.sql import SqlExpression, read_columns
from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


#: One string, or several.
Strings = Annotated[tuple[str, ...], BeforeValidator(_listed)]
#: Tables: their names after ``tables:``, or globs; one string, or several.
TableGlobs = Annotated[Strings, AfterValidator(check_table_globs)]
ColumnName = Annotated[str, AfterValidator(check_column_name)]
#: Name of a column, or path of a field in it: ``address.street``.
FieldPath = Annotated[str, AfterValidator(check_field_path)]


class TransformConfig(Config):
    """Options of every built-in transform: base class of the options of a transform."""

    only_tables: TableGlobs = Field((), alias="tables", min_length=1)
    """Tables to which the transform applies: their names after ``tables:``, or globs. Default: all tables."""

    excluded_tables: TableGlobs = Field((), alias="tables.exclude")
    """Tables to which it does not apply, also if ``tables`` includes them."""

    when: SqlExpression | None = None
    """SQL condition over the row. Rows for which it is not true stay unchanged; a mask also applies where it is null."""


class Transform(Plugin, ABC):
    """Mapping of changes. A change of a column applies to each row image and to the key."""

    #: True when it hides values: dead letters then hold its output, not its input.
    hides_values: ClassVar[bool] = False
    #: True when it turns envelopes into rows: the row before the change need not be read.
    flattens: ClassVar[bool] = False
    #: True when it uses columns of the row before the change other than its key.
    reads_before: bool = False
    #: True when it removes changes, which are then counted.
    filters: bool = False
    #: True when it makes several changes of one, or none: it adds columns to KEY that distinguish them, gives each a POSITION of its
    #: own, and makes deletes of those that an earlier change of the row made and this one does not.
    multiplies: ClassVar[bool] = False
    #: True when its output contains deletes, which the sink must support.
    deletes_rows: bool = False
    #: True when it leaves out deletes: a column of the row may then name its table, because no delete needs the column.
    ignores_deletes: ClassVar[bool] = False

    @abstractmethod
    def apply(self, changes: Changes) -> Changes:
        """Return the mapped changes."""

    def begin_batch(self) -> None:
        """Note that another batch begins. Data that it reads in addition to the changes stays the same within a batch."""

    def check(self, spark: SparkSession | None = None) -> None:
        """Raise ConfigError for SQL that cannot be parsed."""
        self.reads()
        read_columns(self.condition)

    @property
    def condition(self) -> str | None:
        """Its option ``when``."""
        return self.config.when if isinstance(self.config, TransformConfig) else None

    def applies_to(self, table: str | None) -> bool:
        """Return whether its options ``tables`` and ``tables.exclude`` select a table; a DataFrame without a table is selected."""
        config = self.config
        if table is None or not isinstance(config, TransformConfig):
            return True
        is_named = not config.only_tables or _matches(table, config.only_tables)
        return is_named and not _matches(table, config.excluded_tables)

    def process(self, changes: Changes) -> Changes:
        """Apply the transform to the changes that its options ``tables`` and ``when`` select."""
        if not self.applies_to(changes.table):
            return changes
        return self.apply(changes) if self.condition is None else self.apply_when(changes, self.condition)

    def apply_when(self, changes: Changes, condition: str) -> Changes:
        """Apply the transform to the rows for which a SQL condition is true; if it hides values, also where the condition is null.

        A transform that filters overrides it.
        """
        if self.filters:
            raise ConfigError("it leaves out rows, and has no `when`", fix="use `tables`")
        return apply_when(changes, self.apply, condition, self.reads_in(changes.table), unknown=self.hides_values)

    def reads(self) -> Collection[str]:
        """Return the columns that it names: each must exist in at least one table."""
        return ()

    def reads_in(self, table: str | None) -> Collection[str]:
        """Return the columns that it uses in a table; None: in a DataFrame outside of a pipeline. It may set others than ``reads``."""
        return self.reads()

    def tables(self) -> Collection[str]:
        """Return the tables that it names. ``headrace check`` warns about a name that no known topic becomes."""
        return self.config.only_tables if isinstance(self.config, TransformConfig) else ()

    def tags(self) -> Collection[str]:
        """Return the tags that it names: each must be one of the pipeline's ``tags:``."""
        return ()

    def hides(self, changes: Changes) -> Mapping[str, str]:
        """Return hidden column of these changes → rule, without secrets."""
        return {}

    def rules(self) -> Mapping[str, str]:
        """Return hidden column → rule, without secrets. The checkpoint stores them, so that headrace detects new and changed rules."""
        return {}

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Apply the transform to any DataFrame: to envelopes if it has ``op`` and a row image, otherwise to rows."""
        envelope = "op" in frame.columns and any(image in frame.columns for image in IMAGES)
        changes = self.process(Changes(frame, envelope))
        names = [c for c in changes.frame.columns if not c.startswith(PREFIX) or c in frame.columns]
        return changes.frame.select(*map(quote_name, names))


def _matches(table: str, globs: Collection[str]) -> bool:
    return any(fnmatchcase(table, glob) for glob in globs)
