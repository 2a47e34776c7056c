"""Transport of errors from executors to the driver; Spark passes on only their text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.sdk import ConfigError, DataError, FatalError, HeadraceError, LoginError, RetriableError
from headrace.sdk.error_text import full_text

_KINDS = {kind.__name__: kind for kind in (ConfigError, DataError, FatalError, LoginError, RetriableError)}
#: Matches the message, not the source line below, which a traceback also contains.
_CARRIED = re.compile(r"RuntimeError: headrace error of a shard: (\{.*\})")


@contextmanager
def carry_errors() -> Iterator[None]:
    """Wrap a HeadraceError so that ``find_carried`` can restore it from the message of a Spark error."""
    try:
        yield
    except HeadraceError as error:
        fields = {"kind": type(error).__name__, "what": error.what, "where": error.where, "fix": error.fix}
        raise RuntimeError(f"headrace error of a shard: {json.dumps(fields)}") from error


def find_carried(error: BaseException) -> HeadraceError | None:
    """Return the error that an executor raised; None for other errors."""
    match = _CARRIED.search(full_text(error))
    if match is None:
        return None
    fields = json.loads(match[1])
    return _KINDS[fields["kind"]](fields["what"], where=fields["where"], fix=fields["fix"])
