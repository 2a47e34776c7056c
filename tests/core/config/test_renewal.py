"""Renewal of a pipeline whose secret references have new values."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from headrace import ConfigError, HeadraceError, Pipeline
from headrace.secret_cache import CACHE_SECONDS, clear_cache, fetch_cached

#: These calls do not use the session.
NO_SESSION = cast("Any", None)


def pipeline(folder: Path, **overrides: Any) -> Pipeline:
    sink = {"path": f"{folder}/lake", "mode": "append", "compression": "${file:" + str(folder / "codec") + "}"}
    salt = {"salt": "${file:" + str(folder / "salt") + "}"}
    return Pipeline.from_dict(
        {
            "name": "orders",
            "source": {"files": {"path": "${file:" + str(folder / "path") + "}", "format": "json"}},
            "transforms": [{"mask": {"columns": {"name": {"sha256": salt}}}}],
            "sinks": [{"files": sink}, {"console": {}}],
            "checkpoint": f"{folder}/checkpoint",
            **overrides,
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, value in {"path": "first-path", "codec": "gzip", "salt": "a-long-salt-of-the-first"}.items():
        (tmp_path / name).write_text(value)
    return tmp_path


def test_renewal_replaces_credentials_and_keeps_other_values(folder: Path) -> None:
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


def test_unresolvable_reference_is_reported(folder: Path) -> None:
    built = pipeline(folder)
    (folder / "path").unlink()
    with pytest.raises(ConfigError, match=r"\$\{file:.*path\}: the file .* cannot be read"):
        built.current_plan.rotate(built.plan, NO_SESSION)
    (folder / "path").write_text("second-path")
    assert built.current_plan.rotate(built.plan, NO_SESSION)


def test_failed_rebuild_is_repeated(folder: Path) -> None:
    (folder / "format").write_text("json")
    built = pipeline(folder, source={"files": {"path": "in", "format": f"${{file:{folder}/format}}"}})
    (folder / "format").write_text("unknown")
    for _ in range(2):
        with pytest.raises(HeadraceError):
            built.current_plan.rotate(built.plan, NO_SESSION)
    (folder / "format").write_text("avro")
    assert built.current_plan.rotate(built.plan, NO_SESSION)


def test_pipeline_without_references_has_no_renewal(folder: Path) -> None:
    source = {"files": {"path": "in", "format": "json"}}
    built = pipeline(folder, source=source, transforms=[], sinks=[{"console": {}}], checkpoint="$${not a reference}")
    assert built.renewal is None
    assert not built.current_plan.rotate(built.plan, NO_SESSION)


def test_references_are_listed_as_written(folder: Path) -> None:
    built = pipeline(folder)
    assert built.renewal
    assert built.renewal.references == [f"${{file:{folder}/{name}}}" for name in ("codec", "path", "salt")]


def test_fetched_secrets_are_cached_until_authentication_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_cache()
    values = iter(["first", "second", "third"])
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def fetch() -> str:
        return fetch_cached("test:one", lambda: next(values))

    assert [fetch(), fetch()] == ["first", "first"]
    now[0] += CACHE_SECONDS
    assert fetch() == "second"
    clear_cache()
    assert [fetch(), fetch()] == ["third", "third"]
    clear_cache()
