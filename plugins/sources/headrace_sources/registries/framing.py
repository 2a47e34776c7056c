"""Ids of writer schemas in records: before the payload, or in headers.

===================================  ==========================================================  ===============
written by                           before the payload, or in a header                           id here
===================================  ==========================================================  ===============
Confluent, Apicurio 3                ``00``, id in 4 bytes                                       ``7``
Apicurio 2                           ``00``, id in 8 bytes                                       ``7``
Confluent, GUID                      ``01``, GUID in 16 bytes                                    ``guid/…``
Confluent, header                    ``__value_schema_id``: either of Confluent's two            ``7``, ``guid/…``
Apicurio, header                     ``apicurio.value.globalId`` or ``contentId``, 4 or 8 bytes  ``globalId/7``
AWS Glue                             ``03``, ``00`` or (zlib) ``05``, version id in 16 bytes     ``glue/…``
Apicurio, JSON                       ``{"schemaId":7,"payload":`` and ``}`` after the record     ``globalId/7``
===================================  ==========================================================  ===============

An id of eight bytes starts with four zeros, because ids start at 1 and stay small. This distinguishes it from four bytes.

Plans compare frames as bytes: those before the payload, or a header after a byte that identifies it. This module parses only
frames that a plan does not know.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.sdk.events import header_value
from headrace_sources.registries.zlib import inflate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

#: Id of the single schema of records without ids.
BARE = "file"
_CONFLUENT = b"\xff"
#: Bytes that replace a header's name.
_HEADERS = {_CONFLUENT: "__{}_schema_id", b"\xfe": "apicurio.{}.globalId", b"\xfd": "apicurio.{}.contentId"}
#: JSON around a record: before the id, after the id, and after the record.
_TEXT, _PAYLOAD, _END = b'{"schemaId":', b',"payload":', b"}"
_NUMBER = "[1-9][0-9]{0,18}"
_TEXT_HEX = f"{_TEXT.hex().upper()}(3[0-9])+{_PAYLOAD.hex().upper()}"
#: Frames in hexadecimal. Other values in headers of these names are not frames.
_FRAME = f"^(00(.{{8}}|.{{16}})|01.{{32}}|03.{{34}}|FF(00.{{8}}|01.{{32}})|F[DE](.{{8}}|.{{16}})|{_TEXT_HEX})$"
_ID_KINDS = {b"\xfe": "globalId", b"\xfd": "contentId"}


def frame_column(frame: DataFrame, column: str, part: str, *, texts: bool) -> Column:
    """Return the frame (binary) of each record: empty if it has none, null for a null record.

    ``part``: ``key`` or ``value``, whose headers are read. ``texts``: whether JSON around the record may be a frame.
    """
    from pyspark.sql import functions as F

    value = F.col(column)
    magic, length = value.substr(1, 1), F.length(value)
    long = value.substr(2, 4) == F.lit(bytes(4))
    start = (
        F.when(magic == F.lit(b"\0"), F.when(long, F.when(length > 9, 9)).when(length > 5, 5))
        .when(magic == F.lit(b"\1"), F.when(length > 17, 17))
        .when(magic == F.lit(b"\3"), F.when((length > 18) & value.substr(2, 1).isin(F.lit(b"\0"), F.lit(b"\5")), 18))
    )
    front = value.substr(F.lit(1), F.coalesce(start, F.lit(0)))
    if texts:
        text = F.regexp_extract(value.cast("string"), rf"(?s)^(\{_TEXT.decode()}{_NUMBER}{_PAYLOAD.decode()}).", 1)
        front = F.when(F.startswith(value, F.lit(_TEXT)), text.cast("binary")).otherwise(front)
    if "headers" not in frame.columns:
        return front
    in_headers = [F.concat(F.lit(byte), header_value(name.format(part))) for byte, name in _HEADERS.items()]
    # Spark returns null for a record without headers, which is the usual case.
    return F.when(value.isNotNull(), F.coalesce(F.when(F.col("headers").isNotNull(), F.coalesce(*in_headers)), front))


def is_frame(frame: Column) -> Column:
    """Return whether ``frame`` can have an id."""
    from pyspark.sql import functions as F

    return F.hex(frame).rlike(_FRAME)


def has_header_with_id(frame: DataFrame, part: str) -> Column:
    """Return whether a record has a header that may contain an id. Debezium adds other headers to every record."""
    from pyspark.sql import functions as F

    if "headers" not in frame.columns:
        return F.lit(False)
    names = F.col("headers").getField("key")
    has_one = reduce(lambda a, b: a | b, [F.array_contains(names, name.format(part)) for name in _HEADERS.values()])
    return F.when(F.col("headers").isNull(), F.lit(False)).otherwise(F.coalesce(has_one, F.lit(False)))


def front_number(frame: DataFrame, column: str, part: str, known: Sequence[bytes]) -> Column:
    """Return the number of the known frame before each payload; -1 for an unknown one, null for a null record.

    Most records have a frame and no id in their headers, which needs little generated code. -1 may still be a frame, which
    ``frame_number`` finds.
    """
    from pyspark.sql import functions as F

    value = F.col(column)
    if list(known) == [b""]:
        return F.when(value.isNotNull(), 0)
    # One expression with many branches. Nested expressions would overflow Java's stack.
    result = F.when(has_header_with_id(frame, part), -1)
    for i, front in enumerate(known):
        result = result.when(F.startswith(value, F.lit(front)) & (F.length(value) > len(front)), i)
    return F.when(value.isNotNull(), result.otherwise(-1))


def frame_number(frame: Column, known: Sequence[bytes]) -> Column:
    """Return the number of ``frame`` among the known frames: -1 for an unknown one, null for a null record."""
    from pyspark.sql import functions as F

    return F.call_function("array_position", F.array(*map(F.lit, known)), frame).cast("int") - 1


def payload(frame: DataFrame, value: Column, number: Column, known: Sequence[bytes], numbers: Sequence[int]) -> Column:
    """Return the payload after a record's frame, whose ``number`` is one of ``numbers``."""
    from pyspark.sql import functions as F

    lengths = {i: 0 if known[i][:1] in _HEADERS else len(known[i]) for i in numbers}
    if not any(lengths.values()):
        return value
    length = F.lit(lengths[numbers[0]])
    for other in sorted(set(lengths.values()) - {lengths[numbers[0]]}):
        length = F.when(number.isin([i for i in numbers if lengths[i] == other]), other).otherwise(length)
    body = value.substr(length + 1, F.length(value))
    in_text = [i for i in numbers if known[i].startswith(_TEXT)]
    if in_text:
        inside = F.when(F.endswith(body, F.lit(_END)), body.substr(F.lit(1), F.length(body) - len(_END)))
        body = F.when(number.isin(in_text), inside).otherwise(body)
    packed = [i for i in numbers if known[i][:2] == b"\3\5"]
    if not packed:
        return body
    is_packed = number.isin(packed)
    return F.when(is_packed, inflate(frame.sparkSession, F.when(is_packed, body))).otherwise(body)


