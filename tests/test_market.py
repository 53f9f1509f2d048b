"""Every model of `market.py` has every property that `dyadlearn.testing` checks, and equals its dense twin."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn.models import reading
from dyadlearn.settings import as_setting
from dyadlearn.testing import CHECKS, Trial, model_checks
from market import ENTRIES, Entry, Twin

FUZZ = Path(__file__).parents[1] / "fuzz"

pytestmark = pytest.mark.filterwarnings("ignore")

#: The largest error of predictions, and of held-out predictions, beside those of the twin.
TOLERANCES = {"predictions": 1e-8, "held-out predictions": 1e-7}

CASES = [
    pytest.param(name, check, id=f"{check}-{name}")
    for name, entry in ENTRIES.items()
    for check in dict(model_checks(entry.make(), **entry.options))
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
def lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute on the observed pairs of a list, however small its grid is."""
    monkeypatch.setattr(reading, "SMALL_GRID", 0)
    monkeypatch.setattr(reading, "fits_in_memory", lambda *_: False)


@pytest.mark.parametrize(("name", "check"), CASES)
def test_a_property(name: str, check: str, lists: None) -> None:
    entry = ENTRIES[name]
    dict(model_checks(entry.make(), **entry.options))[check]()


@pytest.mark.parametrize(("entry", "form"), FORMULAS)
def test_hold_out_runs_by_the_formula(entry: Entry, form: str) -> None:
    trial = Trial(entry.make(), form, entry.letters(form))
    fitted = trial.fit().fitted_
    ways = {letter: fitted.hold_out(as_setting(letter)) for letter in trial.settings}
    exact = {letter for letter, way in ways.items() if way.method.startswith("exact")}
    assert exact == set(entry.formulas[form]) & set(trial.settings)
    assert all(way.is_fixed for way in ways.values())


# --- the dense twin -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dense() -> Any:
    """Give the reference models of the fuzzer."""
    names = [path.stem for path in FUZZ.glob("*.py")]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FUZZ))
        yield SimpleNamespace(
            refits=importlib.import_module("refits"), sides=importlib.import_module("dense")
        )
    for name in names:
        sys.modules.pop(name, None)


def kernel(kind: str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the kernel between rows; kernels that were computed before are the rows themselves."""
    if kind == "precomputed":
        return A
    if kind == "linear":
        return A @ B.T
    distances = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1)
    return np.exp(-distances / A.shape[1])


def twin_of(dense: Any, trial: Trial, twin: Twin) -> Any:
    """Return the reference model of a trial."""
    data = trial.data
    sides = []
    tables = [data.X, data.X if data.tasks is None else data.tasks]
    if twin.kind == "independent":
        tables.pop()
    alphas = (twin.alpha, twin.task_alpha)
    options = zip(tables, alphas, twin.identity, twin.filters, twin.n_iter, strict=False)
    for table, alpha, share, filter_, n_iter in options:
        K = kernel(twin.kernel, table.known, table.known)
        K = (K + share * np.eye(len(K))).astype(dense.sides.LONG)
        sides.append(dense.sides.Side(K, filter_, alpha, n_iter, trial.has_intercept))
    columns = {"independent": None, "network": sides[0]}.get(twin.kind, sides[-1])
    return dense.refits.Model(
        twin.kind, sides[0], columns, data.y, data.weights, trial.symmetry or 1
    )


def agree(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    """Compare with the twin, relative to its largest value."""
    scale = float(np.abs(expected).max())
    assert_allclose(found, expected.astype(float), rtol=0, atol=TOLERANCES[name] * scale)


#: Factors of both regularisations: as they are, and at opposite ends.
FACTORS = [(1.0, 1.0), (1e-3, 1e2), (1e3, 1e-2)]


def posed(entry: Entry, form: str, factors: tuple[float, float]) -> tuple[Trial, Twin, Any]:
    """Return a trial, its twin with other regularisations, and the model with the same ones."""
    trial = Trial(entry.make(), form, entry.letters(form))
    twin = entry.twin
    if form == "missing" and twin.kind in ("two_step", "kronecker"):
        # A row and a column without labels.
        trial.data.y[4] = np.nan
        trial.data.y[:, 3] = np.nan
    factor, task_factor = factors
    if twin.kind == "network":
        task_factor = factor
    twin = replace(twin, alpha=factor * twin.alpha, task_alpha=task_factor * twin.task_alpha)
    known = trial.estimator.get_params()
    params = {"alpha": twin.alpha, "task_alpha": twin.task_alpha, "tol": 1e-12}
    if twin.kind == "kronecker":
        # The product of both identities is a part of the ridge.
        params["alpha"] += twin.identity[0] * twin.identity[1]
    model = trial.fit(**{name: value for name, value in params.items() if name in known})
    return trial, twin, model


@pytest.mark.parametrize(("entry", "form"), TWINS)
def test_predictions_equal_those_of_the_twin(
    entry: Entry, form: str, dense: Any, lists: None, each: Any
) -> None:
    for factors in each(FACTORS):
        trial, twin, model = posed(entry, form, factors)
        reference = twin_of(dense, trial, twin)
        data = trial.data
        tasks = data.X if data.tasks is None else data.tasks
        rows = kernel(twin.kernel, data.X.new, data.X.known)
        if not trial.knows_tasks:
            agree(model.predict(data.X.new), reference.predict(rows), "predictions")
            continue
        columns = kernel(twin.kernel, tasks.new, tasks.known)
        found = model.predict(data.X.new, tasks.new)
        agree(found, reference.predict(rows, columns), "predictions")


@pytest.mark.parametrize(("entry", "form"), TWINS)
def test_held_out_predictions_equal_those_of_the_twin(
    entry: Entry, form: str, dense: Any, lists: None, each: Any
) -> None:
    for factors in each(FACTORS):
        trial, twin, model = posed(entry, form, factors)
        reference = twin_of(dense, trial, twin)
        m, q = trial.data.y.shape
        for setting in trial.settings:
            found = trial.hold_out(model, setting)
            for i in range(0, m, 2):
                j = (2 * i + 1) % q
                if np.isnan(trial.data.y[i, j]) or (trial.symmetry and i == j):
                    continue
                cells = np.zeros((m, q), dtype=bool)
                cells[i, j] = True
                if trial.symmetry:
                    cells |= cells.T
                expected = reference.left_out(setting, np.array([i]), np.array([j]), cells)
                agree(found[i, j], expected[i, j], "held-out predictions")


# --- the checker --------------------------------------------------------------------------------


def test_every_model_of_the_library_has_an_entry() -> None:
    import dyadlearn

    names = {name for name in dyadlearn.__all__ if name.endswith(("Ridge", "RidgeCV", "Regressor"))}
    names.remove(
        "MultiwayRidge"
    )  # its labels are no grid; its tests are in models/test_multiway.py
    assert {name.split()[0].rstrip(",") for name in ENTRIES} >= names


def test_every_skipped_check_exists_and_has_a_reason() -> None:
    for entry in ENTRIES.values():
        assert set(entry.skip) <= set(CHECKS)
        assert all(entry.skip.values())
