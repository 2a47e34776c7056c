"""``headrace jars``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from headrace.cli.formatting import counted, size

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.sdk.plugin import Plugin


@click.command()
@click.argument("file", required=False)
@click.option("--download", is_flag=True, help="Fetch what is missing.")
def jars(file: str | None, *, download: bool) -> None:
    """Show the jars that a pipeline needs, and where they are.

    Without FILE: those of all installed plugins. A run fetches what it needs; --download does it before, for a machine
    without a network or an image.
    """
    from headrace.cli.startup import opened
    from headrace.runtime.jars import cache_home, cached_jars, resolve_jars
    from headrace.runtime.session import line_of, spark_version

    version = spark_version()
    plan = opened(file).plan if file else None
    conf = plan.spark_conf if plan else {}
    needed = _needed(plan.plugins if plan else _installed(), line_of(version))
    found: list[Path] | None
    if download:
        found = resolve_jars(
            list(needed), spark_version=version, conf=conf, say=lambda text: click.echo(text, err=True)
        )
    else:
        found = cached_jars(list(needed), spark_version=version, conf=conf)
    _print(version, cache_home(), needed, found, f"headrace jars {file + ' ' if file else ''}--download")


def _installed() -> list[type[Plugin]]:
    from headrace.sdk.plugin import Plugin
    from headrace.sdk.plugins import KINDS, registry

    plugins = [plugin for kind in KINDS for _, plugin in registry().all(kind)]
    return [plugin for plugin in plugins if isinstance(plugin, type) and issubclass(plugin, Plugin)]


def _needed(plugins: list[Plugin] | list[type[Plugin]], line: str) -> dict[str, list[str]]:
    """Coordinates, and the names of the plugins that need them."""
    needed: dict[str, list[str]] = {}
    for plugin in plugins:
        for coordinate in plugin.jars.get(line, ()):
            names = needed.setdefault(coordinate, [])
            if plugin.name not in names:
                names.append(plugin.name)
    return needed


def _print(version: str, cache: Path, needed: Mapping[str, list[str]], found: list[Path] | None, command: str) -> None:
    from headrace.cli.table_output import plain_table, put, stdout

    console = stdout()
    if not needed:
        console.print(f"no jars are needed on Spark {version}")
        return
    table = plain_table(f"needed on Spark {version}", "by")
    for coordinate, names in needed.items():
        table.add_row(coordinate, ", ".join(names))
    put(console, table)
    console.print()
    if found is None:
        console.print(f"not all of them are in {cache}: [bold]{command}[/]")
        return
    table = plain_table("jar", right=("size",))
    for jar in found:
        table.add_row(str(jar), size(jar.stat().st_size))
    put(console, table)
    console.print(f"{counted(len(found), 'jar')}, {size(sum(jar.stat().st_size for jar in found))}")