def parse_id(frame: bytes, id_kind: str) -> str:
    """Return the id in a frame; ``id_kind``: kind of the ids before payloads, if Apicurio wrote them."""
    magic, rest = frame[:1], frame[1:]
    if magic == _CONFLUENT:
        return parse_id(rest, "")
    if magic in _ID_KINDS:
        return f"{_ID_KINDS[magic]}/{int.from_bytes(rest, 'big')}"
    if magic == b"\0":
        return f"{id_kind}/{int.from_bytes(rest, 'big')}".lstrip("/")
    if frame.startswith(_TEXT):
        return f"globalId/{int(frame[len(_TEXT) : -len(_PAYLOAD)])}"
    return f"guid/{UUID(bytes=rest)}" if magic == b"\1" else f"glue/{UUID(bytes=rest[1:])}"


def make_frames(id_: str, id_kind: str, *, in_headers: bool, texts: bool) -> list[bytes]:
    """Return all frames of an id: before the payload, ``in_headers`` and in ``texts``."""
    frames = [frame for frame in _make_binary_frames(id_, id_kind) if in_headers or frame[:1] not in _HEADERS]
    kind, _, number = id_.rpartition("/")
    return [*frames, _TEXT + number.encode() + _PAYLOAD] if texts and kind == "globalId" else frames


def _make_binary_frames(id_: str, id_kind: str) -> list[bytes]:
    if id_ == BARE:
        return [b""]
    kind, _, text = id_.rpartition("/")
    if kind == "glue":
        return [b"\3" + compression + UUID(text).bytes for compression in (b"\0", b"\5")]
    if kind == "guid":
        front = [b"\1" + UUID(text).bytes]
        return [*front, _CONFLUENT + front[0]]
    number = int(text)
    numbers = [number.to_bytes(size, "big") for size in (4, 8) if number < 256**size]
    front = [b"\0" + bytes_ for bytes_ in numbers] if kind == id_kind else []
    if not kind:
        return [*front, _CONFLUENT + b"\0" + numbers[0]]
    return [*front, *[byte + bytes_ for byte, name in _ID_KINDS.items() if name == kind for bytes_ in numbers]]
