"""A STAND-IN for SQL Server with change data capture: it answers Debezium's connector, and is no SQL Server.

Rows, log positions and change tables are its own. The connector, the driver, and so everything that makes an event,
are real.
"""

from headrace_stack.sqlserver.sql_types import Refused
from headrace_stack.sqlserver.sqlserver_server import SqlServer

__all__ = ["Refused", "SqlServer"]
