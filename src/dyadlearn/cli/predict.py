"""``dyadlearn predict``, ``dyadlearn recommend`` and ``dyadlearn screen``: predictions of a fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn._array import is_missing, row_blocks, to_numpy
from dyadlearn._files.tables import FileTable, as_number, read_cells, write_blocks, write_grid
from dyadlearn._tables import Ids, Table, shown
from dyadlearn._text import number
from dyadlearn.cli.cells import predict_cells
from dyadlearn.cli.commands import Predict, Recommend, Screen
from dyadlearn.cli.dyads import read_labels
from dyadlearn.cli.entities import Entities, each_table, n_entities
from dyadlearn.cli.explained import figures_by, figures_of, table_by
from dyadlearn.cli.models import Loaded, load, one_setting
from dyadlearn.cli.predict_table import predict_table
from dyadlearn.cli.terminal import Arguments, Figures, Terminal, as_rows, column_table, stacked
from dyadlearn.diagnostics.calibration import settings_of
from dyadlearn.diagnostics.fitted import fitted_of, ids_at
from dyadlearn.exceptions import DataFileError, IdError
from dyadlearn.holdout.baselines import means_for_unknown
from dyadlearn.labels import is_binary
from dyadlearn.models.reading import among, few_labels, is_large
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames

# Memory of a prediction as text, in values.
_OF_A_TEXT = 8
# The options for files of instances and of tasks, and those for one of them.
_FILES = ("--instances", "--tasks")
_WORDS = ("instance", "task")


@dataclass(frozen=True)
class Side:
    """Instances or tasks to predict for.

    Attributes
    ----------
    entities : Table, Descriptions or None
        New ones in the form that the model takes; None means those of training.
    ids : Ids
        Their ids as text, or their positions if they have no ids.
    """

    entities: Entities | None
    ids: Ids


@dataclass(frozen=True)
class Request:
    """What to predict, and how.

    Attributes
    ----------
    options : Predict
    loaded : Loaded
    sides : (Side, Side)
        The instances and the tasks.
    pairs : FileTable or None
        The pairs to predict; None means all pairs of both sides.
    scale : (float, float)
        The ends of the scale to which predictions are clipped.
    function : callable
        Returns the predictions for instances and tasks.
    """

    options: Predict
    loaded: Loaded
    sides: tuple[Side, Side]
    pairs: FileTable | None
    scale: tuple[float, float]
    function: Callable[..., Any]

    @property
    def entities(self) -> list[Entities | None]:
        """The new instances and the new tasks."""
        return [side.entities for side in self.sides]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of instances and tasks."""
        return len(self.sides[0].ids), len(self.sides[1].ids)

    @property
    def words(self) -> tuple[str, str]:
        """The name of what is predicted, in the singular and in the plural."""
        if self.options.probability:
            return "probability", "probabilities"
        return "prediction", "predictions"

    @property
    def headings(self) -> list[str]:
        """The names of the figures of a pair."""
        if self.options.interval is None:
            return [self.words[0]]
        return [self.words[0], "lower", "upper"]

    def stack(self, X: Any, tasks: Any) -> np.ndarray:
        """Return a stack of grids: the predictions and, with --interval, the lower and upper bounds."""
        grids = [self.function(X, tasks)]
        coverage = self.options.interval
        if coverage is not None:
            grids += self.loaded.model.predict_interval(X, tasks, coverage=coverage)
        flat = [to_numpy(grid).reshape(len(grid), -1) for grid in grids]
        return np.asarray(np.clip(flat, *self.scale))

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield stacks of grids (depth, b, q) for blocks of b instances, one below the other.

        Predictions for the instances of training cannot be computed for a part of them. They are
        computed for blocks of new tasks, and stored in a temporary file until they are complete.
        """
        X, T = self.entities
        m, q = self.shape
        depth = len(self.headings)
        parts = list(row_blocks(m, (_OF_A_TEXT, depth, q)))
        # Labels of new rows are those of all of them.
        if self.options.labels is not None or len(parts) == 1:
            yield self.stack(X, T)
        elif X is not None:
            yield from (self.stack(_taken(X, np.arange(m)[part]), T) for part in parts)
        elif T is None:
            yield self.stack(None, None)
        else:
            with TemporaryFile() as file:
                complete = np.memmap(file, np.float64, "w+", shape=(depth, m, q))
                for part in row_blocks(q, (_OF_A_TEXT, depth, m)):
                    complete[:, :, part] = self.stack(None, _taken(T, np.arange(q)[part]))
                yield from (complete[:, part] for part in parts)


def predict(options: Predict, terminal: Terminal) -> None:
    """Predict for new instances and tasks, or explain one prediction."""
    loaded = load(options, cells=True)
    if loaded.has_cells:
        predict_cells(options, loaded, terminal)
        return
    if options.cell is not None:
        raise ValueError("--cell is for a model of --terms: use --instance and --task.")
    if options.explain:
        _explain(options, loaded, terminal)
        return
    if options.table is not None:
        predict_table(options, options.table, loaded, terminal)
        return
    request = _request(options, loaded, terminal)
    m, q = request.shape
    figures: Figures = {"instances": m, "tasks": q}
    if options.labels is not None:
        few = _few_labels(request, options.labels, terminal)
        request = replace(request, function=partial(request.function, labels=few))
    elif options.probability:
        calibration = _calibration(request, terminal)
        request = replace(request, function=calibration.predict)
        figures["calibration"] = calibration.columns()
    elif options.interval is not None:
        _note_intervals(request, terminal)
    if request.pairs is None and not options.long and options.interval is None:
        done, content = _write_grid(request, terminal)
    else:
        done, content = _write_list(request, terminal)
    if options.output is not None:
        content = {"output": str(options.output)}
    terminal.result({**figures, **content})
    if options.output is not None:
        terminal.say(f"Wrote {done} to {options.output}.")


def _request(options: Predict, loaded: Loaded, terminal: Terminal) -> Request:
    """Read what is asked for; raise if it is nothing."""
    has_known_pairs = options.pairs is not None and not loaded.model.grows
    if not options.instances and not options.tasks and not has_known_pairs:
        raise ValueError(
            "Give --instances or --tasks, or --pairs of training ids, which online models do not "
            "know."
        )
    scale = _scale(options.clip)
    pairs = None if options.pairs is None else _read_pairs(options.pairs)
    asked = (None, None) if pairs is None else (pairs.labels(0), pairs.labels(1))
    instances, tasks = (_side(options, loaded, axis, asked[axis], terminal) for axis in (0, 1))
    return Request(options, loaded, (instances, tasks), pairs, scale, loaded.model.predict)


def _calibration(request: Request, terminal: Terminal) -> Any:
    """Return the calibration of the settings of what is asked for, with notes about it."""
    model = request.loaded.model
    settings = settings_of(model, *request.entities)
    with terminal.working("Calibration"):
        calibration = dyadlearn.calibrate(model, settings, prevalence=request.options.prevalence)
    for result in calibration.settings.values():
        base_rate = f"(base rate: {result.baseline_brier:.4f})"
        brier = f"a held-out Brier score of {result.brier:.4f} {base_rate}"
        terminal.note(f"probabilities in setting {result.setting} have {brier}.")
    return calibration


def _note_intervals(request: Request, terminal: Terminal) -> None:
    """Print notes about intervals."""
    model = request.loaded.model
    if is_binary(model.fitted_.labels.values):
        terminal.note(
            "labels have two values: --probability gives probabilities instead of bounds."
        )
    if Setting.A in settings_of(model, *request.entities):
        terminal.note(
            "the interval of a pair with a known label is around its held-out prediction."
        )


def _few_labels(request: Request, path: Path, terminal: Terminal) -> Any:
    """Read the known labels of new rows."""
    if request.loaded.model.grows:
        raise ValueError(
            "An online model learns labels of new instances by dyadlearn update: leave --labels "
            "out."
        )
    table = read_labels(path, request.options, terminal)
    whole = Table(None, request.sides[0].ids, request.sides[1].ids)
    return few_labels(table, whole, request.shape)


def _is_json(options: Predict) -> bool:
    """Return whether predictions are printed as JSON."""
    return options.output is None and options.json


def _write_grid(request: Request, terminal: Terminal) -> tuple[str, Figures]:
    """Write predictions as a grid; return what was written, in words, and the grid for JSON."""
    options = request.options
    rows, columns = (side.ids for side in request.sides)
    words = request.words[1]
    done = f"{len(rows)} × {len(columns)} {words}"
    blocks = (block[0] for block in request.blocks())
    if _is_json(options):
        grid = np.concatenate(list(blocks))
        return done, {"rows": list(rows.labels), "columns": list(columns.labels), words: grid}
    names = request.loaded.sides or SideNames()
    with terminal.printing(options.output):
        write_grid(options.output, blocks, rows, columns, names.instance)
    return done, {}


def _write_list(request: Request, terminal: Terminal) -> tuple[str, Figures]:
    """Write predictions as rows of pairs; return what was written, in words, and the rows for JSON."""
    options = request.options
    pairs = request.pairs
    names = request.loaded.sides or SideNames()
    headings = [*names.headings(request.headings), *request.headings]
    if pairs is None:
        lists = _long(request)
        count = math.prod(request.shape)
    else:
        values = _values_of_pairs(request, pairs)
        lists = iter([[pairs.labels(0), pairs.labels(1), *values.tolist()]])
        count = values.shape[1]
    words = request.words[1]
    done = f"{count} {words}"
    tables = (dict(zip(headings, columns, strict=True)) for columns in lists)
    if _is_json(options):
        return done, {words: stacked(list(tables))}
    with terminal.printing(options.output):
        write_blocks(options.output, tables)
    return done, {}


def _long(request: Request) -> Iterator[list[Any]]:
    """Yield the columns of a long table of all pairs, for each block: instances, tasks and figures."""
    instances, tasks = (side.ids.labels for side in request.sides)
    labels = iter(instances)
    for block in request.blocks():
        depth, b, q = block.shape
        first: list[Any] = []
        for _ in range(b):
            first += [next(labels)] * q
        yield [first, [*tasks] * b, *block.reshape(depth, -1).tolist()]


def _values_of_pairs(request: Request, pairs: FileTable) -> np.ndarray:
    """Return the figures (d, n) of pairs."""
    options = request.options
    all_places = [_places(request, pairs, axis) for axis in (0, 1)]
    is_unknown = np.minimum(*all_places) < 0
    rows, columns = (np.maximum(places, 0) for places in all_places)
    is_plain = not options.probability and options.labels is None and options.interval is None
    if is_plain and is_large(request.shape):
        # The other pairs are not predicted.
        values = _pairs_alone(request, rows, columns).clip(*request.scale)
    else:
        values = np.empty((len(request.headings), len(rows)))
        start = 0
        for block in request.blocks():
            here = np.flatnonzero((rows >= start) & (rows < start + block.shape[1]))
            values[:, here] = block[:, rows[here] - start, columns[here]]
            start += block.shape[1]
    if options.baseline:
        values = np.where(is_unknown, _means(request, pairs), values)
    return values


def _pairs_alone(request: Request, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the predictions (1, n) of the pairs at the given positions, without those of the other pairs."""
    ids = []
    for entities, trained in zip(request.entities, request.loaded.model_ids, strict=True):
        ids.append(trained if entities is None else entities.row_ids)
    pairs = zip(*map(ids_at, ids, (rows, columns)), strict=True)
    predictions = request.loaded.model.predict_pairs(*request.entities, list(pairs))
    return to_numpy(predictions)[None, :]


