"""New credentials of a run: how often it takes them, and how long it waits for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.ranged import LinesConfig, LinesSource

from headrace import FatalError, HeadraceError, Pipeline, RetriableError
from headrace.config.renewal import Renewal
from headrace.engine.run.credential_rotation import wait_for_rotated_credentials
from headrace.engine.run.current_plan import MAX_ROTATIONS, CurrentPlan
from headrace.errors import LoginError

#: These calls do not use the session.
NO_SESSION = cast("Any", None)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "codec").write_text("first")
    sink = {"path": f"{tmp_path}/lake", "mode": "append", "compression": f"${{file:{tmp_path}/codec}}"}
    source = {"files": {"path": f"{tmp_path}/in", "format": "json"}}
    return Pipeline.from_dict(
        {"name": "orders", "source": source, "sink": {"files": sink}, "checkpoint": f"{tmp_path}/checkpoint"}
    )


def find_end(current: CurrentPlan, wait: Callable[[float], bool], *, is_patient: bool = True) -> HeadraceError | None:
    refused = LoginError("authentication failed", where="source x", fix="correct the password")
    return wait_for_rotated_credentials(current, current.plan, NO_SESSION, refused, wait, is_patient=is_patient)


@pytest.mark.parametrize("is_patient", [True, False])
def test_secret_that_is_new_at_each_lookup_does_not_repeat_a_batch_forever(
    tmp_path: Path, pipeline: Pipeline, is_patient: bool
) -> None:
    def reject(value: str) -> HeadraceError | None:
        (tmp_path / "codec").write_text(value)
        return find_end(pipeline.current_plan, lambda _: pytest.fail("no wait"), is_patient=is_patient)

    for turn in ("second", "third"):
        assert [reject(f"{turn}-{number}") for number in range(MAX_ROTATIONS)] == [None] * MAX_ROTATIONS
        assert str(reject("another")) == (
            "source x: authentication failed\n  fix: correct the password; "
            f"${{file:{tmp_path}/codec}} resolved to other credentials 3 times in a row, and all of them were rejected"
        )
        (tmp_path / "codec").write_text("for a retry of a single table")
        assert pipeline.current_plan.rotate(pipeline.plan, NO_SESSION)
        pipeline.current_plan.note_accepted()


def test_new_value_of_the_session_ends_the_run_for_a_restart(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("first")
    source = {"files": {"path": f"{tmp_path}/in", "format": "json"}}
    pipeline = Pipeline.from_dict(
        {
            "name": "orders",
            "source": source,
            "sink": {"files": {"path": f"{tmp_path}/lake"}},
            "spark": {"spark.hadoop.fs.x.secret.key": f"${{file:{tmp_path}/key}}"},
            "checkpoint": f"{tmp_path}/checkpoint",
        }
    )
    (tmp_path / "key").write_text("second")
    assert (
        find_end(pipeline.current_plan, lambda _: pytest.fail("no wait")) is None
    )  # The source may have a new value, too.
    error = find_end(pipeline.current_plan, lambda _: pytest.fail("no wait"))
    assert isinstance(error, FatalError)
    assert str(error) == (
        "source x: authentication failed; the values of `spark:` have changed since the session started, which keeps the old ones\n"
        "  fix: start the run again: nothing is lost"
    )


@pytest.mark.parametrize("is_patient", [True, False])
def test_busy_secret_store_does_not_reject_a_login(
    pipeline: Pipeline, is_patient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("headrace.engine.run.credential_rotation.time.monotonic", lambda: now[0])

    def wait(seconds: float) -> bool:
        now[0] += seconds
        return now[0] > 3600

    def build() -> Any:
        raise RetriableError("the secret store throttles", fix="retry later")

    error = find_end(
        CurrentPlan(replace(pipeline.plan, renewal=Renewal(["${file:x}"], build))), wait, is_patient=is_patient
    )
    assert type(error) is RetriableError
    assert str(error) == (
        "source x: authentication failed, and the secrets could not be resolved again: the secret store throttles\n"
        "  fix: retry later"
    )
    assert (now[0] > 3600) is is_patient, "a continuous run waits until it is stopped"


class BusySource(LinesSource):
    """Source that cannot be opened at the first attempt."""

    attempts = 0

    def open(self, spark: Any) -> None:
        self.attempts += 1
        if self.attempts == 1:
            raise RetriableError("the source is busy")


def test_source_that_cannot_be_opened_with_new_credentials_is_opened_again(tmp_path: Path, pipeline: Pipeline) -> None:
    source = BusySource(LinesConfig(path=str(tmp_path / "log.jsonl")))
    builds = iter([SimpleNamespace(source=source, plan=pipeline.plan), None])
    current = CurrentPlan(replace(pipeline.plan, renewal=Renewal(["${file:x}"], lambda: next(builds))))
    used = current.plan
    with pytest.raises(RetriableError):
        current.rotate(used, NO_SESSION)
    assert current.plan is used
    assert current.rotate(used, NO_SESSION)
    assert current.plan is not used
    assert source.attempts == 2
