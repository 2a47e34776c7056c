"""Cache of lookups in the JVM, and its switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import REFL_GET_UNKNOWN_SUB_COMMAND_NAME, REFLECTION_COMMAND_NAME

from headrace.spark import tuning
from headrace.spark.sessions import clone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_new_session_does_not_look_up_its_class(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark creates a session per batch by its class, which has another name on Spark 4."""
    client: Any = spark._jvm._gateway_client  # type: ignore[union-attr]
    commands, send = [], client.send_command

    def record(command: str, *arguments: Any, **named: Any) -> Any:
        commands.append(command)
        return send(command, *arguments, **named)

    monkeypatch.setattr(client, "send_command", record)
    clone(spark, {})
    lookups = [
        line for line in commands if line.startswith(REFLECTION_COMMAND_NAME + REFL_GET_UNKNOWN_SUB_COMMAND_NAME)
    ]
    assert commands
    assert not [line for line in lookups if "SparkSession" in line]


def test_switch_turns_all_tuning_off(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[str] = []
    monkeypatch.setattr(
        "headrace.spark.tuning.lookup_cache.cache_jvm_lookups", lambda session: applied.append("lookups")
    )
    monkeypatch.setattr(
        "headrace.spark.tuning.quickack.enable_tcp_quickack", lambda session: applied.append("quickack")
    )
    monkeypatch.setenv(tuning.SWITCH, "off")
    tuning.tune_py4j(spark)
    assert applied == []
    monkeypatch.delenv(tuning.SWITCH)
    tuning.tune_py4j(spark)
    assert applied == ["lookups", "quickack"]
