"""``headrace version``."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version as package_version

import click

from headrace import __version__
from headrace.errors import ConfigError


@click.command()
def version() -> None:
    """Show the versions of headrace, Python, PySpark and Java."""
    click.echo(f"headrace  {__version__}")
    click.echo(f"Python    {platform.python_version()} in {sys.prefix}")
    try:
        pyspark = _find_pyspark_version()
        home = os.environ.get("SPARK_HOME")
        click.echo(f"PySpark   {pyspark}" + (f", SPARK_HOME is {home}" if home else ""))
        click.echo(f"Java      {_describe_java(pyspark)}")
    except ConfigError as error:
        click.echo(f"PySpark   {error}")


def _find_pyspark_version() -> str:
    try:
        return package_version("pyspark")
    except PackageNotFoundError:
        # A cluster's PySpark may be on the path without package metadata.
        from headrace.runtime.session.spark_support import spark_version

        return spark_version()


def _describe_java(spark_version: str) -> str:
    from headrace.runtime.java.installation import find_java

    try:
        java = find_java(spark_version)
    except ConfigError as error:
        return str(error)
    return f"{java.version} in {java.home} ({java.origin})"
