"""Repair of rows that differ: the connector reads them again, and the pipeline applies them in their order."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace_verify.comparison import is_equal
from headrace_verify.sides import Key, SourceSide
from headrace_verify.source_table import SourceDatabase, SourceTable
from headrace_verify.table_verification import Verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace import Pipeline

#: Characters of the column `data` of a signal table, as Debezium documents it.
_DATA = 2048
#: Rows of a table that are repaired. For more, a snapshot of the whole table is faster.
MAX_ROWS = 1_000
#: Seconds between two looks at the table.
_PAUSE = 5.0


class Repair:
    """Repair of tables by incremental snapshots of single rows. ``report`` prints a line about each signal that was sent."""

    def __init__(self, database: SourceDatabase, timeout: float, report: Callable[[str], None]) -> None:
        self._database, self._timeout, self._report = database, timeout, report

    def repair(self, results: Sequence[Verified], pipeline: Pipeline, spark: SparkSession) -> None:
        """Repair the tables that differ, and update their results. The pipeline's log has the command."""
        tables = tuple(result.table for result in results if self._list_keys(result))
        if tables:
            with pipeline.record("verify", spark, tables=tables, repair=True):
                for result in results:
                    self._repair(result)
        for result in results:
            if extra := result.comparison.counts["extra"]:
                result.notes.append(
                    f"a snapshot does not remove rows that the database does not have: {extra:,}. Take a blocking snapshot of the "
                    f"table, let the pipeline apply it, stop the pipeline, and run `headrace resync FILE {result.table}`"
                )

    def _list_keys(self, result: Verified) -> list[Key]:
        return [item.key for item in result.comparison.differences if item.kind != "extra"]

    def _repair(self, result: Verified) -> None:
        keys = self._list_keys(result)
        if result.compared is None or result.sides is None or not keys:
            return
        if len(keys) > MAX_ROWS:
            result.notes.append(
                f"more than {MAX_ROWS:,} rows differ: take a snapshot of the whole table (docs/backfill.md)"
            )
            return
        for data in write_signals(result.compared.source, result.sides[0], keys):
            result.signals.append(self._database.send_signal("execute-snapshot", data))
            self._report(f"{result.table}: sent signal {result.signals[-1]}: execute-snapshot {data}")
        repaired = set(keys).difference(self._await_rows(result, keys))
        result.comparison.drop(repaired)
        result.notes.append(f"repaired rows: {len(repaired):,}")
        if left := len(keys) - len(repaired):
            result.notes.append(
                f"rows that still differ {self._timeout:g} seconds after the signal: {left:,}. Check `headrace connect status FILE`, the "
                "connector's log and `headrace dead-letters FILE`; or raise --timeout"
            )

    def _await_rows(self, result: Verified, keys: list[Key]) -> list[Key]:
        """Return the keys whose rows still differ at the end of the timeout."""
        assert result.sides is not None
        source, lake = result.sides
        deadline = time.monotonic() + self._timeout
        while keys:
            stored, rows = lake.find_rows(keys), source.find_rows(keys)
            keys = [key for key in keys if not is_equal(stored.get(key), rows.get(key))]
            if not keys or time.monotonic() > deadline:
                break
            time.sleep(_PAUSE)
        return keys


def write_signals(table: SourceTable, side: SourceSide, keys: Sequence[Key]) -> Iterator[str]:
    """Yield the data of signals for a snapshot of some rows. Each fits the signal table, unless a single key is too long."""
    some: list[str] = []
    for condition in (f"({side.match(key)})" for key in keys):
        if some and len(_write_data(table, [*some, condition])) > _DATA:
            yield _write_data(table, some)
            some = []
        some.append(condition)
    yield _write_data(table, some)


def _write_data(table: SourceTable, conditions: Sequence[str]) -> str:
    # Debezium reads names as regular expressions.
    name = re.sub(r"([\\^$|?*+()\[\]{}])", r"\\\1", str(table))
    condition = {"data-collection": name, "filter": " or ".join(conditions)}
    data = {"data-collections": [name], "type": "incremental", "additional-conditions": [condition]}
    return json.dumps(data, ensure_ascii=False)
