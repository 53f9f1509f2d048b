"""A grand mean that carries no penalty, where labels are missing or weighted: dense systems with a border."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems as grids
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.holdout import Problem, holdout, plan
from dyadlearn.pairing import TwoStep
from dyadlearn.pairing.incomplete import complete_labels
from dyadlearn.settings import Setting
from dyadlearn.solve.columns import complete_block
from dyadlearn.solve.missing import complete
from dyadlearn.solve.operators import predict_others, reduced
from dyadlearn.spectrum import Spectrum
from problems import PATTERNS, WITH_MEAN, complement
from sweeps import covering, every, lines, over

WAYS = {
    "direct": {"route": "missing"},
    "missing": {"route": "missing", "rank": 0, "max_direct": 0},
    "missing, deflated": {"route": "missing", "rank": 5, "max_direct": 0},
    "missing, rank chosen": {"route": "missing", "max_direct": 0},
    "observed": {"route": "observed", "rank": 0},
    "observed, deflated": {"route": "observed", "rank": 5},
}
MISSING_WAYS = {name: way for name, way in WAYS.items() if way["route"] == "missing"}


def smoothers(K: np.ndarray, G: np.ndarray, filters, alphas) -> TwoStep:
    spectra = [Spectrum.from_gram(kernel, constant="free") for kernel in (K, G)]
    return TwoStep(*(s.smoother(f, a) for s, f, a in zip(spectra, filters, alphas, strict=True)))


# --- labels that are moved ---------------------------------------------------------------------------


@over(
    covering(
        model=WITH_MEAN, pattern=PATTERNS, way=WAYS, weighted=[False, True], offset=[1.0, -1e6]
    )
)
def test_labels_and_a_constant_give_predictions_and_that_constant(
    model, pattern, way, weighted, offset
):
    """However large it is: a tolerance of iterations is that of the labels without their mean."""
    given = grids.holes(model, (6, 4), pattern, ("full", "thin"))
    if weighted:
        weights = np.random.default_rng(0).uniform(0.2, 3.0, size=(6, 4))
    else:
        weights = None
    way = way if weights is None else {"rank": way.get("rank")}
    one, other = (
        complete(given.operators, Y, weights, tol=1e-9, **way) for Y in (given.Y, given.Y + offset)
    )
    assert_allclose(other.labels, one.labels + offset, rtol=0, atol=2e-8)


@over(covering(model=WITH_MEAN, pattern=PATTERNS, way=WAYS))
def test_labels_that_are_all_equal_are_predicted(model, pattern, way):
    given = grids.holes(model, (7, 5), pattern, ("singular", "full"), alpha=1e-3)
    for value in (0.1, -7.3e5, 0.0):
        found = complete(given.operators, np.where(given.observed, value, np.nan), **way)
        assert found.solution.converged
        assert_allclose(found.labels, value, rtol=1e-14)
    weights = np.random.default_rng(0).uniform(0.2, 3.0, size=(7, 5))
    found = complete(
        given.operators, np.where(given.observed, 0.1, np.nan), weights, rank=way.get("rank")
    )
    assert found.solution.converged
    assert_allclose(found.labels, 0.1, rtol=1e-14)


@over(every(model=WITH_MEAN))
def test_without_any_label_there_is_no_mean(model):
    given = grids.holes(model, (5, 4))
    nothing = np.full((5, 4), np.nan)
    for way in WAYS.values():
        with pytest.raises(
            ValueError,
            match=r"^No label is observed, .* grand mean: give labels, or use fit_intercep",
        ):
            complete(given.operators, nothing, **way)
    with pytest.raises(
        ValueError, match=r"^No label is observed, and nothing else determines the grand mean"
    ):
        complete_labels(given.operators, nothing)






# --- kernels and filters -----------------------------------------------------------------------------


@over(every(features={"kernel": False, "features": True}))
def test_a_kernel_of_zeros_leaves_the_constant(features):
    given = grids.holes("two-step + 1", (5, 4))
    build = Spectrum.from_features if features else Spectrum.from_gram
    empty = build(np.zeros((5, 2 if features else 5)), constant="free")
    operators = TwoStep(empty.smoother(Tikhonov(), 0.5), given.operators.columns)
    expected = replace(given, P=grids.two_step_pairs(np.zeros((5, 5)), given.G, 0.5, 0.2, True))
    for name, way in WAYS.items():
        grids.close(
            complete(operators, given.Y, tol=1e-13, **way).labels, expected.completed(), 1e-10, name
        )


def filter_matrices(K: np.ndarray, filter, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return hat and residual of one side with a constant, by repetition or by choosing eigenvectors."""
    Z = complement(len(K))
    K = Z.T @ K @ Z
    values, vectors = np.linalg.eigh(K)
    if isinstance(filter, SpectralCutoff):
        residual = np.eye(len(K)) - (vectors * (values >= alpha)) @ vectors.T
    elif isinstance(filter, Landweber):
        residual = np.linalg.matrix_power(
            np.eye(len(K)) - K / values[-1], int(np.ceil(values[-1] / alpha))
        )
    else:
        residual = np.linalg.matrix_power(grids.residual_of(K, alpha), getattr(filter, "n_iter", 1))
    residual = Z @ residual @ Z.T
    return np.eye(len(residual)) - residual, residual


