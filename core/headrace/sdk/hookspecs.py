"""The hooks by which a distribution brings plugins. Hooks register; data never goes through them.

A hook returns names and classes. Instead of a class it may give ``"package.module:Class"``: then the module is
imported when the plugin is first used, which keeps ``headrace --help`` quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from headrace.sdk.auth import AuthProvider
    from headrace.sdk.catalog import Catalog
    from headrace.sdk.connector import Connector
    from headrace.sdk.dialect import Dialect
    from headrace.sdk.file_system import FileSystem
    from headrace.sdk.format import Format
    from headrace.sdk.observer import Observer
    from headrace.sdk.secrets import SecretProvider
    from headrace.sdk.sink import Sink
    from headrace.sdk.source import Source
    from headrace.sdk.transform import Transform

PROJECT = "headrace"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def headrace_sources() -> Mapping[str, type[Source] | str]:  # type: ignore[empty-body]
    """Return the sources by the name used under ``source:``."""


@hookspec
def headrace_formats() -> Mapping[str, type[Format] | str]:  # type: ignore[empty-body]
    """Return the wire and file formats by the name used under ``format:``, ``value:`` and ``key:``."""


@hookspec
def headrace_dialects() -> Mapping[str, type[Dialect] | str]:  # type: ignore[empty-body]
    """Return the dialects by the name used under ``dialects:``; headrace selects the one that matches the events."""


@hookspec
def headrace_connectors() -> Mapping[str, type[Connector] | str]:  # type: ignore[empty-body]
    """Return the orders of changes by the connector's name in ``source.connector``."""


@hookspec
def headrace_transforms() -> Mapping[str, type[Transform] | str]:  # type: ignore[empty-body]
    """Return the transforms by the name used under ``transforms:``."""


@hookspec
def headrace_sinks() -> Mapping[str, type[Sink] | str]:  # type: ignore[empty-body]
    """Return the sinks by the name used under ``sink:`` and ``sinks:``."""


@hookspec
def headrace_auth_providers() -> Mapping[str, type[AuthProvider] | str]:  # type: ignore[empty-body]
    """Return the auth providers by the name used under ``auth:``."""


@hookspec
def headrace_catalogs() -> Mapping[str, type[Catalog] | str]:  # type: ignore[empty-body]
    """Return the catalogs for tables of files by the name used under ``sync:``."""


@hookspec
def headrace_filesystems() -> Mapping[str, type[FileSystem] | str]:  # type: ignore[empty-body]
    """Return the Hadoop file systems by the scheme of their addresses."""


@hookspec
def headrace_observers() -> Mapping[str, type[Observer] | str]:  # type: ignore[empty-body]
    """Return the observers of runs by the key of the pipeline file that has their options."""


@hookspec
def headrace_secret_providers() -> Mapping[str, SecretProvider | str]:  # type: ignore[empty-body]
    """Return the functions for ``${name:…}``, which return the value or raise LookupError with the place searched."""


@hookspec
def headrace_commands() -> Mapping[str, click.Command | str]:  # type: ignore[empty-body]
    """Return commands of the program; ``"package.module:command|What it does."`` is listed without an import."""
