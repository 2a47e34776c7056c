"""Soak test: correctness and speed over many commits, with maintenance and kills.

    python -m benchmarks.soak --work FOLDER [--commits 10000] [--sinks iceberg hudi] [--rows 100000] [--kills 50] [--files 32]

Each batch has a file of 200 changes: inserts, updates and deletes of random rows, some of them late or repeated. The run is killed
with -9 at random times and restarted. After every tenth of the commits, all rows of every table are compared with the sent changes,
and the figures of that tenth are printed. A stopped soak continues if it is started again with the same options.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
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
from benchmarks import process_tree

from headrace import Pipeline
from headrace.sdk import Table, TableSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES = 200
TOPIC, TABLE = "shop.public.orders", "shop.orders"
#: Sink → its option for the location of tables.
SINKS = {"iceberg": "warehouse", "hudi": "path"}
#: Number of inserts, deletes, late and repeated changes per file; the others are updates.
INSERTS, DELETES, LATE, AGAIN = 0.1, 0.09, 0.02, 0.03
#: Delay of late changes in files.
_LATE_BY = 5
PARTS = 10
#: Seconds between two samples of memory.
_LOOK_SECONDS = 10.0


@dataclass
class Shop:
    """Table of a database and the files of its changes."""

    bronze: Path
    chance: random.Random
    rows: dict[int, int] = field(default_factory=dict)
    commits: int = 0
    lsn: int = 10**12
    _keys: list[int] = field(default_factory=list)
    _held: list[tuple[int, str]] = field(default_factory=list)
    _sent: list[str] = field(default_factory=list)

    def fill(self, rows: int) -> None:
        """Write the first file: the initial rows."""
        self._deliver([self._put(key, "r") for key in range(rows)])

    def change(self) -> None:
        """Write a file of changes."""
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
        """Write a file of all delayed changes."""
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
    """Figures of a correct table. ``files``, ``bytes``: all on disk; ``seconds``: of a full scan."""

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
    """Figures of a part of the commits: seconds of its last batches, memory of the run, and the table of each sink."""

    commits: int
    kills: int
    seconds: Sequence[float]
    memory: int
    tables: Mapping[str, TableFigures]

    def __str__(self) -> str:
        ordered = sorted(self.seconds) or [0.0]
        p95 = ordered[max(0, round(len(ordered) * 0.95) - 1)]
        return (
            f"{self.commits:,} commits, {self.kills} kills: batch median {statistics.median(ordered):.2f} s, p95 {p95:.2f} s, "
            f"memory {self.memory / 2**20:,.0f} MiB; "
            + "; ".join(f"{sink}: {table}" for sink, table in self.tables.items())
        )


class Soak:
    """Pipeline that is repeatedly run and killed, and its source."""

    def __init__(self, work: Path, *, sinks: Sequence[str], files: int, history: str, seed: int = 1) -> None:
        """Prepare a soak. ``work``: a new folder, or that of a stopped soak. ``files``, ``history``: options of ``maintenance:``."""
        work.mkdir(parents=True, exist_ok=True)
        self._work, self._chance = work, random.Random()  # noqa: S311
        #: Output of the runs.
        self.log = work / "headrace.log"
        #: Last sample of the resident bytes of the run and its JVM.
        self.memory = 0
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

    @property
    def kills(self) -> int:
        """Total number of kills."""
        return len(self._kill_notes.read_text().splitlines()) if self._kill_notes.exists() else 0

    @property
    def _kill_notes(self) -> Path:
        return self._work / "kills.txt"

    def run(self, kills: int) -> None:
        """Run until all files are applied; kill the runs a number of times in total."""
        while True:
            # Java starts in the first ten seconds; some kills must hit the start.
            seconds = self._chance.uniform(5, 60) if self.kills < kills else math.inf
            code = self._run_for(seconds)
            if code == 0:
                return
            if code is not None:
                end = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise RuntimeError(f"headrace exited with {code}: see {self.log}, which ends with\n{end}")
            with self._kill_notes.open("a") as notes:
                notes.write(f"{time.strftime('%FT%T')} after {seconds:.1f} s\n")

    def _run_for(self, seconds: float) -> int | None:
        """Return the exit code of a run; None if it was killed after the time."""
        program = [sys.executable, "-m", "headrace", "run", str(self._work / "soak.yaml"), "--available-now"]
        ends = time.monotonic() + seconds
        with self.log.open("ab") as log:
            process = subprocess.Popen(program, stdout=log, stderr=log, start_new_session=True)
            try:
                while (left := ends - time.monotonic()) > 0:
                    try:
                        return process.wait(min(left, _LOOK_SECONDS))
                    except subprocess.TimeoutExpired:
                        self.memory = sum(member.rss for member in process_tree.tree(process.pid).values())
                return None
            finally:  # also if the soak is stopped
                # The whole group, as a supervisor does: the JVM could otherwise complete its batch next to the following run.
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def compare(self, spark: SparkSession) -> dict[str, TableFigures]:
        """Compare every row of every table with the source and return figures. AssertionError for a difference."""
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
        """Return the seconds of each batch from one on; the checkpoint keeps the last hundred."""
        folder = self._work / "checkpoint" / "progress"
        batches = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("[0-9]*.json")))
        return [batch["seconds"] for batch in batches if batch["batch"] >= since]

    def session(self) -> SparkSession:
        """Return a session that reads the tables."""
        return Pipeline.from_dict(self._config).session()


def soak(work: Path, options: argparse.Namespace) -> Iterator[str]:
    """Yield the figures of each tenth of the commits, including those that were printed before a restart."""
    run = Soak(work, sinks=options.sinks, files=options.files, history=options.history)
    notes = work / "figures.txt"
    printed = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    yield from printed
    run.shop.fill(options.rows)
    spark = run.session()
    for part in range(1, PARTS + 1):
        since = run.shop.commits
        while run.shop.commits < options.commits * part // PARTS:
            run.shop.change()
        run.shop.release()
        if part > len(printed):
            run.run(options.kills * part // PARTS)
            figures = Figures(run.shop.commits - 1, run.kills, run.seconds(since), run.memory, run.compare(spark))
            with notes.open("a", encoding="utf-8") as file:
                file.write(f"{figures}\n")
            yield str(figures)


def note_options(work: Path, options: Mapping[str, object]) -> None:
    """Record the options of a soak folder; SystemExit if it was started with others."""
    notes = work / "options.json"
    work.mkdir(parents=True, exist_ok=True)
    if notes.exists() and (was := json.loads(notes.read_text(encoding="utf-8"))) != options:
        sys.exit(f"{work} has a soak of {was}: remove it, choose another folder, or continue with the same options")
    notes.write_text(json.dumps(options), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the soak and print the figures of each tenth."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--commits", type=int, default=10_000)
    cli.add_argument("--sinks", nargs="+", choices=SINKS, default=[*SINKS])
    cli.add_argument("--rows", type=int, default=100_000)
    cli.add_argument("--kills", type=int, default=50)
    cli.add_argument("--files", type=int, default=32, help="maintenance: {files: …}")
    cli.add_argument("--history", default="10 minutes", help="maintenance: {history: …}")
    options = cli.parse_args(arguments)
    work = options.work.resolve()
    note_options(work, {name: value for name, value in vars(options).items() if name != "work"})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    for figures in soak(work, options):
        print(figures, flush=True)


if __name__ == "__main__":
    main()
