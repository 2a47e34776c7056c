"""Order of PostgreSQL's changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import Connector
from headrace.sdk.positions import SORTABLE, sortable

if TYPE_CHECKING:
    from pyspark.sql import Column


class PostgreSqlConnector(Connector):
    """Changes by the LSN of the last commit, or by their own where there is none, then by their own.

    ``source.sequence`` holds both: ``["<last commit>","<event>"]``, either of which may be null.
    """

    name = "postgresql"
    api_version = 1
    #: Every connector has a ``sequence``, which most of them leave null. The other connectors are therefore tried first.
    priority = 100
    order = "PostgreSQL's LSNs"
    fields = ("sequence", "lsn")
    own_fields = ("lsn",)
    #: Fields of Oracle, SQL Server, Db2, Informix, MySQL, Cassandra, Vitess, MongoDB, Spanner and YugabyteDB.
    foreign_fields = (
        "scn",
        "change_lsn",
        "begin_lsn",
        "file",
        "pos",
        "keyspace_name",
        "vgtid",
        "collection",
        "change_stream_name",
        "tablet_id",
    )
    pattern = SORTABLE * 2

    @classmethod
    def matches(cls, fields: Collection[str]) -> bool:
        return ("lsn" in fields or "sequence" in fields) and set(cls.foreign_fields).isdisjoint(fields)

    def log_position(self, source: Mapping[str, Column]) -> Sequence[Column]:
        from pyspark.sql import functions as F

        lsn = source.get("lsn", F.lit(None)).cast("bigint")
        if "sequence" not in source:
            return [sortable(lsn), sortable(lsn)]
        # The pair is cut with string functions: parsing JSON costs more than the rest of a row. Its second LSN equals `lsn`,
        # and is read only where that is null.
        pair = source["sequence"]
        first = F.substring(F.substring_index(pair, '",', 1), 3, 20)
        commit_lsn = F.when(~pair.startswith("[null"), first).cast("bigint")
        second = F.substring(F.ltrim(F.substring_index(pair, ",", -1)), 2, 20)
        event_lsn = F.coalesce(lsn, F.when(~pair.endswith("null]"), F.substring_index(second, '"', 1)).cast("bigint"))
        # A new replication slot has no last commit. Its events come after those of older slots, and before its first commit.
        return [sortable(F.coalesce(commit_lsn, event_lsn)), sortable(event_lsn)]

    def lacks_position(self, source: Mapping[str, Column]) -> Column:
        from pyspark.sql import functions as F

        pair = source.get("sequence", F.lit(None).cast("string"))
        has_no_pair = F.coalesce(pair.startswith("[null") & pair.endswith("null]"), F.lit(True))
        return source.get("lsn", F.lit(None)).isNull() & has_no_pair

    def snapshot_start(self, parts: Sequence[Column]) -> Sequence[Column]:
        # A transaction that is open during the snapshot and commits next has lower LSNs than the snapshot, but no lower last commit.
        return parts[:1]
