"""Masks that keep a part of a value: some characters, a month, a range of numbers, a network."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from headrace_transforms.mask_rules import NetworkConfig, PartialConfig
from headrace_transforms.utc_values import find_utc_date, find_utc_start, to_text
from headrace_transforms.value_mask import UnsupportedTypeError, ValueMask

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

#: Type → precision and scale of the decimals with which buckets are computed.
_DECIMALS = {
    "byte": (3, 0),
    "short": (5, 0),
    "integer": (10, 0),
    "long": (19, 0),
    **dict.fromkeys(("float", "double", "string"), (28, 10)),
}
#: Digits of the width of a bucket.
_STEP_DIGITS = 28
#: Largest integer of a type.
_LARGEST = {"byte": 2**7 - 1, "short": 2**15 - 1, "integer": 2**31 - 1, "long": 2**63 - 1}
_NUMBER = r"^[+-]?\d{1,17}(\.\d{1,10})?$"
_OCTET = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(\.{_OCTET}){{3}}"
#: ISO 8601: a date, or a timestamp.
_ISO_DATE = r"^\d{4}-\d{2}-\d{2}([T ].*)?$"


def keep_parts(config: PartialConfig, kind: DataType) -> ValueMask:
    """Return the mask that keeps leading and trailing characters. A value without other characters is hidden as a whole."""
    from pyspark.sql import functions as F

    def mask(value: Column) -> Column:
        text, padding = to_text(value, kind), F.lit(config.padding)
        first = F.substring(text, 1, config.prefix)
        last = F.substring(text, -config.suffix, config.suffix) if config.suffix else F.lit("")
        is_long = F.length(text) > config.prefix + config.suffix
        return F.when(text.isNotNull(), F.when(is_long, F.concat(first, padding, last)).otherwise(padding))

    return ValueMask(mask)


def mask_date(unit: str, kind: DataType) -> ValueMask:
    """Return the mask that keeps the month or the year of a date, a timestamp or a string."""
    from pyspark.sql import functions as F

    name = kind.typeName()
    if name == "date":
        return ValueMask(lambda value: F.trunc(value, unit))
    if name == "timestamp_ntz":
        return ValueMask(lambda value: F.trunc(value.cast("date"), unit).cast("timestamp_ntz"))
    if name == "timestamp":
        return ValueMask(lambda value: find_utc_start(F.trunc(find_utc_date(value), unit)))
    if name != "string":
        raise UnsupportedTypeError("dates, timestamps and strings")

    def read_date(value: Column) -> Column:
        # A string that is no date is null in every mode of the session.
        return F.to_date(F.try_to_timestamp(F.substring(value, 1, 10)))

    return ValueMask(
        lambda value: F.trunc(read_date(value), unit).cast("string"),
        lambda value: value.rlike(_ISO_DATE) & read_date(value).isNotNull(),
        "a date in ISO 8601",
    )


def mask_bucket(width: Decimal, kind: DataType) -> ValueMask:
    """Return the mask that replaces a number by the lower bound of its bucket."""
    from pyspark.sql import functions as F

    name, scale = kind.typeName(), max(0, -int(width.normalize().as_tuple().exponent))
    if name not in _DECIMALS and name != "decimal":
        raise UnsupportedTypeError("numbers, and strings with numbers")
    digits, decimals = _DECIMALS.get(name) or _find_digits(kind)
    if scale > decimals:
        raise UnsupportedTypeError(f"numbers with {scale} decimals or more for buckets of {width:f}")
    step = F.lit(f"{width:f}").cast(f"decimal({_STEP_DIGITS},{scale})")
    # The bucket of the smallest number must fit the type.
    with localcontext(prec=76):
        largest = F.lit(f"{_LARGEST.get(name, 10 ** (digits - decimals)) - width:f}").cast(f"decimal(38,{scale})")

    def find_bound(value: Column) -> Column:
        number = value.cast(f"decimal({digits},{decimals})")
        bound = number - F.pmod(number, step)
        return bound.cast(f"decimal(38,{scale})").cast(kind)

    def fits(value: Column) -> Column:
        if name == "string":
            return value.rlike(_NUMBER)
        # A comparison with NaN is false.
        return F.abs(value.cast("decimal(20,0)") if name in _LARGEST else value) <= largest

    return ValueMask(find_bound, fits, "a number that its bucket can hold")


def _find_digits(kind: DataType) -> tuple[int, int]:
    """Return the precision and scale with which Spark computes the buckets of a decimal type exactly."""
    precision, scale = kind.precision, kind.scale  # type: ignore[attr-defined]
    # A difference loses its last decimals if it has too many digits. Bounds have fewer decimals than such a type.
    return (precision if scale > _STEP_DIGITS else min(precision, 36)), scale


def mask_ip(config: NetworkConfig, kind: DataType) -> ValueMask:
    """Return the mask that replaces an IP address by the first address of its network, as RFC 5952 writes it."""
    from pyspark.sql import functions as F

    if kind.typeName() != "string":
        raise UnsupportedTypeError("strings with IP addresses")

    def mask(value: Column) -> Column:
        return F.when(value.contains(":"), _mask_ipv6(value, config.ipv6)).otherwise(_mask_ipv4(value, config.ipv4))

    def fits(value: Column) -> Column:
        return F.when(value.contains(":"), _is_ipv6(value)).otherwise(value.rlike(f"^{_IPV4}$"))

    return ValueMask(mask, fits, "an IP address")


def _mask_ipv4(value: Column, length: int) -> Column:
    from pyspark.sql import functions as F

    parts = F.split(value, r"\.")
    masks = [(0xFFFFFFFF << (32 - length) & 0xFFFFFFFF) >> shift & 0xFF for shift in (24, 16, 8, 0)]
    octets = [parts.getItem(n).cast("int").bitwiseAND(F.lit(mask)).cast("string") for n, mask in enumerate(masks)]
    return F.concat_ws(".", *octets)


def _split_ipv6(value: Column) -> tuple[Column, Column]:
    """Return the groups before and after the two colons. An IPv4 address at the end counts as two groups, of zeros."""
    from pyspark.sql import functions as F

    address = F.regexp_replace(F.lower(F.regexp_replace(value, "%.*$", "")), f":{_IPV4}$", ":0:0")
    halves = F.split(address, "::")

    def list_groups(half: Column) -> Column:
        return F.filter(F.split(F.coalesce(half, F.lit("")), ":"), lambda group: group != "")

    return list_groups(halves.getItem(0)), list_groups(F.when(F.size(halves) > 1, halves.getItem(1)))


def _is_ipv6(value: Column) -> Column:
    from pyspark.sql import functions as F

    head, tail = _split_ipv6(value)
    count = F.size(head) + F.size(tail)
    has_form = value.rlike(
        rf"^(?i)(?!.*::.*::)(?!.*:::)(::|[0-9a-f]{{1,4}}:)[0-9a-f:]*((?<=:){_IPV4}|(?<!(?<!:):))(%.+)?$"
    )
    has_groups = F.forall(F.concat(head, tail), lambda group: group.rlike("^[0-9a-f]{1,4}$"))
    return has_form & has_groups & F.when(value.contains("::"), count < 8).otherwise(count == 8)


def _mask_ipv6(value: Column, length: int) -> Column:
    from pyspark.sql import functions as F

    head, tail = _split_ipv6(value)
    zeros = F.array_repeat(F.lit("0"), F.lit(8) - F.size(head) - F.size(tail))
    groups = F.concat(head, zeros, tail)
    kept = []
    for n in range(-(-length // 16)):
        bits = min(16, length - 16 * n)
        number = F.conv(groups.getItem(n), 16, 10).cast("int").bitwiseAND(F.lit(0xFFFF << (16 - bits) & 0xFFFF))
        kept.append(F.lower(F.hex(number)))
    return F.concat(F.regexp_replace(F.concat_ws(":", *kept), "(^|:)0(:0)*$", ""), F.lit("::"))
