"""``headrace new``."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.scaffold.project import KINDS, write_project


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("name")
def new(kind: str, name: str) -> None:
    """Create the project of a new plugin.

    The folder headrace-NAME in the current directory has a small working plugin to adapt, with its tests and release files.
    """
    folder = write_project(kind, name, Path.cwd())
    click.echo(f"written: {folder}\n")
    click.echo(f"cd {folder.name}\npip install -e '.[test]'   # `headrace plugins` lists it then\npytest")
