"""``headrace plugins``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from headrace.cli.formatting import UNKNOWN
from headrace.errors import PluginError


@dataclass(frozen=True)
class _Found:
    """A registration, or a distribution that could not be asked for its registrations. ``reason``: why it is broken."""

    kind: str | None
    name: str
    distribution: str
    api_version: int | None
    reason: str | None


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def plugins(*, as_json: bool) -> None:
    """List what is installed, and what of it is broken and why."""
    found = list(_found())
    if as_json:
        items = [{**asdict(item), "state": "broken" if item.reason else "ok"} for item in found]
        click.echo(json.dumps(items, indent=2, ensure_ascii=False))
        return
    from rich.text import Text

    from headrace.cli.table_output import plain_table, put, stdout

    table = plain_table("kind", "name", "from", "API", "state")
    for item in found:
        state = Text(item.reason, style="red") if item.reason else Text("ok", style="green")
        api = UNKNOWN if item.api_version is None else str(item.api_version)
        name = item.name if item.name.isprintable() else repr(item.name)
        table.add_row(item.kind or UNKNOWN, Text(name), Text(item.distribution), api, state)
    put(stdout(), table)


def _found() -> Iterator[_Found]:
    from headrace.sdk.plugins import registry

    known = registry()
    for item in known.registrations():
        try:
            target = known.get(item.kind, item.name)
        except PluginError as error:
            yield _Found(item.kind, item.name, item.distribution, None, error.what)
        else:
            yield _Found(item.kind, item.name, item.distribution, getattr(target, "api_version", None), None)
    for broken in known.broken:
        reason = f"not loaded: {type(broken.error).__name__}: {broken.error}"
        yield _Found(None, broken.entry_point, broken.distribution, None, reason)