FILTERS = [Tikhonov(), SpectralCutoff(), IteratedTikhonov(3), Landweber()]


@over(
    covering(filter=FILTERS, task_filter=FILTERS, kinds=[("full", "full"), ("singular", "primal")])
)
def test_any_mixture_of_filters(filter, task_filter, kinds):
    """A direction that one side keeps whole has no penalty beside the constant of the other."""
    given = grids.holes("two-step + 1", (8, 6), "30%", kinds)
    spectra = given.operators.spectra
    filters = (filter, task_filter)
    alphas = tuple(1.2 if f == SpectralCutoff() else 0.5 for f in filters)
    operators = TwoStep(
        *(s.smoother(f, a) for s, f, a in zip(spectra, filters, alphas, strict=True))
    )
    (H, R), (task_H, task_R) = (
        filter_matrices(*side) for side in zip((given.K, given.G), filters, alphas, strict=True)
    )
    hat = np.kron(H, task_H)
    residual = np.kron(R, np.eye(6)) + np.kron(H, task_R)
    observed = given.observed.ravel()
    system = residual[np.ix_(~observed, ~observed)]
    expected = np.linalg.solve(system, hat[np.ix_(~observed, observed)] @ given.Y.ravel()[observed])
    whole = {SpectralCutoff(), Landweber()} & {*filters}
    ways = MISSING_WAYS if whole else WAYS
    assert (operators.floor > 0) == bool(whole)
    for name, way in ways.items():
        found = complete(operators, given.Y, tol=1e-13, **way)
        assert found.solution.converged, name
        grids.close(found.labels[~given.observed], expected, 1e-9, name)
    if operators.floor > 0:
        with pytest.raises(
            ValueError, match="^sample_weight has no effect on a model that interpolates"
        ):
            complete(operators, given.Y, np.ones((8, 6)))


@over(covering(max_direct={"iterative": 0, "direct": 1000}, rank=[0, 4], pattern=PATTERNS))
def test_without_regularisation_the_penalty_alone_decides(pattern, rank, max_direct):
    given = grids.holes("two-step + 1", (6, 5), pattern)
    left, right = (
        Z @ np.linalg.inv(Z.T @ k @ Z) @ Z.T
        for k in (given.K, given.G)
        for Z in [complement(len(k))]
    )
    precision = np.kron(left, np.eye(5)) + np.kron(np.eye(6), right)
    filled = given.Y.ravel().copy()
    seen = given.observed.ravel()
    filled[~seen] = np.linalg.solve(
        precision[np.ix_(~seen, ~seen)], -precision[np.ix_(~seen, seen)] @ filled[seen]
    )
    operators = smoothers(given.K, given.G, [Tikhonov()] * 2, (0.0, 0.0))
    found = complete(operators, given.Y, rank=rank, max_direct=max_direct, tol=1e-13)
    grids.close(found.labels.ravel(), filled, 1e-9)


def test_no_regularisation_on_one_side():
    """Every row is then a problem of its own, with a constant of its own; one without labels has none."""
    given = grids.holes("two-step + 1", (6, 5), "30%")
    Y = given.Y.copy()
    observed = given.observed
    assert observed.any(axis=1).all()
    operators = smoothers(given.K, given.G, [Tikhonov()] * 2, (0.0, 0.2))
    expected = Y.copy()
    for row, here in zip(expected, observed, strict=True):
        dual, mean = grids.bordered(
            given.G[np.ix_(here, here)] + 0.2 * np.eye(here.sum()), row[here]
        )
        row[~here] = given.G[np.ix_(~here, here)] @ dual + mean
    for name, way in MISSING_WAYS.items():
        grids.close(complete(operators, Y, tol=1e-13, **way).labels, expected, 1e-9, name)
    Y[2] = np.nan
    with pytest.raises(LeverageError, match="cells form a set that have leverage 1"):
        complete(operators, Y)
    with pytest.raises(LeverageError, match="rows with missing labels have leverage 1"):
        complete_block(operators.rows, operators.columns, Y, [2], range(5))


