"""Credential rotation in a running pipeline.

After a failed authentication, the run re-resolves its secrets and continues from the same offset.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.ranged import LinesConfig, LinesSource, append
from tests.support.tiers import nightly_after
from tests.support.waiting import stop_at_end, until

from headrace import ConfigError, Pipeline, RetriableError
from headrace.config.renewal import Renewal
from headrace.engine.run import catch_up, credential_rotation
from headrace.errors import LoginError
from headrace.sdk.sink import Batch, Table, WriteResult
from headrace.sdk.source import Offset
from headrace_sinks.files import FilesSink
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_transforms.mask import Mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

GOOD, BAD = "shop.public.orders", "shop.public.customers"


class Environment:
    """Source and sink that each accept the passwords in a file. Pipelines read their password from another file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.key = folder, folder / "log.jsonl", folder / "key"
        self.source_passwords, self.sink_passwords = folder / "source", folder / "sink"
        self.log.touch()
        self.rotate("first", self.key, self.source_passwords, self.sink_passwords)
        self.renewals, self.secrets_are_unavailable, self.opened = 0, False, list[str]()
        self.is_always_new = False

    @staticmethod
    def rotate(password: str, *files: Path) -> None:
        for file in files:
            file.write_text(password)

    def add(self, number: int) -> None:
        for topic in (GOOD, BAD):
            append(self.log, [number], topic)

    def pipeline(self, password: str | None = None) -> Pipeline:
        """Return a pipeline with the password in the key file, or with a fixed password and no renewal."""
        key = password or self.key.read_text()
        return Pipeline(
            "shop",
            AuthenticatedLines(self, key),
            [AuthenticatedSink(self, key)],
            str(self.folder / "checkpoint"),
            transforms=[Mask({"columns": {"item": {"sha256": {"salt": key * 4}}}})],
            value=JsonFormat(),
            renewal=None if password else Renewal(["${file:key}"], self._renew(key)),
        )

    def _renew(self, key: str) -> Callable[[], Pipeline | None]:
        current = [key]

        def build() -> Pipeline | None:
            self.renewals += 1
            if self.secrets_are_unavailable:
                raise ConfigError("the keeper of secrets is away")
            if self.is_always_new:
                self.key.write_text(f"key{self.renewals}")
            if self.key.read_text() == current[0]:
                return None
            current[0] = self.key.read_text()
            return self.pipeline()

        return build

    def rows(self, topic: str) -> list[dict[str, Any]]:
        files = (self.folder / "out" / topic.replace(".", "/")).glob("_headrace_batch=*/*.json")
        try:
            rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        except FileNotFoundError:  # A repeated batch replaces its folder.
            return []
        return sorted(rows, key=lambda row: row["id"])

    def ids(self) -> list[list[int]]:
        return [[row["id"] for row in self.rows(topic)] for topic in (GOOD, BAD)]

    def both(self, *numbers: int) -> bool:
        return self.ids() == [list(numbers)] * 2


class AuthenticatedLines(LinesSource):
    """Source that requires a password from the file of accepted ones."""

    name = "locked-lines"

    def __init__(self, environment: Environment, password: str) -> None:
        super().__init__(LinesConfig(path=str(environment.log)))
        self.environment, self.password, self.is_open = environment, password, False

    def open(self, spark: SparkSession) -> None:
        self.is_open = True
        self.environment.opened.append(self.password)

    def latest(self, start: Offset, limit: int | None) -> Offset:
        assert self.is_open
        self._authenticate()
        return super().latest(start, limit)

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        assert self.is_open
        return super().read(spark, start, end)

    def replay_range(self, context: Any, topics: Any) -> Any:
        assert self.is_open
        return super().replay_range(context, topics)

    def _authenticate(self) -> None:
        if self.password not in self.environment.source_passwords.read_text().split():
            raise LoginError("the lines let nobody in", fix="correct the password")


class AuthenticatedSink(FilesSink):
    """Sink that requires a password for one of its tables."""

    name = "locked-files"

    def __init__(self, environment: Environment, password: str) -> None:
        super().__init__(path=str(environment.folder / "out"), mode="append")
        self.environment, self.password = environment, password

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if table.name == BAD and self.password not in self.environment.sink_passwords.read_text().split():
            raise LoginError("the table lets nobody in", fix="correct the password")
        return super().write(table, rows, batch)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    for module in (credential_rotation, catch_up):
        monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.05)
        monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.1)
    return Environment(tmp_path)


@pytest.mark.nightly
def test_source_continues_from_its_offset_after_failed_authentication(
    environment: Environment, spark: SparkSession
) -> None:
    pipeline = environment.pipeline()
    with stop_at_end(pipeline.start(spark, "50 ms")) as query:
        environment.add(1)
        until(lambda: environment.both(1), "the first row")
        environment.rotate("second", environment.source_passwords, environment.sink_passwords)
        environment.add(2)
        until(lambda: environment.renewals > 3, "several renewals")
        assert query.is_active
        assert "retrying: the lines let nobody in" in query.status.message
        environment.rotate("second", environment.key)
        until(lambda: environment.both(1, 2), "the second row")
        environment.rotate("third", environment.key, environment.source_passwords, environment.sink_passwords)
        environment.add(3)
        until(lambda: environment.both(1, 2, 3), "the third row")
        until(lambda: query.status.error is None, "the end of the error")
    assert query.exception is None
    assert environment.opened == ["first", "second", "third"]


@pytest.mark.nightly
def test_salt_does_not_change_during_a_run(environment: Environment, spark: SparkSession) -> None:
    with stop_at_end(environment.pipeline().start(spark, "50 ms")):
        environment.add(1)
        until(lambda: environment.both(1), "the first row")
        environment.rotate("second", environment.key, environment.source_passwords, environment.sink_passwords)
        append(environment.log, [1], GOOD)
        until(lambda: environment.ids()[0] == [1, 1], "the same row again")
    assert len({row["item"] for row in environment.rows(GOOD)}) == 1


