"""Order of the changes that Debezium's Oracle connector reads from redo logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import Connector, hookimpl
from headrace.sdk.positions import SORTABLE, sortable

if TYPE_CHECKING:
    from pyspark.sql import Column


class Example(Connector):
    """Changes by the commit's SCN, their own SCN, and their number in the transaction."""

    name = "example"
    api_version = 1
    order = "example's SCNs"
    fields = ("commit_scn", "scn", "ssn")
    own_fields = ("scn",)
    pattern = SORTABLE * 3

    def log_position(self, source: Mapping[str, Column]) -> Sequence[Column]:
        from pyspark.sql import functions as F

        scn = source["scn"]  # rows of a snapshot have no commit SCN
        commit_scn = F.coalesce(source["commit_scn"], scn) if "commit_scn" in source else scn
        return [sortable(commit_scn), sortable(scn), sortable(source.get("ssn", F.lit(None)))]


@hookimpl
def headrace_connectors() -> dict[str, type[Connector]]:
    """Orders of changes, by the connector's name in ``source.connector``."""
    return {"example": Example}