def _new(
    options: Predict, loaded: Loaded, axis: int, asked: Any, terminal: Terminal
) -> Entities | None:
    """Read the new instances (axis 0) or tasks (axis 1); return None without a file."""
    paths = (options.instances, options.tasks)[axis]
    if paths:
        return loaded.new(paths, axis, _FILES[axis], terminal, asked)
    return None


def _side(options: Predict, loaded: Loaded, axis: int, asked: Any, terminal: Terminal) -> Side:
    """Return the instances (axis 0) or tasks (axis 1) to predict for: those of a file, or those of training."""
    entities = _new(options, loaded, axis, asked, terminal)
    known = loaded.ids[axis]
    model_ids = loaded.model_ids[axis]
    ids = known if entities is None else entities.row_ids
    if ids is None:
        if entities is not None:
            count = n_entities(entities)
        elif loaded.model.grows:
            count = int((loaded.model.n_seen_, loaded.model.n_tasks_)[axis])
        else:
            count = int(fitted_of(loaded.model).labels.shape[axis])
        return Side(entities, Ids(tuple(map(str, range(count)))))
    if entities is not None and known is not None and model_ids is not None:
        # Ids of the model may be whole numbers.
        names = dict(zip(known.labels, model_ids.labels, strict=True))
        named = Ids(tuple(names.get(label, label) for label in ids.labels))
        entities = each_table(entities, lambda table: replace(table, row_ids=named))
    return Side(entities, ids)


