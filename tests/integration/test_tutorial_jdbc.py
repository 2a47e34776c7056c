"""Steps of docs/tutorial-jdbc.md, with Pagila in a real PostgreSQL."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.pages import find_block

from headrace import Pipeline
from headrace_demo.live import pagila
from headrace_stack import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

PAGE, TABLE = "docs/tutorial-jdbc.md", "pagila.addresses"


@pytest.mark.nightly
def test_table_of_addresses_equals_the_query(tmp_path: Path, spark: SparkSession, postgres: Postgres) -> None:
    postgres.execute("create database pagila")
    with closing(postgres.connect("pagila")) as connection:
        pagila.load(connection)
        connection.run("set search_path to public")

        # 1. and 2. The pipeline file has the query of the page.
        query = find_block(PAGE, "", "SELECT")
        config = yaml.safe_load(find_block(PAGE, "yaml", "name: addresses"))
        jdbc = config["source"]["jdbc"]
        assert jdbc["query"] == query
        jdbc["connection.url"] = f"jdbc:postgresql://{postgres.host}:{postgres.port}/pagila"
        jdbc |= {"connection.user": postgres.user, "connection.password": postgres.password, "reconcile": "1 ms"}
        config |= {
            "sink": {"iceberg": {"warehouse": str(tmp_path / "lake")}},
            "checkpoint": str(tmp_path / "checkpoint"),
        }
        pipeline = Pipeline.from_dict(config)

        def read_database() -> dict[int, tuple[Any, ...]]:
            rows = connection.run(
                f"select address_id, address, district, left(phone, 3), city, country from ({query}) q"
            )
            return {row[0]: tuple(row[1:]) for row in rows or ()}

        def read_lake() -> dict[int, tuple[Any, ...]]:
            columns = ("address_id", "address", "district", "phone", "city", "country")
            return {row[0]: tuple(row[1:]) for row in pipeline.read(TABLE, spark=spark).select(*columns).collect()}

        # 3. Load and follow.
        pipeline.run(spark)
        assert len(read_lake()) == 603
        assert read_lake() == read_database()
        for statement in find_block(PAGE, "", "UPDATE").splitlines():
            connection.run(statement)
        pipeline.run(spark)
        assert read_lake() == read_database()
        assert [read_lake()[id_][3] for id_ in (2, 4)] == ["Brisbane"] * 2

        # 4. Delete.
        insert, delete = find_block(PAGE, "", "DELETE").splitlines()
        connection.run(insert)
        pipeline.run(spark)
        assert len(read_lake()) == 604
        connection.run(delete)
        pipeline.run(spark)
        assert len(read_lake()) == 603
        assert read_lake() == read_database()
