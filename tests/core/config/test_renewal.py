"""A pipeline that is built again, because its references say something else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from headrace import ConfigError, Pipeline
from headrace.sdk.secrets import CACHE_SECONDS, clear_cache, fetch_cached

#: Nothing that is asked here needs a session.
NO_SESSION = cast("Any", None)


def pipeline(folder: Path, **changed: Any) -> Pipeline:
    sink = {"path": f"{folder}/lake", "mode": "append", "compression": "${file:" + str(folder / "codec") + "}"}
    salt = {"salt": "${file:" + str(folder / "salt") + "}"}
    return Pipeline.from_dict(
        {
            "name": "orders",
            "source": {"files": {"path": "${file:" + str(folder / "path") + "}", "format": "json"}},
            "transforms": [{"mask": {"columns": {"name": {"sha256": salt}}}}],
            "sinks": [{"files": sink}, {"console": {}}],
            "checkpoint": f"{folder}/checkpoint",
            **changed,
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, value in {"path": "first-path", "codec": "gzip", "salt": "a-long-salt-of-the-first"}.items():
        (tmp_path / name).write_text(value)
    return tmp_path


def test_what_logs_in_is_what_the_references_say_and_the_rest_stays(folder: Path) -> None:
    built = pipeline(folder)
    before = built.plan
    assert not built.current_plan.rotate(before, NO_SESSION)
    assert built.plan is before
    for name in ("path", "codec", "salt"):
        (folder / name).write_text(f"second-{name}" if name != "codec" else "snappy")
    assert built.current_plan.rotate(before, NO_SESSION)
    assert built.current_plan.rotate(before, NO_SESSION), "another thread has rotated it"
    plan = built.plan
    assert before.source.config.path == "first-path"
    assert plan.source.config.path == "second-path"
    assert plan.sinks[0].config.options()["compression"] == "snappy"
    assert plan.transforms is before.transforms
    assert not built.current_plan.rotate(plan, NO_SESSION)
    for secret in ("first-path", "second-path", "a-long-salt-of-the-first"):
        assert built.redact(f"was {secret}.") == plan.redact(f"was {secret}.") == "was ******."
    assert "second-path" not in repr(plan)


def test_references_that_cannot_be_resolved_any_more(folder: Path) -> None:
    built = pipeline(folder)
    (folder / "path").unlink()
    with pytest.raises(ConfigError, match=r"\$\{file:.*path\}: the file .* cannot be read"):
        built.current_plan.rotate(built.plan, NO_SESSION)
    (folder / "path").write_text("second-path")
    assert built.current_plan.rotate(built.plan, NO_SESSION)


def test_a_pipeline_without_references_asks_nobody(folder: Path) -> None:
    source = {"files": {"path": "in", "format": "json"}}
    built = pipeline(folder, source=source, transforms=[], sinks=[{"console": {}}], checkpoint="$${not a reference}")
    assert built.renewal is None
    assert not built.current_plan.rotate(built.plan, NO_SESSION)


def test_the_references_are_known_as_they_are_written(folder: Path) -> None:
    built = pipeline(folder)
    assert built.renewal
    assert built.renewal.references == [f"${{file:{folder}/{name}}}" for name in ("codec", "path", "salt")]


def test_answers_are_kept_for_minutes_and_forgotten_when_a_login_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_cache()
    answers = iter(["first", "second", "third"])
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def ask() -> str:
        return fetch_cached("test:one", lambda: next(answers))

    assert [ask(), ask()] == ["first", "first"]
    now[0] += CACHE_SECONDS
    assert ask() == "second"
    clear_cache()
    assert [ask(), ask()] == ["third", "third"]
    clear_cache()
