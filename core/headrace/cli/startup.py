"""From a pipeline file to a Spark session, with what is being done said on the way."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, Self

from headrace.cli.error_report import redact_with
from headrace.cli.formatting import counted
from headrace.cli.signals import listen_again

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.status import Status

    from headrace.pipeline import Pipeline


class Voice(Protocol):
    """Where it is said."""

    def say(self, text: str) -> None:
        """A fact or a step that is done."""

    def doing(self, text: str) -> None:
        """What is done from now on."""


class Spinner:
    """On a terminal one line on stderr that changes and leaves no trace; elsewhere nothing."""

    def __init__(self) -> None:
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True, highlight=False).status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def say(self, text: str) -> None:
        if self._status:
            from rich.markup import escape

            self._status.update(escape(text.strip()))

    doing = say


def opened(file: str) -> Pipeline:
    """The pipeline of a file; its secrets are shown in no error from here on."""
    from headrace.pipeline import Pipeline

    pipeline = Pipeline.from_file(file)
    redact_with(pipeline.redact)
    return pipeline


def started(pipeline: Pipeline, voice: Voice) -> SparkSession:
    """A session for the pipeline. What can be wrong without one is looked at before."""
    from headrace.runtime.jars import cache_home, resolve_jars
    from headrace.runtime.java import find_java
    from headrace.runtime.session import coordinates, line_of, refuse, spark_version

    plan = pipeline.plan
    plan.check_static()
    version = spark_version()
    refuse(plan.plugins, line_of(version))
    java = find_java(version)
    voice.say(f"Java {java.version} in {java.home} ({java.origin})")
    jars = resolve_jars(
        coordinates(plan.plugins, line_of(version)), spark_version=version, conf=plan.spark_conf, say=voice.say
    )
    if jars:
        voice.say(f"{counted(len(jars), 'jar')} in {cache_home()}")
    voice.doing(f"starting Spark {version}")
    with _stdout_kept_clean():
        spark = pipeline.session()
    listen_again()
    return spark


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """What a JVM that starts in here prints (some libraries do) goes to stderr, unless stdout is a screen anyway."""
    if sys.stdout.isatty():
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
