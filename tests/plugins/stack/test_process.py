"""Server processes: ports, log, and termination with the process that started them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headrace.errors import FatalError
from headrace_stack.servers import server
from headrace_stack.servers.server import Server

ROOT = Path(__file__).parents[3]
TOY = """
import signal, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("hello", flush=True)
while True:
    time.sleep(60)
"""


class Toy(Server):
    """Server that listens and counts its starts."""

    name = "toy"
    patience = 5
    program = TOY

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def fetch(self) -> None:
        pass

    def command(self) -> Sequence[str | Path]:
        with (self.folder / "starts").open("a") as starts:
            starts.write("x")
        return [sys.executable, "-c", self.program, str(self.port)]

    def ready(self) -> bool:
        return self.log_says("hello")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(pid: int, folder: Path | None = None) -> bool:
    deadline = time.monotonic() + 10
    while is_alive(pid) or (folder and folder.exists()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_restarted_server_keeps_port_and_data(end: str) -> None:
    with Toy() as toy:
        pid, port, folder = toy.pid, toy.port, toy.folder
        assert pid
        socket.create_connection((toy.host, port)).close()
        getattr(toy, end)()
        assert (toy.pid, is_alive(pid)) == (None, False)
        assert toy.start().port == port
        assert (folder / "starts").read_text() == "xx"
        socket.create_connection((toy.host, port)).close()
        last = toy.pid
    assert last
    assert not is_alive(last)
    assert not folder.exists()


def test_ended_server_restarts() -> None:
    with Toy() as toy:
        port, pid = toy.port, toy.pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        assert wait_until_gone(pid)
        socket.create_connection((toy.start().host, port)).close()
        assert Server.running.count(toy) == 1


def test_server_retries_when_its_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((server.HOST, 0)) as other:
        taken = other.getsockname()[1]
        ports = iter([taken, taken, server.free_port()])
        monkeypatch.setattr(server, "free_port", lambda: next(ports))
        with Toy() as toy:
            assert toy.port != taken
            assert toy.pid


def test_server_that_ends_early_shows_its_log() -> None:
    class Broken(Toy):
        program = "print('no fuel'); raise SystemExit(3)"

    with pytest.raises(FatalError, match=r"toy: the server ended before it was ready; the end of its log:\nno fuel"):
        Broken().start()


def test_server_that_is_never_ready_is_killed(tmp_path: Path) -> None:
    class Silent(Toy):
        patience = 1
        program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"

    with pytest.raises(
        FatalError, match=r"toy: the server was not ready after 1 s; the end of its log:\n\d+"
    ) as raised:
        Silent().start()
    assert not is_alive(int(raised.value.what.split()[-1]))


def test_missing_program_is_named() -> None:
    class Missing(Toy):
        def command(self) -> Sequence[str | Path]:
            return ["/nowhere/rocket"]

    with pytest.raises(
        FatalError, match=r"(?s)toy: the server does not start; .*No such file or directory: '/nowhere/rocket'"
    ):
        Missing().start()


def test_server_that_does_not_stop_is_killed() -> None:
    class Stubborn(Toy):
        patience = 1
        program = TOY.replace('print("hello"', 'signal.signal(15, signal.SIG_IGN); print("hello"')

    with Stubborn() as toy:
        pid = toy.pid
        with pytest.raises(FatalError, match="the server did not stop within 1 s and was killed"):
            toy.stop()
        assert pid
        assert not is_alive(pid)


@pytest.mark.parametrize(
    ("on_term", "is_written"), [("open(sys.argv[2].split('=')[1], 'w'), sys.exit()", True), ("None", False)]
)
def test_server_may_write_its_class_archive_at_stop(on_term: str, is_written: bool, tmp_path: Path) -> None:
    """A Java server writes a class archive at its end. If it does not end, it is killed without an error."""
    archive = tmp_path / "a.half"

    class ArchivingServer(Toy):
        patience = 1
        program = TOY.replace('print("hello"', f'signal.signal(15, lambda *_: ({on_term})); print("hello"')

        def command(self) -> Sequence[str | Path]:
            return [*super().command(), f"-XX:ArchiveClassesAtExit={archive}"]

    with ArchivingServer() as archiving_server:
        pid, folder = archiving_server.pid, archiving_server.folder
    assert pid
    assert not is_alive(pid)
    assert not folder.exists()
    assert archive.exists() == is_written


def test_logs_are_kept_in_the_configured_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STACK_LOGS", str(tmp_path / "logs"))
    with Toy():
        pass
    (log,) = (tmp_path / "logs").iterdir()
    assert log.read_text() == "hello\n"


def test_error_in_the_with_block_shows_the_log() -> None:
    with pytest.raises(ZeroDivisionError) as raised, Toy():
        _ = 1 / 0
    assert raised.value.__notes__ == ["the end of toy's log:\nhello"]


@pytest.fixture
def test_process() -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """Start a process that starts a server; return the process, the server's pid and its folder."""
    program = (
        "import time; from tests.plugins.stack.test_process import Toy; toy = Toy().start(); "
        "print(toy.pid, toy.folder, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, start_new_session=True
    ) as process:
        assert process.stdout
        pid, folder = process.stdout.readline().split()
        assert is_alive(int(pid))
        yield process, int(pid), Path(folder)
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_the_test_process(
    test_process: tuple[subprocess.Popen[str], int, Path], number: signal.Signals
) -> None:
    process, pid, folder = test_process
    process.send_signal(number)
    process.wait()
    assert wait_until_gone(pid, folder)


def test_server_does_not_outlive_its_guard(test_process: tuple[subprocess.Popen[str], int, Path]) -> None:
    _, pid, _ = test_process
    status = Path(f"/proc/{pid}/status").read_text()
    guard = int(status.split("PPid:")[1].split()[0])
    os.kill(guard, signal.SIGKILL)
    assert wait_until_gone(pid)


def test_only_failing_tests_show_logs(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['headrace_stack.fixtures']\n")
    (tmp_path / "test_toy.py").write_text(
        "import pytest\n"
        "from tests.plugins.stack.test_process import Toy\n"
        "@pytest.fixture(scope='session')\n"
        "def toy():\n"
        "    with Toy() as toy:\n"
        "        yield toy\n"
        "def test_well(toy):\n"
        "    print('well')\n"
        "def test_badly(toy):\n"
        "    with toy.log.open('a') as log:\n"
        "        log.write('it leaks')\n"
        "    assert False\n"
        "def test_without_a_server():\n"
        "    assert False\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", f"--rootdir={tmp_path}", str(tmp_path)]
    report = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    ).stdout
    assert "1 passed" in report, report
    assert "2 failed" in report
    assert report.count("log of toy") == 1
    assert "it leaks" in report
    assert "hello" not in report
