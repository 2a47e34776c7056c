"""All that a plugin is made of: what its author imports, and nothing of headrace beside it.

Each kind of plugin has a base class (``Source``, ``Format``, ``Dialect``, ``Connector``, ``Transform``, ``Sink``, ``AuthProvider``,
``Catalog``, ``FileSystem``) and a hook that registers it.
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
        LoginError as LoginError,
        PluginError as PluginError,
        RetriableError as RetriableError,
    )
    from headrace.http_client import (
        Answer as Answer,
        AnswerTooLargeError as AnswerTooLargeError,
        RedirectError as RedirectError,
        send as send,
    )
    from headrace.schema.file_types import check_names as check_names, widen_small_ints as widen_small_ints
    from headrace.schema.projection import is_same_type as is_same_type, project as project
    from headrace.schema.promotion import (
        add_missing_fields as add_missing_fields,
        promote as promote,
        union_schemas as union_schemas,
    )
    from headrace.sdk.auth import Auth as Auth, AuthProvider as AuthProvider, jaas_config as jaas_config
    from headrace.sdk.catalog import (
        Catalog as Catalog,
        CatalogTable as CatalogTable,
        Partitions as Partitions,
        Storage as Storage,
        Sync as Sync,
    )
    from headrace.sdk.changes import (
        DELETED as DELETED,
        ERROR as ERROR,
        IMAGES as IMAGES,
        KEY as KEY,
        POSITION as POSITION,
        PREFIX as PREFIX,
        Changes as Changes,
    )
    from headrace.sdk.config import Config as Config, option_text as option_text
    from headrace.sdk.connector import Connector as Connector
    from headrace.sdk.dialect import Dialect as Dialect, record_columns as record_columns
    from headrace.sdk.events import Events as Events, header_value as header_value
    from headrace.sdk.exports import lazy_exports as lazy_exports
    from headrace.sdk.file_system import FileSystem as FileSystem
    from headrace.sdk.format import (
        Format as Format,
        NoSchemaError as NoSchemaError,
        RecordReader as RecordReader,
        Scan as Scan,
        UnknownSchemaError as UnknownSchemaError,
        fail_on_unknown_schema as fail_on_unknown_schema,
        find_unknown_schemas as find_unknown_schemas,
    )
    from headrace.sdk.hookspecs import hookimpl as hookimpl
    from headrace.sdk.interval import Interval as Interval, seconds_of as seconds_of
    from headrace.sdk.maintenance import (
        MaintenancePolicy as MaintenancePolicy,
        MaintenanceStep as MaintenanceStep,
        TableSize as TableSize,
    )
    from headrace.sdk.plugin import (
        API_VERSION as API_VERSION,
        OLDEST_API_VERSION as OLDEST_API_VERSION,
        Plugin as Plugin,
    )
    from headrace.sdk.plugins import registry as registry
    from headrace.sdk.positions import (
        PLACE_ORDER as PLACE_ORDER,
        SORTABLE as SORTABLE,
        position as position,
        sortable as sortable,
        tombstone_position as tombstone_position,
    )
    from headrace.sdk.reject_reason import RejectReason as RejectReason
    from headrace.sdk.schema_log import SchemaLog as SchemaLog, Subject as Subject
    from headrace.sdk.secrets import SecretProvider as SecretProvider, keep_answer as keep_answer
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
    from headrace.sdk.transform import Transform as Transform
    from headrace.spark.columns import (
        any_of as any_of,
        barrier as barrier,
        match_names as match_names,
        quote_name as quote_name,
        reuse_columns as reuse_columns,
        select_texts as select_texts,
    )
    from headrace.spark.error_text import (
        causes as causes,
        find_missing_file as find_missing_file,
        first_line as first_line,
        full_text as full_text,
    )
    from headrace.spark.observation import Observation as Observation, materialize_with as materialize_with
    from headrace.spark.secret_literals import secret_literal as secret_literal
    from headrace.spark.sessions import (
        materialize as materialize,
        move_to_session as move_to_session,
        read_once as read_once,
    )
    from headrace.spark.storage import Folder as Folder, is_under as is_under, qualify_path as qualify_path
    from headrace.suggestions import did_you_mean as did_you_mean

#: Module → its names. Imported on first use: a module of hooks needs neither pydantic nor Spark.
_NAMES = {
    "errors": "ConfigError DataError FatalError HeadraceError LoginError PluginError RetriableError",
    "http_client": "Answer AnswerTooLargeError RedirectError send",
    "schema.file_types": "check_names widen_small_ints",
    "schema.projection": "is_same_type project",
    "schema.promotion": "add_missing_fields promote union_schemas",
    "sdk.auth": "Auth AuthProvider jaas_config",
    "sdk.catalog": "Catalog CatalogTable Partitions Storage Sync",
    "sdk.changes": "Changes DELETED ERROR IMAGES KEY POSITION PREFIX",
    "sdk.config": "Config option_text",
    "sdk.connector": "Connector",
    "sdk.dialect": "Dialect record_columns",
    "sdk.events": "Events header_value",
    "sdk.file_system": "FileSystem",
    "sdk.format": "Format NoSchemaError RecordReader Scan UnknownSchemaError fail_on_unknown_schema find_unknown_schemas",
    "sdk.hookspecs": "hookimpl",
    "sdk.interval": "Interval seconds_of",
    "sdk.exports": "lazy_exports",
    "sdk.maintenance": "MaintenanceStep TableSize MaintenancePolicy",
    "sdk.plugin": "API_VERSION OLDEST_API_VERSION Plugin",
    "sdk.plugins": "registry",
    "sdk.positions": "PLACE_ORDER SORTABLE position sortable tombstone_position",
    "sdk.reject_reason": "RejectReason",
    "sdk.schema_log": "SchemaLog Subject",
    "sdk.secrets": "SecretProvider keep_answer",
    "sdk.sink": "Batch Capabilities MARK_SEARCH_DEPTH Sink SinkConfig Table TableMode WriteResult",
    "sdk.source": "NativeSource Offset RangedSource Source SourceContext",
    "sdk.transform": "Transform",
    "spark.columns": "any_of barrier match_names quote_name reuse_columns select_texts",
    "spark.error_text": "causes find_missing_file first_line full_text",
    "spark.observation": "Observation materialize_with",
    "spark.secret_literals": "secret_literal",
    "spark.sessions": "materialize move_to_session read_once",
    "spark.storage": "Folder is_under qualify_path",
    "suggestions": "did_you_mean",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"headrace.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_HOME)
