"""Folders of S3 objects, and completion of objects by time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from tests.support.s3_records import TOPIC, Orders, Record, order
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError
from headrace.sdk.changes import DELETED, OFFSET, PARTITION, POSITION, TOMBSTONE, TOPIC as TOPIC_COLUMN
from headrace.spark.sessions import Sessions
from headrace_sinks.s3.joda import translate_pattern
from headrace_sinks.s3.pending_records import describe_records
from headrace_sinks.s3.s3_sink import S3Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: 2015-07-17T22:30:00Z, which is 00:30 of the next day in Prague.
LATE = round(datetime(2015, 7, 17, 22, 30, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000


@pytest.fixture(scope="module")
def session(sessions: Sessions) -> SparkSession:
    return sessions.of("s3")


@pytest.fixture
def orders(tmp_path: Path, session: SparkSession) -> Callable[..., Orders]:
    def make(schema: str = "id int, name string", **options: Any) -> Orders:
        return Orders(tmp_path, session, {"flush.size": 100, "format": "json", **options}, schema)

    return make


def ids(table: Orders) -> dict[str, list[int]]:
    """Return folder and first offset of each object → the ids of its orders."""
    found = {}
    for name, rows in table.objects().items():
        folder, _, file = name.removeprefix(f"{TOPIC}/").rpartition("/")
        found[f"{folder} {int(file.split('+')[-1].split('.')[0])}"] = [row["id"] for row in rows]
    return found


def test_objects_by_columns_are_complete_together(orders: Callable[..., Orders]) -> None:
    table = orders(
        "id int, name string, place struct<city: string, no: int>, ok boolean",
        **{"flush.size": 4, "partitioner": "field", "partition.field.name": "name, place.city,ok"},
    )
    brno: dict[str, Any] = {"place": {"city": "Brno", "no": 1}, "ok": True}
    rows: list[dict[str, Any]] = [
        {"id": 0, "name": "a", **brno},
        {"id": 1, "name": None, "place": None, "ok": False},
        {"id": 2, "name": "a", **brno},
        {"id": 3, "name": "Žďár a/b:c ?%#%2F", **brno},
        {"id": 4, "name": "a", **brno},
    ]
    table.write(*[Record(row["id"], row) for row in rows])
    assert ids(table) == {
        "name=a/place.city=Brno/ok=true 0": [0, 2],
        "name=null/place.city=null/ok=false 1": [1],
        "name=Žďár a%2Fb:c ?%#%252F/place.city=Brno/ok=true 3": [3],
    }
    table.options["partition.field.name"] = "nam"
    with pytest.raises(DataError, match=r"`partition.field.name` names the unknown column 'nam'.*\n.*name"):
        table.write(Record(5, rows[0]))


def test_topics_without_a_folder_of_their_own_are_in_the_path(orders: Callable[..., Orders]) -> None:
    table = orders(**{"flush.size": 2, "topics.dir": ""})
    table.write(order(0), order(1))
    objects = [path for path in (table.folder / TOPIC / "partition=0").iterdir() if not path.name.startswith(".")]
    assert [path.name for path in objects] == [f"{TOPIC}+0+0000000000.json"]
    assert sorted(row["id"] for row in table.read_back().collect()) == [0, 1]


@pytest.mark.parametrize(
    ("options", "folders"),
    nightly_after(
        1,
        [
            (
                {"partitioner": "daily", "timezone": "Europe/Prague"},
                ["year=2015/month=07/day=18 0", "year=2015/month=07/day=17 1"],
            ),
            (
                {"partitioner": "hourly"},
                ["year=2015/month=07/day=17/hour=22 0", "year=2015/month=07/day=17/hour=20 1"],
            ),
            (
                {
                    "partitioner": "time-based",
                    "path.format": "'at'_YYYY-MM-dd/EEE/HHmm",
                    "partition.duration.ms": 900_000,
                    "timezone": "Asia/Kathmandu",  # UTC+05:45
                },
                ["at_2015-07-18/Sat/0415 0", "at_2015-07-18/Sat/0215 1"],
            ),
        ],
    ),
    ids=lambda value: value.get("partitioner", "") if isinstance(value, dict) else "",
)
def test_objects_by_record_timestamp(
    orders: Callable[..., Orders], options: dict[str, Any], folders: list[str]
) -> None:
    table = orders(**{"flush.size": 3, "timestamp.extractor": "Record", **options})
    table.write(order(0, time=LATE), order(1, time=LATE - 2 * HOUR), order(2, time=LATE + 1000))
    assert ids(table) == dict(zip(folders, [[0, 2], [1]], strict=True))


@pytest.mark.parametrize(
    ("sql_type", "value"),
    nightly_after(
        2,
        [
            ("bigint", LATE),
            ("string", "2015-07-18T00:30:00+02:00"),
            ("timestamp", "2015-07-17T22:30:00Z"),
            ("date", "2015-07-17"),
        ],
    ),
)
def test_record_time_from_a_column(orders: Callable[..., Orders], sql_type: str, value: Any) -> None:
    table = orders(
        f"id int, after struct<made: {sql_type}>",
        **{
            "flush.size": 1,
            "partitioner": "daily",
            "timestamp.extractor": "RecordField",
            "timestamp.field": "after.made",
        },
    )
    table.write(Record(0, {"id": 0, "after": {"made": value}}))
    assert ids(table) == {"year=2015/month=07/day=17 0": [0]}


@pytest.fixture(scope="module")
def new_york(sessions: Sessions) -> SparkSession:
    """Return a session in a time zone in which 2026-03-08 has no hour 2, and 2026-11-01 has two hours 1."""
    session = sessions.of("new_york")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    return session


def list_folders(rows: DataFrame, **options: Any) -> list[str]:
    """Return the folders of rows in their order."""
    sink = S3Sink({"path": "unused", "flush.size": 1, **options})
    location = {TOPIC_COLUMN: F.lit("t"), PARTITION: F.lit(0), OFFSET: F.lit(0), TOMBSTONE: F.lit(False)}
    records = describe_records(rows.withColumns({POSITION: F.lit(""), DELETED: F.lit(False), **location}), sink.config)
    return [str(row["encoded"]) for row in records.select("encoded").collect()]


@pytest.mark.parametrize(
    "times",
    [
        ["2026-03-08 02:30:00", "2026-03-08 07:30:00", "2026-11-01 01:30:00", "2026-11-01 06:30:00", "2026-07-01 10:15:00"],
        ["1900-01-01 00:30:00", "0001-01-01 02:00:00", "9999-12-31 23:59:59"],
    ],
    ids=["daylight saving", "far"],
)  # fmt: skip
def test_folders_do_not_depend_on_the_time_zone_of_the_session(new_york: SparkSession, times: list[str]) -> None:
    rows = new_york.range(0, 1, 1, 1).select(F.explode(F.array(*map(F.lit, times))).alias("text"))
    rows = rows.select(
        F.col("text").cast("timestamp_ntz").alias("local"),
        F.concat("text", F.lit("Z")).cast("timestamp").alias("instant"),
        F.regexp_replace("text", " ", "T").alias("text"),
        F.col("text").cast("date").alias("day"),
    ).withColumn("number", F.unix_millis("instant"))
    by_hour = {"partitioner": "hourly", "timestamp.extractor": "RecordField"}
    hours = [f"year={t[:4]}/month={t[5:7]}/day={t[8:10]}/hour={t[11:13]}" for t in times]
    for column in ("local", "instant", "text", "number"):
        assert list_folders(rows, **by_hour, **{"timestamp.field": column}) == hours
    assert list_folders(rows, **by_hour, **{"timestamp.field": "day"}) == [hour[:-2] + "00" for hour in hours]
    fields = {"partitioner": "field", "partition.field.name": "instant, local"}
    assert list_folders(rows, **fields) == [f"instant={time}/local={time}" for time in times]


def test_timestamp_in_a_folder_name_has_the_time_zone_of_the_sink(new_york: SparkSession) -> None:
    rows = new_york.sql("SELECT timestamp'2026-03-08T01:30:00.25Z' AS at")
    folders = list_folders(rows, partitioner="field", timezone="Europe/Prague", **{"partition.field.name": "at"})
    assert folders == ["at=2026-03-08 02:30:00.25"]


def test_record_without_time_is_an_error(orders: Callable[..., Orders]) -> None:
    table = orders(**{"partitioner": "daily", "timestamp.extractor": "RecordField", "timestamp.field": "name"})
    with pytest.raises(Exception, match="headrace-s3") as caught:
        table.write(order(0, "2015-07-17"), order(1, "soon"))
    error = table.sink.explain(caught.value)
    assert isinstance(error, DataError)
    assert f"topic {TOPIC}, partition 0, offset 1: the record has no timestamp in `timestamp.field` name" in str(error)
    table.options["timestamp.field"], table.schema = "id", "id bigint"
    with pytest.raises(Exception, match="headrace-s3") as caught:
        table.write(Record(0, {"id": 1_700_000_000_000}), Record(1, {"id": 1_700_000_000_000_000_000}))
    assert "offset 1: the record has a timestamp that is out of range" in str(table.sink.explain(caught.value))
    table.options = {"flush.size": 1, "partitioner": "daily", "timestamp.extractor": "Record"}
    with pytest.raises(Exception, match="has no timestamp, and"):
        table.write(order(0, time=None))


def test_partition_by_processing_time(orders: Callable[..., Orders], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_sinks.s3.pending_records.time.time", lambda: LATE / 1000)
    table = orders(**{"flush.size": 1, "partitioner": "hourly"})
    table.write(order(0))
    assert ids(table) == {"year=2015/month=07/day=17/hour=22 0": [0]}


def test_newer_record_completes_objects(orders: Callable[..., Orders]) -> None:
    table = orders(**{"rotate.interval.ms": 60, "timestamp.extractor": "Record"})
    table.write(order(0, time=1000), order(1, time=900), order(2, time=1059))
    assert ids(table) == {}
    table.write(order(3, time=1060), order(4, time=1100))
    assert ids(table) == {"partition=0 0": [0, 1, 2]}
    # A longer interval counts from the first waiting record, not from the option change.
    table.options["rotate.interval.ms"] = 200
    table.write(order(5, time=1259))
    assert ids(table) == {"partition=0 0": [0, 1, 2]}
    table.write(order(6, time=1260), order(7, time=1400))
    assert ids(table) == {"partition=0 0": [0, 1, 2], "partition=0 3": [3, 4, 5]}
    table.options["rotate.interval.ms"] = 10
    table.write(order(8, time=1401))
    assert ids(table)["partition=0 6"] == [6, 7]


def test_next_hour_completes_the_previous_object(orders: Callable[..., Orders]) -> None:
    table = orders(**{"partitioner": "hourly", "rotate.interval.ms": 10 * HOUR, "timestamp.extractor": "Record"})
    table.write(order(0, time=LATE), order(1, time=LATE + HOUR), order(2, time=LATE + HOUR), order(3, time=LATE))
    assert ids(table) == {
        "year=2015/month=07/day=17/hour=22 0": [0],
        "year=2015/month=07/day=17/hour=23 1": [1, 2],
    }


def test_timer_completes_objects_of_idle_topics(orders: Callable[..., Orders], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [LATE]
    monkeypatch.setattr(S3Sink, "_now", staticmethod(lambda: clock[0]))
    table = orders(**{"rotate.schedule.interval.ms": HOUR})
    table.write(order(0), order(1), order(0, partition=1))
    clock[0] += 29 * 60_000
    assert table.on_idle() == 60  # seconds until 23:00
    table.write(order(2))
    assert ids(table) == {}
    clock[0] += 60_000
    assert table.on_idle() == 3600
    assert ids(table) == {"partition=0 0": [0, 1, 2], "partition=1 0": [0]}
    assert table.on_idle() == 3600  # no record waits, and no empty object is written
    # A record after the full hour starts the next object.
    table.write(order(3))
    clock[0] += HOUR
    table.write(order(4))
    assert ids(table)["partition=0 3"] == [3]
    # A new interval also applies to waiting records: they are due at its next multiple.
    table.options["rotate.schedule.interval.ms"] = 6 * HOUR
    clock[0] = LATE + 4 * HOUR  # 02:30
    table.on_idle()
    assert "partition=0 4" not in ids(table)
    table.options["rotate.schedule.interval.ms"] = -1
    assert table.on_idle() is None
    table.options["rotate.schedule.interval.ms"] = 2 * HOUR
    table.on_idle()
    assert ids(table)["partition=0 4"] == [4]


@pytest.mark.parametrize(
    ("pattern", "java"),
    [
        ("'year'=YYYY/'month'=MM", "'year'=yyyy/'month'=MM"),
        ("yyyy/DDD/HH-mm-ss.SSS a hh", "yyyy/DDD/HH-mm-ss.SSS a hh"),
        ("'it''s' MMM", "'it''s' MMM"),
        ("[YY]", "'['yy']'"),
    ],
)
def test_joda_time_patterns(pattern: str, java: str) -> None:
    assert translate_pattern(pattern, "en-GB") == java


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flush.size": 0}, "flush.size"),
        ({"partitioner": "field"}, "`partitioner: field` and `partition.field.name` require each other"),
        ({"partition.field.name": "id"}, "require each other"),
        ({"partitioner": "time-based", "path.format": "YYYY"}, "requires `path.format` and `partition.duration.ms`"),
        ({"partitioner": "daily", "path.format": "YYYY"}, "require `partitioner: time-based`"),
        (
            {"partitioner": "time-based", "path.format": "xxxx/ww", "partition.duration.ms": 1},
            "unsupported letters 'xxxx'",
        ),
        ({"partitioner": "time-based", "path.format": "'x", "partition.duration.ms": 1}, "an unclosed quote"),
        (
            {"partitioner": "time-based", "path.format": "MMM", "partition.duration.ms": 1, "locale": "cs-CZ"},
            "is not English",
        ),
        ({"timezone": "Prague"}, "unknown time zone 'Prague'"),
        ({"behavior.on.null.values": "write"}, "requires `store.kafka.keys: true`"),
        ({"topics.dir": "a/../b"}, "`topics.dir`"),
        ({"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}, "unknown key"),
        ({"format": "bytes", "partitioner": "field", "partition.field.name": "id"}, "has no columns to partition by"),
    ],
    ids=str,
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        S3Sink({"path": "s3a://bucket", "flush.size": 1, **options})
