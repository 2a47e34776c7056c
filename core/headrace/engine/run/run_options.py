"""Options of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from headrace.engine.batch.maintenance import Report
from headrace.errors import DataError, FatalError, HeadraceError
from headrace.progress.model import BatchProgress
from headrace.registry.plugin_errors import describe_error

Result = TypeVar("Result")


@dataclass(frozen=True)
class RunOptions:
    """Options of one run.

    ``pause``: seconds between two reads of the source; None: process what is available now, then end; ``names_checked``: the
    columns that transforms name were found before the start; ``error``: an error of the data that was found then, which ends the run.
    """

    pause: float | None = None
    on_progress: Callable[[BatchProgress], None] | None = None
    on_maintenance: Report | None = None
    names_checked: bool = False
    error: DataError | None = None

    @property
    def is_continuous(self) -> bool:
        """Whether the run continues until it is stopped."""
        return self.pause is not None


def call_back(name: str, callback: Callable[[Result], None] | None, result: Result) -> None:
    """Call a function of the user, if there is one. FatalError if it raises an error other than a HeadraceError."""
    if callback is None:
        return
    try:
        callback(result)
    except HeadraceError:
        raise
    except Exception as raised:
        raise FatalError(f"{name} raises {describe_error(raised)}", fix="correct the callback") from raised
