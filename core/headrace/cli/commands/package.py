"""``headrace package``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from headrace.cli.formatting import count_noun, format_size
from headrace.control_characters import escape_controls


@click.command()
@click.argument("file")
@click.option("--output", metavar="DIR", help="Output folder. Default: the file's name with -package.")
@click.option("--at", metavar="ADDRESS", help="Address at which the cluster reads the folder: s3://lake/packages/shop.")
def package(file: str, *, output: str | None, at: str | None) -> None:
    """Create a package that runs FILE on a cluster.

    The package is for spark-submit: its folder has headrace, the plugins of the file, their requirements and jars, the file, and a script that calls spark-submit. All
    is copied from this Python; only jars that are not cached are downloaded. It contains no secrets. With --at the folder also has job
    definitions for EMR Serverless and Kubernetes' Spark operator.
    """
    from headrace.cli.startup import Spinner, load_pipeline
    from headrace.cluster.package import APPLICATION, JOB, SUBMIT, make_package
    from headrace.cluster.submission import ARCHIVE, MAIN

    at = at.rstrip("/") if at else None
    plan = load_pipeline(file).plan
    folder = Path(output or f"{Path(file).stem}-package")
    with Spinner() as spinner:
        spinner.step(f"making {folder}")
        made = make_package(Path(file), folder, plan.plugins, plan.spark_conf, at=at, report=spinner.report)
    sizes = {name: format_size((folder / name).stat().st_size) for name in (ARCHIVE, MAIN, SUBMIT)}
    jars = format_size(sum(jar.stat().st_size for jar in made.jars))
    packed = ", ".join(f"{one.name} {one.version}" for one in made.distributions)
    click.echo(
        escape_controls(f"{folder}: for Spark {made.about['spark']}, {made.about['python']}, {made.about['platform']}")
    )
    click.echo(f"  {ARCHIVE}  {sizes[ARCHIVE]}: {packed}")
    click.echo(f"  jars/  {count_noun(len(made.jars), 'jar')}, {jars}")
    click.echo(", ".join([f"  pipeline.yaml, {MAIN}, {SUBMIT}", *([JOB, APPLICATION] if at else ())]))
    if at:
        copy = f"copy it: aws s3 cp --recursive {shlex.quote(str(folder))} {shlex.quote(at)}"
        click.echo(escape_controls(copy))
    click.echo(escape_controls(f"run it: MASTER=spark://HOST:7077 {shlex.quote(str(folder / SUBMIT))} --available-now"))
