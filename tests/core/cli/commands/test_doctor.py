"""Screen, JSON, exit code and archive of ``headrace doctor``, without Spark."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.core.cli.test_program import commands
from tests.core.conftest import Headrace
from tests.support.local_server import LocalServer

from headrace.doctor import examination, machine
from headrace.progress.model import BatchProgress, TableProgress
from headrace.runtime.java import installation

SALT = "a-salt-of-sixteen-characters"
#: Files of a checkpoint that a run has used.
HEADER = '{"layout": 2, "pipeline": "artists", "id": "1", "epochs": true}'


@pytest.fixture(autouse=True)
def long_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", SALT)


@pytest.fixture
def checkpoint(sample: Path) -> Path:
    """Return the checkpoint of the sample after one batch and a regular end."""
    folder = sample.parent / "lake/_checkpoints/artists"
    for name in ("stream/offsets", "stream/commits", "progress", "audit"):
        (folder / name).mkdir(parents=True)
    (folder / "headrace.json").write_text(HEADER)
    (folder / "epochs.json").write_text("[]")
    (folder / "stream/offsets/0").write_text("v1\n{}\n{}")
    (folder / "stream/commits/0").write_text("v1\n{}")
    return folder


def write_progress(checkpoint: Path, **fields: Any) -> None:
    started = (datetime.now(UTC) - timedelta(minutes=1)).isoformat(timespec="milliseconds")
    table = TableProgress(
        "moma.artists", "iceberg", **{"rows_in": 9, "applied": 9, "lag": 0, "latency_ms": 900, **fields}
    )
    batch = BatchProgress("artists", 0, started, 0.5, (table,))
    (checkpoint / "progress/0000000000.json").write_text(batch.json())


class Registry(LocalServer):
    """Schema registry with a clock that is off by some seconds, a login, and an answer that may never come."""

    def __init__(self, *, skew: float = 0.0, status: int = 200, hangs: bool = False) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if hangs:
                    time.sleep(30)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b"[]")

            def date_time_string(self, timestamp: float | None = None) -> str:
                return formatdate((timestamp or time.time()) + skew, usegmt=True)

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(Handler)


def write_kafka(sample: Path, registry: str, broker: str) -> Path:
    sample.write_text(
        f"""\
name: artists
source:
  kafka: {{bootstrap.servers: "{broker}", subscribe: moma.public.artists}}
  value: {{avro: {{registry: "{registry}", basic.auth.user.info: "reader:hunter2hunter2"}}}}
sink:
  iceberg: {{warehouse: lake/}}
checkpoint: lake/_checkpoints/artists
"""
    )
    return sample


@pytest.fixture
def broker() -> Iterator[str]:
    """Return the address of a socket that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def find(headrace: Headrace, file: Path, *options: str) -> dict[str, dict[str, str]]:
    """Return the findings by name."""
    done = headrace("doctor", str(file), "--json", *options)
    report = json.loads(done.stdout)
    assert done.exit_code == (1 if report["errors"] else 0), done.output
    return {finding["name"]: finding for finding in report["findings"]}


def test_healthy_pipeline(headrace: Headrace, sample: Path, checkpoint: Path) -> None:
    write_progress(checkpoint)
    done = headrace("doctor", str(sample))
    assert done.exit_code == 0, done.output
    assert re.search(
        r"^skipped\n  connections of source files, sink iceberg: only --spark tests", done.stdout, re.MULTILINE
    )
    assert re.search(rf"^{sample}: 0 errors, 0 warnings, 2 notes, \d+ ok$", done.stdout, re.MULTILINE)
    assert f"the checks with Spark: headrace doctor {sample} --spark" in done.stdout
    assert "run-stopped: no run is active" in done.stdout


def test_findings_are_printed_by_severity_with_place_and_fix(
    headrace: Headrace, sample: Path, checkpoint: Path
) -> None:
    write_progress(checkpoint, dead_letters=3)
    (checkpoint / "epochs.json").unlink()
    done = headrace("doctor", str(sample))
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[:8] == [
        "1 error",
        "  checkpoint-damaged: epochs.json is missing",
        "    where: checkpoint lake/_checkpoints/artists",
        "      fix: restore it from a backup, or use a new checkpoint folder: docs/checkpoint.md states what is then read again",
        "1 warning",
        "  dead-letters: 3 dead letters in the last 1 batch",
        "    where: checkpoint lake/_checkpoints/artists",
        f"      fix: headrace dead-letters {sample} shows the reasons; correct the cause, then headrace replay {sample}",
    ]


