"""``dyadlearn explain``: which training labels one prediction comes from.

``dyadlearn screen`` and ``dyadlearn recommend``: labels that look wrong, and pairs that are worth a try.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dyadlearn import explain as explained
from dyadlearn import recommend as recommended
from dyadlearn import screen as screened
from dyadlearn import top_pairs
from dyadlearn._files.tables import write_columns
from dyadlearn._tables import id_text
from dyadlearn._text import number
from dyadlearn.cli import options
from dyadlearn.cli.entities import n_entities, take_rows
from dyadlearn.cli.models import Loaded, ModelFile
from dyadlearn.cli.options import check_beside, given_options
from dyadlearn.cli.terminal import Terminal, as_rows, column_table
from dyadlearn.exceptions import IdError

_KINDS = ("pair", "instance", "task")


def explain(
    source: ModelFile,
    *,
    instance: Annotated[str | None, typer.Option(metavar="ID", help="An instance, of training or of a file.")] = None,
    task: Annotated[str | None, typer.Option(metavar="ID", help="A task, of training or of a file.")] = None,
    new_instance: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]FILE", help="New instances; one row, or --instance says which.")
    ] = None,
    new_task: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]FILE", help="New tasks; one row, or --task says which.")
    ] = None,
    top: Annotated[int, typer.Option("-k", "--top", min=1, help="How many contributions to list of each kind.")] = 10,
    by: Annotated[str, typer.Option(help="What is written with -o: by pair, instance or task.")] = "pair",
    instances_smiles: options.SmilesOfInstances = None,
    tasks_smiles: options.SmilesOfTasks = None,
    target: options.TableOutput,
    terminal: Terminal,
) -> None:
    """Tell which training labels a prediction comes from: by pair, by instance and by task, each summing to it.

    For example:

        dyadlearn explain model.dyad --instance hsa2099 --task D00348

        dyadlearn explain model.dyad --new-instance new_targets.csv --instance hsa5468 --task D00348 --json
    """
    check_beside(new_instance, "--new-instance", "instances_smiles")
    check_beside(new_task, "--new-task", "tasks_smiles")
    loaded = source.load()
    kind = loaded.role(by, "--by", ("instance", "task"), "pair") or by
    check_beside(target.output, "--output", "by")
    asked = (
        _asked(loaded, 0, instance, new_instance, instances_smiles, terminal),
        _asked(loaded, 1, task, new_task, tasks_smiles, terminal),
    )
    with terminal.working("Weighing labels"):
        found = explained(loaded.model, *asked, top=top, sides=loaded.sides)
    if found.note:
        terminal.note(found.note)
    same = ("instance", "task", "setting", "prediction", "label")
    figures: dict[str, Any] = {name: getattr(found, name) for name in same}
    if target.output is not None:
        write_columns(target.output, found.columns(kind))
        terminal.result({**figures, "output": str(target.output)})
        terminal.say(f"Wrote {len(found.by(kind))} rows to {target.output}.")
        return
    tables = []
    for kind in _KINDS[:2] if found.is_network else _KINDS:
        columns, listed = found.columns(kind), found.by(kind)
        left = len(columns) - 3
        others = [f"{listed.n_rest} others", *[""] * (left - 1), number(listed.rest_weight), "", number(listed.rest)]
        headings = [name.replace("_", " ") for name in columns]
        tables.append(column_table(columns, left, headings, [others] if listed.n_rest else []))
        rest = {"count": listed.n_rest, "weight": listed.rest_weight, "contribution": listed.rest}
        figures[f"{kind}s"] = {"listed": as_rows(columns), "rest": rest}
    title = f"{number(found.prediction)} is predicted for {found.subject}, which comes from:"
    terminal.result(figures, title, *tables)


def _asked(
    loaded: Loaded,
    side: int,
    wanted: str | None,
    given: list[str] | None,
    smiles: list[str] | None,
    terminal: Terminal,
) -> Any:
    """Return an instance (side 0) or a task as the library takes it: an id, a position, or one row of a file."""
    word, ids, own = ("instance", "task")[side], loaded.ids[side], loaded.own_ids[side]
    if given:
        how = {"smiles": smiles, "smiles_option": f"--{word}s-smiles", "asked": None if wanted is None else [wanted]}
        rows = loaded.new(given, side, f"--new-{word}", terminal, **how)
        if wanted is not None and rows.row_ids is not None:
            return take_rows(rows, rows.row_ids.positions([wanted], given[0]))
        if n_entities(rows) != 1:
            raise ValueError(f"{given[0]} has {n_entities(rows)} rows: say which {word} is meant by --{word}.")
        return rows
    if wanted is None:
        raise ValueError(f"Say which {word} is meant: give --{word}, an id of training, or --new-{word}, a file.")
    if ids is None or own is None:
        if not wanted.isdecimal():
            raise IdError(f"The model has no ids for {word}s: --{word} is a position from 0, found {wanted!r}.")
        return int(wanted)
    return own.labels[int(ids.positions([wanted], f"the {loaded.names.both[side]}")[0])]


def screen(
    source: ModelFile,
    *,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="How many cells to list.")] = 20,
    setting: options.SettingOption = "A",
    label: Annotated[float | None, typer.Option(help="Cells with this label only, such as 0.")] = None,
    cv: options.Folds = None,
    target: options.TableOutput,
    terminal: Terminal,
) -> None:
    """List the labels that held-out predictions contradict most: the first to check for mistakes.

    For example:

        dyadlearn screen model.dyad

        dyadlearn screen model.dyad --label 0 -k 100 -o suspicious.csv
    """
    loaded = source.load()
    _ = loaded.ids  # which a list in a file must be able to tell apart
    with terminal.working("Hold-out"):
        found = screened(loaded.model, setting, k=k, label=label, cv=cv, sides=loaded.sides)
    columns = found.columns()
    figures = {"setting": found.setting, "method": found.method, "cells": as_rows(columns)}
    title = f"Labels that are contradicted most, in setting {found.setting} ({found.method})"
    terminal.table(columns, figures, title=title, output=target.output, left=2)


def recommend(
    source: ModelFile,
    *,
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
    setting: options.SettingOption = "A",
    zeros: Annotated[
        bool | None,
        typer.Option("--zeros/--no-zeros", help="Whether a zero means not observed; by default in 0/1 labels only."),
    ] = None,
    cv: options.Folds = None,
    smiles: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]COLUMN", help="The column of --new that holds SMILES.")
    ] = None,
    target: options.TableOutput,
    terminal: Terminal,
) -> None:
    """Name the best unobserved tasks for an instance, the best instances for a task, or the best pairs of all.

    For example:

        dyadlearn recommend model.dyad --for hsa2099 -k 5

        dyadlearn recommend model.dyad --for D00348 --json

        dyadlearn recommend model.dyad --new new_targets.csv -o wanted.csv

        dyadlearn recommend model.dyad --pairs -k 100
    """
    if (subject is not None) + bool(new) + pairs != 1:
        raise ValueError("Say what to recommend for: one of --for, a known id, --new, a file, and --pairs.")
    check_beside(new, "--new", "smiles")
    if pairs and side is not None:
        raise ValueError("--side goes with --for and --new: leave it out.")
    if new and given_options("setting", "zeros", "cv"):
        raise ValueError("What is new has no labels to leave out: --setting, --zeros and --cv go with --for.")
    loaded = source.load()
    role = loaded.role(side, "--side", ("instance", "task"))
    how: dict[str, Any] = {"setting": setting, "zeros": zeros, "cv": cv, "sides": loaded.sides}
    found: Any
    with terminal.working("Predictions" if new else "Hold-out"):
        if new:
            place = 1 if role == "task" else 0
            rows: dict[str, Any] = {("X", "tasks")[place]: loaded.new(new, place, "--new", terminal, smiles=smiles)}
            found = recommended(loaded.model, **rows, k=k or 10, sides=loaded.sides)
        elif subject is not None:
            found = recommended(loaded.model, **_subject(loaded, subject, role), k=k or 10, **how)
        else:
            _ = loaded.ids  # which a list in a file must be able to tell apart
            found = top_pairs(loaded.model, k=k or 20, **how)
    kinds = {"tasks": loaded.names.tasks, "instances": loaded.names.instances}
    of = "pairs" if pairs else kinds[found.of]
    if pairs:
        title = "Likeliest pairs that are not observed"
    elif subject is not None:
        title = f"Best {of} for {subject} that are not observed"
    else:
        whom = kinds["instances" if found.of == "tasks" else "tasks"]
        title = f"Best {of} for each of {len(found)} new {whom}"
    columns = found.columns()
    figures = {
        "recommended": of,
        **({} if pairs else {"for": subject or " ".join(new or ())}),
        "setting": found.setting,
        "method": found.method,
        "best": as_rows(columns),
    }
    terminal.table(columns, figures, title=title, output=target.output, left=1 if subject is not None else 2)


def _subject(loaded: Loaded, subject: str, side: str | None) -> dict[str, Any]:
    """Return which instance or task is meant, as the library takes it."""
    names, model = loaded.names, loaded.model
    if model.grows and side != "task":
        # Those that an online model has kept with their labels; the library says what it lacks.
        kept = model._learnt.kept.ids
        own = () if kept is None else kept.labels
        return {"instance": next((label for label in own if id_text(label) == subject), subject)}
    if not model.grows and model.fitted_.labels.grid is None:
        raise ValueError(
            f"{loaded.path} was fitted on observed pairs alone, and has not kept the features of those it knows: "
            f"give the features of {subject} by --new FILE."
        )
    shape = model.fitted_.labels.shape
    places: dict[str, Any] = {}
    for word, ids, own, count in zip(("instance", "task"), loaded.ids, loaded.own_ids, shape, strict=True):
        if side not in (None, word):
            continue
        if ids is None or own is None:
            if subject.isdecimal() and int(subject) < count:
                places[word] = int(subject)
        elif subject in ids.labels:
            places[word] = own.labels[ids.labels.index(subject)]
    if not places:
        known = [ids.labels[0] for ids in loaded.ids if ids is not None]
        such = f" (ids are such as {', '.join(map(repr, known))})" if known else ""
        what = {None: " or ".join(dict.fromkeys(names)), "instance": names.instance, "task": names.task}[side]
        raise IdError(f"The model knows no {what} {subject!r}{such}.")
    if len(places) > 1 and loaded.ids[0] == loaded.ids[1]:
        return {"instance": places["instance"]}  # a node of a network
    if len(places) > 1:
        raise IdError(f"{subject!r} is among the {names.instances} and the {names.tasks}: say which by --side.")
    return places
