"""Test equipment only: a stand-in for SQL Server with change data capture. It is not SQL Server and runs no SQL.

The stand-in answers the queries of Debezium's SQL Server connector over TDS. Rows, log positions and change tables are
simulated in Python. Debezium's connector and Microsoft's JDBC driver are the real ones, and so is the format of every
change event. Never use it as a database.
"""

from headrace_stack.sqlserver.sql_types import Refused
from headrace_stack.sqlserver.sqlserver_server import SqlServer

__all__ = ["Refused", "SqlServer"]
