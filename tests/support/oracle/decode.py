"""Decoder of a pack's bytes: JSON without schemas, JSON with schemas, and Avro files. It uses ``json`` and ``fastavro`` only.

Decoded values are plain: see ``plain``.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import fastavro
from tests.support.oracle.encode import File, Message

Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the local time of a database
#: Python normalizes to 28 digits by default.
_DIGITS = Context(prec=60)
_LONG = range(-(2**63), 2**63)
#: Field of envelopes, or of records of AWS DMS, to their row images.
_IMAGES = {"source": ("before", "after"), "metadata": ("data",)}
_INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


class Misfit(Exception):  # noqa: N818 - not an error of the test
    """A value that does not fit its column."""


class Misread(dict[str, Any]):
    """Object of JSON with a schema that it does not fit. It may still name its table."""


@dataclass
class Raw:
    """Decoded record. ``place``: its order among the records of the source; ``error``: the reject reason.

    ``misread``: the object of a record that does not fit its schema.
    """

    topic: str
    partition: int
    offset: int
    place: tuple[Any, ...]
    value: Any
    key: Row | None = None
    error: str | None = None
    misread: Misread | None = None

    def __post_init__(self) -> None:
        if isinstance(self.value, Misread):
            self.misread, self.value = self.value, None

    @property
    def is_tombstone(self) -> bool:
        return self.value is None and self.error is None


class Number(float):
    """Number of JSON with a point or an exponent, and its text."""

    text: str

    @classmethod
    def parse(cls, text: str) -> Number:
        number = cls(text)
        number.text = text
        return number


@dataclass
class Types:
    """Types of JSON without schemas, by table. They are inferred from the data; later batches only add fields."""

    known: dict[str, Any] = field(default_factory=dict)

    def fit(self, table: str, columns: Mapping[str, Any], records: Iterable[Raw], *, reads_before: bool = True) -> None:
        """Infer the types of a table's batch and convert its records. A record with a value that does not fit is undecodable.

        A record with a field whose name differs from a known one by case has the reason ``field-name``. ``columns``: precision
        and scale of the columns that a rule declares as decimals; ``reads_before``: values of the row before a change must fit, too.
        """
        found = []
        for record in (record for record in records if record.value is not None):
            try:
                _expect_characters(record.value)
            except Misfit:
                record.value, record.error = None, "undecodable"
            else:
                found.append(record)
        kind = None
        for record in found:
            kind = _merge(kind, infer(record.value))
        known = self.known.get(table)
        respelled = set(_list_respelled(known, kind))
        kind = self.known[table] = _declare(_extend(known, kind), columns)
        for record in found:
            names = set(_list_names(record.value))
            try:
                record.value = conform(kind, record.value if reads_before else _drop_before_misfits(kind, record.value))
            except Misfit:
                record.value, record.error = None, "undecodable"
            else:
                record.error = "field-name" if names & respelled else None


def read_files(files: Iterable[File]) -> Iterator[Raw]:
    """Yield the records of files."""
    for file in files:
        for row, (value, error) in enumerate(_read_avro(file) if file.format == "avro" else _read_lines(file)):
            place = (file.offset, row, file.partition)
            yield Raw(file.topic, file.partition, file.offset + row, place, value, error=error)


def read_messages(messages: Iterable[Message], style: str, schemas: Mapping[int, Any]) -> Iterator[Raw]:
    """Yield the records of a broker. ``schemas``: those of the registry, by id."""

    def read(body: bytes | None) -> tuple[Any, str | None]:
        if body is None:
            return None, None
        return _read_framed(body, schemas) if style == "avro" else _read_line(body, style)

    for message in messages:
        # Keys that are plain strings identify no row.
        has_key = message.key is not None and message.key.startswith((b"{", b"\0"))
        (value, error), (key, key_error) = read(message.value), read(message.key) if has_key else (None, None)
        place = (message.offset, message.partition)
        yield Raw(message.topic, message.partition, message.offset, place, value, key, error or key_error)


def plain(value: Any) -> Any:
    """Return a value in a form that compares by type and value: fields that are null are left out."""
    match value:
        case dict():
            result: Any = {name: plain(inner) for name, inner in value.items() if inner is not None}
        case list() | tuple():
            result = [plain(item) for item in value]
        case Decimal():
            result = f"decimal {value.normalize(_DIGITS):f}" if value else "decimal 0"
        case float():
            result = f"float {value!r}" if value else "float 0.0"
        case bytes() | bytearray():
            result = f"bytes {value.hex()}"
        case datetime():
            local = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            result = f"time {local.isoformat()}"
        case date():
            result = f"date {value.isoformat()}"
        case _:
            result = value
    return result


# JSON without schemas.


def infer(value: Any) -> Any:
    """Return the kind of a JSON value; None for null."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Number):
        # A range is searched number by number for a float.
        is_long = isinstance(value, int) and value in _LONG
        return "long" if is_long else "double" if is_double(value) else None
    if isinstance(value, dict):
        return {name: kind for name, inner in value.items() if (kind := infer(inner)) is not None}
    if isinstance(value, list):
        kind = None
        for item in value:
            kind = _merge(kind, infer(item))
        return None if kind is None else [kind]
    return {float: "double", str: "string"}.get(type(value))


