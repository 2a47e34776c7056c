"""Grammar of packs: a seed becomes the configuration of one pipeline and its cases, as plain JSON.

A pack is one pipeline: transport, format, sink, mode, handling of deletes, and steps. Its cases are independent topics and tables
of this pipeline, so that one session and one run apply many cases.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.oracle import values
from tests.support.oracle.encode import Kind

Json = dict[str, Any]

#: Features of a case that the grammar may draw. A feature that is False has a behavior that is not as specified yet.
FEATURES = {
    # The checkpoint is replaced by a backup from before the last batch.
    "backup": True,
    # Deletes, late and repeated records, and truncates.
    "deletes": True,
    "late": True,
    "repeated": True,
    # A tombstone after each delete; brokers only.
    "tombstones": True,
    "truncate": True,
    # A truncate of one of several sources of a table removes the rows of that source only.
    "truncate-by-source": True,
    # Columns that appear, disappear, and get a wider type.
    "add-column": True,
    "drop-column": True,
    "widen": True,
    "add-field": True,
    # Several topics, servers or tables in one table, and several tables in one topic.
    "merged": True,
    "split": True,
    # Tables of one topic that have a column of the same name and of another type.
    "split-types": True,
    "shared": True,
    "logical": True,
    # Types.
    "decimal": True,
    # JSON without schemas: a decimal that `columns:` declares.
    "declared": True,
    "map": True,
    # Maps whose values are numbers, booleans or structs.
    "map-values": True,
    "struct": True,
    "array": True,
    # Avro unions of several types.
    "union": True,
    # Names.
    "look-alikes": True,
    # A column whose name changes its case: the column stays, or in JSON without schemas the record is a dead letter.
    "case-names": True,
    # Composite keys whose texts contain the separators of a format's record key.
    "separators-in-keys": True,
    # Records that cannot become rows.
    "bad-op": True,
    "bad-key": True,
    "bad-value": True,
    "bad-bytes": True,
    # JSON texts that are not UTF-8, without a registry: a dead letter, not other characters in the table.
    "bad-utf8": True,
    # Numbers whose exponent is huge.
    "huge-exponent": True,
    # Metadata in topics of its own, and among rows.
    "metadata-topics": True,
    "ddl-among-rows": True,
}
#: Features of a whole pack, or of a combination of others, which no case lists.
COMBINED = {"backup", "truncate-by-source"}
DIALECTS = ("postgresql", "mysql", "sqlserver", "flat-positions", "flat-place", "dms")
TRANSPORTS = ("files", "files", "log", "log")
FORMATS = ("json", "json-schema", "avro")
SINKS = ("iceberg", "hudi")
ROUTES = ("single", "merged", "split", "shared", "logical")


@dataclass
class Draw:
    """Random choices of one case, and the features that it uses."""

    rng: Random
    enabled: dict[str, bool]
    used: set[str] = field(default_factory=set)
    #: Columns whose types the first batch determines.
    first_columns: frozenset[str] = frozenset()

    def takes(self, feature: str, chance: float) -> bool:
        """Return whether the case uses a feature, with a probability."""
        if not self.enabled[feature] or self.rng.random() >= chance:
            return False
        self.used.add(feature)
        return True


def make_pack(seed: int | str, cases: int = 10, features: dict[str, bool] | None = None) -> Json:
    """Return the pack of a seed. ``features``: replaces the default of features."""
    rng = Random(str(seed))
    pack: Json = {
        "seed": str(seed),
        "transport": rng.choice(TRANSPORTS),
        "format": rng.choice(FORMATS),
        "sink": rng.choice(SINKS),
        "mode": rng.choices(("upsert", "append", "changelog"), (6, 1, 1))[0],
        "deletes": rng.choices(("tombstone", "rewrite", "drop"), (5, 2, 1))[0],
        "steps": [{"repeat": rng.random() < 0.15, "replay": rng.random() < 0.15} for _ in range(rng.randint(2, 3))],
        "cases": [],
    }
    if pack["mode"] == "append" and pack["deletes"] == "tombstone":  # headrace refuses it
        pack["deletes"] = "rewrite"
    enabled = {**FEATURES, **(features or {})}
    for step in pack["steps"][1:-1] if enabled["backup"] else ():
        step["backup"] = rng.random() < 0.3
    for number in range(cases):
        draw = Draw(Random(f"{seed}/{number}"), enabled)
        pack["cases"].append(_make_case(f"c{number}", pack, draw))
    return pack


def _make_case(name: str, pack: Json, draw: Draw) -> Json:
    rng = draw.rng
    dialects = [d for d in DIALECTS if d != "dms" or (pack["format"] == "json" and pack["deletes"] == "tombstone")]
    dialect = rng.choice(dialects)
    is_flat = dialect.startswith("flat")
    routes = [r for r in ROUTES if r == "single" or draw.enabled[r]]
    route = (
        rng.choice([r for r in routes if not is_flat or r in ("single", "merged")]) if rng.random() < 0.6 else "single"
    )
    if route != "single":
        draw.used.add(route)
    case: Json = {"name": name, "dialect": dialect, "route": route, "rules": [_rule(name, route, dialect)]}
    case |= {"kinds": {}, "batches": [[] for _ in pack["steps"]]}
    count = 1 if route == "single" else 2
    is_composite = route in ("merged", "logical") or rng.random() < 0.25
    case["rules"][0]["key"] = ["id", "shard"] if is_composite else ["id"]
    if pack["transport"] != "files":
        case["kinds"]["key"] = ["struct", [["id", "int64"], *([["shard", "string"]] if is_composite else [])]]
    columns = values.draw_columns(draw, pack)
    if declared := {name: kind[1:] for name, kind in columns if kind[0] == "number"}:
        case["rules"][0]["columns"] = declared
    for number in range(count):
        if number and route == "split" and _has_own_types(pack) and draw.takes("split-types", 0.5):
            columns = [[name, values.draw_kind(draw, pack)] for name, _ in columns]
        table = TableHistory(case, pack, draw, number, columns, is_composite=is_composite)
        for batch in range(len(pack["steps"])):
            table.write(batch)
    _add_metadata_topics(case, draw)
    for batch in case["batches"][1:]:
        if rng.random() < 0.5:
            rng.shuffle(batch)
    case["features"] = sorted(draw.used | {dialect})
    return case


def _has_own_types(pack: Json) -> bool:
    """Return whether each table of a topic has its own types. In Avro files, columns of one name need compatible types."""
    return not (pack["transport"] == "files" and pack["format"] == "avro")


def _rule(name: str, route: str, dialect: str) -> Json:
    if route == "merged":
        return {"source": f"{name}.*.rows", "target": f"{name}.rows"}
    if route == "split":
        column = "metadata.table-name" if dialect == "dms" else "source.table"
        return {"source": f"{name}.all", "target": name + ".{table}", "route.by.field": [column]}
    if route == "logical":
        return {"source": f"{name}.all", "target": f"{name}.rows", "logical.table": True}
    return {"source": f"{name}.*", "target": name + ".{table}"}


class TableHistory:
    """Changes of one table, and the records that its connector writes."""

    def __init__(
        self, case: Json, pack: Json, draw: Draw, number: int, columns: list[list[Any]], *, is_composite: bool
    ) -> None:
        self._case, self._pack, self._draw, self._rng = case, pack, draw, draw.rng
        self._number, self._dialect = number, case["dialect"]
        self._columns = [["id", "int64"], *([["shard", "string"]] if is_composite else []), *columns]
        self._table = f"t{number}"
        in_one_topic = case["route"] in ("split", "shared", "logical")
        topics = {"merged": f"{case['name']}.s{number}.rows"}
        self._topic = topics.get(
            case["route"], f"{case['name']}.all" if in_one_topic else f"{case['name']}.{self._table}"
        )
        self._clock = self._rng.choice((100, 2**24 - 20, 2**31))
        self._commit: int | None = None
        self._rows: dict[int, Json] = {}
        self._file = 0
        self._added = 0
        self._pending: list[tuple[int, Json]] = []
        #: Whether records are dead letters because the case of a name has changed.
        self._is_respelled = False

    def write(self, batch: int) -> None:
        """Add the table's records of a batch."""
        if self._case["route"] == "shared" and self._number == 1 and batch == 0:
            return  # The first record decides which table a topic belongs to.
        if batch:
            self._evolve()
        records: list[Json] = [record for due, record in self._pending if due == batch]
        last = len(self._pack["steps"]) - 1
        for record in [r for _ in range(self._rng.randint(2, 6)) for r in self._change(batch)]:
            # The first record of a table names its columns.
            is_late = batch < last and bool(batch or records) and self._draw.takes("late", 0.12)
            if is_late:
                self._pending.append((self._rng.randint(batch + 1, last), record))
            else:
                records += [record, *self._tombstone(record)]
            if self._draw.takes("repeated", 0.1):
                self._pending.append((self._rng.randint(min(batch + 1, last), last), record))
        # A bad record of another table would have two reasons.
        if batch and not (self._case["route"] == "shared" and self._number):
            records += self._bad_records()
        self._file += 1
        split = self._rng.randrange(len(records) + 1) if self._rng.random() < 0.3 else len(records)
        for number, record in enumerate(records):
            file = self._file * 2 + (number >= split)
            self._case["batches"][batch].append({**record, "file": file})

    # Changes of the database.

    def _change(self, batch: int) -> list[Json]:
        rng, key = self._rng, self._rng.randint(1, 4)
        self._clock += rng.randint(1, 9)
        records = []
        if key not in self._rows:
            # The first batch of JSON without schemas determines the types.
            self._rows[key] = self._row(key, null=0.15 if batch else 0.0)
            records.append(self._record("r" if batch == 0 and rng.random() < 0.5 else "c", None, self._rows[key]))
        elif self._may_truncate() and self._draw.takes("truncate", 0.06):
            self._rows.clear()
            records.append(self._record("t", None, None))
        elif self._draw.takes("deletes", 0.3):
            records.append(self._record("d", self._rows.pop(key), None))
        else:
            before, self._rows[key] = self._rows[key], self._row(key, null=0.15 if batch else 0.0)
            records.append(self._record("u", before, self._rows[key]))
        self._clock += 1
        self._commit = self._clock
        return records

    def _may_truncate(self) -> bool:
        if self._dialect not in ("postgresql", "mysql", "sqlserver"):
            return False
        return self._case["route"] in ("single", "split") or self._draw.enabled["truncate-by-source"]

    def _row(self, key: int, *, null: float = 0.15) -> Json:
        row: Json = {"id": key}
        for name, kind in self._columns[1:]:
            row[name] = self._shard(key) if name == "shard" else values.draw_value(self._rng, kind, null=null)
        return row

    def _shard(self, key: int) -> str:
        """Return the second part of a row's key."""
        if key in self._rows:
            return str(self._rows[key]["shard"])
        if self._case["route"] == "single" and self._draw.takes("separators-in-keys", 0.7):
            return self._rng.choice(values.SEPARATORS)
        return f"s{self._number}"

    def _evolve(self) -> None:
        """Change the columns between two batches."""
        if self._draw.takes("add-column", 0.3):
            # Tables of one topic have no column of the same name and of another type.
            self._added += 1
            new = f"added{self._number}{self._added}"
            kind = values.draw_kind(self._draw, self._pack)
            self._columns = [*self._columns, [new, kind]]
            for key in list(self._rows):
                self._rows[key] = {**self._rows[key], new: None}
        if (
            len(self._columns) > 1
            and self._columns[-1][0] not in ("shard", "declared")
            and self._draw.takes("case-names", 0.2)
            # Each image of an envelope has its own types, and a null has none.
            and (self._pack["format"] != "json" or self._dialect.startswith(("flat", "dms")))
        ):
            name, kind = self._columns[-1]
            self._columns = [*self._columns[:-1], [name.swapcase(), kind]]
            self._rows = {key: {**row, name.swapcase(): row.get(name)} for key, row in self._rows.items()}
            self._is_respelled = self._pack["format"] == "json"
            return
        own = [i for i, (name, _) in enumerate(self._columns) if name not in ("id", "shard")]
        if len(own) > 1 and self._draw.takes("drop-column", 0.15):
            self._columns = [column for i, column in enumerate(self._columns) if i != own[0]]
            return
        for i in own:
            name, kind = self._columns[i]
            wider = values.widen(self._draw, kind, self._pack)
            if wider != kind:
                self._columns = [*self._columns[:i], [name, wider], *self._columns[i + 1 :]]
                return

    # Records of the connector.

    def _record(self, op: str | None, before: Json | None, after: Json | None) -> Json:
        row_kind = ["struct", self._columns]
        if self._dialect.startswith("flat"):
            kind, value = self._flat(op, before, after)
        elif self._dialect == "dms":
            kind, value = self._dms(op, before, after)
        else:
            names, source = self._source()
            fields = [["before", row_kind], ["after", row_kind], ["source", ["struct", names]], ["op", "string"]]
            kind = ["struct", [*fields, ["ts_ms", "int64"]]]
            value = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_700_000_000_000}
        record = {"topic": self._topic, "kind": self._note(kind), "value": value}
        return record if self._pack["transport"] == "files" else {**record, **self._keyed(after or before)}

    def _keyed(self, row: Json | None) -> Json:
        """Return the key and the partition of a broker's record."""
        if row is None or row["id"] is None:
            return {"key": None, "partition": 0}
        key = {name: row[name] for name in ("id", "shard") if name in row}
        return {"key": f"shop.{self._table}" if self._dialect == "dms" else key, "partition": row["id"] % 2}

    def _tombstone(self, record: Json) -> list[Json]:
        """Return the tombstone after a delete."""
        is_delete = "d" in (record["value"].get("op"), record["value"].get("__op"))
        # If the delete is a dead letter, its tombstone removes the row.
        if (
            self._is_respelled
            or _has_lookalikes(record["value"])
            or not is_delete
            or record.get("key") is None
            or not self._draw.takes("tombstones", 0.7)
        ):
            return []
        return [{**record, "value": None}]

    def _note(self, kind: Kind) -> str:
        text = json.dumps(kind)
        kinds: Json = self._case["kinds"]
        for name, known in kinds.items():
            if json.dumps(known) == text:
                return str(name)
        name = f"k{len(kinds)}"
        kinds[name] = json.loads(text)
        return name

    def _source(self) -> tuple[list[list[Any]], Json]:
        block = values.source_block(self._rng, self._dialect, self._clock, self._commit)
        names = [["connector", "string"], ["db", "string"], ["table", "string"], ["ts_ms", "int64"]]
        where = {"connector": self._dialect, "db": "shop", "table": self._table, "ts_ms": 1_700_000_000_000}
        return [*names, *([name, kind] for name, kind, _ in block)], {**where, **{name: v for name, _, v in block}}

    def _flat(self, op: str | None, before: Json | None, after: Json | None) -> tuple[Kind, Json]:
        columns = [*self._columns, ["__op", "string"], ["__deleted", "string"]]
        row = {**(after or before or {}), "__op": op, "__deleted": "true" if op == "d" else "false"}
        if self._dialect == "flat-positions":
            columns.append(["__lsn", "int64"])
            row["__lsn"] = self._clock
        return ["struct", columns], row

    def _dms(self, op: str | None, before: Json | None, after: Json | None) -> tuple[Kind, Json]:
        operation = {"r": "load", "c": "insert", "u": "update", "d": "delete"}.get(op or "", op)
        names = ("timestamp", "record-type", "operation", "schema-name", "table-name")
        metadata = {"timestamp": values.dms_time(self._clock), "record-type": "data", "operation": operation}
        metadata |= {"schema-name": "shop", "table-name": self._table}
        fields = [["data", ["struct", self._columns]], ["metadata", ["struct", [[name, "string"] for name in names]]]]
        return ["struct", fields], {"data": after or before, "metadata": metadata}

    # Records that cannot become rows.

    def _bad_records(self) -> list[Json]:
        found: list[Json] = []
        is_flat = self._dialect.startswith("flat")
        self._clock += 1
        if not is_flat and self._draw.takes("bad-op", 0.15):
            op = self._rng.choice([None, "x", "m", "c"] if self._dialect != "dms" else [None, "x"])
            found.append(self._record(op, None, None if op in ("c", "m") else self._row(1)))
        if self._dialect in ("postgresql", "mysql", "sqlserver") and self._draw.takes("ddl-among-rows", 0.3):
            found.append(self._schema_change())
        if self._draw.takes("bad-key", 0.15):
            found.append(self._record("c", None, {**self._row(1), "id": None}))
        if self._pack["format"] != "avro" and self._draw.takes("bad-value", 0.15):
            record = self._record("u", None, self._row(2))
            if found_path := values.bad_value(self._draw, self._columns):
                name, text = found_path
                path = [name] if is_flat else ["data" if self._dialect == "dms" else "after", name]
                found.append({**record, "raw": [[path, text]]})
        if self._pack["format"] != "avro" and self._draw.takes("bad-utf8", 0.2):
            column = next((name for name, kind in self._columns if kind == "string" and name != "shard"), None)
            images = [] if is_flat else ["data" if self._dialect == "dms" else "after"]
            if column:
                found.append({**self._record("u", None, self._row(2)), "raw": [[[*images, column], '"\udcff"']]})
        if self._pack["format"] != "avro" and self._draw.takes("bad-bytes", 0.15):
            line = self._rng.choice(values.BAD_LINES)
            found.append({**self._record("u", None, self._row(2)), "bytes": line.hex()})
        return found

    def _schema_change(self) -> Json:
        """Return a schema change, as connectors write it if a router sends all topics to one."""
        names, source = self._source()
        fields = [["source", ["struct", names]], ["ts_ms", "int64"], ["databaseName", "string"], ["ddl", "string"]]
        value = {"source": source, "ts_ms": 1, "databaseName": "shop", "ddl": "ALTER TABLE t ADD COLUMN c INT"}
        record = {"topic": self._topic, "kind": self._note(["struct", fields]), "value": value}
        return record if self._pack["transport"] == "files" else {**record, "key": None, "partition": 0}


def _add_metadata_topics(case: Json, draw: Draw) -> None:
    """Add boundaries of transactions, in a topic that the case's rule matches."""
    if (
        case["route"] != "single"
        or case["dialect"] not in ("postgresql", "mysql")
        or not draw.takes("metadata-topics", 0.2)
    ):
        return
    names = [["status", "string"], ["id", "string"], ["event_count", "int64"], ["ts_ms", "int64"]]
    case["kinds"]["transaction"] = ["struct", names]
    value = {"status": "END", "id": "1:2", "event_count": 3, "ts_ms": 1}
    record = {"topic": f"{case['name']}.transaction", "kind": "transaction", "value": value, "key": None}
    case["batches"][-1].append(record)


def _has_lookalikes(value: Any) -> bool:
    """Return whether two names in an object, at any depth, differ by case only."""
    if not isinstance(value, dict):
        return False
    return len({name.lower() for name in value}) < len(value) or any(map(_has_lookalikes, value.values()))
