"""Settings of a session that spark-submit started."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headrace.cluster.session import complete_submitted_conf, is_submitted
from headrace.runtime.session.session_builder import EXECUTOR_JAVA_OPTIONS, EXTENSIONS, REDACTION
from headrace.sdk.plugin import Plugin
from headrace.secret_values import Secret

HUGE = "-XX:-DontCompileHugeMethods"


class Lake(Plugin):
    name = "lake"

    def session_conf(self) -> dict[str, str]:
        return {EXTENSIONS: "Lake", EXECUTOR_JAVA_OPTIONS: "-Dlake", "spark.driver.extraJavaOptions": "-Dlake"}


def complete(conf: Mapping[str, str], submitted: Mapping[str, str]) -> dict[str, str]:
    made = complete_submitted_conf([Lake()], conf, submitted)
    assert "spark.driver.extraJavaOptions" not in made
    return made


def test_settings_of_the_cluster_are_kept() -> None:
    made = complete({}, {EXTENSIONS: "Own,Lake", EXECUTOR_JAVA_OPTIONS: "-Down", "spark.master": "yarn"})
    assert made[EXTENSIONS] == "Own,Lake"
    assert made[EXECUTOR_JAVA_OPTIONS] == f"-Down -Dlake {HUGE}"
    assert "spark.master" not in made


def test_file_does_not_override_the_master() -> None:
    made = complete({"spark.master": "local[2]", "spark.jars": "a.jar", "spark.executor.memory": "2g"}, {})
    assert (made["spark.executor.memory"], made[EXTENSIONS]) == ("2g", "Lake")
    assert not {"spark.master", "spark.jars"} & made.keys()


def test_secrets_are_redacted_together_with_those_of_the_cluster() -> None:
    made = complete({"spark.hadoop.fs.store.key": Secret("pepper")}, {REDACTION: "(?i)private"})
    assert made["spark.hadoop.fs.store.key"] == "pepper"
    assert made[REDACTION].startswith("(?i)private|")
    assert "store" in made[REDACTION]


@pytest.mark.parametrize("port", [None, "12345"])
def test_submitted_program_is_detected(monkeypatch: pytest.MonkeyPatch, port: str | None) -> None:
    if port:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", port)
    else:
        monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert is_submitted() == bool(port)