def test_many_cells_that_leave_a_row_without_its_constant_are_refused(monkeypatch):
    """Where too many are missing to be solved for directly, the directions that are kept whole are looked at."""
    monkeypatch.setattr("dyadlearn.solve.missing._CHECKED_CELLS", 0)
    given = grids.holes("two-step + 1", (6, 5), "5%")
    operators = smoothers(given.K, given.G, [Tikhonov()] * 2, (0.0, 0.2))
    assert complete(operators, given.Y, max_direct=0).solution.converged
    Y = given.Y.copy()
    Y[2] = np.nan
    with pytest.raises(LeverageError, match="cells form a set that have leverage 1"):
        complete(operators, Y, max_direct=0)


# --- one side ------------------------------------------------------------------------------------------

N = 8
ROWS = np.array([0, 1, 3, 4, 6, 7])
HIDDEN = np.array([2, 5])


@over(
    every(
        filter=[*FILTERS, Landweber(6)],
        kind=["full", "singular", "primal", "thin"],
        alpha=[0.05, 0.8, 50.0],
    )
)
def test_a_reduced_side_keeps_its_constant(filter, kind, alpha):
    spectrum = grids.spectrum(
        kind, grids.features(kind, N, np.random.default_rng(4)), constant="free"
    )
    side = spectrum.smoother(filter, alpha)
    labels = np.random.default_rng(0).normal(size=(6, 3))
    R = side.residual()
    own = R[np.ix_(HIDDEN, HIDDEN)]
    between = R[np.ix_(HIDDEN, ROWS)]
    if np.linalg.eigvalsh(own).min() < 1e-8:
        with pytest.raises(LeverageError, match="2 of 8 rows are missing and have leverage 1"):
            reduced(side, ROWS)
        return
    found = reduced(side, ROWS)
    schur = R[np.ix_(ROWS, ROWS)] - between.T @ np.linalg.solve(own, between)
    assert_allclose(found.residual(), schur, atol=1e-11)
    assert_allclose(found.hat(), np.eye(6) - schur, atol=1e-11)
    assert found.spectrum.has_free_constant
    assert_allclose(np.abs(found.spectrum.vectors[:, -1]), 6**-0.5, rtol=1e-14)
    assert (found.slack_floor > 0) == (side.slack_floor > 0)
    assert_allclose(
        predict_others(side, ROWS, labels), -np.linalg.solve(own, between @ labels), atol=1e-11
    )
    assert_allclose(
        predict_others(side, ROWS, labels + 5.0),
        predict_others(side, ROWS, labels) + 5.0,
        atol=1e-12,
    )


def test_a_reduced_side_without_regularisation_keeps_the_limit():
    spectrum = grids.spectrum(
        "full", grids.features("full", N, np.random.default_rng(4)), constant="free"
    )
    found = reduced(spectrum.smoother(Tikhonov(), 0.0), ROWS)
    Z = complement(6)
    K = spectrum.matrix(spectrum.values)[np.ix_(ROWS, ROWS)]
    assert found.remainder_limit is not None
    assert_allclose(found.scaled().residual(), Z @ np.linalg.inv(Z.T @ K @ Z) @ Z.T, atol=1e-10)


def test_weights_of_a_reduced_side_are_those_of_a_border():
    spectrum = grids.spectrum(
        "full", grids.features("full", N, np.random.default_rng(4)), constant="free"
    )
    side = spectrum.smoother(IteratedTikhonov(2), 0.4)
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 0.2])
    Z = complement(N)
    kernel = Z @ (np.linalg.inv(Z.T @ side.residual() @ Z) - np.eye(N - 1)) @ Z.T
    labels = np.random.default_rng(0).normal(size=6)
    dual, mean = grids.bordered(kernel[np.ix_(ROWS, ROWS)] + np.diag(1.0 / weights), labels)
    root = weights[:, None] ** 0.5
    found = reduced(side, ROWS, weights[:, None]).smooth(root * labels[:, None]) / root
    assert_allclose(found[:, 0], kernel[np.ix_(ROWS, ROWS)] @ dual + mean, atol=1e-11)


