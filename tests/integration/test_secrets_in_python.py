"""Secrets of a pipeline in a Spark application: no ``repr``, suggested setting, or error contains them."""

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


def format_error(error: BaseException) -> str:
    return "".join([repr(error), str(error), *traceback.format_exception(error)])


def test_pipeline_repr_has_no_secret(tmp_path: Path) -> None:
    made = pipeline(
        tmp_path,
        name="${env:CANARY}",
        checkpoint=f"{tmp_path}/${{env:CANARY}}",
        spark={"spark.hadoop.odd": "${env:CANARY}", "spark.hadoop.fs.s3a.secret.key": "plain-canary"},
        sink={"iceberg": {"warehouse": f"{tmp_path}/${{env:CANARY}}"}},
        sinks=[],
    )
    text = "".join(map(repr, (made, made.plan, made.sinks[0].config, made.plan.spark_conf)))
    assert "${env:CANARY}" in text
    assert "canary-of" not in text
    assert "plain-canary" not in text


def test_session_settings_show_references_instead_of_values(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"type": "rest", "signer": "${env:CANARY}", "token": "plain-canary"}
    made = pipeline(tmp_path, sink={"iceberg": {"catalog": "afar", "catalog.properties": properties}}, sinks=[])
    with pytest.raises(PluginError) as raised:
        made.check(spark)
    text = format_error(raised.value)
    assert '.config("spark.sql.catalog.afar.type", "rest")' in text
    assert '.config("spark.sql.catalog.afar.signer", "${env:CANARY}")' in text
    assert '.config("spark.sql.catalog.afar.token", "******")' in text
    assert "canary" not in text.replace("${env:CANARY}", "")


def test_run_errors_and_their_causes_hide_secrets(spark: SparkSession, tmp_path: Path) -> None:
    artists = Bronze(tmp_path / "bronze").topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.snapshot({"artist_id": 1, "name": "Arp", "nationality": "German"})
    artists.flush()
    (tmp_path / SECRET).write_text("a file where the folder would be")
    made = pipeline(tmp_path, sink={"iceberg": {"warehouse": f"{tmp_path}/${{env:CANARY}}"}}, sinks=[])
    query = made.start_available_now(spark)
    with pytest.raises(HeadraceError) as raised:
        query.await_termination()
    text = format_error(raised.value)
    assert "its path contains a file" in text
    assert "Traceback" in text
    assert "******" in text
    assert SECRET not in text + format_error(query.exception or raised.value) + repr(query.status)
    with pytest.raises(HeadraceError) as raised_by_read:
        made.read("moma.artists", spark=spark)
    assert SECRET not in format_error(raised_by_read.value)


def test_error_of_a_rejected_command_hides_secrets(spark: SparkSession, tmp_path: Path) -> None:
    made = pipeline(tmp_path, checkpoint=f"{tmp_path}/${{env:CANARY}}", transforms=[{"unwrap": {}}])
    with pytest.raises(HeadraceError) as raised:
        made.resync("moma.artists", spark=spark)
    text = format_error(raised.value)
    assert "checkpoint" in text
    assert SECRET not in text
