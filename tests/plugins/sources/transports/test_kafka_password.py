"""Password change at the broker while pipelines run, and in the file that holds the password."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.core.conftest import start
from tests.plugins.sources.transports.test_kafka_source import change
from tests.support import pipelines
from tests.support.waiting import until

from headrace import ConfigError, Pipeline
from headrace.engine.run import credential_rotation
from headrace_stack.servers.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Login:
    """User of the broker, with a topic and a password file."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        name = uuid.uuid4().hex[:8]
        self.kafka, self.folder, self.user, self.topic = kafka, folder, f"u{name}", f"shop.public.t{name}"
        self.file, self.passwords = folder / "password", list[str]()

    @property
    def reference(self) -> str:
        return f"${{file:{self.file}}}"

    def change(self, *, in_file: bool = True) -> None:
        """Set a new password at the broker, and by default in the file too."""
        self.passwords.append(f"canary-{uuid.uuid4().hex}")
        self.kafka.change_password(self.user, self.passwords[-1])
        if in_file:
            self.write()

    def write(self) -> None:
        self.file.write_text(self.passwords[-1])

    def produce(self, number: int) -> None:
        self.kafka.produce(self.topic, change("c", number, f"row {number}", lsn=number))

    def config(self, password: str | None = None, **changed: Any) -> dict[str, Any]:
        """Return the pipeline file. Each record becomes a row, so that skipped and repeated records are visible."""
        source = {
            "bootstrap.servers": self.kafka.sasl.bootstrap_servers,
            "subscribe": self.topic,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": f'{MODULE} required username="{self.user}" password="{password or self.reference}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.kafka.sasl.ca),
        }
        return {
            "name": "orders",
            "source": {"kafka": source, "value": {"json": {}}},
            "transforms": [{"unwrap": {}}],
            "sinks": [pipelines.sink_block("iceberg", self.folder, mode="changelog")],
            "checkpoint": str(self.folder / "checkpoint"),
            **changed,
        }

    def ids(self, spark: SparkSession) -> list[int]:
        pipeline = Pipeline.from_dict(self.config())
        return [row["id"] for row in pipelines.rows(pipeline, spark, self.topic, key="id")]


@pytest.fixture
def login(kafka: Kafka, tmp_path: Path) -> Login:
    login = Login(kafka, tmp_path)
    login.change()
    login.produce(1)
    return login


@pytest.mark.nightly
def test_program_uses_new_password_and_logs_no_password(login: Login, spark: SparkSession) -> None:
    file, log = login.folder / "orders.yaml", login.folder / "log"
    settings = {"spark.master": "local[2]", "spark.log.level": "INFO", "spark.driver.memory": "1g"}
    file.write_text(yaml.safe_dump(login.config(spark=settings, trigger="200 ms")))

    def wait_for(text: str, times: int = 1) -> None:
        until(lambda: log.read_text().count(text) >= times or process.poll() is not None, text)
        assert process.poll() is None, log.read_text()[-3000:]

    with log.open("w") as output:
        options = {"stdout": output, "stderr": output, "start_new_session": True}
        process = start(login.folder, "run", str(file), "--log-format", "text", **options)
        try:
            wait_for("orders batch 0 ")
            login.change(in_file=False)
            login.produce(2)
            wait_for("authentication failed")
            login.write()
            wait_for("orders batch 1 ", times=2)  # the first occurrence explains why the batch has no rows
            wait_for("the source answers again")
            login.change()
            login.produce(3)
            wait_for("orders batch 2 ")
            # An authentication that is in progress during the password change fails once more.
            until(lambda: login.ids(spark) == [1, 2, 3] or process.poll() is not None, "the row after the change")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)
    assert login.ids(spark) == [1, 2, 3]
    assert " INFO " in log.read_text()
    output_files = [path for path in (log, *(login.folder / "checkpoint").rglob("*")) if path.is_file()]
    assert len(login.passwords) == 3
    assert not [path for path in output_files for password in login.passwords if password.encode() in path.read_bytes()]


@pytest.mark.nightly
def test_wrong_password_ends_the_run_and_error_names_its_reference(
    login: Login, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credential_rotation, "PATIENCE_SECONDS", 2.0)
    query = Pipeline.from_dict(login.config()).start(spark, "200 ms")
    until(lambda: query.last_progress, "the first batch")
    login.change(in_file=False)
    login.produce(2)
    with pytest.raises(ConfigError, match="authentication failed") as caught:
        query.await_termination(120)
    assert caught.value.exit_code == 2
    assert f"{login.reference} resolved to the same rejected credentials again" in str(caught.value.fix)
    assert not [password for password in login.passwords if password in str(caught.value)]
    assert login.ids(spark) == [1]
    # The next run reads the file again, even for a pipeline that was built earlier.
    login.write()
    Pipeline.from_dict(login.config()).run(spark)
    assert login.ids(spark) == [1, 2]


@pytest.mark.nightly
def test_second_run_of_a_pipeline_reads_the_new_password(login: Login, spark: SparkSession) -> None:
    pipeline = Pipeline.from_dict(login.config())
    pipeline.run(spark)
    login.change()
    login.produce(2)
    pipeline.run(spark)
    assert login.ids(spark) == [1, 2]


@pytest.mark.nightly
def test_literal_password_is_not_resolved_again(login: Login, spark: SparkSession) -> None:
    pipeline = Pipeline.from_dict(login.config(password=login.passwords[0]))
    query = pipeline.start(spark, "200 ms")
    until(lambda: query.last_progress, "the first batch")
    login.change()
    login.produce(2)
    started = time.monotonic()
    with pytest.raises(ConfigError, match="authentication failed") as caught:
        query.await_termination(120)
    assert time.monotonic() - started < credential_rotation.PATIENCE_SECONDS
    assert "asked again" not in str(caught.value)
