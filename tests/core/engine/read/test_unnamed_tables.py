"""Tagged columns of events that name no table, in a topic of several tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import make_topic_readers, record

from headrace import DataError, Pipeline
from headrace.engine.plan.routing import Route
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.read.record_decoder import RecordDecoder
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import SourceContext
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

MASK: dict[str, Any] = {"mask": {"columns": {"email": {"nullify": True}}}}
LIMITED = {"mask": {**MASK["mask"], "tables": ["people"]}}


@pytest.mark.parametrize(
    ("transforms", "by", "is_refused"),
    [
        ([], ("source.table",), True),
        ([{"drop": {"columns": ["email"], "tables": ["people"]}}], ("source.table",), True),
        ([MASK], ("source.table",), False),
        ([LIMITED], ("source.table",), False),
        # Events without a value in a column of the row become dead letters.
        ([], ("after.email",), False),
    ],
)
def test_tagged_column_of_the_own_table_of_a_split_topic(
    transforms: list[Any], by: tuple[str, ...], is_refused: bool, spark: SparkSession, tmp_path: Path
) -> None:
    after = {"id": 1, "email": "a@x"}
    value = {"before": None, "after": after, "source": {"connector": "postgresql", "table": None, "lsn": 1}, "op": "c"}
    context = SourceContext(spark, SchemaLog())
    [events] = RecordDecoder(JsonFormat()).decode(context, make_topic_readers(spark, [record(value)]))
    config: dict[str, Any] = {
        "name": "p",
        "source": {"files": {"path": str(tmp_path), "format": "json"}},
        "tags": {"pii": ["email"]},
    }
    config |= {"transforms": [{"unwrap": {}}, *transforms], "sink": {"console": {}}, "checkpoint": str(tmp_path / "c")}
    reader, route = ChangeReader(Pipeline.from_dict(config).plan), Route("shop.all", ("id",), by=by)
    if is_refused:
        with pytest.raises(
            DataError, match=r"'email' of the table shop[.]all has the tag 'pii', and no transform masks it"
        ):
            reader.read_changes(spark, events, route)
    else:
        reader.read_changes(spark, events, route)
