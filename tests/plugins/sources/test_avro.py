"""Avro files: writer schemas of one batch meet in one, and a file that is none is told by name."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze, optional, write_avro
from tests.support.files import batch_of, events_of, in_order

from headrace.errors import DataError
from headrace.sdk.events import VALUE, Events
from headrace_sources.formats.avro import AvroFormat, _to_struct
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REAL = Path(__file__).parents[2] / "data" / "msk_demo"
TOPIC = "moma.public.artists"


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Value", "fields": [{"name": n, "type": kind} for n, kind in fields.items()]}


def write_files(folder: Path, *files: tuple[dict[str, Any], list[dict[str, Any]]]) -> Path:
    """One topic; each file with a schema and records."""
    for i, (schema, records) in enumerate(files):
        write_avro(folder / TOPIC / f"{TOPIC}+0+{i:010}.avro", schema, records)
    return folder


def the_only(found: list[Events]) -> Events:
    [events] = found
    return events


class TestWriterSchemas:
    def test_a_column_that_came_and_one_that_went(self, spark: SparkSession, tmp_path: Path) -> None:
        bronze = Bronze(tmp_path)
        artists = bronze.topic(TOPIC, key="id", columns={"id": "int", "name": "string"})
        artists.insert({"id": 1, "name": "Arp"})
        artists.flush()
        artists.columns = {"id": "int", "country": "string"}
        artists.insert({"id": 2, "country": "FR"})
        artists.delete({"id": 1})
        artists.flush()
        events = the_only(events_of(spark, tmp_path, "avro"))
        rows = in_order(spark, events)
        assert [row["after"] for row in rows] == [
            {"id": 1, "name": "Arp", "country": None},
            {"id": 2, "name": None, "country": "FR"},
            None,
        ]
        assert [row["before"] for row in rows] == [None, None, {"id": 1, "name": None, "country": None}]

    def test_types_that_grew(self, spark: SparkSession, tmp_path: Path) -> None:
        write_files(
            tmp_path,
            (record(n="int", x="float", d=decimal(6, 2)), [{"n": 2**31 - 1, "x": 0.5, "d": Decimal("12.34")}]),
            (record(n="long", x="double", d=decimal(12, 2)), [{"n": 2**40, "x": 0.1, "d": Decimal("1234567890.12")}]),
        )
        events = the_only(events_of(spark, tmp_path, "avro"))
        assert events.schema.simpleString() == "struct<n:bigint,x:double,d:decimal(12,2)>"
        found = [(row["n"], row["x"], str(row["d"])) for row in in_order(spark, events)]
        assert found == [(2**31 - 1, 0.5, "12.34"), (2**40, 0.1, "1234567890.12")]

    def test_records_in_arrays_grow_too(self, spark: SparkSession, tmp_path: Path) -> None:
        def items(**fields: Any) -> Any:
            return record(items={"type": "array", "items": {**record(**fields), "name": "Item"}})

        write_files(
            tmp_path,
            (items(a="int"), [{"items": [{"a": 1}]}]),
            (items(a="long", b="string"), [{"items": [{"a": 2**40, "b": "x"}]}]),
        )
        assert in_order(spark, the_only(events_of(spark, tmp_path, "avro")), "items") == [
            [{"a": 1, "b": None}],
            [{"a": 2**40, "b": "x"}],
        ]

    def test_types_that_are_another_kind(self, spark: SparkSession, tmp_path: Path) -> None:
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
            "  fix: read the two kinds with two pipelines, or cast the column where the events are made"
        )

    def test_files_of_one_schema_are_one_scan(self, spark: SparkSession, tmp_path: Path) -> None:
        one, other = record(n="int"), record(n="int", m="int")
        write_files(tmp_path, (one, [{"n": 1}]), (other, [{"n": 2, "m": 3}]), (one, [{"n": 4}]))
        files = sorted(f"file:{path}" for path in tmp_path.rglob("*.avro"))
        scans = AvroFormat().scans(spark, files, {})
        assert [scan.files for scan in scans] == [(files[0], files[2]), (files[1],)]
        assert [scan.schema.simpleString() for scan in scans] == ["struct<n:int>", "struct<n:int,m:int>"]

    @pytest.mark.parametrize("kind", ["envelope", "flat"])
    def test_a_schema_is_what_sparks_own_reader_makes_of_it(self, spark: SparkSession, kind: str) -> None:
        path = next((REAL / kind).rglob("*.avro"))
        text = path.read_bytes()
        import fastavro

        with path.open("rb") as file:
            schema = fastavro.reader(file).metadata["avro.schema"]
        assert schema.encode() in text
        avro = spark._jvm.org.apache.avro.Schema.Parser().parse(schema)  # type: ignore[union-attr]
        assert _to_struct(spark, avro) == spark.read.format("avro").load(f"file:{path}").schema


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def test_real_files(spark: SparkSession) -> None:
    events = the_only(events_of(spark, REAL / "envelope", "avro"))
    ids = [row["artist_id"] for row in in_order(spark, events, "after")]
    assert (events.topic, len(ids), len(set(ids))) == (TOPIC, 900, 900)


class TestBadFiles:
    """Nothing of a batch is written when one of its files cannot be read."""

    FIX = "\n  fix: move it out of the folder and set `ignoreMissingFiles: true` beside `path:`; nothing of this batch was written"

    @staticmethod
    def good(folder: Path) -> Path:
        """A file of three blocks."""
        records = [{"n": n} for n in range(300)]
        return write_avro(folder / TOPIC / f"{TOPIC}+0+0.avro", record(n="int"), records, sync_interval=200)

    def refusal(self, spark: SparkSession, folder: Path) -> str:
        with pytest.raises(DataError) as raised:
            events_of(spark, folder, "avro")
        return str(raised.value)

    @pytest.mark.parametrize(
        ("content", "what"),
        [
            (b"id,name\n1,Arp\n", "this is not an Avro file: it does not begin with 'Obj' and 1"),
            (b"", "the file is empty: an Avro file has at least a head"),
            (b"O", "this is not an Avro file: it does not begin with 'Obj' and 1"),
            (b"PAR1....PAR1", "this is not an Avro file: it does not begin with 'Obj' and 1"),
        ],
    )
    def test_what_is_no_avro_file(self, spark: SparkSession, tmp_path: Path, content: bytes, what: str) -> None:
        bad = self.good(tmp_path).with_name(f"{TOPIC}+0+300.avro")
        bad.write_bytes(content)
        assert self.refusal(spark, tmp_path) == f"file:{bad}: {what}{self.FIX}"

    def test_a_head_that_breaks_off(self, spark: SparkSession, tmp_path: Path) -> None:
        path = self.good(tmp_path)
        path.write_bytes(path.read_bytes()[:20])
        assert self.refusal(spark, tmp_path).startswith(f"file:{path}: the Avro file's head cannot be read: ")

    @pytest.mark.parametrize("cut", [1, 15, 17, 100])
    def test_a_file_that_breaks_off(self, spark: SparkSession, tmp_path: Path, cut: int) -> None:
        """Spark reads a block that breaks off as the end of the file."""
        path = self.good(tmp_path)
        path.write_bytes(path.read_bytes()[:-cut])
        assert self.refusal(spark, tmp_path) == (
            f"file:{path}: the file is cut short or damaged: it does not end where a block ends{self.FIX}"
        )

    def test_a_damaged_block_is_found_when_it_is_read(self, spark: SparkSession, tmp_path: Path) -> None:
        self.good(tmp_path)
        path = self.good(tmp_path / "a [b] ä")
        content = path.read_bytes()
        marker, middle = content[-16:], len(content) // 2
        at = content.index(marker, middle)
        path.write_bytes(content[:at] + bytes(16) + content[at + 16 :])
        source = FilesSource(path=str(tmp_path), format="avro")
        events = the_only(batch_of(spark, source, tmp_path))
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever Spark raises
            events.load(spark, events.schema).select(VALUE).collect()
        found = source.explain(raised.value)
        assert isinstance(found, DataError)
        assert (found.what, found.where) == ("the file is cut short or damaged", f"file:{path}")

    def test_a_file_that_is_gone(self, spark: SparkSession, tmp_path: Path) -> None:
        gone = tmp_path / TOPIC / "gone.avro"
        with pytest.raises(DataError) as raised:
            events_of(spark, tmp_path, "avro", files=[self.good(tmp_path), gone])
        assert str(raised.value) == (
            f"file:{gone}: a file that was found is gone\n"
            "  fix: put it back, or set `ignoreMissingFiles: true` beside `path:` to go on without it"
        )

    def test_bad_files_that_may_be_left_out(self, spark: SparkSession, tmp_path: Path) -> None:
        bad = self.good(tmp_path).with_name(f"{TOPIC}+0+300.avro")
        bad.write_bytes(b"no")
        events = the_only(events_of(spark, tmp_path, "avro", ignoreCorruptFiles=True))
        assert in_order(spark, events, "n") == list(range(300))
        assert events_of(spark, tmp_path, "avro", files=[bad], ignoreCorruptFiles=True) == []

    def test_a_file_without_records_is_a_file(self, spark: SparkSession, tmp_path: Path) -> None:
        write_files(tmp_path, (record(n="int"), []), (record(n="int"), [{"n": 1}]))
        assert in_order(spark, the_only(events_of(spark, tmp_path, "avro")), "n") == [1]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    write_avro(tmp_path / "t" / "x.avro", record(n="int"), [{"n": 1}], codec=codec)
    assert in_order(spark, the_only(events_of(spark, tmp_path, "avro")), "n") == [1]


def test_a_column_may_be_called_what_headrace_calls_its_own(spark: SparkSession, tmp_path: Path) -> None:
    row = {"value": 1, "key": 2, "place": 3, "offset": 4, "a_b": 5}
    schema = {"type": "record", "name": "V", "fields": [optional(name, "int") for name in row]}
    write_avro(tmp_path / "t" / "x.avro", schema, [row])
    assert in_order(spark, the_only(events_of(spark, tmp_path, "avro"))) == [row]
