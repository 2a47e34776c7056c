"""Command ``headrace connect``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from headrace.sdk import ConfigError, HeadraceError
from headrace.sdk.commands import BlockGroup
from headrace.sdk.findings import Checkup, Finding
from headrace.sdk.options import escape_controls
from headrace_connect.connect_config import CONFIG_KEY, ConnectConfig

if TYPE_CHECKING:
    from headrace_connect.deployment import ConnectorStatus, Deployment


class _ConnectGroup(BlockGroup):
    """Group of the commands, listed in the order of a deployment."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def diagnose(self, file: str, checkup: Checkup) -> Iterator[Finding]:
        from headrace_connect.diagnosis import diagnose_target

        with open_target(file) as target:
            for finding in diagnose_target(target, checkup):
                yield finding.redact(target.deployment.secrets.hide)


connect = _ConnectGroup(
    "connect",
    ConnectConfig,
    kept=(CONFIG_KEY,),
    help="""Deploy and control the connector that captures the changes.

    The block `connect:` of FILE describes a connector of Kafka Connect. Defaults that fit the pipeline are added.
    """,
)


@dataclass(frozen=True)
class ConnectTarget:
    """Connector of a pipeline file, warnings about its block, and the options of its preflight and of MSK Connect."""

    deployment: Deployment
    warnings: list[str]
    preflight: dict[str, str | None]
    msk: dict[str, Any]


_file = click.argument("file", type=click.Path())


def _check_timeout(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("it is not a number of seconds")
    return value


_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    callback=_check_timeout,
    default=60,
    show_default=True,
    help="Seconds to wait for the connector.",
)
_yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@connect.command()
@_file
def validate(file: str) -> None:
    """Validate the connector's configuration.

    Kafka Connect and the connector check each option; Debezium's connectors also try the login to the database. Nothing is changed.
    """
    with open_target(file) as target:
        _validate(target)
        _say(f"{target.deployment.place}: the configuration is valid")


@connect.command()
@_file
def preflight(file: str) -> None:
    """Check the database for settings that lose changes.

    Each finding is one line with the statement that fixes it. Nothing is changed. `headrace check FILE --source` runs the same checks.
    """
    from headrace_connect.preflight.source_database import check_database, find_misspelled, resolve_options

    with open_target(file) as target:
        options = target.deployment.options
        for warning in find_misspelled(target.preflight, options):
            click.secho(escape_controls(f"warning: {warning}"), err=True, fg="yellow")
        findings = check_database(resolve_options(options, target.preflight))
        for finding in findings:
            click.secho(escape_controls(str(finding)), fg="yellow" if finding.is_warning else "red")
        if errors := [finding for finding in findings if not finding.is_warning]:
            what = f"the database loses changes: {len(errors)} of the settings above"
            raise ConfigError(what, where=f"{file} connect", fix="run the statements")
        click.echo("the database is ready for the connector")


@connect.command()
@_file
@click.option("--target", type=click.Choice(["connect", "msk-connect"]), default="connect", help="Default: connect.")
@click.option("--dry-run", is_flag=True, help="Show the differences and change nothing.")
@_yes
@_timeout
def deploy(file: str, *, target: str, dry_run: bool, yes: bool, timeout: float) -> None:
    """Create or change the connector, and wait until it runs.

    The configuration is validated, and each difference to the deployed one is shown before it changes. Without a difference nothing is
    changed. The command fails with the trace of the connector or of a task that fails. It asks before it replaces a connector of another
    class, database or topic prefix.

    With --target msk-connect, the request to Amazon MSK Connect is shown and sent. MSK Connect validates it; the command does not wait.
    """
    with open_target(file) as opened:
        if target == "msk-connect":
            _deploy_to_msk(opened, dry_run=dry_run, is_confirmed=yes)
        else:
            _deploy_to_workers(opened, file, timeout, dry_run=dry_run, is_confirmed=yes)


