"""Order of SQL Server's changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import Connector
from headrace.sdk.positions import SORTABLE, sortable

if TYPE_CHECKING:
    from pyspark.sql import Column

#: An LSN, ``00000025:00000d58:0003``, with its length before it; or no LSN.
_LSN = "(?:10|216[0-9A-Fa-f:]{22})"


class SqlServerConnector(Connector):
    """Changes by the commit's LSN, their own LSN, and their serial number."""

    name = "sqlserver"
    api_version = 1
    order = "SQL Server's LSNs"
    fields = ("commit_lsn", "change_lsn", "event_serial_no")
    own_fields = ("commit_lsn", "change_lsn")
    #: Informix has LSNs of another format, and PostgreSQL's source block may get a ``commit_lsn``. Db2's fields are all fields of SQL
    #: Server: only ``source.connector`` distinguishes them.
    foreign_fields = ("begin_lsn", "txId", "lsn")
    pattern = _LSN * 2 + SORTABLE

    @classmethod
    def matches(cls, fields: Collection[str]) -> bool:
        # Flat rows may have only the first field.
        return "commit_lsn" in fields and set(cls.foreign_fields).isdisjoint(fields)

    def log_position(self, source: Mapping[str, Column]) -> Sequence[Column]:
        from pyspark.sql import functions as F

        empty = F.lit("")
        lsns = [F.coalesce(source[name], empty) if name in source else empty for name in ("commit_lsn", "change_lsn")]
        serial_number = source.get("event_serial_no", F.lit(None))
        return [*[F.concat(sortable(F.length(lsn)), lsn) for lsn in lsns], sortable(serial_number)]

    def lacks_position(self, source: Mapping[str, Column]) -> Column:
        return source["commit_lsn"].isNull()  # rows of a snapshot have no other field