def _taken(entities: Entities, rows: np.ndarray) -> Entities:
    return each_table(entities, lambda table: table.take(rows))


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
    if clip is None:
        return -np.inf, np.inf
    ends = np.array([as_number(part) for part in clip.split(",")], dtype=float)
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise ValueError(f"--clip must be the two ends of a scale, such as 1,5, found {clip!r}.")
    return float(ends[0]), float(ends[1])


def _means(request: Request, pairs: FileTable) -> np.ndarray:
    """Return the means (1, n) of training labels that are predicted for pairs with unknown ids."""
    places = []
    for axis, (known, side) in enumerate(zip(request.loaded.ids, request.sides, strict=True)):
        ids = side.ids if known is None else known
        places.append(among(pairs.labels(axis), ids.labels))
    return means_for_unknown(fitted_of(request.loaded.model).labels, places)[None, :]


def _places(request: Request, pairs: FileTable, axis: int) -> np.ndarray:
    """Return the positions of the instances (axis 0) or tasks (axis 1) of pairs; with --baseline also -1."""
    labels = pairs.labels(axis)
    ids = request.sides[axis].ids
    unknown = set(labels) - set(ids.labels)
    if unknown and not request.options.baseline:
        files = (request.options.instances, request.options.tasks)[axis]
        row = next(row for row, label in enumerate(labels) if label in unknown)
        where = f"{pairs.path}, line {pairs.numbers[row]}"
        known = "the model"
        remedy = "Leave it out"
        if files:
            known = " ".join(files)
            remedy = "Add its row to that file"
        name = request.loaded.names[axis]
        wrong = f"{name} {labels[row]!r} is not in {known} (ids such as {shown(ids.labels, 3)})"
        raise IdError(f"{where}: {wrong}. {remedy}, or predict a mean by --baseline.")
    return among(labels, ids.labels)


