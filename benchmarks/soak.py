"""Whether tables stay true and quick over very many commits, while maintenance goes on and the run is killed.

    python -m benchmarks.soak --work FOLDER [--commits 10000] [--sinks iceberg hudi] [--rows 100000] [--kills 50] [--files 32]

Files of 200 changes come, a file to a batch: inserts, updates and deletes anywhere in the table, some that come late or again. The
run is killed with -9 so many times, at times of chance, and started again. After every tenth of the commits all rows of every table
are compared with what was sent; then the figures of that tenth are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from headrace import Pipeline
from headrace.sdk import Table, TableSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES = 200
TOPIC, TABLE = "shop.public.orders", "shop.orders"
#: Option of each sink → where its tables are.
SINKS = {"iceberg": "warehouse", "hudi": "path"}
#: Of a file's changes: how many insert, delete, come late, or come again; the others update.
INSERTS, DELETES, LATE, AGAIN = 0.1, 0.09, 0.02, 0.03
#: Files between a change and its coming late.
_LATE_BY = 5


@dataclass
class Shop:
    """A table of a database, and the files of its changes."""

    bronze: Path
    chance: random.Random
    rows: dict[int, int] = field(default_factory=dict)
    commits: int = 0
    lsn: int = 10**12
    _keys: list[int] = field(default_factory=list)
    _held: list[tuple[int, str]] = field(default_factory=list)
    _sent: list[str] = field(default_factory=list)

    def fill(self, rows: int) -> None:
        """The first file: the rows that are there already."""
        self._deliver([self._put(key, "r") for key in range(rows)])

    def change(self) -> None:
        """One more file of changes."""
        lines = [line for at, line in self._held if at <= self.commits]
        self._held = [(at, line) for at, line in self._held if at > self.commits]
        for _ in range(CHANGES):
            line, dice = self._next(), self.chance.random()
            if dice < LATE:
                self._held.append((self.commits + _LATE_BY, line))
            else:
                lines.append(line)
            if dice > 1 - AGAIN and self._sent:
                lines.append(self.chance.choice(self._sent))
        self._sent = lines
        self._deliver(lines)

    def release(self) -> None:
        """One more file, of all that was held back."""
        lines, self._held = [line for _, line in self._held], []
        self._deliver(lines)

    def _next(self) -> str:
        dice = self.chance.random()
        if dice < INSERTS or not self._keys:
            return self._put(self.lsn, "c")
        at = self.chance.randrange(len(self._keys))
        key = self._keys[at]
        if dice > 1 - DELETES:
            self._keys[at] = self._keys[-1]
            self._keys.pop()
            del self.rows[key]
            return self._event("d", key, None)
        return self._put(key, "u")

    def _put(self, key: int, op: str) -> str:
        if key not in self.rows:
            self._keys.append(key)
        self.rows[key] = self.lsn
        return self._event(op, key, self.lsn)

    def _event(self, op: str, key: int, value: int | None) -> str:
        self.lsn += 1
        after = {"id": key, "turn": value, "note": f"note {value}"} if value is not None else None
        before = {"id": key, "turn": None, "note": None} if op == "d" else None
        sequence = f'["{self.lsn}","{self.lsn}"]'
        source = {"connector": "postgresql", "ts_ms": 1, "lsn": self.lsn, "sequence": sequence}
        return json.dumps({"before": before, "after": after, "source": source, "op": op})

    def _deliver(self, lines: Sequence[str]) -> None:
        folder = self.bronze / TOPIC / "partition=0"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{TOPIC}+0+{self.commits:012d}.json"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.utime(file, (1_700_000_000 + self.commits, 1_700_000_000 + self.commits))  # the oldest is taken first
        self.commits += 1


@dataclass(frozen=True)
class TableFigures:
    """What a sink's table is when all its rows are right. ``files``, ``bytes``: all on disk; ``seconds``: of reading its rows."""

    rows: int
    size: TableSize
    files: int
    bytes: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows are right, {self.size.files} files, {self.size.delete_files} of deletes, {self.size.versions} "
            f"versions, {self.files:,} files and {self.bytes / 2**20:,.1f} MiB on disk, read in {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Figures:
    """What a part of the commits came to: seconds of its batches, and of each sink what its table is."""

    commits: int
    kills: int
    seconds: Sequence[float]
    tables: Mapping[str, TableFigures]

    def __str__(self) -> str:
        ordered = sorted(self.seconds) or [0.0]
        p95 = ordered[max(0, round(len(ordered) * 0.95) - 1)]
        return (
            f"{self.commits:,} commits, {self.kills} kills: batch median {statistics.median(ordered):.2f} s, p95 {p95:.2f} s; "
            + "; ".join(f"{sink}: {table}" for sink, table in self.tables.items())
        )


