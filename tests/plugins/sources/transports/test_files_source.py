"""Files source: topics by path, order of records, and errors that name the unreadable file."""

from __future__ import annotations

import gzip
import itertools
import re
import zlib
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.bronze import Bronze, write_avro, write_lines
from tests.support.files import batch_of, events_of, in_order, offsets, set_mtime
from tests.support.tiers import nightly_after

from headrace import Pipeline
from headrace.errors import ConfigError, DataError
from headrace.sdk.events import ERROR, FILE, PARTITION, PLACE, RAW, VALUE
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import SourceContext
from headrace.spark.sessions import Sessions
from headrace.spark.storage import Folder
from headrace_sources.transports import file_listing
from headrace_sources.transports.file_listing import find_omitted_kind, find_topic, read_planned_files
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUMBER = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}


def numbers(path: Path, *values: int) -> Path:
    if path.suffix == ".avro":
        return write_avro(path, NUMBER, [{"n": n} for n in values])
    return write_lines(path, [{"n": n} for n in values])


def folders_of_one_checksum(folder: Path) -> tuple[Path, Path]:
    """Return two folders of one topic in which files of the same name have paths with the same CRC-32."""
    seen: dict[int, Path] = {}
    random = Random(0)  # names that differ only in a few digits never share a checksum
    paths = (folder / "t" / f"day={random.getrandbits(64)}" for _ in itertools.count())
    checksums = ((path, zlib.crc32(f"file://{path}/x.json".encode())) for path in paths)
    return next((other, path) for path, sum_ in checksums if (other := seen.setdefault(sum_, path)) != path)


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("file:/b/topics/moma.public.artists/partition=0/moma.public.artists+0+0000000300.avro", "moma.public.artists"),
        ("s3a://lake/a+b+7+12.json.gz", "a+b"),
        ("s3a://lake/bronze/moma.public.artists/part-0.avro", "moma.public.artists"),
        ("file:/b/artists/day=2026-01-31/hour=3/x.avro", "artists"),
        ("s3a://lake/artists/2026/01/31/03/delivery-1-2026.json", "artists"),
        ("s3a://lake/artists/x+y+z.avro", "artists"),
        ("s3a://lake/x.avro", "lake"),
    ],
)
def test_topics_of_names_and_folders(path: str, topic: str) -> None:
    assert find_topic(path) == topic
    assert find_omitted_kind(path) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("partition=0/t+0+0000000300.keys.avro", "record keys"),
        ("year=2026/t+0+0000000300.headers.json.gz", "record headers"),
        ("partition=0/t+0+0000000300.keys.snappy.parquet", "record keys"),
        ("partition=0/shop.t-12-0000000300.keys.bin", "record keys"),
        ("tombstone/t+0+0000000300.keys.json", "keys of tombstones, whose deletes are not applied"),
        ("tombstone/t+0+0000000300.headers.json", "record headers"),
        ("partition=0_$folder$", "folder marker"),
        ("partition=0/shop.keys+0+0000000300.avro", None),
        ("partition=0/db1.keys.t+0+0000000300.json.gz", None),
        ("0/000000000299_1633899967483_1633899968102.avro", None),
        ("city=Brno/t(000000000000_000000000299).avro", None),
        ("2026/01/31/keys.json", None),
        ("2026/01/31/delivery-1-2026-01-31.headers-2.json", None),
    ],
)
def test_kinds_of_files_without_events(name: str, kind: str | None) -> None:
    assert find_omitted_kind(f"s3a://lake/topics/t/{name}") == kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/landing"}, "`notifications` needs a `path` in a bucket: write it like s3a://landing/topics/"),
        ({"path": "gs://landing/t"}, "`notifications` needs a `path` in a bucket"),
        ({"cleanSource": "delete"}, "`cleanSource` cannot be used with `notifications`: remove one of the two"),
        ({"fileNameOnly": True}, "`fileNameOnly` cannot be used with `notifications`"),
        ({"notifications": {"queueUrl": "landing"}}, "queueUrl"),
        ({"notifications": {"queueUrl": "https://sqs/1/q", "backfillInterval": "daily"}}, "'daily' is not an interval"),
    ],
)
def test_options_that_notifications_exclude(options: dict[str, Any], message: str) -> None:
    valid = {"path": "s3a://landing", "format": "json", "notifications": {"queueUrl": "https://sqs/1/q"}}
    assert FilesSource(valid).extras() == ("aws",)
    with pytest.raises(ConfigError, match=re.escape(message)):
        FilesSource({**valid, **options})


