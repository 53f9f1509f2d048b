"""The properties that a model of pairs must have: each is a function of a `Trial`."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from dyadlearn.diagnostics import explain
from dyadlearn.selection import evaluate
from dyadlearn.store import load, save
from dyadlearn.testing.framing import Frames
from dyadlearn.testing.refitting import compare_with_refits
from dyadlearn.testing.refusals import Wrong, refused, wrong_arguments
from dyadlearn.testing.trial import (
    FORMS,
    N_COLUMNS,
    N_NEW,
    N_ROWS,
    TOLERANCES,
    Trial,
    dense,
)

# Fits while other threads read the model, and seconds after which another thread runs: short, so that
# it also runs in the middle of a fit of a few labels.
N_FITS = 4
SWITCH_INTERVAL = 1e-4

# Libraries of arrays and of frames that are tried for each form of labels.
LIBRARIES = {"full": ("torch",), "missing": ("array_api_strict",)}
FRAMES = {"full": ("pandas",), "missing": ("polars",), "weights": ("pandas",)}


@dataclass(frozen=True)
class Check:
    """A property of models.

    Attributes
    ----------
    name : str
    run : callable
        Function of a `Trial`. It raises AssertionError if the property does not hold.
    forms : tuple of str
        Forms of labels for which it is run.
    """

    name: str
    run: Callable[[Trial], None]
    forms: tuple[str, ...]


#: The checks by their names.
CHECKS: dict[str, Check] = {}


def _check(name: str, *forms: str) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    def register(function: Callable[[Trial], None]) -> Callable[[Trial], None]:
        CHECKS[name] = Check(name, function, forms)
        return function

    return register


@_check("parameters", "full")
def check_parameters(trial: Trial) -> None:
    """Check that clones have the same parameters and no fit; fitting changes no parameter and returns the model."""
    model = clone(trial.estimator)
    before = model.get_params(deep=False)
    try:
        model.predict(trial.data.X.known)
    except NotFittedError:
        pass
    else:
        raise AssertionError("A model that is not fitted must raise NotFittedError.")
    assert model.fit(**trial.data.arguments()) is model, "fit must return the model"
    after = model.get_params(deep=False)
    for name, value in before.items():
        assert after[name] is value, f"fit has changed the parameter {name}"
        assert getattr(model, name) is value, f"the attribute {name} is not the parameter"
    assert model.set_params(**before) is model, "set_params must return the model"
    expected = trial.predict(model)
    again = clone(model)
    assert not hasattr(again, "fitted_"), "a clone must not be fitted"
    trial.close(trial.predict(again.fit(**trial.data.arguments())), expected, "refit")


@_check("refit", "full", "missing")
def check_refit(trial: Trial) -> None:
    """Check that a second fit forgets the first."""
    keep = np.arange(N_ROWS - 1)
    columns = keep if trial.symmetry else np.arange(N_COLUMNS)
    hidden = np.zeros(trial.data.y.shape, dtype=bool)
    model = trial.fit(trial.data.without(hidden, keep, columns))
    model.fit(**trial.data.arguments())
    fresh = trial.fitted
    trial.close(trial.predict(model), trial.predict(fresh), "refit")
    setting = trial.settings[0]
    trial.close(trial.hold_out(model, setting), trial.hold_out(fresh, setting), "refit")


@_check("set_alpha", "full", "missing")
def check_set_alpha(trial: Trial) -> None:
    """Check that `set_alpha` gives the model that a fit with this regularisation gives."""
    names = [name for name in ("alpha", "task_alpha") if name in trial.estimator.get_params()]
    if not names or not hasattr(trial.estimator, "set_alpha"):
        return
    chosen: dict[str, Any] = dict.fromkeys(names, 3.0)
    model = trial.fit().set_alpha(**chosen)
    expected = trial.answers(trial.fit(**chosen))
    trial.same(model, trial.data, expected, "hold-out", "after set_alpha")
    assert model.get_params()["alpha"] == 3.0, "set_alpha does not change the parameter"


@_check("hold-out", *FORMS)
def check_holdout(trial: Trial) -> None:
    """Check that held-out predictions equal those of models that are fitted without the left-out units."""
    if trial.is_exact:
        model = trial.fitted
        for setting in trial.settings:
            compare_with_refits(trial, model, setting, trial.units(model, setting), "hold-out")


@_check("groups", "full", "missing", "weights")
def check_groups(trial: Trial) -> None:
    """Check that groups of instances, tasks or pairs are left out together."""
    if trial.is_exact and not trial.symmetry and not trial.grows:
        model = trial.fitted
        for setting in trial.settings:
            compare_with_refits(trial, model, setting, trial.groups(setting), "groups")


@_check("order", "full", "missing", "weights")
def check_order(trial: Trial) -> None:
    """Check that the order of instances and of tasks does not matter."""
    m, q = trial.data.y.shape
    rng = np.random.default_rng(1)
    rows = rng.permutation(m)
    columns = rows if trial.symmetry else rng.permutation(q)
    data = trial.data.without(np.zeros((m, q), dtype=bool), rows, columns)
    # The folds of a search may depend on the order.
    search = trial.again(trial.fitted)
    model = clone(search).fit(**trial.data.arguments())
    other = clone(search).fit(**data.arguments())
    expected, actual = dense(trial.predict(model)), dense(trial.predict(other, data))
    if not trial.knows_tasks or trial.symmetry:
        expected = expected[:, columns]
    trial.close(actual, expected, "order")
    setting = trial.settings[0]
    if not trial.grows and not trial.units(model, setting):
        expected = trial.hold_out(model, setting)[np.ix_(rows, columns)]
        actual = trial.hold_out(other, setting)
        there = ~np.isnan(data.y)
        trial.close(actual[there], expected[there], "order")


@_check("scale", "full", "missing", "weights")
def check_scale(trial: Trial) -> None:
    """Check that predictions scale with the labels; with an intercept, they are shifted as the labels are."""
    # Antisymmetric labels have no mean.
    shift = 100.0 if trial.has_intercept and trial.symmetry >= 0 else 0.0
    model = trial.fit(replace(trial.data, y=2.0**20 * (trial.data.y + shift)))
    found = dense(trial.predict(model)) / 2.0**20 - shift
    trial.close(found, trial.expected["predictions"], "scale")


@_check("weights", "missing")
def check_weights(trial: Trial) -> None:
    """Check that weights of one change nothing, and a label of weight zero counts as missing."""
    takes_weights = "sample_weight" in inspect.signature(trial.estimator.fit).parameters
    if not takes_weights or trial.symmetry:
        return
    y = trial.data.y
    expected = trial.expected["predictions"]
    ones = replace(trial.data, weights=np.ones(y.shape))
    trial.close(trial.predict(trial.fit(ones)), expected, "weights")
    zeros = replace(trial.data, y=np.nan_to_num(y, nan=50.0), weights=1.0 - np.isnan(y))
    trial.close(trial.predict(trial.fit(zeros)), expected, "weights")


@_check("list", "list")
def check_list(trial: Trial) -> None:
    """Check that a sparse matrix of the observed labels says the same as a grid with NaN."""
    model = trial.fitted
    other = trial.fit(replace(trial.data, is_list=False))
    trial.close(trial.predict(model), trial.predict(other), "hold-out")
    there = ~np.isnan(trial.data.y)
    for setting in trial.settings:
        for units in (trial.units(model, setting), trial.groups(setting)):
            actual, expected = (
                trial.hold_out(one, setting, **units)[there] for one in (model, other)
            )
            trial.close(actual, expected, "hold-out", f"setting {setting}")


@_check("vector", "full")
def check_vector(trial: Trial) -> None:
    """Check that a vector of labels is a grid of one column, and its predictions are vectors."""
    if trial.symmetry:
        return
    arguments = {"X": trial.data.X.known}
    y = trial.data.y[:, 0]
    model = clone(trial.estimator).fit(**arguments, y=y)
    actual = np.asarray(model.predict(trial.data.X.new))
    grid = clone(trial.estimator).fit(**arguments, y=y[:, None]).predict(trial.data.X.new)
    assert actual.shape == (N_NEW,), f"predictions of a vector have the shape {actual.shape}"
    trial.close(actual, np.asarray(grid)[:, 0], "vector")


@_check("pairs", "full", "missing")
def check_pairs(trial: Trial) -> None:
    """Check that predictions of pairs are those of the grid."""
    model = trial.fitted
    data = trial.data
    if trial.knows_tasks and data.tasks is not None:
        tasks = data.tasks.new
    else:
        tasks = None
    grid = dense(trial.predict(model))
    pairs = np.array([[2, 1], [0, 0], [2, 1], [1, 0]])
    for chosen in (pairs, pairs[:1]):
        actual = model.predict_pairs(data.X.new, tasks, chosen)
        trial.close(actual, grid[tuple(chosen.T)], "pairs")


@_check("score", "full")
def check_score(trial: Trial) -> None:
    """Check that the score is R² over all cells."""
    model = trial.fitted
    tasks = trial.data.tasks
    grid = dense(trial.predict(model))
    truth = grid + np.random.default_rng(2).normal(size=grid.shape)
    new = tasks.new if trial.knows_tasks and tasks is not None else None
    actual = model.score(trial.data.X.new, truth, tasks=new)
    assert type(actual) is float, f"score must return a float, found {type(actual).__name__}"
    assert_allclose(actual, r2_score(truth, grid), rtol=TOLERANCES["score"])


@_check("input", "full", "weights", "list")
def check_input(trial: Trial) -> None:
    """Check that input may be read-only and stays as it is, and that later changes of it or of answers do nothing."""

    def view(values: np.ndarray) -> np.ndarray:
        """Return a copy that nobody can write into but by its base."""
        seen = np.array(values)[...]
        seen.flags.writeable = False
        return seen

    data = trial.data.converted(view)
    arguments = data.arguments()
    model = clone(trial.estimator).fit(**arguments)
    for after, before in zip(arguments.values(), trial.data.arguments().values(), strict=True):
        assert_array_equal(dense(after), dense(before), err_msg="fit has changed its input")
    for values in arguments.values():
        numbers: Any = values.base if isinstance(values, np.ndarray) else values.data
        numbers[...] = 7.0
    asked = trial.data.converted(view)
    answers = trial.same(model, asked, trial.expected, "refit", "after a change of the input")
    for values in answers.values():
        numbers = values if isinstance(values, np.ndarray) else values.data
        if numbers.flags.writeable:
            numbers[...] = 7.0
    trial.same(model, trial.data, trial.expected, "refit", "after a change of the answers")


@_check("float32", "full", "missing")
def check_float32(trial: Trial) -> None:
    """Check that single precision gives answers in single precision, close to those in double precision."""
    data = trial.data.converted(lambda values: np.asarray(values, dtype=np.float32))
    answers = trial.same(trial.fit(data), data, trial.expected, "float32", "single precision")
    for question, values in answers.items():
        assert values.dtype == np.float32, f"{question}: the type is {values.dtype}"


@_check("libraries", "full", "missing")
def check_libraries(trial: Trial) -> None:
    """Check that arrays of other libraries give the same numbers, in arrays of that library."""
    expected = trial.expected
    for name in LIBRARIES[trial.form]:
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        data = trial.data.converted(library.asarray)
        answers = trial.same(trial.fit(data), data, expected, "libraries", name)
        for question, values in answers.items():
            kind = type(values)
            assert kind is type(data.y), f"{name}: {question} has the type {kind.__name__}"


@_check("frames", "full", "missing", "weights")
def check_frames(trial: Trial) -> None:
    """Check that frames are matched by their ids, in any order, and that answers have the ids of the question."""
    expected = trial.expected
    for name in FRAMES[trial.form]:
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        frames = Frames(library, trial)
        data = frames.data()
        model = trial.fit(data)
        for question, values in trial.answers(model, data).items():
            rows = frames.known_rows if question in TRAINING else frames.new_rows
            if question in ("predictions", "deviations") and frames.asks_for_tasks:
                columns = frames.new_columns
            else:
                columns = frames.known_columns
            ids = frames.ids_of(values)
            assert ids == (rows, columns), f"{name}: {question} has the ids {ids}"
            trial.close(values, expected[question], "frames", f"{name}: {question}")


# Answers about the rows of training.
TRAINING = (
    "predictions of training rows",
    "completed labels",
    "hold-out A",
    "hold-out B",
    "hold-out C",
    "hold-out D",
    "hold-out of groups",
)


@_check("pickle", "missing")
def check_pickle(trial: Trial) -> None:
    """Check that a pickled model gives the same answers, and that what can be computed again is not in the pickle."""
    stored = pickle.dumps(trial.fit())
    expected = trial.expected
    larger = pickle.dumps(trial.fitted)
    # Hold-out may compute inverses of systems of all labels.
    inverse = 8 * np.count_nonzero(~np.isnan(trial.data.y)) ** 2
    assert len(larger) - len(stored) < inverse / 2, "the pickle has what can be computed again"
    for content in (stored, larger):
        again = pickle.loads(content)
        assert_array_equal(dense(trial.predict(again)), dense(expected["predictions"]))
    trial.same(again, trial.data, expected, "refit", "after a pickle")


@_check("file", "full", "missing", "list")
def check_file(trial: Trial) -> None:
    """Check that a model file gives the same answers, or that `save` refuses objects that no file can hold."""
    model = trial.fitted
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.dyad"
        try:
            save(model, path)
        except (TypeError, ValueError):
            assert not path.exists(), "a refused model must leave no file"
            return
        again = load(path)
    assert type(again) is type(model)
    expected = trial.expected
    assert_array_equal(dense(trial.predict(again)), dense(expected["predictions"]))
    trial.same(again, trial.data, expected, "refit", "after a file")


@_check("intervals", "full", "missing")
def check_intervals(trial: Trial) -> None:
    """Check that the lower end of an interval is not above the upper one, and more coverage is wider."""
    if not trial.has_intervals:
        return
    model = trial.fitted
    narrow, wide = (
        [dense(end) for end in model.predict_interval(trial.data.X.new, coverage=coverage)]
        for coverage in (0.3, 0.6)
    )
    shape = (N_NEW, trial.data.y.shape[1])
    assert narrow[0].shape == narrow[1].shape == shape
    slack = TOLERANCES["ends of intervals"]
    for smaller, larger in ((wide[0], narrow[0]), (narrow[0], narrow[1]), (narrow[1], wide[1])):
        assert (smaller <= larger + slack).all(), "the ends of intervals are in the wrong order"
    assert (wide[1] > wide[0]).any(), "all intervals are empty"


@_check("evaluate", *FORMS)
def check_evaluate(trial: Trial) -> None:
    """Check that `evaluate` scores the held-out predictions."""
    if trial.grows:
        return
    model = trial.fitted
    for setting in trial.settings:
        scores = evaluate(model, setting, scoring="neg_mean_squared_error", nested=False)
        [result] = scores.results
        assert result.method, "the method of hold-out has no name"
        predictions = dense(model.fitted_.labels.spread(result.predictions))
        squares = (trial.data.y - predictions) ** 2
        if trial.data.weights is None and not trial.symmetry:
            expected = -_mean_of(squares, setting)
            assert_allclose(result.score, expected, rtol=TOLERANCES["score"], err_msg=setting)


def _mean_of(squares: np.ndarray, setting: str) -> float:
    """Return the mean of squared errors over cells, with one task new over tasks, with one instance over instances."""
    if setting in "AD":
        return float(np.nanmean(squares))
    return float(np.mean(np.nanmean(squares, axis=1 if setting == "B" else 0)))


@_check("explain", "full", "missing", "weights")
def check_explain(trial: Trial) -> None:
    """Check that the weight of a label is the change of the prediction when this label grows by one."""
    if trial.grows or not trial.is_exact:
        return
    model = trial.fitted
    weights = explain(model, 1, 2).weights
    again = trial.again(model)
    before = dense(model.predict())[1, 2]
    y = trial.data.y
    for row, column in ((1, 2), (3, 4), (5, 0)):
        unit = np.zeros(y.shape)
        unit[row, column] = 1.0
        if trial.symmetry:
            unit = (unit + trial.symmetry * unit.T) / 2
        model = clone(again).fit(**replace(trial.data, y=y + unit).arguments())
        change = dense(model.predict())[1, 2] - before
        what = f"the label of instance {row} and task {column}"
        assert_allclose(
            weights[row, column], change, rtol=0, atol=TOLERANCES["explain"], err_msg=what
        )


@_check("threads", "full")
def check_threads(trial: Trial) -> None:
    """Check that threads that read during a change see the model before or after it, never both."""
    data = trial.data
    others = replace(data, y=data.y[::-1, ::-1] * 3.0)
    setting = trial.settings[0]
    model = trial.fit()
    states = [trial.fit(), trial.fit(others)]

    def answers(of: Any) -> np.ndarray:
        if trial.grows:
            return dense(trial.predict(of)).ravel()
        return trial.hold_out(of, setting).ravel()

    expected = [answers(state) for state in states]
    seen: list[np.ndarray] = []
    failures: list[BaseException] = []
    is_done = threading.Event()

    def read() -> None:
        try:
            while not is_done.is_set():
                seen.append(answers(model))
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    usual_interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        for reader in readers:
            reader.start()
        for number in range(N_FITS):
            model.fit(**(data if number % 2 else others).arguments())
    finally:
        is_done.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(usual_interval)
    assert not failures, f"a reading thread failed: {failures[0]!r}"
    scale = max(np.nanmax(np.abs(values)) for values in expected)
    for values in seen:
        errors = [np.nanmax(np.abs(values - other)) for other in expected]
        assert min(errors) <= TOLERANCES["threads"] * scale, "a thread has seen half of a change"


@_check("refusals", "full", "weights")
def check_refusals(trial: Trial) -> None:
    """Check that wrong shapes and types are refused by an error with a sentence, before anything changes."""
    model = trial.fit()
    expected = trial.predict(model)
    for wrong in wrong_arguments(trial.data.arguments()):
        refused(model.fit, wrong)
    trial.close(trial.predict(model), expected, "refit", "a refused fit has changed the model")
    X = trial.data.X.new
    shape = "2|dim|shape|features|columns"
    refused(model.predict, Wrong("too few features", {"X": X[:, :-1]}, (ValueError,), shape))
    refused(model.predict, Wrong("a row as a vector", {"X": X[0]}, (ValueError,), shape))
    if trial.grows:
        return
    for setting in {"E", *"ABCD"} - set(trial.settings):
        arguments = {"setting": setting}
        refused(model.holdout, Wrong(f"setting {setting}", arguments, (ValueError,), "[Ss]etting"))
