"""Injection of faults into the external calls of a plugin, like the death of a process or a network failure."""

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
#: Functions of Python that change files or use a network. Opening a file for writing counts as the write.
_PYTHON = (
    *(f"os.{name}" for name in ("rename", "replace", "unlink", "remove", "rmdir", "mkdir", "link", "symlink")),
    *("builtins.open", "io.open"),
    *(f"socket.socket.{name}" for name in ("connect", "send", "sendall")),
    *(f"ssl.SSLSocket.{name}" for name in ("send", "sendall")),
)
_WRITING = frozenset("wax+")
#: Functions of PySpark and methods of Java that run something.
_ACTIONS = frozenset(
    (
        *("append", "create", "createOrReplace", "csv", "insertInto", "jdbc", "json", "orc", "overwrite", "merge"),
        *("overwritePartitions", "parquet", "replace", "save", "saveAsTable", "sql", "text"),
    )
)
_JOBS = frozenset(("collectAndServe", "runJob"))
#: Java methods that only return a value or create an object.
_QUERIES = re.compile(
    r"(as|convert|current|filter|find|for|get|has|is|list|load|make|new|parse|read|requested|to)([A-Z]\w*)?"
    r"|(active|session)[A-Z]\w*|add|apply|build(er)?|equals|exists|hashCode|iterator|json|keySet|next|open|properties|schema|size|summary"
)
_CLIENTS = ("py4j", "pyspark")


class LostError(ConnectionError):
    """A failed call, or a call whose response was lost."""


class Fault(StrEnum):
    """Kind of failure of a call."""

    DEATH = "the process dies before {}"
    REFUSED = "{} is unreachable"
    UNANSWERED = "{} is done, and its response is lost"


class Calls:
    """Recorder of the external calls of one operation. It can make one call fail, and after a death all later calls too."""

    def __init__(self, more: Sequence[str] = ()) -> None:
        """``more``: dotted names of additional functions whose calls count."""
        self._names = (_PY4J, *_PYTHON, *more)
        self._here = local()
        #: Calls and their locations in the code.
        self.steps: list[str] = []
        self._fault: Fault | None = None
        self._at = -1

    @contextmanager
    def watch(self, fault: Fault | None = None, at: int = -1) -> Iterator[None]:
        """Record calls; the call with the index ``at`` fails."""
        self.steps, self._fault, self._at = [], fault, at
        with pytest.MonkeyPatch.context() as patch:
            for name in self._names:
                owner, _, function = name.rpartition(".")
                patch.setattr(resolve_name(owner), function, self._wrap(name, resolve_name(name)))
            yield

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function or a method so that it can fail."""

        @wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            # A call that consists of other calls counts once. Calls in a callback from Java count separately.
            is_part = getattr(self._here, "is_part", False)
            step = None if is_part else _describe(name, args, kwargs)
            if step is None:
                return real(*args, **kwargs)
            is_failing = self._count(step)
            # A dying process closes its files and connections. Here an open connection would keep its locks.
            is_done = self._fault is Fault.UNANSWERED or step.startswith("close ")
            if not is_done and (is_failing or self._is_dead):
                raise LostError(f"the kit makes {step} fail")
            self._here.is_part = name != _PY4J
            try:
                response = real(*args, **kwargs)
            finally:
                self._here.is_part = False
            if is_failing:
                if hasattr(response, "close"):
                    response.close()
                raise LostError(f"the kit loses the response of {step}")
            return response

        return call

    def _count(self, step: str) -> bool:
        """Record a call and return whether it is the failing one."""
        self.steps.append(step)
        return len(self.steps) == self._at + 1

    @property
    def _is_dead(self) -> bool:
        return self._fault is Fault.DEATH and len(self.steps) > self._at


def _describe(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Return the name and location of a call; None if it changes nothing or the plugin did not make it."""
    frames = list(_list_frames(sys._getframe(2)))  # noqa: SLF001 - the caller's frame
    origin = next((frame for frame in frames if _package(frame) not in _CLIENTS), None)
    if origin is None:
        return None
    if name == _PY4J:
        call = _describe_java(args[1], next(frame for frame in frames if _package(frame) != "py4j"))
    elif _package(frames[0]) in _CLIENTS or (name.endswith(".open") and not _WRITING & set(_find_mode(args, kwargs))):
        call = None
    else:
        call = name
    return call and f"{call} ({Path(origin.f_code.co_filename).name}:{origin.f_lineno})"


def _describe_java(command: str, caller: FrameType) -> str | None:
    """Return the name of a py4j command; None if it changes nothing."""
    kind, _, method = command.split("\n", 3)[:3]
    if kind != "c":
        return None
    code = caller.f_code
    if _package(caller) != "pyspark":
        return None if _QUERIES.fullmatch(method) else method
    return code.co_qualname if method in _JOBS or (method in _ACTIONS and method == code.co_name) else None


def _find_mode(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return str(kwargs.get("mode", args[1] if len(args) > 1 else "r"))


def _list_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the callers, innermost first, without the standard library."""
    while frame is not None:
        if _package(frame) not in sys.stdlib_module_names:
            yield frame
        frame = frame.f_back


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
