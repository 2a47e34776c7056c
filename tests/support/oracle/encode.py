"""Bytes of a pack's records, as connectors and converters write them.

A kind describes the type of a value as JSON: ``"int64"``, ``["decimal", 10, 2]``, ``["array", kind]``, ``["map", kind]``,
``["struct", [[name, kind], ...]]``, ``["union", [kind, ...]]``, or ``["number", 10, 2]`` for a decimal that JSON without schemas
has as a number. Values are JSON as well: a decimal is a string of digits, bytes
are hexadecimal, a ``date`` is a number of days, ``micros`` are microseconds since 1970, and a value of a union is
``[branch, value]``.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro

Kind = Any
Value = Any

#: Kind → type and name in Kafka Connect.
_CONNECT = {
    **{name: (name, None) for name in ("int16", "int32", "int64", "boolean", "string", "bytes")},
    "float32": ("float", None),
    "float64": ("double", None),
    "date": ("int32", "io.debezium.time.Date"),
    "micros": ("int64", "io.debezium.time.MicroTimestamp"),
    "zoned": ("string", "io.debezium.time.ZonedTimestamp"),
}
#: Kafka Connect's types in Avro.
_AVRO = {"int16": "int", "int32": "int", "int64": "long"}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


@dataclass(frozen=True)
class File:
    """File of a topic. ``offset``: the offset of its first record."""

    topic: str
    partition: int
    offset: int
    format: str
    body: bytes

    @property
    def name(self) -> str:
        return f"{self.topic}+{self.partition}+{self.offset:010d}.{'avro' if self.format == 'avro' else 'json'}"


@dataclass(frozen=True)
class Message:
    """Record of a broker. A value of None is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def encode_files(pack: Mapping[str, Any]) -> list[list[File]]:
    """Return the files of each batch. Consecutive records of one topic with the same ``file`` number share a file."""
    offsets: dict[tuple[str, int], int] = {}
    batches: list[list[Any]] = []
    for number in range(len(pack["steps"])):
        files: dict[tuple[str, int, int, str], list[Mapping[str, Any]]] = {}
        for case in pack["cases"]:
            for record in case["batches"][number] if number < len(case["batches"]) else ():
                # An Avro file has one schema.
                kind = json.dumps(case["kinds"][record["kind"]]) if pack["format"] == "avro" else ""
                place = record["topic"], record.get("partition", 0), record.get("file", 0), kind
                files.setdefault(place, []).append({**record, "kind": case["kinds"][record["kind"]]})
        batches.append([])
        for (topic, partition, _, _), records in files.items():
            offset = offsets.get((topic, partition), 0)
            offsets[topic, partition] = offset + len(records)
            body = _avro_file(records) if pack["format"] == "avro" else _lines(records, pack["format"])
            batches[-1].append(File(topic, partition, offset, pack["format"], body))
    return batches


class Schemas(dict[int, Any]):
    """Schemas of a registry by their ids."""

    def frame(self, kind: Kind, value: Value) -> bytes:
        """Return a value as the Avro converter writes it: an id, and the bytes without a schema."""
        schema = avro_schema(kind, {})
        known = [id_ for id_, other in self.items() if other == schema]
        id_ = known[0] if known else len(self) + 1
        self[id_] = schema
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), to_avro(kind, value))
        return b"\0" + id_.to_bytes(4, "big") + buffer.getvalue()


def encode_messages(pack: Mapping[str, Any]) -> tuple[list[list[Message]], Schemas]:
    """Return the messages of each batch, and the schemas of the registry."""
    offsets: dict[tuple[str, int], int] = {}
    batches: list[list[Message]] = []
    schemas = Schemas()

    def write(kind: Kind, record: Mapping[str, Any]) -> bytes | None:
        if record["value"] is None:
            return None
        is_avro = pack["format"] == "avro" and "bytes" not in record
        return schemas.frame(kind, record["value"]) if is_avro else _line({**record, "kind": kind}, pack["format"])

    for number in range(len(pack["steps"])):
        batches.append([])
        for case in pack["cases"]:
            for record in case["batches"][number] if number < len(case["batches"]) else ():
                place = record["topic"], record.get("partition", 0)
                offset = offsets.get(place, 0)
                offsets[place] = offset + 1
                key = record.get("key")
                if isinstance(key, str):  # AWS DMS writes plain strings.
                    key = key.encode()
                elif key is not None:
                    key = write(case["kinds"]["key"], {"value": key})
                batches[-1].append(Message(*place, offset, key, write(case["kinds"][record["kind"]], record)))
    return batches, schemas


def to_json(kind: Kind, value: Value) -> Any:
    """Return a value as the JSON converter writes it."""

    def write_union(kinds: list[Kind], value: Value) -> Any:
        return {f"member{i}": to_json(kind, value[1]) if value[0] == i else None for i, kind in enumerate(kinds)}

    return _convert(kind, value, lambda body: base64.b64encode(body).decode(), write_union)


def to_avro(kind: Kind, value: Value) -> Any:
    """Return a value for fastavro."""
    return _convert(kind, value, lambda body: body, lambda kinds, value: to_avro(kinds[value[0]], value[1]))


