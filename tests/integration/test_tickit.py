"""From a database to Athena's tables, step by step: the pipeline of docs/aws.md, "From MSK to Hudi and Glue".

Real are PostgreSQL, Debezium in Kafka Connect, the broker and AWS's login, whose signatures it verifies, Hudi and Spark. For the rest stand

- for MSK a broker of one node (``headrace_stack.Msk``). Connect reaches it by a listener that asks nobody who he is; headrace
  by the one that takes IAM;
- for Secrets Manager and Glue's catalog moto, which lets everybody in;
- for S3 folders on this machine, and for Athena Spark, which reads a table by what Glue says of it.

The tables are shaped like those of TICKIT, the tickets' shop of AWS's examples; their rows are made up, for its data has no licence.
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
    known = Jvm(spark, tmp_path)
    yield known
    known.restore()


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
    # 1. A database, and Debezium, which writes each of its changes to a topic of the cluster.
    postgres.execute(TICKIT)
    connect.put("tickit", {**postgres.debezium("prod"), "schema.include.list": "tickit", **WITH_SCHEMAS})

    # 2. Who runs the pipeline has a role. Here that is a key which the broker knows; AWS's clients in Python find it in the
    #    environment, and those in the JVM, which is running already, in its properties.
    key = msk.issue_key("pipeline")
    for name, value in {**glue.environment, **key.environment}.items():
        monkeypatch.setenv(name, value)
    jvm.use(key)

    # 3. What nobody may read lies in Secrets Manager, and the file has its name alone.
    glue.client("secretsmanager").create_secret(Name="prod/headrace", SecretString=f'{{"salt": "{SALT}"}}')

    # 4. The file, with places of this machine's for those of AWS's.
    file = find_block("docs/aws.md", "yaml", "name: tickit")
    config = yaml.safe_load(file.replace("s3a://lake", str(tmp_path)))
    config["source"]["kafka"] |= {
        "bootstrap.servers": msk.iam.bootstrap_servers,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(msk.iam.ca),
    }
    pipeline = Pipeline.from_dict(config)

    # 5. All answer, and what will become of the topics is known before anything is written.
    found = {item.what: item.found for item in pipeline.check(spark, connect=True)}
    assert found["topic prod.tickit.sales"].startswith("table sales, key salesid, columns salesid, eventid, buyerid")
    assert found["catalog glue"] == "database tickit_reports: does not exist, a run creates it"

    # 6. It runs until it has read what there is; and again, after changes.
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

    # 7. Glue has three names for each table that is merged on reading, and one for each that is not.
    fresh, reports = glue.tables("tickit_fresh"), glue.tables("tickit_reports")
    assert fresh.keys() == {f"{name}{way}" for name in ("users", "event", "sales") for way in ("", "_ro", "_rt")}
    assert reports.keys() == {"users", "event", "sales"}
    for table in (fresh["sales"], fresh["sales_ro"], reports["sales"]):
        assert {"pricepaid": "decimal(8,2)", "commission": "decimal(8,2)"}.items() <= column_types(table).items()
    # A column came, which is one new version; a batch is none.
    assert glue.count_versions("tickit_reports", "sales") == 2
    assert glue.count_versions("tickit_reports", "event") == 1

    # 8. Whoever reads a table by Glue sees what the database has.
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
        # The address is none any more, and the salt is nowhere.
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
    """A table's rows as numbers and texts, in the order of their keys."""
    frame = read_table(spark, table).selectExpr(key, *(f"string({column})" for column in columns))
    return sorted(tuple(row) for row in frame.collect())
