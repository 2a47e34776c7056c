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
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_sources.inflate import inflated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def parts(frame: DataFrame, column: str, part: str, id_kind: str) -> tuple[Column, Column]:
    """What a record holds behind its frame, and the id of its schema: null for a record that has none.

    ``part``: ``key`` or ``value``; ``id_kind``: which of Apicurio's ids stands in front.
    """
    from pyspark.sql import functions as F

    value = F.col(column)
    magic, length = F.hex(value.substr(1, 1)), F.length(value)
    short = (magic == "00") & (length > 5)
    long = short & (F.hex(value.substr(2, 4)) == "00000000") & (length > 9)
    guid = (magic == "01") & (length > 17)
    glue = (magic == "03") & (length > 18)
    plain, packed = (glue & (F.hex(value.substr(2, 1)) == how) for how in ("00", "05"))
    prefix = F.lit(f"{id_kind}/" if id_kind else "")
    id_ = (
        F.when(long, F.concat(prefix, _number(value, 2, 8)))
        .when(short, F.concat(prefix, _number(value, 2, 4)))
        .when(guid, F.concat(F.lit("guid/"), _uuid(value, 2)))
        .when(plain | packed, F.concat(F.lit("glue/"), _uuid(value, 3)))
    )
    start = F.when(long, 10).when(guid, 18).when(glue, 19).otherwise(6)
    behind = value.substr(start, length)
    body = F.when(packed, inflated(frame.sparkSession, F.when(packed, behind))).otherwise(behind)
    if "headers" not in frame.columns:
        return body, id_
    confluent = _header(f"__{part}_schema_id")
    named = [
        F.when(F.hex(confluent.substr(1, 1)) == "00", _number(confluent, 2, 4)),
        F.when(F.hex(confluent.substr(1, 1)) == "01", F.concat(F.lit("guid/"), _uuid(confluent, 2))),
    ]
    for kind in ("globalId", "contentId"):
        held = _header(f"apicurio.{part}.{kind}")
        named.append(F.when(held.isNotNull(), F.concat(F.lit(f"{kind}/"), F.conv(F.hex(held), 16, 10))))
    in_header = F.coalesce(*named)
    return F.when(in_header.isNotNull(), value).otherwise(body), F.coalesce(in_header, id_)


def _number(value: Column, start: int, length: int) -> Column:
    from pyspark.sql import functions as F

    return F.conv(F.hex(value.substr(start, length)), 16, 10)


def _uuid(value: Column, start: int) -> Column:
    from pyspark.sql import functions as F

    digits = F.lower(F.hex(value.substr(start, 16)))
    return F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")


def _header(name: str) -> Column:
    """The value of the first header of that name."""
    from pyspark.sql import functions as F

    return F.try_element_at(F.filter("headers", lambda header: header["key"] == name), F.lit(1)).getField("value")
