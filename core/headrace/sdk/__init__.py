"""Contracts of plugins: a plugin imports this package and its submodules, and nothing else of headrace.

Each kind of plugin has a base class (``Source``, ``Format``, ``Dialect``, ``Transform``, ``Sink``, ``AuthProvider``,
``Catalog``, ``FileSystem``, ``Observer``) and a hook that registers it. Helpers are in submodules:

- ``changes``, ``events``, ``positions``: columns that pass between plugins;
- ``rows``, ``conditions``, ``sql``: columns of rows in changes, and SQL in options;
- ``columns``, ``schemas``, ``sessions``, ``storage``: Spark columns, schemas, sessions and files;
- ``options``, ``secrets``, ``http``, ``error_text``, ``findings``: option values, secrets, HTTP requests, error messages, and findings of
  ``headrace doctor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from headrace.errors import (
        ConfigError as ConfigError,
        DataError as DataError,
        FatalError as FatalError,
        HeadraceError as HeadraceError,
        LoginError as LoginError,
        NoSuchTableError as NoSuchTableError,
        PluginError as PluginError,
        RetriableError as RetriableError,
    )
    from headrace.progress.lineage import Dataset as Dataset
    from headrace.sdk.auth import Auth as Auth, AuthProvider as AuthProvider
    from headrace.sdk.catalog import (
        Catalog as Catalog,
        CatalogTable as CatalogTable,
        Partitions as Partitions,
        Storage as Storage,
        Sync as Sync,
    )
    from headrace.sdk.changes import Changes as Changes
    from headrace.sdk.config import Config as Config
    from headrace.sdk.connector import Connector as Connector
    from headrace.sdk.dialect import Dialect as Dialect
    from headrace.sdk.events import Events as Events
    from headrace.sdk.file_system import FileSystem as FileSystem
    from headrace.sdk.format import (
        Format as Format,
        NoSchemaError as NoSchemaError,
        RecordReader as RecordReader,
        Scan as Scan,
        UnknownSchemaError as UnknownSchemaError,
    )
    from headrace.sdk.hookspecs import hookimpl as hookimpl
    from headrace.sdk.interval import Interval as Interval
    from headrace.sdk.maintenance import (
        MaintenancePolicy as MaintenancePolicy,
        MaintenanceStep as MaintenanceStep,
        TableSize as TableSize,
    )
    from headrace.sdk.observer import (
        ObservedRun as ObservedRun,
        Observer as Observer,
        RunEvent as RunEvent,
        RunEventKind as RunEventKind,
    )
    from headrace.sdk.plugin import (
        API_VERSION as API_VERSION,
        OLDEST_API_VERSION as OLDEST_API_VERSION,
        Plugin as Plugin,
    )
    from headrace.sdk.plugin_lookup import get_plugin as get_plugin, list_plugins as list_plugins
    from headrace.sdk.reject_reason import RejectReason as RejectReason
    from headrace.sdk.schema_log import SchemaLog as SchemaLog, Subject as Subject
    from headrace.sdk.secrets import SecretProvider as SecretProvider
    from headrace.sdk.sink import (
        MARK_SEARCH_DEPTH as MARK_SEARCH_DEPTH,
        Batch as Batch,
        Capabilities as Capabilities,
        Sink as Sink,
        SinkConfig as SinkConfig,
        Table as Table,
        TableMode as TableMode,
        WriteResult as WriteResult,
    )
    from headrace.sdk.source import (
        NativeSource as NativeSource,
        Offset as Offset,
        RangedSource as RangedSource,
        Source as Source,
        SourceContext as SourceContext,
    )
    from headrace.sdk.transform import Transform as Transform, TransformConfig as TransformConfig

# Imported on first use: a module of hooks needs neither pydantic nor Spark.
__getattr__, __dir__ = lazy_exports(__name__)
