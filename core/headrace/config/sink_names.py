"""Names of a pipeline's sinks: in rules of ``tables:``, progress, status, metrics and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.sdk.sink import Sink


def name_sinks(sinks: Sequence[Sink]) -> dict[Sink, str]:
    """Return a unique name for each sink: its option ``name``, or the name of its plugin, with a number if it is taken.

    ConfigError if two sinks have the same option.
    """
    given = Counter(sink.config.name for sink in sinks if sink.config.name)
    for name, number in given.items():
        if number > 1:
            raise ConfigError(
                f"{number} sinks have the name {name!r}", where="sinks", fix="give each sink its own `name:`"
            )
    names: dict[Sink, str] = {}
    for sink in sinks:
        candidates = (sink.name if number == 1 else f"{sink.name}-{number}" for number in count(1))
        free = (name for name in candidates if name not in names.values() and name not in given)
        names[sink] = sink.config.name or next(free)
    return names
