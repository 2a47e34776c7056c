"""``headrace jars``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from headrace.cli.formatting import count_noun, format_size
from headrace.control_characters import escape_controls

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.runtime.jars.artifacts import Artifact
    from headrace.sdk.plugin import Plugin


@click.command()
@click.argument("file", required=False, type=click.Path())
@click.option("--download", is_flag=True, help="Download missing jars.")
@click.option(
    "--lock",
    metavar="PACKAGE",
    help="For plugin authors: write the package's jars.lock, with the digest of each jar.",
)
def jars(file: str | None, *, download: bool, lock: str | None) -> None:
    """Show the jars that a pipeline needs, and where they are.

    Without FILE: the jars of all installed plugins. A run downloads missing jars; --download does so in advance, for a machine without
    network access or for an image.
    """
    if lock:
        _write_lock(lock)
        return
    from headrace.cli.startup import load_pipeline
    from headrace.runtime.jars.jar_locks import read_locks
    from headrace.runtime.jars.resolution import cache_home, find_cached_jars, resolve_jars
    from headrace.runtime.session.spark_support import describe_nearest, spark_version

    version = spark_version()
    plan = load_pipeline(file).plan if file else None
    conf = plan.spark_conf if plan else {}
    plugins = plan.plugins if plan else _list_installed_plugins()
    needed, locks = _group_by_jar(plugins, version), read_locks(plugins)
    paths: list[Path] | None
    if download:
        paths = resolve_jars(
            list(needed),
            spark_version=version,
            conf=conf,
            locks=locks,
            report=lambda text: click.echo(escape_controls(text), err=True),
        )
    else:
        paths = find_cached_jars(list(needed), spark_version=version, conf=conf, locks=locks)
    for line in describe_nearest(plugins, version):
        click.echo(escape_controls(line), err=True)
    _print(version, cache_home(), needed, paths, f"headrace jars {shlex.quote(file) + ' ' if file else ''}--download")


def _write_lock(package: str) -> None:
    from headrace.runtime.jars.jar_locks import write_lock
    from headrace.runtime.jars.resolution import describe_jars
    from headrace.runtime.session.spark_support import spark_version

    def resolve(coordinate: str) -> Sequence[Artifact]:
        return describe_jars(coordinate, spark_version=spark_version(), report=lambda text: click.echo(text, err=True))

    click.echo(f"written: {write_lock(_with_parts(_list_installed_plugins()), package, resolve)}")


def _list_installed_plugins() -> list[type[Plugin]]:
    from headrace.registry.plugin_registry import registry
    from headrace.registry.validation import BASES

    return [plugin for kind in BASES for _, plugin in registry().all(kind)]


def _with_parts(plugins: Sequence[type[Plugin]]) -> list[type[Plugin]]:
    """Return plugins, and plugin classes without a registered name: parts of others."""
    from headrace.sdk.plugin import Plugin

    found, pending = list(plugins), [Plugin]
    while pending:
        for kind in pending.pop().__subclasses__():
            pending.append(kind)
            found.append(kind)
    return list(dict.fromkeys(found))


def _group_by_jar(plugins: list[Plugin] | list[type[Plugin]], version: str) -> dict[str, list[str]]:
    """Return coordinate → names of the plugins that need it."""
    from headrace.runtime.jars.jar_choice import choose_jars

    needed: dict[str, list[str]] = {}
    for plugin in plugins:
        for coordinate in choose_jars(plugin, version):
            names = needed.setdefault(coordinate, [])
            if plugin.name not in names:
                names.append(plugin.name)
    return needed


def _print(version: str, cache: Path, needed: Mapping[str, list[str]], paths: list[Path] | None, command: str) -> None:
    from headrace.cli.table_output import make_console, make_table, make_text, put

    console = make_console()
    if not needed:
        console.print(f"no jars are needed on Spark {version}")
        return
    table = make_table(f"needed on Spark {version}", "by")
    for coordinate, names in needed.items():
        table.add_row(make_text(coordinate), make_text(", ".join(names)))
    put(console, table)
    console.print()
    if paths is None:
        console.print(f"some of them are not in {cache}: [bold]{command}[/]")
        return
    table = make_table("jar", right=("size",))
    for jar in paths:
        table.add_row(make_text(str(jar)), format_size(jar.stat().st_size))
    put(console, table)
    console.print(f"{count_noun(len(paths), 'jar')}, {format_size(sum(jar.stat().st_size for jar in paths))}")