# Explanations --------------------------------------------------------------------------------------


def _explain(options: Predict, loaded: Loaded, terminal: Terminal) -> None:
    """List the training labels that a prediction comes from."""
    by = loaded.role(options.by, "--by", ("instance", "task"), "pair") or "pair"
    asked = [_asked(options, loaded, axis, terminal) for axis in (0, 1)]
    with terminal.working("Label weights"):
        explanation = dyadlearn.explain(
            loaded.model, *asked, n=options.number, sort=options.sort, sides=loaded.sides
        )
    terminal.note(*explanation.notes)
    figures = figures_of(explanation, *_WORDS)
    kinds = ["pair", "instance"]
    if not explanation.is_network:
        kinds.append("task")
    if options.output is None:
        figures |= {f"{kind}s": figures_by(explanation, kind) for kind in kinds}
    prediction = number(explanation.prediction)
    shares = [number(explanation.share_of_mean), number(explanation.share_of_deviations)]
    title = (
        f"The prediction for {explanation.subject} is {prediction}: {shares[0]} from the mean of "
        f"all labels, and {shares[1]} from the deviations of labels from it. It is the sum of:"
    )
    tables = [table_by(explanation, kind) for kind in kinds]
    terminal.table(figures, [title, *tables], explanation.columns(by), options.output)


