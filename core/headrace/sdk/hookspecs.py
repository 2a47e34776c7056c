"""Hooks that register a distribution's plugins. Data never passes through hooks.

A hook returns names and classes. Instead of a class it may return ``"package.module:Class"``: the module is then imported when the
plugin is first used, which keeps ``headrace --help`` quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from headrace.sdk.auth import AuthProvider
    from headrace.sdk.catalog import Catalog
    from headrace.sdk.dialect import Dialect
    from headrace.sdk.file_system import FileSystem
    from headrace.sdk.format import Format
    from headrace.sdk.secrets import SecretProvider
    from headrace.sdk.sink import Sink
    from headrace.sdk.source import Source
    from headrace.sdk.transform import Transform

PROJECT = "headrace"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def headrace_sources() -> Mapping[str, type[Source] | str]:  # type: ignore[empty-body]
    """Return transports, by the name used under ``source:``."""


@hookspec
def headrace_formats() -> Mapping[str, type[Format] | str]:  # type: ignore[empty-body]
    """Return wire and file formats, by the name used under ``format:``, ``value:`` and ``key:``."""


@hookspec
def headrace_dialects() -> Mapping[str, type[Dialect] | str]:  # type: ignore[empty-body]
    """Return event dialects, by the name used under ``dialects:``; a dialect is chosen when it matches a topic's schema."""


@hookspec
def headrace_transforms() -> Mapping[str, type[Transform] | str]:  # type: ignore[empty-body]
    """Return transforms, by the name used under ``transforms:``."""


@hookspec
def headrace_sinks() -> Mapping[str, type[Sink] | str]:  # type: ignore[empty-body]
    """Return sinks, by the name used under ``sink:`` and ``sinks:``."""


@hookspec
def headrace_auth_providers() -> Mapping[str, type[AuthProvider] | str]:  # type: ignore[empty-body]
    """Return auth providers of sources, by the name used under ``auth:``."""


@hookspec
def headrace_catalogs() -> Mapping[str, type[Catalog] | str]:  # type: ignore[empty-body]
    """Return catalogs of file tables, by the name used under ``sync:``."""


@hookspec
def headrace_filesystems() -> Mapping[str, type[FileSystem] | str]:  # type: ignore[empty-body]
    """Return Hadoop file systems, by the scheme of their addresses."""


@hookspec
def headrace_secret_providers() -> Mapping[str, SecretProvider | str]:  # type: ignore[empty-body]
    """Return the functions that resolve ``${name:…}``: they take and return a string, or raise LookupError with the places searched."""


@hookspec
def headrace_commands() -> Mapping[str, click.Command | str]:  # type: ignore[empty-body]
    """Return commands of the ``headrace`` program; ``"package.module:command|What it does."`` is listed without an import."""