@pytest.mark.nightly
def test_failed_table_repeats_its_batch_with_new_credentials(environment: Environment, spark: SparkSession) -> None:
    with stop_at_end(environment.pipeline().start(spark, "50 ms")) as query:
        environment.add(1)
        until(lambda: environment.both(1), "the first row")
        environment.rotate("first second", environment.source_passwords)
        environment.rotate("second", environment.key, environment.sink_passwords)
        environment.add(2)
        until(lambda: environment.both(1, 2), "the second row")
        environment.add(3)
        until(lambda: environment.both(1, 2, 3), "the third row")
        assert not (environment.folder / "checkpoint/backlog").exists() or not list(
            (environment.folder / "checkpoint/backlog").iterdir()
        )
    assert query.exception is None


def test_tables_continue_while_one_waits_for_credentials(environment: Environment, spark: SparkSession) -> None:
    with stop_at_end(environment.pipeline().start(spark, "50 ms")) as query:
        environment.add(1)
        until(lambda: environment.both(1), "the first row")
        environment.rotate("first second", environment.source_passwords)
        environment.rotate("second", environment.sink_passwords)
        environment.add(2)
        environment.add(3)
        until(lambda: environment.ids() == [[1, 2, 3], [1]], "the other table")
        environment.rotate("second", environment.key)
        until(lambda: environment.both(1, 2, 3), "the table whose credentials were rejected")
        environment.rotate(
            "second", environment.source_passwords
        )  # until then, the source continues with the previous password
        environment.add(4)
        until(lambda: environment.both(1, 2, 3, 4), "both tables")
    assert query.exception is None


@pytest.mark.nightly
def test_run_fails_if_the_secrets_stay_unchanged(
    environment: Environment, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credential_rotation, "PATIENCE_SECONDS", 0.5)
    query = environment.pipeline().start(spark, "50 ms")
    environment.add(1)
    until(lambda: environment.both(1), "the first row")
    environment.source_passwords.write_text("second")
    with pytest.raises(LoginError) as caught:
        query.await_termination(60)
    same = "${file:key} resolved to the same rejected credentials again"
    assert str(caught.value) == f"source locked-lines: the lines let nobody in\n  fix: correct the password; {same}"
    assert environment.renewals > 2
    assert not query.is_active


@pytest.mark.parametrize("place", nightly_after(1, ["source", "sink"]))
def test_run_fails_if_it_rejects_secrets_that_are_always_new(
    environment: Environment, spark: SparkSession, place: str
) -> None:
    environment.is_always_new = True
    environment.add(1)
    if place == "source":
        environment.source_passwords.write_text("second")
        with pytest.raises(LoginError, match="other credentials 3 times in a row, and all of them were rejected"):
            environment.pipeline().run(spark)
    else:
        environment.rotate("first " + " ".join(f"key{n}" for n in range(20)), environment.source_passwords)
        environment.sink_passwords.write_text("second")
        with pytest.raises(LoginError, match="the table lets nobody in"):
            environment.pipeline().run(spark)
    assert environment.renewals < 12


@pytest.mark.nightly
def test_secret_provider_may_be_temporarily_unavailable(
    environment: Environment, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stop_at_end(environment.pipeline().start(spark, "50 ms")) as query:
        environment.add(1)
        until(lambda: environment.both(1), "the first row")
        environment.secrets_are_unavailable = True
        environment.rotate("second", environment.key, environment.source_passwords, environment.sink_passwords)
        environment.add(2)
        until(lambda: environment.renewals > 2, "renewals")
        environment.secrets_are_unavailable = False
        until(lambda: environment.both(1, 2), "the second row")
        monkeypatch.setattr(credential_rotation, "PATIENCE_SECONDS", 0.2)
        environment.secrets_are_unavailable = True
        environment.source_passwords.write_text("third")
        with pytest.raises(LoginError, match="the secrets could not be resolved again: the keeper of secrets is away"):
            query.await_termination(60)


@pytest.mark.nightly
def test_stopped_run_does_not_wait_for_credentials(environment: Environment, spark: SparkSession) -> None:
    query = environment.pipeline().start(spark, "50 ms")
    environment.add(1)
    until(lambda: environment.both(1), "the first row")
    environment.source_passwords.write_text("second")
    until(lambda: environment.renewals > 1, "renewals")
    began = time.monotonic()
    query.stop()
    assert time.monotonic() - began < credential_rotation.PATIENCE_SECONDS / 2
    assert query.exception is None


@pytest.mark.nightly
def test_finite_run_resolves_secrets_once(environment: Environment, spark: SparkSession) -> None:
    pipeline = environment.pipeline()
    environment.add(1)
    environment.rotate("second", environment.key, environment.source_passwords, environment.sink_passwords)
    pipeline.run(spark)
    assert environment.both(1)
    environment.rotate("third", environment.source_passwords)
    environment.renewals = 0
    with pytest.raises(LoginError, match="resolved to the same rejected credentials"):
        pipeline.run(spark)
    assert environment.renewals == 1


@pytest.mark.nightly
def test_pipeline_without_references_fails_immediately(environment: Environment, spark: SparkSession) -> None:
    environment.add(1)
    environment.source_passwords.write_text("second")
    with pytest.raises(ConfigError) as caught:
        environment.pipeline("first").start(spark, "50 ms").await_termination(60)
    assert str(caught.value) == "source locked-lines: the lines let nobody in\n  fix: correct the password"
    assert caught.value.exit_code == 2
    assert not isinstance(caught.value, RetriableError)
    assert environment.renewals == 0