@pytest.mark.parametrize(
    ("checkpoint", "setting", "message"),
    [
        ("file:/checkpoints/orders[1]", "false", "its path is a glob to Spark's stream"),
        ("file:/checkpoints/orders", "true", "`notifications` requires the log of Spark's file sink"),
    ],
)
def test_reject_a_run_whose_stream_would_not_read_the_log(checkpoint: str, setting: str, message: str) -> None:
    spark = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: setting))
    context = SimpleNamespace(spark=spark, stream=SimpleNamespace(path=checkpoint))
    source = FilesSource(path="s3a://landing", format="json", notifications={"queueUrl": "https://sqs/1/q"})
    with pytest.raises(ConfigError, match=re.escape(message)):
        source.check_stream(cast("SourceContext", context))


@pytest.mark.spark
class TestOrder:
    def test_records_of_two_partitions_have_different_positions(self, spark: SparkSession, tmp_path: Path) -> None:
        for partition in range(3):
            numbers(tmp_path / f"t/partition={partition}/t+{partition}+0.json", partition, partition + 10)
        [events] = events_of(spark, tmp_path, "json")
        assert sorted(in_order(spark, events, "n")) == [0, 1, 2, 10, 11, 12]

    @pytest.mark.parametrize("name", nightly_after(1, ["x.json", "t+0+5.json"]))
    def test_files_with_equal_name_and_time_have_different_positions(
        self, spark: SparkSession, tmp_path: Path, name: str
    ) -> None:
        first, second = folders_of_one_checksum(tmp_path)
        for number, folder in enumerate((first, second)):
            set_mtime(numbers(folder / name, number), 1_700_000_000)
        [events] = events_of(spark, tmp_path, "json")
        assert sorted(in_order(spark, events, "n")) == [0, 1]

    def test_by_offsets_in_file_names(self, spark: SparkSession, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        for second, offset in enumerate((1000, 0, 999)):
            set_mtime(numbers(folder / f"t+0+{offset}.avro", offset, offset + 1, offset + 2), 1_700_000_000 + second)
        [events] = events_of(spark, tmp_path, "avro")
        assert events.topic == "t"
        assert in_order(spark, events, "n") == [0, 1, 2, 999, 1000, 1001, 1000, 1001, 1002]
        assert offsets(spark, events) == {0, 999, 1000}

    def test_by_time_and_name_without_offsets(self, spark: SparkSession, tmp_path: Path) -> None:
        for name, second in (("b", 10.5), ("a", 10.5), ("z", 10.25), ("m", 2000)):
            set_mtime(numbers(tmp_path / "t" / f"{name}.json", ord(name)), second)
        [events] = events_of(spark, tmp_path, "json")
        assert in_order(spark, events, "n") == [ord(name) for name in "zabm"]
        assert offsets(spark, events) == {None}

    def test_files_with_and_without_an_offset_in_one_batch(self, spark: SparkSession, tmp_path: Path) -> None:
        numbers(tmp_path / "t" / "t+0+5.avro", 1, 2)
        numbers(tmp_path / "t" / "late.avro", 3)
        [events] = events_of(spark, tmp_path, "avro")
        assert in_order(spark, events, "n") == [1, 2, 3]
        assert offsets(spark, events) == {5, None}

    def test_within_split_files(self, spark: SparkSession, tmp_path: Path) -> None:
        records = [{"n": n} for n in range(4000)]
        write_avro(tmp_path / "t" / "t+0+0.avro", NUMBER, records, sync_interval=500)
        write_lines(tmp_path / "u" / "u+0+0.json", records)
        spark.conf.set("spark.sql.files.maxPartitionBytes", "3000")
        try:
            for folder, kind in (("t", "avro"), ("u", "json")):
                [events] = events_of(spark, tmp_path / folder, kind)
                assert events.load(spark, events.schema).rdd.getNumPartitions() > 2
                assert in_order(spark, events, "n") == list(range(4000))
        finally:
            spark.conf.unset("spark.sql.files.maxPartitionBytes")

    @pytest.mark.parametrize("kind", nightly_after(1, ["avro", "json", "parquet"]))
    def test_place_depends_only_on_the_file(self, spark: SparkSession, tmp_path: Path, kind: str) -> None:
        """A replay and a catch-up read files in other groups than the first batch."""
        source = FilesSource(path=str(tmp_path), format=kind)
        spark.conf.set("spark.sql.files.maxPartitionBytes", "3000")
        try:
            session = Sessions(spark, source.sql_conf).of(kind)
        finally:
            spark.conf.unset("spark.sql.files.maxPartitionBytes")
        files = [tmp_path / "t" / name for name in (f"t+0+0.{kind}", f"t+0+900.{kind}", f"b.{kind}")]
        for start, (path, count) in zip((0, 1000, 2000), zip(files, (900, 30, 40), strict=True), strict=True):
            values = range(start, start + count)
            if kind == "parquet":
                path.parent.mkdir(exist_ok=True)
                pq.write_table(pa.table({"n": list(values)}), path, row_group_size=100)
            else:
                numbers(path, *values)

        def places(*group: Path) -> dict[int, str]:
            [events] = batch_of(session, source, tmp_path, files=group)
            rows = events.load(session, events.schema).collect()
            return {row[VALUE]["n"]: row[PLACE] for row in rows}

        together = places(*files)
        assert len(set(together.values())) == len(together) == 970
        assert together == {n: place for file in files for n, place in places(file).items()}
        assert sorted(together, key=lambda n: together[n])[:930] == [*range(900), *range(1000, 1030)]

    def test_record_has_partition_file_and_bytes(self, spark: SparkSession, tmp_path: Path) -> None:
        path = numbers(tmp_path / "t" / "partition=3" / "t+3+40.avro", 7)
        [events] = events_of(spark, tmp_path, "avro")
        [row] = events.load(spark, events.schema).collect()
        assert (row[PARTITION], row[ERROR], row[FILE]) == (3, None, f"file:{path}")
        assert bytes(row[RAW]) == b'{"n":7}'

    def test_only_required_columns_are_read(self, spark: SparkSession, tmp_path: Path) -> None:
        bronze = Bronze(tmp_path)
        artists = bronze.topic("t", key="id", columns={"id": "int", "name": "string", "age": "int"})
        artists.update({"id": 1, "name": "x"}, {"id": 1, "name": "y"})
        artists.flush()
        [events] = events_of(spark, tmp_path, "avro")
        wanted = spark.createDataFrame([], "before struct<id int>, op string").schema
        frame = events.load(spark, wanted)
        assert [row[VALUE].asDict(recursive=True) for row in frame.collect()] == [{"before": {"id": 1}, "op": "u"}]
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "ReadSchema: struct<before:struct<id:int>,op:string>" in plan


@pytest.mark.spark
class TestPaths:
    NAMES = ("t [1]", "t {a,b}", "t*?", "100%", "a%20b", "größe", "x+y", "#1")

    @pytest.mark.parametrize("kind", nightly_after(1, ["avro", "json"]))
    def test_special_characters_in_paths(self, spark: SparkSession, tmp_path: Path, kind: str) -> None:
        """Use a stream, because its listing and its log encode paths differently."""
        bronze = tmp_path / "bronze [2] of%20all"
        for n, name in enumerate(self.NAMES):
            numbers(bronze / name / f"part [0]-{name}.{kind}", n)
        source = FilesSource(path=str(tmp_path / "bronze*"), format=kind)
        source.check(spark)
        assert {e.topic for e in source.known_schemas(SourceContext(spark, SchemaLog()))} == set(self.NAMES)
        found: dict[str, list[int]] = {}

        def apply(frame: DataFrame, batch: int) -> None:
            for stream in (None, Folder(frame.sparkSession, str(tmp_path / "checkpoint"))):
                context = SourceContext(frame.sparkSession, SchemaLog(), batch, stream)
                for events in source.events(context, frame):
                    found.setdefault(events.topic, []).extend(in_order(frame.sparkSession, events, "n"))

        stream = source.stream(spark).writeStream.foreachBatch(apply)
        options = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        options.trigger(availableNow=True).start().awaitTermination()
        assert found == {name: [n, n] for n, name in enumerate(self.NAMES)}


@pytest.mark.spark
class TestStream:
    def test_files_of_a_batch_come_from_the_stream_log(self, spark: SparkSession, tmp_path: Path) -> None:
        """The tenth entry, which Spark compacts with the earlier entries, and empty files are included."""
        for n in range(12):
            set_mtime(numbers(tmp_path / "bronze" / "t" / f"t+0+{n}.json", *range(n % 3)), 1_700_000_000 + n)
        source = FilesSource(path=str(tmp_path / "bronze"), format="json", maxFilesPerTrigger=1)
        planned: list[list[str] | None] = []

        def apply(frame: DataFrame, batch: int) -> None:
            folder = Folder(frame.sparkSession, str(tmp_path / "checkpoint"))
            planned.append(read_planned_files(SourceContext(frame.sparkSession, SchemaLog(), batch, folder)))

        stream = source.stream(spark).writeStream.foreachBatch(apply).trigger(availableNow=True)
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        assert planned == [[f"file://{tmp_path}/bronze/t/t+0+{n}.json"] for n in range(12)]

    def test_entries_before_a_crash_belong_to_the_next_batch(self, spark: SparkSession, tmp_path: Path) -> None:
        """The log was written, and the process ended before Spark planned the batch: two entries are one batch."""
        write_lines(tmp_path / "offsets" / "0", ["v1", "{}", '{"logOffset":1}'])
        for entry in (0, 1):
            line = {"path": f"file:///b/t/{entry}%20.json", "timestamp": 0, "batchId": entry}
            write_lines(tmp_path / "sources" / "0" / f"{entry}", ["v1", line])
        context = SourceContext(spark, SchemaLog(), 0, Folder(spark, str(tmp_path)))
        assert read_planned_files(context) == ["file:///b/t/0 .json", "file:///b/t/1 .json"]

    def test_no_planned_files_without_a_log(self, spark: SparkSession, tmp_path: Path) -> None:
        assert read_planned_files(SourceContext(spark, SchemaLog())) is None
        assert read_planned_files(SourceContext(spark, SchemaLog(), 0, Folder(spark, str(tmp_path / "none")))) is None

    def test_late_old_file_is_read(self, spark: SparkSession, tmp_path: Path) -> None:
        """By default, Spark ignores files that are a week older than the newest file it has read."""
        source = FilesSource(path=str(tmp_path / "b"), format="json")
        seen: list[str] = []
        for name, second in (("new", 1_700_000_000), ("old", 1_600_000_000)):
            set_mtime(numbers(tmp_path / "b" / "t" / f"{name}.json", 1), second)
            stream = source.stream(spark).writeStream.trigger(availableNow=True)
            stream = stream.foreachBatch(lambda frame, _: seen.extend(row["path"] for row in frame.collect()))
            stream.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()
        assert [path.rsplit("/", 1)[1] for path in seen] == ["new.json", "old.json"]

    def test_path_glob_filter(self, spark: SparkSession, tmp_path: Path) -> None:
        numbers(tmp_path / "t" / "a.avro", 1)
        (tmp_path / "t" / "README.txt").write_text("not a bronze file")
        source = FilesSource(path=str(tmp_path), format="avro", pathGlobFilter="*.avro")
        [events] = source.known_schemas(SourceContext(spark, SchemaLog()))
        assert in_order(spark, events, "n") == [1]


@pytest.mark.spark
class TestCheck:
    def test_no_such_folder(self, spark: SparkSession, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as raised:
            FilesSource(path=f"{tmp_path}/nowhere", format="avro").check(spark)
        assert str(raised.value) == (
            f"source files, path {tmp_path}/nowhere: no such folder\n  fix: create it, or correct `path:`"
        )

    def test_folder_of_a_bucket_exists_from_its_first_object_on(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(file_listing, "_BUCKET", re.compile("/"))
        source, seen = FilesSource(path=f"{tmp_path}/later/", format="avro"), list[str]()
        source.check(spark)
        assert [text for _, text in source.connect(spark)] == [
            f"no object in {tmp_path}/later/ yet; the pipeline waits for files"
        ]
        assert source.known_schemas(SourceContext(spark, SchemaLog())) == []
        stream = source.stream(spark).writeStream.option("checkpointLocation", str(tmp_path / "c"))
        query = stream.foreachBatch(lambda frame, _: seen.extend(row["path"] for row in frame.collect())).start()
        try:
            query.processAllAvailable()
            numbers(tmp_path / "later" / "t" / "a.avro", 1)
            query.processAllAvailable()
        finally:
            query.stop()
        assert [path.rsplit("/", 1)[1] for path in seen] == ["a.avro"]

    @pytest.mark.parametrize(
        ("path", "is_bucket"), [("s3a://b/x/", True), ("gs://b/x", True), ("hdfs://n/x", False), ("x", False)]
    )
    def test_paths_in_buckets(self, path: str, *, is_bucket: bool) -> None:
        assert file_listing.has_no_folders(path) is is_bucket

    def test_no_such_filesystem(self, spark: SparkSession) -> None:
        with pytest.raises(ConfigError, match=r'path s4://lake: .*"s4"\n  fix: '):
            FilesSource(path="s4://lake", format="avro").check(spark)

    def test_empty_folder_is_valid(self, spark: SparkSession, tmp_path: Path) -> None:
        source = FilesSource(path=str(tmp_path), format="avro")
        source.check(spark)
        assert source.known_schemas(SourceContext(spark, SchemaLog())) == []

    def test_check_reads_one_file_of_each_topic(self, spark: SparkSession, tmp_path: Path) -> None:
        for name in ("a/a+0+0.avro", "a/a+0+9.avro", "b/b+0+0.avro"):
            numbers(tmp_path / name, 1)
        (tmp_path / "a" / "a+0+0.avro").write_bytes(b"not read")
        events = FilesSource(path=str(tmp_path), format="avro").known_schemas(SourceContext(spark, SchemaLog()))
        assert [(e.topic, e.schema.names) for e in events] == [("a", ["n"]), ("b", ["n"])]

    def test_files_of_keys_and_headers_are_left_out(self, spark: SparkSession, tmp_path: Path) -> None:
        rows = [{"id": 1, "name": "Arp"}, {"id": 2, "name": "Höch"}]
        folder = tmp_path / "in" / "t" / "partition=0"
        write_lines(folder / "t+0+0000000000.json", rows)
        write_lines(folder / "t+0+0000000000.keys.json", [{"id": 1}, {"id": 2}])
        (folder / "t+0+0000000000.headers.json").write_text("[]\n[]\n")
        write_lines(tmp_path / "in" / "t" / "tombstone" / "t+0+0000000002.keys.json", [{"id": 1}])
        write_lines(tmp_path / "in" / "t" / "notes.txt", [{"id": 3}])
        for marker in ("_SUCCESS", "_spark_metadata/0", ".staging/part.json"):
            write_lines(tmp_path / "in" / "t" / marker, [])
        source = {"files": {"path": f"{tmp_path}/in", "format": "json", "pathGlobFilter": "*.json"}}
        pipeline = Pipeline.from_dict(
            {
                "name": "p",
                "source": source,
                "tables": [{"source": "*", "key": ["id"]}],
                "sink": {"files": {"path": f"{tmp_path}/out"}},
                "checkpoint": f"{tmp_path}/checkpoint",
            }
        )
        items = [item.found for item in pipeline.check(spark) if item.what == "source files"]
        assert items == [
            "1 skipped: excluded by pathGlobFilter",
            "3 skipped: hidden, with a name that starts with `_` or `.`",
            "1 skipped: keys of tombstones, whose deletes are not applied",
            "1 skipped: record headers",
            "1 skipped: record keys",
        ]
        pipeline.run(spark)
        assert sorted(map(tuple, pipeline.read("t", spark=spark).select("id", "name").collect())) == [
            (1, "Arp"),
            (2, "Höch"),
        ]


@pytest.mark.spark
class TestUnreadable:
    """One-line errors in place of Spark's long stack traces."""

    @pytest.mark.parametrize(("kind", "name"), [("avro", "t+0+0.avro"), ("json", "t [1] ä.json")])
    def test_file_is_deleted_while_it_is_read(self, spark: SparkSession, tmp_path: Path, kind: str, name: str) -> None:
        path = numbers(tmp_path / "t" / name, 1)
        [events] = events_of(spark, tmp_path, kind)
        frame = events.load(spark, events.schema)
        path.unlink()
        with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception of Spark
            frame.collect()
        found = FilesSource(path=str(tmp_path), format=kind).explain(raised.value)
        assert found is not None
        assert found.where is not None
        assert found.where.endswith(f"{path}")
        assert str(found).endswith(
            ": a listed file no longer exists\n"
            "  fix: restore it, or set `ignoreMissingFiles: true` next to `path:` to continue without it"
        )

    def test_file_is_deleted_before_its_batch(self, spark: SparkSession, tmp_path: Path) -> None:
        missing = tmp_path / "t" / "t+0+1.json"
        with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception of Spark
            events_of(spark, tmp_path, "json", files=[numbers(tmp_path / "t" / "t+0+0.json", 1), missing])
        found = FilesSource(path=str(tmp_path), format="json").explain(raised.value)
        assert found is not None
        assert str(found).startswith(f"file:{missing}: a listed file no longer exists")

    @pytest.mark.parametrize("damage", ["cut", "changed"])
    def test_damaged_compressed_file(self, spark: SparkSession, tmp_path: Path, damage: str) -> None:
        lines = "".join(f'{{"id": {i}, "name": "n{i * i * 7919 % 9973}"}}\n' for i in range(5000))
        whole, middle = gzip.compress(lines.encode()), 2000
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / "t+0+0.json.gz").write_bytes(whole)
        bad = tmp_path / "t" / "t+0+5000.json.gz"
        changed = whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 50]) + whole[middle + 50 :]
        bad.write_bytes(whole[: len(whole) // 2] if damage == "cut" else changed)
        source = FilesSource(path=str(tmp_path), format="json")
        context = SourceContext(spark, SchemaLog())
        [events] = source._open_files(context, [f"file:{path}" for path in sorted((tmp_path / "t").iterdir())])
        assert events.error is not None
        found = source.explain(events.error)
        assert isinstance(found, DataError)
        assert str(found).startswith(
            f"file:{bad}: the file is truncated or damaged\n  fix: replace it with a complete file"
        )

    @pytest.mark.parametrize("kind", nightly_after(1, ["avro", "json", "parquet"]))
    def test_missing_file_with_ignore_missing_files(self, spark: SparkSession, tmp_path: Path, kind: str) -> None:
        good = tmp_path / "t" / f"t+0+0.{kind}"
        if kind == "parquet":
            good.parent.mkdir()
            pq.write_table(pa.table({"n": [1]}), good)
        else:
            numbers(good, 1)
        missing = tmp_path / "t" / f"t+0+1.{kind}"
        [events] = events_of(spark, tmp_path, kind, files=[good, missing], ignoreMissingFiles=True)
        assert in_order(spark, events, "n") == [1]
        assert events_of(spark, tmp_path, kind, files=[missing], ignoreMissingFiles=True) == []

    def test_other_errors_are_not_explained(self) -> None:
        assert FilesSource(path="x", format="avro").explain(ValueError("File size is 7")) is None
