"""Rules of masks: the options of one column."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal

from pydantic import Field, SecretStr, model_validator

from headrace.sdk import Config
from headrace.sdk.transform import TableGlobs

#: Kind of mask → a rule of this kind.
_HASHES = {kind: f'{{{kind}: {{salt: "${{env:SALT}}"}}}}' for kind in ("sha256", "sha512")} | {
    "hmac_sha256": '{hmac_sha256: {key: "${env:KEY}"}}',
}
_PLAIN = {
    "characters": "{characters: 8}",
    "truncate": "{truncate: 3}",
    "replacement": '{replacement: "hidden"}',
    "nullify": "{nullify: true}",
    "empty": "{empty: true}",
    "partial": "{partial: {suffix: 4}}",
    "date_trunc": "{date_trunc: month}",
    "bucket": "{bucket: 10}",
    "ip_network": "{ip_network: {ipv4: 24, ipv6: 48}}",
}
EXAMPLES = {**_HASHES, **_PLAIN, "token": '{token: {format: digits, key: "${env:KEY}"}}'}


class HashConfig(Config):
    """Salted hash: lowercase hexadecimal digest of the salt followed by the value, as in Debezium's column.mask.hash.v2."""

    salt: SecretStr = Field(min_length=1)
    """Precedes every value. Keep it secret: with it, short values can be guessed."""


class KeyConfig(Config):
    """Keyed hash: lowercase hexadecimal HMAC (RFC 2104) of the value, equal to that of other programs with the same key."""

    key: SecretStr = Field(min_length=1)
    """Keep it secret: without it, values cannot be guessed."""


class TokenConfig(KeyConfig):
    """Keyed token with the shape of the value: equal values have equal tokens in every table, also after a restart.

    Who has the key can compute the value of a token of digits.
    """

    shape: Literal["digits", "card", "phone", "email"] = Field(alias="format")
    """``digits``: other digits between the same separators, also for integers. ``card``: the same with the check digit of a card
    number. ``phone``: the same after the country code. ``email``: an address at a domain that ends with ``.example``.
    """


class PartialConfig(Config):
    """Characters that stay visible, with the names of SQL Server's mask ``partial``."""

    prefix: int = Field(0, ge=0)
    """Number of leading characters to keep."""

    padding: str = "****"
    """String instead of the other characters, and of a value that has no others."""

    suffix: int = Field(0, ge=0)
    """Number of trailing characters to keep."""


class NetworkConfig(Config):
    """Bits of an IP address that stay; the others become zero."""

    ipv4: int = Field(24, ge=0, le=31)
    """Length of the network prefix of an IPv4 address."""

    ipv6: int = Field(48, ge=0, le=64)
    """Length of the network prefix of an IPv6 address. An IPv4 address in it is not kept."""


class MaskRule(Config):
    """Mask of one column: exactly one kind, and optionally ``only_in``. Null stays null, except with ``characters``.

    A key column can only be hashed or be a token: any other mask would merge rows.
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

    partial: PartialConfig | None = None
    """Keeps the first or last characters, as SQL Server's mask ``partial``."""

    token: TokenConfig | None = None
    """Token of the same shape."""

    date_trunc: Literal["month", "year"] | None = None
    """First day of the value's month or year, in UTC. The column keeps its type. A string is a date or a timestamp in ISO 8601."""

    bucket: float | None = Field(None, gt=0)
    """Width of buckets: a number becomes the lower bound of its bucket. The column keeps its type."""

    ip_network: NetworkConfig | None = None
    """First address of the IP address's network."""

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

    only_in: TableGlobs = Field((), min_length=1)
    """Tables to which the rule applies: their names after ``tables:``, or globs. Each must have the column.
    Default: every table that has the column.
    """

    KINDS: ClassVar[tuple[str, ...]] = tuple(EXAMPLES)

    @model_validator(mode="before")
    @classmethod
    def _is_mapping(cls, value: Any) -> Any:
        if isinstance(value, str) and value in EXAMPLES:
            raise ValueError(f"{value!r} has no options: write `{EXAMPLES[value]}`")
        for kind, options in value.items() if isinstance(value, dict) else ():
            if options is None and kind in EXAMPLES:
                raise ValueError(f"{kind!r} has no options: write `{EXAMPLES[kind]}`")
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> MaskRule:
        if sum(getattr(self, kind) is not None for kind in self.KINDS) != 1:
            raise ValueError(f"requires exactly one of {', '.join(self.KINDS)}")
        if self.keep_type and self.replacement is None:
            raise ValueError("keep_type belongs to `replacement`")
        return self

    @property
    def kind(self) -> str:
        """Name of its kind."""
        return next(kind for kind in self.KINDS if getattr(self, kind) is not None)

    @property
    def keeps_apart(self) -> bool:
        """Whether different values stay different."""
        return self.kind in (*_HASHES, "token")

    @property
    def secret(self) -> SecretStr | None:
        """Salt or key of a hash or token."""
        salted, keyed = self.sha256 or self.sha512, self.hmac_sha256 or self.token
        return salted.salt if salted else keyed.key if keyed else None

    def __str__(self) -> str:
        """Return the rule without its secret."""
        kind, value = self.kind, getattr(self, self.kind)
        if isinstance(value, Config):
            shown = {name: v for name, v in value if not isinstance(v, SecretStr)}
            text = " ".join([kind, *(f"{'format' if name == 'shape' else name} {v}" for name, v in shown.items())])
        else:
            text = kind if value is True else f"{kind}: {value}"
        return f"{text} with its type" if self.keep_type else text

    def applies_to(self, table: str | None) -> bool:
        """Return whether the rule applies to a table. Every rule applies to a DataFrame without a table (None)."""
        return not self.only_in or table is None or any(fnmatchcase(table, pattern) for pattern in self.only_in)
