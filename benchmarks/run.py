"""Run of one variant: arguments, locations of files, and timing of steps."""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import process_tree
from benchmarks.results import Result, append

STEPS = ("step1", "step2", "step3")
KEY = "ObjectID"
_TOPIC = Path("topics", "moma.public.artworks", "partition=0")

#: Resources of every variant.
SPARK = {"spark.master": "local[2]", "spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"}


@dataclass(frozen=True)
class Run:
    """Run with its own ``folder``; the table is ``lake/db/artworks`` in it."""

    variant: str
    round: int
    bronze: Path
    folder: Path
    results: Path

    @staticmethod
    def command_line() -> argparse.ArgumentParser:
        """Return the parser of the arguments that every variant has."""
        cli = argparse.ArgumentParser()
        cli.add_argument("variant")
        cli.add_argument("--round", type=int, default=1)
        for name in ("bronze", "folder", "results"):
            cli.add_argument(f"--{name}", type=Path, required=True)
        return cli

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "Run":
        """Create the run of a command line."""
        return cls(arguments.variant, arguments.round, arguments.bronze, arguments.folder, arguments.results)

    def arguments(self) -> list[str]:
        """Arguments in the format of ``command_line``."""
        options = {"round": self.round, "bronze": self.bronze, "folder": self.folder, "results": self.results}
        return [self.variant, *(text for name, value in options.items() for text in (f"--{name}", str(value)))]

    @property
    def lake(self) -> Path:
        """Folder of the tables."""
        return self.folder / "lake"

    @property
    def landing(self) -> Path:
        """Folder of incoming files."""
        return self.folder / "landing"

    @property
    def table(self) -> Path:
        """Folder of the table."""
        return self.lake / "db" / "artworks"

    def files(self, kind: str, step: str) -> Path:
        """Return the folder with the files of a step, ``envelope`` or ``flat``."""
        return self.bronze / kind / step / _TOPIC

    def land(self, kind: str, step: str) -> None:
        """Deliver the files of a step as links, which are not copied and keep their times."""
        folder = self.landing / _TOPIC
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(self.files(kind, step).iterdir()):
            (folder / file.name).hardlink_to(file)

    def note_start(self) -> None:
        """Record the seconds since exec."""
        self._note("start", process_tree.age_s(os.getpid()), process_tree.cpu_s(os.getpid()))

    @contextmanager
    def time_step(self, step: str) -> Iterator[None]:
        """Record the duration of a step."""
        cpu, clock = process_tree.cpu_s(os.getpid()), time.monotonic()
        yield
        self._note(step, time.monotonic() - clock, process_tree.cpu_s(os.getpid()) - cpu)

    def _note(self, step: str, wall: float, cpu: float) -> None:
        append(self.results, Result(self.variant, self.round, step, round(wall, 2), round(cpu, 2)))
