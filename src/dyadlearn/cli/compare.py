"""``dyadlearn compare``: whether one model is really better than another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import compare as compared
from dyadlearn.cli import options
from dyadlearn.cli.models import Loaded, load_model
from dyadlearn.cli.terminal import Terminal

__all__ = ["compare"]


def compare(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files, fitted on the same labels.")],
    *,
    setting: Annotated[
        str | None,
        typer.Option(help="What predictions do without: A, B, C or D; by default what all were tuned for."),
    ] = None,
    scoring: options.OwnScoring = None,
    resamples: Annotated[int, typer.Option(min=10, help="How often instances and tasks are drawn again.")] = 1000,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    sides: options.Sides = None,
    target: options.TableOutput,
    terminal: Terminal,
) -> None:
    """Tell whether one model is really better than another, on the same held-out labels.

    Differences have intervals that hold together, from drawing instances and tasks again.

    For example:

        dyadlearn compare two_step.dyad kronecker.dyad

        dyadlearn compare two_step.dyad kronecker.dyad --setting B

        dyadlearn compare a.dyad b.dyad c.dyad --setting D --scoring average_precision --json
    """
    loaded = {name: load_model(path).named(sides) for name, path in _names(models).items()}
    given: dict[str, Any] = {"scoring": scoring, "n_resamples": resamples, "level": level, "random_state": seed}
    with terminal.working("Hold-out and resamples"):
        found = compared(
            {name: each.model for name, each in loaded.items()},
            setting or _tuned_for(loaded),
            sides=next(iter(loaded.values())).sides,
            **given,
        )
    for note in found.notes:
        terminal.note(note)
    same = ("setting", "scoring", "level", "scores", "best_shares", "methods", "verdict")
    figures = {
        **{name: getattr(found, name) for name in same},
        "differences": [vars(each) for each in found.differences],
        "cells": found.n_cells,
        "resamples": found.n_resamples,
        "undefined": found.n_undefined,
    }
    title = (
        f"Setting {found.setting}, {found.n_cells} labels; {100 * found.level:g} % intervals from drawing "
        f"{found.drawn} again, {found.n_resamples} times"
    )
    columns = found.columns()
    headings = [name if name == found.scoring else name.replace("_", " ") for name in columns]
    terminal.table(columns, figures, title=title, output=target.output, headings=headings, verdict=found.verdict)


def _tuned_for(loaded: dict[str, Loaded]) -> str:
    """Return the one setting that all models were tuned for."""
    settings = {name: getattr(each.model, "holdout_setting_", None) for name, each in loaded.items()}
    own = set(settings.values())
    if len(own) == 1 and None not in own:
        return str(own.pop())
    said = ", ".join(f"{name!r} for {setting or 'none'}" for name, setting in settings.items())
    raise ValueError(
        f"The models were not tuned for one and the same setting ({said}): say which is meant by --setting."
    )


def _names(paths: list[Path]) -> dict[str, Path]:
    """Return what models are called: their files without endings, or whole paths where these are not enough."""
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"{path} stands there twice: name different model files.")
    short = [path.stem for path in paths]
    return {stem if short.count(stem) == 1 else str(path): path for stem, path in zip(short, paths, strict=True)}
