"""headrace keeps lakehouse tables equal to databases, from their change events."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from headrace.lazy_exports import lazy_exports
from headrace.sdk import plugin_lookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.config.settings import Settings as Settings
    from headrace.errors import (
        ConfigError as ConfigError,
        DataError as DataError,
        FatalError as FatalError,
        HeadraceError as HeadraceError,
        PluginError as PluginError,
        RetriableError as RetriableError,
    )
    from headrace.pipeline import Pipeline as Pipeline, TableOrigin as TableOrigin
    from headrace.progress.summary import Summary as Summary
    from headrace.sdk.hookspecs import hookimpl as hookimpl

#: The only place that defines the version. It must be a literal: setup.cfg then reads it without importing headrace.
__version__ = "0.1.0"

# Imported on first use: `headrace --help` needs neither pydantic nor Spark.
__getattr__, __dir__ = lazy_exports(__name__)
plugin_lookup.connect(lambda: import_module("headrace.registry.plugin_registry").registry())


def session(pipeline: Pipeline) -> SparkSession:
    """Return a SparkSession for a pipeline, with its jars, extensions, catalogs and serializer."""
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
    """Return a table of a pipeline as a DataFrame of business columns.

    ``as_of``: a timestamp or a version; ``sink``: the sink to read when there are several; ``own_columns``: also headrace's columns.
    """
    return pipeline.read(table, as_of=as_of, sink=sink, own_columns=own_columns, spark=spark)


def read_changes(
    pipeline: Pipeline,
    table: str,
    since: str,
    until: str | None = None,
    *,
    sink: str | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return the rows of a table that differ between two versions: ``op`` (c, u or d), and the structs ``before`` and ``after``.

    ``since`` and ``until``: a timestamp or a version; without ``until``, the newest version.
    """
    return pipeline.read_changes(table, since, until, sink=sink, spark=spark)
