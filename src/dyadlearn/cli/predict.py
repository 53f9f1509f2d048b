"""``dyadlearn predict``, ``dyadlearn recommend`` and ``dyadlearn screen``: predictions of a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn._array import row_blocks, to_numpy
from dyadlearn._files.tables import FileTable, as_number, read_cells, write_blocks, write_grid
from dyadlearn._tables import Ids, Table, shown
from dyadlearn._text import number
from dyadlearn.cli.commands import Predict, Recommend, Screen
from dyadlearn.cli.dyads import read_labels
from dyadlearn.cli.entities import Entities, each_table, n_entities
from dyadlearn.cli.models import Loaded, load, one_setting
from dyadlearn.cli.terminal import Terminal, as_rows, column_table, stacked
from dyadlearn.diagnostics.calibration import settings_of
from dyadlearn.diagnostics.fitted import fitted_of, ids_at
from dyadlearn.exceptions import DataFileError, IdError
from dyadlearn.holdout.baselines import means_for_unknown
from dyadlearn.labels import is_binary
from dyadlearn.models.reading import among, few_labels, is_large
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames

# Bytes of a block of predictions that is computed and then written; as text it takes about ten
# times as much.
_BLOCK_BYTES = 2**23


def predict(given: Predict, terminal: Terminal) -> None:
    """Predict for new instances and tasks, or explain one prediction."""
    loaded = load(given)
    if given.explain:
        _explain(given, loaded, terminal)
        return
    if not given.instances and not given.tasks and (given.pairs is None or loaded.model.grows):
        raise ValueError(
            "Give --instances or --tasks, or --pairs of training ids, which online models do not "
            "know."
        )
    if given.interval is not None and not 0 < given.interval < 1:
        raise ValueError(
            f"--interval must be a coverage between 0 and 1, such as 0.9, found {given.interval:g}."
        )
    scale, pairs = _scale(given.clip), None if given.pairs is None else _read_pairs(given.pairs)
    asked: tuple[Any, Any] = (None, None) if pairs is None else (pairs.labels(0), pairs.labels(1))
    (X, rows), (T, columns) = (
        _side(given, loaded, place, asked[place], terminal) for place in (0, 1)
    )
    shape = len(rows), len(columns)
    if given.probability:
        word, words = ("probability", "probabilities")
    else:
        word, words = ("prediction", "predictions")
    figures: dict[str, Any] = {"instances": shape[0], "tasks": shape[1]}
    model = loaded.model
    predicted = loaded.model.predict
    if given.labels is not None:
        if model.grows:
            raise ValueError(
                "An online model learns labels of new instances by dyadlearn update: leave "
                "--labels out."
            )
        table = read_labels(given.labels, given, terminal)
        predicted = partial(predicted, labels=few_labels(table, Table(None, rows, columns), shape))
    if given.probability:
        with terminal.working("Calibration"):
            calibration = dyadlearn.calibrate(model, settings_of(model, X, T))
        for each in calibration.settings.values():
            brier = (
                f"a held-out Brier score of {each.brier:.4f} (base rate: {each.baseline_brier:.4f})"
            )
            terminal.note(f"probabilities in setting {each.setting} have {brier}.")
        predicted, figures["calibration"] = calibration.predict, calibration.columns()
    headings = [word]
    if given.interval is not None:
        headings += ["lower", "upper"]
        if is_binary(model.fitted_.labels.values):
            terminal.note(
                "labels have two values: --probability gives probabilities instead of bounds."
            )
        if Setting.A in settings_of(model, X, T):
            terminal.note(
                "the interval of a pair with a known label is around its held-out prediction."
            )

    def answer(X: Any, T: Any) -> np.ndarray:
        """Return a stack of grids: the predictions and, with --interval, the lower and upper bounds."""
        if given.interval is None:
            bounds = ()
        else:
            bounds = model.predict_interval(X, T, coverage=given.interval)
        grids = [to_numpy(values).reshape(len(values), -1) for values in (predicted(X, T), *bounds)]
        return np.asarray(np.clip(grids, *scale))

    output = given.output
    names = loaded.names
    titles = loaded.sides or SideNames()
    # Labels of new rows are those of all of them.
    if given.labels is None:
        blocks = _blocks(answer, len(headings), X, T, shape)
    else:
        blocks = iter([answer(X, T)])
    is_printed = output is None and terminal.json
    content: dict[str, Any] = {} if output is None else {"output": str(output)}
    if given.pairs is None and not given.long and given.interval is None:
        done = f"{shape[0]} × {shape[1]} {words}"
        if is_printed:
            grid = np.concatenate([block[0] for block in blocks])
            content = {"rows": list(rows.labels), "columns": list(columns.labels), words: grid}
        else:
            with terminal.printing(output):
                write_grid(output, (block[0] for block in blocks), rows, columns, titles.instance)
    else:
        headings = [*titles.headings(headings), *headings]
        if pairs is None:
            lists = _long(blocks, rows.labels, columns.labels)
            count = shape[0] * shape[1]
        else:
            sides = ((rows, names.instance, given.instances), (columns, names.task, given.tasks))
            both = np.stack(
                [_places(pairs, place, *side, given.baseline) for place, side in enumerate(sides)]
            )
            places = np.maximum(both[0], 0), np.maximum(both[1], 0)
            if predicted == model.predict and given.interval is None and is_large(shape):
                values = _pairs_alone(loaded, (X, T), places).clip(
                    *scale
                )  # the other pairs are not predicted
            else:
                values = _at(blocks, places, len(headings) - 2)
            if given.baseline:
                values = np.where(
                    both.min(axis=0) < 0, _means(loaded, pairs, (rows, columns)), values
                )
            lists = iter([[*asked, *values.tolist()]])
            count = both.shape[1]
        tables = (dict(zip(headings, each, strict=True)) for each in lists)
        done = f"{count} {words}"
        if is_printed:
            content = {words: stacked(list(tables))}
        else:
            with terminal.printing(output):
                write_blocks(output, tables)
    terminal.result({**figures, **content})
    if output is not None:
        terminal.say(f"Wrote {done} to {output}.")


def _blocks(
    answer: Callable[[Any, Any], np.ndarray],
    depth: int,
    X: Entities | None,
    T: Entities | None,
    shape: tuple[int, int],
) -> Iterator[np.ndarray]:
    """Yield stacks of grids (depth, b, q) for blocks of b instances, one below the other.

    Predictions for the instances of training cannot be computed for a part of them. They are
    computed for blocks of new tasks, and stored in a temporary file until they are complete.
    """
    m, q = shape
    parts = list(row_blocks(m, 8 * depth * q, _BLOCK_BYTES))
    if X is not None:
        yield from (answer(_taken(X, np.arange(m)[part]), T) for part in parts)
    elif T is None or len(parts) == 1:
        yield answer(None, T)
    else:
        with TemporaryFile() as file:
            complete = np.memmap(file, np.float64, "w+", shape=(depth, m, q))
            for part in row_blocks(q, 8 * depth * m, _BLOCK_BYTES):
                complete[:, :, part] = answer(None, _taken(T, np.arange(q)[part]))
            yield from (complete[:, part] for part in parts)


def _long(
    blocks: Iterable[np.ndarray], rows: Sequence[Any], columns: Sequence[Any]
) -> Iterator[list[Any]]:
    """Yield the columns of a long table of all pairs, for each block: instances, tasks and figures."""
    labels = iter(rows)
    for block in blocks:
        depth, b, q = block.shape
        first = [label for _ in range(b) for label in [next(labels)] * q]
        yield [first, [*columns] * b, *block.reshape(depth, -1).tolist()]


def _at(
    blocks: Iterable[np.ndarray], places: tuple[np.ndarray, np.ndarray], depth: int
) -> np.ndarray:
    """Return the figures (depth, n) of the pairs at the given positions of the grid."""
    values = np.empty((depth, len(places[0])))
    start = 0
    for block in blocks:
        here = np.flatnonzero((places[0] >= start) & (places[0] < start + block.shape[1]))
        values[:, here] = block[:, places[0][here] - start, places[1][here]]
        start += block.shape[1]
    return values


def _pairs_alone(
    loaded: Loaded, sides: tuple[Any, Any], places: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return the predictions (1, n) of the pairs at the given positions, without those of the other pairs."""
    ids = (
        trained if side is None else side.row_ids
        for side, trained in zip(sides, loaded.own_ids, strict=True)
    )
    pairs = zip(*map(ids_at, ids, places), strict=True)
    return to_numpy(loaded.model.predict_pairs(*sides, list(pairs)))[None, :]


