"""Torture test: tables equal to a database under load, while the run and its servers are killed.

PostgreSQL, Debezium, a registry and Kafka run on this machine. headrace writes Iceberg, with a Hive metastore, and Hudi. The run is
killed with -9 repeatedly. Then each server in turn is killed and restarted after some seconds. headrace recovers without help; only a
failed task of Kafka Connect is restarted. At the end every row of every table is compared with the database.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import Pipeline
from headrace_stack import Connect, Kafka, Metastore, Postgres, SchemaRegistry
from headrace_stack.servers.json_http import request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace_stack.servers.server import Server

#: Each transaction is a business operation of a shop; `commit` ends it.
SETUP = """
create schema torture;
create table torture.accounts (id bigint primary key, name text not null, balance numeric(14,2), touched int);
create table torture.orders (id bigserial primary key, account bigint, state text, note text);
create table torture.lines (order_id bigint, line int, sku text, qty int, primary key (order_id, line));
create table torture.documents (id int primary key, rev int, body text);
create table torture.tokens (id text primary key, slot int unique, n int);
alter table torture.documents alter body set storage external;
create unique index on torture.documents (abs(id));
insert into torture.accounts select i, 'account ' || i, 100, 0 from generate_series(1, 2000) i;
insert into torture.orders (account, state) select i, 'new' from generate_series(1, 1000) i;
insert into torture.lines select i, g, md5(i || ',' || g), g from generate_series(1, 1000) i, generate_series(1, 2) g;
insert into torture.documents select i, 0, repeat(md5(i::text), 150) from generate_series(1, 200) i;
insert into torture.tokens select md5(i::text), i, 0 from generate_series(1, 200) i;
create procedure torture.load(transactions int) language plpgsql as $$
declare
  kind float; one bigint; made bigint;
begin
  for i in 1..transactions loop
    kind := random();
    one := 1 + floor(random() * 2000)::bigint;
    if kind < 0.35 then
      update torture.accounts set balance = balance - 1.25, touched = touched + 1 where id = one;
      update torture.accounts set balance = balance + 1.25, touched = touched + 1 where id = 2001 - one;
    elsif kind < 0.60 then
      insert into torture.orders (account, state) values (one, 'new') returning id into made;
      insert into torture.lines select made, g, md5(random()::text), g from generate_series(1, 2) g;
    elsif kind < 0.75 then
      made := (select max(id) from torture.orders) - floor(random() * 500)::bigint;
      update torture.orders set state = (array['paid', 'sent', null])[1 + floor(random() * 3)::int], note = repeat('é', (random() * 50)::int)
      where id = made;
    elsif kind < 0.85 then
      made := (select max(id) from torture.orders) - floor(random() * 1000)::bigint;
      delete from torture.lines where order_id = made;
      delete from torture.orders where id = made;
    elsif kind < 0.93 then
      update torture.documents
      set rev = rev + 1, body = case when random() < 0.1 then repeat(md5(random()::text), 150) else body end,
          id = case when random() < 0.03 then -id else id end
      where abs(id) = one % 200 + 1;
    elsif kind < 0.98 then
      update torture.tokens set id = md5(random()::text), n = n + 1 where slot = one % 200 + 1;
    elsif random() < 0.5 then
      delete from torture.accounts where id = one;
    else
      insert into torture.accounts values (one, 'again', 0, 0) on conflict do nothing;
    end if;
    commit;
  end loop;
