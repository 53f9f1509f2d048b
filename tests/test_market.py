"""Every model of `market.py` has every property that `dyadlearn.testing` checks, and equals its dense twin."""

import functools
import importlib
import itertools
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dyadlearn
from dyadlearn.holdout.planning import SolveAgain
from dyadlearn.metrics import scorer
from dyadlearn.models import reading
from dyadlearn.settings import as_setting
from dyadlearn.testing import CHECKS, FORMS, Trial, model_checks
from market import ALPHAS, ENTRIES, GridOfPairs

FUZZ = Path(__file__).parents[1] / "fuzz"

pytestmark = pytest.mark.filterwarnings("ignore")

#: The largest error of predictions, and of held-out predictions, beside those of the twin.
TOLERANCES = {"predictions": 1e-8, "held-out predictions": 1e-7, "limits": 1e-5}


@functools.cache
def checks_of(name):
    """Return the checks of an entry; those of one form of labels share what they expect."""
    entry = ENTRIES[name]
    return dict(model_checks(entry.make(), **entry.options))


def is_asked(name, check):
    """Return whether to run a check; the dense twin says more of hold-out than refits do."""
    twin = ENTRIES[name].twin
    by_twin = {f"hold-out ({form})" for form in twin.forms} if twin else set()
    # Labels with weights of the twin are incomplete.
    return check not in by_twin - {"hold-out (weights)"}


CASES = [
    pytest.param(name, check, id=f"{check}-{name}")
    for name in ENTRIES
    for check in checks_of(name)
    if is_asked(name, check)
]
TWINS = [
    pytest.param(entry, form, id=f"{name}-{form}")
    for name, entry in ENTRIES.items()
    for form in entry.forms
    if entry.twin is not None and form in entry.twin.forms
]
FORMULAS = [
    pytest.param(entry, form, id=f"{name}-{form}")
    for name, entry in ENTRIES.items()
    for form in entry.forms
    if entry.formulas.get(form)
]


@pytest.fixture
def lists(monkeypatch):
    """Compute on the observed pairs of a list, however small its grid is."""
    monkeypatch.setattr(reading, "SMALL_GRID", 0)
    monkeypatch.setattr(reading, "fits_in_memory", lambda *_: False)


@pytest.mark.parametrize(("name", "check"), CASES)
def test_a_property(name, check, lists):
    checks_of(name)[check]()


@pytest.mark.parametrize(("entry", "form"), FORMULAS)
def test_hold_out_runs_by_the_formula(entry, form, monkeypatch):
    trial = Trial(entry.make(), form, entry.letters(form))
    fitted = trial.fit().fitted_
    # The way is asked, not the numbers of folds that are solved again.
    monkeypatch.setattr(SolveAgain, "held_out", lambda way, **_: way.problem.labels.values)
    ways = {letter: fitted.hold_out(as_setting(letter)) for letter in trial.settings}
    exact = {letter for letter, way in ways.items() if way.method.startswith("exact")}
    assert exact == set(entry.formulas[form]) & set(trial.settings)
    assert all(way.is_fixed for way in ways.values())


# --- the dense twin -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dense():
    """Give the reference models of the fuzzer."""
    names = [path.stem for path in FUZZ.glob("*.py")]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FUZZ))
        yield SimpleNamespace(
            refits=importlib.import_module("refits"), sides=importlib.import_module("dense")
        )
    for name in names:
        sys.modules.pop(name, None)


def kernel(kind, A, B):
    """Return the kernel between rows; kernels that were computed before are the rows themselves."""
    if kind == "precomputed":
        return A
    if kind == "linear":
        return A @ B.T
    distances = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1)
    return np.exp(-distances / A.shape[1])


def twin_of(dense, trial, twin):
    """Return the reference model of a trial."""
    data = trial.data
    sides = []
    tables = [data.X, data.X if data.tasks is None else data.tasks]
    if twin.kind == "independent":
        tables.pop()
    alphas = (twin.alpha, twin.task_alpha)
    params = trial.estimator.get_params()
    has_intercept = bool(params.get("fit_intercept", params.get("model__fit_intercept")))
    shares = (twin.identity, twin.levels)
    options = zip(tables, alphas, *shares, twin.filters, twin.n_iter, strict=False)
    for table, alpha, share, level, filter_, n_iter in options:
        # The reference adds 1 to both kernels where there is a free mean.
        K = kernel(twin.kernel, table.known, table.known) + (level - 1.0)
        K = (K + share * np.eye(len(K))).astype(dense.sides.LONG)
        sides.append(dense.sides.Side(K, filter_, alpha, n_iter, has_intercept))
    columns = {"independent": None, "network": sides[0]}.get(twin.kind, sides[-1])
    return dense.refits.Model(
        twin.kind, sides[0], columns, data.y, data.weights, trial.symmetry or 1
    )