def _new(
    given: Predict, loaded: Loaded, place: int, asked: Any, terminal: Terminal
) -> Entities | None:
    """Read the new instances (place 0) or tasks (place 1); return None without a file."""
    paths, option = ((given.instances, "--instances"), (given.tasks, "--tasks"))[place]
    return loaded.new(paths, place, option, terminal, asked) if paths else None


def _side(
    given: Predict, loaded: Loaded, place: int, asked: Any, terminal: Terminal
) -> tuple[Entities | None, Ids]:
    """Return new instances (place 0) or tasks (place 1) in the form that the model takes, and their ids as text.

    Without a file, the first is None and the ids are those of training. Positions are used if there
    are no ids.
    """
    side = _new(given, loaded, place, asked, terminal)
    known = loaded.ids[place]
    own = loaded.own_ids[place]
    ids = known if side is None else side.row_ids
    if ids is None:
        model = loaded.model
        if model.grows:
            trained = (model.n_seen_, model.n_tasks_)
        else:
            trained = fitted_of(model).labels.shape
        count = trained[place] if side is None else n_entities(side)
        return side, Ids(tuple(map(str, range(count))))
    if side is not None and known is not None and own is not None:
        names = dict(
            zip(known.labels, own.labels, strict=True)
        )  # ids of the model may be whole numbers
        named = Ids(tuple(names.get(each, each) for each in ids.labels))
        side = each_table(side, lambda table: replace(table, row_ids=named))
    return side, ids


