"""Where a record says with which schema it is written: in front of it, or in its headers.

===================================  ==========================================================  ===============
written by                           in front, or in a header                                    id here
===================================  ==========================================================  ===============
Confluent, Apicurio 3                ``00``, id in 4 bytes                                       ``7``
Apicurio 2                           ``00``, id in 8 bytes                                       ``7``
Confluent, GUID                      ``01``, GUID in 16 bytes                                    ``guid/…``
Confluent, header                    ``__value_schema_id``: either of Confluent's two            ``7``, ``guid/…``
Apicurio, header                     ``apicurio.value.globalId`` or ``contentId``, 4 or 8 bytes  ``globalId/7``
AWS Glue                             ``03``, ``00`` or (zlib) ``05``, version id in 16 bytes     ``glue/…``
Apicurio, JSON                       ``{"schemaId":7,"payload":`` and ``}`` behind the record    ``globalId/7``
===================================  ==========================================================  ===============

Whether an id has four or eight bytes shows by itself: ids begin at 1 and stay small, so the first four of eight are zero.

Plans compare bytes: what is in front of a record, or a header behind a byte that says which one it is. Only for a frame
that no plan knows they are read, here.
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

#: The id of the one schema there is where nothing stands in front of a record.
BARE = "file"
_CONFLUENT = b"\xff"
#: What stands in the place of a header's name.
_HEADERS = {_CONFLUENT: "__{}_schema_id", b"\xfe": "apicurio.{}.globalId", b"\xfd": "apicurio.{}.contentId"}
#: A text around a record, before and behind the id, and what ends it.
_TEXT, _PAYLOAD, _END = b'{"schemaId":', b',"payload":', b"}"
_NUMBER = "[1-9][0-9]{0,18}"
_TEXT_HEX = f"{_TEXT.hex().upper()}(3[0-9])+{_PAYLOAD.hex().upper()}"
#: Frames as hexadecimal text; what a client put in a header of its own under such a name is none.
_FRAME = f"^(00(.{{8}}|.{{16}})|01.{{32}}|03.{{34}}|FF(00.{{8}}|01.{{32}})|F[DE](.{{8}}|.{{16}})|{_TEXT_HEX})$"
_ID_KINDS = {b"\xfe": "globalId", b"\xfd": "contentId"}


def frame_column(frame: DataFrame, column: str, part: str, *, texts: bool) -> Column:
    """The frame (binary) of each record: empty where there is none, null where there is no record.

    ``part``: ``key`` or ``value``, of whose schema the headers speak. ``texts``: whether a text around it may be one.
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
    # Spark says null where a record has no headers, and that is nearly always.
    return F.when(value.isNotNull(), F.coalesce(F.when(F.col("headers").isNotNull(), F.coalesce(*in_headers)), front))


def is_frame(frame: Column) -> Column:
    """Whether ``frame`` can have an id."""
    from pyspark.sql import functions as F

    return F.hex(frame).rlike(_FRAME)


def has_header_with_id(frame: DataFrame, part: str) -> Column:
    """Whether a record has a header in which an id may be. Debezium gives every record headers of its own."""
    from pyspark.sql import functions as F

    if "headers" not in frame.columns:
        return F.lit(False)
    names = F.col("headers").getField("key")
    has_one = reduce(lambda a, b: a | b, [F.array_contains(names, name.format(part)) for name in _HEADERS.values()])
    return F.when(F.col("headers").isNull(), F.lit(False)).otherwise(F.coalesce(has_one, F.lit(False)))


def front_number(frame: DataFrame, column: str, part: str, known: Sequence[bytes]) -> Column:
    """Which of the known frames (int) is in front of each record; -1 for none of them, null where there is no record.

    Most records have one and no id in their headers, and that is seen with little code. -1 may well be a frame:
    ``frame_number`` knows.
    """
    from pyspark.sql import functions as F

    value = F.col(column)
    if list(known) == [b""]:
        return F.when(value.isNotNull(), 0)
    result = F.lit(-1)
    for i, front in reversed(list(enumerate(known))):
        result = F.when(F.startswith(value, F.lit(front)) & (F.length(value) > len(front)), i).otherwise(result)
    return F.when(value.isNotNull(), F.when(has_header_with_id(frame, part), -1).otherwise(result))


def frame_number(frame: Column, known: Sequence[bytes]) -> Column:
    """Which of the known frames (int) ``frame`` is: -1 for another one, null where there is no record."""
    from pyspark.sql import functions as F

    return F.call_function("array_position", F.array(*map(F.lit, known)), frame).cast("int") - 1


def payload(frame: DataFrame, value: Column, number: Column, known: Sequence[bytes], numbers: Sequence[int]) -> Column:
    """What a record holds behind its frame, whose ``number`` is one of ``numbers``."""
    from pyspark.sql import functions as F

    lengths = {i: 0 if known[i][:1] in _HEADERS else len(known[i]) for i in numbers}
    if not any(lengths.values()):
        return value
    length = F.lit(lengths[numbers[0]])
    length = reduce(lambda rest, i: F.when(number == i, lengths[i]).otherwise(rest), numbers[1:], length)
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
    """The id in a frame; ``id_kind``: which of Apicurio's ids stands in front of records, where one does."""
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
    """All frames in which an id may come: in front, ``in_headers`` and in ``texts``."""
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
