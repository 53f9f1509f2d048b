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
from sweeps import every, over

# Wide spectra and little regularisation take many iterations.
HARD = {"shape": (12, 9), "kinds": ("singular", "full"), "alpha": 1e-3, "task_alpha": 1e-2}
WAYS = {
    "missing": {"route": "missing", "rank": 0, "max_direct": 0},
    "missing, deflated": {"route": "missing", "rank": 5, "max_direct": 0},
    "observed": {"route": "observed", "rank": 0},
    "observed, deflated": {"route": "observed", "rank": 5},
}
ways = {"way": WAYS}


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