def _taken(side: Entities, rows: np.ndarray) -> Entities:
    return each_table(side, lambda table: table.take(rows))


def _read_pairs(path: Path) -> FileTable:
    """Read a table whose first two columns are an instance and a task."""
    cells = read_cells(path)
    if len(cells.headings) < 2:
        raise DataFileError(
            f"{path} must have two columns, an instance and a task, found {shown(cells.headings)}."
        )
    return cells


def _scale(clip: str | None) -> tuple[float, float]:
    """Return the two ends of the scale of --clip; infinite without one."""
    ends = np.array(
        [-np.inf, np.inf] if clip is None else [as_number(part) for part in clip.split(",")],
        dtype=float,
    )
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise ValueError(f"--clip must be the two ends of a scale, such as 1,5, found {clip!r}.")
    return float(ends[0]), float(ends[1])


def _means(loaded: Loaded, pairs: FileTable, sides: Sequence[Ids]) -> np.ndarray:
    """Return the means (1, n) of training labels that are predicted for pairs with unknown ids."""
    known = [given if ids is None else ids for ids, given in zip(loaded.ids, sides, strict=True)]
    places = [among(pairs.labels(place), ids.labels) for place, ids in enumerate(known)]
    return means_for_unknown(fitted_of(loaded.model).labels, places)[None, :]


def _places(
    pairs: FileTable, place: int, ids: Ids, name: str, files: list[str] | None, baseline: bool
) -> np.ndarray:
    """Return the positions in `ids` of the instances (place 0) or tasks (place 1) of pairs; with `baseline` also -1."""
    labels = pairs.labels(place)
    unknown = set(labels) - set(ids.labels)
    if unknown and not baseline:
        row = next(row for row, label in enumerate(labels) if label in unknown)
        where = f"{pairs.path}, line {pairs.numbers[row]}"
        known = " ".join(files) if files else "the model"
        wrong = f"{name} {labels[row]!r} is not in {known} (ids such as {shown(ids.labels, 3)})"
        remedy = "Add its row to that file" if files else "Leave it out"
        raise IdError(f"{where}: {wrong}. {remedy}, or predict a mean by --baseline.")
    return among(labels, ids.labels)


# Explanations --------------------------------------------------------------------------------------


def _explain(given: Predict, loaded: Loaded, terminal: Terminal) -> None:
    """List the training labels that a prediction comes from."""
    by = loaded.role(given.by, "--by", ("instance", "task"), "pair") or "pair"
    asked = [_asked(given, loaded, place, terminal) for place in (0, 1)]
    with terminal.working("Label weights"):
        found = dyadlearn.explain(loaded.model, *asked, n=given.number, sides=loaded.sides)
    terminal.note(*found.notes)
    same = ("instance", "task", "setting", "prediction", "label")
    figures: dict[str, Any] = {name: getattr(found, name) for name in same}
    tables = []
    for kind in ("pair", "instance") if found.is_network else ("pair", "instance", "task"):
        columns = found.columns(kind)
        listed = found.by(kind)
        left = len(columns) - 3
        others = [
            f"{listed.n_rest} others",
            *[""] * (left - 1),
            number(listed.rest_weight),
            "",
            number(listed.rest),
        ]
        headings = [name.replace("_", " ") for name in columns]
        tables.append(column_table(columns, left, headings, [others] if listed.n_rest else []))
        rest = {"count": listed.n_rest, "weight": listed.rest_weight, "contribution": listed.rest}
        if given.output is None:
            figures[f"{kind}s"] = {"listed": as_rows(columns), "rest": rest}
    title = f"The prediction for {found.subject} is {number(found.prediction)}, the sum of:"
    terminal.table(figures, [title, *tables], found.columns(by), given.output)