end $$;
"""
#: Columns of the tables.
TABLES = {
    "accounts": ("id", "name", "balance", "touched"),
    "orders": ("id", "account", "state", "note"),
    "lines": ("order_id", "line", "sku", "qty"),
    "documents": ("id", "rev", "body"),
    "tokens": ("id", "slot", "n"),
}
NAME = "torture"
_CHUNK = 50
#: Longest delay of the load that it catches up, in seconds.
_LATE = 5.0


class Load(threading.Thread):
    """Transactions at a constant rate until `end`; it waits for an unreachable database."""

    def __init__(self, postgres: Postgres, rate: float) -> None:
        super().__init__(daemon=True, name="load")
        self._postgres, self._rate = postgres, rate
        self._ended = threading.Event()
        self.transactions, self.seconds = 0, 0.0

    def run(self) -> None:
        began = time.monotonic()
        while not self._ended.is_set():
            try:
                connection = self._postgres.connect()
                due = time.monotonic()
                while not self._ended.is_set():
                    connection.run(f"call torture.load({_CHUNK})")
                    self.transactions += _CHUNK
                    due = max(due + _CHUNK / self._rate, time.monotonic() - _LATE)
                    time.sleep(max(0.0, due - time.monotonic()))
            except Exception:  # noqa: BLE001 - clients raise various errors for an unreachable server
                time.sleep(0.5)
        self.seconds = time.monotonic() - began

    def end(self) -> None:
        self._ended.set()
        self.join()


#: Consecutive starts without a batch, after which the test waits for one; otherwise a slow machine makes no progress.
MAX_FRUITLESS_STARTS = 2


@dataclass
class Follower:
    """Process of ``headrace run``."""

    file: Path
    log: Path
    checkpoint: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "headrace", "run", str(self.file), *more]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Kill the process and its JVM."""
        assert self.process is not None
        os.killpg(self.process.pid, number)
        self.process.wait(120)

    def check(self) -> None:
        """Raise AssertionError if the process has ended."""
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(
                f"headrace exited with status {self.process.returncode}:\n{self.log.read_text()[-3000:]}"
            )

    def count_starts(self) -> int:
        """Return how often a run was about to read its first batch."""
        return self.log.read_text().count("reading the source") if self.log.exists() else 0

    def batches(self) -> list[dict[str, Any]]:
        """Return the progress of all batches, oldest first."""
        return [json.loads(path.read_text()) for path in sorted((self.checkpoint / "progress").glob("[0-9]*.json"))]


@dataclass
class Result:
    """Result of a torture run."""

    kills: int = 0
    transactions: int = 0
    seconds: float = 0.0
    #: Restarts of failed connector tasks.
    restarts: int = 0
    #: Server → seconds from its restart to the end of the first batch planned after it.
    recovered: dict[str, float] = field(default_factory=dict)
    #: Table and sink → number of equal and of different rows.
    compared: dict[str, tuple[int, int]] = field(default_factory=dict)


