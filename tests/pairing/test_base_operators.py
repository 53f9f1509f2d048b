"""The operators of a model on grids, against the matrices of all pairs written out."""

from types import SimpleNamespace

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import problems as grids
from counting import asarray, multiplications
from dyadlearn.filters import SpectralCutoff, Tikhonov
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.solve.operators import common_floor, interpolation_floor
from dyadlearn.spectrum import Smoother, Spectrum
from problems import MODELS
from sweeps import covering, every, lines, over

KINDS = ["full", "singular", "primal", "thin", "sparse"]
LAMBDAS = [(1e-6, 1e-6), (1e-6, 1e4), (1e6, 1e6)]


def matrix_of(operation, shape):
    """Return what an operation on grids does to each cell, a column for each."""
    units = np.eye(shape[0] * shape[1])
    return np.column_stack([operation(unit.reshape(shape).copy()).ravel() for unit in units])


def dense(given):
    """Return hat and residual of all pairs from the pairwise kernel, neither by subtraction."""
    shifted = np.linalg.inv(given.P + given.ridge * np.eye(len(given.P)))
    return given.P @ shifted, given.ridge * shifted


def two_step(given, alpha, task_alpha):
    """Return hat and residual of two-step from those of both sides."""
    sides = []
    for K, a in ((given.K, alpha), (given.G, task_alpha)):
        shifted = np.linalg.inv(K + a * np.eye(len(K)))
        sides.append((K @ shifted, a * shifted))
    (H, R), (task_H, task_R) = sides
    return np.kron(H, task_H), np.kron(R, np.eye(len(task_R))) + np.kron(H, task_R)


@over(covering(kind=KINDS, task_kind=KINDS, model=MODELS, shape=[(5, 4), (3, 6)], alphas=LAMBDAS))
def test_hat_residual_and_kernel(model, kind, task_kind, shape, alphas):
    """Hat and residual are good to as many digits, each on its own scale, where they are small too."""
    alpha, task_alpha = alphas
    kinds = (kind, task_kind)
    given = grids.holes(model, shape, kinds=kinds, alpha=alpha, task_alpha=task_alpha)
    digits = 2e-9 if min(alpha, task_alpha) < 1e-3 else 1e-12
    if model == "kronecker":
        hat, residual = dense(given)
    else:
        hat, residual = two_step(given, alpha, task_alpha)
    grids.close(matrix_of(given.operators.hat, shape), hat, digits)
    grids.close(matrix_of(given.operators.residual, shape), residual, digits)
    grids.close(matrix_of(given.operators.kernel, shape), given.P, digits)
    cells = np.arange(0, hat.shape[0], 2)
    block = given.operators.residual_block(*np.divmod(cells, shape[1]))
    grids.close(block, residual[np.ix_(cells, cells)], digits)
    grids.close(given.operators.part_diagonal(hat=True).ravel(), np.diagonal(hat), digits)
    if not given.operators.is_truncated:
        diagonal = given.operators.part_diagonal(hat=False).ravel()
        grids.close(diagonal, np.diagonal(residual), digits)
    assert given.operators.ridge == given.ridge


@over(every(model=MODELS))
def test_which_part_carries_the_digits(model):
    """The residual where most of the spectrum is kept, but never where a null space enters it by subtraction."""
    for alpha, kinds, expected in (
        (1e-6, ("full", "full"), True),
        (1e6, ("full", "full"), False),
        (1e-6, ("primal", "full"), False),
        (1e-6, ("full", "sparse"), False),
    ):
        given = grids.holes(model, (9, 8), kinds=kinds, alpha=alpha, task_alpha=alpha)
        assert given.operators.prefers_residual is expected


@over(every(model=MODELS, kinds=[("full", "full"), ("thin", "full"), ("full", "thin")]))
def test_costs_count_multiplications(model, kinds):
    operators = grids.problem(model, (9, 6), kinds, put=asarray).pairing
    grid = asarray(np.ones((9, 6)))
    for product in (operators.kernel, operators.residual):
        product(grid)  # computes matrices that later products share
    assert 0.7 < operators.kernel_cost / multiplications(operators.kernel, grid) < 1.4
    assert 0.7 < operators.residual_cost / multiplications(operators.residual, grid) < 1.4


@over(lines("alphas n_free", ((0.5, 0.5), 1), ((1e-10, 0.5), 2), ((0.5, 1e-10), 3)))
def test_main_effects_beside_a_tiny_regularisation_are_a_border(alphas, n_free):
    """The grand mean always, and main effects of the side that has none: of one feature, or of two."""
    rng = default_rng(0)
    sides = (
        Spectrum.from_features(rng.normal(size=(n, d)), constant="free")
        for n, d in ((6, 1), (5, 2))
    )
    model = TwoStep(
        *(side.smoother(Tikhonov(), alpha) for side, alpha in zip(sides, alphas, strict=True))
    )
    _, border, _ = model.split_kernel(np.arange(6), np.arange(6) % 5)
    assert border.shape == (6, n_free)


