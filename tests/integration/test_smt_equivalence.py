"""One connector with SMTs in Kafka Connect, and one without SMTs whose pipeline has the imported transforms: both make the same table.

Both connectors read the same database at the same time. ``headrace import`` makes both pipelines from the configuration of the
first connector: with ``--keep-transforms`` for the topic of that connector, and without it for the topic of the other one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support import pipelines
from tests.support.waiting import until

from headrace import Pipeline
from headrace_import.import_report import Kind
from headrace_import.pipeline_import import ImportOptions, import_paths
from headrace_stack import Connect, Kafka, Postgres

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.slow, pytest.mark.one_spark]

KAFKA, DEBEZIUM = "org.apache.kafka.connect.transforms.", "io.debezium.transforms."
JSON = {
    f"{part}.converter{option}": value
    for part in ("key", "value")
    for option, value in {"": "org.apache.kafka.connect.json.JsonConverter", ".schemas.enable": "true"}.items()
}
PREDICATES = {
    "audit": {"type": f"{KAFKA}predicates.TopicNameMatches", "pattern": ".*\\.audit"},
    "tombstone": {"type": f"{KAFKA}predicates.RecordIsTombstone"},
}
ROWS_ONLY = {"predicate": "tombstone", "negate": "true"}
NULLS = {"replace.null.with.default": "false"}
#: Key of the row that each test inserts last.
LAST = 99


@dataclass(frozen=True)
class Case:
    """Chain of SMTs, and a history of the table ``people`` of a schema.

    ``smts``: alias → options; ``options``: of both connectors. ``compared``: column → the SQL expressions that are compared, of the
    topic with SMTs and of the imported transforms, where docs/smts.md names a difference. ``row``: columns of the row 1.
    """

    name: str
    smts: Mapping[str, Mapping[str, str]]
    create: str
    changes: str
    ids: list[int]
    row: Mapping[str, Any]
    options: Mapping[str, str] = field(default_factory=dict)
    compared: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def topic(self) -> str:
        """Topic of the connector without SMTs."""
        return f"{self.name}.{self.name}.people"

    @property
    def table(self) -> str:
        """Table, and topic of the connector with SMTs."""
        return f"flat.{self.name}.people"

    def list_smts(self) -> dict[str, str]:
        """Return the options of the chain. The first SMT after ``unwrap`` drops a topic, the last one renames the others."""
        unwrap, *others = self.smts.items()
        chain = dict(
            [
                (unwrap[0], {"type": f"{DEBEZIUM}ExtractNewRecordState", **unwrap[1]}),
                ("audit", {"type": f"{KAFKA}Filter", "predicate": "audit"}),
                *others,
                ("route", {"type": f"{KAFKA}RegexRouter", "regex": f"{self.name}\\.(.*)", "replacement": "flat.$1"}),
            ]
        )
        used = {smt["predicate"]: PREDICATES[smt["predicate"]] for smt in chain.values() if "predicate" in smt}
        named: dict[str, Mapping[str, Mapping[str, str]]] = {"transforms": chain, "predicates": used}
        lists = {kind: ",".join(items) for kind, items in named.items()}
        return lists | {
            f"{kind}.{alias}.{option}": value
            for kind, items in named.items()
            for alias, options in items.items()
            for option, value in options.items()
        }


#: Deleted rows stay, with all columns; nulls stay null although the column has a default.
KEPT_DELETES = Case(
    name="kept",
    smts={
        "unwrap": {"delete.tombstone.handling.mode": "rewrite", "add.fields": "op,table,lsn", **NULLS},
        "names": {
            "type": f"{KAFKA}ReplaceField$Value",
            "exclude": "internal",
            "renames": "name:full_name,email:mail",
            **NULLS,
        },
        "types": {
            "type": f"{KAFKA}Cast$Value",
            "spec": "age:string,score:int32,height:float64,balance:float64,active:string",
            **NULLS,
        },
        "joined": {
            "type": f"{KAFKA}TimestampConverter$Value",
            "field": "joined",
            "target.type": "string",
            "format": "yyyy-MM-dd HH:mm:ss.SSS",
            **NULLS,
        },
        "left": {
            "type": f"{KAFKA}TimestampConverter$Value",
            "field": "left_at",
            "target.type": "Timestamp",
            "unix.precision": "microseconds",
            **NULLS,
        },
        "seen": {
            "type": f"{KAFKA}TimestampConverter$Value",
            "field": "seen",
            "target.type": "unix",
            "format": "yyyy-MM-dd'T'HH:mm:ss'Z'",
            "unix.precision": "seconds",
            **NULLS,
        },
        "note": {"type": f"{KAFKA}MaskField$Value", "fields": "note,points", **NULLS},
        "phone": {"type": f"{KAFKA}MaskField$Value", "fields": "phone", "replacement": "it's hidden", **NULLS},
        "place": {
            "type": f"{KAFKA}InsertField$Value",
            "topic.field": "topic",
            "static.field": "system",
            "static.value": "shop",
            **NULLS,
        },
    },
    options={"value.converter.replace.null.with.default": "false"},
    create="""
        create table people (
          id int primary key, name varchar(40), email text default 'none', phone text, age smallint, score double precision,
          height real, balance numeric(10, 2), active boolean, born date, joined timestamp(3), left_at timestamp,
          seen timestamptz(0), note text, points bigint, tags text[], doc jsonb, photo bytea, internal text
        );
        alter table people replica identity full;
        insert into people values
          (1, 'Ada', 'ada@example.org', '+41 44 1', 36, 2.9, 1.7, 12.50, true, '1815-12-10', '2024-02-29 10:11:12.345',
           '2024-03-31 02:30:00.123456', '2024-02-29 10:11:12+02', 'private', 5, '{a,null,c}', '{"a": [1, null]}', '\\xdeadbeef', 'x'),
          (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
          (3, 'Cem', 'cem@example.org', '', -1, -2.9, -0.5, -0.01, false, '2024-12-31', '1969-12-31 23:59:59.999',
           '1969-12-31 23:59:59.999', '1969-12-31 23:59:59+00', '', -7, '{}', 'null', '', '');
    """,
    changes="""
        insert into people (id, name, age, active) values (4, 'Düşünür 😀', 99, true);
        update people set email = null, phone = null, note = 'still private', balance = 99999999.99 where id = 1;
        update people set name = 'Bea', joined = '2024-01-01 00:00:00', score = 2147483647, tags = '{x}' where id = 2;
        delete from people where id = 3;
        update people set id = 5, name = 'moved' where id = 4;
    """,
    ids=[1, 2, 3, 4, 5, LAST],
    row={
        "full_name": "Ada",
        "mail": None,
        "age": "36",
        "score": 2,
        "active": "true",
        "joined": "2024-02-29 10:11:12.345",
        "seen": 1709194272,
        "note": "",
        "points": 0,
        "phone": None,
        "topic": "kept.kept.people",
        "system": "shop",
        "__op": "u",
        "__deleted": "false",
    },
    compared={
        # Each connector has its own snapshot.
        "__lsn": ("if(__op = 'r', null, __lsn)",) * 2,
        "left_at": (
            "left_at",
            "TIMESTAMP_NTZ'1970-01-01' + (date_trunc('MILLISECOND', left_at) - TIMESTAMP'1970-01-01 00:00:00Z')",
        ),
    },
)
#: Deletes are tombstones, which the SMTs exclude; updates omit large values; nulls become the column's default.
TOMBSTONES = Case(
    name="tombs",
    smts={
        "unwrap": {"add.fields": "op:operation,source.table", "add.fields.prefix": "meta_"},
        "header": {
            "type": f"{KAFKA}HeaderFrom$Value",
            "fields": "secret",
            "headers": "secret",
            "operation": "move",
            **ROWS_ONLY,
        },
        "names": {
            "type": f"{KAFKA}ReplaceField$Value",
            "include": "id,name,quantity,price,ratio,sold,flag,day,starts,opens,place,tags,status,story,code,meta_operation",
            "renames": "story:body,status:state",
            **ROWS_ONLY,
        },
        "types": {
            "type": f"{KAFKA}Cast$Value",
            "spec": "quantity:int64,price:float64,ratio:string,sold:int8,flag:boolean",
            **ROWS_ONLY,
        },
        "day": {
            "type": f"{KAFKA}TimestampConverter$Value",
            "field": "day",
            "target.type": "string",
            "format": "dd.MM.yyyy",
            **ROWS_ONLY,
        },
        "starts": {
            "type": f"{KAFKA}TimestampConverter$Value",
            "field": "starts",
            "target.type": "unix",
            "unix.precision": "seconds",
            **ROWS_ONLY,
        },
        "structs": {"type": f"{KAFKA}Flatten$Value", "delimiter": "_", **ROWS_ONLY},
        "quantity": {"type": f"{KAFKA}MaskField$Value", "fields": "quantity", "replacement": "7", **ROWS_ONLY},
        "code": {"type": f"{KAFKA}MaskField$Value", "fields": "code,place_x", **ROWS_ONLY},
        "place": {
            "type": f"{KAFKA}InsertField$Value",
            "static.field": "system",
            "static.value": "shop",
            "topic.field": "topic",
            **ROWS_ONLY,
        },
    },
    options={"time.precision.mode": "connect", "decimal.handling.mode": "string"},
    create="""
        create table people (
          id int primary key, name text, quantity int, price numeric(8, 2), ratio real, sold boolean, flag text, day date,
          starts timestamp(3), opens time(3), place point, tags text[], status text default 'new', story text, code bigint, secret text
        );
        alter table people alter column story set storage external;
        insert into people values
          (1, 'Ada', 3, 12.50, 1.1, true, 'true', '2024-02-29', '2024-02-29 10:11:12.500', '10:11:12.345', '(1.5,-2)', '{a,null}',
           'old', repeat('story ', 1000), 12, 'secret'),
          (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
          (3, 'Cem', -3, -0.01, 1e20, false, 'FALSE', '1970-01-01', '1970-01-01 00:00:00', '00:00', '(0,0)', '{}', 'x', '', 0, '');
    """,
    changes="""
        insert into people (id, name, price, flag) values (4, 'Düşünür 😀', 999999.99, 'TRUE');
        update people set quantity = 4, place = null, status = null where id = 1;
        update people set ratio = 0.1, day = '2024-12-31', place = '(3,4)' where id = 2;
        delete from people where id = 3;
        update people set id = 5, name = 'moved' where id = 4;
    """,
    ids=[1, 2, 5, LAST],
    row={
        "name": "Ada",
        "quantity": 7,
        "price": 12.5,
        "ratio": "1.1",
        "sold": 1,
        "flag": True,
        "day": "29.02.2024",
        "starts": 1709201472,
        "place_x": None,
        "state": "new",
        "body": "story " * 1000,
        "code": 0,
        "meta_operation": "u",
        "system": "shop",
        "topic": "tombs.tombs.people",
    },
)


@contextmanager
def run_connectors(case: Case, file: Path, connect: Connect, kafka: Kafka, postgres: Postgres) -> Iterator[None]:
    """Write the history of the table to the topics of both connectors; ``file`` gets the configuration of the one with SMTs."""
    path = f"set search_path = {case.name};"
    postgres.execute(
        f"create schema {case.name}; {path} {case.create}"
        "create table audit (id int primary key, what text); insert into audit values (1, 'created')"
    )
    tables = {"table.include.list": f"{case.name}.people,{case.name}.audit"}
    base = {**postgres.debezium(case.name), **tables, **JSON, **case.options}
    plain = f"{case.name}_plain"
    configs = {
        case.name: base | case.list_smts(),
        # The names of metrics come from the topic prefix, which both connectors have.
        plain: base | {"slot.name": plain, "publication.name": plain, "custom.metric.tags": "chain=none"},
    }
    file.write_text(json.dumps({"name": case.name, "config": configs[case.name]}), encoding="utf-8")
    try:
        for name, config in configs.items():
            connect.put(name, config)
        for topic in (case.table, case.topic):
            kafka.read(topic, 3, timeout=120)
        postgres.execute(f"{path} {case.changes} insert into audit values (2, 'changed')")
        postgres.execute(f"{path} insert into people (id) values ({LAST})")
        for topic in (case.table, case.topic):
            until(partial(has_last_row, kafka, topic), f"the last row in {topic}")
        yield
    finally:
        for name in configs:
            connect.delete(name)


def has_last_row(kafka: Kafka, topic: str) -> bool:
    return any(f'"id":{LAST}'.encode() in (record.key or b"") for record in kafka.read(topic))


def run_pipeline(case: Case, folder: Path, config: dict[str, Any], spark: SparkSession) -> DataFrame:
    """Run an imported pipeline and return its table. No record is a dead letter, and no other table gets rows."""
    places = {"sink": pipelines.sink_block("iceberg", folder), "checkpoint": str(folder / "checkpoint")}
    pipeline = Pipeline.from_dict(config | places)
    summary = pipeline.run(spark)
    assert summary.dead_letters == 0
    assert [table.table for table in summary.tables if table.rows_in != table.filtered] == [case.table]
    return pipeline.read(case.table, spark=spark)


def collect_rows(frame: DataFrame, compared: Mapping[str, str]) -> list[dict[str, Any]]:
    texts = [f"{compared.get(name, f'`{name}`')} AS `{name}`" for name in frame.columns]
    return [row.asDict(recursive=True) for row in frame.selectExpr(*texts).orderBy("id").collect()]


def list_types(frame: DataFrame, compared: Mapping[str, str]) -> dict[str, str]:
    return {f.name: f.dataType.simpleString() for f in frame.schema if f.name not in compared}


@pytest.mark.parametrize("case", [KEPT_DELETES, TOMBSTONES], ids=str)
def test_imported_transforms_make_the_table_of_the_smts(
    case: Case, tmp_path: Path, spark: SparkSession, connect: Connect, kafka: Kafka, postgres: Postgres
) -> None:
    file, servers = tmp_path / "connector.json", kafka.bootstrap_servers
    with run_connectors(case, file, connect, kafka, postgres):
        kept = yaml.safe_load(import_paths([file], ImportOptions(None, servers, keep_transforms=True)).pipeline)
        assert [name for step in kept["transforms"] for name in step] == ["unwrap"]
        # The report says that a router changes the names of the topics.
        kept["source"]["kafka"]["subscribe"] = [case.table]
        by_smts = run_pipeline(case, tmp_path / "kept", kept, spark)
        imported = import_paths([file], ImportOptions(None, servers))
        assert [f for f in imported.report.findings if f.kind in (Kind.NOT_IMPORTED, Kind.UNKNOWN)] == []
        by_transforms = run_pipeline(case, tmp_path / "moved", yaml.safe_load(imported.pipeline), spark)
    of_smts, of_transforms = ({name: texts[n] for name, texts in case.compared.items()} for n in (0, 1))
    assert list_types(by_transforms, of_transforms) == list_types(by_smts, of_smts)
    rows = collect_rows(by_transforms, of_transforms)
    assert rows == collect_rows(by_smts, of_smts)
    assert [row["id"] for row in rows] == case.ids
    assert {name: rows[0][name] for name in case.row} == case.row
