"""Masking of values in every row image and in the key, before anything is written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from headrace.sdk import Changes, Config, DataError, Transform, TransformConfig
from headrace.sdk.columns import fold_name, quote_name, secret_literal
from headrace.sdk.options import did_you_mean
from headrace.sdk.rows import row_types

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType


#: Fields of the source block that hold the SQL statement of a change: of MySQL and MariaDB, and of Oracle.
STATEMENTS = ("query", "redo_sql")
#: A salt or key with fewer characters causes a warning.
SECRET_CHARACTERS = 16
#: Block size of SHA-256 in bytes, to which HMAC pads its key.
_BLOCK = 64
#: Kind of mask → a rule of this kind.
_HASHES = {kind: f'{{{kind}: {{salt: "${{env:SALT}}"}}}}' for kind in ("sha256", "sha512")} | {
    "hmac_sha256": '{hmac_sha256: {key: "${env:KEY}"}}'
}
_EXAMPLES = {
    **_HASHES,
    "characters": "{characters: 8}",
    "truncate": "{truncate: 3}",
    "replacement": '{replacement: "hidden"}',
    "nullify": "{nullify: true}",
    "empty": "{empty: true}",
}
#: Type → its empty value, as a SQL expression. Strings, lists and maps have one; other types cannot be emptied.
_EMPTY = {
    **dict.fromkeys(("byte", "short", "integer", "long", "float", "double", "decimal"), "0"),
    "boolean": "false",
    "string": "''",
    "date": "DATE'1970-01-01'",
    "array": "array()",
    "map": "map()",
    "timestamp": "timestamp_seconds(0)",
    "timestamp_ntz": "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
}


class HashConfig(Config):
    """Salted hash: lowercase hexadecimal digest of the salt followed by the value, as in Debezium's column.mask.hash.v2."""

    salt: SecretStr = Field(min_length=1)
    """Precedes every value. Keep it secret: with it, short values can be guessed."""


class KeyConfig(Config):
    """Keyed hash: lowercase hexadecimal HMAC (RFC 2104) of the value, equal to that of other programs with the same key."""

    key: SecretStr = Field(min_length=1)
    """Keep it secret: without it, values cannot be guessed."""


