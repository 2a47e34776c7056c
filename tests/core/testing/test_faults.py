"""The calls by which a process reaches beyond itself are found, and fail as the kit says."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from headrace.testing._internal.faults import Calls, Fault, LostError


class Shelf:
    """Keeps a text in a file, as a sink in Python would."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "text.json"

    def put(self, text: str) -> None:
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps([*self.get(), text]))
        beside.replace(self.file)
        self.tell()

    def get(self) -> list[str]:
        texts: list[str] = json.loads(self.file.read_text()) if self.file.exists() else []
        return texts

    def tell(self) -> None:
        """Stands for what a driver in C does."""


TELL = "tests.core.testing.test_faults.Shelf.tell"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def play(shelf: Shelf, fault: Fault | None = None, at: int = -1) -> Calls:
    """One text is put there; what was called."""
    calls = Calls([TELL])
    with calls.watch(fault, at):
        if fault is None:
            shelf.put("b")
        else:
            with pytest.raises(LostError):
                shelf.put("b")
    return calls


def test_files_that_are_written_and_renamed_are_steps_and_what_is_read_is_none(shelf: Shelf) -> None:
    shelf.put("a")
    steps = play(shelf).steps
    assert [step.partition(" ")[0] for step in steps] == ["io.open", "os.replace", TELL]
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
def test_a_step_fails_before_it_is_done_or_after(
    shelf: Shelf, fault: Fault, at: int, kept: list[str], half: str | None
) -> None:
    shelf.put("a")
    play(shelf, fault, at)
    assert shelf.get() == kept
    beside = shelf.file.with_suffix(".new")
    assert (beside.read_text() if beside.exists() else None) == half


def test_after_a_death_nothing_is_done_any_more(shelf: Shelf) -> None:
    calls = Calls()
    with calls.watch(Fault.DEATH, 0):
        for _ in range(2):
            with pytest.raises(LostError):
                shelf.put("a")
        with pytest.raises(LostError):
            os.mkdir(shelf.file.parent / "folder")  # noqa: PTH102 - what others call
    assert list(shelf.file.parent.iterdir()) == []
    shelf.put("a")
    assert shelf.get() == ["a"]


def test_what_goes_through_a_socket_is_a_step(tmp_path: Path) -> None:
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