# --- no regularisation ----------------------------------------------------------------------------------------


def test_kronecker_without_regularisation():
    """The hat projects on the range; the residual, up to its scale, is the inverse kernel or the null space."""
    shape = (6, 5)
    for kinds in (("full", "full"), ("singular", "full"), ("full", "thin"), ("primal", "singular")):
        given = grids.holes("kronecker", shape, kinds=kinds)
        operators = Kronecker(*given.operators.spectra, 0.0)
        projector = given.P @ np.linalg.pinv(given.P, rcond=1e-10)
        grids.close(matrix_of(operators.hat, shape), projector, 1e-10)
        if kinds != ("full", "full"):
            expected = np.eye(30) - projector
        else:
            expected = np.linalg.inv(given.P)
        grids.close(matrix_of(operators.residual, shape), expected, 1e-10)
        cells = np.arange(0, 30, 4)
        block = operators.residual_block(*np.divmod(cells, 5))
        grids.close(block, expected[np.ix_(cells, cells)], 1e-10)
        assert (operators.floor > 0) == (kinds != ("full", "full"))


def test_two_step_without_regularisation():
    """Nothing is shrunk; what vanishes is proportional to K⁻¹ ⊗ I + I ⊗ G⁻¹."""
    shape = (6, 5)
    given = grids.holes("two-step", shape)
    spectra = given.operators.spectra
    operators = TwoStep(*(spectrum.smoother(Tikhonov(), 0.0) for spectrum in spectra))
    grid = default_rng(4).normal(size=shape)
    grids.close(operators.hat(grid), grid, 1e-12)
    expected = np.kron(np.linalg.inv(given.K), np.eye(5)) + np.kron(
        np.eye(6), np.linalg.inv(given.G)
    )
    grids.close(matrix_of(operators.residual, shape), expected, 1e-10)
    grids.close(matrix_of(operators.kernel, shape), np.linalg.inv(expected), 1e-10)
    cells = np.arange(0, 30, 4)
    grids.close(
        operators.residual_block(*np.divmod(cells, 5)), expected[np.ix_(cells, cells)], 1e-10
    )
    grids.close(operators.part_diagonal(hat=False).ravel(), np.diagonal(expected), 1e-10)
    assert operators.ridge == 0  # the kernel interpolates


def test_floors():
    """Pairs are interpolated only where every side keeps a direction whole."""
    rng = default_rng(5)
    one, other = (grids.spectrum("full", grids.features("full", n, rng)) for n in (6, 5))
    whole = one.smoother(SpectralCutoff(), 0.8)
    shrunk = one.smoother(Tikhonov(), 0.8)
    task_whole = other.smoother(SpectralCutoff(), 0.8)
    task_shrunk = other.smoother(Tikhonov(), 0.8)
    assert (
        common_floor(shrunk, task_shrunk)
        == common_floor(whole, task_shrunk)
        == common_floor(shrunk, task_whole)
        == 0
    )
    assert common_floor(whole, task_whole) == max(whole.slack_floor, task_whole.slack_floor) > 0
    assert TwoStep(whole, task_whole).floor == common_floor(whole, task_whole)
    thin = Spectrum.from_features(rng.normal(size=(6, 2)))
    assert interpolation_floor(0.1, thin, other) == interpolation_floor(0.0, one, other) == 0
    assert 0 < interpolation_floor(0.0, thin, other) <= 1e-6


def test_what_vanishes_without_regularisation():
    tasks = Spectrum(np.array([1.0]), 1, None, np.eye(1))
    for values, expected in (([2.0, 4.0], [0.5, 0.25]), ([2.0, 0.0], [0.0, 1.0])):
        spectrum = Spectrum(np.array(values), 2, None, np.eye(2))
        assert_array_equal(Kronecker(spectrum, tasks, 0.0).remainder, np.array([expected]).T)


def test_many_blocks_take_the_work_of_all_rows_once(monkeypatch):
    rng = default_rng(6)
    rows, columns = (
        grids.spectrum("full", grids.features("full", n, rng)).smoother(Tikhonov(), 0.5)
        for n in (30, 4)
    )
    operators = TwoStep(rows, columns)
    _, residual = two_step(
        SimpleNamespace(
            K=rows.spectrum.matrix(rows.spectrum.values),
            G=columns.spectrum.matrix(columns.spectrum.values),
        ),
        0.5,
        0.5,
    )
    computed = []

    def block(side, at, whole=Smoother.residual_block):
        computed.append(at.size)
        return whole(side, at)

    monkeypatch.setattr(Smoother, "residual_block", block)
    for _ in range(50):
        cells = rng.choice(120, 8, replace=False)
        found = operators.residual_block(*np.divmod(cells, 4))
        assert_allclose(found, residual[np.ix_(cells, cells)], atol=1e-12)
    assert computed[-1] == 30
    assert sum(size**2 for size in computed) < 3 * (30**2 + 4**2)