class MaskRule(Config):
    """Mask of one column: exactly one kind, and optionally ``only_in``. Null stays null, except with ``characters``.

    A key column can only be hashed: any other mask would merge rows.
    """

    sha256: HashConfig | None = None
    """Salted SHA-256."""

    sha512: HashConfig | None = None
    """Salted SHA-512."""

    hmac_sha256: KeyConfig | None = None
    """HMAC with SHA-256."""

    characters: int | None = Field(None, ge=0)
    """Number of asterisks instead of the value, also of null, as in Debezium's column.mask.with.N.chars."""

    truncate: int | None = Field(None, ge=0)
    """Number of leading characters to keep, as in Debezium's column.truncate.to.N.chars."""

    replacement: str | None = None
    """String instead of the value, as in Kafka Connect's MaskField."""

    keep_type: bool = False
    """With ``replacement``: the column keeps its type, as in Kafka Connect's MaskField. A string that does not fit is an error."""

    nullify: Literal[True] | None = None
    """Null instead of the value."""

    empty: Literal[True] | None = None
    """The empty value of the column's type, as in Kafka Connect's MaskField without ``replacement``: false, 0, an empty string,
    1970-01-01, an empty list.
    """

    only_in: tuple[str, ...] = ()
    """Tables to which the rule applies: their names after ``tables:``, or globs. Each must have the column.
    Default: every table that has the column.
    """

    KINDS: ClassVar[tuple[str, ...]] = (
        "sha256",
        "sha512",
        "hmac_sha256",
        "characters",
        "truncate",
        "replacement",
        "nullify",
        "empty",
    )

    @model_validator(mode="before")
    @classmethod
    def _is_mapping(cls, value: Any) -> Any:
        if isinstance(value, str) and value in _EXAMPLES:
            raise ValueError(f"{value!r} has no options: write `{_EXAMPLES[value]}`")
        for kind, options in value.items() if isinstance(value, dict) else ():
            if options is None and kind in _HASHES:
                raise ValueError(f"{kind!r} has no options: write `{_EXAMPLES[kind]}`")
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> MaskRule:
        if sum(getattr(self, kind) is not None for kind in self.KINDS) != 1:
            raise ValueError(f"requires exactly one of {', '.join(self.KINDS)}")
        if self.keep_type and self.replacement is None:
            raise ValueError("keep_type belongs to `replacement`")
        return self

    @field_validator("only_in", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @property
    def keeps_apart(self) -> bool:
        """Whether different values stay different."""
        return bool(self.sha256 or self.sha512 or self.hmac_sha256)

    @property
    def secret(self) -> SecretStr | None:
        """Salt or key of a hash."""
        salted = self.sha256 or self.sha512
        return salted.salt if salted else self.hmac_sha256.key if self.hmac_sha256 else None

    def __str__(self) -> str:
        """Return the rule without its secret."""
        kind = next(kind for kind in self.KINDS if getattr(self, kind) is not None)
        value = getattr(self, kind)
        text = kind if value is True or isinstance(value, Config) else f"{kind}: {value}"
        return f"{text} with its type" if self.keep_type else text

    def applies_to(self, table: str | None) -> bool:
        """Return whether the rule applies to a table. Every rule applies to a DataFrame without a table (None)."""
        return not self.only_in or table is None or any(fnmatchcase(table, pattern) for pattern in self.only_in)


class MaskConfig(TransformConfig):
    """Columns to hide."""

    columns: dict[str, MaskRule] = Field(min_length=1)
    """Column → rule."""

    @classmethod
    def explain_key(cls, key: str, value: Any) -> tuple[str, str] | None:
        kinds = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
        if kind := next((kind for kind in kinds if kind in _EXAMPLES), None):
            return "the rules of columns belong below `columns`", f"write `columns: {{{key}: {_EXAMPLES[kind]}}}`"
        return None


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
        return [name for name, rule in self.config.columns.items() if rule.applies_to(table)]

    def tables(self) -> Collection[str]:
        return [*super().tables(), *(table for rule in self.config.columns.values() for table in rule.only_in)]

    def rules(self) -> Mapping[str, str]:
        config, limits = self.config, ""
        for word, limit in {
            "in": ", ".join(config.only_tables),
            "not in": ", ".join(config.excluded_tables),
            "when": config.when,
        }.items():
            limits += f" {word} {limit}" if limit else ""
        return {
            name.lower(): (f"{rule} in {', '.join(rule.only_in)}" if rule.only_in else str(rule)) + limits
            for name, rule in config.columns.items()
        }

    def warnings(self) -> Iterable[str]:
        for name, rule in self.config.columns.items():
            if rule.secret and len(rule.secret.get_secret_value()) < SECRET_CHARACTERS:
                yield (
                    f"the {'key' if rule.hmac_sha256 else 'salt'} of {name!r} has fewer than {SECRET_CHARACTERS} characters: "
                    "it can be guessed from the digests, and with it the values"
                )

    def hides(self, changes: Changes) -> Mapping[str, str]:
        found = self._find_columns(changes)
        statements = [".".join(path) for path in _find_statements(changes)] if found else []
        rules = {column: str(self.config.columns[name]) for column, name in found.items()}
        return rules | dict.fromkeys(statements, "nullify")

    def apply(self, changes: Changes) -> Changes:
        session, keys = changes.frame.sparkSession, changes.key_columns
        rules: dict[str, MaskRule] = {}
        for column, name in self._find_columns(changes).items():
            rule = self.config.columns[name]
            if column in keys and not rule.keeps_apart:
                if changes.table is not None or not rule.only_in:
                    raise DataError(
                        f"{column!r} is part of the key, and this mask would merge rows",
                        fix="mask it with sha256, sha512 or hmac_sha256",
                    )
                # The table is unknown. Without the key, the record becomes a dead letter.
                rules[name] = MaskRule(nullify=True)
            rules.setdefault(name, rule)
        self._reject_derived(changes)
        if not rules:
            return changes
        types = {fold_name(column): kind for column, kind in row_types(changes).items()}
        values = {
            name: _mask_with_type(name, rule, types[fold_name(name)], session)
            if rule.empty or rule.keep_type
            else _mask_column(rule, session)
            for name, rule in rules.items()
        }
        return _nullify_statements(changes.map_rows(values=values))

    def _reject_derived(self, changes: Changes) -> None:
        """Raise DataError for a column that was computed from a masked column, and is not masked itself."""
        masked = {fold_name(name): name for name in self.reads_in(changes.table)}
        masked |= {fold_name(".".join(path)): ".".join(path) for path in _find_statements(changes)} if masked else {}
        own = set(self._find_columns(changes))
        for column, reads in changes.derived.items():
            found = next((masked[name] for name in sorted(map(fold_name, reads)) if name in masked), None)
            if found and column not in own and column in changes.row_columns:
                raise DataError(
                    f"the column {column!r} is computed from {found!r}, which is masked only later",
                    fix=f"put `mask` before the transform that computes it, or mask {column!r} as well",
                )

    def _find_columns(self, changes: Changes) -> dict[str, str]:
        """Return the rule's name for each column of the row or key. DataError if a table lacks a column of ``only_in``."""
        wanted = self.reads_in(changes.table)
        found = changes.find_columns(wanted)
        for name in wanted:
            if changes.table and self.config.columns[name].only_in and name not in found.values():
                raise DataError(
                    f"the table {changes.table} has no column {name!r}, which `only_in` requires",
                    fix=did_you_mean(name, changes.row_columns),
                )
        return found


def _find_statements(changes: Changes) -> list[tuple[str, ...]]:
    """Return the columns, or fields in them, that hold SQL: a masked value may be anywhere in it."""
    schema, found = changes.frame.schema, list[tuple[str, ...]]()
    for column in changes.event_columns:
        path = changes.origins.get(column) or ((column,) if changes.envelope else ())
        if path == ("source",):
            fields = getattr(schema[column].dataType, "names", ())
            found += [(column, name) for name in fields if name.lower() in STATEMENTS]
        elif len(path) == 2 and path[0] == "source" and path[1].lower() in STATEMENTS:
            found.append((column,))
    return found


def _nullify_statements(changes: Changes) -> Changes:
    from pyspark.sql import functions as F

    frame = changes.frame
    for column, *fields in _find_statements(changes):
        data_type = frame.schema[column].dataType
        masked = F.col(quote_name(column))
        for name in fields:
            null = F.lit(None).cast(data_type[name].dataType)  # type: ignore[index]
            masked = masked.withField(quote_name(name), null)
        frame = frame.withColumn(column, masked if fields else F.lit(None).cast(data_type))
    return replace(changes, frame=frame)


def _mask_column(rule: MaskRule, session: SparkSession) -> Callable[[Column], Column]:
    """Return the function that masks a column."""
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
    if rule.hmac_sha256:
        return _hmac_sha256(rule.hmac_sha256.key.get_secret_value(), session)
    bits, config = (256, rule.sha256) if rule.sha256 else (512, rule.sha512)
    assert config is not None
    salt = secret_literal(session, config.salt.get_secret_value())
    return lambda value: F.sha2(F.concat(salt, value.cast("string")), bits)


def _mask_with_type(name: str, rule: MaskRule, kind: DataType, session: SparkSession) -> Callable[[Column], Column]:
    """Return the function that replaces a value by another one of its type. DataError if the type has no such value."""
    from pyspark.sql import functions as F

    text = _EMPTY.get(kind.typeName())
    if rule.replacement is not None:
        text = "'" + rule.replacement.replace("\\", "\\\\").replace("'", "\\'") + "'"
        is_valid = session.sql(f"SELECT TRY_CAST({text} AS {kind.simpleString()}) IS NOT NULL").first()
        text = text if is_valid and is_valid[0] else None
    if text is None:
        what = "replacement" if rule.replacement is not None else "empty value"
        raise DataError(
            f"the column {name!r} is {kind.simpleString()}, for which there is no such {what}",
            fix="use another rule, such as `nullify: true`",
        )
    value = F.expr(f"CAST({text} AS {kind.simpleString()})")
    return lambda column: F.when(column.isNotNull(), value)


def _hmac_sha256(key: str, session: SparkSession) -> Callable[[Column], Column]:
    """Return HMAC as two hashes. The key's two pads are computed here, and no plan contains them."""
    from pyspark.sql import functions as F

    block = key.encode()
    block = (hashlib.sha256(block).digest() if len(block) > _BLOCK else block).ljust(_BLOCK, b"\0")
    inner, outer = (F.unhex(secret_literal(session, bytes(byte ^ pad for byte in block).hex())) for pad in (0x36, 0x5C))

    def mask(value: Column) -> Column:
        digest = F.sha2(F.concat(inner, value.cast("string").cast("binary")), 256)
        return F.sha2(F.concat(outer, F.unhex(digest)), 256)

    return mask
