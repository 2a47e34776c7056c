"""Secrets of a pipeline that a Spark application uses: in no ``repr``, in no line it is told to add, in no error."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.bronze import Bronze
from tests.support.pipelines import COLUMNS, TOPIC, pipeline

from headrace.errors import HeadraceError, PluginError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECRET = "canary-of-python"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", SECRET)


def text_of(error: BaseException) -> str:
    return "".join([repr(error), str(error), *traceback.format_exception(error)])


def test_a_pipelines_repr_has_no_secret(tmp_path: Path) -> None:
    made = pipeline(
        tmp_path,
        name="${env:CANARY}",
        checkpoint=f"{tmp_path}/${{env:CANARY}}",
        spark={"spark.hadoop.odd": "${env:CANARY}", "spark.hadoop.fs.s3a.secret.key": "plain-canary"},
        sink={"iceberg": {"warehouse": f"{tmp_path}/${{env:CANARY}}"}},
        sinks=[],
    )
    shown = "".join(map(repr, (made, made.plan, made.sinks[0].config, made.plan.spark_conf)))
    assert "${env:CANARY}" in shown
    assert "canary-of" not in shown
    assert "plain-canary" not in shown


def test_the_lines_for_a_session_show_references_and_not_their_values(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"type": "rest", "signer": "${env:CANARY}", "token": "plain-canary"}
    made = pipeline(tmp_path, sink={"iceberg": {"catalog": "afar", "catalog.properties": properties}}, sinks=[])
    with pytest.raises(PluginError) as raised:
        made.check(spark)
    said = text_of(raised.value)
    assert '.config("spark.sql.catalog.afar.type", "rest")' in said
    assert '.config("spark.sql.catalog.afar.signer", "${env:CANARY}")' in said
    assert '.config("spark.sql.catalog.afar.token", "******")' in said
    assert "canary" not in said.replace("${env:CANARY}", "")


def test_no_error_of_a_run_and_nothing_it_came_from_says_a_secret(spark: SparkSession, tmp_path: Path) -> None:
    artists = Bronze(tmp_path / "bronze").topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot({"artist_id": 1, "name": "Arp", "nationality": "German"})
    artists.flush()
    (tmp_path / SECRET).write_text("a file where the folder would be")
    made = pipeline(tmp_path, sink={"iceberg": {"warehouse": f"{tmp_path}/${{env:CANARY}}"}}, sinks=[])
    query = made.start_available_now(spark)
    with pytest.raises(HeadraceError) as raised:
        query.await_termination()
    said = text_of(raised.value)
    assert "its path contains a file" in said
    assert "Traceback" in said
    assert "******" in said
    assert SECRET not in said + text_of(query.exception or raised.value) + repr(query.status)
    with pytest.raises(HeadraceError) as raised_by_read:
        made.read("moma.artists", spark=spark)
    assert SECRET not in text_of(raised_by_read.value)


def test_no_refusal_says_a_secret(spark: SparkSession, tmp_path: Path) -> None:
    made = pipeline(tmp_path, checkpoint=f"{tmp_path}/${{env:CANARY}}", transforms=[{"unwrap": {}}])
    for refuse in (made.raise_epoch, lambda: made.resync("moma.artists", spark=spark)):
        with pytest.raises(HeadraceError) as raised:
            refuse()
        said = text_of(raised.value)
        assert "checkpoint" in said
        assert SECRET not in said
