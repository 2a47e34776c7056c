"""The types of Kafka Connect and Debezium: a value on the wire, in a table, and the way from the one to the other.

A conversion always changes the Spark type. So where a type is the same in both, nothing is to be done, and nothing is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
_NUMERIC = "decimal.format=NUMERIC"
_EXACT = "a decimal of JSON"
_PRECISION = "connect.decimal.precision"
#: Spark's widest decimal.
_WIDEST = 38


@dataclass(frozen=True)
class Wire:
    """A schema as a tree: a leaf has a ``kind``, the Spark type that its bytes are parsed with; the others have children.

    Connect's name and parameters say what the value means.
    """

    kind: DataType | None = None
    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Wire] | None = None
    element: Wire | None = None
    #: Of a map, whose keys are text.
    value: Wire | None = None


def of_connect(schema: Any) -> Wire:
    """The tree of a schema block as Kafka Connect's JsonConverter writes it."""
    from pyspark.sql.types import StringType

    try:
        kind: str = schema["type"]
        about = {"name": schema.get("name"), "parameters": schema.get("parameters") or {}}
        if kind == "struct":
            return Wire(fields={item["field"]: of_connect(item) for item in schema.get("fields") or ()}, **about)
        if kind == "array":
            return Wire(element=of_connect(schema["items"]), **about)
        if kind == "map":
            # Keys of another type make it a list of pairs, which has no Spark type: it stays the text that it is.
            texts = schema["keys"].get("type") == "string"
            return Wire(value=of_connect(schema["values"]), **about) if texts else Wire(StringType())
        return Wire(_leaves()[kind], **about)
    except (AttributeError, KeyError, TypeError):
        raise DataError(
            f"this is no schema of Kafka Connect: {_short(schema)}",
            fix="write the records with org.apache.kafka.connect.json.JsonConverter",
        ) from None


def of_name(name: str) -> Wire:
    """The leaf of a name alone, where one plain value is its wire. LookupError for any other name."""
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType

    wires: dict[str, DataType] = {kind.typeName(): kind for kind in (IntegerType(), LongType(), StringType())}
    wires["binary"] = BinaryType()
    return Wire(wires[_meanings()[name].wire], name=name)


def of_type(kind: DataType) -> Wire:
    """The tree of a Spark type, for JSON."""
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        return Wire(fields={field.name: of_type(field.dataType) for field in kind})
    if isinstance(kind, T.ArrayType):
        return Wire(element=of_type(kind.elementType))
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        return Wire(value=of_type(kind.valueType))
    if isinstance(kind, T.DecimalType) and kind.precision < _WIDEST:
        return Wire(
            _roomy(kind.precision, kind.scale), _EXACT, {"scale": str(kind.scale), _PRECISION: str(kind.precision)}
        )
    return Wire(kind)


def of_avro(text: str) -> Wire:
    """The tree of an Avro schema as Confluent's and Apicurio's converters write it, as ``avro_reader`` has it read."""
    return _of_avro(json.loads(text), "", {})


def avro_reader(text: str) -> str:
    """The same Avro schema for Spark's ``from_avro``: without the logical types that are converted here.

    Decimals stay Avro's where Spark has room for them: reading them is quickest there.
    """
    return json.dumps(_reader(json.loads(text)), ensure_ascii=False)


def numeric(tree: Wire) -> Wire | None:
    """The tree of JSON that was written with ``decimal.format=NUMERIC``; None when there is no decimal in it."""
    found = False

    def decimals(leaf: Wire) -> Wire:
        nonlocal found
        if leaf.name != DECIMAL or _meaning(leaf) is None or not 0 <= _scale(leaf) <= _WIDEST:
            return leaf
        found = True
        return replace(leaf, kind=_roomy(min(_precision(leaf), _WIDEST), _scale(leaf)), name=_NUMERIC)

    changed = _mapped(tree, decimals)
    return changed if found else None


