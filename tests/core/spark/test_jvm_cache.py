"""What of the JVM is looked up once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import REFL_GET_UNKNOWN_SUB_COMMAND_NAME, REFLECTION_COMMAND_NAME

from headrace.spark.sessions import clone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_batch_does_not_ask_for_the_class_of_sessions(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark makes a session of each batch, by its class: on Spark 4 it has another name."""
    client: Any = spark._jvm._gateway_client  # type: ignore[union-attr]
    asked, send = [], client.send_command

    def note(command: str, *arguments: Any, **named: Any) -> Any:
        asked.append(command)
        return send(command, *arguments, **named)

    monkeypatch.setattr(client, "send_command", note)
    clone(spark, {})
    lookups = [one for one in asked if one.startswith(REFLECTION_COMMAND_NAME + REFL_GET_UNKNOWN_SUB_COMMAND_NAME)]
    assert asked
    assert not [one for one in lookups if "SparkSession" in one]
