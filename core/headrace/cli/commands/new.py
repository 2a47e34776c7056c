"""``headrace new``."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.scaffold.project import KINDS, write_project


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("name")
def new(kind: str, name: str) -> None:
    """Begin a plugin of your own: a folder with code, tests and what a release needs.

    It is written to headrace-NAME, where you are, and is a small plugin that works: change it.
    """
    folder = write_project(kind, name, Path.cwd())
    click.echo(f"written: {folder}\n")
    click.echo(f"cd {folder.name}\npip install -e '.[test]'   # `headrace plugins` lists it then\npytest")