def test_new_pipeline_has_never_run(headrace: Headrace, sample: Path) -> None:
    found = find(headrace, sample)
    assert found["never-run"]["fix"] == f"headrace run {sample}"
    assert "run-stopped" not in found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"layout', "headrace.json is damaged"),
        ('{"layout": 1}', "the checkpoint has layout 1; this version of headrace reads layout 2 only"),
        (HEADER.replace("artists", "other"), "belongs to the pipeline 'other', not to 'artists'"),
    ],
)
def test_invalid_checkpoint(headrace: Headrace, sample: Path, checkpoint: Path, text: str, what: str) -> None:
    (checkpoint / "headrace.json").write_text(text)
    found = find(headrace, sample)
    assert found["checkpoint-invalid"]["what"] == what
    assert not {"never-run", "run-stopped"} & found.keys()


@pytest.mark.parametrize("name", ["stream/offsets/0", "orders.json"])
def test_damaged_file_of_a_checkpoint(headrace: Headrace, sample: Path, checkpoint: Path, name: str) -> None:
    (checkpoint / name).write_text("")
    assert name in find(headrace, sample)["checkpoint-damaged"]["what"]


def test_runs_and_commands_that_were_killed(headrace: Headrace, sample: Path, checkpoint: Path) -> None:
    gone = {"host": socket.gethostname(), "pid": 2**22 + 1, "started": "2026-11-30T12:00:00+00:00"}
    (checkpoint / "run.json").write_text(json.dumps({**gone, "began": 7}))
    (checkpoint / "audit/1.json").write_text(json.dumps({**gone, "command": "replay", "result": "started"}))
    found = find(headrace, sample)
    assert found["run-killed"]["what"].startswith(
        f"the last run was killed: process {2**22 + 1} on {socket.gethostname()}"
    )
    assert found["command-killed"]["what"] == "headrace replay, started 2026-11-30T12:00:00+00:00, was killed"
    (checkpoint / "run.json").write_text(json.dumps({**gone, "host": "another-machine", "began": 7}))
    assert find(headrace, sample)["run-active"]["what"].startswith("process 4194305 on another-machine")


def test_failed_and_late_tables(headrace: Headrace, sample: Path, checkpoint: Path) -> None:
    write_progress(checkpoint, error="no space left")
    found = find(headrace, sample)
    assert found["table-failed"]["where"] == "table moma.artists, sink iceberg"
    assert "no space left" in found["table-failed"]["what"]
    write_progress(checkpoint, lag=None, lag_ms=7_200_000)
    assert "the table is 2.0 hours behind its source" in find(headrace, sample)["table-behind"]["what"]


