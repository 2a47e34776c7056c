"""CPU seconds, memory and age of a process tree, from /proc."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """Process in /proc. ``cpu_s`` includes children for which the process has waited."""

    parent: int
    cpu_s: float
    rss: int
    started_s: float


def tree(root: int) -> dict[int, Process]:
    """Return a process and its descendants by process ID."""
    processes = {
        int(path.name): read for path in Path("/proc").iterdir() if path.name.isdigit() and (read := _read(path))
    }
    family, grew = {root}, True
    while grew:
        children = {pid for pid, process in processes.items() if process.parent in family} - family
        family, grew = family | children, bool(children)
    return {pid: processes[pid] for pid in family if pid in processes}


def cpu_s(root: int) -> float:
    """Return the CPU seconds of a process and its descendants."""
    return sum(process.cpu_s for process in tree(root).values())


def rss_below(root: int) -> int:
    """Return the resident bytes of the descendants of a process, without its own."""
    return sum(process.rss for pid, process in tree(root).items() if pid != root)


def age_s(pid: int) -> float:
    """Return the seconds since the start of a process."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - tree(pid)[pid].started_s


def machine_cpu_s() -> float:
    """Return the busy CPU seconds of the machine, for all processes."""
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = Path("/proc/stat").read_text().split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) / _TICKS


def _read(path: Path) -> Process | None:
    try:
        # The name of the command can contain spaces and brackets, so parse after the last bracket.
        fields = (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Process(
        int(fields[1]), sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE, int(fields[19]) / _TICKS
    )
