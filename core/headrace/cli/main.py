"""The ``headrace`` program: its commands, commands of plugins, and error handling."""

from __future__ import annotations

import errno
import logging
import os
import sys
import warnings
from typing import Any

import click

from headrace import __version__
from headrace.cli import error_report
from headrace.cli.commands.check import check
from headrace.cli.commands.completion import completion
from headrace.cli.commands.dead_letters import dead_letters
from headrace.cli.commands.doctor import doctor
from headrace.cli.commands.epoch import epoch
from headrace.cli.commands.jars import jars
from headrace.cli.commands.log import log
from headrace.cli.commands.maintain import maintain
from headrace.cli.commands.new import new
from headrace.cli.commands.package import package
from headrace.cli.commands.plugins import plugins
from headrace.cli.commands.replay import replay
from headrace.cli.commands.resync import resync
from headrace.cli.commands.run import run
from headrace.cli.commands.schema import schema
from headrace.cli.commands.show import show
from headrace.cli.commands.status import status
from headrace.cli.commands.tables import tables
from headrace.cli.commands.version import version
from headrace.cli.lazy_command import LazyCommand, PluginServices
from headrace.cli.signals import interruptible


class Program(click.Group):
    """Group of the built-in commands in the order of first use, then commands of plugins."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *(name for name in _plugin_commands() if name not in self.commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = self.commands.get(cmd_name) or _plugin_commands().get(cmd_name)
        return error_report.with_traceback_option(command) if command else None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with interruptible():
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            ctx.exit(error_report.INTERRUPTED)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe has closed it; click ends quietly
                raise
            ctx.exit(error_report.report(error))
        except Exception as error:  # noqa: BLE001 - the user gets a message for any error of a plugin or Spark
            ctx.exit(error_report.report(error))


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="headrace", message="headrace %(version)s")
@error_report.traceback_option
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Keep lakehouse tables equal to databases, from their change events."""
    ctx.obj = PluginServices
    if os.environ.get("NO_COLOR"):
        ctx.color = False


for _command in (
    run,
    check,
    doctor,
    status,
    show,
    tables,
    maintain,
    dead_letters,
    replay,
    epoch,
    resync,
    log,
    plugins,
    schema,
    jars,
    package,
    new,
    completion,
    version,
):
    cli.add_command(_command)


def main() -> None:
    """Run the console script."""
    if not sys.warnoptions:
        # Warnings for developers: a user of the program cannot act on them.
        warnings.simplefilter("ignore")
    # py4j also logs the errors that it raises, and the end of a JVM that was stopped.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    cli(prog_name="headrace")


def _plugin_commands() -> dict[str, click.Command]:
    from headrace.registry.plugin_registry import registry

    plugins = registry()
    items = [plugins.find("command", name) for name in plugins.names("command")]
    return {item.name: LazyCommand(item) for item in items if item.has_name}
