"""Progress in the checkpoint, and sums of its counts."""

from __future__ import annotations

from dataclasses import fields, replace

from headrace.progress.model import BatchProgress, TableCounts, TableProgress
from headrace.progress.summary import Summary, TableSummary

#: File of the previous version.
FILE = (
    '{"pipeline": "shop", "batch": 7, "started": "2026-01-02T03:04:05.000+00:00", "seconds": 2.5, "tables": ['
    '{"table": "örders", "sink": "iceberg", "rows_in": 9, "applied": 5, "late": 1, "dead_letters": 2, '
    '"latency_ms": 1500, "bytes": 4096, "version": "77", "seconds": 1.2, "latency_max_ms": 2500, "superseded": 1, '
    '"dropped": 3, "lag": 4, "skipped": false, "error": null, "note": "its events carry no key"}, '
    '{"table": "bad", "sink": "iceberg", "rows_in": null, "applied": null, "late": null, "dead_letters": 0, '
    '"latency_ms": null, "bytes": null, "version": null, "seconds": 0.5, "latency_max_ms": null, "superseded": null, '
    '"dropped": 0, "lag": null, "skipped": true, "error": "full", "note": null}], '
    '"unrouted": ["users"], "notices": {"tx": "where transactions begin"}}'
)
ORDERS = TableProgress(
    "orders", "iceberg", rows_in=9, applied=5, late=1, superseded=1, dead_letters=2, dropped=3, latency_ms=1500
)


def test_file_is_read_and_written_unchanged() -> None:
    assert BatchProgress.from_json(FILE).json() == FILE


def test_lag_in_milliseconds_is_in_the_file() -> None:
    batch = BatchProgress("shop", 7, "2026-01-02T03:04:05.000+00:00", 2.5, (replace(ORDERS, lag_ms=4000),))
    assert '"note": null, "lag_ms": 4000}' in batch.json()
    assert BatchProgress.from_json(batch.json()) == batch


def test_records_left_out_per_topic_are_in_the_file() -> None:
    counted = replace(BatchProgress.from_json(FILE), left_out={"tx": 3})
    assert BatchProgress.from_json(counted.json()) == counted


def test_all_fields_are_in_the_file() -> None:
    assert sorted(
        replace(ORDERS, stages_ms={"write": 1}, lag_ms=1, filtered=1, reasons={"key-missing": 2}).to_dict()
    ) == sorted(field.name for field in fields(TableProgress))


def test_reasons_of_dead_letters_are_in_the_file_and_add_up() -> None:
    one, other = (
        replace(ORDERS, reasons={"key-missing": 2}),
        replace(ORDERS, reasons={"key-missing": 1, "too-large": 1}),
    )
    batch = BatchProgress("shop", 7, "2026-01-02T03:04:05.000+00:00", 2.5, (one,))
    assert BatchProgress.from_json(batch.json()) == batch
    assert one.join(other).reasons == {"key-missing": 3, "too-large": 1}


def test_stages_are_those_of_the_newest_change() -> None:
    older = replace(ORDERS, latency_ms=4000, stages_ms={"transport": 3000, "read": 600, "write": 400})
    newer = replace(ORDERS, latency_ms=900, stages_ms={"transport": 100, "read": 600, "write": 200})
    batch = BatchProgress("shop", 7, "2026-01-02T03:04:05.000+00:00", 2.5, (older,), steps={"plan": 0.2, "write": 2.1})
    assert BatchProgress.from_json(batch.json()) == batch
    unknown = replace(ORDERS, latency_ms=None)
    for joined in (older.join(newer), newer.join(older), newer.join(unknown), unknown.join(newer)):
        assert (joined.latency_ms, joined.stages_ms) == (900, newer.stages_ms)


def test_counts_are_added_separately() -> None:
    counts = TableCounts(rows_in=1, applied=2, late=3, superseded=4, dead_letters=5, dropped=6, filtered=7)
    both = TableCounts(rows_in=10, applied=7, late=4, superseded=5, dead_letters=7, dropped=9, filtered=8)
    assert counts + replace(ORDERS, filtered=1) == both
    assert counts + TableCounts() == TableCounts(dead_letters=5, dropped=6, filtered=7)


def test_batch_can_be_added_to_a_summary() -> None:
    total = TableSummary.empty("orders", "iceberg") + ORDERS
    assert total == TableSummary(
        "orders", "iceberg", rows_in=9, applied=5, late=1, superseded=1, dead_letters=2, dropped=3
    )


def test_dead_letter_is_counted_once_for_several_sinks() -> None:
    tables = (ORDERS, replace(ORDERS, sink="hudi"), replace(ORDERS, table="items"))
    summary = Summary.of("shop", [BatchProgress("shop", n, "", 1.0, tables) for n in range(2)])
    assert summary.dead_letters == 8
    assert [table.rows_in for table in summary.tables] == [18, 18, 18]
