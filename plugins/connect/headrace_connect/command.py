"""Command ``headrace connect``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from headrace.sdk import ConfigError, HeadraceError
from headrace.sdk.commands import BlockGroup
from headrace_connect.connect_config import CONFIG_KEY, ConnectConfig

if TYPE_CHECKING:
    from headrace_connect.deployment import ConnectorStatus, Deployment


class _ConnectGroup(BlockGroup):
    """Group of the commands, listed in the order of a deployment."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


connect = _ConnectGroup(
    "connect",
    ConnectConfig,
    kept=(CONFIG_KEY,),
    help="""Deploy and control the connector that captures the changes.

    The block `connect:` of FILE describes a connector of Kafka Connect. Defaults that fit the pipeline are added.
    """,
)


@dataclass(frozen=True)
class _Target:
    """Connector of a pipeline file, warnings about its block, and the options of its preflight and of MSK Connect."""

    deployment: Deployment
    warnings: list[str]
    preflight: dict[str, str | None]
    msk: dict[str, Any]


_file = click.argument("file")
_timeout = click.option(
    "--timeout", type=click.FloatRange(min=0), default=60, show_default=True, help="Seconds to wait for the connector."
)
_yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@connect.command()
@_file
def validate(file: str) -> None:
    """Validate the connector's configuration.

    Kafka Connect and the connector check each option; Debezium's connectors also try the login to the database. Nothing is changed.
    """
    with _open_target(file) as target:
        warnings = target.warnings + target.deployment.validate()
        _show_warnings(warnings)
        click.echo(f"{target.deployment.place}: the configuration is valid")


@connect.command()
@_file
def preflight(file: str) -> None:
    """Check the database for settings that lose changes.

    Each finding is one line with the statement that fixes it. Nothing is changed. `headrace check FILE --source` runs the same checks.
    """
    from headrace_connect.preflight.source_database import check_database

    with _open_target(file) as target:
        merged = {**target.deployment.options, **target.preflight}
        findings = check_database({key: value for key, value in merged.items() if value is not None})
        for finding in findings:
            click.secho(str(finding), fg="yellow" if finding.is_warning else "red")
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
    with _open_target(file) as opened:
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

    with _open_target(file) as target:
        found = target.deployment.status()
        if form == "json":
            parts = {"connector": found.state, "worker": found.worker, "trace": found.trace, "tasks": list(found.tasks)}
            click.echo(json.dumps({"name": target.deployment.name, **parts}))
        else:
            click.echo(f"{target.deployment.place}: {describe_status(found)}")
        if found.failures:
            raise target.deployment.explain_failure(found.failures)


@connect.command()
@_file
@_timeout
def pause(file: str, *, timeout: float) -> None:
    """Pause the connector; it keeps its position."""
    with _open_target(file) as target:
        target.deployment.status()
        target.deployment.control("pause")
        _wait(target.deployment, "PAUSED", timeout)


@connect.command()
@_file
@_timeout
def resume(file: str, *, timeout: float) -> None:
    """Continue a connector that is paused or stopped."""
    with _open_target(file) as target:
        before = target.deployment.status()
        target.deployment.control("resume")
        _wait(target.deployment, "RUNNING", timeout, before)


@connect.command()
@_file
@click.option("--all", "restarts_all", is_flag=True, help="Also restart the connector and tasks that run.")
@_timeout
def restart(file: str, *, restarts_all: bool, timeout: float) -> None:
    """Restart the connector and tasks that failed."""
    with _open_target(file) as target:
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

    with _open_target(file) as target:
        deployment = target.deployment
        for offset in deployment.read_offsets():
            click.echo(json.dumps(offset))
        if not reset:
            return
        _confirm(f"delete the offsets of {deployment.place}? It then starts with a new snapshot", is_confirmed=yes)
        reset_offsets(deployment, timeout)
        click.echo(f"{deployment.place}: {describe_status(deployment.status())}")


@connect.command()
@_file
@_yes
@_timeout
def delete(file: str, *, yes: bool, timeout: float) -> None:
    """Delete the connector.

    Its topics and its offsets in Kafka Connect stay, and so do the replication slot and the publication of PostgreSQL: a connector of the
    same name continues from there.
    """
    with _open_target(file) as target:
        deployment = target.deployment
        deployment.status()
        slot = (deployment.read_options() or {}).get("slot.name")
        _confirm(f"delete {deployment.place}?", is_confirmed=yes)
        deployment.delete(timeout)
        click.echo(f"{deployment.place}: deleted")
        if slot:
            what = "PostgreSQL keeps its log for the slot of the connector until you drop it"
            click.echo(f"{what}: select pg_drop_replication_slot('{slot}')")


