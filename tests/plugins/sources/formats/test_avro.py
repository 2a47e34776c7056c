"""Avro files: merged writer schemas of a batch, and errors that name the invalid file."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
import pytest
from pyspark.sql.types import DateType, IntegerType, TimestampType
from tests.support.bronze import Bronze, optional, write_avro
from tests.support.files import batch_of, events_of, in_order
from tests.support.pipelines import pipeline, rows

from headrace.errors import DataError, HeadraceError
from headrace.sdk.events import DETAIL, ERROR, PLACE, RAW, VALUE, Events
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace_sources.formats.avro import AvroFormat
from headrace_sources.transports.file_errors import make_damage_error
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REAL = Path(__file__).parents[3] / "data" / "msk_demo"
TOPIC = "moma.public.artists"


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Value", "fields": [{"name": n, "type": kind} for n, kind in fields.items()]}


def write_files(folder: Path, *files: tuple[dict[str, Any], list[dict[str, Any]]]) -> Path:
    """Write one file per schema with its records, all in one topic."""
    for i, (schema, records) in enumerate(files):
        write_avro(folder / TOPIC / f"{TOPIC}+0+{i:010}.avro", schema, records)
    return folder


def oversized_file(codec: str) -> bytes:
    """Return a small file with a block that inflates to, or claims to have, 2 GB."""
    if codec == "deflate":
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        block = b"".join(deflate.compress(bytes(1 << 24)) for _ in range(124)) + deflate.flush()
    elif codec == "zstandard":  # a frame of blocks that repeat one byte 128 KB long
        repeat = (128 << 10) << 3 | 0b010
        parts = [repeat.to_bytes(3, "little") + b"\0"] * (1 << 14) + [(repeat | 1).to_bytes(3, "little") + b"\0"]
        block = bytes.fromhex("28b52ffd0058") + b"".join(parts)
    else:
        block = bytes.fromhex("ffffffff07") + bytes(30)
    schema, marker = json.dumps(record(id="int", s="bytes")).encode(), b"S" * 16
    names = {b"avro.schema": schema, b"avro.codec": codec.encode()}
    meta = b"".join(number(len(text)) + text for item in names.items() for text in item)
    size = 2**31 - 1 if codec == "null" else len(block)
    return b"Obj\1" + number(2) + meta + number(0) + marker + number(1) + number(size) + block + marker


def number(value: int) -> bytes:
    """Return Avro's encoding of a number that is not negative."""
    value, encoded = value << 1, bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def only_events(found: list[Events]) -> Events:
    [events] = found
    return events


