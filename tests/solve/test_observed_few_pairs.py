"""Few observed pairs that are solved for by one dense system, or by their directions, against iterations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import problems as grids
from dyadlearn._array import positive_solver
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.filters import SpectralCutoff
from dyadlearn.labels import Labels
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.solve import directions, factor, missing, observed
from dyadlearn.solve.missing import complete, suits_direct
from dyadlearn.solve.observed import ObservedSystem, complete_grid, solve_by_directions, solve_pairs
from dyadlearn.spectrum import Spectrum
from problems import close
from sweeps import covering, every, over

SHAPE = (9, 7)
PAIR_KERNELS = ["kronecker", "kronecker + 1"]
KINDS = [("full", "full"), ("singular", "primal"), ("thin", "singular"), ("sparse", "full")]
WEIGHTS = 10.0 ** np.random.default_rng(4).uniform(-1.5, 0.0, size=SHAPE)


def listed(given, weights=None, put=np.asarray):
    """Return the observed labels of a grid as a list."""
    rows, columns = np.nonzero(given.observed)
    own = None if weights is None else put(weights[rows, columns])
    return Labels((rows, columns), put(given.Y[rows, columns]), given.Y.shape, own)


def function(operators, solution):
    """Return the values of a solution on the whole grid."""
    left, right = (side.vectors for side in operators.grid_spectra)
    return left @ (operators.kernel_values**0.5 * solution.spectral) @ right.T + solution.mean


# --- the decision --------------------------------------------------------------------------------------------------


def test_a_dense_system_is_chosen_where_it_takes_less_work(monkeypatch):
    given = grids.holes("kronecker", SHAPE)
    model = given.operators
    # 12³/3 multiplications are 576: as many as thirty iterations of 19.2.
    assert suits_direct(model, 12, 19.2, given.Y)
    assert not suits_direct(model, 12, 19.1, given.Y)
    assert not suits_direct(model, 13, 19.2, given.Y)
    assert not suits_direct(model, 0, 19.2, given.Y)
    spectra = model.spectra
    cutoff = TwoStep(*(side.smoother(SpectralCutoff(), 2.9) for side in spectra))
    for other in (Kronecker(*spectra, 0.0), grids.holes("two-step", SHAPE).operators, cutoff):
        assert not suits_direct(other, 12, 1e9, given.Y)
    sizes = []
    monkeypatch.setattr(missing, "fits_in_memory", lambda size, _: sizes.append(size))
    assert not suits_direct(model, 12, 19.2, given.Y)
    assert sizes == [2 * 8 * 12**2]


@over(every(model=PAIR_KERNELS, weighted=[False, True]))
def test_a_grid_takes_the_dense_system_where_it_is_chosen(monkeypatch, model, weighted):
    given = grids.holes(model, SHAPE)
    weights = WEIGHTS if weighted else None
    costs = []

    def decide(is_direct):
        return lambda operators, n, cost, like: costs.append((n, cost)) or is_direct

    for module in (missing, observed):
        monkeypatch.setattr(module, "suits_direct", decide(True))
    assert complete_grid(given.operators, given.Y, weights).solution.n_iter == 0
    direct = complete(given.operators, given.Y, weights, max_direct=1)
    assert (direct.route, direct.solution.n_iter) == ("observed", 0)
    assert set(costs) == {(given.observed.sum(), given.operators.kernel_cost)}
    for module in (missing, observed):
        monkeypatch.setattr(module, "suits_direct", decide(False))
    assert complete(given.operators, given.Y, weights, max_direct=1).solution.n_iter > 0
    # Iterations that are asked for are done.
    for module in (missing, observed):
        monkeypatch.setattr(module, "suits_direct", decide(True))
    for asked in ({"rank": 0}, {"max_direct": 0}, {"route": "observed", "max_direct": 1}):
        assert (
            complete(
                given.operators, given.Y, weights, **({"max_direct": 1} | asked)
            ).solution.n_iter
            > 0
        )


# --- the answers ---------------------------------------------------------------------------------------------------


@over(
    covering(
        model=PAIR_KERNELS,
        kinds=KINDS,
        pattern=["5%", "95%", "rows and columns", "one cell"],
        alpha=[1e-3, 1e6],
        weighted=[False, True],
    )
)
def test_direct_is_iterated(monkeypatch, model, kinds, pattern, alpha, weighted):
    given = grids.holes(model, SHAPE, pattern, kinds, alpha=alpha)
    weights = WEIGHTS if weighted else None
    operators = given.operators
    labels = listed(given, weights)
    expected = given.fitted(weights)
    iterated = ObservedSystem.of(operators, labels).solve(tol=1e-13, max_iter=5000)
    monkeypatch.setattr(missing, "ITERATIONS", 10**9)
    direct = solve_pairs(operators, labels)
    assert (direct.n_iter, direct.converged) == (0, True)
    close(function(operators, direct), expected, 1e-8)
    close(function(operators, direct), function(operators, iterated), 1e-8)
    on_grid = complete(operators, given.Y, weights, max_direct=1)
    assert (on_grid.route, on_grid.solution.n_iter) == ("observed", 0)
    close(operators.hat(on_grid.labels), expected, 1e-8)
    monkeypatch.setattr(missing, "ITERATIONS", 0)
    assert solve_pairs(operators, labels) is None
    if pattern != "one cell":  # one cell is always solved for directly
        slow = complete(operators, given.Y, weights, max_direct=1, tol=1e-13)
        assert slow.solution.n_iter > 0
        close(operators.hat(slow.labels), operators.hat(on_grid.labels), 1e-8)


@over(every(has_mean=[False, True], weighted=[False, True], alpha=[1e-9, 1e-13]))
def test_lists_keep_the_digits_that_their_kernel_loses(has_mean, weighted, alpha):
    """More pairs than products of features, and next to no regularisation: ordinary least squares."""
    rng = np.random.default_rng(0)
    sides = [rng.normal(size=(n, 2)) for n in SHAPE]
    flat = np.sort(rng.choice(63, 40, replace=False))
    rows, columns = np.divmod(flat, 7)
    y = rng.normal(size=40) + 2.0
    weights = WEIGHTS.ravel()[flat] if weighted else np.ones(40)
    model = Kronecker(
        *(Spectrum.from_features(side, constant="feature" if has_mean else None) for side in sides),
        alpha,
        free_mean=has_mean,
    )
    found = function(
        model,
        solve_by_directions(
            model, Labels((rows, columns), y, SHAPE, weights if weighted else None)
        ),
    )
    sides = [np.c_[side, np.ones(len(side))] if has_mean else side for side in sides]
    products = np.einsum("ik,jl->ijkl", *sides).reshape(63, -1)
    root = weights**0.5
    expected = products @ np.linalg.lstsq(products[flat] * root[:, None], y * root)[0]
    close(found.ravel(), expected, 1e-8)
    # The grid of these labels takes the same way.
    Y = np.full(SHAPE, np.nan)
    own = np.ones(SHAPE)
    Y[rows, columns] = y
    own[rows, columns] = weights
    on_grid = complete_grid(model, Y, own if weighted else None)
    assert_allclose(model.hat(on_grid.labels), found, rtol=0, atol=1e-10)


def test_lists_that_lose_digits_are_told(monkeypatch):
    given = grids.holes("kronecker", SHAPE, "50%", ("thin", "thin"), alpha=1e-13)
    monkeypatch.setattr(directions, "_MOST_DIRECTIONS", 0)
    monkeypatch.setattr(observed, "suits_direct", lambda *_: True)
    with pytest.warns(PrecisionWarning):
        solve_pairs(given.operators, listed(given))


def test_a_singular_system_is_left_to_iterations(monkeypatch, library):
    with pytest.raises(np.linalg.LinAlgError):
        positive_solver(library.asarray(np.zeros((2, 2))))
    given = grids.holes("kronecker + 1", SHAPE)

    def singular(_):
        raise np.linalg.LinAlgError("Singular matrix")

    assert solve_pairs(given.operators, listed(given)) is not None
    monkeypatch.setattr(factor, "positive_solver", singular)
    assert solve_pairs(given.operators, listed(given)) is None
    on_grid = complete(given.operators, given.Y, max_direct=1, tol=1e-12)
    assert on_grid.solution.n_iter > 0
    grids.close(on_grid.labels, given.completed(), 1e-9)
