"""Order of MySQL's and MariaDB's changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.sdk import Connector
from headrace.sdk.positions import SORTABLE, sortable

if TYPE_CHECKING:
    from pyspark.sql import Column


class MySqlConnector(Connector):
    """Changes by the number of the binlog file and the position in it.

    Changes of one position are rows of one event, or of a transaction whose rows have no positions of their own. ``source.row`` is
    their number in the event, so that it restarts within such a transaction. Their order is that of the records.
    """

    name = "mysql"
    api_version = 1
    order = "MySQL's binlog"
    fields = ("file", "pos", "row")
    own_fields = ("file", "pos")
    #: Cassandra's commit log has files and positions, too, but not in one order. TiCDC leaves the binlog's fields empty.
    foreign_fields = ("keyspace_name", "cluster", "commit_ts", "cluster_id")
    pattern = SORTABLE * 3

    def log_position(self, source: Mapping[str, Column]) -> Sequence[Column]:
        from pyspark.sql import functions as F

        file_number = F.regexp_extract(source["file"], r"(\d+)$", 1)
        pos = source["pos"].cast("bigint")
        # Stored positions have a third part, which is 0 in nearly all of them, and null if the events have no ``row``.
        return [sortable(file_number), sortable(F.when(pos >= 0, pos)), sortable(F.lit(0 if "row" in source else None))]

    def lacks_position(self, source: Mapping[str, Column]) -> Column:
        from pyspark.sql import functions as F

        # From MariaDB 11.4 on, and in compressed transactions of MySQL, the end position of a row event is 0. Some versions of Debezium
        # subtract the length of the event from it. Files of MariaDB's InnoDB-based binlog do not end with a number.
        has_number = F.substring(source["file"], -1, 1).between("0", "9")
        is_unusable = (source["pos"].cast("bigint") < 0) | ~has_number
        return super().lacks_position(source) | F.coalesce(is_unusable, F.lit(False))


class MariaDbConnector(MySqlConnector):
    """Order of MariaDB's changes, like MySQL's."""

    name = "mariadb"