class Soak:
    """A pipeline that is run and killed again and again, and the shop that it follows."""

    def __init__(self, work: Path, *, sinks: Sequence[str], files: int, history: str, seed: int = 1) -> None:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self._work, self._sinks, self._chance = work, sinks, random.Random(seed)  # noqa: S311
        #: What the runs print.
        self.log = work / "headrace.log"
        self.shop = Shop(work / "bronze", random.Random(seed))  # noqa: S311
        self._config = {
            "name": "soak",
            "source": {"files": {"path": str(work / "bronze"), "format": "json", "maxFilesPerTrigger": 1}},
            "tables": [{"source": TOPIC, "key": ["id"], "target": TABLE}],
            "transforms": [{"unwrap": {}}],
            "sinks": [{sink: {SINKS[sink]: str(work / "lake" / sink)}} for sink in sinks],
            "maintenance": {"files": files, "history": history},
            "checkpoint": str(work / "checkpoint"),
        }
        (work / "soak.yaml").write_text(yaml.safe_dump(self._config), encoding="utf-8")

    def run(self, kills: int) -> int:
        """Runs until all files are applied, killed so many times at most; how many times it was."""
        done = 0
        while True:
            with self.log.open("ab") as log:
                program = [sys.executable, "-m", "headrace", "run", str(self._work / "soak.yaml"), "--available-now"]
                process = subprocess.Popen(program, stdout=log, stderr=log)
                try:
                    # The first ten seconds are Java's start; some kills are to meet that too.
                    code = process.wait(self._chance.uniform(5, 60) if done < kills else None)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    done += 1
                    continue
            if code != 0:
                raise RuntimeError(f"headrace ended with {code}: see {self.log}")
            return done

    def compare(self, spark: SparkSession) -> dict[str, TableFigures]:
        """Every row of every table against the shop's; what each table is. AssertionError where one differs."""
        pipeline = Pipeline.from_dict(self._config)
        tables = {}
        for sink in pipeline.sinks:
            began = time.monotonic()
            found = dict(map(tuple, pipeline.read(TABLE, sink=sink.name, spark=spark).select("id", "turn").collect()))
            seconds = time.monotonic() - began
            wrong = {key for key in found.keys() | self.shop.rows.keys() if found.get(key) != self.shop.rows.get(key)}
            assert not wrong, f"{sink.name}: {len(wrong)} rows differ, among them {sorted(wrong)[:5]}"
            size = sink.measure_table(spark, Table(TABLE, ("id",)))
            assert size is not None
            sizes = [path.stat().st_size for path in (self._work / "lake" / sink.name).rglob("*") if path.is_file()]
            tables[sink.name] = TableFigures(len(found), size, len(sizes), sum(sizes), seconds)
        return tables

    def seconds(self, since: int) -> list[float]:
        """The seconds of each batch from that one on; the checkpoint keeps the last hundred."""
        folder = self._work / "checkpoint" / "progress"
        batches = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("[0-9]*.json")))
        return [batch["seconds"] for batch in batches if batch["batch"] >= since]

    def session(self) -> SparkSession:
        """A session that reads the tables."""
        return Pipeline.from_dict(self._config).session()


def soak(work: Path, options: argparse.Namespace) -> Iterator[Figures]:
    """The figures of each tenth of the commits."""
    run = Soak(work, sinks=options.sinks, files=options.files, history=options.history)
    run.shop.fill(options.rows)
    killed = run.run(0)
    spark = run.session()
    parts = 10
    for part in range(1, parts + 1):
        since = run.shop.commits
        while run.shop.commits - 1 < options.commits * part // parts - 1:
            run.shop.change()
        run.shop.release()
        killed += run.run(options.kills * part // parts - killed)
        yield Figures(run.shop.commits - 1, killed, run.seconds(since), run.compare(spark))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it, and print what came of each tenth."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--commits", type=int, default=10_000)
    cli.add_argument("--sinks", nargs="+", choices=SINKS, default=[*SINKS])
    cli.add_argument("--rows", type=int, default=100_000)
    cli.add_argument("--kills", type=int, default=50)
    cli.add_argument("--files", type=int, default=32, help="maintenance: {files: …}")
    cli.add_argument("--history", default="10 minutes", help="maintenance: {history: …}")
    options = cli.parse_args(arguments)
    for figures in soak(options.work.resolve(), options):
        print(figures, flush=True)


if __name__ == "__main__":
    main()
