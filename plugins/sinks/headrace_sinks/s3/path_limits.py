"""Limits of the paths of objects: long names of topics, and rows whose partition value is too long for a folder or for a key."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.sdk import DataError, changes as C
from headrace.sdk.columns import any_of
from headrace.sdk.storage import Folder
from headrace_sinks.s3.object_formats import list_kinds, name_ending
from headrace_sinks.s3.pending_records import encode_value, find_field
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

#: Maximum length of the name of a folder, and of the key of an object, in bytes.
_MAX_NAME, _MAX_KEY = 255, 1024
#: Bytes that the name of a checksum file has in addition to that of its object: `.NAME.crc`.
_CHECKSUM = 5
#: Types whose values may be long strings.
_UNBOUNDED = ("string", "binary", "array", "map", "struct")
#: Length of `+PARTITION+OFFSET` in the names of objects, with the largest numbers.
_NUMBERS = len(f"+{2**31 - 1}+{2**63 - 1}")


def find_unsupported(row: StructType, config: S3SinkConfig, root: Folder) -> Column | None:
    """Return a condition for rows whose partition cannot be in a path; None if all can. ``root``: the sink's ``path``."""
    from pyspark.sql import functions as F

    fields = {}
    for name in config.partition_field_name:
        with suppress(DataError):  # The write reports a missing column.
            fields[name] = find_field(row, name, "partition.field.name")
    if not any(data_type.typeName() in _UNBOUNDED for _, data_type in fields.values()):
        return None
    folders = [encode_value(name, *field, config) for name, field in fields.items()]
    has_null_character = [F.instr(folder, "\0") > 0 for folder in folders]
    if not root.is_in_store:
        return any_of([*has_null_character, *(F.octet_length(folder) > _MAX_NAME for folder in folders)])
    # The key is relative to the bucket. The topic is in it twice, as a folder and in the name of the object.
    key = root.path.partition("://")[2].partition("/")[2]
    ending = max(len(name_ending(kind, config)) for kind in list_kinds(config))
    fixed = len(f"{key}/{config.topics_prefix}//".lstrip("/").encode()) + _NUMBERS + ending
    length = F.octet_length(F.concat_ws("/", *folders)) + 2 * F.octet_length(C.TOPIC) + fixed
    return any_of([*has_null_character, length > _MAX_KEY])


def name_object(topic: str, rest: str, *, is_in_store: bool) -> str:
    """Return the name of an object: ``topic`` and ``rest``.

    Outside of an object store the name is that of a file. The name of a long topic is shortened and followed by its digest.
    """
    longest = _MAX_NAME - _CHECKSUM - len(rest.encode())
    if is_in_store or len(topic.encode()) <= longest:
        return topic + rest
    digest = f"~{hashlib.sha256(topic.encode()).hexdigest()[:16]}"
    return topic.encode()[: longest - len(digest)].decode(errors="ignore") + digest + rest
