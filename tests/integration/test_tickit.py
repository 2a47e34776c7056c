"""Pipeline of docs/aws.md, "From MSK to Hudi and Glue": from a database to tables for Athena, step by step.

PostgreSQL, Debezium in Kafka Connect, the Kafka broker, Hudi and Spark are real, and the broker verifies the signatures of
IAM authentication. Stand-ins replace the other services:

- MSK: a broker with one node (``headrace_stack.Msk``). Connect uses a listener without authentication, headrace uses the
  listener with IAM authentication.
- Secrets Manager and the Glue catalog: moto, which accepts all credentials.
- S3: local folders.
- Athena: Spark, which reads each table with its metadata from Glue.

The tables have the schema of TICKIT, the ticket shop in the AWS examples. The rows are invented, because the data of TICKIT
has no license.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.plugins.aws.msk.test_msk_iam_broker import Jvm
from tests.support.glue import Glue, column_types, read_table
from tests.support.pages import find_block

from headrace import Pipeline
from headrace_stack import Connect, Msk, Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.slow, pytest.mark.one_spark]

TICKIT = """
create schema tickit;
create table tickit.users (userid int primary key, username char(8), email varchar(100), likejazz boolean);
create table tickit.event (eventid int primary key, eventname varchar(200), starttime timestamp);
create table tickit.sales (salesid int primary key, eventid int, buyerid int, qtysold smallint, pricepaid numeric(8, 2));
insert into tickit.users values (1, 'JSG99FHE', 'jazz@example.org', true), (2, 'PGL08LJI', 'opera@example.org', null);
insert into tickit.event values (1, 'Gotterdammerung', '2008-01-25 14:30'), (2, 'La Traviata', '2008-10-12 19:00');
insert into tickit.sales values (1, 1, 2, 4, 728.00), (2, 2, 2, 2, 76.50), (3, 2, 1, 1, 55.00);
"""
SALT = "pepper of the museum"


@pytest.fixture(scope="module")
def glue() -> Iterator[Glue]:
    with Glue() as server:
        yield server


@pytest.fixture
def connect(msk: Msk) -> Iterator[Connect]:
    with Connect(msk, ["postgres"]) as server:
        yield server


@pytest.fixture
def jvm(spark: SparkSession, tmp_path: Path) -> Iterator[Jvm]:
    jvm = Jvm(spark, tmp_path)
    yield jvm
    jvm.restore()


def test_tickit(
    postgres: Postgres,
    msk: Msk,
    connect: Connect,
    glue: Glue,
    spark: SparkSession,
    jvm: Jvm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 1. Debezium writes each change of the database to a topic of the cluster.
    postgres.execute(TICKIT)
    connect.put("tickit", {**postgres.debezium("prod"), "schema.include.list": "tickit", **WITH_SCHEMAS})
    msk.read("prod.tickit.sales", 3)

    # 2. The pipeline runs with a role, which is a key that the broker accepts. AWS clients in Python read the key from the
    #    environment. AWS clients in the running JVM read it from system properties.
    key = msk.issue_key("pipeline")
    for name, value in {**glue.environment, **key.environment}.items():
        monkeypatch.setenv(name, value)
    jvm.use(key)

    # 3. The salt is in Secrets Manager, and the pipeline file contains only the name of the secret.
    glue.client("secretsmanager").create_secret(Name="prod/headrace", SecretString=f'{{"salt": "{SALT}"}}')

    # 4. The pipeline file uses local paths and servers in place of those of AWS.
    file = find_block("docs/aws.md", "yaml", "name: tickit")
    config = yaml.safe_load(file.replace("s3a://lake", str(tmp_path)))
    config["source"]["kafka"] |= {
        "bootstrap.servers": msk.iam.bootstrap_servers,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(msk.iam.ca),
    }
    pipeline = Pipeline.from_dict(config)

    # 5. `check` reaches all servers and reports the table of each topic before anything is written.
    found = {item.what: item.found for item in pipeline.check(spark, connect=True)}
    assert found["topic prod.tickit.sales"].startswith("table sales, key salesid, columns salesid, eventid, buyerid")
    assert found["catalog glue"] == "database tickit_reports: does not exist, a run creates it"

    # 6. The pipeline runs to the end of its input, and again after changes.
    pipeline.run(spark)
    postgres.execute(
        "update tickit.event set starttime = '2008-01-26 14:30' where eventid = 1; delete from tickit.sales where salesid = 3;"
        "alter table tickit.sales add column commission numeric(8, 2);"
        "insert into tickit.sales values (4, 1, 1, 2, 364.00, 54.60)"
    )
    msk.read("prod.tickit.sales", 6)  # three rows, a delete and its tombstone, a row
    msk.read("prod.tickit.event", 3)
    pipeline.run(spark)
    assert msk.count_logins("AWS_MSK_IAM", "pipeline")

    # 7. Glue has three names for each merge-on-read table, and one for each copy-on-write table.
    fresh, reports = glue.tables("tickit_fresh"), glue.tables("tickit_reports")
    assert fresh.keys() == {f"{name}{way}" for name in ("users", "event", "sales") for way in ("", "_ro", "_rt")}
    assert reports.keys() == {"users", "event", "sales"}
    for table in (fresh["sales"], fresh["sales_ro"], reports["sales"]):
        assert {"pricepaid": "decimal(8,2)", "commission": "decimal(8,2)"}.items() <= column_types(table).items()
    # A new column creates a version of the table in Glue. A batch does not.
    assert glue.count_versions("tickit_reports", "sales") == 2
    assert glue.count_versions("tickit_reports", "event") == 1

    # 8. A table that is read through Glue equals the database.
    for tables in (fresh, reports):
        assert rows(spark, tables["sales"], "salesid", "pricepaid", "commission") == [
            (1, "728.00", None),
            (2, "76.50", None),
            (4, "364.00", "54.60"),
        ]
        assert rows(spark, tables["event"], "eventid", "starttime") == [
            (1, "2008-01-26 14:30:00"),
            (2, "2008-10-12 19:00:00"),
        ]
        # The email address is masked with a salted hash.
        (masked, _) = rows(spark, tables["users"], "userid", "email")
        assert re.fullmatch("[0-9a-f]{64}", masked[1])
        assert masked[1] != sha256(b"jazz@example.org").hexdigest()
    assert SALT not in repr(pipeline)


WITH_SCHEMAS = {
    f"{part}.converter{setting}": value
    for part in ("key", "value")
    for setting, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "true"))
}


def rows(spark: SparkSession, table: dict[str, Any], key: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table as numbers and strings, sorted by key."""
    frame = read_table(spark, table).selectExpr(key, *(f"string({column})" for column in columns))
    return sorted(tuple(row) for row in frame.collect())
