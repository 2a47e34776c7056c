"""What engines read of Iceberg tables, and where that is known from: the choice for new tables and the page of the docs are made from it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace_sinks.reader_support import NOT_KNOWN, Reads, Source, Support, trial, yes


@dataclass(frozen=True)
class IcebergReader:
    """An engine. All read data files of format version 2, which is all that copy-on-write needs."""

    #: Format version 2: files that name deleted rows by file and position. Spark's merge-on-read writes them.
    position_deletes: Support
    #: Format version 2: files that name deleted rows by values of columns. Flink writes them, and headrace where all read them.
    equality_deletes: Support
    #: Format version 3: what merge-on-read writes there in place of position deletes.
    deletion_vectors: Support
    #: Where it is known from that it finds tables in AWS Glue's catalog alone.
    glue_alone: Source | None = None


_OLAKE = Source("https://olake.io/blog/iceberg-delete-formats-interoperability-olake-go", "2026-08-26")
_DATABRICKS = Source("https://olake.io/blog/iceberg-query-engine-interoperability-spark-databricks", "2026-09-08")
_CLOUDERA = Source(
    "https://docs.cloudera.com/cdw-runtime/cloud/iceberg-how-to/topics/iceberg-delete.html", "2026-11-25"
)
_ICEBERG = Source("https://iceberg.apache.org/status/", "2026-11-25")
_PRESTO = Source("https://github.com/prestodb/presto/pull/21189", "2023-10-31")
_BIGQUERY = Source("https://docs.cloud.google.com/bigquery/docs/iceberg-external-tables", "2026-11-25")
_STARROCKS = Source(
    "https://github.com/StarRocks/starrocks/blob/main/docs/en/data_source/feature-support-data-lake-analytics.md",
    "2026-11-25",
)
_REDSHIFT = Source("https://docs.aws.amazon.com/redshift/latest/dg/querying-iceberg.html", "2026-11-25")

_SPARK = trial("Iceberg 1.12")
_CLICKHOUSE, _DUCKDB = trial("ClickHouse 26.9"), trial("DuckDB 1.5.5")
_PYICEBERG, _POLARS, _DAFT = trial("PyIceberg 0.12"), trial("Polars 2.1"), trial("Daft 0.7.26")

READERS = {
    "athena": IcebergReader(
        yes(Source("https://docs.aws.amazon.com/athena/latest/ug/querying-iceberg-delete.html", "2026-11-25")),
        yes(_OLAKE),
        Support(Reads.NO, _OLAKE),
        glue_alone=Source("https://docs.aws.amazon.com/athena/latest/ug/querying-iceberg.html", "2026-11-25"),
    ),
    "bigquery": IcebergReader(
        yes(_BIGQUERY),
        Support(Reads.UNKNOWN, _BIGQUERY, "the page names merge-on-read, and no kind of delete file"),
        Support(Reads.UNKNOWN, _BIGQUERY, "in preview"),
    ),
    "clickhouse": IcebergReader(yes(_CLICKHOUSE), yes(_CLICKHOUSE), Support(Reads.REFUSES, _CLICKHOUSE)),
    "daft": IcebergReader(yes(_DAFT), Support(Reads.REFUSES, _DAFT), Support(Reads.REFUSES, _DAFT)),
    "databricks": IcebergReader(
        Support(Reads.IGNORES, _DATABRICKS, "of tables in Unity Catalog, foreign ones too"),
        Support(Reads.IGNORES, _DATABRICKS, "likewise"),
        yes(Source("https://docs.databricks.com/aws/en/iceberg/iceberg-v3", "2026-11-25"), "Runtime 18"),
    ),
    "duckdb": IcebergReader(yes(_DUCKDB), yes(_DUCKDB), yes(_DUCKDB)),
    "flink": IcebergReader(
        yes(_ICEBERG),
        yes(_ICEBERG),
        yes(
            Source("https://docs.cloud.google.com/lakehouse/docs/use-iceberg-v3-binary-deletion-vectors", "2026-11-25")
        ),
    ),
    "hive": IcebergReader(yes(_CLOUDERA), yes(_CLOUDERA), NOT_KNOWN),
    "impala": IcebergReader(
        yes(_CLOUDERA),
        yes(_CLOUDERA),
        Support(
            Reads.UNKNOWN,
            Source("https://mail-archive.com/issues-all@impala.apache.org/msg51823.html", "2026-11-25"),
            "in its code, in no release that is known here",
        ),
    ),
    "polars": IcebergReader(yes(_POLARS), Support(Reads.REFUSES, _POLARS), yes(_POLARS)),
    "presto": IcebergReader(
        yes(_PRESTO, "versions before it ignore them"),
        yes(_PRESTO, "versions before it ignore them"),
        Support(Reads.UNKNOWN, Source("https://github.com/prestodb/presto/issues/27196", "2026-02-24"), "under way"),
    ),
    "pyiceberg": IcebergReader(yes(_PYICEBERG), Support(Reads.REFUSES, _PYICEBERG), yes(_PYICEBERG)),
    "redshift": IcebergReader(
        yes(_REDSHIFT, "tables that Athena changes, which writes no other deletes"),
        NOT_KNOWN,
        yes(
            Source(
                "https://aws.amazon.com/about-aws/whats-new/2026/08/amazon-redshift-supports-apache-iceberg-v3/",
                "2026-08-31",
            ),
            "on Graviton",
        ),
        glue_alone=_REDSHIFT,
    ),
    "snowflake": IcebergReader(
        yes(
            Source(
                "https://docs.snowflake.com/release-notes/2025/other/2025-10-17-position-row-level-deletes-externally-managed-iceberg-ga",
                "2025-10-17",
            )
        ),
        Support(
            Reads.REFUSES, Source("https://github.com/j3-signalroom/apache_flink-kickstarter/issues/769", "2025-10-26")
        ),
        yes(Source("https://docs.snowflake.com/release-notes/2026/other/2026-05-07-iceberg-v3-ga", "2026-05-07")),
    ),
    "spark": IcebergReader(yes(_SPARK), yes(_SPARK), yes(_SPARK)),
    "starrocks": IcebergReader(yes(_STARROCKS, "from 3.1"), yes(_STARROCKS, "from 3.2.5"), NOT_KNOWN),
    "trino": IcebergReader(
        yes(_OLAKE),
        yes(_OLAKE),
        Support(
            Reads.UNKNOWN,
            Source("https://github.com/trinodb/trino/pull/27788", "2025-12-30"),
            "in its code, in no release that is known here",
        ),
    ),
}