def united(first: Wire, second: Wire) -> Wire | None:
    """A tree by which records of both can be parsed; None when a field is something else in the other."""
    if first == second:
        return first
    if first.fields is not None and second.fields is not None and first.name == second.name:
        fields = dict(first.fields)
        for name, theirs in second.fields.items():
            both = united(fields[name], theirs) if name in fields else theirs
            if both is None:
                return None
            fields[name] = both
        return replace(first, fields=fields)
    return None


def restricted(tree: Wire, wanted: DataType) -> Wire:
    """The part of the tree that ``wanted`` has too."""
    from pyspark.sql.types import StructType

    if tree.fields is None or not isinstance(wanted, StructType):
        return tree
    fields = {f.name: restricted(tree.fields[f.name], f.dataType) for f in wanted if f.name in tree.fields}
    return replace(tree, fields=fields)


def wire_type(tree: Wire) -> DataType:
    """The Spark type to parse with."""
    return tree.kind or _nested(tree, wire_type)


def table_type(tree: Wire) -> DataType:
    """The Spark type in a table."""
    meaning = _meaning(tree)
    if meaning is not None:
        return meaning.table(tree)
    return tree.kind or _nested(tree, table_type)


def converted(
    column: Column, tree: Wire, into: DataType | None = None, *, parts: Mapping[str, Column] | None = None
) -> Column:
    """A parsed value as a table has it: of type ``into``, which may be wider and have fields that the tree lacks.

    A value that the table's type cannot hold is null; ``lost`` tells. ``parts``: fields of a struct that are columns of
    their own already. For sessions that are not ANSI's.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    into = into or table_type(tree)
    if into == wire_type(tree):
        return column
    meaning = _meaning(tree)
    if meaning is not None:
        result = meaning.column(column, tree)
        return result if meaning.table(tree) == into else result.cast(into)
    if tree.fields is not None and isinstance(into, StructType):
        cells = [_cell(column, tree.fields, item.name, item.dataType, parts).alias(item.name) for item in into]
        return F.when(column.isNotNull(), F.struct(*cells))
    if tree.element is not None and isinstance(into, ArrayType):
        element, inner = tree.element, into.elementType
        return F.transform(column, lambda item: converted(item, element, inner))
    if tree.value is not None and isinstance(into, MapType):
        value, inner = tree.value, into.valueType
        return F.transform_values(column, lambda _, item: converted(item, value, inner))
    return column.cast(into)


def lost(column: Column, result: Column, tree: Wire, parts: Mapping[str, Column] | None = None) -> Column | None:
    """Whether some value of ``column`` is null in ``result`` because the table's type cannot hold it.

    None when that cannot be. ``result`` is what ``converted`` made of it, and has every field of the tree.
    """
    from pyspark.sql import functions as F

    meaning = _meaning(tree)
    if meaning is not None:
        return column.isNotNull() & result.isNull() if meaning.may_fail else None
    if tree.fields is not None:
        checks = [lost(_part(column, name, parts), result.getField(name), inner) for name, inner in tree.fields.items()]
        found = [check for check in checks if check is not None]
        return reduce(lambda a, b: a | b, found) if found else None
    inner = tree.element or tree.value
    if inner is None or lost(column, result, inner) is None:
        return None
    if tree.value is not None:
        column, result = F.map_values(column), F.map_values(result)
    each = F.zip_with(column, result, lambda a, b: _never_none(lost(a, b, inner)))
    return F.coalesce(F.exists(each, lambda item: item), F.lit(False))


def once(column: Column) -> Column:
    """The column as a step of its own: a filter above is not written out in terms of what it is made from.

    Spark would do that once for every mention, and parse each time; with steps above steps such a plan has no end.
    """
    from pyspark.sql import functions as F

    return F.when(F.spark_partition_id() >= 0, column)


def _cell(
    column: Column, fields: Mapping[str, Wire], name: str, kind: DataType, parts: Mapping[str, Column] | None
) -> Column:
    from pyspark.sql import functions as F

    return converted(_part(column, name, parts), fields[name], kind) if name in fields else F.lit(None).cast(kind)


def _part(column: Column, name: str, parts: Mapping[str, Column] | None) -> Column:
    return parts[name] if parts and name in parts else column.getField(name)


def _never_none(column: Column | None) -> Column:
    assert column is not None
    return column


def _nested(tree: Wire, of: Callable[[Wire], DataType]) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    if tree.fields is not None:
        return StructType([StructField(name, of(inner)) for name, inner in tree.fields.items()])
    if tree.element is not None:
        return ArrayType(of(tree.element))
    assert tree.value is not None, "a tree without a kind has children"
    return MapType(StringType(), of(tree.value))


def _mapped(tree: Wire, change: Callable[[Wire], Wire]) -> Wire:
    """The tree with all its leaves changed."""
    if tree.fields is not None:
        return replace(tree, fields={name: _mapped(inner, change) for name, inner in tree.fields.items()})
    if tree.element is not None:
        return replace(tree, element=_mapped(tree.element, change))
    if tree.value is not None:
        return replace(tree, value=_mapped(tree.value, change))
    return change(tree)


# What the names mean.


@dataclass(frozen=True)
class _Meaning:
    """What becomes of values of a name, where they are ``wire`` on the wire."""

    wire: str
    table: Callable[[Wire], DataType]
    column: Callable[[Column, Wire], Column]
    may_fail: bool = True


def _meaning(tree: Wire) -> _Meaning | None:
    meaning = _meanings().get(tree.name) if tree.name else None
    # A name over another type than its own is somebody else's name: the value stays as it is.
    return meaning if meaning is not None and meaning.wire == _wire_name(tree) else None


def _wire_name(tree: Wire) -> str:
    return tree.kind.typeName() if tree.kind is not None else "struct" if tree.fields is not None else ""


@cache
def _meanings() -> dict[str, _Meaning]:
    from pyspark.sql import types as T

    def fixed(kind: DataType) -> Callable[[Wire], DataType]:
        return lambda tree: kind

    def cast(wire: str, kind: DataType) -> _Meaning:
        return _Meaning(wire, fixed(kind), lambda column, tree: column.cast(kind), may_fail=False)

    wall = fixed(T.TimestampNTZType())
    day = _Meaning("integer", fixed(T.DateType()), lambda c, tree: _date(c))
    millis = _Meaning("long", wall, lambda c, tree: _wall_clock(c, 1000, _INFINITE_MILLIS))
    micros = _Meaning("long", wall, lambda c, tree: _wall_clock(c, 1, _INFINITE_MICROS), may_fail=False)
    nanos = _Meaning("long", wall, lambda c, tree: _wall_clock_of_nanos(c), may_fail=False)
    time = cast("integer", T.LongType())
    debezium, connect = "io.debezium.time.", "org.apache.kafka.connect.data."
    return {
        f"{debezium}Date": day,
        f"{connect}Date": day,
        f"{debezium}Time": time,
        f"{connect}Time": time,
        f"{debezium}Timestamp": millis,
        f"{connect}Timestamp": millis,
        f"{debezium}MicroTimestamp": micros,
        f"{debezium}NanoTimestamp": nanos,
        f"{debezium}ZonedTimestamp": _Meaning("string", fixed(T.TimestampType()), lambda c, tree: _text_time(c)),
        f"{debezium}IsoTimestamp": _Meaning("string", wall, lambda c, tree: _text_time(c, "timestamp_ntz")),
        f"{debezium}IsoDate": _Meaning("string", fixed(T.DateType()), lambda c, tree: _text_date(c)),
        DECIMAL: _Meaning("binary", _decimal_type, _decimal),
        _NUMERIC: _Meaning("decimal", _decimal_type, _written_decimal),
        _EXACT: _Meaning("decimal", _decimal_type, _exact_decimal),
        VARIABLE_DECIMAL: _Meaning("struct", fixed(T.StringType()), _variable_decimal),
        # What Avro converters add to an int that was a smaller one.
        "int8": cast("integer", T.ByteType()),
        "int16": cast("integer", T.ShortType()),
    }


# Times. Java's calendar and Spark's are the same one, so years before 1582 and before our era need no rebasing.

#: What PostgreSQL's infinity becomes. It means "not ended", "always", and compares so in every engine; those that
#: tables are read with stop at the years 1 and 9999.
_LAST, _FIRST = "9999-12-31 00:00:00", "0001-01-01 00:00:00"
#: Infinity and its opposite as Debezium sends them: its driver's count, which no unit changes, the same in milliseconds,
#: and what is left of it in 64 bits of nanoseconds.
_COUNT = 9223372036825200000, -9223372036832400000
_INFINITE_MILLIS = (9223372036825200, _COUNT[0]), (-9223372036832400, _COUNT[1])
_INFINITE_MICROS = (_COUNT[0],), (_COUNT[1],)
_INFINITE_NANOS = (2**63 - 1,), (-(2**63),)
#: Of dates the stream sends one number and the snapshot another; both have gone beyond 32 bits and come back.
_INFINITE_DAYS = (-2147472692, -622191234), (-2147472691, -625821272)
_INFINITE_DAY_TEXTS = ("-5877611-06-21Z", "+292278994-08-16Z"), ("-5877611-06-22Z", "+292269055-12-02Z")
_INFINITE_TEXTS = (
    ("infinity", "+294247-01-10T04:00:25.2Z", "+292278994-"),
    ("-infinity", "-290308-12-21T19:59:27.6Z", "-292275055-"),
)
#: The first and the last day that a database knows, which are PostgreSQL's: 4714-11-24 BC and 5874897-12-31.
_FIRST_DAY, _LAST_DAY = -2440588, 2145042905

_Infinite = tuple[tuple[Any, ...], tuple[Any, ...]]


def _moment(text: str, kind: str) -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"TIMESTAMP'{text} UTC'" if kind == "timestamp" else f"TIMESTAMP_NTZ'{text}'")


def _ends(kind: str) -> tuple[Column, Column]:
    from pyspark.sql import functions as F

    if kind == "date":
        return F.expr(f"DATE'{_LAST[:10]}'"), F.expr(f"DATE'{_FIRST[:10]}'")
    return _moment(_LAST, kind), _moment(_FIRST, kind)


def _date(days: Column) -> Column:
    from pyspark.sql import functions as F

    real = F.when(days.between(_FIRST_DAY, _LAST_DAY), F.date_from_unix_date(days))
    last, first = _ends("date")
    return F.coalesce(real, F.when(days.isin(*_INFINITE_DAYS[0]), last).when(days.isin(*_INFINITE_DAYS[1]), first))


def _wall_clock(number: Column, micros: int, infinite: _Infinite) -> Column:
    """A count of so many microseconds each since 1970, as a time without a zone."""
    from pyspark.sql import functions as F

    # An interval times a number: unlike a cast from TIMESTAMP, it asks no session for its zone.
    unit = F.expr(f"INTERVAL '{Decimal(micros).scaleb(-6):f}' SECOND")
    time = F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'") + unit * number
    if micros > 1:  # a product beyond 64 bits would be an error
        most = (2**63 - 1) // micros
        time = F.when(number.between(-most, most), time)
    last, first = _ends("timestamp_ntz")
    # Spark has no `case` for both: the two that are rare come last.
    ordinary = number.between(infinite[1][0] + 1, infinite[0][0] - 1)
    rare = F.when(number.isin(*infinite[0]), last).when(number.isin(*infinite[1]), first).otherwise(time)
    return F.when(ordinary, time).otherwise(rare)


def _wall_clock_of_nanos(number: Column) -> Column:
    from pyspark.sql import functions as F

    # Towards the past, as for every other number: `div` goes towards zero.
    micros = F.call_function("div", number, F.lit(1000)) - F.when(number % 1000 < 0, 1).otherwise(0)
    last, first = _ends("timestamp_ntz")
    infinite = F.when(number == _INFINITE_NANOS[0][0], last).when(number == _INFINITE_NANOS[1][0], first)
    return F.coalesce(infinite, _wall_clock(micros, 1, _INFINITE_MICROS))


def _text_time(text: Column, kind: str = "timestamp") -> Column:
    from pyspark.sql import functions as F

    # Before the cast: Spark knows years of six digits.
    plus, minus = (reduce(lambda a, b: a | b, map(text.startswith, signs)) for signs in _INFINITE_TEXTS)
    last, first = _ends(kind)
    return F.when(plus, last).when(minus, first).otherwise(text.cast(kind))


def _text_date(text: Column) -> Column:
    from pyspark.sql import functions as F

    plus, minus = (text.isin(*signs) for signs in _INFINITE_DAY_TEXTS)
    last, first = _ends("date")
    return F.when(plus, last).when(minus, first).otherwise(F.substring_index(text, "Z", 1).cast("date"))


# Decimals: the bytes of a whole number, two's complement, the highest first.


def _scale(tree: Wire) -> int:
    return int(tree.parameters.get("scale") or 0)


def _precision(tree: Wire) -> int:
    # Unsaid for money and the like, which have fewer digits than Spark has room for.
    return max(int(tree.parameters.get(_PRECISION) or _WIDEST), _scale(tree))


def _decimal_type(tree: Wire) -> DataType:
    from pyspark.sql.types import DecimalType, StringType

    fits = _precision(tree) <= _WIDEST and _scale(tree) >= 0
    return DecimalType(_precision(tree), _scale(tree)) if fits else StringType()


def _decimal(number: Column, tree: Wire) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType, StringType

    kind, scale = _decimal_type(tree), _scale(tree)
    if isinstance(kind, StringType):
        return _let(number, lambda number: _plain(number, F.lit(scale)))
    assert isinstance(kind, DecimalType)
    wide = _let(
        number,
        lambda number: F.concat(_sign(number), _magnitude(number).cast("string"), F.lit(f"E-{scale}")).cast(kind),
    )
    wide = F.when(F.length(number).between(1, 16), wide)
    # Most fit 64 bits, and then it costs a sixth. Beyond 18 places the product would be rounded.
    if scale > 18:
        return wide
    digits = F.hex(number)
    padded = F.when(digits >= F.lit("8"), F.lpad(digits, 16, "F")).otherwise(F.lpad(digits, 16, "0"))
    short = F.conv(padded, 16, -10).cast("bigint").cast("decimal(19,0)")
    if scale:
        short = short * F.lit(Decimal(1).scaleb(-scale))
    return F.when(F.length(number).between(1, 8), short.cast(kind)).otherwise(wide)


def _roomy(precision: int, scale: int) -> DataType:
    """What decimals of JSON are parsed with: all the places there is room for, as Spark rounds what has more."""
    from pyspark.sql.types import DecimalType

    return DecimalType(_WIDEST, _WIDEST - precision + scale)


def _written_decimal(number: Column, tree: Wire) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType

    if isinstance(_decimal_type(tree), DecimalType):
        return _exact_decimal(number, tree)
    # Spark's own cast to text writes small ones with an exponent.
    return F.translate(F.format_number(number, max(_scale(tree), 0)), ",", "")


def _exact_decimal(number: Column, tree: Wire) -> Column:
    from pyspark.sql import functions as F

    fitting = number.cast(_decimal_type(tree))
    return F.when(fitting == number, fitting)


def _variable_decimal(pair: Column, _: Wire) -> Column:
    return _let(pair, lambda pair: _plain(pair.getField("value"), pair.getField("scale")))


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """``use(value)`` with the value written and counted once: expressions grow as fast as they repeat."""
    from pyspark.sql import functions as F

    return F.transform(F.array(value), use).getItem(0)


def _plain(number: Column, scale: Column) -> Column:
    """All digits as text, without an exponent."""
    from pyspark.sql import functions as F

    zero, none = F.lit("0"), F.lit(0)
    magnitude = F.when(F.length(number) <= 15, _magnitude(number).cast("string")).otherwise(_many(number))
    places = F.greatest(scale, none)

    def dotted(digits: Column) -> Column:
        start = F.length(digits) - places
        text = F.concat(digits.substr(F.lit(1), start), F.lit("."), digits.substr(start + 1, places))
        return F.when(places > 0, text).otherwise(digits)

    def filled(digits: Column) -> Column:
        # A scale below 0 counts zeros at the end.
        behind = F.when(digits == zero, none).otherwise(F.greatest(-scale, none))
        before = F.greatest(places + 1 - F.length(digits), none)
        return F.concat(_repeat(zero, before), digits, _repeat(zero, behind))

    text = _let(_let(magnitude, filled), dotted)
    return F.when(F.length(number) > 0, F.concat(_sign(number), text))


def _negative(number: Column) -> Column:
    from pyspark.sql import functions as F

    return F.hex(number) >= F.lit("8")


def _sign(number: Column) -> Column:
    """Put in front as text: Spark 4.0 rounds a decimal that it negates to 34 digits."""
    from pyspark.sql import functions as F

    return F.when(_negative(number), "-").otherwise("")


def _magnitude(number: Column) -> Column:
    """The number without its sign, of up to 16 bytes, as DECIMAL(38,0); null when it has more digits."""
    from pyspark.sql import functions as F

    def sum_(digits: Column) -> Column:
        high = F.conv(F.substring(digits, 1, 16), 16, 10).cast("decimal(19,0)")
        low = F.conv(F.substring(digits, 17, 16), 16, 10).cast("decimal(20,0)")
        return high * F.lit(Decimal(2**64)) + low

    return _let(F.lpad(_positive_digits(number), 32, "0"), sum_) + _borrowed(number)


def _positive_digits(number: Column) -> Column:
    """Hexadecimal digits of the number, or of -1 minus it, whichever is not negative."""
    from pyspark.sql import functions as F

    digits = F.hex(number)
    return F.when(_negative(number), F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")).otherwise(digits)


def _borrowed(number: Column) -> Column:
    """What ``_positive_digits`` lack."""
    from pyspark.sql import functions as F

    return F.when(_negative(number), 1).otherwise(0)


#: Numbers beyond DECIMAL(38) are counted in groups of 18 digits, the lowest first; 14 hexadecimal digits come in a time.
_GROUP, _TAKEN = 18, 14


def _many(number: Column) -> Column:
    """The digits of a number of any length, without its sign."""
    from pyspark.sql import functions as F

    kind = f"decimal({_GROUP},0)"

    def groups(digits: Column) -> Column:
        steps = F.ceil(F.length(digits) / F.lit(_TAKEN)).cast("int")
        padded = F.concat(_repeat(F.lit("0"), steps * _TAKEN - F.length(digits)), digits)
        parts = _let(
            padded,
            lambda padded: F.transform(
                F.sequence(F.lit(0), steps - 1),
                lambda i: F.conv(padded.substr(i * _TAKEN + 1, F.lit(_TAKEN)), 16, 10).cast(kind),
            ),
        )
        nothing = F.array(F.lit(0).cast(kind))
        return F.aggregate(parts, nothing, lambda groups, part: _times_plus(groups, 16**_TAKEN, part))

    counted = _times_plus(_let(_positive_digits(number), groups), 1, _borrowed(number).cast(kind))
    texts = F.transform(counted, lambda group: F.lpad(group.cast("string"), _GROUP, "0"))
    return F.regexp_replace(F.concat_ws("", F.reverse(texts)), "^0+(?=.)", "")


def _times_plus(groups: Column, factor: int, addend: Column) -> Column:
    """``groups`` times a factor and plus an addend, both less than a group holds."""
    from pyspark.sql import functions as F

    kind = f"decimal({_GROUP},0)"
    full = F.lit(Decimal(10**_GROUP))

    def step(done: Column, group: Column) -> Column:
        def divided(sum_: Column) -> Column:
            digits = F.concat(done.getField("groups"), F.array((sum_ % full).cast(kind)))
            return F.struct(digits.alias("groups"), F.call_function("div", sum_, full).cast(kind).alias("carry"))

        return _let(group * F.lit(Decimal(factor)) + done.getField("carry"), divided)

    def finished(done: Column) -> Column:
        carry = done.getField("carry")
        return F.when(carry > 0, F.concat(done.getField("groups"), F.array(carry))).otherwise(done.getField("groups"))

    start = F.struct(F.array().cast(f"array<{kind}>").alias("groups"), addend.alias("carry"))
    return F.aggregate(groups, start, step, finished)


def _repeat(text: Column, times: Column) -> Column:
    from pyspark.sql import functions as F

    return F.call_function("repeat", text, times)


# Schemas.


@cache
def _leaves() -> dict[str, DataType]:
    """Connect's types without children."""
    from pyspark.sql import types as T

    return {
        "int8": T.ByteType(),
        "int16": T.ShortType(),
        "int32": T.IntegerType(),
        "int64": T.LongType(),
        "float": T.FloatType(),
        "float32": T.FloatType(),
        "double": T.DoubleType(),
        "float64": T.DoubleType(),
        "boolean": T.BooleanType(),
        "string": T.StringType(),
        "bytes": T.BinaryType(),
    }


