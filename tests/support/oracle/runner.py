"""Run of a pack through headrace: its public interface, one session, and the observed result."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.oracle.decode import plain
from tests.support.oracle.encode import encode_files, encode_messages
from tests.support.oracle.model import COUNTS, Result, expect
from tests.support.record_log import LogRecord, RecordLog, append

from headrace import HeadraceError, Pipeline
from headrace_stack.servers.kafka import Kafka, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.plugins.sources.formats.test_avro_records import FakeRegistry


@dataclass(frozen=True)
class Servers:
    """Servers of packs: broker and schema registry. None: a pack that needs one cannot run."""

    kafka: Kafka | None = None
    registry: FakeRegistry | None = None


def run(pack: Mapping[str, Any], spark: SparkSession, folder: Path, servers: Servers) -> Result:
    """Return the observed result of a pack."""
    deliveries = _Deliveries(pack, folder, servers)
    pipeline = _build(pack, folder, servers)
    runs = []
    checkpoint, backup = folder / "checkpoint", folder / "backup"
    for number, step in enumerate(pack["steps"]):
        deliveries.write(number)
        if step.get("backup") and number:
            shutil.copytree(checkpoint, backup)
        summary = pipeline.run(spark)
        runs.append({t.table: {name: getattr(t, name) for name in COUNTS} for t in summary.tables})
        if step["repeat"]:
            _forget_last_batch(
                folder / "checkpoint" / ("ranged" if pack["transport"] == "log" else "stream") / "commits"
            )
            pipeline.run(spark)
        if step["replay"]:
            list(pipeline.replay(spark=spark))
        if backup.exists():
            shutil.rmtree(checkpoint)
            backup.rename(checkpoint)
    return Result(*_read(pack, pipeline, spark), runs)


class _Deliveries:
    """Writer of a pack's bytes into its transport."""

    def __init__(self, pack: Mapping[str, Any], folder: Path, servers: Servers) -> None:
        self._pack, self._folder, self._servers = pack, folder, servers
        self._topics: set[str] = set()
        if pack["transport"] == "files":
            self._files = encode_files(pack)
        else:
            self._messages, schemas = encode_messages(pack)
            if servers.registry:
                answers = {f"/schemas/ids/{id_}": {"schema": json.dumps(schema)} for id_, schema in schemas.items()}
                servers.registry.answers.update(answers)

    def write(self, batch: int) -> None:
        """Write the records of a batch."""
        if self._pack["transport"] == "files":
            for file in self._files[batch]:
                path = self._folder / "in" / file.topic / file.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.body)
        elif self._pack["transport"] == "log":
            records = [
                LogRecord(m.topic, m.offset, m.key, m.value, partition=m.partition) for m in self._messages[batch]
            ]
            append(self._folder / "log.jsonl", records)
        else:
            self._produce(batch)

    def _produce(self, batch: int) -> None:
        assert self._servers.kafka is not None
        for topic in dict.fromkeys(message.topic for message in self._messages[batch]):
            if topic not in self._topics:
                self._servers.kafka.create_topic(topic, partitions=2)
                self._topics.add(topic)
            found = [m for m in self._messages[batch] if m.topic == topic]
            self._servers.kafka.produce(topic, *(Record(m.value, key=m.key, partition=m.partition) for m in found))


def config(pack: Mapping[str, Any], folder: Path, servers: Servers) -> dict[str, Any]:
    """Return the pipeline file of a pack."""
    where = {"iceberg": "warehouse", "hudi": "path"}[pack["sink"]]
    rules = [_rule(rule, case, pack) for case in pack["cases"] for rule in case["rules"]]
    style = "avro" if pack["format"] == "avro" else "json"
    if pack["transport"] == "files":
        source: dict[str, Any] = {"files": {"path": str(folder / "in"), "format": style}}
    else:
        registry = {"registry": servers.registry.url} if servers.registry and style == "avro" else {}
        broker = servers.kafka.bootstrap_servers if servers.kafka else "localhost:1"
        source = {"kafka": {"bootstrap.servers": broker, "subscribePattern": f"{pack.get('prefix', '')}.*"}}
        source["value"] = {style: registry}
    return {
        "name": "oracle",
        "source": source,
        "tables": rules,
        "transforms": [{"unwrap": {"delete.tombstone.handling.mode": pack["deletes"]}}],
        "sink": {pack["sink"]: {where: str(folder / "lake"), "mode": pack["mode"]}},
        "checkpoint": str(folder / "checkpoint"),
        "maintenance": {"enabled": False},
    }


def _rule(rule: Mapping[str, Any], case: Mapping[str, Any], pack: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule of the pipeline file. Only files and AWS DMS need the names of key columns."""
    result = dict(rule)
    if pack["transport"] != "files" and case["dialect"] != "dms":
        del result["key"]
    if "columns" in rule:
        result["columns"] = {name: f"decimal({p},{s})" for name, (p, s) in rule["columns"].items()}
    return result


def _build(pack: Mapping[str, Any], folder: Path, servers: Servers) -> Pipeline:
    pipeline = Pipeline.from_dict(config(pack, folder, servers))
    if pack["transport"] != "log":
        return pipeline
    return replace(pipeline, source=RecordLog(path=str(folder / "log.jsonl")), renewal=None)


def with_prefix(pack: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the pack with other topics, because all packs share a broker."""
    changed: dict[str, Any] = {**json.loads(json.dumps(pack)), "prefix": prefix}
    for case in changed["cases"]:
        for rule in case["rules"]:
            rule["source"] = prefix + rule["source"]
        for record in (record for batch in case["batches"] for record in batch):
            record["topic"] = prefix + record["topic"]
    return changed


def find_differences(
    pack: Mapping[str, Any], spark: SparkSession, folder: Path, servers: Servers | None = None
) -> list[str]:
    """Return the differences between the expected and the observed result of a pack."""
    if pack["transport"] == "kafka":
        pack = with_prefix(pack, f"o{uuid.uuid4().hex[:8]}-")
    expected = expect(pack)
    try:
        observed = run(pack, spark, folder, servers or Servers())
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
        if number and pack["steps"][number - 1].get("backup"):
            continue  # The run reads the records of its previous batch again.
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
