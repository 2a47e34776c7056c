"""What engines read of Hudi tables, and where that is known from: the choice for new tables and the page of the docs are made from it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace_sinks.reader_support import NOT_KNOWN, Reads, Source, Support, trial, yes


@dataclass(frozen=True)
class HudiReader:
    """An engine."""

    #: COPY_ON_WRITE: base files alone.
    copy_on_write: Support
    #: MERGE_ON_READ: base files with log files beside them. Who ignores these shows rows as they were at the last compaction.
    merge_on_read: Support
    #: The newest `hoodie.table.version` that it reads, and where that is known from; None where it is not known.
    table_version: int | None = None
    version_source: Source | None = None


_MATRIX = Source("https://hudi.apache.org/docs/sql_queries#support-matrix", "2026-11-25")
_ATHENA = Source("https://docs.aws.amazon.com/athena/latest/ug/querying-hudi.html", "2026-11-25")
_STARROCKS = Source(
    "https://github.com/StarRocks/starrocks/blob/main/docs/en/data_source/feature-support-data-lake-analytics.md",
    "2026-11-25",
)
_TRINO = Source("https://github.com/trinodb/trino/blob/master/docs/src/main/sphinx/connector/hudi.md", "2026-11-25")
_SPARK, _HUDI_RS, _DAFT = trial("Hudi 1.2"), trial("hudi-rs 0.5"), trial("Daft 0.7.26")
_BUNDLE = "with Hudi's own bundle, of 1.1 or later"

READERS = {
    "athena": HudiReader(
        yes(_ATHENA),
        Support(
            Reads.UNKNOWN,
            Source("https://issues.apache.org/jira/browse/HUDI-7362", "2026-11-25"),
            "its page says yes, Hudi's that it may fail",
        ),
        6,
        _ATHENA,
    ),
    "bigquery": HudiReader(yes(_MATRIX), NOT_KNOWN),
    "clickhouse": HudiReader(yes(_MATRIX), Support(Reads.NO, _MATRIX)),
    "daft": HudiReader(Support(Reads.REFUSES, _DAFT), Support(Reads.REFUSES, _DAFT)),
    "flink": HudiReader(yes(_MATRIX, _BUNDLE), yes(_MATRIX, _BUNDLE), 9, _MATRIX),
    "hive": HudiReader(yes(_MATRIX, _BUNDLE), yes(_MATRIX, _BUNDLE), 9, _MATRIX),
    "hudi-rs": HudiReader(
        yes(_HUDI_RS),
        yes(_HUDI_RS, "it refuses one whose columns got wider or whose structs got fields, until it is compacted"),
        9,
        _HUDI_RS,
    ),
    "impala": HudiReader(yes(_MATRIX), Support(Reads.IGNORES, _MATRIX)),
    "presto": HudiReader(yes(_MATRIX), yes(_MATRIX, "from 0.240")),
    "redshift": HudiReader(yes(_MATRIX, "Hudi 0.5 to 0.11"), Support(Reads.IGNORES, _MATRIX), 4, _MATRIX),
    "spark": HudiReader(yes(_SPARK), yes(_SPARK), 9, _SPARK),
    "starrocks": HudiReader(yes(_STARROCKS), yes(_STARROCKS), 6, _STARROCKS),
    "trino": HudiReader(yes(_TRINO), Support(Reads.IGNORES, _TRINO)),
}
