"""Folder, session and screen helpers that both demos share."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from headrace.cli.copy_commands import print_commands
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console
    from rich.table import Table

    from headrace.pipeline import Pipeline

PIPELINE_FILE = "pipeline.yaml"
#: Locked files of the folders that this process uses: closing one releases its lock.
_locks: list[TextIO] = []


def folder_option(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option ``--folder`` of a demo."""
    return click.option(
        "--folder",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(default),
        show_default=True,
        help="Where to put the pipeline file and the tables.",
    )


@dataclass(frozen=True)
class DemoFolder:
    """Folder of a demo. ``mark`` is a file in it; a folder without the mark is never removed."""

    path: Path
    mark: str
    started: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Raise ConfigError if the folder has files of something else."""
        if self.path.exists() and not (self.path / self.mark).exists() and any(self.path.iterdir()):
            raise ConfigError(
                "is not empty and was not created by this demo",
                where=str(self.path),
                fix="choose another folder with --folder",
            )

    def enter(self) -> None:
        """Create an empty folder and make it the working directory. ConfigError if another process uses the folder."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = (self.path / self.mark).open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # The kernel releases it when the process ends.
        except OSError:
            lock.close()
            raise ConfigError(
                "is in use by another demo", where=str(self.path), fix="choose another folder with --folder"
            ) from None
        _locks.append(lock)
        for item in self.path.iterdir():
            if item.name != self.mark:
                shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
        os.chdir(self.path)

    def print_end(self, console: Console, arguments: Sequence[str], *, salt: str) -> None:
        """Print the duration, and a command line of headrace for each entry of ``arguments``."""
        console.print(
            f"\n[bold]All of it took {time.monotonic() - self.started:.0f} s.[/] The tables are in [cyan]{self.path}/lake[/]; look around:"
        )
        print_commands(console, self.path, arguments, env=f"SALT={salt}")


def print_pipeline_file(console: Console) -> None:
    """Print the pipeline file of the working directory."""
    from rich.syntax import Syntax

    text = Path(PIPELINE_FILE).read_text(encoding="utf-8")
    console.print(Syntax(text, "yaml", background_color="default", word_wrap=True))


def start_spark(pipeline: Pipeline, console: Console) -> SparkSession:
    """Return the pipeline's Spark session and print the progress of its start."""
    from headrace.runtime.reporter import LineReporter

    started = time.monotonic()
    with console.status("finding Java and jars, starting Spark"):
        spark = pipeline.session(LineReporter(console.print))
    console.print(f"Spark {spark.version} is up after {time.monotonic() - started:.0f} s\n")
    return spark


def new_table(*names: str, right: Sequence[str] = (), **options: Any) -> Table:
    """Return a table without borders. ``right`` names the right-aligned columns; ``options`` apply to every column."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", **options)
    return table


def shorten(text: str, width: int) -> str:
    """Cut a string to at most ``width`` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"