@connect.command()
@_file
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="Lines, or JSON.")
def status(file: str, *, form: str) -> None:
    """Show the states of the connector and its tasks, and the trace of each failure.

    The exit code is 6 when the connector or a task failed.
    """
    from headrace_connect.deployment import describe_status

    with open_target(file) as target:
        found = target.deployment.status()
        if form == "json":
            parts = {"connector": found.state, "worker": found.worker, "trace": found.trace, "tasks": list(found.tasks)}
            click.echo(json.dumps(target.deployment.secrets.hide_all({"name": target.deployment.name, **parts})))
        else:
            _say(f"{target.deployment.place}: {describe_status(found)}")
        if found.failures:
            raise target.deployment.explain_failure(found.failures)


@connect.command()
@_file
@_timeout
def pause(file: str, *, timeout: float) -> None:
    """Pause the connector; it keeps its position."""
    with open_target(file) as target:
        target.deployment.status()
        target.deployment.control("pause")
        _wait(target.deployment, "PAUSED", timeout)


@connect.command()
@_file
@_timeout
def resume(file: str, *, timeout: float) -> None:
    """Continue a connector that is paused or stopped."""
    with open_target(file) as target:
        before = target.deployment.status()
        target.deployment.control("resume")
        _wait(target.deployment, "RUNNING", timeout, before)


@connect.command()
@_file
@click.option("--all", "restarts_all", is_flag=True, help="Also restart the connector and tasks that run.")
@_timeout
def restart(file: str, *, restarts_all: bool, timeout: float) -> None:
    """Restart the connector and tasks that failed."""
    with open_target(file) as target:
        before = target.deployment.status()
        target.deployment.restart(only_failed=not restarts_all)
        _wait(target.deployment, "RUNNING", timeout, before)


@connect.command()
@_file
@click.option("--reset", is_flag=True, help="Stop the connector, delete its offsets, and restore its state.")
@_yes
@_timeout
def offsets(file: str, *, reset: bool, yes: bool, timeout: float) -> None:
    """Show the connector's offsets as JSON lines.

    With --reset, Debezium's connectors read all tables again in a new snapshot. A connector that is paused or stopped stays so.
    """
    from headrace_connect.deployment import describe_status
    from headrace_connect.offset_reset import reset_offsets

    with open_target(file) as target:
        deployment = target.deployment
        for offset in deployment.read_offsets():
            click.echo(json.dumps(offset))
        if not reset:
            return
        _confirm(f"delete the offsets of {deployment.place}? It then starts with a new snapshot", is_confirmed=yes)
        reset_offsets(deployment, timeout)
        _say(f"{deployment.place}: {describe_status(deployment.status())}")


@connect.command()
@_file
@_yes
@_timeout
def delete(file: str, *, yes: bool, timeout: float) -> None:
    """Delete the connector.

    Its topics and its offsets in Kafka Connect stay, and so do the replication slot and the publication of PostgreSQL: a connector of the
    same name continues from there.
    """
    with open_target(file) as target:
        deployment = target.deployment
        deployment.status()
        slot = (deployment.read_options() or {}).get("slot.name")
        _confirm(f"delete {deployment.place}?", is_confirmed=yes)
        deployment.delete(timeout)
        _say(f"{deployment.place}: deleted")
        if slot:
            what = "PostgreSQL keeps its log for the slot of the connector until you drop it"
            _say(f"{what}: select pg_drop_replication_slot('{slot}')")


def _deploy_to_workers(target: ConnectTarget, file: str, timeout: float, *, dry_run: bool, is_confirmed: bool) -> None:
    from headrace_connect.connector_diff import describe_differences

    deployment = target.deployment
    _validate(target)
    deployed, before = deployment.read_options(), deployment.find_status()
    deployment.secrets.add(deployed or {})
    differences = describe_differences(deployed or {}, deployment.options, deployment.secrets)
    _show_differences(deployment.place, differences, is_new=deployed is None)
    if dry_run:
        return
    if deployed is None or differences:
        _confirm_takeover(deployment.place, deployed or {}, deployment, is_confirmed=is_confirmed)
        deployment.put()
    if before and before.state in ("PAUSED", "STOPPED"):
        _say(f"the connector is {before.state}: `headrace connect resume {file}` starts it")
        return
    _wait(deployment, "RUNNING", timeout, before if differences else None)