def _deploy_to_workers(target: _Target, file: str, timeout: float, *, dry_run: bool, is_confirmed: bool) -> None:
    from headrace_connect.connector_diff import describe_differences

    deployment = target.deployment
    _show_warnings(target.warnings + deployment.validate())
    deployed, before = deployment.read_options(), deployment.find_status()
    differences = describe_differences(deployed or {}, deployment.options)
    _show_differences(deployment.place, differences, is_new=deployed is None)
    if dry_run:
        return
    if deployed is None or differences:
        _confirm_takeover(deployment.place, deployed or {}, deployment.options, is_confirmed=is_confirmed)
        deployment.put()
    if before and before.state in ("PAUSED", "STOPPED"):
        click.echo(f"the connector is {before.state}: `headrace connect resume {file}` starts it")
        return
    _wait(deployment, "RUNNING", timeout, before if differences else None)


def _deploy_to_msk(target: _Target, *, dry_run: bool, is_confirmed: bool) -> None:
    from headrace_connect.msk_connect import MskConnector

    connector = MskConnector(target.deployment.name, target.deployment.options, target.msk)
    _show_warnings(target.warnings)
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
        found, options = deployed["connectorConfiguration"], target.deployment.options
        _confirm_takeover(connector.place, found, options, is_confirmed=is_confirmed)
        state = connector.update(deployed)
    click.echo(f"{connector.place}: {state}")


def _show_differences(place: str, differences: list[str], *, is_new: bool) -> None:
    change = "new" if is_new else "changed" if differences else "unchanged"
    click.echo("\n".join([f"{place}: {change}", *(f"  {line}" for line in differences)]))


@contextmanager
def _open_target(file: str) -> Iterator[_Target]:
    """Yield the connector of a pipeline file; errors of the block contain no secret of its configuration."""
    from headrace_connect.captured_tables import list_topics
    from headrace_connect.connect_client import ConnectClient
    from headrace_connect.connector_defaults import complete_options
    from headrace_connect.connector_diff import find_plain_secrets
    from headrace_connect.deployment import Deployment, hide_values
    from headrace_connect.source_block import find_unread_topics

    config, pipeline = connect.load(file)
    name = config.name or str(pipeline.get("name") or "")
    if not name:
        raise ConfigError("the connector has no name", where=f"{file} connect", fix="add `name:` to the file")
    login = config.basic_auth_user_info
    client = ConnectClient(config.url, login=login.get_secret_value() if login else None, ca=config.ssl_ca_location)
    options = complete_options(config.connector_options(), name, pipeline)
    secrets = find_plain_secrets(options)
    warnings = [
        f"{key} is plain text, which Kafka Connect's API shows: write a reference, ${{file:…}}" for key in secrets
    ]
    warnings += [
        f"the source of the pipeline does not read the topic {topic}, which the connector writes"
        for topic in find_unread_topics(pipeline, list_topics(options))
    ]
    try:
        yield _Target(Deployment(client, name, options), warnings, config.preflight_options(), config.msk)
    except HeadraceError as error:
        raise error.redact(
            hide_values([*secrets.values(), *find_plain_secrets(config.preflight_options()).values()])
        ) from error.__cause__


def _wait(deployment: Deployment, state: str, timeout: float, before: ConnectorStatus | None = None) -> None:
    from headrace_connect.deployment import SETTLE, describe_status

    deployment.wait_for(state, timeout, before, settle=SETTLE if state == "RUNNING" else 0)
    click.echo(f"{deployment.place}: {describe_status(deployment.status())}")


def _confirm_takeover(place: str, before: Mapping[str, str], after: Mapping[str, str], *, is_confirmed: bool) -> None:
    from headrace_connect.connector_diff import describe_takeover

    if others := describe_takeover(before, after):
        _confirm(
            f"{place} may be of another pipeline: its {'; its '.join(others)}. Replace it?", is_confirmed=is_confirmed
        )


def _confirm(question: str, *, is_confirmed: bool) -> None:
    if not is_confirmed:
        click.confirm(question, abort=True, err=True)


def _show_warnings(warnings: list[str]) -> None:
    for warning in warnings:
        click.secho(f"warning: {warning}", err=True, fg="yellow")
