"""``headrace completion``."""

from __future__ import annotations

import click

#: Variable with which click asks the program for completions.
_VARIABLE = "_HEADRACE_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and file names in a shell.

    \b
    bash  eval "$(headrace completion bash)"          in ~/.bashrc; requires bash 4.4
    zsh   eval "$(headrace completion zsh)"           in ~/.zshrc, after compinit
    fish  headrace completion fish | source           in ~/.config/fish/config.fish
    """  # noqa: D301 - click's mark for lines that it must not join
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "headrace", _VARIABLE).source())
