"""headrace keeps lakehouse tables true to databases: change events in, tables out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.sdk import plugin_lookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.config.settings import Settings
    from headrace.errors import ConfigError, DataError, FatalError, HeadraceError, PluginError, RetriableError
    from headrace.pipeline import Pipeline
    from headrace.progress.summary import Summary
    from headrace.sdk.hookspecs import hookimpl

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "DataError",
    "FatalError",
    "HeadraceError",
    "Pipeline",
    "PluginError",
    "RetriableError",
    "Settings",
    "Summary",
    "hookimpl",
    "read",
    "session",
]

# Imported on first use: `headrace --help` needs neither pydantic nor Spark.
_HOME = {
    "Pipeline": "headrace.pipeline",
    "Settings": "headrace.config.settings",
    "Summary": "headrace.progress.summary",
    "hookimpl": "headrace.sdk.hookspecs",
    **dict.fromkeys(
        ("ConfigError", "DataError", "FatalError", "HeadraceError", "PluginError", "RetriableError"), "headrace.errors"
    ),
}


plugin_lookup.connect(lambda: import_module("headrace.registry.plugin_registry").registry())


def session(pipeline: Pipeline) -> SparkSession:
    """A SparkSession that fits a pipeline: jars, extensions, catalogs, serializer."""
    return pipeline.session()


def read(
    pipeline: Pipeline,
    table: str,
    as_of: str | None = None,
    *,
    sink: str | None = None,
    own_columns: bool = False,
    spark: SparkSession | None = None,
) -> DataFrame:
    """A table of a pipeline as a DataFrame of business columns.

    ``as_of``: a timestamp or a version; ``sink``: which one, when there are several; ``own_columns``: headrace's too.
    """
    return pipeline.read(table, as_of=as_of, sink=sink, own_columns=own_columns, spark=spark)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
