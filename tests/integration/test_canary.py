"""Canaries for masked values and secrets in all output and files of a pipeline.

The search covers the output of the program, Spark's log, event log and UI (which contain the plan of every query and all
settings), the command lines of all processes, and the tracebacks of three errors: a wrong password, a column that changes
its type, and a sink that cannot write. Raw values may remain only in the locations that docs/masking.md lists.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from tests.support.tiers import nightly_after
from tests.support.waiting import until

from headrace_stack import Kafka, Record

pytestmark = [pytest.mark.spark, pytest.mark.one_spark, pytest.mark.slow]

TOPIC = "shop.public.people"
PII = "canary-4711"
#: Values that may stay raw: part of a record that cannot be decoded, and the name of a field.
UNDECODED, NAME = "undecoded-0815", "name_canary_0816"
#: Spark does not recognize ACCOUNT, SIGNER and STORE as secrets, neither by name nor by value. The values differ in each run,
#: because the test reads the command lines of the whole machine.
SECRETS = {
    name: f"{name.lower()}-of-{uuid.uuid4().hex}" for name in ("SALT", "S3", "WRONG", "ACCOUNT", "SIGNER", "STORE")
}
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="${{env:{}}}";'


def person(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "ssn": f"{PII}-{number}",
        "email": f"{PII}@example.org",
        "phone": PII,
        "address": {"street": PII},
        "contacts": {NAME: PII},
        "note": "a note",
        "born": 1970,
        **changed,
    }


def change(op: str, before: Any, after: Any, lsn: int) -> Record:
    source = {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
    source["query"] = f"UPDATE people SET phone = '{PII}'"
    key = {"ssn": (after or before)["ssn"]}
    event = {"before": before, "after": after, "source": source, "op": op}
    return Record(json.dumps(event).encode(), key=json.dumps(key).encode(), headers=[("who", PII.encode())])


def pipeline(
    kafka: Kafka,
    folder: Path,
    password: str = "PASSWORD",
    lake: str = "lake",
    policy: str = "dead-letter",
    *,
    with_hudi: bool,
) -> str:
    """Write a pipeline file and return its name; ``password`` names the environment variable with the password."""
    digest = {"sha256": {"salt": "${env:SALT}"}}
    iceberg: dict[str, Any] = {"warehouse": f"{lake}/iceberg"}
    if lake == "lake":
        (folder / "lake/iceberg").mkdir(parents=True, exist_ok=True)
        properties = {"type": "hadoop", "warehouse": str(folder / "lake/iceberg"), "signer.id": "${env:SIGNER}"}
        iceberg = {"catalog": "lake", "catalog.properties": properties}
    config = {
        "name": "people",
        "source": {
            "kafka": {
                "bootstrap.servers": kafka.sasl.bootstrap_servers,
                "subscribe": TOPIC,
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl.jaas.config": LOGIN.format(kafka.sasl.username, password),
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": str(kafka.sasl.ca),
            },
            "value": {"json": {}},
        },
        "tables": [{"source": TOPIC, "target": "shop.people"}],
        "transforms": [
            {"unwrap": {"add.fields": "before.email,before:was,source.query"}},
            {
                "mask": {
                    "columns": {
                        "ssn": digest,
                        "EMAIL": digest,
                        "phone": {"characters": 3},
                        "address": {"nullify": True},
                        "contacts": {"nullify": True},
                    }
                }
            },
        ],
        "sinks": [
            {"iceberg": iceberg},
            *([{"hudi": {"path": f"{lake}/hudi"}}] if with_hudi else []),
        ],
        "checkpoint": "checkpoint",
        "dead.letters": {"undecodable": policy},
        "spark": {
            "spark.master": "local[2]",
            "spark.log.level": "INFO",
            # Spark logs each event that is slower than this.
            "spark.scheduler.listenerbus.logSlowEvent.threshold": "1us",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(folder / "events"),
            # The test cannot search compressed files.
            "spark.eventLog.compress": "false",
            "spark.sql.parquet.compression.codec": "uncompressed",
            "spark.ui.enabled": "true",
            "spark.ui.port": (folder / "port").read_text(),
            "spark.hadoop.fs.s3a.secret.key": "${env:S3}",
            "spark.hadoop.fs.azure.account.key.lake": "${env:ACCOUNT}",
            "spark.driver.extraJavaOptions": "-Dcanaries.store=${env:STORE}",
        },
    }
    name = f"{password}-{lake}-{policy}.yaml".lower()
    (folder / name).write_text(yaml.safe_dump(config))
    return name


class Program:
    """The command-line program, which runs all commands in one process. To start Java for each command takes minutes."""

    CALLS = (
        "import json, sys\nfrom headrace.cli.main import main\nfor line in sys.stdin:\n"
        "    sys.argv = ['headrace', *json.loads(line)]\n    try: main()\n"
        "    except SystemExit as ended: print(f'\\nended with {ended.code or 0}', flush=True)"
    )
    END = b"\nended with "

    def __init__(self, folder: Path, secrets: Mapping[str, str]) -> None:
        self._log, self._read = folder.with_name("log"), 0
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", self.CALLS],
                cwd=folder,
                env={**os.environ, **secrets},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
            )

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run a command and return its stdout and stderr."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        output = bytearray()
        with self._log.open("rb") as log:
            log.seek(self._read)
            until(lambda: self._has_ended(output, log.read()), f"the end of {arguments}", seconds=300)
            self._read = log.tell()
        text = output.decode(errors="replace")
        assert f"\nended with {code}\n" in text, text
        return text

    def _has_ended(self, output: bytearray, more: bytes) -> bool:
        """Append ``more`` and search only the new part, because Spark's log makes the output long."""
        before = max(0, len(output) - len(self.END))
        output += more
        return output.find(self.END, before) >= 0 or self._process.poll() is not None

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Observer:
    """Recorder of everything another user of the machine can see: all command lines and the pages of Spark's UI."""

    PAGES = ("environment/", "api/v1/applications/{}/environment", "api/v1/applications/{}/sql?planDescription=true")

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._ui, self._ended = folder, f"http://127.0.0.1:{port}", threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._commands = set[str]()

    def __enter__(self) -> Self:
        self._folder.mkdir()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        requested = 0.0
        while not self._ended.wait(0.2):
            before = len(self._commands)
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    self._commands.add((process / "cmdline").read_text(errors="replace"))
            if len(self._commands) > before:
                (self._folder / "commands").write_text("\n".join(self._commands))
            # The pages keep their content, and rendering all plans continuously would use a whole core.
            if time.monotonic() < requested + 3:
                continue
            requested = time.monotonic()
            with suppress(OSError, ValueError, IndexError):  # no UI, or a UI that starts
                application = json.loads(self._request("api/v1/applications"))[0]["id"]
                for number, page in enumerate(self.PAGES):
                    (self._folder / f"{application}-{number}").write_bytes(self._request(page.format(application)))

    def _request(self, page: str) -> bytes:
        with urllib.request.urlopen(f"{self._ui}/{page}", timeout=10) as answer:
            return bytes(answer.read())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create the working directory of the program. Its output is next to this directory."""
    (tmp_path / "work/events").mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (tmp_path / "work/port").write_text(str(free.getsockname()[1]))
    return tmp_path / "work"


@pytest.fixture
def headrace(kafka: Kafka, folder: Path) -> Iterator[Program]:
    program = Program(folder, {**SECRETS, "PASSWORD": kafka.sasl.password})
    with Observer(folder.with_name("seen"), int((folder / "port").read_text())):
        yield program
    program.end()


@pytest.mark.parametrize("with_hudi", nightly_after(1, [False, True]))
def test_no_masked_value_or_secret_is_printed_or_stored(
    kafka: Kafka, folder: Path, headrace: Program, *, with_hudi: bool
) -> None:
    make_file = partial(pipeline, kafka, folder, with_hudi=with_hudi)
    file = make_file()
    left_out = person(1, note="__debezium_unavailable_value")
    kafka.produce(
        TOPIC,
        *[change("c", None, person(number), number + 10) for number in range(5)],
        change("u", person(1), left_out, 20),
        change("d", person(2), None, 21),
        change("x", person(3), person(3), 22),
    )
    assert " INFO " in headrace("run", file, "--available-now")
    kafka.produce(
        TOPIC,
        change("u", None, left_out, 30),
        change("d", person(3), None, 31),
        # In the first record one column has the wrong type. The second record cannot be decoded.
        change("u", None, person(4, born={"at": PII}), 32),
        Record(b"{" + UNDECODED.encode(), key=UNDECODED.encode(), headers=[("who", UNDECODED.encode())]),
    )
    headrace("run", file, "--available-now", "--log-format", "json")
    headrace("check", file, "--connect")
    assert '"reason": "op-unknown"' in headrace("dead-letters", file, "--reason", "op-unknown", "--format", "json")
    shown = headrace("show", file, "shop.people", "--format", "json")
    rows = [json.loads(line) for line in shown.splitlines() if line.startswith("{")]
    assert len(rows) == 3
    masked = {(len(row["ssn"]), len(row["email"]), row["phone"], row["address"]) for row in rows}
    assert masked == {(64, 64, "***", None)}

    failed = headrace("run", make_file("WRONG"), "--traceback", code=2)
    assert "Traceback" in failed
    assert "authentication failed" in failed
    (folder / "none").write_text("a file where the folder would be")
    kafka.produce(TOPIC, change("u", None, person(1, note="new"), 40))
    blocked = headrace("run", make_file(lake="none"), "--available-now", "--traceback", code=2)
    assert "Traceback" in blocked
    kafka.produce(TOPIC, change("u", None, person(1, email={"at": PII}, born={"at": PII}), 41))
    stopped = headrace("run", make_file(policy="stop"), "--available-now", "--traceback", code=4)
    assert "Traceback" in stopped
    assert "1 record: undecodable" in stopped
    assert "1 record: undecodable" in headrace("status", file)

    events = [path.read_bytes() for path in (folder / "events").rglob("*") if path.is_file()]
    assert any(b"physicalPlanDescription" in text and b"MergeRows" in text for text in events)
    assert any(path.suffix == ".parquet" for path in (folder / "checkpoint/dead_letters").rglob("*"))
    seen = [path.read_bytes() for path in folder.with_name("seen").iterdir()]
    assert any(b"org.apache.spark.deploy.SparkSubmit" in text for text in seen)
    for key in (b"spark.hadoop.fs.azure.account.key.lake", b"spark.sql.catalog.lake.signer.id", b"canaries.store"):
        assert sum(key in text for text in seen) >= 2  # on the page and in the API response
        assert any(key in text for text in events)
    assert {path.stat().st_mode & 0o777 for path in (folder / "lake").rglob("*.parquet")} == {0o644}
    assert (folder / "checkpoint").stat().st_mode & 0o777 == 0o700
    for canary in (PII, *SECRETS.values(), kafka.sasl.password):
        assert not find_canary(canary, folder.parent)
    assert find_locations(UNDECODED, folder) == {"`dead_letters/`"} <= list_documented_locations(0)
    types = {"tables", "`schemas/`", "`table_types/`", "event log"}
    assert find_locations(NAME, folder) == types <= list_documented_locations(-1)


def list_documented_locations(row: int) -> set[str]:
    """Return the locations that docs/masking.md lists in a row about the checkpoint, where raw values may remain."""
    text = (Path(__file__).parents[2] / "docs/masking.md").read_text(encoding="utf-8")
    _, _, listed = text.partition("## Where raw values may still be")
    rows = [line.split("|")[1] for line in listed.splitlines() if line.startswith("|") and "checkpoint" in line]
    locations = ("`dead_letters/`", "`schemas/`", "`table_types/`", "tables", "event log")
    return {location for location in locations if location in rows[row]}


def find_locations(canary: str, folder: Path) -> set[str]:
    """Return the locations of files that contain the canary, with the names that docs/masking.md uses."""
    locations = set()
    for path in folder.rglob("*"):
        if path.is_file() and canary.encode() in path.read_bytes():
            top, subfolder, *_ = path.relative_to(folder).parts
            locations.add({"lake": "tables", "events": "event log"}.get(top, f"`{subfolder}/`"))
    return locations


def find_canary(canary: str, folder: Path) -> list[str]:
    """Return the files that contain the canary, each with the text around it."""
    texts = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    locations = {path: text.find(canary.encode()) for path, text in texts.items()}
    return [f"{path}: {texts[path][max(0, at - 300) : at + 100]!r}" for path, at in locations.items() if at >= 0]
