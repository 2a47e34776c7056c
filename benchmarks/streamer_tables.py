"""Tables of the real Hudi Streamer (0.14.0 on Spark 3.4) as test data, in ``tests/data/hudi_streamer``.

python -m benchmarks.streamer_tables WORK OUTPUT

WORK is the folder of a benchmark, in which ``prepare.py`` installs the Streamer. OUTPUT gets one archive per table. The Streamer reads Parquet
files; the second round updates, moves and deletes rows, and the logs of MERGE_ON_READ are not compacted.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

VERSION = "0.14.0"
_WRITE = "hoodie.datasource.write."
_KEYGEN = "org.apache.hudi.keygen."
_SCHEMA = {
    "type": "record",
    "name": "orders",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "line", "type": "int"},
        {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "item", "type": ["null", "string"], "default": None},
        {"name": "ts", "type": "long"},
        {"name": "_hoodie_is_deleted", "type": "boolean", "default": False},
    ],
}

_COLUMNS = "id int, line int, country string, item string, ts long, _hoodie_is_deleted boolean"


def _order(number: int, country: str, item: str, ts: int = 10, *, deleted: bool = False) -> dict[str, object]:
    return {"id": number, "line": 1, "country": country, "item": item, "ts": ts, "_hoodie_is_deleted": deleted}


_FIRST = [_order(1, "de", "lamp"), _order(2, "fr", "desk"), _order(3, "de", "chair"), _order(4, "fr", "shelf")]
_SECOND = [_order(2, "fr", "desk, oak", 20), _order(3, "de", "chair", 20, deleted=True)]
#: Name → table type, properties, and the records of each round.
_TABLES: Mapping[str, tuple[str, Mapping[str, str], Sequence[Sequence[Mapping[str, object]]]]] = {
    "plain": (
        "COPY_ON_WRITE",
        {
            "recordkey.field": "id",
            "partitionpath.field": "",
            "keygenerator.class": f"{_KEYGEN}NonpartitionedKeyGenerator",
        },
        [_FIRST, _SECOND],
    ),
    "logs": (
        "MERGE_ON_READ",
        {
            "recordkey.field": "id,line",
            "partitionpath.field": "country",
            "hive_style_partitioning": "true",
            "keygenerator.class": f"{_KEYGEN}ComplexKeyGenerator",
        },
        [_FIRST, _SECOND],
    ),
    "complex": (
        "COPY_ON_WRITE",
        {
            "recordkey.field": "id",
            "partitionpath.field": "country",
            "keygenerator.class": f"{_KEYGEN}ComplexKeyGenerator",
        },
        [_FIRST, _SECOND],
    ),
    "moved": (
        "COPY_ON_WRITE",
        {
            "recordkey.field": "id",
            "partitionpath.field": "country",
            "keygenerator.class": f"{_KEYGEN}SimpleKeyGenerator",
        },
        # The default index SIMPLE searches one partition: the row stays in the other one.
        [_FIRST, [_order(1, "fr", "lamp", 20)]],
    ),
}


def write_tables(folder: Path) -> None:
    """Write all tables below a folder. Runs in ``spark-submit`` with the Streamer's jars."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("streamer").getOrCreate()
    jvm, java = spark._jvm, spark.sparkContext._jsc  # noqa: SLF001
    streamer = jvm.org.apache.hudi.utilities.streamer.HoodieStreamer  # type: ignore[union-attr]
    schema = folder / "orders.avsc"
    schema.write_text(json.dumps(_SCHEMA))
    for name, (table_type, options, rounds) in _TABLES.items():
        landing = folder / "landing" / name
        conf = {f"{_WRITE}{option}": value for option, value in options.items()}
        conf |= {
            "hoodie.deltastreamer.source.dfs.root": str(landing),
            "hoodie.deltastreamer.schemaprovider.source.schema.file": str(schema),
            **{f"hoodie.{action}.shuffle.parallelism": "1" for action in ("upsert", "insert", "delete", "bulkinsert")},
        }
        words = [
            *("--table-type", table_type, "--op", "UPSERT", "--source-ordering-field", "ts", "--disable-compaction"),
            *("--target-table", f"streamer_{name}", "--target-base-path", str(folder / "tables" / name)),
            *("--source-class", "org.apache.hudi.utilities.sources.ParquetDFSSource"),
            *("--schemaprovider-class", "org.apache.hudi.utilities.schema.FilebasedSchemaProvider"),
            *(word for option, value in conf.items() for word in ("--hoodie-conf", f"{option}={value}")),
        ]
        for records in rounds:
            spark.createDataFrame(list(records), _COLUMNS).write.mode("append").parquet(str(landing))
            array = spark.sparkContext._gateway.new_array(jvm.java.lang.String, len(words))  # type: ignore[union-attr]  # noqa: SLF001
            for place, word in enumerate(words):
                array[place] = word
            streamer(streamer.getConfig(array), java).sync()


def main(work: Path, output: Path) -> None:
    """Run the Streamer, and archive its tables."""
    from benchmarks.prepare import streamer

    found = streamer(work)
    jars = ",".join(map(str, sorted(found.jars.glob("hudi-*.jar"))))
    with TemporaryDirectory() as folder:
        subprocess.run(
            [
                *(found.spark_home / "bin" / "spark-submit", "--master", "local[1]", "--jars", jars),
                *(
                    "--conf",
                    "spark.serializer=org.apache.spark.serializer.KryoSerializer",
                    "--conf",
                    "spark.ui.enabled=false",
                ),
                *("--conf", "spark.driver.extraJavaOptions=-Duser.timezone=UTC"),
                *(__file__, folder),
            ],
            env={
                **os.environ,
                "SPARK_HOME": str(found.spark_home),
                "PYSPARK_PYTHON": str(work / "venv-spark-3.4.4/bin/python"),
            },
            check=True,
        )
        output.mkdir(parents=True, exist_ok=True)
        for table in sorted((Path(folder) / "tables").iterdir()):
            with tarfile.open(output / f"{table.name}.tar.xz", "w:xz") as archive:
                archive.add(table, table.name)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_tables(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
