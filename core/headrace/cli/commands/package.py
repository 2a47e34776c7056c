"""``headrace package``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from headrace.cli.formatting import count_noun, format_size
from headrace.control_characters import escape_controls

_EMR_OPTIONS = "--application-id ID --execution-role-arn ROLE --mode STREAMING"


@click.command()
@click.argument("file", type=click.Path())
@click.option("--output", metavar="DIR", help="Output folder. Default: the pipeline's name with -package.")
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
    folder = Path(output or f"{plan.name}-package")
    with Spinner() as spinner:
        spinner.step(f"making {folder}")
        made = make_package(
            Path(file), folder, plan.plugins, plan.spark_conf, name=plan.name, at=at, report=spinner.report
        )
    sizes = {name: format_size((folder / name).stat().st_size) for name in (ARCHIVE, MAIN, SUBMIT)}
    jars = format_size(sum(jar.stat().st_size for jar in made.jars))
    packed = ", ".join(f"{one.name} {one.version}" for one in made.distributions)
    click.echo(
        escape_controls(f"{folder}: for Spark {made.about['spark']}, {made.about['python']}, {made.about['platform']}")
    )
    click.echo(f"  {ARCHIVE}  {sizes[ARCHIVE]}: {packed}")
    click.echo(f"  jars/  {count_noun(len(made.jars), 'jar')}, {jars}")
    click.echo(", ".join([f"  pipeline.yaml, {MAIN}, {SUBMIT}", *([JOB, APPLICATION] if at else ())]))
    for line in _list_next_steps(folder, at):
        click.echo(escape_controls(line))


def _list_next_steps(folder: Path, at: str | None) -> list[str]:
    """Return the commands that run a package. Services with job definitions have no ``MASTER``."""
    from headrace.cluster.package import APPLICATION, JOB, SUBMIT

    submit = shlex.quote(str(folder / SUBMIT))
    if not at:
        return [f"run it: MASTER=spark://HOST:7077 {submit} --available-now"]
    job, application = shlex.quote(f"file://{folder / JOB}"), shlex.quote(str(folder / APPLICATION))
    return [
        f"copy it: aws s3 cp --recursive {shlex.quote(str(folder))} {shlex.quote(at)}",
        "run it with one of:",
        f"  aws emr-serverless start-job-run {_EMR_OPTIONS} --cli-input-json {job}",
        f"  kubectl apply -f {application}",
        f"  MASTER=yarn DEPLOY_MODE=cluster {submit}",
    ]
