"""Run of a pack through headrace: its public interface, one session, and the observed result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.oracle.decode import plain
from tests.support.oracle.encode import encode_files
from tests.support.oracle.model import COUNTS, Result, expect

from headrace import HeadraceError, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(pack: Mapping[str, Any], spark: SparkSession, folder: Path) -> Result:
    """Return the observed result of a pack."""
    pipeline = Pipeline.from_dict(config(pack, folder))
    runs = []
    for step, files in zip(pack["steps"], encode_files(pack), strict=True):
        for file in files:
            path = folder / "in" / file.topic / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.body)
        summary = pipeline.run(spark)
        runs.append({t.table: {name: getattr(t, name) for name in COUNTS} for t in summary.tables})
        if step["repeat"]:
            _forget_last_batch(folder / "checkpoint/stream/commits")
            pipeline.run(spark)
        if step["replay"]:
            list(pipeline.replay(spark=spark))
    return Result(*_read(pack, pipeline, spark), runs)


def config(pack: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the pipeline file of a pack."""
    where = {"iceberg": "warehouse", "hudi": "path"}[pack["sink"]]
    return {
        "name": "oracle",
        "source": {"files": {"path": str(folder / "in"), "format": "avro" if pack["format"] == "avro" else "json"}},
        "tables": [rule for case in pack["cases"] for rule in case["rules"]],
        "transforms": [{"unwrap": {"delete.tombstone.handling.mode": pack["deletes"]}}],
        "sink": {pack["sink"]: {where: str(folder / "lake"), "mode": pack["mode"]}},
        "checkpoint": str(folder / "checkpoint"),
        "maintenance": {"enabled": False},
    }


def find_differences(pack: Mapping[str, Any], spark: SparkSession, folder: Path) -> list[str]:
    """Return the differences between the expected and the observed result of a pack."""
    expected = expect(pack)
    try:
        observed = run(pack, spark, folder)
    except HeadraceError as error:
        return [f"the run failed: {error}"]
    return compare(pack, expected, observed)


def compare(pack: Mapping[str, Any], expected: Result, observed: Result) -> list[str]:
    """Return the differences between two results."""
    found = []
    for table in sorted(expected.tables.keys() | observed.tables.keys()):
        one, other = expected.tables.get(table, []), observed.tables.get(table, [])
        if one != other:
            missing, extra = _subtract(one, other), _subtract(other, one)
            found.append(f"table {table}:\n  expected, missing: {missing}\n  observed, not expected: {extra}")
    if expected.dead_letters != observed.dead_letters:
        missing = _subtract(expected.dead_letters, observed.dead_letters)
        extra = _subtract(observed.dead_letters, expected.dead_letters)
        found.append(f"dead letters:\n  expected, missing: {missing}\n  observed, not expected: {extra}")
    for number, (one_run, other_run) in enumerate(zip(expected.runs, observed.runs, strict=True)):
        for table in sorted(one_run.keys() | other_run.keys()):
            want, got = _known_counts(one_run.get(table, {}), other_run.get(table, {}))
            if want != got:
                found.append(f"counts of run {number}, table {table}:\n  expected {want}\n  observed {got}")
    return found


def _known_counts(want: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the counts that can be compared: a sink that does not count late rows counts them as applied."""
    expected, observed = dict(want), dict(got)
    if observed.get("late", 0) is None and expected:
        expected["applied"] += expected["late"]
        expected["late"] = None
    return expected, observed


def _subtract(one: list[Any], other: list[Any]) -> list[Any]:
    rest = [json.dumps(item, sort_keys=True) for item in other]
    found = []
    for item in one:
        text = json.dumps(item, sort_keys=True)
        if text in rest:
            rest.remove(text)
        else:
            found.append(item)
    return found


def _forget_last_batch(commits: Path) -> None:
    """Remove the mark of the last batch, as if the run had been killed before it."""
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def _read(
    pack: Mapping[str, Any], pipeline: Pipeline, spark: SparkSession
) -> tuple[dict[str, list[Any]], list[list[Any]]]:
    expected = expect(pack)
    tables: dict[str, list[Any]] = {}
    for name in expected.tables:
        try:
            frame = pipeline.read(name, spark=spark)
        except HeadraceError:
            tables[name] = []
            continue
        rows = [plain(row.asDict(recursive=True)) for row in frame.collect()]
        tables[name] = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, ensure_ascii=False))
    letters = pipeline.read_dead_letters(spark)
    names = ("table", "reason", "topic", "partition", "offset")
    found = [] if letters is None else [list(row) for row in letters.select(*names).collect()]
    return tables, sorted(found, key=lambda row: json.dumps(row, sort_keys=True, ensure_ascii=False))
