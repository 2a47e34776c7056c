"""Measurement of a command: wall seconds, CPU seconds and peak memory of its process tree.

    python -m benchmarks.measure RESULTS VARIANT ROUND -- COMMAND...

The time is from exec to the exit of the last process. Memory is the sum of the resident sizes, sampled five times per second.
"""

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from benchmarks import process_tree
from benchmarks.results import Result, append

_PR_SET_CHILD_SUBREAPER = 36
_INTERVAL_S = 0.2


def measure(variant: str, number: int, command: list[str]) -> Result:
    """Run a command to the end of its last process. Call it once per process, because it counts all former children."""
    # PySpark's JVM outlives the Python that started it. As a subreaper, this process receives its exit and CPU time.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(_INTERVAL_S):
            peak = max(peak, process_tree.rss_below(os.getpid()))

    watcher = threading.Thread(target=watch)
    machine, clock = process_tree.machine_cpu_s(), time.monotonic()
    child = subprocess.Popen(command)
    watcher.start()
    code = child.wait()
    _wait_for_orphans()
    wall, machine = time.monotonic() - clock, process_tree.machine_cpu_s() - machine
    done.set()
    watcher.join()
    used = getrusage(RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    return Result(
        variant,
        number,
        "total",
        round(wall, 2),
        round(cpu, 2),
        peak_mib=round(peak / 2**20, 1),
        others_cpu_s=round(max(0.0, machine - cpu), 2),
        code=code,
    )


def _wait_for_orphans() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def main() -> None:
    """Parse the command line."""
    results, variant, number, dashes, *command = sys.argv[1:]
    if dashes != "--" or not command:
        raise SystemExit(__doc__)
    result = measure(variant, int(number), command)
    append(Path(results), result)
    sys.exit(result.code)


if __name__ == "__main__":
    main()
