"""``headrace plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from headrace.cli.formatting import UNKNOWN, format_json
from headrace.errors import PluginError


@dataclass(frozen=True)
class _ListedPlugin:
    """A line of the list: a registration, or a distribution that could not be asked for its registrations. ``reason``: why it is broken."""

    kind: str | None
    name: str
    distribution: str
    api_version: int | None
    reason: str | None


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def plugins(*, as_json: bool) -> None:
    """List what is installed, and what of it is broken and why."""
    listed = list(_list_plugins())
    if as_json:
        items = [{**asdict(item), "state": "broken" if item.reason else "ok"} for item in listed]
        click.echo(format_json(items, indent=2))
        return
    from headrace.cli.table_output import make_console, make_table, make_text, put

    table = make_table("kind", "name", "from", "API", "state")
    for item in listed:
        state = make_text(item.reason, "red", keep_lines=True) if item.reason else make_text("ok", "green")
        api = UNKNOWN if item.api_version is None else str(item.api_version)
        name = item.name if item.name.isprintable() else repr(item.name)
        table.add_row(item.kind or UNKNOWN, make_text(name), make_text(item.distribution), api, state)
    put(make_console(), table)


def _list_plugins() -> Iterator[_ListedPlugin]:
    from headrace.sdk.plugins import registry

    known = registry()
    for item in known.registrations():
        try:
            target = known.get(item.kind, item.name)
        except PluginError as error:
            yield _ListedPlugin(item.kind, item.name, item.distribution, None, error.what)
        else:
            yield _ListedPlugin(item.kind, item.name, item.distribution, getattr(target, "api_version", None), None)
    for broken in known.broken:
        reason = f"not loaded: {type(broken.error).__name__}: {broken.error}"
        yield _ListedPlugin(None, broken.entry_point, broken.distribution, None, reason)
