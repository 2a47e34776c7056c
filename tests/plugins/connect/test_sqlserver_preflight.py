"""Checks of SQL Server: each finding, and the statement that fixes it.

A mock of a server replaces SQL Server, which is available only as a container. It returns rows as Microsoft documents the views and
procedures, so the tests cover the findings and their statements. The statements were not run against a real SQL Server.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace_connect.preflight.sqlserver_checks import check_sqlserver

OPTIONS = {
    "database.names": "shop",
    "table.include.list": "dbo.orders",
    "signal.data.collection": "shop.dbo.signals",
}
#: name, state_desc, HAS_DBACCESS, is_cdc_enabled, is_published, snapshot_isolation_state, Updateability, ID of rdsadmin
SHOP = ("shop", "ONLINE", 1, True, False, 0, "READ_WRITE", None)
#: job_id, job_type, job_name, maxtrans, maxscans, continuous, pollinginterval, retention, threshold
CAPTURE = (b"", "capture", "cdc.shop_capture", 500, 10, True, 5, 0, 0)
CLEANUP = (b"", "cleanup", "cdc.shop_cleanup", 0, 0, False, 0, 4320, 5000)
AGENT = ("SQL Server Agent (MSSQLSERVER)", 4, "Running")
ORDERS, SIGNALS = ("dbo", "orders", True, 1, 1), ("dbo", "signals", True, 1, 1)


class MockServer:
    """Rows of each query, by a part of its text: for the server, and for each database."""

    def __init__(self) -> None:
        self.databases: dict[str, dict[str, list[tuple[Any, ...]]]] = {}
        self.server: dict[str, list[tuple[Any, ...]]] = {
            "SERVERPROPERTY": [(3, "reader", 1)],
            "sys.dm_server_services": [AGENT],
        }
        self.current = ""

    def add(self, row: tuple[Any, ...], tables: list[tuple[Any, ...]], **answers: Any) -> None:
        """Add a database with its row of sys.databases."""
        instances = [(schema, name, f"{schema}_{name}", None, None) for schema, name, tracked, *_ in tables if tracked]
        quoted = row[0].replace("'", "''")
        self.databases[row[0]] = {
            f"sys.databases WHERE name = N'{quoted}'": [row],
            "USER_NAME()": [("reader", 1, 1)],
            "sys.tables": tables,
            "captured_columns": [],
            "cdc.change_tables": instances,
            "sp_cdc_help_jobs": [CLEANUP, CAPTURE],
            "DATEDIFF": [(2,)],
            **answers,
        }

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        if sql.startswith("USE ["):
            self.current = sql.removeprefix("USE [").rstrip("; ").removesuffix("]").replace("]]", "]")
            assert self.current in self.databases
            return []
        if "sys.databases" in sql:
            rows = [answers[key] for answers in self.databases.values() for key in answers if key in sql]
            return rows[0] if rows else []
        answers = self.server | self.databases.get(self.current, {})
        return next(rows for key, rows in answers.items() if key in sql)

    def check(self, options: dict[str, str]) -> list[str]:
        return [str(finding) for finding in check_sqlserver(self.query, options)]


@pytest.fixture
def server() -> MockServer:
    ready = MockServer()
    ready.add(SHOP, [ORDERS, SIGNALS, ("dbo", "other", False, 0, 0)])
    return ready


def test_ready_server(server: MockServer) -> None:
    assert server.check(OPTIONS) == []


def test_new_server() -> None:
    server = MockServer()
    server.server = {"SERVERPROPERTY": [(3, "reader", 0)]}
    name, schema, table = "it's [new]", "my schema", "o'brien]"
    row = (name, *SHOP[1:3], False, *SHOP[4:])
    server.add(row, [(schema, table, False, 0, 0)], **{"USER_NAME()": [("reader", 0, None)]})
    server.add(("orders", "ONLINE", 0, *SHOP[3:]), [])
    options = {"database.names": f"{name}, orders,missing", "table.include.list": r"my schema\..*,dbo.missing"}
    options |= {"signal.data.collection": "orders.dbo.signals"}
    assert server.check(options) == [
        (
            "warning: the login reader must not see whether SQL Server Agent runs, which captures the changes: "
            "USE master; GRANT VIEW SERVER STATE TO [reader];"
        ),
        (
            "error: change data capture of the database it's [new] is disabled: "
            "USE [it's [new]]]; EXEC sys.sp_cdc_enable_db;"
        ),
        (
            "error: it's [new].my schema.o'brien] has no capture instance: its changes are not captured: "
            "USE [it's [new]]]; EXEC sys.sp_cdc_enable_table @source_schema = N'my schema', @source_name = N'o''brien]', "
            "@role_name = NULL;"
        ),
        (
            "error: the user reader must not read it's [new].my schema.o'brien]: "
            "USE [it's [new]]]; GRANT SELECT ON [my schema].[o'brien]]] TO [reader];"
        ),
        (
            "error: it's [new].my schema.o'brien] has neither a primary key nor a unique index: its events have no key: "
            "USE [it's [new]]]; ALTER TABLE [my schema].[o'brien]]] ADD PRIMARY KEY (…); or set `message.key.columns`"
        ),
        (
            "error: the login reader must not open the database orders: "
            "USE [orders]; CREATE USER [reader] FOR LOGIN [reader];"
        ),
        "error: there is no database missing: correct `database.names`, or create the database",
        (
            "error: no table matches 'dbo.missing': correct `table.include.list`, create the table, "
            "or GRANT SELECT on it"
        ),
    ]


ENABLE = "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders'"
DISABLE = "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'orders'"
OLD, NEW = ("dbo", "orders", "dbo_orders", None, None), ("dbo", "orders", "dbo_orders_v2", "gate", 0)


@pytest.mark.parametrize(
    ("answers", "finding"),
    [
        (
            {"sp_cdc_help_jobs": [CLEANUP]},
            (
                "error: the database shop has no capture job: no changes are captured: "
                "USE [shop]; EXEC sys.sp_cdc_add_job @job_type = N'capture';"
            ),
        ),
        (
            {"sp_cdc_help_jobs": [CAPTURE, (*CLEANUP[:7], 90, 5000)]},
            (
                "warning: the database shop deletes changes after 1.5 hours, also if the connector did not read them: "
                "USE [shop]; EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 4320;"
            ),
        ),
        (
            {"USER_NAME()": [("reader", 0, 1)]},
            (
                "warning: only members of db_owner see the retention of changes in the database shop: "
                "USE [shop]; EXEC sys.sp_cdc_help_jobs; as a member: `retention` is at least 4320"
            ),
        ),
        (
            {"USER_NAME()": [("reader", 1, 0)]},
            (
                "error: the user reader must not read the changes of the database shop: "
                "USE [shop]; GRANT SELECT ON SCHEMA::cdc TO [reader];"
            ),
        ),
        (
            {"DATEDIFF": [(None,)]},
            (
                "error: the capture job of the database shop has not run: there are no changes: "
                "USE [shop]; EXEC sys.sp_cdc_start_job @job_type = N'capture';"
            ),
        ),
        (
            {"DATEDIFF": [(61,)]},
            (
                "warning: the capture job of the database shop has not read the log for 61 minutes: "
                "USE [shop]; EXEC sys.sp_cdc_start_job @job_type = N'capture';"
            ),
        ),
        (
            {"captured_columns": [("dbo_orders", "note"), ("dbo_orders", "sum")]},
            (
                "error: the capture instance dbo_orders of shop.dbo.orders lacks note, sum: their values are not captured: "
                f"USE [shop]; {ENABLE}, @capture_instance = N'dbo_orders_v2', @role_name = NULL; "
                "or name the columns in `column.exclude.list`"
            ),
        ),
        (
            {"cdc.change_tables": [OLD, NEW], "captured_columns": [("dbo_orders", "note"), ("dbo_orders_v2", "sum")]},
            (
                "error: the capture instance dbo_orders_v2 of shop.dbo.orders lacks sum: their values are not captured: "
                f"USE [shop]; {DISABLE}, @capture_instance = N'dbo_orders'; "
                f"{ENABLE}, @capture_instance = N'dbo_orders_v3', @role_name = N'gate'; "
                "or name the columns in `column.exclude.list`"
            ),
        ),
        (
            {"cdc.change_tables": [OLD, NEW], "captured_columns": [("dbo_orders", "note")]},
            (
                "warning: shop.dbo.orders has 2 capture instances: a new column cannot get one: "
                f"USE [shop]; {DISABLE}, @capture_instance = N'dbo_orders'; after the connector reads dbo_orders_v2"
            ),
        ),
        (
            {"sys.tables": [ORDERS]},
            (
                "warning: there is no signal table shop.dbo.signals: snapshots on request fail: USE [shop]; "
                "CREATE TABLE [dbo].[signals] (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)); "
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'signals', @role_name = NULL;"
            ),
        ),
        (
            {"sys.tables": [ORDERS, ("dbo", "signals", False, 1, 1)]},
            (
                "warning: the signal table shop.dbo.signals has no capture instance: snapshots on request do not start: "
                "USE [shop]; EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'signals', @role_name = NULL;"
            ),
        ),
    ],
)
def test_one_finding_of_a_database(server: MockServer, answers: dict[str, list[tuple[Any, ...]]], finding: str) -> None:
    server.databases["shop"] |= answers
    assert server.check(OPTIONS) == [finding]


@pytest.mark.parametrize(
    ("position", "value", "options", "finding"),
    [
        (1, "OFFLINE", {}, "error: the database shop is OFFLINE: ALTER DATABASE [shop] SET ONLINE;"),
        (
            6,
            "READ_ONLY",
            {},
            (
                "error: the database shop is a read-only replica: the connector reads no later changes from it: "
                "set `driver.applicationIntent: ReadOnly`"
            ),
        ),
        *(
            (
                5,
                0,
                options,
                (
                    "error: the database shop does not allow snapshot isolation: snapshots fail: "
                    "ALTER DATABASE [shop] SET ALLOW_SNAPSHOT_ISOLATION ON;"
                ),
            )
            for options in (
                {"snapshot.isolation.mode": "snapshot"},
                {"driver.applicationIntent": "ReadOnly"},
                {"database.applicationIntent": "ReadOnly"},
            )
        ),
    ],
)
def test_one_setting_of_a_database(
    server: MockServer, position: int, value: Any, options: dict[str, str], finding: str
) -> None:
    row = list(SHOP)
    row[position] = value
    server.databases["shop"]["sys.databases WHERE name = N'shop'"] = [tuple(row)]
    found = server.check({**OPTIONS, "table.include.list": "", **options})
    assert [line for line in found if "dbo.other" not in line] == [finding]


def test_database_on_rds(server: MockServer) -> None:
    row = (*SHOP[:3], False, *SHOP[4:7], 5)
    server.databases["shop"]["sys.databases WHERE name = N'shop'"] = [row]
    assert server.check(OPTIONS)[0] == (
        "error: change data capture of the database shop is disabled: EXEC msdb.dbo.rds_cdc_enable_db N'shop';"
    )


def test_settings_that_need_no_fix(server: MockServer) -> None:
    """A publisher has no capture job, a replica allows snapshots, Azure shows no service, and options name keys and columns."""
    shop = server.databases["shop"]
    shop["sys.databases WHERE name = N'shop'"] = [(*SHOP[:4], True, 1, "READ_ONLY", None)]
    shop |= {"sp_cdc_help_jobs": [CLEANUP], "captured_columns": [("dbo_orders", "note")]}
    shop["sys.tables"] = [("dbo", "orders", True, 1, 0), SIGNALS]
    server.server = {"SERVERPROPERTY": [(8, "reader", 0)]}
    options = {"driver.applicationIntent": "ReadOnly", "column.exclude.list": "dbo[.]orders[.]note"}
    for keys in ("dbo.orders:id", "dbo.other:id;shop.dbo.(.*):id,name"):
        assert server.check({**OPTIONS, **options, "message.key.columns": keys}) == []


def test_tables_without_a_list(server: MockServer) -> None:
    """The connector takes the tables that have a capture instance; another table can be left out on purpose."""
    assert server.check({"database.names": "shop", "signal.data.collection": "shop.dbo.signals"}) == [
        (
            "warning: shop.dbo.other has no capture instance: its changes are not captured: "
            f"USE [shop]; {ENABLE.replace('orders', 'other')}, @role_name = NULL;"
        )
    ]


@pytest.mark.parametrize(
    ("user", "mode", "findings"),
    [
        (("reader", 0, 1), "direct", []),
        (("reader", 1, 1), "function", []),
        (
            ("reader", 0, 1),
            "function",
            [
                (
                    "error: the user reader is no member of gate, which reads the changes of dbo_orders_v2: "
                    "USE [shop]; ALTER ROLE [gate] ADD MEMBER [reader];"
                )
            ],
        ),
    ],
)
def test_gating_role(server: MockServer, user: tuple[Any, ...], mode: str, findings: list[str]) -> None:
    server.databases["shop"] |= {"USER_NAME()": [user], "cdc.change_tables": [NEW]}
    found = server.check({**OPTIONS, "data.query.mode": mode})
    assert [line for line in found if line.startswith("error")] == findings


def test_two_databases(server: MockServer) -> None:
    """A table of the list is in one of the databases, and each database has its own findings."""
    server.add(("stock", *SHOP[1:]), [("dbo", "items", True, 1, 1)], DATEDIFF=[(None,)])
    found = server.check({**OPTIONS, "database.names": "shop,stock", "table.include.list": "dbo.orders,dbo.items"})
    assert found == [
        (
            "error: the capture job of the database stock has not run: there are no changes: "
            "USE [stock]; EXEC sys.sp_cdc_start_job @job_type = N'capture';"
        )
    ]


def test_server_without_databases_and_agent() -> None:
    server = MockServer()
    server.server["sys.dm_server_services"] = [("SQL Server Agent (ONE)", 1, "Stopped")]
    assert server.check({"signal.data.collection": "dbo.signals"}) == [
        "error: the service SQL Server Agent (ONE) is Stopped: it captures no changes: start the service",
        "error: the connector has no database: set `database.names`",
        (
            "warning: the signal table dbo.signals is in no database of `database.names`: snapshots on request fail: "
            "set `signal.data.collection` to DATABASE.SCHEMA.TABLE"
        ),
    ]
