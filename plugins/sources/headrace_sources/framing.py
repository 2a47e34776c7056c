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
===================================  ==========================================================  ===============

Whether an id has four or eight bytes shows by itself: ids begin at 1 and stay small, so the first four of eight are zero.

Plans compare bytes: what is in front of a record, or a header behind a byte that says which one it is. Only for a frame
that no plan knows they are read, here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from headrace_sources.inflate import inflated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

#: The id of the one schema there is where nothing stands in front of a record.
BARE = "file"
_CONFLUENT = b"\xff"
#: What stands in the place of a header's name.
_HEADERS = {_CONFLUENT: "__{}_schema_id", b"\xfe": "apicurio.{}.globalId", b"\xfd": "apicurio.{}.contentId"}
#: Frames as hexadecimal text; what a client put in a header of its own under such a name is none.
_FRAME = "^(00(.{8}|.{16})|01.{32}|03.{34}|FF(00.{8}|01.{32})|F[DE](.{8}|.{16}))$"
_KINDS = {b"\xfe": "globalId", b"\xfd": "contentId"}


def frame_of(frame: DataFrame, column: str, part: str) -> Column:
    """The frame (binary) of each record: empty where there is none, null where there is no record.

    ``part``: ``key`` or ``value``, of whose schema the headers speak.
    """
    from pyspark.sql import functions as F

    value = F.col(column)
    magic, length = value.substr(1, 1), F.length(value)
    long = (value.substr(2, 4) == F.lit(bytes(4))) & (length > 9)
    start = (
        F.when(magic == F.lit(b"\0"), F.when(long, 9).when(length > 5, 5))
        .when(magic == F.lit(b"\1"), F.when(length > 17, 17))
        .when(magic == F.lit(b"\3"), F.when((length > 18) & value.substr(2, 1).isin(F.lit(b"\0"), F.lit(b"\5")), 18))
    )
    front = value.substr(F.lit(1), F.coalesce(start, F.lit(0)))
    if "headers" not in frame.columns:
        return front
    held = [F.concat(F.lit(byte), _header(name.format(part))) for byte, name in _HEADERS.items()]
    # Spark says null where a record has no headers, and that is nearly always.
    return F.when(value.isNotNull(), F.coalesce(F.when(F.col("headers").isNotNull(), F.coalesce(*held)), front))


def is_frame(found: Column) -> Column:
    """Whether ``found`` can have an id."""
    from pyspark.sql import functions as F

    return F.hex(found).rlike(_FRAME)


def behind(frame: DataFrame, value: Column, found: Column, id_: str) -> Column:
    """What a record holds behind its frame ``found``, which is one of the id's."""
    from pyspark.sql import functions as F

    if id_ == BARE:
        return value
    in_header = found.substr(1, 1).isin(*map(F.lit, _HEADERS))
    body = value.substr(F.when(in_header, 1).otherwise(F.length(found) + 1), F.length(value))
    if not id_.startswith("glue/"):
        return body
    packed = found.substr(2, 1) == F.lit(b"\5")
    return F.when(packed, inflated(frame.sparkSession, F.when(packed, body))).otherwise(body)


def id_of(found: bytes, id_kind: str) -> str:
    """The id in a frame; ``id_kind``: which of Apicurio's ids stands in front of records, where one does."""
    magic, rest = found[:1], found[1:]
    if magic == _CONFLUENT:
        return id_of(rest, "")
    if magic in _KINDS:
        return f"{_KINDS[magic]}/{int.from_bytes(rest, 'big')}"
    if magic == b"\0":
        return f"{id_kind}/{int.from_bytes(rest, 'big')}".lstrip("/")
    return f"guid/{UUID(bytes=rest)}" if magic == b"\1" else f"glue/{UUID(bytes=rest[1:])}"


def frames(ids: Iterable[str], id_kind: str) -> list[bytes]:
    """All frames in which these ids may come."""
    return [found for id_ in ids for found in _frames(id_, id_kind)]


def _frames(id_: str, id_kind: str) -> list[bytes]:
    if id_ == BARE:
        return [b""]
    kind, _, text = id_.rpartition("/")
    if kind == "glue":
        return [b"\3" + how + UUID(text).bytes for how in (b"\0", b"\5")]
    if kind == "guid":
        front = [b"\1" + UUID(text).bytes]
        return [*front, _CONFLUENT + front[0]]
    number = int(text)
    numbers = [number.to_bytes(size, "big") for size in (4, 8) if number < 256**size]
    front = [b"\0" + bytes_ for bytes_ in numbers] if kind == id_kind else []
    names = [byte for byte, name in _KINDS.items() if name == kind]
    held = [byte + bytes_ for byte in names for bytes_ in numbers] if kind else [_CONFLUENT + b"\0" + numbers[0]]
    return [*front, *held]


def _header(name: str) -> Column:
    """The value of the first header of that name."""
    from pyspark.sql import functions as F

    # No `filter`: Spark does not compile what has one, and interprets the rest of the step with it.
    place = F.array_position(F.col("headers.key"), name).cast("int")
    return F.get(F.col("headers.value"), place - 1)
