"""Hides values, in every row image and in the key, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from headrace.sdk import Changes, Config, DataError, Transform, did_you_mean, secret_literal

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


class HashConfig(Config):
    """A salted hash: lowercase hexadecimal digest of the salt followed by the value, as Debezium's column.mask.hash.v2."""

    #: Put before every value. Keep it secret: with it, short values can be guessed.
    salt: SecretStr = Field(min_length=1)


class MaskRule(Config):
    """What becomes of one column: exactly one of these, and ``only_in`` as you like; null stays null but for ``characters``.

    A column of the key can only be hashed: everything else would make one row of many.
    """

    #: Salted SHA-256.
    sha256: HashConfig | None = None
    #: Salted SHA-512.
    sha512: HashConfig | None = None
    #: This many asterisks, also for null, as Debezium's column.mask.with.N.chars.
    characters: int | None = Field(None, ge=0)
    #: The first so many characters, as Debezium's column.truncate.to.N.chars.
    truncate: int | None = Field(None, ge=0)
    #: This text instead of the value, as Kafka Connect's MaskField.
    replacement: str | None = None
    #: Null instead of the value.
    nullify: Literal[True] | None = None
    #: The tables for which the rule is, by the names that ``tables:`` gives them, or globs. Each has to have the column.
    #: Default: every table that has it.
    only_in: tuple[str, ...] = ()

    KINDS: ClassVar[tuple[str, ...]] = ("sha256", "sha512", "characters", "truncate", "replacement", "nullify")

    @model_validator(mode="after")
    def _one_kind(self) -> MaskRule:
        if sum(getattr(self, kind) is not None for kind in self.KINDS) != 1:
            raise ValueError(f"say exactly one of {', '.join(self.KINDS)}")
        return self

    @field_validator("only_in", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @property
    def keeps_apart(self) -> bool:
        """Whether two values stay two values."""
        return bool(self.sha256 or self.sha512)

    def __str__(self) -> str:
        """The rule without what is secret."""
        kind = next(kind for kind in self.KINDS if getattr(self, kind) is not None)
        said = getattr(self, kind)
        return kind if said is True or isinstance(said, Config) else f"{kind}: {said}"

    def is_for(self, table: str | None) -> bool:
        """Whether it is for a table; for a DataFrame of one's own (None) every rule is."""
        return not self.only_in or table is None or any(fnmatchcase(table, pattern) for pattern in self.only_in)


class MaskConfig(Config):
    """Columns to hide."""

    #: Column → rule.
    columns: dict[str, MaskRule] = Field(min_length=1)


class Mask(Transform):
    """``mask: {columns: {email: {sha256: {salt: "${env:SALT}"}}}}``."""

    name = "mask"
    api_version = 1
    hides_values = True
    Config = MaskConfig
    config: MaskConfig

    def reads(self) -> Collection[str]:
        return self.config.columns

    def reads_in(self, table: str | None) -> Collection[str]:
        return [name for name, rule in self.config.columns.items() if rule.is_for(table)]

    def hides(self, changes: Changes) -> Mapping[str, str]:
        return {column: str(self.config.columns[name]) for column, name in self._find_columns(changes).items()}

    def apply(self, changes: Changes) -> Changes:
        session, keys = changes.frame.sparkSession, changes.key_columns
        rules: dict[str, MaskRule] = {}
        for column, name in self._find_columns(changes).items():
            rules[name] = rule = self.config.columns[name]
            if column in keys and not rule.keeps_apart:
                raise DataError(
                    f"{column!r} is part of the key, and this mask would make one row of many",
                    fix="mask it with sha256 or sha512",
                )
        return changes.map_rows(values={name: _mask_column(rule, session) for name, rule in rules.items()})

    def _find_columns(self, changes: Changes) -> dict[str, str]:
        """Column of the row or the key → how its rule calls it. DataError when a table lacks one that it is said to have."""
        wanted = self.reads_in(changes.table)
        found = changes.find_columns(wanted)
        for name in wanted:
            if changes.table and self.config.columns[name].only_in and name not in found.values():
                raise DataError(
                    f"the table {changes.table} has no column {name!r}, which `only_in` says it has",
                    fix=did_you_mean(name, changes.row_columns),
                )
        return found


def _mask_column(rule: MaskRule, session: SparkSession) -> Callable[[Column], Column]:
    """What makes a masked column of a column."""
    from pyspark.sql import functions as F

    if rule.characters is not None:
        stars = F.lit("*" * rule.characters)
        return lambda _: stars
    if rule.truncate is not None:
        length = rule.truncate
        return lambda value: F.substring(value.cast("string"), 1, length)
    if rule.replacement is not None:
        text = rule.replacement
        return lambda value: F.when(value.isNotNull(), F.lit(text))
    if rule.nullify:
        return lambda value: F.when(F.lit(False), value)
    bits, config = (256, rule.sha256) if rule.sha256 else (512, rule.sha512)
    assert config is not None
    salt = secret_literal(session, config.salt.get_secret_value())
    return lambda value: F.sha2(F.concat(salt, value.cast("string")), bits)