def _asked(options: Predict, loaded: Loaded, axis: int, terminal: Terminal) -> Any:
    """Return the instance (axis 0) or task (axis 1) to explain: an id, a position, or one row of a file."""
    name = loaded.names[axis]
    word = _WORDS[axis]
    wanted = (options.instance, options.task)[axis]
    side = _new(options, loaded, axis, None if wanted is None else [wanted], terminal)
    if side is not None:
        paths = (options.instances, options.tasks)[axis]
        path = paths[0] if paths else ""
        if wanted is not None and side.row_ids is not None:
            return _taken(side, side.row_ids.positions([wanted], path))
        if n_entities(side) != 1:
            raise ValueError(f"{path} has {n_entities(side)} rows: choose one {name} by --{word}.")
        return side
    if wanted is None:
        raise ValueError(
            f"Choose one {name}: give --{word}, an id of training or of the file of --{word}s."
        )
    if loaded.ids[axis] is None and not wanted.isdecimal():
        raise IdError(
            f"No {name} of the model has an id: --{word} must be a position from 0, found "
            f"{wanted!r}."
        )
    return loaded.model_id(axis, wanted, f"the {loaded.names.both[axis]}")


# Recommendations -----------------------------------------------------------------------------------


def screen(options: Screen, terminal: Terminal) -> None:
    """List the labels that held-out predictions contradict most."""
    loaded = load(options)
    setting = one_setting(options.setting)
    _ = loaded.ids  # raises if two ids are equal as text
    with terminal.working("Hold-out"):
        suspects = dyadlearn.screen(
            loaded.model,
            setting,
            n=options.number,
            label=options.label,
            cv=options.cv,
            sides=loaded.sides,
        )
    columns = suspects.columns()
    figures = {"setting": suspects.setting, "method": suspects.method, "cells": as_rows(columns)}
    where = f"in setting {suspects.setting} ({suspects.method})"
    title = f"Labels that held-out predictions contradict most, {where}"
    terminal.table(figures, [title, column_table(columns, 2)], columns, options.output)


def recommend(options: Recommend, terminal: Terminal) -> None:
    """List the best unobserved pairs."""
    if (options.subject is not None) + bool(options.new) + options.pairs != 1:
        raise ValueError("Give exactly one of --for (a known id), --new (a file) and --pairs.")
    loaded = load(options)
    result = _recommended(options, loaded, terminal)
    of = "pairs" if options.pairs else getattr(loaded.names, result.of)
    columns = result.columns()
    for name in {"score", "lower", "upper"} & columns.keys():
        columns[name] = np.asarray(columns[name]).clip(*_scale(options.clip)).tolist()
    figures: Figures = {"recommended": of}
    if not options.pairs:
        figures["for"] = options.subject or " ".join(options.new or ())
    figures |= {
        "setting": result.setting,
        "method": result.method,
        "best": as_rows(columns),
    }
    title = _title(options, loaded.names, result, of)
    printed = columns
    if all(is_missing(label) for label in columns.get("label", ())):
        printed = {name: column for name, column in columns.items() if name != "label"}
    table = column_table(printed, 2 if options.subject is None else 1)
    terminal.table(figures, [title, table], columns, options.output)


