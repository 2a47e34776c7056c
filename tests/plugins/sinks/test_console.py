from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace import ConfigError
from headrace.sdk.sink import Table
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.console import ConsoleSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def test_rows_are_printed(sessions: Sessions, capsys: pytest.CaptureFixture[str]) -> None:
    target = Target(ConsoleSink(numRows=2, truncate=False), sessions.of("one"), name="moma.artists")
    written = target.write("id int, name string", put(1, 1, "a" * 30), remove(2, 2, "b"), put(3, 3, "c"))
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == "moma.artists, batch 0: 3 rows"
    assert "a" * 30 in printed
    assert "only showing top 2 rows" in printed
    assert "_headrace_position" not in printed
    assert written.upserted == 2


def test_control_characters_of_records_are_escaped(sessions: Sessions, capsys: pytest.CaptureFixture[str]) -> None:
    target = Target(ConsoleSink(truncate=False), sessions.of("one"), name="moma.art\x1bists")
    target.write("id int, `na\x1bme` string", put(1, 1, "\x1b]0;T\x07\x1b[2J\x9b31m\u202e\u2028end"))
    printed = capsys.readouterr().out
    assert not [c for c in printed if not c.isprintable() and c != "\n"]
    assert r"\x1b[2J\x9b31m\u202e\u2028end" in printed
    assert printed.startswith(r"moma.art\x1bists, batch 0: 1 rows")


def test_console_sink_stores_nothing(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="does not store rows"):
        ConsoleSink().read_back(spark, Table("moma.artists"))
