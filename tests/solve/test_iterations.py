"""What conjugate gradients do on grids with holes: they descend, stop, report, and start where they are told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems as grids
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import Tikhonov
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.solve import missing as complete_module
from dyadlearn.solve.missing import complete
from dyadlearn.spectrum import Spectrum
from problems import MODELS
from sweeps import every, lines, over

# Wide spectra and little regularisation take many iterations.
HARD = {"shape": (12, 9), "kinds": ("singular", "full"), "alpha": 1e-3, "task_alpha": 1e-2}
WAYS = {
    "missing": {"route": "missing", "rank": 0, "max_direct": 0},
    "missing, deflated": {"route": "missing", "rank": 5, "max_direct": 0},
    "observed": {"route": "observed", "rank": 0},
    "observed, deflated": {"route": "observed", "rank": 5},
}
ways = {"way": WAYS}


def dense_system(
    given, route: str, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the system that is iterated on, its right-hand side, and the cells (mq,) of its unknowns."""
    observed = given.observed.ravel()
    labels = given.Y.ravel()[observed]
    if route == "missing":
        R = given.residual()
        return R[np.ix_(~observed, ~observed)], -R[np.ix_(~observed, observed)] @ labels, ~observed
    root = np.ones(labels.size) if weights is None else weights.ravel()[observed] ** 0.5
    system = root[:, None] * given.P[np.ix_(observed, observed)] * root + given.ridge * np.eye(
        labels.size
    )
    return system, root * labels, observed


def unknowns(found, cells: np.ndarray) -> np.ndarray:
    grid = found.solution.values.ravel()
    assert_array_equal(grid[~cells], 0.0)
    return grid[cells]


WEIGHTED = [
    (way, weighted)
    for weighted in (False, True)
    for way in WAYS.values()
    if not weighted or way["route"] == "observed"
]


@over(lines("way weighted", *WEIGHTED))
@over(every(model=MODELS))
def test_the_quadratic_falls_with_every_iteration(model, way, weighted):
    given = grids.holes(model, missing="50%", **HARD)
    if weighted:
        weights = np.random.default_rng(1).uniform(0.2, 3.0, size=given.Y.shape)
    else:
        weights = None
    system, right, cells = dense_system(given, way["route"], weights)
    heights = []
    steps = range(9)
    for max_iter in steps:
        found = complete(given.operators, given.Y, weights, max_iter=max_iter, **way)
        assert found.solution.n_iter == max_iter
        assert not found.solution.converged
        x = unknowns(found, cells)
        heights.append(0.5 * x @ system @ x - x @ right)
    lowest = -0.5 * right @ np.linalg.solve(system, right)
    assert heights[0] == 0
    assert np.all(np.diff(heights) < 0)
    assert np.all(heights >= lowest)
    # And they do get there.
    x = unknowns(complete(given.operators, given.Y, weights, **way), cells)
    assert_allclose(0.5 * x @ system @ x - x @ right, lowest, rtol=1e-9)


@over(every(rank=[0, 5]))
def test_the_transductive_objective_falls_with_every_iteration(rank):
    """With missing labels z set free, Σ (f − z)² + fᵀΞ⁻¹f falls to the minimum of the objective of observed ones."""
    alpha = 1e-2
    task_alpha = 1e-3
    given = grids.holes("two-step", (9, 8), "50%", alpha=alpha, task_alpha=task_alpha)
    left, right, counts = np.linalg.inv(given.K), np.linalg.inv(given.G), given.observed
    H = given.K @ np.linalg.inv(given.K + alpha * np.eye(9))
    task_H = given.G @ np.linalg.inv(given.G + task_alpha * np.eye(8))

    def penalty(F):
        one = left @ F
        other = F @ right
        return np.sum(F * (alpha * one + task_alpha * other + alpha * task_alpha * (one @ right)))

    objective = []
    reduced = []
    for max_iter in range(8):
        labels = complete(
            given.operators,
            given.Y,
            route="missing",
            rank=rank,
            max_direct=0,
            max_iter=max_iter,
            tol=1e-14,
        ).labels
        F = H @ labels @ task_H
        reduced.append(np.sum((F - labels) ** 2) + penalty(F))
        objective.append(np.sum((F - given.Y)[counts] ** 2) + penalty(F))
    F = given.fitted()
    least = np.sum((F - given.Y)[counts] ** 2) + penalty(F)
    assert np.all(np.diff(reduced) < 0)
    assert np.all(np.array(objective) <= reduced)
    assert np.all(np.array(objective) >= least * (1 - 1e-9))
    labels = complete(given.operators, given.Y, route="missing", rank=rank, max_direct=0).labels
    F = H @ labels @ task_H
    assert_allclose(np.sum((F - labels) ** 2) + penalty(F), least, rtol=1e-9)