@pytest.mark.parametrize(("free", "name"), [(400_000_000, "disk-full"), (4_000_000_000, "disk-low")])
def test_disk_with_little_space(
    headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch, free: int, name: str
) -> None:
    state = os.statvfs("/")
    fields = [*state[:4], free // state.f_frsize, *state[5:]]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    assert f"{free / 1e9:.1f} GB are free" in find(headrace, sample)[name]["what"]


def test_folder_without_permission(headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of the tests may be root, which may write everywhere."""
    lake = sample.parent / "lake"
    lake.mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != lake and access(path, mode))
    found = find(headrace, sample)["folder-unwritable"]
    assert found["what"] == f"permission denied: {lake} is not writable"
    lake.rmdir()
    lake.write_text("")
    assert find(headrace, sample)["folder-unwritable"]["what"] == f"{lake} is not a folder"


def test_memory(headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_memory", lambda: (8 << 30, 1 << 30))
    assert find(headrace, sample)["memory-low"]["where"] == "spark.driver.memory: 2g"
    sample.write_text(sample.read_text() + "spark: {spark.driver.memory: 8g}\n")
    assert (
        "the driver needs 9.4 GB, and the machine or container has 8.6 GB"
        in find(headrace, sample)["memory-exceeded"]["what"]
    )


def test_java(headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "jdk8"
    (old / "bin").mkdir(parents=True)
    (old / "bin/java").write_text("")
    (old / "bin/java").chmod(0o755)
    (old / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert "JAVA_HOME has no Java for Spark" in find(headrace, sample)["java-ignored"]["what"]
    monkeypatch.setattr(installation, "_list_candidates", lambda **_: [("JAVA_HOME", old / "bin/java"), ("PATH", None)])
    missing = find(headrace, sample)["java-missing"]
    assert f"JAVA_HOME: {old} is Java 8\n  PATH: contains no java" in missing["what"]
    assert missing["fix"].startswith("install Java 17 and set JAVA_HOME")


def test_spark_does_not_start_without_java(headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_list_candidates", lambda **_: [("PATH", None)])
    done = headrace("doctor", str(sample), "--spark")
    assert done.exit_code == 1
    assert "the Spark session: the errors above prevent its start" in done.stdout
    assert "session-failed" not in done.stdout


def test_missing_jars(headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "empty"))
    assert find(headrace, sample)["jars-missing"]["fix"] == f"headrace jars {sample} --download"


def test_missing_source_folder(headrace: Headrace, sample: Path) -> None:
    (sample.parent / "bronze").rmdir()
    found = find(headrace, sample)["source-folder-missing"]
    assert (found["what"], found["where"]) == ("no such folder", "source files, path bronze/")


def test_invalid_file_does_not_end_the_checks(
    headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SALT")
    done = headrace("doctor", str(sample))
    assert done.exit_code == 1
    assert "the environment has no variable 'SALT'" in done.stdout
    assert "options, folders, checkpoint and connections: the pipeline cannot be built" in done.stdout
    assert "Traceback" not in done.output
    assert find(headrace, sample.with_name("none.yaml"))["file-invalid"]["what"].startswith("there is no file")


def test_unreachable_servers(headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_kafka.registry_client.PAUSES", ())
    done = headrace("doctor", str(write_kafka(sample, "http://127.0.0.1:1", "127.0.0.1:2")))
    assert done.exit_code == 1
    assert "  server-unreachable: no broker accepts a connection: 127.0.0.1:2: Connection refused\n" in done.stdout
    assert "  server-unreachable: the schema registry did not respond: [Errno 111] Connection refused\n" in done.stdout
    assert "    where: http://127.0.0.1:1\n" in done.stdout
    assert "hunter2" not in done.output


def test_wrong_password(headrace: Headrace, sample: Path, broker: str) -> None:
    with Registry(status=401) as registry:
        found = find(headrace, write_kafka(sample, registry.endpoint_url, broker))
    assert "login-rejected" in found
    assert found["login-rejected"]["fix"]
    assert "server-unreachable" not in found


@pytest.mark.parametrize(("skew", "name"), [(-45, "clock-differs"), (600, "clock-wrong"), (0, None)])
def test_clock(headrace: Headrace, sample: Path, broker: str, skew: float, name: str | None) -> None:
    with Registry(skew=skew) as registry:
        found = find(headrace, write_kafka(sample, registry.endpoint_url, broker))
        names = {"clock-differs", "clock-wrong"} & found.keys()
        assert names == ({name} if name else set())
        if name:
            direction = "ahead of" if skew < 0 else "behind"
            assert re.fullmatch(
                rf"the clock of this machine is \d+ seconds {direction} that of .*", found[name]["what"]
            )
            assert found[name]["where"] == registry.endpoint_url


def test_server_that_hangs(headrace: Headrace, sample: Path, broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "LIMIT", 4.0)
    with Registry(hangs=True) as registry:
        done = headrace("doctor", str(write_kafka(sample, registry.endpoint_url, broker)), "--json")
    found = {finding["what"]: finding["name"] for finding in json.loads(done.stdout)["findings"]}
    assert found["the check of connection of format avro did not end within 4 seconds"] == "check-timed-out"
    assert "never-run" in found.values(), "the other checks are made"


def test_command_of_a_plugin_that_fails(headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.registry.plugin_registry import registry
    from headrace.sdk.commands import BlockCommand
    from headrace.sdk.config import Config
    from headrace.sdk.findings import Checkup, Finding, FindingKind, Severity

    class Ticket(BlockCommand):
        def diagnose(self, file: str, checkup: Checkup) -> Iterator[Finding]:
            yield Finding(FindingKind("ticket-open", Severity.WARNING, "…"), "a ticket is open", "desk", "close it")
            raise ZeroDivisionError("division by zero\nsecond line")

    known = registry()
    monkeypatch.setattr(known, "_registrations", [*known._registrations])
    known.register(commands(ticket=Ticket("ticket", Config)), "acme 1.0")
    sample.write_text(sample.read_text() + "ticket: {}\n")
    found = find(headrace, sample)
    assert found["ticket-open"]["fix"] == "close it"
    assert found["check-failed"]["what"] == "ZeroDivisionError: division by zero"
    assert found["check-failed"]["where"] == "block ticket"


def read_archive(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_archive_has_no_secret_and_no_value_of_a_row(
    headrace: Headrace, sample: Path, checkpoint: Path, broker: str
) -> None:
    row, log, path = "Frida Kahlo", sample.with_name("run.log"), sample.with_name("bug.zip")
    write_progress(checkpoint, error=f"[CAST_INVALID_INPUT] The value '{row}' of 'name' cannot be cast")
    (checkpoint / "audit/1.json").write_text(
        json.dumps(
            {
                "started": "2026",
                "command": "epoch",
                "arguments": {"reason": row},
                "host": "h",
                "pid": 1,
                "result": "done",
            }
        )
    )
    log.write_text(
        f"2026-11-30T10:00:00Z artists batch 0  moma.artists → iceberg: 9 rows in, password={SALT}\n"
        f'{{"pipeline": "artists", "batch": 1, "error": "no cast of \'{row}\'"}}\n'
        f"26/11/30 10:00:01 WARN TaskSetManager: Lost task: {row}\n"
        f"Caused by: org.postgresql.PSQLException: ERROR: {row}\n\tat org.acme.Reader.read(Reader.java:7)\n{row}\n"
    )
    with Registry(status=401) as registry:
        file = write_kafka(sample, registry.endpoint_url, broker)
        file.write_text(file.read_text() + f"# old password: hunter1hunter1\nspark: {{spark.acme.password: {SALT}}}\n")
        done = headrace("doctor", str(file), "--bundle", str(path), "--log", str(log))
    assert f"written: {path}; read it before you publish it" in done.stdout
    content = path.read_bytes()
    for hidden in (SALT, "hunter2hunter2", "hunter1", row):
        assert hidden.encode() not in content, hidden
    files = read_archive(path)
    assert list(files) == [
        *("about.txt", "findings.json", "versions.json", "pipeline.yaml", "tables.json", "progress.jsonl"),
        *("commands.jsonl", "log.txt"),
    ]
    assert "basic.auth.user.info: '******'" in files["pipeline.yaml"]
    assert "subscribe: moma.public.artists" in files["pipeline.yaml"]
    assert "The value '…' of 'name' cannot be cast" in json.loads(files["progress.jsonl"])["tables"][0]["error"]
    assert "login-rejected" in files["findings.json"]
    assert json.loads(files["versions.json"])["packages"]["pydantic"]
    assert json.loads(files["commands.jsonl"])["command"] == "epoch"
    assert files["log.txt"].splitlines() == [
        "2026-11-30T10:00:00Z artists batch 0  moma.artists → iceberg: 9 rows in, password=******",
        """{"pipeline": "artists", "batch": 1, "error": "no cast of '…'"}""",
        "26/11/30 10:00:01 WARN TaskSetManager",
        "Caused by: org.postgresql.PSQLException",
        "  at org.acme.Reader.read(Reader.java:7)",
        "[other lines: 1]",
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_archive_of_an_invalid_file_has_no_secret(headrace: Headrace, sample: Path) -> None:
    """The models of the plugins declare which options are secrets, also for a file with errors."""
    path = sample.with_name("bug.zip")
    sample.write_text(
        sample.read_text().replace("iceberg:", "icberg:")
        + "alerts: {to: [{slack: {url: 'https://hooks.example/T0/B0/secretpath'}}]}\n"
        "connect: {config: {connector.class: x, database.password: hunter2hunter2}}\n"
    )
    log = sample.with_name("run.log")
    log.write_text(f"2026-11-30T10:00:00Z https://hooks.example/T0/B0/secretpath does not answer {SALT}\n")
    done = headrace("doctor", str(sample), "--bundle", str(path), "--log", str(log))
    assert done.exit_code == 1
    content = path.read_bytes()
    assert b"secretpath" not in content
    assert SALT.encode() not in content
    assert b"hunter2" not in content
    files = read_archive(path)
    assert "salt: ${env:SALT}" in files["pipeline.yaml"], "references stay"
    assert "unknown sink 'icberg'" in files["findings.json"], "names of the file stay"


def test_archive_of_a_file_that_is_no_yaml(headrace: Headrace, sample: Path) -> None:
    path = sample.with_name("bug.zip")
    sample.write_text("password: hunter2hunter2\nname: [")
    assert headrace("doctor", str(sample), "--bundle", str(path)).exit_code == 1
    assert list(read_archive(path)) == ["about.txt", "findings.json", "versions.json"]
    assert b"hunter2" not in path.read_bytes()


def test_archive_replaces_no_file(headrace: Headrace, sample: Path) -> None:
    done = headrace("doctor", str(sample), "--bundle", str(sample))
    assert (done.exit_code, "error: the file exists" in done.stderr) == (2, True)
    done = headrace("doctor", str(sample), "--bundle", "/nowhere/bug.zip")
    assert (done.exit_code, "where: /nowhere/bug.zip" in done.stderr) == (2, True)
    done = headrace("doctor", str(sample), "--log", str(sample))
    assert "--log needs --bundle" in done.stderr


def test_control_characters_are_escaped(headrace: Headrace, sample: Path, checkpoint: Path) -> None:
    write_progress(checkpoint, error="no column a\x1b[2J\u202e")
    out = headrace("doctor", str(sample)).stdout
    assert "no column a\\x1b[2J\\u202e" in out
    assert not re.search("[\x1b\u202e]", out)