def test_nothing_says_anything_of_a_constant_without_rows():
    side = Spectrum.from_gram(np.eye(3), constant="free").smoother(Tikhonov(), 1.0)
    with pytest.raises(LeverageError, match="3 of 3 rows are missing and have leverage 1"):
        predict_others(side, np.array([], dtype=int), np.zeros((0, 2)))


# --- blocks ------------------------------------------------------------------------------------------------

BLOCKS = {
    "cell": ((6, 5), [2], [4]),
    "task": ((7, 4), [6, 0, 3, 2], [1]),
    "block": ((5, 6), [4, 1, 2], [0, 5]),
    "rows": ((6, 3), [5, 1], [0, 1, 2]),
    "columns": ((4, 6), [0, 1, 2, 3], [3, 2]),
    "all but one": ((1, 6), [0], [0, 1, 2, 4, 5]),
}


@over(
    covering(
        block=BLOCKS,
        kinds=[("full", "full"), ("singular", "primal")],
        alpha=[1e-6, 1.0, 1e6],
        task_alpha=[1e-6, 1.0, 1e6],
    )
)
def test_a_block_is_filled_and_left_beside(block, kinds, alpha, task_alpha):
    """The closed form, and setting A beside it, against the system with a border."""
    shape, rows, columns = block
    given = grids.holes("two-step + 1", shape, "none missing", kinds, alpha, task_alpha)
    if kinds[0] != "full":
        alpha = max(alpha, 1e-3)
        task_alpha = max(task_alpha, 1e-3)
        given = grids.holes("two-step + 1", shape, "none missing", kinds, alpha, task_alpha)
    Y = given.Y.copy()
    Y[np.ix_(rows, columns)] = np.nan
    given = replace(given, Y=Y)
    found = complete_labels(given.operators, Y)
    assert found.route == "block"
    grids.close(found.labels, given.completed(), 1e-9)
    if given.observed.sum() < 2:
        with pytest.raises(ValueError, match="^No label remains to learn from"):
            holdout(Problem.of(given.operators, Y), Setting.A)
        return
    problem = Problem.of(given.operators, Y)
    assert plan(problem, Setting.A).way == "model"
    held_out = holdout(problem, Setting.A)
    expected = given.completed()
    for i, j in zip(*np.nonzero(given.observed), strict=True):
        hidden = Y.copy()
        hidden[i, j] = np.nan
        expected[i, j] = replace(given, Y=hidden).fitted()[i, j]
    grids.close(held_out, expected, 1e-8)




# --- main effects that are almost free -------------------------------------------------------------------------


@over(every(alphas=[(1e-10, 1.0), (1.0, 1e-10), (1e-10, 1e10), (1e10, 1e-10), (1e-10, 1e-10)]))
def test_a_regularisation_that_vanishes_on_one_side(alphas):
    """Its main effects outweigh all else in the kernel by 1e10, and leave all digits of the others nevertheless."""
    given = grids.holes("two-step + 1", (6, 5), "5%", alpha=alphas[0], task_alpha=alphas[1])
    Y = given.Y.copy()
    Y[[0, 2, 3, 5], [1, 0, 4, 2]] = np.nan
    filled = complete(given.operators, Y).labels
    held_out = holdout(Problem.of(given.operators, Y), Setting.A)
    expected = filled.copy()
    for cell in zip(*np.nonzero(~np.isnan(Y)), strict=True):
        hidden = Y.copy()
        hidden[cell] = np.nan
        expected[cell] = complete(given.operators, hidden).labels[cell]
    grids.close(held_out, expected, 1e-10)
    # Iterations know the kernel up to rounding of its largest value.
    for rank, weights in ((0, np.ones_like(Y)), (5, None), (10**6, np.ones_like(Y))):
        found = complete(given.operators, Y, weights, route="observed", rank=rank, tol=1e-12)
        grids.close(given.operators.hat(found.labels), given.operators.hat(filled), 1e-4, f"{rank}")


def test_fewer_cells_than_main_effects():
    """A border that is wider than the system would tell nothing apart: only the mean is one."""
    given = grids.holes("two-step + 1", (7, 6), "95%", alpha=1e-4, task_alpha=1e3)
    _, border, penalties = given.operators.split_kernel(*np.nonzero(given.observed))
    assert border.shape == (given.observed.sum(), 1)
    assert_array_equal(penalties, 0.0)
    held_out = holdout(Problem.of(given.operators, given.Y), Setting.A)
    for cell in zip(*np.nonzero(given.observed), strict=True):
        hidden = given.Y.copy()
        hidden[cell] = np.nan
        assert_allclose(held_out[cell], replace(given, Y=hidden).fitted()[cell], rtol=1e-8)
