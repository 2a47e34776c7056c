"""Commands for the user to copy."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def print_commands(console: Console, folder: Path, arguments: Iterable[str], *, env: str) -> None:
    """Print commands of this program, to be run in a folder; ``env``: prefix of each command."""
    # Without an active environment the shell needs the full path.
    program = "headrace" if shutil.which("headrace") else str(Path(sys.executable).with_name("headrace"))
    console.print(f"  cd {folder}", style="cyan", soft_wrap=True)
    for line in arguments:
        # A wrapped line could not be copied.
        console.print(f"  {env} {program} {line}", style="cyan", soft_wrap=True)