def agree(found, expected, name):
    """Compare with the twin, relative to its largest value."""
    scale = float(np.abs(expected).max())
    assert_allclose(found, expected.astype(float), rtol=0, atol=TOLERANCES[name] * scale)


#: Factors of both regularisations, and which labels are missing beside those of the form.
PROBLEMS = [
    (1.0, 1.0, "a row and a column"),
    (1e-3, 1e2, "half"),
    (1e3, 1e-2, "a block"),
]


def hide(y, which):
    """Set some labels to NaN."""
    m, q = y.shape
    if which == "half":
        y[np.add.outer(np.arange(m), np.arange(q)) % 2 == 1] = np.nan
    elif which == "a block":
        y[4:, [1, 3]] = np.nan
    else:
        y[4] = np.nan
        y[:, 3] = np.nan


def posed(entry, form, problem):
    """Return a trial, its twin with other regularisations, and the model with the same ones."""
    trial = Trial(entry.make(), form, entry.letters(form))
    twin = entry.twin
    factor, task_factor, missing = problem
    of_pairs = isinstance(trial.estimator, GridOfPairs)
    if form != "full" and twin.kind in ("two_step", "kronecker") and not of_pairs:
        hide(trial.data.y, missing)
    if twin.kind == "network":
        task_factor = factor
    twin = replace(twin, alpha=factor * twin.alpha, task_alpha=task_factor * twin.task_alpha)
    known = trial.estimator.get_params()
    params = {"alpha": twin.alpha, "task_alpha": twin.task_alpha, "tol": 1e-12}
    if twin.kind == "kronecker":
        # The product of both identities is a part of the ridge.
        params["alpha"] += twin.identity[0] * twin.identity[1]
    prefix = "model__" if of_pairs else ""
    given = {prefix + name: value for name, value in params.items() if prefix + name in known}
    return trial, twin, trial.fit(**given)


def compare_predictions(trial, twin, model, reference):
    """Compare predictions for new instances, and for new tasks if the model knows tasks."""
    data = trial.data
    rows = kernel(twin.kernel, data.X.new, data.X.known) + (twin.levels[0] - 1.0)
    if not trial.knows_tasks:
        agree(model.predict(data.X.new), reference.predict(rows), "predictions")
        return
    tasks = data.X if data.tasks is None else data.tasks
    columns = kernel(twin.kernel, tasks.new, tasks.known) + (twin.levels[1] - 1.0)
    found = model.predict(data.X.new, tasks.new)
    agree(found, reference.predict(rows, columns), "predictions")


@pytest.mark.parametrize(("entry", "form"), TWINS)
def test_a_model_equals_its_twin(entry, form, dense, lists, each):
    for first, problem in enumerate(each(PROBLEMS)):
        trial, twin, model = posed(entry, form, problem)
        reference = twin_of(dense, trial, twin)
        compare_predictions(trial, twin, model, reference)
        m, q = trial.data.y.shape
        for setting in trial.settings:
            # Folds that are solved again are asked of one problem in each setting.
            is_solved_again = setting not in entry.formulas[form]
            if is_solved_again and "ABCD".index(setting) % len(PROBLEMS) != first:
                continue
            found = trial.hold_out(model, setting)
            for i in range(first, m, len(PROBLEMS)):
                j = (2 * i + 1) % q
                if np.isnan(trial.data.y[i, j]) or (trial.symmetry and i == j):
                    continue
                cells = np.zeros((m, q), dtype=bool)
                cells[i, j] = True
                if trial.symmetry:
                    cells |= cells.T
                expected = reference.left_out(setting, np.array([i]), np.array([j]), cells)
                agree(found[i, j], expected[i, j], "held-out predictions")


