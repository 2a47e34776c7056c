"""The ``headrace live`` command, run to completion and interrupted."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headrace_demo.live.changes import CHANGES

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.dist,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]

#: Environment variable that identifies the program and all processes that it starts.
MARKER = "HEADRACE_LIVE_TEST"
#: Seconds in which the command completes on any machine.
TIMEOUT_SECONDS = 1500
#: Number of changes. They cover each kind, and one of them changes the row that the output shows.
CHANGE_COUNT = 4


@pytest.fixture
def environment() -> Iterator[Mapping[str, str]]:
    """Yield an environment; afterwards assert that every process started with it has ended."""
    marker = uuid.uuid4().hex
    yield {**os.environ, MARKER: marker, "COLUMNS": "100", "PYTHONUNBUFFERED": "1", "SALT": "pepper"}
    deadline = time.monotonic() + 30
    while remaining := [pid for pid in _processes() if f"{MARKER}={marker}" in _environment(pid)]:
        assert time.monotonic() < deadline, [_command(pid) for pid in remaining]
        time.sleep(0.2)


def test_live_tables_equal_database_and_all_servers_stop(tmp_path: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        headrace("live", "--changes", str(CHANGE_COUNT)),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    screen = done.stdout
    assert done.returncode == 0, screen + done.stderr
    assert re.search(r"Pagila, loaded +15 tables, 46,273 rows", screen)
    assert re.search(r"Debezium's snapshot +46,273 events in 15 topics", screen)
    counts = re.findall(r"^pagila_public\.(\w+) +([\d,]+) +([\d,]+) +([\d,]+)$", screen, re.MULTILINE)
    assert len(counts) == 15
    assert all(database == iceberg == hudi for _, database, iceberg, hudi in counts)
    assert ("payment", "16,049", "16,049", "16,049") in counts
    arrived = re.findall(r"^(insert|update|delete) +(\w+ \w+ = \d+) +\d+\.\d s +\d+\.\d s$", screen, re.MULTILINE)
    assert arrived == [(change.kind, f"{change.table} {change.row}") for change in CHANGES[:CHANGE_COUNT]]
    assert {kind for kind, _ in arrived} == {"insert", "update", "delete"}
    assert len(re.findall(r"^  (?:Iceberg|Hudi) +p50 \d+\.\d s +max \d+\.\d s$", screen, re.MULTILINE)) == 2
    before, after = (digest(text) for text in ("MARY.SMITH@sakilacustomer.org", "mary.arp@example.org"))
    assert re.search(rf"^email +{before[:18]}… +{after[:18]}… +mary.arp@example.o…", screen, re.MULTILINE)
    assert "15 tables: 46,274 rows in PostgreSQL, in Iceberg and in Hudi; no dead letters." in " ".join(screen.split())

    folder = tmp_path / "headrace-live"
    (last,) = re.findall(r"headrace (show pipeline.yaml pagila_public.customer --sink hudi --limit 5)", screen)
    table = subprocess.run(
        headrace(*last.split()), cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert len(re.findall(r"\b[0-9a-f]{64}\b", table.stdout)) >= 5
    assert "@" not in table.stdout


def test_ctrl_c_stops_all_processes(tmp_path: Path, environment: Mapping[str, str]) -> None:
    with subprocess.Popen(
        headrace("live"),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Spark 3"):  # all servers run, and the first batch starts
                    break
            time.sleep(3)
            # A terminal sends the signal to all processes of the group.
            os.killpg(process.pid, signal.SIGINT)
            rest, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130, "".join(lines) + rest
    assert "no server is running" in rest
    assert "Traceback" not in rest


def headrace(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headrace", *arguments]


def digest(text: str) -> str:
    return hashlib.sha256(f"pepper{text}".encode()).hexdigest()


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:200]
    except OSError:
        return ""
