"""``dyadlearn predict``, ``dyadlearn recommend`` and ``dyadlearn screen``: the answers of a fitted model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn._array import to_numpy
from dyadlearn._files.tables import read_cells, write_columns, write_grid
from dyadlearn._tables import Ids, shown
from dyadlearn._text import number
from dyadlearn.cli.commands import Predict, Recommend, Screen
from dyadlearn.cli.entities import Entities, each_table, n_entities
from dyadlearn.cli.models import Loaded, load, one_setting
from dyadlearn.cli.options import given_options
from dyadlearn.cli.terminal import Terminal, as_rows, column_table
from dyadlearn.diagnostics.calibration import Calibration, settings_of
from dyadlearn.diagnostics.fitted import fitted_of
from dyadlearn.exceptions import DataFileError, IdError
from dyadlearn.models.reading import is_large
from dyadlearn.settings import Setting


def predict(given: Predict, terminal: Terminal) -> None:
    """Predict for new instances and tasks, or explain one prediction."""
    loaded = load(given)
    if given.explain:
        _explain(given, loaded, terminal)
        return
    if not given.instances and not given.tasks:
        raise ValueError("Give --instances, --tasks or both: new ones, or those of training for known pairs.")
    if given.interval is not None and not 0 < given.interval < 1:
        raise ValueError(f"--interval must be a share between 0 and 1, such as 0.9, found {given.interval:g}.")
    if given.interval is not None and given.probability:
        raise ValueError("--interval bounds labels, not probabilities: leave out one of the two.")
    asked: tuple[Any, Any] = (None, None) if given.pairs is None else _labels_of(given.pairs)
    sides = [_new(given, loaded, place, asked[place], terminal) for place in (0, 1)]
    output, names = given.output, loaded.names
    word, words = ("probability", "probabilities") if given.probability else ("prediction", "predictions")
    X, T = (_with_own_ids(loaded, place, side) for place, side in enumerate(sides))
    shape = tuple(_size(loaded, place, side) for place, side in enumerate(sides))
    rows, columns = (_ids(loaded, place, side, shape[place]) for place, side in enumerate(sides))
    figures: dict[str, Any] = {"instances": shape[0], "tasks": shape[1]}
    predicted = loaded.model.predict
    if given.probability:
        calibration = _calibrated(loaded, terminal, X, T)
        predicted, figures["calibration"] = calibration.predict, calibration.columns()
    content: dict[str, Any] = {}
    is_printed = output is None and terminal.json
    if given.pairs is None and not given.long and given.interval is None:
        grid, done = _grid(predicted(X, tasks=T)), f"{shape[0]} × {shape[1]} {words}"
        if is_printed:
            content = {"rows": list(rows.labels), "columns": list(columns.labels), words: grid}
        else:
            write_grid(output, grid, rows, columns, "instance" if loaded.sides is None else names.instance)
    else:
        if given.pairs is None:
            places = np.indices(shape).reshape(2, -1)
        else:
            first = rows.positions(asked[0], f"the {names.instances}")
            places = np.array([first, columns.positions(asked[1], f"the {names.tasks}")])
        table = _of_pairs(given, loaded, predicted, (X, T), places, shape, word, terminal)
        sides_of_table = ("instance", "task") if loaded.sides is None else names.headings(table)
        labels = rows.take(places[0]).labels, columns.take(places[1]).labels
        table = {**dict(zip(sides_of_table, labels, strict=True)), **table}
        done = f"{len(places[0])} {words}"
        if is_printed:
            content = {words: table}
        else:
            write_columns(output, table)
    if output is None:
        terminal.result({**figures, **content})
    else:
        terminal.result({**figures, "output": str(output)})
        terminal.say(f"Wrote {done} to {output}.")


def _new(given: Predict, loaded: Loaded, place: int, asked: Any, terminal: Terminal) -> Entities | None:
    """Read the new instances (place 0) or tasks; None without a file."""
    paths, option = ((given.instances, "--instances"), (given.tasks, "--tasks"))[place]
    return loaded.new(paths, place, option, terminal, asked) if paths else None


def _with_own_ids(loaded: Loaded, place: int, side: Entities | None) -> Entities | None:
    """Return new entities with the ids of the model for those of training, which may be whole numbers."""
    own, known = loaded.own_ids[place], loaded.ids[place]
    if side is None or side.row_ids is None or own is None or known is None:
        return side
    names = dict(zip(known.labels, own.labels, strict=True))
    ids = Ids(tuple(names.get(each, each) for each in side.row_ids.labels))
    return each_table(side, lambda table: replace(table, row_ids=ids))


def _ids(loaded: Loaded, place: int, side: Entities | None, count: int) -> Ids:
    """Return the ids of a side as text, or positions where it has none."""
    ids = loaded.ids[place] if side is None else side.row_ids
    return Ids(tuple(map(str, range(count)))) if ids is None else ids


def _grid(values: Any) -> np.ndarray:
    array = to_numpy(values)
    return array.reshape(array.shape[0], -1)


def _size(loaded: Loaded, place: int, side: Entities | None) -> int:
    """Return the number of instances (place 0) or tasks; without new ones it is that of training."""
    if side is not None:
        return n_entities(side)
    model = loaded.model
    return int((model.n_seen_, model.n_tasks_)[place] if model.grows else fitted_of(model).labels.shape[place])


def _taken(side: Entities, rows: np.ndarray) -> Entities:
    return each_table(side, lambda table: table.take(rows))


def _calibrated(loaded: Loaded, terminal: Terminal, X: Any, T: Any) -> Calibration:
    """Return a model that is calibrated in the settings of what is predicted."""
    with terminal.working("Calibration"):
        calibration = dyadlearn.calibrate(loaded.model, settings_of(loaded.model, X, T))
    for each in calibration.settings.values():
        terminal.note(
            f"probabilities in setting {each.setting} have a held-out Brier score of {each.brier:.4f}, the base rate "
            f"one of {each.baseline_brier:.4f}."
        )
    return calibration


def _of_pairs(
    given: Predict, loaded: Loaded, predicted: Any, sides: Any, places: Any, shape: Any, word: str, terminal: Terminal
) -> dict[str, Any]:
    """Return predictions, and bounds if they are asked for, of the pairs at some places of the grid."""
    model = loaded.model
    if given.pairs is not None and given.interval is None and not given.probability and is_large(shape):
        wanted = []  # the other pairs are not predicted
        for at, side, own in zip(places, sides, loaded.own_ids, strict=True):
            ids = own if side is None else side.row_ids
            wanted.append(at.tolist() if ids is None else ids.take(at).labels)
        return {word: to_numpy(model.predict_pairs(*sides, list(zip(*wanted, strict=True)))).tolist()}
    grids = {word: _grid(predicted(*sides))}
    if given.interval is not None:
        bounds = model.predict_interval(*sides, coverage=given.interval)
        grids |= dict(zip(("lower", "upper"), map(_grid, bounds), strict=True))
        if Setting.A in settings_of(model, *sides) and model.fitted_.labels.grid is not None:
            terminal.note("bounds of pairs with a known label are around the prediction that is made without it.")
    return {name: grid[tuple(places)].tolist() for name, grid in grids.items()}


def _labels_of(pairs: Path) -> tuple[list[str], list[str]]:
    """Return the instances and the tasks of the pairs in a file."""
    cells = read_cells(pairs)
    if len(cells.headings) < 2:
        raise DataFileError(f"{pairs} must have two columns, an instance and a task, found {shown(cells.headings)}.")
    return cells.labels(0), cells.labels(1)


# Explanations --------------------------------------------------------------------------------------


def _explain(given: Predict, loaded: Loaded, terminal: Terminal) -> None:
    """List the training labels that a prediction comes from."""
    by = loaded.role(given.by, "--by", ("instance", "task"), "pair") or "pair"
    asked = [_asked(given, loaded, place, terminal) for place in (0, 1)]
    with terminal.working("Label weights"):
        found = dyadlearn.explain(loaded.model, *asked, top=given.number, sides=loaded.sides)
    if found.note:
        terminal.note(found.note)
    same = ("instance", "task", "setting", "prediction", "label")
    figures: dict[str, Any] = {name: getattr(found, name) for name in same}
    tables = []
    for kind in ("pair", "instance") if found.is_network else ("pair", "instance", "task"):
        columns, listed = found.columns(kind), found.by(kind)
        left = len(columns) - 3
        others = [f"{listed.n_rest} others", *[""] * (left - 1), number(listed.rest_weight), "", number(listed.rest)]
        headings = [name.replace("_", " ") for name in columns]
        tables.append(column_table(columns, left, headings, [others] if listed.n_rest else []))
        rest = {"count": listed.n_rest, "weight": listed.rest_weight, "contribution": listed.rest}
        if given.output is None:
            figures[f"{kind}s"] = {"listed": as_rows(columns), "rest": rest}
    title = f"The prediction for {found.subject} is {number(found.prediction)}, the sum of:"
    terminal.table(figures, [title, *tables], found.columns(by), given.output)


def _asked(given: Predict, loaded: Loaded, place: int, terminal: Terminal) -> Any:
    """Return an instance (place 0) or a task as the library takes it: an id, a position, or one row of a file."""
    name, (word, wanted) = loaded.names[place], (("instance", given.instance), ("task", given.task))[place]
    side = _new(given, loaded, place, None if wanted is None else [wanted], terminal)
    if side is not None:
        path = ((given.instances, given.tasks)[place] or [""])[0]
        if wanted is not None and side.row_ids is not None:
            return _taken(side, side.row_ids.positions([wanted], path))
        if n_entities(side) != 1:
            raise ValueError(f"{path} has {n_entities(side)} rows: choose one {name} by --{word}.")
        return side
    if wanted is None:
        raise ValueError(f"Choose one {name}: give --{word}, an id of training or of a file in --{word}s.")
    if loaded.ids[place] is None and not wanted.isdecimal():
        raise IdError(f"No {name} has an id: --{word} is a position from 0, found {wanted!r}.")
    return loaded.own_id(place, wanted, f"the {loaded.names.both[place]}")


# Recommendations -----------------------------------------------------------------------------------


def screen(given: Screen, terminal: Terminal) -> None:
    """List the labels that held-out predictions contradict most."""
    loaded, setting = load(given), one_setting(given.setting)
    _ = loaded.ids  # which must differ as text
    how: dict[str, Any] = {"label": given.label, "cv": given.cv, "sides": loaded.sides}
    with terminal.working("Hold-out"):
        found = dyadlearn.screen(loaded.model, setting, k=given.number, **how)
    columns = found.columns()
    figures = {"setting": found.setting, "method": found.method, "cells": as_rows(columns)}
    title = f"Labels that are contradicted most, in setting {found.setting} ({found.method})"
    terminal.table(figures, [title, column_table(columns, 2)], columns, given.output)


def recommend(given: Recommend, terminal: Terminal) -> None:
    """List the best unobserved pairs."""
    if (given.subject is not None) + bool(given.new) + given.pairs != 1:
        raise ValueError("Give one of --for, a known id, --new, a file, and --pairs.")
    if given.pairs and given.side is not None:
        raise ValueError("--side goes with --for and --new: leave it out.")
    if given.new and given_options("setting", "zeros", "cv"):
        raise ValueError("New instances have no labels to leave out: --setting, --zeros and --cv go with --for.")
    loaded = load(given)
    names, model, role = loaded.names, loaded.model, loaded.role(given.side, "--side", ("instance", "task"))
    how: dict[str, Any] = {"zeros": given.zeros, "cv": given.cv, "sides": loaded.sides}
    how["setting"] = one_setting(given.setting)
    found: Any
    with terminal.working("Predictions" if given.new else "Hold-out"):
        if given.new:
            place = int(role == "task")
            new: dict[str, Any] = {("X", "tasks")[place]: loaded.new(given.new, place, "--new", terminal)}
            found = dyadlearn.recommend(model, **new, k=given.number or 10, sides=loaded.sides)
        elif given.pairs:
            _ = loaded.ids  # which must differ as text
            found = dyadlearn.top_pairs(model, k=given.number or 20, **how)
        else:
            found = _for_known(loaded, str(given.subject), role, k=given.number or 10, **how)
    kinds = {"tasks": names.tasks, "instances": names.instances}
    of = "pairs" if given.pairs else kinds[found.of]
    others = kinds["instances" if of == names.tasks else "tasks"]
    title = f"Best {of} for each of {len(found)} new {others}" if given.new else f"Best {of} that are not observed"
    title = title if given.subject is None else f"Best {of} for {given.subject} that are not observed"
    columns = found.columns()
    figures = {
        "recommended": of,
        **({} if given.pairs else {"for": given.subject or " ".join(given.new or ())}),
        "setting": found.setting,
        "method": found.method,
        "best": as_rows(columns),
    }
    table = column_table(columns, 2 if given.subject is None else 1)
    terminal.table(figures, [title, table], columns, given.output)


def _for_known(loaded: Loaded, subject: str, side: str | None, **how: Any) -> Any:
    """Recommend for an instance or a task that the model knows."""
    names, model = loaded.names, loaded.model
    if model.grows and side != "task":
        try:
            return dyadlearn.recommend(model, instance=subject, **how)
        except IdError:
            if not subject.isdecimal():
                raise
            return dyadlearn.recommend(model, instance=int(subject), **how)  # ids may be whole numbers
    labels = fitted_of(model).labels
    known: dict[str, int] = {}
    for place, word in enumerate(("instance", "task")):
        ids = loaded.ids[place]
        has = subject.isdecimal() and int(subject) < labels.shape[place] if ids is None else subject in ids.labels
        if has and side in (None, word):
            known[word] = place
    if not known:
        such = ", ".join(repr(ids.labels[0]) for ids in loaded.ids if ids is not None)
        what = {None: " or ".join(dict.fromkeys(names)), "instance": names.instance, "task": names.task}[side]
        raise IdError(f"The model knows no {what} {subject!r}{f' (ids are such as {such})' if such else ''}.")
    if len(known) > 1 and loaded.ids[0] != loaded.ids[1]:
        raise IdError(f"{subject!r} is among the {names.instances} and the {names.tasks}: choose one by --side.")
    word, place = next(iter(known.items()))  # a node of a network is on both sides
    asked: dict[str, Any] = {word: loaded.own_id(place, subject, "the ids")}
    return dyadlearn.recommend(model, **asked, **how)