@cache
def _avro_leaves() -> dict[str, DataType]:
    from pyspark.sql import types as T

    return {
        "null": T.NullType(),
        "int": T.IntegerType(),
        "long": T.LongType(),
        "float": T.FloatType(),
        "double": T.DoubleType(),
        "boolean": T.BooleanType(),
        "string": T.StringType(),
        "bytes": T.BinaryType(),
        "enum": T.StringType(),
        "fixed": T.BinaryType(),
    }


#: A record that is not read to its end yet.
_OPEN = Wire()


def _of_avro(schema: Any, namespace: str, known: dict[str, Wire]) -> Wire:
    if isinstance(schema, list):
        return _of_union(schema, namespace, known)
    if isinstance(schema, str):
        return Wire(_avro_leaves()[schema]) if schema in _avro_leaves() else _named(schema, namespace, known)
    kind, name = schema["type"], schema.get("connect.name")
    if kind == "array":
        return Wire(element=_of_avro(schema["items"], namespace, known), name=name)
    if kind == "map":
        return Wire(value=_of_avro(schema["values"], namespace, known), name=name)
    full = _full_name(schema.get("name", ""), schema.get("namespace", namespace))
    if kind in ("record", "error", "enum", "fixed") and full in known:
        fix = "give one of them another name, or a namespace, where the events are made"
        raise DataError(f"the Avro schema has two types called {full!r}", fix=fix)
    if kind in ("record", "error"):
        known[full] = _OPEN
        space = full.rpartition(".")[0]
        fields = {item["name"]: _of_avro(item["type"], space, known) for item in schema["fields"]}
        known[full] = Wire(fields=fields, name=name, parameters=schema.get("connect.parameters") or {})
    elif isinstance(kind, str) and kind in _avro_leaves():
        known[full] = _avro_leaf(schema)
    else:
        return _of_avro(kind, namespace, known)
    return known[full]