def is_double(number: float) -> bool:
    """Return whether a number of JSON is in the range of a double."""
    return abs(number) <= sys.float_info.max


def conform(kind: Any, value: Any) -> Any:
    """Return a value of a column; Misfit if it does not fit."""
    if value is None or kind is None:
        return None
    match kind:
        case dict():
            return {name: conform(kind[name], inner) for name, inner in _expect(value, dict).items() if name in kind}
        case list():
            return [conform(kind[0], item) for item in _expect(value, list)]
        case tuple():
            return _to_decimal(value, *kind)
        case _:
            return _to_scalar(kind, value)


def _drop_before_misfits(kind: Any, event: Any) -> Any:
    """Return an event without the values of the row before the change that do not fit."""
    if "source" not in event or not isinstance(event.get("before"), dict):
        return event

    def fits(name: str, value: Any) -> bool:
        try:
            conform(kind["before"].get(name), value)
        except Misfit:
            return False
        return True

    return {**event, "before": {name: value for name, value in event["before"].items() if fits(name, value)}}


def _to_scalar(kind: str, value: Any) -> Any:
    if kind == "string":
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "double" and is_number:
        return float(_expect_double(value))
    if infer(value) != kind:
        raise Misfit
    return value


def _expect_double(value: Any) -> Any:
    # Infinity that is no number of JSON is a plain float.
    if isinstance(value, int | Number) and not is_double(value):
        raise Misfit
    return value


def _expect_characters(value: Any) -> None:
    """Raise Misfit for half of a surrogate pair, which is no character."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Misfit from error


def _to_decimal(value: Any, precision: int, scale: int) -> Decimal:
    try:
        number = Decimal(value.text if isinstance(value, Number) else value)
    except (InvalidOperation, TypeError, ValueError) as error:
        raise Misfit from error
    _, digits, exponent = number.as_tuple()
    if isinstance(value, bool) or not isinstance(exponent, int) or -exponent > scale:
        raise Misfit
    if number and len(digits) + exponent > precision - scale:
        raise Misfit
    return number


def _declare(kind: Any, columns: Mapping[str, Any]) -> Any:
    """Return the kind of a table's records with the declared columns, in a flat row or in the row images."""
    if not columns or not isinstance(kind, dict):
        return kind
    declared = {name: tuple(digits) for name, digits in columns.items()}
    # Columns of a flat row may have the names of row images.
    images = [name for mark, names in _IMAGES.items() if mark in kind for name in names]
    if not images:
        return {**kind, **declared}
    return {**kind, **{name: {**kind[name], **declared} for name in images if isinstance(kind.get(name), dict)}}


def _merge(one: Any, other: Any) -> Any:
    """Return the kind of a column with values of two kinds."""
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: _merge(one.get(name), other.get(name)) for name in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0], other[0])]
    return "double" if {str(one), str(other)} == {"long", "double"} else "string"


def _extend(known: Any, new: Any) -> Any:
    """Return a known kind with the fields that only the new one has, in any case."""
    if known is None:
        return new
    if isinstance(known, dict) and isinstance(new, dict):
        respelled = set(_list_respelled(known, new, deep=False))
        added = {name: inner for name, inner in new.items() if name not in respelled}
        return {**known, **{name: _extend(known.get(name), inner) for name, inner in added.items()}}
    if isinstance(known, list) and isinstance(new, list):
        return [_extend(known[0], new[0])]
    return known


def _list_respelled(known: Any, new: Any, *, deep: bool = True) -> Iterator[str]:
    """Yield the names of a new kind that differ from a known name of the same struct only by case."""
    if isinstance(known, list) and isinstance(new, list):
        yield from _list_respelled(known[0], new[0])
    if not isinstance(known, dict) or not isinstance(new, dict):
        return
    folded = {name.lower() for name in known}
    for name, inner in new.items():
        if name not in known and name.lower() in folded:
            yield name
        elif deep:
            yield from _list_respelled(known.get(name), inner)


