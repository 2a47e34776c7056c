"""Makes the calls by which a plugin reaches beyond this process fail, one at a time: as where a process dies, or a network is away."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from pathlib import Path
from pkgutil import resolve_name
from threading import local
from types import FrameType
from typing import Any

import pytest

_PY4J = "py4j.java_gateway.GatewayClient.send_command"
#: Functions of Python's own that change files, or talk to a network; file objects are written where they are opened.
_PYTHON = (
    *(f"os.{name}" for name in ("rename", "replace", "unlink", "remove", "rmdir", "mkdir", "link", "symlink")),
    *("builtins.open", "io.open"),
    *(f"socket.socket.{name}" for name in ("connect", "send", "sendall")),
    *(f"ssl.SSLSocket.{name}" for name in ("send", "sendall")),
)
_WRITING = frozenset("wax+")
#: What PySpark asks of the JVM to run something, by the names of its own functions, and of Java's methods.
_ACTIONS = frozenset(
    (
        *("append", "create", "createOrReplace", "csv", "insertInto", "jdbc", "json", "orc", "overwrite", "merge"),
        *("overwritePartitions", "parquet", "replace", "save", "saveAsTable", "sql", "text"),
    )
)
_JOBS = frozenset(("collectAndServe", "runJob"))
#: Java's methods that only say something, or make what others then use.
_ASKS = re.compile(
    r"(as|convert|current|filter|find|for|get|has|is|list|load|make|new|parse|read|requested|to)([A-Z]\w*)?"
    r"|(active|session)[A-Z]\w*|add|apply|build(er)?|equals|exists|hashCode|iterator|json|keySet|next|open|properties|schema|size|summary"
)
_BETWEEN = ("py4j", "pyspark")


class LostError(ConnectionError):
    """A call did not come to its end, or its answer did not."""


class Fault(StrEnum):
    """What becomes of a call."""

    DEATH = "the process dies before {}"
    REFUSED = "{} cannot be reached"
    UNANSWERED = "{} is done, and no answer comes"


class Calls:
    """The calls of one piece of work that reach beyond this process, in their order; one of them, and after a death all later ones, fail."""

    def __init__(self, more: Sequence[str] = ()) -> None:
        """``more``: functions whose calls count too, by their dotted names."""
        self._names = (_PY4J, *_PYTHON, *more)
        self._here = local()
        #: What was called, and where.
        self.steps: list[str] = []
        self._fault: Fault | None = None
        self._at = -1

    @contextmanager
    def watch(self, fault: Fault | None = None, at: int = -1) -> Iterator[None]:
        """Counts calls; the one with the number ``at`` fails."""
        self.steps, self._fault, self._at = [], fault, at
        with pytest.MonkeyPatch.context() as patch:
            for name in self._names:
                owner, _, function = name.rpartition(".")
                patch.setattr(resolve_name(owner), function, self._wrap(name, resolve_name(name)))
            yield

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """A function or a method that fails where it shall."""

        @wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            # What is made of other calls is one; Java may call back, and what is done there are calls of their own.
            is_part = getattr(self._here, "is_part", False)
            step = None if is_part else _describe(name, args, kwargs)
            if step is None:
                return real(*args, **kwargs)
            is_it = self._count(step)
            # What is open is closed when a process dies, and a connection that is never closed would hold its locks here.
            is_done = self._fault is Fault.UNANSWERED or step.startswith("close ")
            if not is_done and (is_it or self._is_dead):
                raise LostError(f"the kit has {step} fail")
            self._here.is_part = name != _PY4J
            try:
                answer = real(*args, **kwargs)
            finally:
                self._here.is_part = False
            if is_it:
                if hasattr(answer, "close"):
                    answer.close()
                raise LostError(f"the kit has the answer of {step} lost")
            return answer

        return call

    def _count(self, step: str) -> bool:
        """Whether this call is the one that fails."""
        self.steps.append(step)
        return len(self.steps) == self._at + 1

    @property
    def _is_dead(self) -> bool:
        return self._fault is Fault.DEATH and len(self.steps) > self._at


def _describe(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """A call in words; None when it only asks, or is none of the plugin's."""
    frames = list(_list_frames(sys._getframe(2)))  # noqa: SLF001 - who calls
    mine = next((frame for frame in frames if _package(frame) not in _BETWEEN), None)
    if mine is None:
        return None
    if name == _PY4J:
        what = _describe_java(args[1], next(frame for frame in frames if _package(frame) != "py4j"))
    elif _package(frames[0]) in _BETWEEN or (name.endswith(".open") and not _WRITING & set(_find_mode(args, kwargs))):
        what = None
    else:
        what = name
    return what and f"{what} ({Path(mine.f_code.co_filename).name}:{mine.f_lineno})"


def _describe_java(command: str, caller: FrameType) -> str | None:
    """A command of py4j's in words; None when it changes nothing."""
    kind, _, method = command.split("\n", 3)[:3]
    if kind != "c":
        return None
    code = caller.f_code
    if _package(caller) != "pyspark":
        return None if _ASKS.fullmatch(method) else method
    return code.co_qualname if method in _JOBS or (method in _ACTIONS and method == code.co_name) else None


def _find_mode(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return str(kwargs.get("mode", args[1] if len(args) > 1 else "r"))


def _list_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Who called, from the last one on; without Python's own modules."""
    while frame is not None:
        if _package(frame) not in sys.stdlib_module_names:
            yield frame
        frame = frame.f_back


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
