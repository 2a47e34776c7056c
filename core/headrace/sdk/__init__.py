"""All that a plugin is made of: what its author imports, and nothing of headrace beside it.

Each kind of plugin has a base class (``Source``, ``Format``, ``Dialect``, ``Transform``, ``Sink``) and a hook that registers it.
The modules ``changes`` and ``events`` name the columns that travel between them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.errors import (
        ConfigError as ConfigError,
        DataError as DataError,
        FatalError as FatalError,
        HeadraceError as HeadraceError,
        PluginError as PluginError,
        RetriableError as RetriableError,
    )
    from headrace.schema.projection import same as same, shaped as shaped
    from headrace.schema.promotion import grown as grown, merged as merged, united as united
    from headrace.sdk.changes import (
        DELETED as DELETED,
        IMAGES as IMAGES,
        KEY as KEY,
        POSITION as POSITION,
        PREFIX as PREFIX,
        Changes as Changes,
        ColumnMap as ColumnMap,
    )
    from headrace.sdk.config import Config as Config, option_text as option_text
    from headrace.sdk.dialect import Dialect as Dialect
    from headrace.sdk.events import Events as Events
    from headrace.sdk.format import (
        Format as Format,
        Scan as Scan,
        UnknownSchemaError as UnknownSchemaError,
        unknown_schema as unknown_schema,
        unknown_schemas as unknown_schemas,
    )
    from headrace.sdk.hookspecs import hookimpl as hookimpl
    from headrace.sdk.interval import Interval as Interval, seconds_of as seconds_of
    from headrace.sdk.plugin import API_VERSION as API_VERSION, Plugin as Plugin
    from headrace.sdk.plugins import registry as registry
    from headrace.sdk.positions import position as position, sortable as sortable
    from headrace.sdk.reject_reason import Reason as Reason
    from headrace.sdk.schema_log import SchemaLog as SchemaLog
    from headrace.sdk.secrets import SecretProvider as SecretProvider
    from headrace.sdk.sink import (
        Batch as Batch,
        Capabilities as Capabilities,
        Sink as Sink,
        SinkConfig as SinkConfig,
        Table as Table,
        Wanted as Wanted,
        Written as Written,
    )
    from headrace.sdk.source import (
        NativeSource as NativeSource,
        Offset as Offset,
        RangedSource as RangedSource,
        Source as Source,
        SourceContext as SourceContext,
    )
    from headrace.sdk.transform import Transform as Transform
    from headrace.spark.columns import quoted as quoted
    from headrace.spark.error_text import causes as causes, first_line as first_line, full_text as full_text
    from headrace.spark.secret_literals import hidden as hidden
    from headrace.spark.sessions import read_once as read_once
    from headrace.spark.storage import Folder as Folder, qualified as qualified
    from headrace.suggestions import did_you_mean as did_you_mean

# Imported on first use: a module of hooks needs neither pydantic nor Spark.
_NAMES = {
    "errors": (
        "ConfigError",
        "DataError",
        "FatalError",
        "HeadraceError",
        "PluginError",
        "RetriableError",
    ),
    "schema.projection": (
        "same",
        "shaped",
    ),
    "schema.promotion": (
        "grown",
        "merged",
        "united",
    ),
    "sdk.changes": (
        "Changes",
        "ColumnMap",
        "DELETED",
        "IMAGES",
        "KEY",
        "POSITION",
        "PREFIX",
    ),
    "sdk.config": (
        "Config",
        "option_text",
    ),
    "sdk.dialect": ("Dialect",),
    "sdk.events": ("Events",),
    "sdk.format": (
        "Format",
        "Scan",
        "UnknownSchemaError",
        "unknown_schema",
        "unknown_schemas",
    ),
    "sdk.hookspecs": ("hookimpl",),
    "sdk.interval": (
        "Interval",
        "seconds_of",
    ),
    "sdk.plugin": (
        "API_VERSION",
        "Plugin",
    ),
    "sdk.positions": (
        "position",
        "sortable",
    ),
    "sdk.plugins": ("registry",),
    "sdk.reject_reason": ("Reason",),
    "sdk.schema_log": ("SchemaLog",),
    "sdk.secrets": ("SecretProvider",),
    "sdk.sink": (
        "Batch",
        "Capabilities",
        "Sink",
        "SinkConfig",
        "Table",
        "Wanted",
        "Written",
    ),
    "sdk.source": (
        "NativeSource",
        "Offset",
        "RangedSource",
        "Source",
        "SourceContext",
    ),
    "sdk.transform": ("Transform",),
    "spark.columns": ("quoted",),
    "spark.error_text": (
        "causes",
        "first_line",
        "full_text",
    ),
    "spark.secret_literals": ("hidden",),
    "spark.sessions": ("read_once",),
    "spark.storage": (
        "Folder",
        "qualified",
    ),
    "suggestions": ("did_you_mean",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"headrace.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_HOME)
