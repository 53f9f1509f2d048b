"""The command ``dyadlearn``. The only package that loads typer and rich."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dyadlearn import __version__
from dyadlearn.cli import answers, demo, evaluate, fitting, inspect, predict, update
from dyadlearn.cli.options import taking_options
from dyadlearn.cli.terminal import INTERRUPTED, NOTHING_WRITTEN, Commands

__all__ = ["app", "main"]

app = typer.Typer(
    cls=Commands,
    help="Learn from labelled pairs of instances and tasks.",
    epilog="Exit codes: 0 done; 1 a bug; 2 wrong usage or input; 3 a bad model file; 4 something the machine lacks (a "
    "package, room on the disk, memory, a network); 5 another process changed the model file meanwhile, run again; "
    "6 the model file was updated before something went wrong, do not run again; 130 interrupted.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dyadlearn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn from labelled pairs of instances and tasks."""


for _command in (
    demo.demo,
    fitting.tune,
    fitting.learn,
    evaluate.evaluate,
    evaluate.compare,
    predict.predict,
    update.update,
    evaluate.permute,
    answers.screen,
    answers.recommend,
    answers.explain,
    inspect.inspect,
    inspect.report,
):
    app.command()(taking_options(_command))
app.add_typer(demo.app, name="datasets")


def main() -> None:
    """Run the command."""
    try:
        app()
    except KeyboardInterrupt:  # before there was a command that could tell
        typer.echo(f"dyadlearn: {NOTHING_WRITTEN}", err=True)
        sys.exit(INTERRUPTED)
