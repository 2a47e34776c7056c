"""Logins that are refused in mid-run: the references behind them are asked again, and the run goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.ranged import LinesConfig, LinesSource, append
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


class House:
    """Lines and a folder of tables, each with a file of the passwords that it takes; pipelines have theirs from another file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.key = folder, folder / "log.jsonl", folder / "key"
        self.source_door, self.sink_door = folder / "source", folder / "sink"
        self.log.touch()
        self.rotate("first", self.key, self.source_door, self.sink_door)
        self.asked, self.keeper_is_away, self.opened = 0, False, list[str]()

    @staticmethod
    def rotate(password: str, *places: Path) -> None:
        for place in places:
            place.write_text(password)

    def add(self, number: int) -> None:
        for topic in (GOOD, BAD):
            append(self.log, [number], topic)

    def pipeline(self, password: str | None = None) -> Pipeline:
        """As the key says, or the password; whoever has no key is no different from it, and asks nobody."""
        key = password or self.key.read_text()
        return Pipeline(
            "shop",
            LockedLines(self, key),
            [LockedSink(self, key)],
            str(self.folder / "checkpoint"),
            transforms=[Mask({"columns": {"item": {"sha256": {"salt": key * 4}}}})],
            value=JsonFormat(),
            renewal=None if password else Renewal(["${file:key}"], self._renew(key)),
        )

    def _renew(self, key: str) -> Callable[[], Pipeline | None]:
        known = [key]

        def build() -> Pipeline | None:
            self.asked += 1
            if self.keeper_is_away:
                raise ConfigError("the keeper of secrets is away")
            if self.key.read_text() == known[0]:
                return None
            known[0] = self.key.read_text()
            return self.pipeline()

        return build

    def rows(self, topic: str) -> list[dict[str, Any]]:
        files = (self.folder / "out" / topic.replace(".", "/")).glob("_headrace_batch=*/*.json")
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted(rows, key=lambda row: row["id"])

    def ids(self) -> list[list[int]]:
        return [[row["id"] for row in self.rows(topic)] for topic in (GOOD, BAD)]

    def both(self, *numbers: int) -> bool:
        return self.ids() == [list(numbers)] * 2


class LockedLines(LinesSource):
    """Lets in who has the password of its door."""

    name = "locked-lines"

    def __init__(self, house: House, password: str) -> None:
        super().__init__(LinesConfig(path=str(house.log)))
        self.house, self.password, self.is_open = house, password, False

    def open(self, spark: SparkSession) -> None:
        self.is_open = True
        self.house.opened.append(self.password)

    def latest(self, start: Offset, limit: int | None) -> Offset:
        assert self.is_open
        self._enter()
        return super().latest(start, limit)

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        assert self.is_open
        return super().read(spark, start, end)

    def replay_range(self, context: Any, topics: Any) -> Any:
        assert self.is_open
        return super().replay_range(context, topics)

    def _enter(self) -> None:
        if self.password not in self.house.source_door.read_text().split():
            raise LoginError("the lines let nobody in", fix="correct the password")


class LockedSink(FilesSink):
    """A door before one of its tables."""

    name = "locked-files"

    def __init__(self, house: House, password: str) -> None:
        super().__init__(path=str(house.folder / "out"), mode="append")
        self.house, self.password = house, password

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if table.name == BAD and self.password not in self.house.sink_door.read_text().split():
            raise LoginError("the table lets nobody in", fix="correct the password")
        return super().write(table, rows, batch)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    for module in (credential_rotation, catch_up):
        monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.05)
        monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.1)
    return House(tmp_path)


def test_a_source_that_is_refused_goes_on_where_it_was(house: House, spark: SparkSession) -> None:
    pipeline = house.pipeline()
    with stop_at_end(pipeline.start(spark, "50 ms")) as query:
        house.add(1)
        until(lambda: house.both(1), "the first row")
        house.rotate("second", house.source_door, house.sink_door)
        house.add(2)
        until(lambda: house.asked > 3, "several questions")
        assert query.is_active
        assert "retrying: the lines let nobody in" in query.status.message
        house.rotate("second", house.key)
        until(lambda: house.both(1, 2), "the second row")
        house.rotate("third", house.key, house.source_door, house.sink_door)
        house.add(3)
        until(lambda: house.both(1, 2, 3), "the third row")
        until(lambda: query.status.error is None, "the end of the trouble")
    assert query.exception is None
    assert house.opened == ["first", "second", "third"]


