"""Fault injection: detection and failure of external calls of a process."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from headrace.testing._internal.faults import Calls, Fault, LostError


class Shelf:
    """Store of strings in a file, like a sink in Python."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "text.json"

    def put(self, text: str) -> None:
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps([*self.get(), text]))
        temporary.replace(self.file)
        self.notify()

    def get(self) -> list[str]:
        texts: list[str] = json.loads(self.file.read_text()) if self.file.exists() else []
        return texts

    def notify(self) -> None:
        """Represent a call of a driver in C."""


NOTIFY = "tests.core.testing.test_faults.Shelf.notify"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def put_with_fault(shelf: Shelf, fault: Fault | None = None, at: int = -1) -> Calls:
    """Store one string and return the recorded calls."""
    calls = Calls([NOTIFY])
    with calls.watch(fault, at):
        if fault is None:
            shelf.put("b")
        else:
            with pytest.raises(LostError):
                shelf.put("b")
    return calls


def test_writes_and_renames_are_steps_and_reads_are_not(shelf: Shelf) -> None:
    shelf.put("a")
    steps = put_with_fault(shelf).steps
    assert [step.partition(" ")[0] for step in steps] == ["io.open", "os.replace", NOTIFY]
    assert all("(test_faults.py:" in step for step in steps)
    assert shelf.get() == ["a", "b"]


@pytest.mark.parametrize(
    ("fault", "at", "kept", "half"),
    [
        (Fault.DEATH, 0, ["a"], None),
        (Fault.UNANSWERED, 0, ["a"], ""),
        (Fault.REFUSED, 1, ["a"], '["a", "b"]'),
        (Fault.DEATH, 1, ["a"], '["a", "b"]'),
        (Fault.UNANSWERED, 1, ["a", "b"], None),
        (Fault.DEATH, 2, ["a", "b"], None),
    ],
)
def test_step_fails_before_or_after_its_call(
    shelf: Shelf, fault: Fault, at: int, kept: list[str], half: str | None
) -> None:
    shelf.put("a")
    put_with_fault(shelf, fault, at)
    assert shelf.get() == kept
    temporary = shelf.file.with_suffix(".new")
    assert (temporary.read_text() if temporary.exists() else None) == half


def test_every_call_after_a_death_fails(shelf: Shelf) -> None:
    calls = Calls()
    with calls.watch(Fault.DEATH, 0):
        for _ in range(2):
            with pytest.raises(LostError):
                shelf.put("a")
        with pytest.raises(LostError):
            os.mkdir(shelf.file.parent / "folder")  # noqa: PTH102 - the patched function
    assert list(shelf.file.parent.iterdir()) == []
    shelf.put("a")
    assert shelf.get() == ["a"]


def test_socket_calls_are_steps(tmp_path: Path) -> None:
    calls = Calls()
    with socket.create_server(("127.0.0.1", 0)) as server:
        with (
            calls.watch(Fault.UNANSWERED, 1),
            socket.create_connection(server.getsockname()) as client,
            pytest.raises(LostError),
        ):
            client.sendall(b"it is done")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(100) == b"it is done"
    assert [step.partition(" ")[0] for step in calls.steps] == ["socket.socket.connect", "socket.socket.sendall"]
