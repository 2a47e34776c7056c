"""Masking rules of columns, and the first batch of each. Rows of earlier batches were not masked by it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.spark.storage import Folder

_FILE = "masks.json"


@dataclass(frozen=True)
class MaskedColumn:
    """Masked column. ``rule``: digest of the rule without its secrets; ``since``: the first batch that it masked."""

    rule: str
    since: int


class MaskLog:
    """Column → its masking rule, in a file of the checkpoint.

    Without the file, the rules count as present from the beginning.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def compare(self, rules: Mapping[str, str], batch: int) -> dict[str, MaskedColumn]:
        """Return the columns that ``rules`` mask, with their first batch: ``batch`` for new and changed rules."""
        known, digests = self._read(), {column: _digest(rule) for column, rule in rules.items()}
        if known is None:
            return {column: MaskedColumn(digest, 0) for column, digest in digests.items()}
        columns = {column: known.get(column, MaskedColumn("", 0)) for column in digests}
        return {
            column: known_rule if known_rule.rule == digests[column] else MaskedColumn(digests[column], batch)
            for column, known_rule in columns.items()
        }

    def remember(self, columns: Mapping[str, MaskedColumn]) -> None:
        """Save the result of ``compare``."""
        if columns != self._read():
            self._folder.write(_FILE, json.dumps({column: asdict(item) for column, item in columns.items()}))

    def _read(self) -> dict[str, MaskedColumn] | None:
        return self._folder.load(_FILE, _parse)


def _parse(text: str) -> dict[str, MaskedColumn]:
    return {column: MaskedColumn(**item) for column, item in json.loads(text).items()}


def _digest(rule: str) -> str:
    return hashlib.sha256(rule.encode()).hexdigest()[:16]
