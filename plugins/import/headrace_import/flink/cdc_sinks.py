"""Sinks of Flink CDC: ``iceberg`` and ``hudi``. Other sinks have no counterpart."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block
from headrace_import.settings import Settings, name_new_folder

_CATALOG, _TABLE, _HADOOP = "catalog.properties.", "table.properties.", "hadoop.conf."
_TIMES = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_FUNCTION = re.compile(r"(?P<name>\w+)(?:\[(?P<number>\d+)\])?\((?P<column>\w+)\)")


def read_sink(sink: Settings, partitions: Mapping[str, list[str]]) -> Block:
    """Return the sink with its options. ``partitions``: target → partition keys of transforms."""
    kind = sink.get("type")
    if kind == "iceberg":
        return Block({"iceberg": _read_iceberg(sink, partitions)})
    if kind == "hudi":
        return Block({"hudi": _read_hudi(sink)})
    options = Block(comment="default: choose a sink")
    options.add("warehouse", "warehouse/", "default: a folder of this machine")
    if kind != "kafka":
        why = f"headrace has no sink {kind or 'without a type'}, so the file names a local folder"
        sink.reject(["type"], why, "choose a sink, or write a sink plugin", Kind.TO_DO)
        rest = [key for key in sink.list_remaining() if key != "name"]
        sink.reject(rest, "the sink has no counterpart")
    return Block({"iceberg": options})


def read_spark(sink: Settings) -> Block:
    """Return the Hadoop settings of the sink as Spark settings."""
    spark = Block()
    for key in sink.list_keys(_HADOOP):
        spark.add(f"spark.hadoop.{key.removeprefix(_HADOOP)}", sink.read(key), sink.cite(key))
    return spark


def _read_iceberg(sink: Settings, partitions: Mapping[str, list[str]]) -> Block:
    options = Block(comment=sink.cite("type"))
    options.add("catalog", "iceberg", "default")
    properties = Block()
    for key in sink.list_keys(_CATALOG):
        properties.add(key.removeprefix(_CATALOG), sink.read(key), sink.cite(key))
    if properties.entries:
        options.entries["catalog.properties"] = properties
    for key in sink.list_keys(_TABLE):
        options.add(key.removeprefix(_TABLE), sink.read(key), sink.cite(key))
    fields = Block(comment=sink.cite("partition.key"))
    for table, names in {**partitions, **_split_partitions(sink.get("partition.key"))}.items():
        translated = [_translate_field(name) for name in names]
        named = [name for name in translated if name]
        if len(named) == len(names):
            fields.add(table, named)
        else:
            sink.add_to_do(
                ["partition.key"], f"`partition.by` has no such function for {table}", "name a column, or use bucket"
            )
    if fields.entries:
        options.entries["partition.by"] = fields
    return options


def _read_hudi(sink: Settings) -> Block:
    options = Block(comment=sink.cite("type"))
    if sink.has("path"):
        options.add("path", *sink.read_new_folder("path"))
    else:
        options.add("path", name_new_folder(""), "default")
    why = "headrace does not continue tables of another writer, and loads new ones"
    sink.add_to_do(["path"], why, "choose a `path` that no other writer uses")
    if sink.get("hoodie.table.type"):
        options.add("table.type", sink.read("hoodie.table.type"), sink.cite("hoodie.table.type"))
    if sink.get("write.operation").lower() not in ("", "upsert"):
        fix = "`mode: append`, and `delete.tombstone.handling.mode: rewrite` in `unwrap`, keep each change as a row"
        why = "the table has one row for each key, and no deleted rows"
        sink.reject(["write.operation"], why, fix, Kind.TO_DO)
    own = [key for key in sink.list_keys("hoodie.") if re.search(r"recordkey|ordering|precombine|payload|keygen", key)]
    sink.reject(
        [key for key in own if key in sink.list_remaining()], "headrace makes the record keys and orders the changes"
    )
    for key in sink.list_keys("hoodie."):
        if key in sink.list_remaining():
            options.add(key, sink.read(key), sink.cite(key))
    return options


def _split_partitions(text: str) -> dict[str, list[str]]:
    """Return table → partition keys of ``db.a:x,y;db.b:z``."""
    pairs = (item.partition(":") for item in text.split(";") if ":" in item)
    return {table.strip(): [name.strip() for name in names.split(",")] for table, _, names in pairs}


def _translate_field(text: str) -> str | None:
    """Return a partition field with the names of headrace; None for a function that it does not have."""
    match = _FUNCTION.fullmatch(text)
    if match is None:
        return text if re.fullmatch(r"\w+", text) else None
    if match["name"] == "bucket" and match["number"]:
        return f"bucket({match['number']}, {match['column']})"
    return f"{_TIMES[match['name']]}({match['column']})" if match["name"] in _TIMES else None
