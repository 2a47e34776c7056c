"""Results of benchmarks as JSON lines."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar


@dataclass(frozen=True)
class Result:
    """Step of a run (``start``, ``step1`` …), or its ``total`` from exec to exit, which includes the memory.

    ``others_cpu_s`` is the CPU time of other processes.
    """

    variant: str
    round: int
    step: str
    wall_s: float
    cpu_s: float
    peak_mib: float | None = None
    others_cpu_s: float | None = None
    code: int = 0


@dataclass(frozen=True)
class Check:
    """Comparison of a run's table with the truth. ``wrong``: column → number of different cells."""

    variant: str
    round: int
    rows: int
    wanted_rows: int
    files: int
    mib: float
    wrong: dict[str, int] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Whether the table has every row once and every cell is correct."""
        return self.rows == self.wanted_rows and not self.wrong


Line = TypeVar("Line", Result, Check)


def append(path: Path, line: Result | Check) -> None:
    """Append a line."""
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(asdict(line)) + "\n")


def read(path: Path, kind: type[Line]) -> list[Line]:
    """Return all lines of a file; none if it does not exist."""
    lines: list[dict[str, Any]] = list(map(json.loads, path.read_text("utf-8").splitlines())) if path.exists() else []
    return [kind(**line) for line in lines]
