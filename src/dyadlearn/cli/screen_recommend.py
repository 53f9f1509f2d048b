"""``dyadlearn screen`` and ``dyadlearn recommend``: labels that look wrong, and pairs that are worth a try."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import recommend as recommended
from dyadlearn import screen as screened
from dyadlearn import top_pairs
from dyadlearn._files.tables import id_text, write_columns
from dyadlearn.cli.entities import new_side
from dyadlearn.cli.files import Files
from dyadlearn.cli.models import Loaded, load_model
from dyadlearn.cli.options import Force, Json, ModelArgument, Quiet, Sides, check_beside, check_table
from dyadlearn.cli.terminal import Terminal, make_table, number
from dyadlearn.diagnostics.fitted import labelled_model
from dyadlearn.exceptions import IdError
from dyadlearn.sides import SideNames

__all__ = ["recommend", "screen"]

SettingOption = Annotated[
    str, typer.Option(help="What predictions do without: the pair A, its instance B, its task C, both D.")
]
Folds = Annotated[int | None, typer.Option(help="Folds where labels are missing and no shortcut exists.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the list to a table instead.")]


def screen(
    model: ModelArgument,
    k: Annotated[
        int | None, typer.Option("-k", "--top", min=1, help="How many cells to list; 20, with --fdr any.")
    ] = None,
    setting: SettingOption = "A",
    label: Annotated[float | None, typer.Option(help="Cells with this label only, such as 0.")] = None,
    fdr: Annotated[
        float | None,
        typer.Option(help="The longest list with this share of false alarms, as far as it can be estimated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of planted errors, for --fdr of labels of many values.")] = 0,
    cv: Folds = None,
    sides: Sides = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the labels that held-out predictions contradict most: the first to check for mistakes.

    For example:

        dyadlearn screen model.dyad

        dyadlearn screen model.dyad --label 0 -k 100 -o suspicious.csv

        dyadlearn screen model.dyad --fdr 0.5
    """
    with Terminal(json, quiet) as terminal:
        check_table(output, force)
        check_beside(fdr is not None, "--fdr", "seed")
        loaded = load_model(model).named(sides)
        _ = loaded.ids  # which a list in a file must be able to tell apart
        with terminal.working("Hold-out"):
            how: dict[str, Any] = {"label": label, "cv": cv, "fdr": fdr, "random_state": seed, "sides": loaded.sides}
            found = screened(loaded.model, setting, k=20 if k is None and fdr is None else k, **how)
        columns = found.columns()
        figures: dict[str, Any] = {"setting": found.setting, "method": found.method, "cells": _rows(columns)}
        if fdr is not None:
            figures |= {"wrong": found.wrong, "fdr": found.fdr, "recovered": found.recovered}
            terminal.note(found.in_words)
        title = f"Labels that are contradicted most, in setting {found.setting} ({found.method})"
        _tell(columns, figures, title, 2, output, terminal)