@pytest.mark.nightly
def test_a_salt_stays_as_it_was_when_the_run_began(house: House, spark: SparkSession) -> None:
    with stop_at_end(house.pipeline().start(spark, "50 ms")):
        house.add(1)
        until(lambda: house.both(1), "the first row")
        house.rotate("second", house.key, house.source_door, house.sink_door)
        append(house.log, [1], GOOD)
        until(lambda: house.ids()[0] == [1, 1], "the same row once more")
    assert len({row["item"] for row in house.rows(GOOD)}) == 1


def test_a_table_that_is_refused_has_its_batch_again_with_the_new_login(house: House, spark: SparkSession) -> None:
    with stop_at_end(house.pipeline().start(spark, "50 ms")) as query:
        house.add(1)
        until(lambda: house.both(1), "the first row")
        house.rotate("first second", house.source_door)
        house.rotate("second", house.key, house.sink_door)
        house.add(2)
        until(lambda: house.both(1, 2), "the second row")
        house.add(3)
        until(lambda: house.both(1, 2, 3), "the third row")
        assert not (house.folder / "checkpoint/backlog").exists() or not list(
            (house.folder / "checkpoint/backlog").iterdir()
        )
    assert query.exception is None


def test_a_table_waits_alone_for_its_login_and_the_others_go_on(house: House, spark: SparkSession) -> None:
    with stop_at_end(house.pipeline().start(spark, "50 ms")) as query:
        house.add(1)
        until(lambda: house.both(1), "the first row")
        house.rotate("first second", house.source_door)
        house.rotate("second", house.sink_door)
        house.add(2)
        house.add(3)
        until(lambda: house.ids() == [[1, 2, 3], [1]], "the other table")
        house.rotate("second", house.key)
        until(lambda: house.both(1, 2, 3), "the table that was refused")
        house.rotate("second", house.source_door)  # the source itself goes on with what it had until then
        house.add(4)
        until(lambda: house.both(1, 2, 3, 4), "both tables")
    assert query.exception is None


def test_it_ends_when_the_references_say_the_same_for_long(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credential_rotation, "PATIENCE_SECONDS", 0.5)
    query = house.pipeline().start(spark, "50 ms")
    house.add(1)
    until(lambda: house.both(1), "the first row")
    house.source_door.write_text("second")
    with pytest.raises(LoginError) as caught:
        query.await_termination(60)
    same = "${file:key} resolved to the same rejected credentials again"
    assert str(caught.value) == f"source locked-lines: the lines let nobody in\n  fix: correct the password; {same}"
    assert house.asked > 2
    assert not query.is_active


@pytest.mark.nightly
def test_who_keeps_the_secrets_may_be_away_for_a_while(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stop_at_end(house.pipeline().start(spark, "50 ms")) as query:
        house.add(1)
        until(lambda: house.both(1), "the first row")
        house.keeper_is_away = True
        house.rotate("second", house.key, house.source_door, house.sink_door)
        house.add(2)
        until(lambda: house.asked > 2, "questions")
        house.keeper_is_away = False
        until(lambda: house.both(1, 2), "the second row")
        monkeypatch.setattr(credential_rotation, "PATIENCE_SECONDS", 0.2)
        house.keeper_is_away = True
        house.source_door.write_text("third")
        with pytest.raises(LoginError, match="the secrets could not be resolved again: the keeper of secrets is away"):
            query.await_termination(60)


def test_a_run_that_is_told_to_end_does_not_wait(house: House, spark: SparkSession) -> None:
    query = house.pipeline().start(spark, "50 ms")
    house.add(1)
    until(lambda: house.both(1), "the first row")
    house.source_door.write_text("second")
    until(lambda: house.asked > 1, "questions")
    began = time.monotonic()
    query.stop()
    assert time.monotonic() - began < credential_rotation.PATIENCE_SECONDS / 2
    assert query.exception is None


@pytest.mark.nightly
def test_a_run_to_an_end_asks_once(house: House, spark: SparkSession) -> None:
    pipeline = house.pipeline()
    house.add(1)
    house.rotate("second", house.key, house.source_door, house.sink_door)
    pipeline.run(spark)
    assert house.both(1)
    house.rotate("third", house.source_door)
    house.asked = 0
    with pytest.raises(LoginError, match="resolved to the same rejected credentials"):
        pipeline.run(spark)
    assert house.asked == 1


@pytest.mark.nightly
def test_without_references_a_refusal_is_what_it_was(house: House, spark: SparkSession) -> None:
    house.add(1)
    house.source_door.write_text("second")
    with pytest.raises(ConfigError) as caught:
        house.pipeline("first").start(spark, "50 ms").await_termination(60)
    assert str(caught.value) == "source locked-lines: the lines let nobody in\n  fix: correct the password"
    assert caught.value.exit_code == 2
    assert not isinstance(caught.value, RetriableError)
    assert house.asked == 0
