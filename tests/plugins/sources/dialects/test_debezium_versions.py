"""Envelopes of Debezium's versions and of connectors other than PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import make_changes, record, rows_of, samples
from tests.support.tiers import nightly_after

from headrace.sdk.changes import COMMITTED, DELETED, ERROR, KEY, OFFSET, OP, POSITION
from headrace_sources.dialects.debezium import DebeziumDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

_POSTGRES = {"connector": "postgresql", "name": "moma", "db": "moma", "schema": "public", "table": "artists"}
_MYSQL = {"connector": "mysql", "name": "moma", "db": "moma", "table": "artists", "server_id": 1, "gtid": None}
_BLOCK = {"id": "571:25", "total_order": 1, "data_collection_order": 1}


def _postgres(version: str, lsn: int, **more: Any) -> dict[str, Any]:
    return {"version": version, **_POSTGRES, "ts_ms": lsn, "snapshot": "false", "txId": 571, "lsn": lsn, **more}


def _mysql(version: str, pos: int, **more: Any) -> dict[str, Any]:
    position = {"file": "mysql-bin.000009", "pos": pos, "row": 0, "thread": 7, "query": None}
    return {"version": version, **_MYSQL, "ts_ms": pos, "snapshot": "false", **position, **more}


def _sequence(lsn: int) -> str:
    return json.dumps([str(lsn), str(lsn)], separators=(",", ":"))


#: Source block and extra envelope fields per version, in ascending order of position.
POSTGRES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # Old versions wrote `snapshot` as a boolean and had no `transaction` in the envelope.
    "0.10": ({**_postgres("0.10.0.Final", 90), "snapshot": True, "xmin": None}, {}),
    "1.0": (_postgres("1.0.3.Final", 99, xmin=None), {}),
    "1.4": (_postgres("1.4.2.Final", 100, xmin=12), {"transaction": None}),
    "1.6": (_postgres("1.6.1.Final", 1000, xmin=None, sequence=_sequence(1000)), {"transaction": None}),
    "2.1": (_postgres("2.1.4.Final", 1001, xmin=None, sequence=_sequence(1001)), {"transaction": _BLOCK}),
    "2.7": (
        _postgres("2.7.0.Final", 9000, xmin=None, sequence=_sequence(9000), ts_us=9000000, ts_ns=9000000000),
        {"transaction": _BLOCK, "ts_us": 9000001, "ts_ns": 9000001000},
    ),
    "3.6": (
        _postgres("3.6.1.Final", 10000, sequence=_sequence(10000), ts_us=1, ts_ns=1000, origin=None, origin_lsn=None),
        {"transaction": None, "ts_us": 2, "ts_ns": 2000},
    ),
}
MYSQL: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "1.0": (_mysql("1.0.3.Final", 90), {}),
    "1.9": (_mysql("1.9.7.Final", 100, sequence=None), {"transaction": None}),
    "2.1": (_mysql("2.1.4.Final", 1000, sequence=None), {"transaction": _BLOCK}),
    "3.6": (_mysql("3.6.1.Final", 10000, sequence=None, ts_us=1, ts_ns=1000), {"ts_us": 2, "ts_ns": 2000}),
}


def _event(number: int, source: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    before, after = ({"id": 1, "n": number - 1} if number else None), {"id": 1, "n": number}
    op = "u" if number else "c"
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1700, **more}


@pytest.mark.parametrize("connector", nightly_after(1, [POSTGRES, MYSQL]), ids=["postgres", "mysql"])
class TestVersions:
    @pytest.mark.nightly
    def test_each_version_in_own_topic(
        self, spark: SparkSession, connector: Mapping[str, tuple[dict[str, Any], dict[str, Any]]]
    ) -> None:
        # One topic per version, so that the fields of one version do not affect another.
        records = [
            record(_event(1, source, more), key={"id": 1}, topic=f"moma.public.v{version.replace('.', '_')}")
            for version, (source, more) in connector.items()
        ]
        found = make_changes(spark, records)
        assert set(found) == {f"v{version.replace('.', '_')}" for version in connector}
        for version, (source, _) in connector.items():
            [row] = rows_of(found[f"v{version.replace('.', '_')}"], OP, ERROR, DELETED, COMMITTED, KEY, "after")
            assert row == {
                OP: "u",
                ERROR: None,
                DELETED: False,
                COMMITTED: source["ts_ms"],
                KEY: {"id": 1},
                "after": {"id": 1, "n": 1},
            }

    def test_one_topic_with_all_versions(
        self, spark: SparkSession, connector: Mapping[str, tuple[dict[str, Any], dict[str, Any]]]
    ) -> None:
        events = [_event(n, source, more) for n, (source, more) in enumerate(connector.values())]
        # Records of later versions have lower offsets.
        records = [record(event, key={"id": 1}, offset=100 - n) for n, event in enumerate(events)]
        [changes] = make_changes(spark, records).values()
        rows = sorted(rows_of(changes, POSITION, "after", ERROR), key=lambda row: row[POSITION])
        assert [row["after"]["n"] for row in rows] == list(range(len(events)))
        assert {row[ERROR] for row in rows} == {None}


class TestRealEvents:
    """Recorded events of the MySQL and MariaDB connectors, and of a PostgreSQL connector with transaction metadata."""

    @pytest.mark.nightly
    def test_events_sort_by_offset(self, spark: SparkSession) -> None:
        for prefix in ("mysql_json_strmodes", "mariadb_json", "pg_json_strmodes"):
            records = [r for r in samples("other_envelopes") if r["topic"].startswith(f"{prefix}.inventory.")]
            for table, changes in make_changes(spark, records, keyed=False).items():
                rows = rows_of(changes, POSITION, OFFSET, OP)
                assert [r[OFFSET] for r in sorted(rows, key=lambda r: r[POSITION])] == [r[OFFSET] for r in rows]
                assert {"r", "d", "c"} <= {r[OP] for r in rows}, (prefix, table)

    def test_composite_key_events(self, spark: SparkSession) -> None:
        records = [r for r in samples("other_envelopes") if r["topic"] == "mariadb_json.inventory.composite_key"]
        [changes] = make_changes(spark, records).values()
        rows = rows_of(changes, OP, KEY, DELETED, ERROR)
        assert [tuple(row.values()) for row in rows] == [
            ("r", {"region": "eu", "num": 1}, False, None),
            ("r", {"region": "us", "num": 9007199254740993}, False, None),
            # A change of the key.
            ("d", {"region": "eu", "num": 1}, True, None),
            ("c", {"region": "eu", "num": 2}, False, None),
            ("c", {"region": "ap", "num": 7}, False, None),
            ("t", None, False, "truncated"),
        ]

    @pytest.mark.parametrize(
        ("topic", "about"),
        [
            ("__debezium-heartbeat.pg_json_strmodes", "Debezium's heartbeats"),
            ("pg_json_strmodes.transaction", "transaction boundaries"),
            ("mysql_json_strmodes.transaction", "transaction boundaries"),
            ("mysql_json_strmodes", "schema changes"),
            ("mariadb_json", "schema changes"),
            ("mariadb_json.inventory.customers", None),
        ],
    )
    def test_metadata_topics(self, spark: SparkSession, topic: str, about: str | None) -> None:
        texts = [json.dumps(r["value"]) for r in samples("other_envelopes") if r["topic"] == topic and r["value"]]
        schema = spark.read.json(spark.sparkContext.parallelize(texts)).schema
        assert DebeziumDialect().metadata_topic(topic, schema) == about