def _named(name: str, namespace: str, known: Mapping[str, Wire]) -> Wire:
    found = known.get(_full_name(name, namespace))
    if found is None:
        fix = "give the schema together with those that it refers to"
        raise DataError(f"the Avro schema speaks of {name!r}, which is not in it", fix=fix)
    if found is _OPEN:
        fix = "leave the topic out, or the field where the events are made"
        raise DataError(f"the Avro schema has a {name!r} inside a {name!r}, which no table can hold", fix=fix)
    return found


def _of_union(members: list[Any], namespace: str, known: dict[str, Wire]) -> Wire:
    """What Spark reads for a union: the one type that is not null, a wider number, else a struct of all."""
    from pyspark.sql import types as T

    trees = [_of_avro(member, namespace, known) for member in members if member != "null"]
    if len(trees) == 1:
        return trees[0]
    kinds = {type(tree.kind) for tree in trees}
    for pair, wide in (({T.IntegerType, T.LongType}, T.LongType()), ({T.FloatType, T.DoubleType}, T.DoubleType())):
        if kinds == pair:
            return Wire(wide)
    return Wire(fields={f"member{i}": tree for i, tree in enumerate(trees)})


def _avro_leaf(schema: Mapping[str, Any]) -> Wire:
    from pyspark.sql import types as T

    name, logical = schema.get("connect.name"), _kept_logical(schema)
    parameters = {key: str(value) for key, value in (schema.get("connect.parameters") or {}).items()}
    if logical == "decimal":
        return Wire(T.DecimalType(min(int(schema["precision"]), _WIDEST), int(schema.get("scale", 0))))
    if schema.get("logicalType") == "decimal":
        scale, precision = str(schema.get("scale", 0)), str(schema["precision"])
        return Wire(T.BinaryType(), DECIMAL, {"scale": scale, _PRECISION: precision, **parameters})
    kind = _avro_logicals().get(logical) if logical else None
    if kind is not None:
        return Wire(kind)
    return Wire(_avro_leaves()[schema["type"]], name or schema.get("connect.type"), parameters)