class TestWriterSchemas:
    def test_added_and_removed_columns(self, spark: SparkSession, tmp_path: Path) -> None:
        bronze = Bronze(tmp_path)
        artists = bronze.topic(TOPIC, key="id", columns={"id": "int", "name": "string"})
        artists.insert({"id": 1, "name": "Arp"})
        artists.flush()
        artists.columns = {"id": "int", "country": "string"}
        artists.insert({"id": 2, "country": "FR"})
        artists.delete({"id": 1})
        artists.flush()
        events = only_events(events_of(spark, tmp_path, "avro"))
        rows = in_order(spark, events)
        assert [row["after"] for row in rows] == [
            {"id": 1, "name": "Arp", "country": None},
            {"id": 2, "name": None, "country": "FR"},
            None,
        ]
        assert [row["before"] for row in rows] == [None, None, {"id": 1, "name": None, "country": None}]

    def test_widened_types(self, spark: SparkSession, tmp_path: Path) -> None:
        write_files(
            tmp_path,
            (record(n="int", x="float", d=decimal(6, 2)), [{"n": 2**31 - 1, "x": 0.5, "d": Decimal("12.34")}]),
            (record(n="long", x="double", d=decimal(12, 2)), [{"n": 2**40, "x": 0.1, "d": Decimal("1234567890.12")}]),
        )
        events = only_events(events_of(spark, tmp_path, "avro"))
        assert events.schema.simpleString() == "struct<n:bigint,x:double,d:decimal(12,2)>"
        found = [(row["n"], row["x"], str(row["d"])) for row in in_order(spark, events)]
        assert found == [(2**31 - 1, 0.5, "12.34"), (2**40, 0.1, "1234567890.12")]

    def test_widened_types_in_arrays(self, spark: SparkSession, tmp_path: Path) -> None:
        def items(**fields: Any) -> Any:
            return record(items={"type": "array", "items": {**record(**fields), "name": "Item"}})

        write_files(
            tmp_path,
            (items(a="int"), [{"items": [{"a": 1}]}]),
            (items(a="long", b="string"), [{"items": [{"a": 2**40, "b": "x"}]}]),
        )
        assert in_order(spark, only_events(events_of(spark, tmp_path, "avro")), "items") == [
            [{"a": 1, "b": None}],
            [{"a": 2**40, "b": "x"}],
        ]

    def test_incompatible_types(self, spark: SparkSession, tmp_path: Path) -> None:
        bronze = Bronze(tmp_path)
        artists = bronze.topic(TOPIC, key="id", columns={"id": "int", "age": "int"})
        artists.insert({"id": 1, "age": 30})
        artists.flush()
        artists.columns = {"id": "int", "age": "string"}
        artists.insert({"id": 1, "age": "thirty"})
        artists.flush()
        with pytest.raises(DataError) as raised:
            events_of(spark, tmp_path, "avro")
        assert str(raised.value) == (
            "topic moma.public.artists: the column 'before.age' is int in some records and string in others\n"
            "  fix: read the two types with separate pipelines, or cast the column in the producer of the events"
        )

    def test_files_of_one_schema_are_one_scan(self, spark: SparkSession, tmp_path: Path) -> None:
        one, other = record(n="int"), record(n="int", m="int")
        write_files(tmp_path, (one, [{"n": 1}]), (other, [{"n": 2, "m": 3}]), (one, [{"n": 4}]))
        files = sorted(f"file:{path}" for path in tmp_path.rglob("*.avro"))
        scans = AvroFormat().scans(spark, files, {})
        assert [scan.files for scan in scans] == [(files[0], files[2]), (files[1],)]
        assert [scan.schema.simpleString() for scan in scans] == ["struct<n:int>", "struct<n:int,m:int>"]

    @pytest.mark.parametrize("kind", ["envelope", "flat"])
    def test_schema_without_connect_names_equals_spark_schema(self, spark: SparkSession, kind: str) -> None:
        path = next((REAL / kind).rglob("*.avro"))
        [scan] = AvroFormat().scans(spark, [f"file:{path}"], {})
        assert scan.schema == spark.read.format("avro").load(f"file:{path}").schema


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def connect_type(avro_type: str, connect_name: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a type with Kafka Connect's name, as Confluent's AvroData writes it."""
    return {"type": avro_type, **({"connect.name": connect_name} if connect_name else {}), **more}


DEBEZIUM, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
MONEY = connect_type(
    "bytes", CONNECT + "Decimal", logicalType="decimal", precision=64, scale=2, **{"connect.version": 1}
)
LONG_DECIMAL = connect_type(
    "bytes",
    CONNECT + "Decimal",
    logicalType="decimal",
    precision=50,
    scale=1,
    **{"connect.parameters": {"scale": "1", "connect.decimal.precision": "50"}},
)
ANY_SCALE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}
INSTANT = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
WALL_CLOCK = INSTANT.replace(tzinfo=None)
SECONDS = int(INSTANT.timestamp())
#: Column → Avro type, stored value, table type and table value.
TYPES: dict[str, tuple[Any, Any, str, Any]] = {
    "days": (connect_type("int", DEBEZIUM + "Date"), 7300, "date", date(1989, 12, 27)),
    "connect_days": (connect_type("int", CONNECT + "Date", logicalType="date"), 7300, "date", date(1989, 12, 27)),
    "millis": (connect_type("long", DEBEZIUM + "Timestamp"), SECONDS * 1000, "timestamp_ntz", WALL_CLOCK),
    "micros": (connect_type("long", DEBEZIUM + "MicroTimestamp"), SECONDS * 10**6, "timestamp_ntz", WALL_CLOCK),
    "nanos": (connect_type("long", DEBEZIUM + "NanoTimestamp"), SECONDS * 10**9, "timestamp_ntz", WALL_CLOCK),
    "connect_millis": (
        connect_type("long", CONNECT + "Timestamp", logicalType="timestamp-millis"),
        SECONDS * 1000,
        "timestamp_ntz",
        WALL_CLOCK,
    ),
    "zoned": (connect_type("string", DEBEZIUM + "ZonedTimestamp"), "2024-05-06T09:08:09+02:00", "timestamp", INSTANT),
    "time": (connect_type("int", CONNECT + "Time", logicalType="time-millis"), 1000, "bigint", 1_000_000),
    "avro_time": (connect_type("int", logicalType="time-millis"), 1000, "bigint", 1_000_000),
    "micro_time": (connect_type("long", DEBEZIUM + "MicroTime"), 1_000_000, "bigint", 1_000_000),
    "nano_time": (connect_type("long", DEBEZIUM + "NanoTime"), 1_000_000_900, "bigint", 1_000_000),
    "small": (connect_type("int", **{"connect.type": "int16"}), 7, "smallint", 7),
    "price": (decimal(8, 2), Decimal("12.34"), "decimal(8,2)", Decimal("12.34")),
    "money": (MONEY, Decimal("-12.34"), "decimal(38,2)", Decimal("-12.34")),
    "long_decimal": (LONG_DECIMAL, (-(10**45)).to_bytes(20, "big", signed=True), "string", "-1" + "0" * 44 + ".0"),
    "any_scale": (ANY_SCALE, {"scale": 1, "value": b"\x0f"}, "string", "1.5"),
    "days_in_list": (
        {"type": "array", "items": connect_type("int", DEBEZIUM + "Date")},
        [7300],
        "array<date>",
        [date(1989, 12, 27)],
    ),
    "kind": (connect_type("string", "io.debezium.data.Enum"), "a", "string", "a"),
    "somebodys": (connect_type("long", "acme.Money"), 5, "bigint", 5),
    # Avro's own logical types, without a name of Kafka Connect.
    "plain_days": (connect_type("int", logicalType="date"), 7300, "date", date(1989, 12, 27)),
    "plain_instant": (connect_type("long", logicalType="timestamp-micros"), SECONDS * 10**6, "timestamp", INSTANT),
    "plain_wall_clock": (
        connect_type("long", logicalType="local-timestamp-millis"),
        SECONDS * 1000,
        "timestamp_ntz",
        WALL_CLOCK,
    ),
    "plain_time": (connect_type("long", logicalType="time-micros"), 5, "bigint", 5),
    "plain_uuid": (connect_type("string", logicalType="uuid"), str(UUID(int=1)), "string", str(UUID(int=1))),
}
ROW = {"type": "record", "name": "Value", "fields": [optional(n, avro) for n, (avro, *_) in TYPES.items()]}
STORED = {name: stored for name, (_, stored, *_) in TYPES.items()}


class TestKafkaConnectNames:
    """A column has the same type in files and in single records."""

    @pytest.fixture(autouse=True)
    def utc(self, spark: SparkSession) -> Iterator[None]:
        zone = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        yield
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")

    def test_columns_have_the_types_of_their_connect_names(self, spark: SparkSession, tmp_path: Path) -> None:
        write_files(tmp_path, (ROW, [STORED, dict.fromkeys(STORED)]))
        events = only_events(events_of(spark, tmp_path, "avro"))
        assert {field.name: field.dataType.simpleString() for field in events.schema} == {
            name: table for name, (_, _, table, _) in TYPES.items()
        }
        found, nulls = (row[VALUE].asDict() for row in events.load(spark, events.schema).orderBy(PLACE).collect())
        local = {
            name: value.astimezone(UTC) if TYPES[name][2] == "timestamp" else value for name, value in found.items()
        }
        assert local == {name: value for name, (*_, value) in TYPES.items()}
        assert set(nulls.values()) == {None}

    def test_file_and_single_record_decode_to_the_same_row(self, spark: SparkSession, tmp_path: Path) -> None:
        write_files(tmp_path, (ROW, [STORED]))
        file_events = only_events(events_of(spark, tmp_path, "avro"))
        (tmp_path / "schema.avsc").write_text(json.dumps(ROW))
        record_bytes = io.BytesIO()
        fastavro.schemaless_writer(record_bytes, fastavro.parse_schema(dict(ROW)), STORED)
        frame = spark.createDataFrame([(record_bytes.getvalue(),)], "value binary")
        avro = AvroFormat({"schema.file": str(tmp_path / "schema.avsc")})
        reader = avro.open(spark, frame, "value", Subject(TOPIC, "value"), SchemaLog())
        decoded = reader.decode(frame, "value", reader.schema, "error")
        assert file_events.schema == reader.schema
        assert decoded.select("value").collect() == file_events.load(spark, file_events.schema).select(VALUE).collect()

    def test_envelopes_of_several_schemas_are_one_scan(self, spark: SparkSession, tmp_path: Path) -> None:
        bronze = Bronze(tmp_path)
        artists = bronze.topic(TOPIC, key="id", columns={"id": "int", "born": connect_type("int", DEBEZIUM + "Date")})
        artists.insert({"id": 1, "born": 7300})
        artists.flush()
        artists.columns["seen"] = connect_type("long", DEBEZIUM + "MicroTimestamp")
        artists.insert({"id": 2, "born": 7300, "seen": SECONDS * 10**6})
        artists.flush()
        events = only_events(events_of(spark, tmp_path, "avro"))
        assert in_order(spark, events, "after") == [
            {"id": 1, "born": date(1989, 12, 27), "seen": None},
            {"id": 2, "born": date(1989, 12, 27), "seen": WALL_CLOCK},
        ]
        plan = events.load(spark, events.schema)._jdf.queryExecution().executedPlan().toString()
        assert plan.count("FileScan avro") == 1

    def test_out_of_range_value_is_a_dead_letter_with_the_complete_record(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        row = record(n="int", day=connect_type("int", DEBEZIUM + "Date"))
        write_files(tmp_path, (row, [{"n": 1, "day": 7300}, {"n": 2, "day": 2**31 - 1}]))
        events = only_events(events_of(spark, tmp_path, "avro"))
        frame = events.load(spark, events.schema)
        good, bad = frame.orderBy(PLACE).collect()
        assert [good[DETAIL], bad[DETAIL]] == [None, "the field `day` does not fit its type date"]
        plans = [f._jdf.queryExecution().optimizedPlan().toString() for f in (frame, frame.drop(DETAIL))]
        assert ["does not fit" in plan for plan in plans] == [True, False]
        assert (good[VALUE].asDict(), good[ERROR]) == ({"n": 1, "day": date(1989, 12, 27)}, None)
        assert (bad[VALUE].asDict(), bad[ERROR]) == ({"n": 2, "day": None}, "undecodable")
        assert bytes(bad[RAW]) == b'{"n":2,"day":2147483647}'

    def test_table_written_without_connect_names_keeps_its_types(self, spark: SparkSession, tmp_path: Path) -> None:
        table = {"born": IntegerType(), "died": DateType(), "connect_millis": TimestampType(), "small": IntegerType()}
        log = SchemaLog(table_types=lambda topic: table)
        day = connect_type("int", DEBEZIUM + "Date")
        row = record(born=day, died=day, connect_millis=TYPES["connect_millis"][0], small=TYPES["small"][0], new=day)
        write_files(
            tmp_path,
            (row, [{"born": 7300, "died": 7300, "connect_millis": SECONDS * 1000, "small": 7, "new": 7300}]),
        )
        events = only_events(events_of(spark, tmp_path, "avro", log))
        assert events.schema.simpleString() == (
            "struct<born:int,died:date,connect_millis:timestamp,small:smallint,new:date>"
        )
        [found] = in_order(spark, events)
        assert (found["born"], found["died"], found["small"]) == (7300, date(1989, 12, 27), 7)


def test_table_keeps_numeric_days_and_new_column_is_a_date(spark: SparkSession, tmp_path: Path) -> None:
    """Older rows hold dates as numbers, and a date cannot be stored in the same column."""
    day = connect_type("int", DEBEZIUM + "Date")
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns={"artist_id": "int", "born": "int"})
    artists.insert({"artist_id": 1, "born": 7300})
    artists.flush()
    pipe = pipeline(tmp_path)
    pipe.run(spark)
    artists.columns |= {"born": day, "died": day}
    artists.insert({"artist_id": 2, "born": 7301, "died": 7301})
    artists.flush()
    pipe.run(spark)
    assert rows(pipe, spark) == [
        {"artist_id": 1, "born": 7300, "died": None},
        {"artist_id": 2, "born": 7301, "died": date(1989, 12, 28)},
    ]


def test_real_files(spark: SparkSession) -> None:
    events = only_events(events_of(spark, REAL / "envelope", "avro"))
    ids = [row["artist_id"] for row in in_order(spark, events, "after")]
    assert (events.topic, len(ids), len(set(ids))) == (TOPIC, 900, 900)


class TestBadFiles:
    """If one file of a batch is unreadable, nothing of the batch is written."""

    FIX = "\n  fix: move it out of the folder and set `ignoreMissingFiles: true` next to `path:`; nothing of this batch was written"

    @staticmethod
    def good(folder: Path) -> Path:
        """Write a file of three blocks."""
        records = [{"n": n} for n in range(300)]
        return write_avro(folder / TOPIC / f"{TOPIC}+0+0.avro", record(n="int"), records, sync_interval=200)

    def error_message(self, spark: SparkSession, folder: Path) -> str:
        with pytest.raises(DataError) as raised:
            events_of(spark, folder, "avro")
        return str(raised.value)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"id,name\n1,Arp\n", "not an Avro file: it does not start with 'Obj' and 1"),
            (b"", "the file is empty: an Avro file has at least a header"),
            (b"O", "not an Avro file: it does not start with 'Obj' and 1"),
            (b"PAR1....PAR1", "not an Avro file: it does not start with 'Obj' and 1"),
        ],
    )
    def test_files_other_than_avro(self, spark: SparkSession, tmp_path: Path, content: bytes, reason: str) -> None:
        bad = self.good(tmp_path).with_name(f"{TOPIC}+0+300.avro")
        bad.write_bytes(content)
        assert self.error_message(spark, tmp_path) == f"file:{bad}: {reason}{self.FIX}"

    def test_truncated_header(self, spark: SparkSession, tmp_path: Path) -> None:
        path = self.good(tmp_path)
        path.write_bytes(path.read_bytes()[:20])
        assert self.error_message(spark, tmp_path).startswith(f"file:{path}: the Avro file's header cannot be read: ")

    @pytest.mark.parametrize("cut", [1, 15, 17, 100])
    def test_truncated_file(self, spark: SparkSession, tmp_path: Path, cut: int) -> None:
        """Spark treats a truncated block as the end of the file."""
        path = self.good(tmp_path)
        path.write_bytes(path.read_bytes()[:-cut])
        assert self.error_message(spark, tmp_path) == (
            f"file:{path}: the file is truncated or damaged: it does not end at the end of a block{self.FIX}"
        )

    def test_damaged_block_is_detected_during_the_read(self, spark: SparkSession, tmp_path: Path) -> None:
        self.good(tmp_path)
        path = self.good(tmp_path / "a [b] ä")
        content = path.read_bytes()
        marker, middle = content[-16:], len(content) // 2
        at = content.index(marker, middle)
        path.write_bytes(content[:at] + bytes(16) + content[at + 16 :])
        source = FilesSource(path=str(tmp_path), format="avro")
        events = only_events(batch_of(spark, source, tmp_path))
        with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception of Spark
            events.load(spark, events.schema).select(VALUE).collect()
        found = source.explain(raised.value)
        assert isinstance(found, DataError)
        assert (found.what, found.where) == ("the file is truncated or damaged", f"file:{path}")

    @pytest.mark.nightly
    @pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "null"])
    def test_oversized_block(self, spark: SparkSession, tmp_path: Path, codec: str) -> None:
        good, path = self.good(tmp_path / "good"), tmp_path / f"{codec}.avro"
        path.write_bytes(oversized_file(codec))
        error = RuntimeError("java.lang.OutOfMemoryError: Java heap space")
        assert AvroFormat().find_damaged_file(spark, [f"file:{good}", f"file:{path}"], error) == f"file:{path}"
        found = make_damage_error(f"file:{path}", error)
        assert found.what == "a block or a line of the file is too large for the memory"

    @pytest.mark.nightly
    @pytest.mark.slow
    def test_oversized_block_affects_only_its_table(self, spark: SparkSession, tmp_path: Path) -> None:
        path = tmp_path / "in/shop.bomb/shop.bomb+0+0000000000.avro"
        path.parent.mkdir(parents=True)
        path.write_bytes(oversized_file("deflate"))
        write_avro(tmp_path / "in/shop.good/shop.good+0+0000000000.avro", record(id="int"), [{"id": 1}])
        job = pipeline(
            tmp_path,
            "iceberg",
            source={"files": {"path": str(tmp_path / "in"), "format": "avro"}},
            tables=[{"source": "shop.*", "key": "id", "target": "shop.{table}"}],
        )
        with pytest.raises(HeadraceError) as raised:
            job.run(spark)
        assert raised.value.where == f"file:{path}"
        assert "damaged" in raised.value.what or "too large for the memory" in raised.value.what
        assert job.read("shop.good", spark=spark).count() == 1

    def test_deleted_file(self, spark: SparkSession, tmp_path: Path) -> None:
        gone = tmp_path / TOPIC / "gone.avro"
        with pytest.raises(DataError) as raised:
            events_of(spark, tmp_path, "avro", files=[self.good(tmp_path), gone])
        assert str(raised.value) == (
            f"file:{gone}: a listed file no longer exists\n"
            "  fix: restore it, or set `ignoreMissingFiles: true` next to `path:` to continue without it"
        )

    def test_bad_files_with_ignore_missing_files(self, spark: SparkSession, tmp_path: Path) -> None:
        bad = self.good(tmp_path).with_name(f"{TOPIC}+0+300.avro")
        bad.write_bytes(b"no")
        events = only_events(events_of(spark, tmp_path, "avro", ignoreCorruptFiles=True))
        assert in_order(spark, events, "n") == list(range(300))
        assert events_of(spark, tmp_path, "avro", files=[bad], ignoreCorruptFiles=True) == []

    def test_file_without_records(self, spark: SparkSession, tmp_path: Path) -> None:
        write_files(tmp_path, (record(n="int"), []), (record(n="int"), [{"n": 1}]))
        assert in_order(spark, only_events(events_of(spark, tmp_path, "avro")), "n") == [1]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    write_avro(tmp_path / "t" / "x.avro", record(n="int"), [{"n": 1}], codec=codec)
    assert in_order(spark, only_events(events_of(spark, tmp_path, "avro")), "n") == [1]


def test_column_with_a_name_of_headrace(spark: SparkSession, tmp_path: Path) -> None:
    row = {"value": 1, "key": 2, "place": 3, "offset": 4, "a_b": 5}
    schema = {"type": "record", "name": "V", "fields": [optional(name, "int") for name in row]}
    write_avro(tmp_path / "t" / "x.avro", schema, [row])
    assert in_order(spark, only_events(events_of(spark, tmp_path, "avro"))) == [row]
