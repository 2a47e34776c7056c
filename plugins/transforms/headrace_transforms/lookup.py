"""Columns of reference data, found by a key in the row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from headrace.sdk import Changes, ConfigError, DataError, Interval, Plugin, Transform, TransformConfig, changes as C
from headrace.sdk.columns import any_of, fold_name, match_names
from headrace.sdk.conditions import apply_when
from headrace.sdk.options import seconds_of
from headrace.sdk.plugin_block import parse_plugin_block
from headrace.sdk.rows import list_images, reject_rows, unavailable_flags
from headrace.sdk.transform import ColumnName
from headrace_transforms.column_sources import find_sources
from headrace_transforms.reference_data import ReferenceData
from headrace_transforms.reference_join import JOINED, ImageJoin, LookupKey, join_image
from headrace_transforms.reference_rows import FOUND, VALUES, DuplicateKey, ReferenceShape
from headrace_transforms.reference_source import open_reference
from headrace_transforms.row_images import map_images

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


class LookupConfig(TransformConfig):
    """Reference data, its key, and the columns that rows get from it."""

    reference: dict[str, Any] = Field(alias="from", min_length=1, max_length=1)
    """Place of the reference data: ``csv``, ``json``, ``parquet`` or ``orc`` with ``path`` and the options of Spark's reader (and
    ``schema``, the columns in Spark SQL); ``jdbc`` with the options of the source; or a sink with its options and ``table``.
    """

    key: dict[ColumnName, ColumnName] | tuple[ColumnName, ...] | ColumnName = Field(min_length=1)
    """Column of the row → key column of the reference data, or the names if they are the same."""

    columns: dict[ColumnName, ColumnName] | tuple[ColumnName, ...] = Field(min_length=1)
    """New column of the row → column of the reference data, or the names if they are the same."""

    missing_key: Literal["keep", "reject"] = Field("keep", alias="missing.key")
    """Row whose key is not in the reference data: ``keep`` makes its new columns null, or those of ``defaults``, and ``reject`` makes it
    a dead letter.
    """

    defaults: dict[str, Any] = Field(default_factory=dict)
    """New column → its value in rows without a key, and in rows whose key is not in the reference data."""

    duplicate_key: DuplicateKey = Field("error", alias="duplicate.key")
    """Several rows of the reference data with one key: an ``error``, or the ``first`` or the ``last`` of them by ``order.by``."""

    order_by: tuple[str, ...] = Field((), alias="order.by")
    """Columns of the reference data that order the rows of a key."""

    valid_from: str | None = Field(None, alias="valid.from")
    """Column of the reference data with the time from which a row is valid. Null: always."""

    valid_to: str | None = Field(None, alias="valid.to")
    """Column with the time until which a row is valid, not included. Null, or without the option: until the next row of the key."""

    valid_at: str | None = Field(None, alias="valid.at")
    """Column of the row with the time at which the reference data is looked up. Required with ``valid.from``."""

    refresh_interval: Interval = Field("1 minute", alias="refresh.interval")
    """Shortest time between two searches for changes, which are made between batches. Data of an unchanged version is not read again."""

    max_rows: int = Field(1_000_000, alias="max.rows", gt=0)
    """Maximum number of rows of the reference data. More are an error, because the driver and each executor hold all of them."""

    max_bytes: int = Field(100 * 1024 * 1024, alias="max.bytes", gt=0)
    """Maximum size of these rows, in bytes of JSON."""

    @field_validator("columns")
    @classmethod
    def _free_names(cls, value: dict[str, str] | tuple[str, ...]) -> dict[str, str] | tuple[str, ...]:
        names = list(value)
        folded = [fold_name(name) for name in names]
        for name in names:
            if name.lower().startswith(C.PREFIX):
                raise ValueError(f"{name!r} is not a valid column name")
            if folded.count(fold_name(name)) > 1:
                raise ValueError(f"two columns would be named {name!r}")
        return value

    @model_validator(mode="after")
    def _options_fit(self) -> LookupConfig:
        if bool(self.order_by) != (self.duplicate_key != "error"):
            raise ValueError("`order.by` goes with `duplicate.key: first` or `last`")
        if (self.valid_from is None) != (self.valid_at is None) or (self.valid_to and self.valid_from is None):
            raise ValueError("`valid.from` and `valid.at` go together, and `valid.to` goes with them")
        if self.defaults and self.missing_key == "reject":
            raise ValueError("`defaults` go with `missing.key: keep`")
        if unknown := next((name for name in self.defaults if name not in self.new_columns), None):
            raise ValueError(f"`defaults` has {unknown!r}, which is no name in `columns`")
        return self

    @property
    def key_columns(self) -> Mapping[str, str]:
        """Column of the row → key column of the reference data."""
        return _pair(self.key)

    @property
    def new_columns(self) -> Mapping[str, str]:
        """New column of the row → column of the reference data."""
        return _pair(self.columns)


def _pair(names: Mapping[str, str] | Sequence[str] | str) -> Mapping[str, str]:
    if isinstance(names, Mapping):
        return names
    names = [names] if isinstance(names, str) else names
    return dict(zip(names, names, strict=True))


class Lookup(Transform):
    """``lookup: {from: {csv: {path: countries.csv, header: true}}, key: {country: code}, columns: [region]}``."""

    name = "lookup"
    api_version = 1
    Config = LookupConfig
    config: LookupConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        chosen: LookupConfig = self.config
        self._source = open_reference(*parse_plugin_block(chosen.reference, "kind of reference data"))
        self._shape = ReferenceShape(
            keys=tuple(chosen.key_columns.values()),
            columns=tuple(dict.fromkeys(chosen.new_columns.values())),
            where=f"transform lookup, {self._source.where}",
            duplicate_key=chosen.duplicate_key,
            order=chosen.order_by,
            begin=chosen.valid_from,
            end=chosen.valid_to,
            max_rows=chosen.max_rows,
            max_bytes=chosen.max_bytes,
        )
        self._checked_types: Mapping[str, DataType] | None = None
        self._data = ReferenceData(self._source, self._shape, seconds_of(chosen.refresh_interval))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the plugin without data, which belongs to a session."""
        return type(self), (self.config,)

    def check(self, spark: SparkSession | None = None) -> None:
        """Raise ConfigError for SQL that cannot be parsed; and with a session, an error for reference data that cannot be used."""
        super().check(spark)
        if spark is not None:
            self._data.read(spark)

    def parts(self) -> Sequence[Plugin]:
        return self._source.parts

    def reads(self) -> Collection[str]:
        return [*self.config.key_columns, *([self.config.valid_at] if self.config.valid_at else [])]

    def reads_in(self, table: str | None) -> Collection[str]:
        return [*self.reads(), *self.config.new_columns]

    def begin_batch(self) -> None:
        self._data.begin_batch()

    def apply_when(self, changes: Changes, condition: str) -> Changes:
        return apply_when(changes, self.apply, condition, self.config.new_columns, unknown=False)

    def apply(self, changes: Changes) -> Changes:
        key = self._find_key(changes)
        if key is None:
            return changes
        self._check_new(changes)
        rows = self._data.read(changes.frame.sparkSession)
        key.check_types(changes, rows, self._shape)
        frame, joins = changes.frame, list[ImageJoin]()
        for image in list_images(changes):
            frame, join = join_image(changes, frame, rows, key, image, self._shape.columns)
            joins.append(join)
        work = self._reject(replace(changes, frame=frame), key, joins)
        result = self._add(work, key, joins, self._cast_defaults(rows))
        frame = result.frame.drop(*[name for name in result.frame.columns if name.startswith(JOINED)])
        return replace(result, frame=frame, derived={**changes.derived, **self._find_derived(changes, key)})

    def _find_key(self, changes: Changes) -> LookupKey | None:
        """Return the key as the row spells it; None for a table that lacks a column of it."""
        wanted = list(self.reads())
        found = match_names(changes.frame.sparkSession, dict.fromkeys(wanted), changes.row_columns)
        spellings = {name: column for column, name in found.items()}
        if len(spellings) < len(set(wanted)):
            return None
        time = self.config.valid_at
        return LookupKey(tuple(spellings[name] for name in self.config.key_columns), time and spellings[time])

    def _check_new(self, changes: Changes) -> None:
        taken = {fold_name(name) for name in (*changes.row_columns, *changes.key_columns)}
        for name, column in self.config.new_columns.items():
            if fold_name(name) in taken:
                raise DataError(
                    f"the row already has a column {name!r}",
                    fix=f"choose another name, like `columns: {{new_{name}: {column}}}`, or `drop` the column of the row before",
                )

    def _cast_defaults(self, rows: DataFrame) -> Mapping[str, Column]:
        """Return new column → its default. ConfigError for a value that does not fit the type of the reference data."""
        from pyspark.sql import functions as F

        found: Any = rows.schema[FOUND].dataType
        values: StructType = found if self._shape.begin is None else found.elementType[VALUES].dataType
        kinds = {name: values[column].dataType for name, column in self.config.new_columns.items()}
        casts = {name: F.lit(value).cast(kinds[name]) for name, value in self.config.defaults.items()}
        if casts and self._checked_types != kinds:
            tests = [_is_exact(self.config.defaults[name], cast, kinds[name]) for name, cast in casts.items()]
            fits = rows.sparkSession.range(1).select(*tests).first()
            for name, is_fit in zip(casts, fits or (), strict=True):
                if not is_fit and self.config.defaults[name] is not None:
                    raise ConfigError(
                        f"the default of {name!r} is not {kinds[name].simpleString()}, the type of the reference data",
                        where="transform lookup, defaults",
                        fix="write a value of this type",
                    )
            self._checked_types = kinds
        return casts

    def _reject(self, changes: Changes, key: LookupKey, joins: Sequence[ImageJoin]) -> Changes:
        """Turn changes into dead letters whose key is not in the reference data, or is not known as a whole."""
        from pyspark.sql import functions as F

        written = joins[-1] if joins else None
        if written is None or written.image == "before":  # The batch has only deletes.
            return changes
        _, is_partly_omitted = _derive_flags(changes, key)
        tests = (
            {} if is_partly_omitted is None else {"the event omits a part of the key of `lookup`": is_partly_omitted}
        )
        if self.config.missing_key == "reject":
            # A delete that `unwrap` keeps as a row may have its key columns alone.
            is_delete = F.coalesce(F.col(C.OP) == "d", F.lit(False)) if C.OP in changes.own_columns else F.lit(False)
            names = ", ".join(f"`{name}`" for name in key.names)
            text = f"the reference data has no row for the value of {names}"
            tests[text] = written.has_key & ~written.is_found & ~is_delete
        return reject_rows(changes, tests)

    def _add(
        self, changes: Changes, key: LookupKey, joins: Sequence[ImageJoin], defaults: Mapping[str, Column]
    ) -> Changes:
        """Return the changes with the new columns in each row image. Those of an unavailable key are unavailable."""
        from pyspark.sql import functions as F

        is_omitted, _ = _derive_flags(changes, key)
        values: dict[str | None, dict[str, Column]] = {}
        for join in joins:
            found = {name: join.values[column] for name, column in self.config.new_columns.items()}
            filled = {name: F.when(join.is_found, found[name]).otherwise(cell) for name, cell in defaults.items()}
            values[join.image] = {**found, **filled}

        def add(image: str | None, row: dict[str, Column]) -> Mapping[str, Column]:
            if image == C.UNAVAILABLE:
                flags = {} if is_omitted is None else dict.fromkeys(self.config.new_columns, is_omitted)
                return {**row, **flags}
            return {**row, **values.get(image, {})}

        return map_images(changes, add)

    def _find_derived(self, changes: Changes, key: LookupKey) -> dict[str, frozenset[str]]:
        """Return new column → its sources, for a key column of the reference data, which equals the row's."""
        keys = {fold_name(name): column for name, column in zip(self._shape.keys, key.columns, strict=True)}
        copies = {
            name: keys[fold_name(column)]
            for name, column in self.config.new_columns.items()
            if fold_name(column) in keys
        }
        return {name: find_sources(changes, [column]) for name, column in copies.items()}


def _is_exact(value: Any, cast: Column, kind: DataType) -> Column:
    """Return whether a type holds a default. Spark rounds numbers."""
    from pyspark.sql import functions as F, types as T

    is_number = isinstance(kind, (T.IntegralType, T.DecimalType))
    if not is_number or isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return cast.isNotNull()
    return cast.isNotNull() & (F.lit(str(value)).cast("double") == cast.cast("double"))


def _derive_flags(changes: Changes, key: LookupKey) -> tuple[Column | None, Column | None]:
    """Return whether all columns of the key are unavailable, and whether some, but not all, are; None if that cannot be."""
    flags = unavailable_flags(changes, key.names)
    if not flags:
        return None, None
    every = reduce(lambda a, b: a & b, flags) if len(flags) == len(key.names) else None
    return every, any_of(flags) if every is None else any_of(flags) & ~every
