"""``dyadlearn compare``: whether one model is really better than another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import compare as compared
from dyadlearn._files.tables import write_columns
from dyadlearn.cli import options
from dyadlearn.cli.models import load_model
from dyadlearn.cli.options import Force, Json, Quiet, Sides, check_table
from dyadlearn.cli.terminal import Terminal, make_table, number

__all__ = ["compare"]


def compare(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files, fitted on the same labels.")],
    setting: Annotated[
        str, typer.Option(help="What predictions do without: the pair A, its instance B, its task C, both D.")
    ],
    scoring: Annotated[
        str | None,
        typer.Option(help=f"What is better; by default what all were chosen by. One of {options.SCORES}."),
    ] = None,
    resamples: Annotated[int, typer.Option(min=10, help="How often instances and tasks are drawn again.")] = 1000,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    sides: Sides = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the table to a file instead.")] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell whether one model is really better than another, on the same held-out labels.

    Differences have intervals that hold together, from drawing instances and tasks again.

    For example:

        dyadlearn compare two_step.dyad kronecker.dyad --setting B

        dyadlearn compare a.dyad b.dyad c.dyad --setting D --scoring average_precision --json
    """
    with Terminal(json, quiet) as terminal:
        check_table(output, force)
        loaded = {name: load_model(path).named(sides) for name, path in _names(models).items()}
        given: dict[str, Any] = {"n_resamples": resamples, "level": level, "random_state": seed}
        with terminal.working("Hold-out and resamples"):
            found = compared(
                {name: each.model for name, each in loaded.items()},
                setting,
                scoring=scoring,
                sides=next(iter(loaded.values())).sides,
                **given,
            )
        for note in found.notes:
            terminal.note(note)
        figures: dict[str, Any] = {
            "setting": found.setting,
            "scoring": found.scoring,
            "level": found.level,
            "scores": found.scores,
            "differences": [vars(each) for each in found.differences],
            "best_shares": found.best_shares,
            "methods": found.methods,
            "cells": found.n_cells,
            "resamples": found.n_resamples,
            "undefined": found.n_undefined,
            "verdict": found.verdict,
        }
        columns = found.columns()
        if output is not None:
            write_columns(output, columns)
            terminal.result({**figures, "output": str(output)})
            terminal.say(f"Wrote {len(found.scores)} rows to {output}.", found.verdict)
            return
        title = (
            f"Setting {found.setting}, {found.n_cells} labels; {100 * found.level:g} % intervals from drawing "
            f"{found.drawn} again, {found.n_resamples} times"
        )
        lines = [[str(line[0]), *map(number, line[1:])] for line in zip(*columns.values(), strict=True)]
        terminal.result(figures, title, make_table([name.replace("_", " ") for name in columns], lines), found.verdict)


def _names(paths: list[Path]) -> dict[str, Path]:
    """Return what models are called: their files without endings, or whole paths where these are not enough."""
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"{path} stands there twice: name different model files.")
    short = [path.stem for path in paths]
    return {stem if short.count(stem) == 1 else str(path): path for stem, path in zip(short, paths, strict=True)}