class Torture:
    """Servers of a run and the faults injected into them."""

    def __init__(self, work: Path, stack: ExitStack, *, sinks: Sequence[str], metastore: bool, rate: float) -> None:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.result, self._sinks = Result(), sinks
        self._kafka, self._postgres = stack.enter_context(Kafka()), stack.enter_context(Postgres())
        self._registry = stack.enter_context(SchemaRegistry())
        self._connect = stack.enter_context(Connect(self._kafka))
        self.servers: dict[str, Server] = {
            "Kafka": self._kafka,
            "Kafka Connect": self._connect,
            "registry": self._registry,
            "PostgreSQL": self._postgres,
        }
        self._config = self._pipeline_config(work, stack, sinks, metastore=metastore)
        file = work / "torture.yaml"
        file.write_text(json.dumps(self._config))  # which is YAML, too
        self.follower = Follower(file, work / "headrace.log", work / "checkpoint")
        self._postgres.execute(SETUP)
        self._connect.put(
            NAME,
            {
                **self._postgres.debezium(NAME),
                "schema.include.list": NAME,
                "poll.interval.ms": "50",
                **self._registry.avro_converter(),
            },
        )
        self._rate = rate

    def _pipeline_config(
        self, work: Path, stack: ExitStack, sinks: Sequence[str], *, metastore: bool
    ) -> dict[str, Any]:
        """Return the pipeline file as a mapping; start a metastore if the pipeline uses one."""
        catalog: dict[str, Any] = {"warehouse": str(work / "lake/iceberg")}
        if metastore:
            self.servers["Hive metastore"] = hive = stack.enter_context(Metastore())
            properties = {"type": "hive", "uri": hive.uri, "warehouse": str(hive.warehouse)}
            catalog = {"catalog": "lake", "catalog.properties": properties}
        blocks = {"iceberg": {**catalog, "readers": ["spark"]}, "hudi": {"path": str(work / "lake/hudi")}}
        return {
            "name": NAME,
            "source": {
                "kafka": {
                    "bootstrap.servers": self._kafka.bootstrap_servers,
                    "subscribePattern": f"{NAME}[.]torture[.].*",
                    "maxOffsetsPerTrigger": 100_000,
                },
                "value": {"avro": {"registry": self._registry.ccompat_url}},
            },
            "tables": [{"source": f"{NAME}.torture.*", "target": "{schema}.{table}"}],
            "transforms": [{"unwrap": {}}],
            "sinks": [{sink: blocks[sink]} for sink in sinks],
            "checkpoint": str(work / "checkpoint"),
            "maintenance": {"files": 4},  # so that kills also hit its steps
            "spark": {
                "spark.master": "local[2]",
                "spark.sql.shuffle.partitions": 2,
                # PySpark's metastore lacks the tables of locks.
                "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",
            },
        }

    @contextmanager
    def load(self) -> Iterator[None]:
        """Run the load during the block."""
        load = Load(self._postgres, self._rate)
        load.start()
        try:
            yield
        finally:
            load.end()
            self.result.transactions += load.transactions
            self.result.seconds += load.seconds

    def kills(self, times: int, dice: random.Random) -> None:
        """Kill the run repeatedly during start, planning, writes and commits; sometimes let it make progress."""
        fruitless = 0
        for _ in range(times):
            starts, last = self.follower.count_starts(), self._last_batch()
            self.follower.start()
            self._wait_until(partial(_exceeds, self.follower.count_starts, starts), "a stream")
            if fruitless == MAX_FRUITLESS_STARTS:
                self._wait_until(partial(_exceeds, self._last_batch, last), "a batch")
            time.sleep(dice.uniform(0, 20))
            self.follower.check()
            self.follower.kill()
            self.result.kills += 1
            fruitless = 0 if self._last_batch() > last else fruitless + 1

    def _last_batch(self) -> int:
        return max((int(batch["batch"]) for batch in self.follower.batches()), default=-1)

    def outages(self, seconds: float) -> None:
        """Kill each server in turn while the run continues."""
        self.follower.start()
        for name, server in self.servers.items():
            self._wait_until_applied()
            server.kill()
            time.sleep(seconds)
            server.start()
            back = time.monotonic()
            self._wait_until_applied()
            self.result.recovered[name] = round(time.monotonic() - back, 1)
            print(f"{name}: {self.result.recovered[name]} s", flush=True)
        self.follower.kill(signal.SIGINT)

    def compare(self, spark: SparkSession) -> None:
        """Process the backlog until the tables equal the database, at most five times."""
        pipeline = Pipeline.from_dict(self._config)
        for _ in range(5):
            time.sleep(3)  # Debezium is behind the last commit
            self.follower.start("--available-now")
            assert self.follower.process is not None
            code = self.follower.process.wait(3600)
            assert code == 0, self.follower.log.read_text()[-3000:]
            for table in TABLES:
                for sink in self._sinks:
                    self.result.compared[f"{table}, {sink}"] = self._compare_table(pipeline, spark, table, sink)
            if not any(differ for _, differ in self.result.compared.values()):
                break

    def _compare_table(self, pipeline: Pipeline, spark: SparkSession, table: str, sink: str) -> tuple[int, int]:
        # Compare strings, which PostgreSQL and Spark print the same way.
        columns = TABLES[table]
        printed = " || '|' || ".join(f"coalesce({column}::text, 'null')" for column in columns)
        expected = [row[0] for row in self._postgres.query(f"select {printed} from torture.{table}")]  # noqa: S608
        frame = pipeline.read(f"torture.{table}", sink=sink, spark=spark)
        parts = ", '|', ".join(f"coalesce(cast({column} as string), 'null')" for column in columns)
        stored = [row[0] for row in frame.selectExpr(f"concat({parts})").collect()]
        differ = len(set(expected) ^ set(stored)) + abs(len(stored) - len(set(stored)))
        return len(set(expected) & set(stored)), differ

    def _wait_until_applied(self) -> None:
        """Wait until all changes from now on are applied."""
        topic = f"{NAME}.torture.accounts"
        end: list[int] = []

        def grows() -> bool:
            """Return whether Kafka has more records than at its first response; later events are in later batches."""
            with suppress(Exception):  # a server is unreachable
                self._revive()
                end.append(self._kafka.end_offsets(topic)[0])
            return bool(end) and end[-1] > end[0] + _CHUNK

        self._wait_until(grows, "new records", pause=1)
        self._wait_until(partial(self._has_applied, datetime.now(UTC)), "a successful batch")

    def _has_applied(self, after: datetime) -> bool:
        """Return whether a later batch applied rows without an error."""
        for batch in reversed(self.follower.batches()):
            tables = batch["tables"]
            late = datetime.fromisoformat(batch["started"]) > after
            if late and any(table["applied"] for table in tables) and not any(table["error"] for table in tables):
                return True
        return False

    def _revive(self) -> None:
        """Restart a failed connector task, which Kafka Connect does not do."""
        status = self._connect.status(NAME)
        if status and any(task["state"] == "FAILED" for task in status["tasks"]):
            url = f"{self._connect.url}/connectors/{NAME}/restart?includeTasks=true&onlyFailed=true"
            request("POST", url)
            self.result.restarts += 1

    def _wait_until(self, is_true: Callable[[], bool], what: str, *, pause: float = 0.2) -> None:
        deadline = time.monotonic() + 600
        while not is_true():
            self.follower.check()
            if time.monotonic() > deadline:
                raise AssertionError(f"timeout: {what}\n{self.follower.log.read_text()[-3000:]}")
            time.sleep(pause)


