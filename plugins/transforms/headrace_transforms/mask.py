"""Hides values, in every row image and in the key, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, SecretStr, model_validator

from headrace.sdk import Changes, Config, DataError, Transform, secret_literal

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


class HashConfig(Config):
    """A salted hash: lowercase hexadecimal digest of the salt followed by the value, as Debezium's column.mask.hash.v2."""

    #: Put before every value. Keep it secret: with it, short values can be guessed.
    salt: SecretStr = Field(min_length=1)


class MaskRule(Config):
    """What becomes of one column. Exactly one of these; null stays null but for ``characters``.

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

    KINDS: ClassVar[tuple[str, ...]] = ("sha256", "sha512", "characters", "truncate", "replacement", "nullify")

    @model_validator(mode="after")
    def _one_kind(self) -> MaskRule:
        if sum(getattr(self, kind) is not None for kind in self.KINDS) != 1:
            raise ValueError(f"say exactly one of {', '.join(self.KINDS)}")
        return self

    @property
    def keeps_apart(self) -> bool:
        """Whether two values stay two values."""
        return bool(self.sha256 or self.sha512)


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

    def apply(self, changes: Changes) -> Changes:
        session, keys = changes.frame.sparkSession, changes.key_columns
        rules = {
            name: rule for name, rule in self.config.columns.items() if name in changes.row_columns or name in keys
        }
        for name, rule in rules.items():
            if name in keys and not rule.keeps_apart:
                raise DataError(
                    f"{name!r} is part of the key, and this mask would make one row of many",
                    fix="mask it with sha256 or sha512",
                )
        return changes.map_rows(values={name: _mask_column(rule, session) for name, rule in rules.items()})


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
