"""Transport of errors from executors to the driver; Spark passes on only their text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headrace.sdk import ConfigError, DataError, FatalError, HeadraceError, LoginError, RetriableError
from headrace.sdk.error_text import full_text
from headrace_sources.kinesis.kinesis_stream import NoSuchStreamError

_KINDS: dict[str, type[HeadraceError]] = {
    kind.__name__: kind for kind in (ConfigError, DataError, FatalError, LoginError, NoSuchStreamError, RetriableError)
}
#: Matches the message, not the source line below, which a traceback also contains.
_CARRIED = re.compile(r"RuntimeError: headrace error of a shard: (\{.*\})")


@contextmanager
def carry_errors() -> Iterator[None]:
    """Wrap a HeadraceError so that ``find_carried`` can restore it from the message of a Spark error."""
    try:
        yield
    except HeadraceError as error:
        raise RuntimeError(_write(error)) from error


def find_carried(error: BaseException) -> HeadraceError | None:
    """Return the error that an executor raised; None for other errors."""
    match = _CARRIED.search(full_text(error))
    if match is None:
        return None
    return error_of_json(json.loads(match[1]))


def write_carried(error: HeadraceError) -> str:
    """Return the text of a Spark error in which ``find_carried`` finds the error."""
    return f"RuntimeError: {_write(error)}"


def _write(error: HeadraceError) -> str:
    return f"headrace error of a shard: {json.dumps(error_to_json(error))}"


def error_to_json(error: HeadraceError) -> dict[str, Any]:
    """Return the fields of an error, with its kind."""
    return {"kind": type(error).__name__, "what": error.what, "where": error.where, "fix": error.fix}


def error_of_json(fields: Mapping[str, Any]) -> HeadraceError:
    """Return the error of these fields."""
    return _KINDS[fields["kind"]](fields["what"], where=fields["where"], fix=fields["fix"])
