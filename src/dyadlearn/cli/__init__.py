"""The command ``dyadlearn``. The only package that loads typer and rich."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from dyadlearn import __version__
from dyadlearn.cli import commands
from dyadlearn.cli.options import make_command
from dyadlearn.cli.terminal import Commands, interrupted

__all__ = ["app", "main"]

app = typer.Typer(
    cls=Commands,
    help="Learn from labelled pairs of instances and tasks.",
    epilog="Exit codes: 0 done; 1 a bug; 2 wrong usage or input; 3 a bad model file; 4 something "
    "the machine lacks (a "
    "package, disk space, memory, a network); 5 another process changed the model file meanwhile, "
    "run again; "
    "130 interrupted; 143 terminated.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dyadlearn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Learn from labelled pairs of instances and tasks."""


for _kind in vars(commands).values():
    if isinstance(_kind, type) and _kind.__module__ == commands.__name__:
        app.command()(make_command(_kind))


def main(loaded: Callable[[], object] = lambda: None) -> None:
    """Run the command line; `loaded` is called when the modules of the command are imported."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    try:
        app(obj=loaded)
    except KeyboardInterrupt as error:
        # No command was started, which would print this message.
        code, words = interrupted(error)
        typer.echo(f"dyadlearn: {words}", err=True)
        sys.exit(code)