def _convert(
    kind: Kind, value: Value, write_bytes: Callable[[bytes], Any], write_union: Callable[[list[Kind], Value], Any]
) -> Any:
    """Return a value in a form that differs in bytes and unions only."""
    if value is None:
        return None

    def convert(inner: Kind, item: Value) -> Any:
        return _convert(inner, item, write_bytes, write_union)

    name, *rest = kind if isinstance(kind, list) else [kind]
    match name:
        case "decimal":
            result = write_bytes(_unscaled(value, rest[1]))
        case "bytes":
            result = write_bytes(bytes.fromhex(value))
        case "array":
            result = [convert(rest[0], item) for item in value]
        case "map":
            result = {key: convert(rest[0], item) for key, item in value.items()}
        case "struct":
            result = {field: convert(inner, value.get(field)) for field, inner in rest[0]}
        case "union":
            result = write_union(rest[0], value)
        case _:
            result = value
    return result


def connect_schema(kind: Kind) -> dict[str, Any]:
    """Return the schema that the JSON converter embeds."""
    name, *rest = kind if isinstance(kind, list) else [kind]
    if name == "decimal":
        parameters = {"scale": str(rest[1]), "connect.decimal.precision": str(rest[0])}
        return {"type": "bytes", "optional": True, "name": _DECIMAL, "version": 1, "parameters": parameters}
    if name == "array":
        return {"type": "array", "optional": True, "items": connect_schema(rest[0])}
    if name == "map":
        keys = {"type": "string", "optional": False}
        return {"type": "map", "optional": True, "keys": keys, "values": connect_schema(rest[0])}
    if name == "struct":
        fields = [{**connect_schema(inner), "field": field} for field, inner in rest[0]]
        return {"type": "struct", "optional": True, "fields": fields}
    if name == "union":
        fields = [{**connect_schema(inner), "field": f"member{i}"} for i, inner in enumerate(rest[0])]
        return {"type": "struct", "optional": True, "name": "io.confluent.connect.avro.Union", "fields": fields}
    kind_of, meaning = _CONNECT[name]
    return {"type": kind_of, "optional": True, **({"name": meaning, "version": 1} if meaning else {})}


def avro_schema(kind: Kind, seen: dict[str, str]) -> Any:
    """Return the Avro schema that the Avro converter writes, without null. ``seen``: names of the records before it."""
    name, *rest = kind if isinstance(kind, list) else [kind]
    result: Any
    match name:
        case "decimal":
            logical = {"logicalType": "decimal", "precision": rest[0], "scale": rest[1], "connect.name": _DECIMAL}
            parameters = {"scale": str(rest[1]), "connect.decimal.precision": str(rest[0])}
            result = {"type": "bytes", **logical, "connect.version": 1, "connect.parameters": parameters}
        case "array":
            result = {"type": "array", "items": _optional(rest[0], seen)}
        case "map":
            result = {"type": "map", "values": _optional(rest[0], seen)}
        case "union":
            result = ["null", *(avro_schema(inner, seen) for inner in rest[0])]
        case "struct":
            result = _avro_record(kind, seen)
        case _:
            kind_of, meaning = _CONNECT[name]
            kind_of = _AVRO.get(kind_of, kind_of)
            result = {"type": kind_of, "connect.name": meaning, "connect.version": 1} if meaning else kind_of
    return result


def _avro_record(kind: Kind, seen: dict[str, str]) -> Any:
    """Return the record of a struct, or its name where the schema has it already."""
    text = json.dumps(kind)
    if text in seen:
        return seen[text]
    seen[text] = name = f"R{len(seen)}"
    fields = [{"name": field, "type": _optional(inner, seen), "default": None} for field, inner in kind[1]]
    return {"type": "record", "name": name, "fields": fields}


def _optional(kind: Kind, seen: dict[str, str]) -> Any:
    schema = avro_schema(kind, seen)
    return schema if isinstance(schema, list) else ["null", schema]


def _unscaled(text: str, scale: int) -> bytes:
    # Arithmetic of decimals would round to 28 digits.
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale) * (-1 if sign else 1)
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


def _lines(records: Iterable[Mapping[str, Any]], style: str) -> bytes:
    return b"".join(_line(record, style) + b"\n" for record in records)


def _line(record: Mapping[str, Any], style: str) -> bytes:
    """Return a record as JSON. ``bytes`` of a record replace it; ``raw`` is JSON text by path that replaces values."""
    if "bytes" in record:
        return bytes.fromhex(record["bytes"])
    body = to_json(record["kind"], record["value"])
    texts: dict[str, str] = {}
    for number, (path, text) in enumerate(record.get("raw", ())):
        inner = body
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = mark = f"@raw{number}@"
        texts[mark] = text
    numbers = iter(range(len(texts), 1_000))

    def write_numbers(kind: Kind, value: Value) -> Value:
        """Replace decimals by marks: JSON has their digits, which no number of Python has."""
        if isinstance(value, dict) and kind[0] == "struct":
            return {name: write_numbers(inner, value.get(name)) for name, inner in kind[1]}
        if isinstance(value, str) and isinstance(kind, list) and kind[0] == "number" and value not in texts:
            texts[mark := f"@raw{next(numbers)}@"] = value
            return mark
        return value

    body = write_numbers(record["kind"], body) if style == "json" else body
    body = {"schema": connect_schema(record["kind"]), "payload": body} if style == "json-schema" else body
    line = json.dumps(body, ensure_ascii=False)
    for mark, text in texts.items():
        line = line.replace(f'"{mark}"', text)
    # A lone surrogate stands for a byte that is not UTF-8.
    return line.encode(errors="surrogateescape")


def _avro_file(records: list[Mapping[str, Any]]) -> bytes:
    kind = records[0]["kind"]
    schema, buffer = fastavro.parse_schema(avro_schema(kind, {})), io.BytesIO()
    # The schema names decimals, and fastavro accepts their bytes.
    fastavro.writer(buffer, schema, [to_avro(kind, record["value"]) for record in records])
    return buffer.getvalue()
