"""Lookups in tables of other formats and in a real database."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.transforms.test_row_transforms import flat
from tests.plugins.transforms.test_transform_pipelines import event, write_events
from tests.support.pipelines import HAS_HUDI, pipeline, sink_block

from headrace.errors import ConfigError, DataError
from headrace_stack import Postgres
from headrace_transforms import Lookup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OPTIONS: dict[str, Any] = {"key": {"country": "code"}, "columns": ["region"], "refresh.interval": "0 seconds"}


def find_region(lookup: Lookup, spark: SparkSession) -> Any:
    rows = lookup.process(flat(spark, "id int, country string", (1, "CH")))
    return rows.frame.select("region").collect()[0][0]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["delta", *(["hudi"] if HAS_HUDI else [])])
def test_new_version_of_a_table(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    topic = "shop.public.countries"
    countries = pipeline(
        tmp_path,
        kind,
        source={"files": {"path": str(tmp_path / "bronze"), "format": "json"}},
        tables=[{"source": topic, "target": "shop.countries", "key": ["code"]}],
    )
    [(name, options)] = sink_block(kind, tmp_path).items()
    lookup = Lookup({**OPTIONS, "from": {name: {**options, "table": "shop.countries"}}})
    with pytest.raises(ConfigError, match=r"there is no table 'shop\.countries'"):
        find_region(lookup, spark)
    for number, region in enumerate(("Alps", "Mitte")):
        write_events(tmp_path, topic, number, event("u", number, code="CH", region=region))
        countries.run(spark)
        if number:
            assert find_region(lookup, spark) == "Alps"
        lookup.begin_batch()
        assert find_region(lookup, spark) == region


@pytest.mark.dist
def test_query_of_a_database(spark: SparkSession, postgres: Postgres) -> None:
    """Each refresh reads it. A table that is gone keeps the rows that were loaded."""
    table = f"countries_{uuid.uuid4().hex[:8]}"
    postgres.execute(
        f"create table {table} (code text primary key, region text, size numeric); insert into {table} values ('CH', 'Alps')"
    )
    login = {
        "connection.url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}",
        "connection.user": postgres.user,
        "connection.password": postgres.password,
    }
    options = {**OPTIONS, "from": {"jdbc": {**login, "query": f"SELECT * FROM {table}"}}}
    lookup = Lookup(options)
    assert find_region(lookup, spark) == "Alps"
    postgres.execute(f"update {table} set region = 'Mitte'")
    lookup.begin_batch()
    assert find_region(lookup, spark) == "Mitte"
    postgres.execute(f"update {table} set size = 'NaN'")
    with pytest.raises(DataError, match="a record of the reference data cannot be read"):
        find_region(Lookup(options), spark)
    postgres.execute(f"drop table {table}")
    lookup.begin_batch()
    assert find_region(lookup, spark) == "Mitte"
    with pytest.raises(Exception, match=table):
        find_region(Lookup(options), spark)
