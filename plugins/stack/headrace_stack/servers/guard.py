"""Guard process between a test process and a server; the server never outlives the test process.

The test process holds the other end of standard input. When it closes, the guard stops the server and removes its folder. When
the guard is killed, the kernel kills the server. The guard runs as a file and imports nothing of headrace, so it starts in 20 ms.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run ``guard.py FOLDER END_SIGNAL UID COMMAND…``: print the PID of the server and exit with its status."""
    folder, end_signal, uid, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    itself = os.getpid()

    def die_with_guard() -> None:
        # A change of the user clears the setting; Popen changes it before this call.
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != itself:
            os._exit(1)

    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    user = {"user": int(uid), "group": int(uid), "extra_groups": []} if int(uid) >= 0 else {}
    server = subprocess.Popen(  # type: ignore[call-overload] # a mapping of mixed types
        command,
        stdin=subprocess.DEVNULL,
        # Standard error is the log; standard output goes to the test process.
        stdout=sys.stderr,
        process_group=0,
        preexec_fn=die_with_guard,  # noqa: PLW1509 - there are no threads here
        **user,
    )
    print(server.pid, flush=True)  # noqa: T201 - the answer to who started this
    os.close(1)
    while server.poll() is None:
        readable, _, _ = select.select([0, ended], [], [])
        if 0 in readable:
            _end(server, int(end_signal))
            shutil.rmtree(folder, ignore_errors=True)
            break
        os.read(ended, 1)
    return abs(int(server.returncode))


def _end(server: subprocess.Popen[bytes], end_signal: int) -> None:
    try:
        os.killpg(server.pid, end_signal)
        server.wait(5)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    except ProcessLookupError:
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
