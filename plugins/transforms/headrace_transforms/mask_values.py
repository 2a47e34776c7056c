"""Masks of values, as Column expressions."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import TYPE_CHECKING

from headrace.sdk import DataError
from headrace.sdk.columns import secret_literal
from headrace_transforms.mask_ranges import keep_parts, mask_bucket, mask_date, mask_ip
from headrace_transforms.mask_rules import MaskRule
from headrace_transforms.mask_tokens import compute_hmac, make_token
from headrace_transforms.utc_values import to_text
from headrace_transforms.value_mask import UnsupportedTypeError, ValueMask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

#: Block size of SHA-256 in bytes, to which HMAC pads its key.
_BLOCK = 64
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


def make_mask(
    name: str, rule: MaskRule, kind: DataType, session: SparkSession, secrets: Sequence[Column] | None = None
) -> ValueMask:
    """Return the mask of a column. DataError if the rule does not take the column's type. ``secrets``: columns of its secret."""
    if (constant := _find_constant(name, rule, kind, session)) is not None:
        return _mask_alike(rule, constant)
    try:
        secrets = make_secrets(rule, session) if secrets is None else secrets
        return _mask_part(rule, kind, secrets) or ValueMask(_mask_column(rule, kind, secrets))
    except UnsupportedTypeError as error:
        raise DataError(
            f"the column {name!r} is {kind.simpleString()}, and the mask `{rule.kind}` takes {error.args[0]}",
            fix="use another rule, or convert the column with `cast` before",
        ) from None


def _mask_part(rule: MaskRule, kind: DataType, secrets: Sequence[Column]) -> ValueMask | None:
    """Return a mask that depends on the column's type, or keeps a part of the value."""
    if rule.token is not None:
        return make_token(rule.token.shape, secrets, kind)
    if rule.partial is not None:
        return keep_parts(rule.partial, kind)
    if rule.date_trunc is not None:
        return mask_date(rule.date_trunc, kind)
    if rule.bucket is not None:
        return mask_bucket(Decimal(str(rule.bucket)), kind)
    return mask_ip(rule.ip_network, kind) if rule.ip_network is not None else None


def _find_constant(name: str, rule: MaskRule, kind: DataType, session: SparkSession) -> Column | None:
    """Return the value that a mask writes in place of every value that is not null; None if it depends on the value."""
    from pyspark.sql import functions as F

    if rule.empty or rule.keep_type:
        return _find_value_of_type(name, rule, kind, session)
    if rule.characters is not None:
        return F.lit("*" * rule.characters)
    if rule.replacement is not None:
        return F.lit(rule.replacement)
    return F.lit(None).cast(kind) if rule.nullify else None


def _mask_alike(rule: MaskRule, constant: Column) -> ValueMask:
    """Return the mask that replaces every value by a constant; with ``characters`` also null."""
    from pyspark.sql import functions as F

    if rule.characters is not None:
        return ValueMask(lambda _: constant, constant=constant)
    if rule.nullify:  # The images of an envelope may have different types.
        return ValueMask(lambda value: F.when(F.lit(False), value), constant=constant)
    return ValueMask(lambda value: F.when(value.isNotNull(), constant), constant=constant)


def _mask_column(rule: MaskRule, kind: DataType, secrets: Sequence[Column]) -> Callable[[Column], Column]:
    """Return the function that masks a column."""
    from pyspark.sql import functions as F

    if rule.truncate is not None:
        length = rule.truncate
        return lambda value: F.substring(to_text(value, kind), 1, length)
    if rule.hmac_sha256:
        return lambda value: compute_hmac(to_text(value, kind), secrets)
    (salt,), bits = secrets, 256 if rule.sha256 else 512
    return lambda value: F.sha2(F.concat(salt, to_text(value, kind)), bits)


def _find_value_of_type(name: str, rule: MaskRule, kind: DataType, session: SparkSession) -> Column:
    """Return the rule's replacement, or the empty value, as a value of the column's type. DataError if there is none."""
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
    return F.expr(f"CAST({text} AS {kind.simpleString()})")


def make_secrets(rule: MaskRule, session: SparkSession) -> tuple[Column, ...]:
    """Return the salt, or the pads of the key, of a rule; empty without a secret."""
    if rule.secret is None:
        return ()
    secret = rule.secret.get_secret_value()
    is_salt = rule.sha256 or rule.sha512
    return (secret_literal(session, secret),) if is_salt else _make_pads(secret, session)


def _make_pads(key: str, session: SparkSession) -> tuple[Column, Column]:
    """Return the key's two pads of HMAC. They are computed here, and no plan contains them."""
    from pyspark.sql import functions as F

    block = key.encode()
    block = (hashlib.sha256(block).digest() if len(block) > _BLOCK else block).ljust(_BLOCK, b"\0")
    inner, outer = (F.unhex(secret_literal(session, bytes(byte ^ pad for byte in block).hex())) for pad in (0x36, 0x5C))
    return inner, outer