def _title(options: Recommend, names: SideNames, result: Any, of: str) -> str:
    """Return the line above a table of recommendations."""
    if options.new:
        others = names.instances if result.of == "tasks" else names.tasks
        return f"Best {of} for each of {len(result)} new {others}"
    subject = ""
    if options.subject is not None:
        subject = f" for {options.subject}"
    which = ", observed ones too" if options.observed else " that are not observed"
    return f"Best {of}{subject}{which}"


def _recommended(options: Recommend, loaded: Loaded, terminal: Terminal) -> Any:
    """Return the recommendations."""
    role = loaded.role(options.side, "--side", ("instance", "task"))
    model = loaded.model
    setting = one_setting(options.setting)
    params: Arguments = {
        "by": options.by,
        "coverage": options.coverage,
        "per_instance": options.per_instance,
        "per_task": options.per_task,
        "sides": loaded.sides,
    }
    if options.probability:
        of_new = "C" if role == "task" else "B"
        asked = of_new if options.new else setting
        with terminal.working("Calibration"):
            params["probability"] = dyadlearn.calibrate(
                model, asked, prevalence=options.prevalence, cv=options.cv
            )
    held_out = {
        "zeros": options.zeros,
        "observed": options.observed,
        "cv": options.cv,
        "setting": setting,
    }
    with terminal.working("Predictions" if options.new else "Hold-out"):
        if options.new:
            axis = int(role == "task")
            entities = loaded.new(options.new, axis, "--new", terminal)
            new: Arguments = {("X", "tasks")[axis]: entities}
            return dyadlearn.recommend(model, **new, n=options.number or 10, **params)
        params |= held_out
        if options.pairs:
            _ = loaded.ids  # raises if two ids are equal as text
            return dyadlearn.top_pairs(model, n=options.number or 20, **params)
        return _for_known(loaded, str(options.subject), role, n=options.number or 10, **params)


def _for_known(loaded: Loaded, subject: str, role: str | None, **params: Any) -> Any:
    """Recommend for an instance or a task that the model knows."""
    model = loaded.model
    if model.grows and role != "task":
        try:
            return dyadlearn.recommend(model, instance=subject, **params)
        except IdError:
            if not subject.isdecimal():
                raise
            # Ids may be whole numbers.
            return dyadlearn.recommend(model, instance=int(subject), **params)
    axis = _axis_of(loaded, subject, role)
    asked: Arguments = {_WORDS[axis]: loaded.model_id(axis, subject, "the ids")}
    return dyadlearn.recommend(model, **asked, **params)


def _axis_of(loaded: Loaded, subject: str, role: str | None) -> int:
    """Return 0 if an id is that of an instance, and 1 if it is that of a task; raise if it is neither or both."""
    names = loaded.names
    shape = fitted_of(loaded.model).labels.shape
    searched = [axis for axis, word in enumerate(_WORDS) if role in (None, word)]
    examples = []
    known = []
    for axis in searched:
        ids = loaded.ids[axis]
        if ids is None:
            is_known = subject.isdecimal() and int(subject) < shape[axis]
        else:
            is_known = loaded.known_as(axis, subject) in ids.labels
            examples.append(repr(ids.labels[0]))
        if is_known:
            known.append(axis)
    if not known:
        what = " or ".join(dict.fromkeys(names[axis] for axis in searched))
        such = ""
        if examples:
            such = f" (ids are such as {', '.join(examples)})"
        raise IdError(f"The model has no {what} {subject!r}{such}.")
    # A node of a network is on both sides.
    if len(known) > 1 and loaded.ids[0] != loaded.ids[1]:
        raise IdError(
            f"{subject!r} is among the {names.instances} and the {names.tasks}: choose one by "
            f"--side."
        )
    return known[0]
