"""Third-party connector for a fictional database with system change numbers (SCNs) like those of Oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import Connector, hookimpl
from headrace.sdk.positions import SORTABLE, sortable

if TYPE_CHECKING:
    from pyspark.sql import Column


class Redwood(Connector):
    """Connector that orders changes by the SCN of their commit and then by their own SCN."""

    name = "redwood"
    api_version = 1
    order = "Redwood's SCNs"
    fields = ("commit_scn", "scn")
    own_fields = ("scn",)
    pattern = SORTABLE * 2
    sends_whole_rows = True

    def log_position(self, source: Mapping[str, Column]) -> Sequence[Column]:
        from pyspark.sql import functions as F

        scn = source["scn"]
        return [sortable(F.coalesce(source["commit_scn"], scn) if "commit_scn" in source else scn), sortable(scn)]


@hookimpl
def headrace_connectors() -> dict[str, type[Connector]]:
    """Return the connectors by their name in ``source.connector``."""
    return {"redwood": Redwood}
