"""``headrace plugins``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from headrace.cli.formatting import UNKNOWN, escape_controls, format_json
from headrace.errors import PluginError

if TYPE_CHECKING:
    from headrace.sdk.plugins import Registration, Registry


@dataclass(frozen=True)
class _ListedPlugin:
    """A line of the list: a registration, or an entry point that has none. ``reason``: why it cannot be used."""

    kind: str | None
    name: str
    distribution: str
    api_version: int | None
    reason: str | None
    state: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@click.pass_context
def plugins(ctx: click.Context, *, as_json: bool) -> None:
    """List what is installed, what of it is broken and why, and what HEADRACE_DISABLE_PLUGINS turns off."""
    from headrace.config.references import PROVIDERS
    from headrace.sdk.plugins import DISABLE, registry

    known = registry()
    program = ctx.find_root().command
    listed = list(_list_plugins(known, {"command": getattr(program, "commands", {}), "secret": PROVIDERS}))
    for name in known.unknown_disabled:
        click.echo(f"{DISABLE} names {escape_controls(name)}: nothing is called so", err=True)
    if as_json:
        click.echo(format_json([vars(item) for item in listed], indent=2))
        return
    from headrace.cli.table_output import make_console, make_table, make_text, put

    table = make_table("kind", "name", "from", "API", "state")
    for item in listed:
        style = {"ok": "green", "off": "yellow"}.get(item.state, "red")
        state = make_text(item.reason or item.state, style, keep_lines=True)
        api = UNKNOWN if item.api_version is None else str(item.api_version)
        name = item.name if item.name.isprintable() else repr(item.name)
        table.add_row(item.kind or UNKNOWN, make_text(name), make_text(item.distribution), api, state)
    put(make_console(), table)


def _list_plugins(known: Registry, reserved: Mapping[str, Collection[str]]) -> Iterator[_ListedPlugin]:
    """``reserved``: kind → the names that headrace has without registering them."""
    from headrace.sdk.plugins import DISABLE, describe_error

    for item in known.registrations():
        version, reason = None, None
        try:
            version = _try_out(known, item, reserved.get(item.kind, ()))
        except PluginError as error:
            reason = error.what
        state = "broken" if reason else "ok"
        yield _ListedPlugin(item.kind, item.name, item.distribution, version, reason, state)
    for off in known.disabled:
        yield _ListedPlugin(off.kind, off.name, off.distribution, None, f"turned off by {DISABLE}", "off")
    for broken in known.broken:
        reason = f"not loaded: {describe_error(broken.error)}"
        yield _ListedPlugin(None, broken.entry_point, broken.distribution, None, reason, "broken")


def _try_out(known: Registry, item: Registration, reserved: Collection[str]) -> int | None:
    """The API version of a plugin that can be imported, built and described; PluginError for one that cannot."""
    from headrace.config.json_schema import plugin_schema
    from headrace.sdk.plugin_checks import BASES
    from headrace.sdk.plugins import try_construction

    if item.name in reserved:
        raise PluginError(f"{item} is called like one of headrace's", fix="give it another name")
    plugin = known.load(item)
    if item.kind not in BASES:
        return None
    try_construction(item, plugin)
    plugin_schema(item, plugin)
    version: int = plugin.api_version
    return version