@pytest.mark.parametrize(
    "name", [name for name in ENTRIES if name.endswith(("of the paper", "with identity"))]
)
def test_without_regularisation_a_model_is_the_limit(name):
    """Kernels have full rank, so that the limit is an interpolation; those that are given are large."""
    trial = Trial(ENTRIES[name].make(), "full", ENTRIES[name].letters("full"))
    data = trial.data
    if data.X.are_kernels:
        data = replace(
            data,
            X=data.X.converted(lambda K: 100.0 * K),
            tasks=data.tasks.converted(lambda G: 100.0 * G),
        )
    alphas = [alpha for alpha in ("alpha", "task_alpha") if alpha in trial.estimator.get_params()]
    limit, nearly = (trial.fit(data, **dict.fromkeys(alphas, value)) for value in (0.0, 1e-9))
    agree(trial.predict(limit, data), trial.predict(nearly, data), "limits")
    for setting in trial.settings:
        agree(trial.hold_out(limit, setting), trial.hold_out(nearly, setting), "limits")


# --- searches -----------------------------------------------------------------------------------


SEARCHES = [
    pytest.param(name, form, id=f"{name}-{form}")
    for name, entry in ENTRIES.items()
    if hasattr(entry.make(), "alphas")
    for form in (entry.forms if "network" in name else ("full", "missing", "weights"))
]


def points(search):
    """Return the parameters of the models that a search compares, in the order of its landscape."""
    names = ("shares", "alphas", "task_alphas")
    given = {name: getattr(search, name, None) for name in names}
    grids = {name: values for name, values in given.items() if values is not None}
    found = []
    for values in itertools.product(*grids.values()):
        point = dict(zip(grids, values, strict=True))
        params = {"alpha": point["alphas"]}
        if hasattr(search, "task_alphas"):
            params["task_alpha"] = point.get("task_alphas", point["alphas"])
        kinds = ("product", "per_task", "per_instance")
        params.update(zip(kinds, point.get("shares", ()), strict=False))
        found.append(params)
    return found


def models_of(search):
    """Return the models that a search compares, not fitted."""
    Model = getattr(dyadlearn, type(search).__name__.removesuffix("CV"))
    known = Model().get_params()
    given = search.get_params().items()
    shared = {name: value for name, value in given if name in known and value is not None}
    return [Model(**shared | point) for point in points(search)]


@pytest.mark.parametrize(("name", "form"), SEARCHES)
def test_a_search_is_a_loop_over_its_models(name, form):
    """Its landscape has their scores, and it is the model with the best one."""
    entry = ENTRIES[name]
    trial = Trial(entry.make(), form, entry.letters(form))
    data = trial.data
    params = {"task_alphas": ALPHAS} if name == "TwoStepRidgeCV" else {}
    # Other forms and other searches are asked in the other settings.
    first = (FORMS.index(form) + list(ENTRIES).index(name)) % 2
    for setting in trial.settings[first::2] or trial.settings:
        search = trial.fit(setting=setting, **params)
        models = [model.fit(**data.arguments()) for model in models_of(search)]
        units = search.fitted_.validation.units
        left_out = dict(zip(("groups", "task_groups"), units.sides, strict=True))
        left_out = {side: codes for side, codes in left_out.items() if codes is not None}
        if units.cells is not None:
            left_out["cells"] = units.cells
        held_out = [trial.hold_out(model, setting, **left_out) for model in models]
        judge = scorer("neg_mean_squared_error")
        scores = [judge(data.y, predictions, setting=setting) for predictions in held_out]
        assert_allclose(search.landscape_.ravel(), scores, rtol=1e-6)
        best = int(np.argmax(scores))
        assert search.best_score_ == search.landscape_.max()
        assert points(search)[best].items() >= {"alpha": search.alpha_}.items()
        agree(search.holdout_, held_out[best], "held-out predictions")
        agree(trial.predict(search), trial.predict(models[best]), "predictions")
        agree(search.dual_coef_, models[best].dual_coef_, "predictions")


# --- the checker --------------------------------------------------------------------------------


def test_every_model_of_the_library_has_an_entry():
    names = {name for name in dyadlearn.__all__ if name.endswith(("Ridge", "RidgeCV", "Regressor"))}
    names.remove(
        "MultiwayRidge"
    )  # its labels are no grid; its tests are in models/test_multiway.py
    assert {name.split()[0].rstrip(",") for name in ENTRIES} >= names


def test_every_skipped_check_exists_and_has_a_reason():
    for entry in ENTRIES.values():
        assert set(entry.skip) <= set(CHECKS)
        assert all(entry.skip.values())
