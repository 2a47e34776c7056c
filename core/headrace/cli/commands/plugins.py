"""``headrace plugins``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import click

from headrace.cli.describe_plugin import describe_plugin
from headrace.cli.formatting import UNKNOWN, format_json
from headrace.control_characters import escape_controls
from headrace.errors import PluginError

if TYPE_CHECKING:
    from headrace.registry.plugin_registry import PluginRegistry
    from headrace.registry.registration import Registration


@dataclass(frozen=True)
class _ListedPlugin:
    """Line of the list: a registration, or an entry point that registered no plugin. ``reason``: why the plugin cannot be used."""

    kind: str | None
    name: str
    distribution: str
    api_version: int | None
    capabilities: list[str]
    reason: str | None
    state: str


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@click.pass_context
def plugins(ctx: click.Context, name: str | None, *, as_json: bool) -> None:
    """List installed plugins and report problems.

    The list contains the capabilities of each plugin, the errors of broken plugins, and the plugins that HEADRACE_DISABLE_PLUGINS disables.

    With NAME: show the plugins of that name, with their options.
    """
    from headrace.config.model import PipelineConfig
    from headrace.config.references import PROVIDERS
    from headrace.registry.plugin_errors import as_plugin_error
    from headrace.registry.plugin_registry import DISABLE, registry

    known = registry()
    program = ctx.find_root().command
    reserved = {"command": getattr(program, "commands", {}), "secret": PROVIDERS, "observer": PipelineConfig.keys()}
    listed = list(_list_plugins(known, reserved))
    for unknown in known.unknown_disabled:
        click.echo(f"{DISABLE} names {escape_controls(unknown)}: no plugin or distribution has this name", err=True)
    if name is not None:
        listed = [item for item in listed if item.name == name] or _reject(name, known)
    if as_json:
        click.echo(format_json([vars(item) for item in listed], indent=2))
        return
    _show(listed)
    for item in listed if name is not None else ():
        if item.kind is not None and item.state == "ok":
            with as_plugin_error(f"the {item.kind} {item.name!r} of {item.distribution} cannot be described"):
                describe_plugin(item.kind, known.get(item.kind, item.name))


def _show(listed: Collection[_ListedPlugin]) -> None:
    from headrace.cli.table_output import make_console, make_table, make_text, put

    table = make_table("kind", "name", "from", "API", "can", "state")
    for item in listed:
        style = {"ok": "green", "off": "yellow"}.get(item.state, "red")
        state = make_text(item.reason or item.state, style, keep_lines=True)
        api = UNKNOWN if item.api_version is None else str(item.api_version)
        name = item.name if item.name.isprintable() else repr(item.name)
        can = ", ".join(item.capabilities) or UNKNOWN
        table.add_row(item.kind or UNKNOWN, make_text(name), make_text(item.distribution), api, can, state)
    put(make_console(), table)


def _reject(name: str, known: PluginRegistry) -> NoReturn:
    from headrace.suggestions import did_you_mean

    names = {item.name for item in known.registrations()}
    raise PluginError(f"there is no plugin {name!r}", fix=did_you_mean(name, sorted(names)))


def _list_plugins(known: PluginRegistry, reserved: Mapping[str, Collection[str]]) -> Iterator[_ListedPlugin]:
    """Yield all plugins. ``reserved``: kind → names that headrace has without registering them."""
    from headrace.registry.plugin_errors import describe_error
    from headrace.registry.plugin_registry import DISABLE

    for item in known.registrations():
        version, reason, capabilities = None, None, list[str]()
        try:
            version, capabilities = _try_out(known, item, reserved.get(item.kind, ()))
        except PluginError as error:
            reason = error.what
        state = "broken" if reason else "ok"
        yield _ListedPlugin(item.kind, item.name, item.distribution, version, capabilities, reason, state)
    for off in known.disabled:
        yield _ListedPlugin(off.kind, off.name, off.distribution, None, [], f"disabled by {DISABLE}", "off")
    for broken in known.broken:
        reason = f"not loaded: {describe_error(broken.error)}"
        yield _ListedPlugin(None, broken.entry_point, broken.distribution, None, [], reason, "broken")


def _try_out(known: PluginRegistry, item: Registration, reserved: Collection[str]) -> tuple[int | None, list[str]]:
    """Return API version and capabilities of a plugin that can be imported, built and described; otherwise raise PluginError."""
    from headrace.config.capabilities import list_capabilities
    from headrace.config.json_schema import plugin_schema
    from headrace.registry.plugin_errors import as_plugin_error
    from headrace.registry.validation import BASES, try_construction

    if item.name in reserved:
        raise PluginError(f"{item} has the name of one of headrace's plugins", fix="choose another name")
    plugin = known.load(item)
    if item.kind not in BASES:
        return None, []
    try_construction(item, plugin)
    plugin_schema(item, plugin)
    with as_plugin_error(f"{item} cannot be inspected"):
        return plugin.api_version, list_capabilities(item.kind, plugin)