def _deploy_to_msk(target: ConnectTarget, *, dry_run: bool, is_confirmed: bool) -> None:
    from headrace_connect.msk_connect import MskConnector

    deployment = target.deployment
    connector = MskConnector(deployment.name, deployment.options, target.msk, deployment.secrets)
    _show_warnings(target, [])
    deployed = connector.find()
    differences = connector.describe_differences(deployed)
    _show_differences(connector.place, differences, is_new=deployed is None)
    if deployed is None:
        click.echo(connector.describe_request())
    if dry_run:
        return
    state = deployed["connectorState"] if deployed else ""
    if deployed is None:
        state = connector.create()
    elif differences:
        _confirm_takeover(connector.place, deployed["connectorConfiguration"], deployment, is_confirmed=is_confirmed)
        state = connector.update(deployed)
    _say(f"{connector.place}: {state}")


def _show_differences(place: str, differences: list[str], *, is_new: bool) -> None:
    change = "new" if is_new else "changed" if differences else "unchanged"
    for line in (f"{place}: {change}", *(f"  {line}" for line in differences)):
        _say(line)


@contextmanager
def open_target(file: str) -> Iterator[ConnectTarget]:
    """Yield the connector of a pipeline file; errors of the block contain no secret of its configuration."""
    from headrace_connect.captured_tables import list_topics
    from headrace_connect.connect_client import ConnectClient
    from headrace_connect.connector_defaults import complete_options
    from headrace_connect.connector_secrets import ConnectorSecrets
    from headrace_connect.deployment import Deployment
    from headrace_connect.source_block import find_unread_topics

    config, pipeline = connect.load(file)
    name = config.name or str(pipeline.get("name") or "")
    if name in ("", ".", ".."):  # the last two are no part of an address
        what = f"the connector cannot have the name {name!r}" if name else "the connector has no name"
        raise ConfigError(what, where=f"{file} connect", fix="add `name:` to `connect:`")
    login = config.basic_auth_user_info
    client = ConnectClient(config.url, login=login.get_secret_value() if login else None, ca=config.ssl_ca_location)
    options, preflight = complete_options(config.connector_options(), name, pipeline), config.preflight_options()
    secrets = ConnectorSecrets(options, preflight)
    warnings = [
        f"the source of the pipeline does not read the topic {topic}, which the connector writes"
        for topic in find_unread_topics(pipeline, list_topics(options))
    ]
    try:
        yield ConnectTarget(Deployment(client, name, options, secrets), warnings, preflight, config.msk)
    except HeadraceError as error:
        raise error.redact(secrets.hide) from error.__cause__


def _wait(deployment: Deployment, state: str, timeout: float, before: ConnectorStatus | None = None) -> None:
    from headrace_connect.deployment import SETTLE, describe_status

    deployment.wait_for(state, timeout, before, settle=SETTLE if state == "RUNNING" else 0)
    _say(f"{deployment.place}: {describe_status(deployment.status())}")


def _confirm_takeover(place: str, before: Mapping[str, str], deployment: Deployment, *, is_confirmed: bool) -> None:
    from headrace_connect.connector_diff import describe_takeover

    if others := describe_takeover(before, deployment.options, deployment.secrets):
        _confirm(
            f"{place} may be of another pipeline: its {'; its '.join(others)}. Replace it?", is_confirmed=is_confirmed
        )


def _confirm(question: str, *, is_confirmed: bool) -> None:
    if not is_confirmed:
        click.confirm(escape_controls(question), abort=True, err=True)


def _validate(target: ConnectTarget) -> None:
    """Validate the configuration. Warnings follow: the connector declares more options as passwords."""
    _show_warnings(target, target.deployment.validate())


def _show_warnings(target: ConnectTarget, more: list[str]) -> None:
    plain = [
        f"{key} contains plain text, which Kafka Connect's API shows: write a reference, ${{file:…}}"
        for key in target.deployment.secrets.find_plain()
    ]
    for warning in (*plain, *target.warnings, *more):
        click.secho(escape_controls(f"warning: {warning}"), err=True, fg="yellow")


def _say(line: str) -> None:
    """Print a line that contains texts of the worker."""
    click.echo(escape_controls(line))
