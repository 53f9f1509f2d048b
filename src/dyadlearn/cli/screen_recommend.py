"""``dyadlearn screen`` and ``dyadlearn recommend``: labels that look wrong, and pairs that are worth a try."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import recommend as recommended
from dyadlearn import screen as screened
from dyadlearn._files.tables import write_columns
from dyadlearn.cli.models import Loaded, load_model
from dyadlearn.cli.options import Force, Json, ModelArgument, Quiet, check_table
from dyadlearn.cli.terminal import Terminal, make_table, number
from dyadlearn.diagnostics.fitted import labelled_model
from dyadlearn.exceptions import IdError

__all__ = ["recommend", "screen"]

SettingOption = Annotated[
    str, typer.Option(help="What predictions do without: the pair A, its instance B, its task C, both D.")
]
Folds = Annotated[int | None, typer.Option(help="Folds where labels are missing and no shortcut exists.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the list to a table instead.")]


def screen(
    model: ModelArgument,
    k: Annotated[int, typer.Option("-k", min=1, help="How many cells to list.")] = 20,
    setting: SettingOption = "A",
    label: Annotated[float | None, typer.Option(help="Cells with this label only, such as 0.")] = None,
    cv: Folds = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the labels that held-out predictions contradict most: the first to check for mistakes.

    For example:

        dyadlearn screen model.dyad

        dyadlearn screen model.dyad --label 0 -k 100 -o suspicious.csv
    """
    with Terminal(json, quiet) as terminal:
        check_table(output, force)
        loaded = load_model(model)
        _ = loaded.ids  # which a list in a file must be able to tell apart
        with terminal.working("Hold-out"):
            found = screened(loaded.model, setting, k=k, label=label, cv=cv)
        figures = {"setting": found.setting, "method": found.method, "cells": _rows(found.columns())}
        title = f"Labels that are contradicted most, in setting {found.setting} ({found.method})"
        _tell(found.columns(), figures, title, 2, output, terminal)


def recommend(
    model: ModelArgument,
    subject: Annotated[str, typer.Option("--for", metavar="ID", help="An instance, or a task.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many to name.")] = 10,
    side: Annotated[
        str | None, typer.Option(help="Whether the id is of an instance or of a task, where it could be either.")
    ] = None,
    setting: SettingOption = "A",
    zeros: Annotated[
        bool | None,
        typer.Option("--zeros/--no-zeros", help="Whether a zero means not observed; by default in 0/1 labels only."),
    ] = None,
    cv: Folds = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Name the best unobserved tasks for an instance, or the best instances for a task.

    For example:

        dyadlearn recommend model.dyad --for hsa2099 -k 5

        dyadlearn recommend model.dyad --for D00348 --json
    """
    with Terminal(json, quiet) as terminal:
        check_table(output, force)
        loaded = load_model(model)
        asked = _subject(loaded, subject, side)
        with terminal.working("Hold-out"):
            found = recommended(labelled_model(loaded.model), **asked, k=k, setting=setting, zeros=zeros, cv=cv)
        figures = {
            "for": subject,
            "recommended": found.of,
            "setting": found.setting,
            "method": found.method,
            "best": _rows(found.columns()),
        }
        title = f"Best {found.of} for {subject} that are not observed"
        _tell(found.columns(), figures, title, 1, output, terminal)


def _subject(loaded: Loaded, subject: str, side: str | None) -> dict[str, Any]:
    """Return which instance or task is meant, as the library takes it."""
    if side not in (None, "instance", "task"):
        raise ValueError(f"--side is instance or task, found {side!r}.")
    shape = labelled_model(loaded.model)._grid.values.shape
    places: dict[str, Any] = {}
    for word, ids, own, count in zip(("instance", "task"), loaded.ids, loaded.own_ids, shape, strict=True):
        if ids is None or own is None:
            if subject.isdecimal() and int(subject) < count:
                places[word] = int(subject)
        elif subject in ids.labels:
            places[word] = own.labels[ids.labels.index(subject)]
    if side is not None:
        places = {word: place for word, place in places.items() if word == side}
    if not places:
        known = [ids.labels[0] for ids in loaded.ids if ids is not None]
        such = f" (ids are such as {', '.join(map(repr, known))})" if known else ""
        raise IdError(f"The model knows no {side or 'instance or task'} {subject!r}{such}.")
    if len(places) > 1 and loaded.ids[0] == loaded.ids[1]:
        return {"instance": places["instance"]}  # a node of a network
    if len(places) > 1:
        raise IdError(f"{subject!r} is an instance and a task: say which by --side.")
    return places


def _rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]


def _tell(
    columns: dict[str, list[Any]],
    figures: dict[str, Any],
    title: str,
    left: int,
    output: Path | None,
    terminal: Terminal,
) -> None:
    """Write a list to a file, or print it."""
    if output is not None:
        write_columns(output, columns)
        figures = {**figures, "output": str(output)}
        terminal.result(figures)
        terminal.say(f"Wrote {len(next(iter(columns.values())))} rows to {output}.")
        return
    lines = [
        [str(cell) if place < left else number(cell) for place, cell in enumerate(line)]
        for line in zip(*columns.values(), strict=True)
    ]
    terminal.result(figures, title, make_table(list(columns), lines, left=left))
