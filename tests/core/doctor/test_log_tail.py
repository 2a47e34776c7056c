"""Lines of a log that are safe to show."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.doctor.log_tail import LINES, read_tail
from headrace.errors import ConfigError

SECRET = "Frida Kahlo"  # a value of a row


def test_foreign_lines_have_only_their_form(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        f"{SECRET}\n{SECRET}\n"
        '{"pipeline": "shop", "batch": 1}\n'
        "2026-11-30T10:00:00.123Z retrying: the broker does not respond\n"
        f"Traceback (most recent call last):\n  File \"/srv/app.py\", line 7, in main\n    name = '{SECRET}'\n"
        f"acme.errors.ReadError: {SECRET}\n"
        f"26/11/30 10:00:01 ERROR Executor: Exception in task: {SECRET}\n"
        f"org.apache.spark.SparkException: {SECRET}\n"
        "\tat org.apache.spark.Row.get(Row.scala:31)\n\t... 12 more\n"
        f"{SECRET}\n"
    )
    assert read_tail(str(log)) == [
        "[other lines: 2]",
        '{"pipeline": "shop", "batch": 1}',
        "2026-11-30T10:00:00.123Z retrying: the broker does not respond",
        "Traceback (most recent call last):",
        '  File "/srv/app.py", line 7, in main',
        "[other lines: 1]",
        "acme.errors.ReadError",
        "26/11/30 10:00:01 ERROR Executor",
        "org.apache.spark.SparkException",
        "\tat org.apache.spark.Row.get(Row.scala:31)",
        "\t... 12 more",
        "[other lines: 1]",
    ]


def test_only_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("".join(f"2026-11-30T10:00:00Z line {n}\n" for n in range(LINES + 5)))
    assert read_tail(str(log))[0] == "2026-11-30T10:00:00Z line 5"
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_tail(str(tmp_path / "none.log"))
