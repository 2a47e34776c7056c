"""Rows from the events of an outbox table: Debezium's cases of its event router that have a meaning for a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.plugins.transforms.test_mask_tables import find_on_disk
from tests.plugins.transforms.test_transform_pipelines import write_events
from tests.support.pages import find_block
from tests.support.pipelines import pipeline, rows

from headrace import ConfigError, DataError, Pipeline
from headrace.sdk.changes import DELETED, DETAIL, ERROR, KEY, OP, POSITION, UNAVAILABLE, Changes
from headrace.sdk.positions import TOMBSTONE
from headrace_transforms import Outbox

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

spark_only = [pytest.mark.spark, pytest.mark.one_spark]

COLUMNS = ("id", "aggregatetype", "aggregateid", "type", "payload")
ROW = "struct<id string, aggregatetype string, aggregateid string, type string, payload string>"
OWN = f"{KEY} struct<id string>, {OP} string, {DELETED} boolean, {ERROR} string, {DETAIL} string, {POSITION} string"
CREATED = ("e1", "User", "10711fa5", "UserCreated", '{"name": "Arp", "age": 99}')
SCHEMA = {"table.expand.json.payload": True, "payload.schema": "name STRING, age INT"}


def make_changes(spark: SparkSession, *events: Any, table: str | None = "users") -> Changes:
    """Return the changes of events: an operation and the columns of the outbox table."""
    data = [
        (
            None if op in "td" else row,
            op,
            (row[0],),
            op,
            op == "d",
            "truncated" if op == "t" else None,
            None,
            f"0{n:02d}",
        )
        for n, (op, *row) in enumerate(events)
    ]
    return Changes(spark.createDataFrame(data, f"after {ROW}, op string, {OWN}"), envelope=True, table=table)


def list_rows(changes: Changes, *names: str) -> list[tuple[Any, ...]]:
    names = names or (*changes.event_columns, OP, ERROR)
    return [tuple(row) for row in changes.frame.sort(POSITION).select(*names).collect()]


class TestRows:
    pytestmark = spark_only

    def test_key_and_payload(self, spark: SparkSession) -> None:
        result = Outbox().process(make_changes(spark, ("c", *CREATED), ("r", *CREATED)))
        assert result.event_columns == ["aggregateid", "payload"]
        assert result.key_columns == ["aggregateid"]
        assert list_rows(result, "aggregateid", "payload", f"{KEY}.aggregateid", OP, DELETED) == [
            ("10711fa5", CREATED[-1], "10711fa5", "c", False),
            ("10711fa5", CREATED[-1], "10711fa5", "r", False),
        ]

    def test_deletes_truncates_and_tombstones_of_the_outbox_table_are_left_out(self, spark: SparkSession) -> None:
        changes = make_changes(spark, ("c", *CREATED), ("d", *CREATED), ("t", *CREATED))
        tombstone = changes.frame.limit(0).sparkSession.createDataFrame(
            [(None, None, ("e1",), None, True, None, None, f"{TOMBSTONE}1")], changes.frame.schema
        )
        both = Changes(changes.frame.unionAll(tombstone), envelope=True, table="users", position_parts="x")
        result = Outbox().process(both)
        assert list_rows(result, OP) == [("c",)]
        assert result.position_parts is None

    def test_updates(self, spark: SparkSession) -> None:
        changes = make_changes(spark, ("c", *CREATED), ("u", *CREATED))
        assert list_rows(Outbox().process(changes), OP, ERROR) == [("c", None)]
        error = Outbox(**{"table.op.invalid.behavior": "error"})
        reason = "an update of the outbox table, which has inserts and deletes only"
        assert list_rows(error.process(changes), OP, ERROR, DETAIL) == [
            ("c", None, None),
            ("u", "untransformable", reason),
        ]
        fatal = Outbox(**{"table.op.invalid.behavior": "fatal"})
        assert list_rows(fatal.process(make_changes(spark, ("c", *CREATED))), OP) == [("c",)]
        with pytest.raises(Exception, match="headrace-outbox-updated") as raised:
            fatal.process(changes).frame.collect()
        assert reason in str(fatal.explain(raised.value))

    def test_placements_are_columns(self, spark: SparkSession) -> None:
        placement = "type:header:eventType, id:header"
        result = Outbox(**{"table.fields.additional.placement": placement}, **SCHEMA).process(
            make_changes(spark, ("c", *CREATED))
        )
        assert result.event_columns == ["aggregateid", "name", "age", "eventType", "id"]
        assert list_rows(result) == [("10711fa5", "Arp", 99, "UserCreated", "e1", "c", None)]

    def test_placement_in_the_envelope_keeps_the_payload_in_a_column(self, spark: SparkSession) -> None:
        placement = "id:header,type:envelope"
        result = Outbox(**{"table.fields.additional.placement": placement}, **SCHEMA).process(
            make_changes(spark, ("c", *CREATED))
        )
        assert result.event_columns == ["aggregateid", "payload", "type", "id"]
        assert list_rows(result) == [("10711fa5", ("Arp", 99), "UserCreated", "e1", "c", None)]

    def test_every_column_has_an_option(self, spark: SparkSession) -> None:
        options = {"table.field.event.key": "type", "table.field.event.payload": "ID"}
        assert list_rows(Outbox(**options).process(make_changes(spark, ("c", *CREATED)))) == [
            ("UserCreated", "e1", "c", None)
        ]

    def test_missing_column(self, spark: SparkSession) -> None:
        changes = make_changes(spark, ("c", *CREATED))
        with pytest.raises(DataError, match=r"no column 'fakefield'; its columns are id, aggregatetype"):
            Outbox(**{"table.field.event.key": "fakefield"}).process(changes)
        placement = {"table.fields.additional.placement": "tenant:header"}
        with pytest.raises(DataError, match="no column 'tenant'"):
            Outbox(**placement).process(changes)
        lenient = Outbox(**placement, **{"table.fields.additional.error.on.missing": False})
        assert lenient.process(changes).event_columns == ["aggregateid", "payload"]

    def test_two_columns_of_one_name(self, spark: SparkSession) -> None:
        same = {"table.expand.json.payload": True, "payload.schema": "AggregateId STRING"}
        with pytest.raises(DataError, match="two columns would be named 'aggregateid'"):
            Outbox(**same).process(make_changes(spark, ("c", *CREATED)))

    def test_rows_stay_as_they_are(self, spark: SparkSession) -> None:
        flat = Changes(spark.createDataFrame([(1,)], "id int"), envelope=False)
        assert Outbox().process(flat) is flat

    def test_plain_frame(self, spark: SparkSession) -> None:
        frame = make_changes(spark, ("c", *CREATED), ("d", *CREATED)).frame.select("after", "op")
        assert list(map(tuple, Outbox(**SCHEMA)(frame).collect())) == [("10711fa5", "Arp", 99)]

    def test_unavailable_payload_is_a_dead_letter(self, spark: SparkSession) -> None:
        """An insert after a change of the primary key may omit a large value."""
        from pyspark.sql import functions as F

        changes = make_changes(spark, ("c", *CREATED[:-1], None))
        flags = F.struct(F.lit(True).alias("payload"))
        marked = Changes(changes.frame.withColumn(UNAVAILABLE, flags), envelope=True, table="users")
        result = Outbox(**{"route.tombstone.on.empty.payload": True}).process(marked)
        assert list_rows(result, DETAIL) == [("a column of the outbox table has a value that the event omits",)]
        assert UNAVAILABLE not in result.own_columns


class TestPayload:
    pytestmark = spark_only

    def process(self, spark: SparkSession, *payloads: str | None, table: str = "users", **options: Any) -> DataFrame:
        changes = make_changes(spark, *[("c", *CREATED[:-1], payload) for payload in payloads], table=table)
        return Outbox(**{**SCHEMA, **options}).process(changes).frame.sort(POSITION)

    def test_json_is_parsed_strictly(self, spark: SparkSession) -> None:
        bad = ["no json", '["a"]', '{"name": 1', '{"age": "old"}', '{"age": 30000000000}', "", '[{"name": "Arp"}]']
        bad += ['{"age": 5},"value":{"age": 6}', '{"price": 1.255}', '{"price": 1e400000000}']
        good = ['{"age": 5, "more": true}', ' {"name": {"a": 1}}', "null", None]
        kind = {"payload.schema": "name STRING, age INT, price DECIMAL(10,2)"}
        frame = self.process(spark, *good, *bad, **kind)
        assert [tuple(row) for row in frame.select("name", "age").collect()][:4] == [
            (None, 5),
            ('{"a":1}', None),
            (None, None),
            (None, None),
        ]
        errors = [tuple(row) for row in frame.select(ERROR, DETAIL).collect()]
        detail = "the column `payload` is not JSON of the type in `payload.schema`"
        assert errors == [(None, None)] * 4 + [("untransformable", detail)] * len(bad)

    def test_tables_have_their_own_types(self, spark: SparkSession) -> None:
        kinds = {"orders.*": "total DECIMAL(10,2)", "tags": "ARRAY<STRING>"}
        orders = self.process(spark, '{"total": 1.5}', table="orders.open", **{"payload.schema": kinds})
        assert [str(row["total"]) for row in orders.collect()] == ["1.50"]
        tags = self.process(spark, '["a", "b"]', table="tags", **{"payload.schema": kinds})
        assert [row["payload"] for row in tags.collect()] == [["a", "b"]]
        others = self.process(spark, "{}", table="users", **{"payload.schema": kinds})
        assert [row["payload"] for row in others.collect()] == ["{}"]

    def test_bytes_are_no_json(self, spark: SparkSession) -> None:
        from pyspark.sql import functions as F

        changes = make_changes(spark, ("c", *CREATED))
        after = F.col("after").withField("payload", F.encode("after.payload", "UTF-8"))
        binary = Changes(changes.frame.withColumn("after", after), envelope=True, table="users")
        assert list_rows(Outbox().process(binary), "payload") == [(bytearray(CREATED[-1].encode()),)]
        with pytest.raises(DataError, match="the payload is of the type binary"):
            Outbox(**SCHEMA).process(binary)

    @pytest.mark.parametrize("options", [SCHEMA, {}])
    def test_empty_payload_may_remove_the_row(self, spark: SparkSession, options: dict[str, Any]) -> None:
        router = Outbox(**{"route.tombstone.on.empty.payload": True}, **options)
        events = [("c", *CREATED[:-1], payload) for payload in (None, " ", "{}")]
        assert list_rows(router.process(make_changes(spark, *events)), OP, DELETED, f"{KEY}.aggregateid", ERROR) == [
            ("d", True, "10711fa5", None),
            ("d", True, "10711fa5", None),
            ("c", False, "10711fa5", None),
        ]
        assert router.deletes_rows
        assert not Outbox().deletes_rows

    def test_type_that_spark_does_not_know(self, spark: SparkSession) -> None:
        router = Outbox(**{"table.expand.json.payload": True, "payload.schema": "id NUMMER"})
        with pytest.raises(ConfigError, match="'id NUMMER' is not a type of Spark SQL"):
            router.check(spark)
        router = Outbox(**{"table.expand.json.payload": True, "payload.schema": "code ARRAY<VARCHAR(3)>"})
        with pytest.raises(ConfigError, match="JSON has no values of the type varchar"):
            router.check(spark)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table.expand.json.payload": True}, "belong together"),
        ({"payload.schema": "id INT"}, "belong together"),
        ({"table.fields.additional.placement": "type"}, "not a placement; write"),
        ({"table.fields.additional.placement": "type:envelope:a:b"}, "not a placement"),
        ({"table.fields.additional.placement": "p:partition"}, "a table has no partitions of a topic"),
        ({"table.fields.additional.placement": "a:header,b:header:A"}, "repeated"),
        ({"table.fields.additional.placement": "type:header:aggregateid"}, "is the key column"),
        ({"table.op.invalid.behavior": "skip"}, "table.op.invalid.behavior"),
        ({"when": "true"}, "select tables with `tables`"),
        ({"route.by.field": "aggregatetype"}, "rules of `tables:` route events"),
        ({"table.field.event.timestamp": "at"}, "a row has no timestamp of a record"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Outbox(**options)


TOPIC = "shop.public.outbox"


def event(op: str, lsn: int, kind: str | None, key: str, payload: str | None, **changed: Any) -> dict[str, Any]:
    row = {"id": f"e{lsn}", "aggregatetype": kind, "aggregateid": key, "type": "Changed", "payload": payload}
    images = {"before": {"id": f"e{lsn}"}, "after": None} if op in "dt" else {"before": None, "after": row}
    return {**images, "source": {"connector": "postgresql", "lsn": lsn, "table": "outbox"}, "op": op, **changed}


def build(folder: Path, *transforms: dict[str, Any], **options: Any) -> Pipeline:
    """Return the documented pipeline, or one with other transforms."""
    documented = yaml.safe_load(find_block("docs/transforms.md", "yaml", "outbox:"))
    source = {"files": {"path": str(folder / "bronze"), "format": "json"}}
    changed = {"transforms": list(transforms)} if transforms else {}
    return pipeline(folder, source=source, **documented | changed | options)


@pytest.mark.spark
@pytest.mark.one_spark
def test_events_are_routed_to_the_tables_of_their_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    write_events(
        tmp_path,
        TOPIC,
        0,
        event("c", 1, "order", "1", '{"total": 9.5, "lines": ["pen"]}'),
        event("d", 1, None, "1", None),
        event("c", 2, "user", "1", '{"name": "Arp"}'),
        event("c", 3, "order", "1", '{"total": 12, "lines": ["pen", "ink"]}'),
        event("u", 3, "order", "1", '{"total": 0}'),
        event("c", 4, "order", "2", '{"total": 1}'),
        event("c", 5, "or/der", "2", "{}"),
        event("c", 6, None, "3", "{}"),
        event("c", 7, "order", "3", "no json"),
        event("t", 8, None, "", None),
    )
    router = build(tmp_path)
    router.check(spark)
    router.run(spark)
    orders = rows(router, spark, "shop.order", "aggregateid")
    assert [(row["aggregateid"], str(row["total"]), row["lines"]) for row in orders] == [
        ("1", "12.00", ["pen", "ink"]),
        ("2", "1.00", None),
    ]
    assert rows(router, spark, "shop.user", "aggregateid") == [
        {"aggregateid": "1", "name": "Arp", "event_type": "Changed"}
    ]
    dead = router.read("dead_letters", spark=spark).select("table", "reason", "offset").orderBy("offset").collect()
    assert list(map(tuple, dead)) == [
        ("shop.shop.public.outbox", "table-name", 6),
        ("shop.shop.public.outbox", "untransformable", 7),
        ("shop.order", "untransformable", 8),
    ]
    write_events(
        tmp_path,
        TOPIC,
        100,
        event("d", 4, None, "2", None),
        event("t", 9, None, "", None),
        event("c", 10, "order", "2", ""),
    )
    router.run(spark)
    assert [row["aggregateid"] for row in rows(router, spark, "shop.order", "aggregateid")] == ["1"]
    assert not (tmp_path / "lake/iceberg/shop/shop").exists()


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.one_spark
def test_column_of_the_row_routes_only_events_without_deletes(spark: SparkSession, tmp_path: Path) -> None:
    """A delete of a row has no column to route it by."""
    write_events(tmp_path, TOPIC, 0, event("c", 1, "order", "1", "{}"))
    with pytest.raises(DataError, match=r"names 'after\.aggregatetype', which its events do not have outside the row"):
        build(tmp_path, {"unwrap": {}}).run(spark)
    with pytest.raises(
        DataError, match=r"transform outbox, topic shop\.public\.outbox: its input has rows in place of"
    ):
        build(tmp_path, {"unwrap": {}}, {"outbox": {}}).run(spark)


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.one_spark
def test_other_tables_of_the_pipeline_are_not_those_of_events(spark: SparkSession, tmp_path: Path) -> None:
    people = "shop.public.people"
    source = {"connector": "postgresql", "lsn": 1, "table": "people"}
    write_events(tmp_path, people, 0, {"before": None, "after": {"id": 1, "name": "Arp"}, "source": source, "op": "c"})
    deleted = {**event("d", 4, None, "1", None), "before": {"id": "e1", "payload": "canary"}}
    kinds = enumerate(("order", "people", "user", None), 1)
    write_events(tmp_path, TOPIC, 0, *[event("c", n, kind, "1", "canary") for n, kind in kinds], deleted)
    router = build(
        tmp_path,
        {"unwrap": {"tables": "shop.people"}},
        {"outbox": {"tables": ["shop.order"]}},
        {"mask": {"columns": {"payload": {"nullify": True}}}},
        tables=[
            {"source": TOPIC, "route.by.field": "after.aggregatetype", "target": "shop.{topic}"},
            {"source": people, "target": "shop.people", "key": ["id"]},
        ],
    )
    router.run(spark)
    assert rows(router, spark, "shop.order", "aggregateid") == [{"aggregateid": "1", "payload": None}]
    assert rows(router, spark, "shop.people", "id") == [{"id": 1, "name": "Arp"}]
    dead = router.read("dead_letters", spark=spark).select("reason", "offset").orderBy("offset").collect()
    assert list(map(tuple, dead)) == [("table-name", 1), ("table-name", 2), ("untransformable", 3)]
    assert {path.name for path in (tmp_path / "lake/iceberg/shop").iterdir()} == {"order", "people"}
    assert not find_on_disk("canary", tmp_path / "lake", tmp_path / "checkpoint")