@over(every(**ways, model=MODELS))
def test_stopping_is_reported_by_the_true_residual(model, way):
    given = grids.holes(model, missing="50%", **HARD)
    system, right, cells = dense_system(given, way["route"])
    n_iters = []
    for options in ({"max_iter": 3}, {"tol": 1e-2}, {"tol": 1e-5}, {"tol": 1e-8}):
        solution = (found := complete(given.operators, given.Y, **way, **options)).solution
        true = np.linalg.norm(right - system @ unknowns(found, cells)) / np.linalg.norm(right)
        assert_allclose(solution.residual, true, rtol=1e-4)
        assert solution.converged == (true <= options.get("tol", 1e-8)) == ("tol" in options)
        n_iters.append(solution.n_iter)
    assert n_iters[0] == 3 < n_iters[1] < n_iters[2] < n_iters[3]


@over(every(model=MODELS))
def test_no_more_is_asked_than_the_precision_allows(model):
    given = grids.holes(model, (8, 6), "50%", dtype="float32")
    for way in WAYS.values():
        assert complete(
            given.operators, given.Y.astype("float32"), tol=1e-14, **way
        ).solution.converged


# --- warm starts --------------------------------------------------------------------------------------


@over(every(**ways, model=MODELS))
def test_a_solution_nearby_saves_iterations(model, way):
    given = grids.holes(model, missing="50%", **HARD)
    near = complete(given.operators.at(1.02e-3), given.Y, **way)
    before = near.solution.values.copy()
    cold = complete(given.operators, given.Y, **way)
    warm = complete(given.operators, given.Y, start=near, **way)
    assert warm.solution.converged
    assert 0 < warm.solution.n_iter < cold.solution.n_iter
    grids.close(warm.labels, given.completed(), 1e-5)
    assert_array_equal(near.solution.values, before)
    # From the solution itself nothing is left to do.
    again = complete(given.operators, given.Y, start=cold, **way)
    assert again.solution.n_iter == 0
    assert again.solution.converged
    assert_array_equal(again.labels, cold.labels)


@over(every(route=["missing", "observed"], model=MODELS))
def test_a_solution_of_the_other_system_is_no_start(model, route):
    given = grids.holes(model, missing="50%", **HARD)
    other = "observed" if route == "missing" else "missing"
    options = {"rank": 0, "max_direct": 0}
    start = complete(given.operators, given.Y, route=other, **options)
    cold = complete(given.operators, given.Y, route=route, **options)
    warm = complete(given.operators, given.Y, route=route, start=start, **options)
    assert warm.solution.n_iter == cold.solution.n_iter > 0
    assert_array_equal(warm.labels, cold.labels)


@over(every(**ways, model=MODELS))
def test_a_start_from_other_holes_leads_to_the_same_answer(model, way):
    """Cells that were missing and are no more, or the reverse, take nothing along."""
    given = grids.holes(model, (9, 7), "50%")
    rng = np.random.default_rng(8)
    everything = np.where(given.observed, given.Y, rng.normal(size=(9, 7)))
    others = [everything, np.where(rng.random((9, 7)) < 0.4, np.nan, everything)]
    for other in others:
        start = complete(given.operators, other, tol=1e-12, **way)
        found = complete(given.operators, given.Y, start=start, tol=1e-12, **way)
        grids.close(found.labels, given.completed(), 1e-9)
        back = complete(given.operators, other, start=found, tol=1e-12, **way)
        grids.close(back.labels, replace(given, Y=other).completed(), 1e-9)


@over(every(model=MODELS))
def test_a_path_of_regularisations(model):
    """Each start from the one before: no answer is lost on the way, and fewer iterations are needed."""
    given = grids.holes(model, missing="50%", **HARD)
    way = WAYS["observed"]
    cold = 0
    warm = 0
    start = None
    for alpha in np.geomspace(1.0, 1e-3, 12):
        operators = given.operators.at(alpha)
        start = complete(operators, given.Y, start=start, **way)
        plain = complete(operators, given.Y, **way)
        grids.close(start.labels, plain.labels, 1e-5)
        cold = cold + plain.solution.n_iter
        warm = warm + start.solution.n_iter
    grids.close(start.labels, given.completed(), 1e-5)
    assert warm < cold


def test_many_missing_cells_that_are_interpolated_are_refused(monkeypatch):
    """Too many to solve for directly: the directions that are kept whole tell whether the rest determines them."""
    monkeypatch.setattr(complete_module, "_CHECKED_CELLS", 10)
    rng = np.random.default_rng(1)
    sides = [Spectrum.from_features(rng.normal(size=shape)) for shape in ((12, 3), (9, 2))]
    Y = rng.normal(size=(12, 9))
    operators = (
        TwoStep(*(side.smoother(Tikhonov(), 0.0) for side in sides)),
        Kronecker(*sides, 0.0),
    )
    few, unlucky, enough = (np.full((12, 9), np.nan) for _ in range(3))
    few[0, :5] = Y[0, :5]  # five labels for six directions
    unlucky[:2] = Y[:2]  # more labels, but of two instances for three directions
    enough[:5, :6] = Y[:5, :6]
    for given in operators:
        for labels in (few, unlucky):
            with pytest.raises(LeverageError, match="cells form a set that have leverage 1"):
                complete(given, labels, max_direct=10)
        done = complete(given, enough, max_direct=10, tol=1e-12)
        assert_allclose(done.labels, complete(given, enough, max_direct=1000).labels, atol=1e-6)
