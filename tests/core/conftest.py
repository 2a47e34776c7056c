"""Fixtures that call the program in the test process or start it as a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from headrace.registry import plugin_registry
from headrace.registry.plugin_registry import PluginRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[1] / "data/msk_demo/envelope"

SAMPLE = """\
name: artists
source:
  files: {path: bronze/, format: avro}
tables:
  - {source: moma.public.artists, key: [artist_id], target: moma.artists}
transforms:
  - unwrap: {delete.tombstone.handling.mode: rewrite, add.fields: "op,source.ts_ms"}
  - rename: {columns: {nationality: country}}
  - mask: {columns: {name: {sha256: {salt: "${env:SALT}"}}}}
sink:
  iceberg: {warehouse: lake/, mode: upsert}
checkpoint: lake/_checkpoints/artists
"""

#: The JVM prints this warning because Spark 4 starts it with this module. No option suppresses it.
_JVM_WARNING = "WARNING: Using incubator modules: jdk.incubator.vector\n"

Headrace = Callable[..., Result]


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "pepper")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def headrace() -> Headrace:
    """Return a function that calls the program in this process."""

    def call(*arguments: str, color: bool = False) -> Result:
        from headrace.cli.main import cli

        return CliRunner().invoke(cli, arguments, prog_name="headrace", color=color)

    return call


@pytest.fixture
def command_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Return the tests' session, which the commands use instead of their own and do not stop."""
    from headrace.cli import startup

    monkeypatch.setattr(startup, "start_session", lambda pipeline, reporter, others=(): spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    return spark


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the sample pipeline file and an empty folder bronze/ into a new working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bronze").mkdir()
    file = tmp_path / "artists.yaml"
    file.write_text(SAMPLE)
    return file


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    """Replace the registry of installed plugins with an empty one."""
    made = PluginRegistry()
    monkeypatch.setattr(plugin_registry, "registry", lambda: made)
    return made


def deliver(folder: Path, *offsets: int) -> None:
    """Copy files of the demo's connector into ``folder``/bronze; without offsets, copy all of them."""
    topic = Path("topics/moma.public.artists/partition=0")
    (folder / "bronze" / topic).mkdir(parents=True, exist_ok=True)
    for file in sorted((DATA / topic).iterdir()):
        if not offsets or int(file.stem.rsplit("+", 1)[1]) in offsets:
            shutil.copy(file, folder / "bronze" / topic)


def start(folder: Path, *arguments: str, **options: object) -> subprocess.Popen[str]:
    """Start the program as a process."""
    command = [sys.executable, "-m", "headrace", *arguments]
    environment = {**os.environ, "SALT": "pepper", "PYTHONUNBUFFERED": "1", "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES"):  # tox sets them, and they would override the size of a test's terminal
        environment.pop(name, None)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, encoding="utf-8", **pipes)  # type: ignore[call-overload, no-any-return]


def finish(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    """Wait for the process, check its exit code, and return its stdout and stderr."""
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == code, err
    return out, (err or "").replace(_JVM_WARNING, "")  # None if the test redirects stderr to a terminal