def _asked(given: Predict, loaded: Loaded, place: int, terminal: Terminal) -> Any:
    """Return the instance (place 0) or task (place 1) to explain: an id, a position, or one row of a file."""
    name = loaded.names[place]
    word, wanted = (("instance", given.instance), ("task", given.task))[place]
    side = _new(given, loaded, place, None if wanted is None else [wanted], terminal)
    if side is not None:
        path = ((given.instances, given.tasks)[place] or [""])[0]
        if wanted is not None and side.row_ids is not None:
            return _taken(side, side.row_ids.positions([wanted], path))
        if n_entities(side) != 1:
            raise ValueError(f"{path} has {n_entities(side)} rows: choose one {name} by --{word}.")
        return side
    if wanted is None:
        raise ValueError(
            f"Choose one {name}: give --{word}, an id of training or of the file of --{word}s."
        )
    if loaded.ids[place] is None and not wanted.isdecimal():
        raise IdError(
            f"No {name} of the model has an id: --{word} must be a position from 0, found "
            f"{wanted!r}."
        )
    return loaded.own_id(place, wanted, f"the {loaded.names.both[place]}")


# Recommendations -----------------------------------------------------------------------------------


def screen(given: Screen, terminal: Terminal) -> None:
    """List the labels that held-out predictions contradict most."""
    loaded = load(given)
    setting = one_setting(given.setting)
    _ = loaded.ids  # raises if two ids are equal as text
    how: dict[str, Any] = {"label": given.label, "cv": given.cv, "sides": loaded.sides}
    with terminal.working("Hold-out"):
        suspects = dyadlearn.screen(loaded.model, setting, n=given.number, **how)
    columns = suspects.columns()
    figures = {"setting": suspects.setting, "method": suspects.method, "cells": as_rows(columns)}
    title = f"Labels that held-out predictions contradict most, in setting {suspects.setting} ({suspects.method})"
    terminal.table(figures, [title, column_table(columns, 2)], columns, given.output)


def recommend(given: Recommend, terminal: Terminal) -> None:
    """List the best unobserved pairs."""
    if (given.subject is not None) + bool(given.new) + given.pairs != 1:
        raise ValueError("Give exactly one of --for (a known id), --new (a file) and --pairs.")
    loaded = load(given)
    names = loaded.names
    model = loaded.model
    role = loaded.role(given.side, "--side", ("instance", "task"))
    how: dict[str, Any] = {"zeros": given.zeros, "cv": given.cv, "sides": loaded.sides}
    how["setting"] = one_setting(given.setting)
    found: Any
    with terminal.working("Predictions" if given.new else "Hold-out"):
        if given.new:
            place = int(role == "task")
            new: dict[str, Any] = {
                ("X", "tasks")[place]: loaded.new(given.new, place, "--new", terminal)
            }
            found = dyadlearn.recommend(model, **new, n=given.number or 10, sides=loaded.sides)
        elif given.pairs:
            _ = loaded.ids  # raises if two ids are equal as text
            found = dyadlearn.top_pairs(model, n=given.number or 20, **how)
        else:
            found = _for_known(loaded, str(given.subject), role, n=given.number or 10, **how)
    of = "pairs" if given.pairs else getattr(names, found.of)
    subject = "" if given.subject is None else f" for {given.subject}"
    title = f"Best {of}{subject} that are not observed"
    if given.new:
        others = names.instances if found.of == "tasks" else names.tasks
        title = f"Best {of} for each of {len(found)} new {others}"
    columns = found.columns()
    columns["score"] = np.asarray(columns["score"]).clip(*_scale(given.clip)).tolist()
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
    names = loaded.names
    model = loaded.model
    if model.grows and side != "task":
        try:
            return dyadlearn.recommend(model, instance=subject, **how)
        except IdError:
            if not subject.isdecimal():
                raise
            return dyadlearn.recommend(
                model, instance=int(subject), **how
            )  # ids may be whole numbers
    labels = fitted_of(model).labels
    words = ("instance", "task")
    searched = {
        place: loaded.ids[place] for place, word in enumerate(words) if side in (None, word)
    }
    known = []
    for place, ids in searched.items():
        if ids is None:
            has = subject.isdecimal() and int(subject) < labels.shape[place]
        else:
            has = subject in ids.labels
        if has:
            known.append(place)
    if not known:
        such = ", ".join(repr(ids.labels[0]) for ids in searched.values() if ids is not None)
        what = " or ".join(dict.fromkeys(names[place] for place in searched))
        raise IdError(
            f"The model has no {what} {subject!r}{f' (ids are such as {such})' if such else ''}."
        )
    if len(known) > 1 and loaded.ids[0] != loaded.ids[1]:
        raise IdError(
            f"{subject!r} is among the {names.instances} and the {names.tasks}: choose one by "
            f"--side."
        )
    # A node of a network is on both sides.
    asked: dict[str, Any] = {words[known[0]]: loaded.own_id(known[0], subject, "the ids")}
    return dyadlearn.recommend(model, **asked, **how)