def _list_names(value: Any) -> Iterator[str]:
    """Yield the names of all fields, including those that are null."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield name
        yield from _list_names(inner)
    for item in value if isinstance(value, list) else ():
        yield from _list_names(item)


def _read_lines(file: File) -> Iterator[tuple[Any, str | None]]:
    for line in file.body.split(b"\n"):
        if line.strip():
            yield _read_line(line, file.format)


def _read_line(line: bytes, style: str) -> tuple[Any, str | None]:
    payload = None
    try:
        body = _expect(json.loads(line.decode(), parse_float=Number.parse), dict)
        if style == "json":
            return body, None
        payload = body.get("payload")
        _expect_characters(payload)
        return read_connect(_expect(body.get("schema"), dict), payload), None
    except (ValueError, Misfit):
        return Misread(payload) if isinstance(payload, dict) else None, "undecodable"


# JSON with schemas.


def read_connect(schema: Row, value: Any) -> Any:
    """Return a value of the JSON converter's embedded schema."""
    if value is None:
        return None
    match schema["type"]:
        case "struct":
            _expect(value, dict)
            return {inner["field"]: read_connect(inner, value.get(inner["field"])) for inner in schema["fields"]}
        case "array":
            return [read_connect(schema["items"], item) for item in _expect(value, list)]
        case "map":
            return {key: read_connect(schema["values"], item) for key, item in _expect(value, dict).items()}
        case kind:
            return _meaning(schema.get("name"), schema.get("parameters", {}), _read_scalar(kind, value))


def _read_scalar(kind: str, value: Any) -> Any:
    if kind == "bytes":
        try:
            return base64.b64decode(_expect(value, str), validate=True)
        except binascii.Error as error:
            raise Misfit from error
    if kind in _INTEGERS:
        limit = 2 ** _INTEGERS[kind]
        if infer(value) != "long" or not -limit <= value < limit:
            raise Misfit
        return value
    if kind in ("float", "double"):
        _expect_double(value)
        return float(_expect(value, int if infer(value) == "long" else float))
    return _expect(value, bool if kind == "boolean" else str)


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise Misfit
    return value


def _meaning(name: str | None, parameters: Row, value: Any) -> Any:
    """Return a value with the meaning that Kafka Connect's name gives it."""
    if name == "org.apache.kafka.connect.data.Decimal":
        if isinstance(value, bytes):
            number = int.from_bytes(value, "big", signed=True)
            digits = tuple(map(int, str(abs(number))))
            value = Decimal((int(number < 0), digits, -int(parameters["scale"])))
        if len(value.as_tuple().digits) > int(parameters.get("connect.decimal.precision", 38)):
            raise Misfit
        return value
    if name == "io.debezium.time.Date":
        return _EPOCH.date() + timedelta(days=value)
    if name == "io.debezium.time.MicroTimestamp":
        return _EPOCH + timedelta(microseconds=value)
    if name == "io.debezium.time.ZonedTimestamp":
        try:
            return datetime.fromisoformat(value)
        except ValueError as error:
            raise Misfit from error
    return value


# Avro files.


def _read_avro(file: File) -> Iterator[tuple[Any, str | None]]:
    reader = fastavro.reader(io.BytesIO(file.body))
    schema: Any = reader.writer_schema
    for datum in reader:
        try:
            yield read_avro(schema, datum, {}), None
        except Misfit:
            yield None, "undecodable"


def _read_framed(body: bytes, schemas: Mapping[int, Any]) -> tuple[Any, str | None]:
    schema = schemas[int.from_bytes(body[1:5], "big")]
    datum: Any = fastavro.schemaless_reader(io.BytesIO(body[5:]), fastavro.parse_schema(schema), None)
    try:
        return read_avro(schema, datum, {}), None
    except Misfit:
        return None, "undecodable"


def read_avro(schema: Any, datum: Any, names: dict[str, Any]) -> Any:
    """Return a value of an Avro schema. ``names``: the records that the schema has defined."""
    if isinstance(schema, list):
        return _read_union([branch for branch in schema if branch != "null"], datum, names)
    if isinstance(schema, str):
        return read_avro(names[schema], datum, names) if schema in names else datum
    kind = schema["type"]
    if kind == "record":
        return _read_record(schema, datum, names)
    if datum is None or kind not in ("array", "map"):
        return (
            None if datum is None else _meaning(schema.get("connect.name"), schema.get("connect.parameters", {}), datum)
        )
    inner = schema["items" if kind == "array" else "values"]
    is_map = isinstance(datum, dict)
    return (
        {k: read_avro(inner, v, names) for k, v in datum.items()}
        if is_map
        else [read_avro(inner, v, names) for v in datum]
    )


def _read_record(schema: Any, datum: Any, names: dict[str, Any]) -> Any:
    """Return a record. One that is null defines the names in its schema as well."""
    names[schema["name"]] = schema
    found = {
        field["name"]: read_avro(field["type"], (datum or {}).get(field["name"]), names) for field in schema["fields"]
    }
    return None if datum is None else found


def _read_union(branches: list[Any], datum: Any, names: dict[str, Any]) -> Any:
    if len(branches) == 1:
        return read_avro(branches[0], datum, names)
    if datum is None:
        return None
    # Spark's form of a union: a struct with one field per branch.
    classes = {"int": int, "long": int, "string": str, "boolean": bool, "double": float, "float": float, "bytes": bytes}
    for number, branch in enumerate(branches):
        if type(datum) is classes.get(branch if isinstance(branch, str) else branch["type"], dict):
            return {f"member{number}": read_avro(branch, datum, names)}
    raise Misfit
