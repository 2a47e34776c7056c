"""Errors on their way from executors: Spark hands on nothing but their text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.sdk import ConfigError, DataError, FatalError, HeadraceError, LoginError, RetriableError
from headrace.sdk.error_text import full_text

_KINDS = {kind.__name__: kind for kind in (ConfigError, DataError, FatalError, LoginError, RetriableError)}
#: The text of such an error, and not the line of code below, which a traceback has too.
_CARRIED = re.compile(r"RuntimeError: headrace error of a shard: (\{.*\})")


@contextmanager
def carry_errors() -> Iterator[None]:
    """An error in words that leaves the block is one that ``find_carried`` finds in what Spark says of it."""
    try:
        yield
    except HeadraceError as error:
        said = {"kind": type(error).__name__, "what": error.what, "where": error.where, "fix": error.fix}
        raise RuntimeError(f"headrace error of a shard: {json.dumps(said)}") from error


def find_carried(error: BaseException) -> HeadraceError | None:
    """The error that an executor raised."""
    match = _CARRIED.search(full_text(error))
    if match is None:
        return None
    said = json.loads(match[1])
    return _KINDS[said["kind"]](said["what"], where=said["where"], fix=said["fix"])
