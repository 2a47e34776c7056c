"""Tokens that keep the shape of a value: a keyed permutation of its digits, or a keyed hash of an e-mail address.

The permutation is a Feistel network with HMAC-SHA-256 as its round function. Different digits therefore have different tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_transforms.value_mask import UnsupportedTypeError, ValueMask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    #: The two pads of an HMAC key: inner, outer.
    Pads = Sequence[Column]

#: Rounds of the network, as in FF1 of NIST SP 800-38G.
_ROUNDS = 10
#: Type → number of digits that always fit.
_DIGITS = {"byte": 2, "short": 4, "integer": 9, "long": 18}
#: Country calling codes (ITU-T E.164).
_COUNTRY_CODE = r"^\+(1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|\d{3})"
_FORMS = {
    "digits": (r"^[-0-9 .,:/()+_#]*$", "0,30", "at most 30 digits with separators"),
    "card": (r"^[-0-9 ]*$", "12,19", "a card number of 12 to 19 digits"),
    "phone": (r"^\+?[-0-9 .,/()x#]*$", "4,20", "a phone number of 4 to 20 digits"),
}


def make_token(shape: str, pads: Pads, kind: DataType) -> ValueMask:
    """Return the mask that replaces a value by a token of its shape."""
    from pyspark.sql import functions as F

    name = kind.typeName()
    if shape == "digits" and name in _DIGITS:
        count = _DIGITS[name]
        limit = F.lit(10**count)
        return ValueMask(
            lambda value: _permute_integer(value, pads).cast(kind),
            lambda value: (value < limit) & (value > -limit),
            f"an integer of at most {count} digits",
        )
    if name != "string":
        raise UnsupportedTypeError("strings and integers" if shape == "digits" else "strings")
    if shape == "email":
        return ValueMask(
            lambda value: _tokenize_email(value, pads),
            lambda value: value.rlike(r"^[^@\s]+@[^@\s]+$"),
            "an e-mail address",
        )
    pattern, count_range, takes = _FORMS[shape]
    make = {"digits": _permute_text, "card": _permute_card, "phone": _permute_phone}[shape]
    digits = rf"^(\D*\d){{{count_range}}}\D*$"
    return ValueMask(lambda value: make(value, pads), lambda value: value.rlike(pattern) & value.rlike(digits), takes)


def compute_hmac(text: Column, pads: Pads) -> Column:
    """Return the HMAC-SHA-256 of a string as lowercase hexadecimal digits."""
    from pyspark.sql import functions as F

    digest = F.sha2(F.concat(pads[0], text.cast("binary")), 256)
    return F.sha2(F.concat(pads[1], F.unhex(digest)), 256)


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """Return ``use(value)`` with ``value`` computed once."""
    from pyspark.sql import functions as F

    return F.transform(F.array(value), use).getItem(0)


def _permute(digits: Column, pads: Pads, *, keeps_length: bool = False) -> Column:
    """Return other digits of the same number. ``keeps_length``: the first digit is not 0, and stays so."""
    from pyspark.sql import functions as F

    count = F.length(digits)
    left_count = F.ceil(count / 2).cast("int")
    right_count = (count - left_count).cast("int")
    lowest = F.pow(F.lit(10.0), left_count - 1).cast("long") if keeps_length else F.lit(0).cast("long")
    start = F.struct(
        (_read_number(digits, F.lit(1), left_count) - lowest).alias("left"),
        _read_number(digits, left_count + 1, right_count).alias("right"),
        (F.pow(F.lit(10.0), left_count).cast("long") - lowest).alias("left_size"),
        F.pow(F.lit(10.0), right_count).cast("long").alias("right_size"),
        *[column.alias(name) for name, column in {"count": count, "inner": pads[0], "outer": pads[1]}.items()],
        *[column.alias(name) for name, column in {"lowest": lowest, "l": left_count, "r": right_count}.items()],
    )

    def write(state: Column) -> Column:
        left = _write_digits(state["left"] + state["lowest"], state["l"])
        return F.concat(left, F.when(state["r"] > 0, _write_digits(state["right"], state["r"])).otherwise(""))

    return F.aggregate(F.sequence(F.lit(1), F.lit(_ROUNDS)), start, _run_round, write)


def _run_round(state: Column, number: Column) -> Column:
    """Return the state with one half changed by a hash of the other half."""
    from pyspark.sql import functions as F

    is_left = number % 2 == 1
    source = F.when(is_left, state["right"]).otherwise(state["left"])
    text = F.concat_ws(
        "|", F.lit("digits"), state["count"].cast("string"), number.cast("string"), source.cast("string")
    )
    hashed = F.conv(F.substring(compute_hmac(text, (state["inner"], state["outer"])), 1, 15), 16, 10).cast("long")
    left, right = state["left"], state["right"]
    names = ("left_size", "right_size", "count", "inner", "outer", "lowest", "l", "r")
    return F.struct(
        F.when(is_left, (left + hashed) % state["left_size"]).otherwise(left).alias("left"),
        F.when(is_left, right).otherwise((right + hashed) % state["right_size"]).alias("right"),
        *[state[name].alias(name) for name in names],
    )


def _read_number(digits: Column, start: Column, count: Column) -> Column:
    from pyspark.sql import functions as F

    return F.concat(F.lit("0"), digits.substr(start, count)).cast("long")


def _write_digits(number: Column, count: Column) -> Column:
    """Return a number with leading zeros."""
    from pyspark.sql import functions as F

    return F.right(F.concat(F.lit("0" * 18), number.cast("string")), count)


def _permute_integer(value: Column, pads: Pads) -> Column:
    """Return another integer with the same sign and number of digits. 0 stays 0."""
    from pyspark.sql import functions as F

    token = _permute(F.abs(value).cast("string"), pads, keeps_length=True).cast("long")
    return F.when(value == 0, F.lit(0)).otherwise(F.signum(value).cast("long") * token)


def _permute_text(value: Column, pads: Pads) -> Column:
    """Return a string with other digits and the same other characters."""
    from pyspark.sql import functions as F

    digits = F.regexp_replace(value, r"\D", "")
    pair = F.struct(value.alias("text"), F.when(digits != "", _permute(digits, pads)).otherwise("").alias("digits"))
    return _let(pair, lambda pair: _fill_digits(pair["text"], pair["digits"]))


def _fill_digits(text: Column, digits: Column) -> Column:
    """Return a string with its digits replaced in order."""
    from pyspark.sql import functions as F

    def choose(character: Column, index: Column) -> Column:
        number = F.length(F.regexp_replace(text.substr(F.lit(1), index + 1), r"\D", ""))
        return F.when(character.rlike(r"\d"), digits.substr(number, F.lit(1))).otherwise(character)

    filled = F.array_join(F.transform(F.split(text, ""), choose), "")
    return F.when(F.length(text) == F.length(digits), digits).otherwise(filled)


def _permute_phone(value: Column, pads: Pads) -> Column:
    """Return another phone number in the same country."""
    from pyspark.sql import functions as F

    code = F.regexp_extract(value, _COUNTRY_CODE, 0)
    return F.concat(code, _permute_text(value.substr(F.length(code) + 1, F.length(value)), pads))


def _permute_card(value: Column, pads: Pads) -> Column:
    """Return another card number. Its check digit is right if that of the value is."""
    from pyspark.sql import functions as F

    digits = F.regexp_replace(value, r"\D", "")
    body, check = digits.substr(F.lit(1), F.length(digits) - 1), F.substring(digits, -1, 1).cast("int")

    def write(pair: Column) -> Column:
        token, body = pair["token"], pair["body"]
        digit = F.pmod(_compute_check(token) - _compute_check(body) + pair["check"], F.lit(10))
        return _fill_digits(pair["text"], F.concat(token, digit.cast("int").cast("string")))

    parts = {"text": value, "body": body, "check": check, "token": _permute(body, pads)}
    return _let(F.struct(*[column.alias(name) for name, column in parts.items()]), write)


def _compute_check(digits: Column) -> Column:
    """Return the check digit of Luhn's algorithm (ISO/IEC 7812-1)."""
    from pyspark.sql import functions as F

    def weigh(index: Column) -> Column:
        digit = F.reverse(digits).substr(index, F.lit(1)).cast("int")
        return F.when(index % 2 == 0, digit).otherwise(digit * 2 - F.when(digit > 4, 9).otherwise(0))

    weights = F.transform(F.sequence(F.lit(1), F.length(digits)), weigh)
    return F.pmod(-F.aggregate(weights, F.lit(0), lambda total, weight: total + weight), F.lit(10))


def _tokenize_email(value: Column, pads: Pads) -> Column:
    """Return an address that does not exist. Addresses of one domain have one domain."""
    from pyspark.sql import functions as F

    local = compute_hmac(F.concat(F.lit("email|"), value), pads)
    domain = compute_hmac(F.concat(F.lit("domain|"), F.lower(F.substring_index(value, "@", -1))), pads)
    return F.concat(F.substring(local, 1, 20), F.lit("@"), F.substring(domain, 1, 12), F.lit(".example"))
