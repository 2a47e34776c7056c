"""Partition paths of Hudi tables, and the partition values that a path cannot hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError
from headrace.sdk.changes import DELETED
from headrace.sdk.columns import any_of, fold_name, quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_WRITE = "hoodie.datasource.write."
PARTITION = f"{_WRITE}partitionpath.field"
_ENCODED, _HIVE_STYLE = f"{_WRITE}partitionpath.urlencode", f"{_WRITE}hive_style_partitioning"
_SLASHED_DATES = f"{_WRITE}slash.separated.date.partitioning"
_GENERATORS = (f"{_WRITE}keygenerator.class", f"{_WRITE}keygenerator.type")
#: Message of a task that rejects a partition value, followed by the column.
REJECTION = "headrace: not a partition value of"
#: Folder for null.
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
#: Characters that Hudi encodes in a path, as a regular expression.
_ENCODED_CHARACTERS = r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]"
#: Maximum length of a folder name, in bytes.
_MAX_NAME = 255


def has_own_generator(options: Mapping[str, str]) -> bool:
    """Return whether the configured options set a key generator."""
    return ":" in options.get(PARTITION, "") or any(option in options for option in _GENERATORS)


@dataclass(frozen=True)
class PartitionPaths:
    """Layout of the partition paths of a table."""

    columns: Sequence[str]
    #: Special characters of a value are URL-encoded, so that each value is one folder.
    is_encoded: bool
    #: Folders are named ``column=value``.
    is_hive_style: bool
    #: Dashes of a value separate folders.
    has_slashed_dates: bool

    @classmethod
    def of_new_table(cls, columns: Sequence[str], options: Mapping[str, str]) -> PartitionPaths:
        """Return the layout of a new table. ``options``: the configured options of Hudi."""
        # Another key generator may write slashes into the path.
        flags = {_ENCODED: str(not has_own_generator(options)), _HIVE_STYLE: "false", _SLASHED_DATES: "false"}
        encoded, hive_style, slashed = (options.get(flag, default).lower() == "true" for flag, default in flags.items())
        return cls(columns, is_encoded=encoded, is_hive_style=hive_style, has_slashed_dates=slashed)

    @classmethod
    def of_table(cls, columns: Sequence[str], config: Any) -> PartitionPaths:
        """Return the layout of an existing table. ``config``: its HoodieTableConfig."""
        return cls(
            columns,
            is_encoded=config.getUrlEncodePartitioning() == "true",
            is_hive_style=config.getHiveStylePartitioningEnable() == "true",
            has_slashed_dates=bool(config.getSlashSeparatedDatePartitioning()),
        )

    def write_options(self) -> dict[str, str]:
        """Return the options of Hudi's writer for the layout."""
        options = {_ENCODED: self.is_encoded, _HIVE_STYLE: self.is_hive_style, _SLASHED_DATES: self.has_slashed_dates}
        return {option: str(value).lower() for option, value in options.items()} if self.columns else {}

    def check_options(self, options: Mapping[str, str], name: str) -> None:
        """Raise ConfigError for a configured option that contradicts the layout of an existing table."""
        for option, value in self.write_options().items():
            if options.get(option, value).lower() != value:
                raise ConfigError(
                    f"the table was created with {value!r}, and its partition paths do not change",
                    where=f"table {name}, sink hudi, {option}",
                    fix="restore the previous value, or rewrite the table in another `path`",
                )

    def check_types(self, schema: StructType, name: str) -> None:
        """Raise ConfigError for a partition column whose values Hudi reads from a path as other values."""
        from pyspark.sql import types as T

        for column in self.columns:
            kind = _find_type(schema, column)
            if isinstance(kind, T.TimestampType | T.TimestampNTZType | T.BinaryType):
                raise ConfigError(
                    f"Hudi does not read values of the type {kind.simpleString()} from partition paths",
                    where=f"table {name}, sink hudi, {PARTITION}, column {column}",
                    fix="partition by a column of another type, such as a date",
                )

    def find_unsupported(self, schema: StructType) -> Column:
        """Return a condition that is true for rows with a partition value that would be read as another value.

        Such a value may also lead to a folder outside of the table.
        """
        from pyspark.sql import functions as F

        return any_of(F.coalesce(condition, F.lit(False)) for condition in self._list_conditions(schema).values())

    def guard(self, rows: DataFrame) -> DataFrame:
        """Return rows without unsupported values: in a delete, the value becomes null; any other row fails its task."""
        from pyspark.sql import functions as F

        guarded = {}
        for name, condition in self._list_conditions(rows.schema).items():
            field = next((field for field in rows.columns if fold_name(field) == fold_name(name)), None)
            if field is not None:
                column, error = F.col(quote_name(field)), F.raise_error(F.lit(f"{REJECTION} {name}")).cast("string")
                is_unsupported = F.coalesce(condition, F.lit(False))
                guarded[field] = F.when(~is_unsupported, column).when(~F.col(DELETED), error)
        return rows.withColumns(guarded) if guarded else rows

    def _list_conditions(self, schema: StructType) -> dict[str, Column]:
        from pyspark.sql.types import StringType

        strings = [name for name in self.columns if isinstance(_find_type(schema, name), StringType)]
        return {name: self._is_unsupported(name) for name in strings}

    def _is_unsupported(self, name: str) -> Column:
        from pyspark.sql import functions as F

        text = F.col(".".join(map(quote_name, name.split("."))))
        encoded = F.regexp_replace(text, _ENCODED_CHARACTERS, "%00") if self.is_encoded else text
        prefix = len(f"{name}=".encode()) if self.is_hive_style else 0
        is_too_long = F.octet_length(encoded) > _MAX_NAME - prefix
        return (text == _NULL_FOLDER) | text.rlike(self._pattern) | is_too_long

    @property
    def _pattern(self) -> str:
        """Regular expression for values that are read as other values, or that leave the partition's folder."""
        separators = ("" if self.is_encoded else "/") + ("-" if self.has_slashed_dates else "")
        patterns = [r"\A\z"]
        if separators:  # A folder name must not be empty, `.` or `..`.
            patterns.append(rf"(\A|[{separators}])\.{{0,2}}([{separators}]|\z)")
        if not self.is_hive_style:
            patterns.append(r"\A(\.{1,2}\z|\.hoodie)")
        if not self.is_encoded:  # Readers decode each path, and Hadoop rejects a colon.
            patterns.append("%[0-9A-Fa-f]{2}|[:\\x00-\\x1f]" + ("" if self.is_hive_style else "|=") + self._slash)
        return "|".join(patterns)

    @property
    def _slash(self) -> str:
        """Pattern of a slash in one of several values; a single value may consist of several folders."""
        return "|/" if len(self.columns) > 1 else ""


def _find_type(schema: StructType, name: str) -> DataType | None:
    """Return the type of a column or nested field; None when it does not exist."""
    from pyspark.sql.types import StructType

    kind: DataType | None = schema
    for part in name.split("."):
        fields = kind.fields if isinstance(kind, StructType) else []
        kind = next((field.dataType for field in fields if fold_name(field.name) == fold_name(part)), None)
    return kind