@cache
def _avro_logicals() -> dict[str, DataType]:
    """The logical types that Spark reads by itself."""
    from pyspark.sql import types as T

    instant, wall = T.TimestampType(), T.TimestampNTZType()
    return {
        "date": T.DateType(),
        "timestamp-millis": instant,
        "timestamp-micros": instant,
        "local-timestamp-millis": wall,
        "local-timestamp-micros": wall,
    }


def _kept_logical(schema: Mapping[str, Any]) -> str | None:
    """The logical type that Spark is to read by itself."""
    logical: str | None = schema.get("logicalType")
    if logical == "decimal":
        said = (schema.get("connect.parameters") or {}).get(_PRECISION)
        # A converter that is not told the precision writes 64.
        unsaid = said is None and schema.get("connect.name") == DECIMAL
        precision = _WIDEST if unsaid else int(said or schema["precision"])
        return logical if precision <= _WIDEST and 0 <= int(schema.get("scale", 0)) <= precision else None
    # By Connect's name it is a wall clock's time, and by Avro's an instant. Of a day it may be infinite.
    return None if str(schema.get("connect.name", "")).endswith((".Timestamp", ".Date")) else logical


def _reader(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_reader(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "name" not in schema and isinstance(schema.get("type"), dict | list):
        # A schema around a schema: Avro's libraries in other languages take it, and Java's does not.
        return _reader(schema["type"])
    # Only what Avro itself reads: a default or a name may look like a schema, and stays as it is.
    result = {key: _reader(value) if key in {"type", "items", "values"} else value for key, value in schema.items()}
    if "fields" in schema:
        result["fields"] = [_reader(item) for item in schema["fields"]]
    if "logicalType" in schema:
        if _kept_logical(schema) is None:
            del result["logicalType"]
        elif schema["logicalType"] == "decimal":
            result["precision"] = min(int(schema["precision"]), _WIDEST)
    return result


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "…"
