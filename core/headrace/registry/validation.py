"""Validation of the classes and functions that are registered as plugins."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from headrace.errors import PluginError
from headrace.registry.plugin_errors import as_plugin_error

if TYPE_CHECKING:
    from headrace.registry.registration import Registration
    from headrace.sdk.plugin import Plugin

#: A jar, as Maven and Spark write it.
COORDINATE = re.compile(r"[^:\s]+(:[^:\s]+){2}(:jar(:[^:\s]+)?)?")
#: Kind → the class that its plugins derive from. Imported on use, because it imports pydantic: the names alone are known
#: without.
BASES = {
    "source": "headrace.sdk.source:Source",
    "format": "headrace.sdk.format:Format",
    "dialect": "headrace.sdk.dialect:Dialect",
    "connector": "headrace.sdk.connector:Connector",
    "transform": "headrace.sdk.transform:Transform",
    "sink": "headrace.sdk.sink:Sink",
    "auth": "headrace.sdk.auth:AuthProvider",
    "catalog": "headrace.sdk.catalog:Catalog",
    "filesystem": "headrace.sdk.file_system:FileSystem",
    "observer": "headrace.sdk.observer:Observer",
}


def check_target(item: Registration, target: Any) -> None:
    """Raise PluginError for an object that is not a valid plugin of its kind."""
    if item.kind == "command":
        import click

        if not isinstance(target, click.Command):
            raise PluginError(f"{item} is not a click command", fix="report it to its author")
    elif item.kind == "secret":
        if not callable(target):
            raise PluginError(
                f"{item} is not a function: {target!r}", fix="register a function that takes and returns a string"
            )
    else:
        _check_class(item, target, BASES[item.kind])


def try_construction(item: Registration, plugin: type[Plugin]) -> None:
    """Build a plugin without options: nothing runs at construction. PluginError for what it raises."""
    from pydantic import ValidationError

    with as_plugin_error(f"{item} cannot be built"):
        try:
            config = plugin.Config()
        except ValidationError:  # some options are required
            config = plugin.Config.model_construct()
        try:
            plugin(config)
        except AttributeError as error:
            if error.obj is not config:  # else the plugin reads a required option
                raise


def load_base(path: str) -> type[Plugin]:
    """Return a class of BASES."""
    module, _, name = path.partition(":")
    base: type[Plugin] = getattr(importlib.import_module(module), name)
    return base


def _check_class(item: Registration, target: Any, base_path: str) -> None:
    base = load_base(base_path)
    if not (isinstance(target, type) and issubclass(target, base)):
        what = f"{item} is not a {base.__name__}: {target!r}"
        raise PluginError(what, fix=f"derive its class from {base.__module__}.{base.__name__}")
    _check_api_version(item, getattr(target, "api_version", None))
    if lacking := sorted(getattr(target, "__abstractmethods__", ())):
        raise PluginError(
            f"{item} is abstract: it does not implement {', '.join(lacking)}", fix="implement the missing methods"
        )
    if not isinstance(getattr(target, "name", None), str):
        raise PluginError(f"{item} has no name", fix=f"give it `name = {item.name!r}`")
    priority = getattr(target, "priority", 0)  # of a dialect or a connector
    if not isinstance(priority, int):
        raise PluginError(f"{item} has a priority that is not a number: {priority!r}", fix="give it one")
    _check_config(item, target, base)
    _check_jars(item, target)


def _check_api_version(item: Registration, version: Any) -> None:
    from headrace.sdk import plugin

    oldest, newest = plugin.OLDEST_API_VERSION, plugin.API_VERSION
    if version is None:
        raise PluginError(f"{item} has no api_version", fix=f"give it `api_version = {newest}`")
    if not isinstance(version, int):
        raise PluginError(f"{item} has an api_version that is not a number: {version!r}", fix="give it one")
    if not oldest <= version <= newest:
        known = f"has {newest}" if oldest == newest else f"supports {oldest} to {newest}"
        wanted = item.distribution_name if version < oldest else "headrace"
        raise PluginError(
            f"{item} was written for plugin API {version}; this headrace {known}",
            fix=f"install a newer {wanted}: pip install --upgrade {wanted}",
        )


def _check_config(item: Registration, target: Any, base: type[Plugin]) -> None:
    config, wanted = target.Config, base.Config
    if not (isinstance(config, type) and issubclass(config, wanted)):
        fix = f"derive it from headrace.sdk.{wanted.__name__}"
        raise PluginError(f"{item} has a Config that is not a {wanted.__name__}: {config!r}", fix=fix)
    if not all(isinstance(pattern, str) for pattern in config.passthrough):
        raise PluginError(
            f"{item} has a passthrough that is not a tuple of strings: {config.passthrough!r}", fix="write patterns"
        )


def _check_jars(item: Registration, target: Any) -> None:
    for line, coordinates in target.jars.items():
        if isinstance(coordinates, str):
            raise PluginError(f"{item} has a string for the jars of Spark {line}", fix="write a tuple of coordinates")
        for coordinate in coordinates:
            if not (isinstance(coordinate, str) and COORDINATE.fullmatch(coordinate)):
                what = f"{item} has a jar that is not a Maven coordinate: {coordinate!r}"
                raise PluginError(what, fix="write group:artifact:version")