def recommend(
    model: ModelArgument,
    subject: Annotated[str | None, typer.Option("--for", metavar="ID", help="A known instance, or task.")] = None,
    new: Annotated[
        list[str] | None,
        typer.Option(
            "--new", metavar="[NAME=]FILE", help="New instances, as predict reads them; with --side task new tasks."
        ),
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="The likeliest pairs of all that are not observed.")] = False,
    k: Annotated[int | None, typer.Option("-k", "--top", min=1, help="How many to name; 10, and 20 pairs.")] = None,
    side: Annotated[
        str | None, typer.Option(help="Whether the id or the file is of instances or of tasks, where it could be both.")
    ] = None,
    setting: SettingOption = "A",
    zeros: Annotated[
        bool | None,
        typer.Option("--zeros/--no-zeros", help="Whether a zero means not observed; by default in 0/1 labels only."),
    ] = None,
    cv: Folds = None,
    smiles: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]COLUMN", help="The column of --new that holds SMILES.")
    ] = None,
    sides: Sides = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Name the best unobserved tasks for an instance, the best instances for a task, or the best pairs of all.

    For example:

        dyadlearn recommend model.dyad --for hsa2099 -k 5

        dyadlearn recommend model.dyad --for D00348 --json

        dyadlearn recommend model.dyad --new new_targets.csv -o wanted.csv

        dyadlearn recommend model.dyad --pairs -k 100
    """
    with Terminal(json, quiet) as terminal:
        check_table(output, force)
        if (subject is not None) + bool(new) + pairs != 1:
            raise ValueError("Say what to recommend for: one of --for, a known id, --new, a file, and --pairs.")
        check_beside(bool(new), "--new", "smiles")
        if pairs and side is not None:
            raise ValueError("--side goes with --for and --new: leave it out.")
        loaded = load_model(model).named(sides)
        role = _role(side, loaded.names)
        how: dict[str, Any] = {"setting": setting, "zeros": zeros, "cv": cv}
        found: Any
        with terminal.working("Predictions" if new else "Hold-out"):
            if new:
                if how != {"setting": "A", "zeros": None, "cv": None}:
                    raise ValueError(
                        "What is new has no labels to leave out: --setting, --zeros and --cv go with --for."
                    )
                found = _for_new(loaded, new, role or "instance", k or 10, smiles, terminal)
            elif subject is not None:
                if not loaded.model.grows and loaded.model._problem().is_listed:
                    raise ValueError(
                        f"{model} was fitted on observed pairs alone, and has not kept the features of those it knows: "
                        f"give the features of {subject} by --new FILE."
                    )
                asked = _subject(loaded, subject, role)
                found = recommended(loaded.model, **asked, k=k or 10, sides=loaded.sides, **how)
            else:
                _ = loaded.ids  # which a list in a file must be able to tell apart
                found = top_pairs(labelled_model(loaded.model), k=k or 20, sides=loaded.sides, **how)
        _tell_recommended(found, loaded, subject, " ".join(new or ()), output, terminal)


def _tell_recommended(
    found: Any, loaded: Loaded, subject: str | None, new: str, output: Path | None, terminal: Terminal
) -> None:
    """Write what is recommended to a file, or print it."""
    names, columns = loaded.names, found.columns()
    kinds = {"tasks": names.tasks, "instances": names.instances}
    figures = {"setting": found.setting, "method": found.method, "best": _rows(columns)}
    if subject is None and not new:
        title, of, left = "Likeliest pairs that are not observed", "pairs", 2
    elif subject is not None:
        of, left = kinds[found.of], 1
        title, figures = f"Best {of} for {subject} that are not observed", {"for": subject, **figures}
    else:
        of, left = kinds[found.of], 2
        whom = kinds["instances" if found.of == "tasks" else "tasks"]
        title, figures = f"Best {of} for each of {len(found)} new {whom}", {"for": new, **figures}
    _tell(columns, {"recommended": of, **figures}, title, left, output, terminal)


def _for_new(loaded: Loaded, given: list[str], role: str, k: int, smiles: list[str] | None, terminal: Terminal) -> Any:
    """Return what is best for the new instances or tasks in a file, or in all files that describe them."""
    place = 0 if role == "instance" else 1
    recipe = (loaded.instances, loaded.tasks)[place]
    if recipe is None:
        raise ValueError(f"The model knows nothing of {loaded.names.tasks} and cannot predict for new ones.")
    new = new_side(Files.of(given, "--new"), recipe, loaded.ids[place], terminal, smiles=smiles)
    rows: dict[str, Any] = {"X" if place == 0 else "tasks": new}
    return recommended(loaded.model, **rows, k=k, sides=loaded.sides)


def _role(side: str | None, names: SideNames) -> str | None:
    """Return which side is meant, by its own name or by that of its role."""
    words = {names.instance: "instance", names.task: "task", "instance": "instance", "task": "task"}
    if side is not None and side not in words:
        raise ValueError(f"--side is {names.instance} or {names.task}, found {side!r}.")
    return None if side is None else words[side]


def _subject(loaded: Loaded, subject: str, side: str | None) -> dict[str, Any]:
    """Return which instance or task is meant, as the library takes it."""
    names = loaded.names
    if getattr(loaded.model, "grows", False) and side != "task":
        # Those that an online model has kept with their labels; the library says what it lacks.
        kept = loaded.model._learnt.kept.ids
        own = () if kept is None else kept.labels
        return {"instance": next((label for label in own if id_text(label) == subject), subject)}
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
        what = {None: " or ".join(dict.fromkeys(names)), "instance": names.instance, "task": names.task}[side]
        raise IdError(f"The model knows no {what} {subject!r}{such}.")
    if len(places) > 1 and loaded.ids[0] == loaded.ids[1]:
        return {"instance": places["instance"]}  # a node of a network
    if len(places) > 1:
        raise IdError(f"{subject!r} is {_a(names.instance)} and {_a(names.task)}: say which by --side.")
    return places


def _a(word: str) -> str:
    return f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"


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