def _exceeds(count: Callable[[], int], before: int) -> bool:
    return count() > before


def main() -> None:
    """Run the torture test and print a summary."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--kills", type=int, default=100)
    cli.add_argument("--away", type=float, default=20, help="downtime of each server in seconds")
    cli.add_argument("--rate", type=float, default=500, help="transactions per second")
    cli.add_argument("--seed", type=int, default=1)
    arguments = cli.parse_args()
    with ExitStack() as stack:
        torture = Torture(arguments.work, stack, sinks=("iceberg", "hudi"), metastore=True, rate=arguments.rate)
        spark = Pipeline.from_file(torture.follower.file).session()
        with torture.load():
            torture.kills(arguments.kills, random.Random(arguments.seed))  # noqa: S311
        _report(torture, spark)
        with torture.load():
            torture.outages(arguments.away)
        _report(torture, spark)


def _report(torture: Torture, spark: SparkSession) -> None:
    """Print the result so far; exit if tables differ."""
    torture.compare(spark)
    result = torture.result
    rate = result.transactions / result.seconds
    print(f"{result.transactions} transactions in {result.seconds:.0f} s ({rate:.0f} a second)")
    print(f"headrace was killed {result.kills} times, the connector was started again {result.restarts} times")
    for server, seconds in result.recovered.items():
        print(f"{server} killed: whole again {seconds} s after it was back")
    for name, (same, differ) in result.compared.items():
        print(f"{name}: {same} rows are the same, {differ} differ", flush=True)
    if any(differ for _, differ in result.compared.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
