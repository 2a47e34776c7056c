"""Log of the commands on a pipeline, in its checkpoint."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, cast

import pytest
from tests.support.memory_folder import MemoryFolder

from headrace.checkpoint.audit_log import read_audit, record_command

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


def test_each_command_has_an_entry_with_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = MemoryFolder()
    monkeypatch.setenv("SUDO_USER", "ann")

    def run(command: str, error: BaseException | None = None, **arguments: object) -> None:
        with record_command(cast("Folder", folder), command, arguments, lambda text: text.replace("s3cret", "***")):
            (name,) = [name for name in folder.names() if '"result": "started"' in folder.content[name]]
            assert json.loads(folder.content[name])["command"] == command
            if error:
                raise error

    run("epoch", reason="restored")
    with pytest.raises(ValueError, match="s3cret"):
        run("resync", ValueError("no login with s3cret"), tables=("shop.orders",), now=False)
    with pytest.raises(KeyboardInterrupt):
        run("replay", KeyboardInterrupt(), reason=None, table=None)
    folder.write("broken.json", "{")
    epoch, resync, replay = read_audit(folder)
    assert (epoch.command, epoch.arguments, epoch.result, epoch.error) == (
        "epoch",
        {"reason": "restored"},
        "done",
        None,
    )
    assert (resync.arguments, resync.result) == ({"tables": ["shop.orders"]}, "failed")
    assert resync.error == "no login with ***"
    assert (replay.arguments, replay.result, replay.error) == ({}, "interrupted", None)
    assert (epoch.user, epoch.host) == ("ann", socket.gethostname())
    assert epoch.ended is not None
    assert epoch.started <= epoch.ended
    assert [entry.command for entry in read_audit(folder, last=2)] == ["replay"]  # the file that is no entry counts


def test_command_that_cannot_be_recorded_does_not_start() -> None:
    class FullFolder(MemoryFolder):
        def write(self, name: str, text: str) -> None:
            raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"), record_command(cast("Folder", FullFolder()), "epoch", {}, str):
        pytest.fail("the command started")
