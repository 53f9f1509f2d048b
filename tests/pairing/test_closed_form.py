"""The closed forms of the three models against dense solves of systems written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.pairing import Independent, Kronecker, Pairing, TwoStep
from dyadlearn.spectrum import Spectrum
from sweeps import covering, every, over

# instances × tasks: tall, wide, square, and the smallest there is
GRIDS = [(7, 4), (3, 8), (5, 5), (1, 1)]
grids = {"shape": GRIDS}

ALPHAS = [1e-10, 1e-3, 1.0, 1e3, 1e10]
alphas = {"alpha": [0.0, *ALPHAS]}
task_alphas = {"task_alpha": [0.0, 1e-10, 0.5, 1e10]}

precisions = {"dtype": ["float64", "float32"]}
ranks = {"rank": ["full", "singular"]}


@dataclass(frozen=True)
class Side:
    """Features of small whole numbers, so that kernels are exact in both precisions, and some new rows."""

    features: np.ndarray
    new: np.ndarray

    @property
    def K(self) -> np.ndarray:
        return self.features @ self.features.T

    @property
    def K_new(self) -> np.ndarray:
        return self.new @ self.features.T


def make_side(n_rows: int, rank: str, seed: int) -> Side:
    """Return a side with a well-conditioned kernel, or with one of about half rank."""
    rng = np.random.default_rng(seed)
    if rank == "full":
        # A multiple of the identity among the features bounds the condition of the kernel.
        features = np.column_stack([rng.integers(-1, 2, size=(n_rows, 4)), 2 * np.eye(n_rows)])
        new = rng.integers(-2, 3, size=(3, 4 + n_rows))
    else:
        dimension = max(1, n_rows // 2)
        basis = np.vstack(
            [np.eye(dimension), rng.integers(-1, 2, size=(n_rows - dimension, dimension))]
        )
        features = basis
        new = rng.integers(-2, 3, size=(3, dimension))
    return Side(features.astype(float), new.astype(float))


def make_problem(shape: tuple[int, int], rank: str) -> tuple[Side, Side, np.ndarray]:
    m, q = shape
    Y = np.random.default_rng(m * q).integers(-4, 5, size=shape).astype(float)
    return make_side(m, rank, seed=m), make_side(q, rank, seed=100 + q), Y


def assert_close(found: np.ndarray, expected: np.ndarray, dtype: str = "float64") -> None:
    """Compare up to rounding of the largest entry; what a user receives in single precision is rounded once more."""
    assert found.dtype == dtype
    rtol = 1e-10 if dtype == "float64" else 1e-7
    assert_allclose(found, expected, rtol=0, atol=rtol * max(1e-300, np.abs(expected).max()))


# The dense twins. On a singular kernel K + λI is as good as singular for small λ; the same map from
# labels to predictions written with features of full column rank, Φ_new (ΦᵀΦ + λI)⁻¹ Φᵀ, stays
# well-posed.


def ridge_map(side: Side, rows: np.ndarray, alpha: float) -> np.ndarray:
    """Return k(new, training)(K + λI)⁻¹ of shape (rows, n); the pseudo-inverse at λ = 0."""
    features = side.features
    if alpha == 0:
        return rows @ np.linalg.pinv(features, rcond=1e-10)
    if features.shape[1] > features.shape[0]:
        return rows @ features.T @ np.linalg.inv(side.K + alpha * np.eye(len(features)))
    penalised = features.T @ features + alpha * np.eye(features.shape[1])
    return rows @ np.linalg.solve(penalised, features.T)


def ridge_dual(side: Side, Y: np.ndarray, alpha: float) -> np.ndarray:
    """Return (K + λI)⁻¹Y; the pseudo-inverse at λ = 0."""
    if alpha == 0:
        return np.linalg.pinv(side.K, rcond=1e-10, hermitian=True) @ Y
    if side.features.shape[1] > side.features.shape[0]:
        return np.linalg.solve(side.K + alpha * np.eye(len(Y)), Y)
    # On a singular kernel, in exact steps: what the features cannot fit, divided by λ.
    return (Y - ridge_map(side, side.features, alpha) @ Y) / alpha


def kronecker_system(side: Side, tasks: Side, Y: np.ndarray, alpha: float) -> np.ndarray:
    """Solve (G ⊗ K + λI) vec(A) = vec(Y), a row for every pair of the grid; least squares at λ = 0."""
    system = np.kron(tasks.K, side.K)
    stacked = Y.ravel(order="F")
    if alpha == 0:
        solution = np.linalg.pinv(system, rcond=1e-10, hermitian=True) @ stacked
    else:
        solution = np.linalg.solve(system + alpha * np.eye(len(stacked)), stacked)
    return solution.reshape(Y.shape, order="F")


def kronecker_map(
    side: Side, tasks: Side, rows: np.ndarray, task_rows: np.ndarray, alpha: float
) -> np.ndarray:
    """Return the map from vec(Y) to the stacked predictions, through features of pairs."""
    pairs = np.kron(tasks.features, side.features)
    new_pairs = np.kron(task_rows, rows)
    return ridge_map(Side(pairs, new_pairs), new_pairs, alpha)


def kronecker_predictions(
    side: Side, tasks: Side, rows: np.ndarray, task_rows: np.ndarray, Y: np.ndarray, alpha: float
) -> np.ndarray:
    stacked = kronecker_map(side, tasks, rows, task_rows, alpha) @ Y.ravel(order="F")
    return stacked.reshape((len(rows), len(task_rows)), order="F")


def two_step(instance: Spectrum, task: Spectrum, alpha: float, task_alpha: float) -> TwoStep:
    return TwoStep(instance.smoother(Tikhonov(), alpha), task.smoother(Tikhonov(), task_alpha))


def predicted(model: Pairing, Y: np.ndarray, *rows: np.ndarray) -> np.ndarray:
    """Return predictions for kernel or feature rows of each side from the coefficients of a model."""
    found = model.coefficients(Y)
    expansion = model.expansion(found)
    parts = [part for part in (expansion.instances, expansion.tasks) if part is not None]
    for part, block in zip(parts, rows, strict=True):
        found = (part.rows(block) @ found).T
    return found if len(rows) == 2 else found.T


def spectra(side: Side, tasks: Side, dtype: str) -> tuple[Spectrum, Spectrum]:
    return Spectrum.from_gram(side.K.astype(dtype)), Spectrum.from_gram(tasks.K.astype(dtype))


@over(covering(**grids, **ranks, **alphas, **precisions))
def test_independent_task_ridge(shape, rank, alpha, dtype):
    side, _, Y = make_problem(shape, rank)
    spectrum = Spectrum.from_gram(side.K.astype(dtype))
    labels = Y.astype(dtype)
    model = Independent(spectrum.smoother(Tikhonov(), alpha))
    for rows in (side.features, side.new):
        kernel_rows = (rows @ side.features.T).astype(dtype)
        assert_close(predicted(model, labels, kernel_rows), ridge_map(side, rows, alpha) @ Y)
    assert_close(model.dual(labels), ridge_dual(side, Y, alpha))
    assert_array_equal(labels, Y)


@over(covering(**grids, **ranks, **alphas, **task_alphas, **precisions))
def test_two_step_ridge(shape, rank, alpha, task_alpha, dtype):
    side, tasks, Y = make_problem(shape, rank)
    labels = Y.astype(dtype)
    model = two_step(*spectra(side, tasks, dtype), alpha, task_alpha)
    for rows in (side.features, side.new):
        for task_rows in (tasks.features, tasks.new):
            kernel_rows = (rows @ side.features.T).astype(dtype)
            task_kernel_rows = (task_rows @ tasks.features.T).astype(dtype)
            expected = ridge_map(side, rows, alpha) @ Y @ ridge_map(tasks, task_rows, task_alpha).T
            assert_close(predicted(model, labels, kernel_rows, task_kernel_rows), expected)
    expected = ridge_dual(tasks, ridge_dual(side, Y, alpha).T, task_alpha).T
    assert_close(model.dual(labels), expected)
    assert_array_equal(labels, Y)


@over(covering(**grids, **ranks, **alphas, **precisions))
def test_kronecker_ridge(shape, rank, alpha, dtype):
    side, tasks, Y = make_problem(shape, rank)
    labels = Y.astype(dtype)
    model = Kronecker(*spectra(side, tasks, dtype), alpha)
    for rows in (side.features, side.new):
        for task_rows in (tasks.features, tasks.new):
            kernel_rows = (rows @ side.features.T).astype(dtype)
            task_kernel_rows = (task_rows @ tasks.features.T).astype(dtype)
            expected = kronecker_predictions(side, tasks, rows, task_rows, Y, alpha)
            assert_close(predicted(model, labels, kernel_rows, task_kernel_rows), expected)
    if rank == "full" or alpha in (0.0, 1.0):
        assert_close(model.dual(labels), kronecker_system(side, tasks, Y, alpha))
    if rank == "singular" and alpha > 0:
        unfitted = Y - kronecker_predictions(side, tasks, side.features, tasks.features, Y, alpha)
        assert_close(model.dual(labels), unfitted / alpha)
    assert_array_equal(labels, Y)


@over(covering(**grids, **ranks, alpha=[1e-3, 1.0, 1e3]))
def test_dual_parameters_solve_the_equations_of_the_paper(shape, rank, alpha):
    side, tasks, Y = make_problem(shape, rank)
    K = side.K
    G = tasks.K
    instance, task = spectra(side, tasks, "float64")
    A = Independent(instance.smoother(Tikhonov(), alpha)).dual(Y)
    assert_close((K + alpha * np.eye(len(K))) @ A, Y)
    A = Kronecker(instance, task, alpha).dual(Y)
    assert_close(K @ A @ G + alpha * A, Y)
    A = two_step(instance, task, alpha, 0.7).dual(Y)
    assert_close((K + alpha * np.eye(len(K))) @ A @ (G + 0.7 * np.eye(len(G))), Y)


def filter_of_matrix(K: np.ndarray, filter: object, alpha: float) -> np.ndarray:
    """Return φ(K) by what each filter does, without eigenvalues where that is possible."""
    n = len(K)
    largest = np.linalg.eigvalsh(K).max()
    if isinstance(filter, Tikhonov):
        return np.linalg.inv(K + alpha * np.eye(n))
    phi = np.zeros((n, n))
    residual = np.eye(n)
    if isinstance(filter, IteratedTikhonov):
        step = np.linalg.inv(K + alpha * np.eye(n))
        repetitions = filter.n_iter
    elif isinstance(filter, Landweber):
        step = np.eye(n) / largest
        repetitions = filter.n_iter or int(np.ceil(largest / alpha))
    else:
        values, vectors = np.linalg.eigh(K)
        kept = values >= alpha
        return vectors[:, kept] @ np.diag(1 / values[kept]) @ vectors[:, kept].T
    for _ in range(repetitions):
        phi = phi + step @ residual
        residual = np.eye(n) - K @ phi
    return phi


FILTERS = [Tikhonov(), SpectralCutoff(), IteratedTikhonov(3), Landweber(), Landweber(5)]


@over(covering(**grids, **ranks, filter=FILTERS, task_filter=FILTERS))
def test_any_mixture_of_filters(shape, rank, filter, task_filter):
    side, tasks, Y = make_problem(shape, rank)
    instance, task = spectra(side, tasks, "float64")
    expected = filter_of_matrix(side.K, filter, 0.9) @ Y
    rows = instance.smoother(filter, 0.9)
    columns = task.smoother(task_filter, 0.6)
    assert_close(Independent(rows).dual(Y), expected)
    assert_close(predicted(Independent(rows), Y, side.K_new), side.K_new @ expected)
    expected = expected @ filter_of_matrix(tasks.K, task_filter, 0.6)
    model = TwoStep(rows, columns)
    assert_close(model.dual(Y), expected)
    assert_close(
        predicted(model, Y, side.K_new, tasks.K_new), side.K_new @ expected @ tasks.K_new.T
    )


CONTAINERS: dict[str, Callable] = {
    "dense": np.asarray,
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
}
containers = {"container": CONTAINERS}


def tall_side(n_rows: int, seed: int, *, dependent: bool) -> Side:
    """Return fewer features than rows, the last one a sum of the others where they are `dependent`."""
    rng = np.random.default_rng(seed)
    features = rng.integers(-3, 4, size=(n_rows, 3))
    new = rng.integers(-3, 4, size=(4, 3))
    if dependent:
        features[:, 2], new[:, 2] = features[:, :2].sum(axis=1), new[:, :2].sum(axis=1)
    return Side(features.astype(float), new.astype(float))


@over(
    covering(
        **containers, **alphas, **precisions, dependent={"independent": False, "dependent": True}
    )
)
def test_primal_equals_dual_equals_dense(container, alpha, dtype, dependent):
    """Feature coefficients predict as kernel coefficients do, and the dual parameters are the same."""
    side = tall_side(9, 1, dependent=dependent)
    tasks = tall_side(7, 2, dependent=dependent)
    Y = np.random.default_rng(3).integers(-4, 5, size=(9, 7)).astype(float)
    labels = Y.astype(dtype)
    instance = Spectrum.from_features(container(side.features.astype(dtype)))
    task = Spectrum.from_features(container(tasks.features.astype(dtype)))
    rows = side.new.astype(dtype)
    task_rows = tasks.new.astype(dtype)

    model = Independent(instance.smoother(Tikhonov(), alpha))
    assert model.coefficients(labels).shape == (3, 7)
    assert_close(rows @ model.coefficients(labels), ridge_map(side, side.new, alpha) @ Y)
    expected = ridge_dual(side, Y, alpha)
    assert_close(model.dual(labels), expected)

    model = two_step(instance, task, alpha, 0.5)
    coefficients = model.coefficients(labels)
    assert coefficients.shape == (3, 3)
    right = ridge_map(tasks, tasks.new, 0.5).T
    assert_close(rows @ coefficients @ task_rows.T, ridge_map(side, side.new, alpha) @ Y @ right)
    assert_close(model.dual(labels), ridge_dual(tasks, expected.T, 0.5).T)

    model = Kronecker(instance, task, alpha)
    coefficients = model.coefficients(labels)
    assert coefficients.shape == (3, 3)
    expected = kronecker_predictions(side, tasks, side.new, tasks.new, Y, alpha)
    assert_close(rows @ coefficients @ task_rows.T, expected)
    if alpha > 0:
        fitted = kronecker_predictions(side, tasks, side.features, tasks.features, Y, alpha)
        expected = (Y - fitted) / alpha
    else:
        expected = kronecker_system(side, tasks, Y, 0.0)
    assert_close(model.dual(labels), expected)


@over(every(**containers))
def test_one_side_in_the_primal_and_one_in_the_dual(container):
    side = tall_side(9, 1, dependent=False)
    tasks = make_side(5, "full", seed=4)
    Y = np.random.default_rng(3).integers(-4, 5, size=(9, 5)).astype(float)
    instance = Spectrum.from_features(container(side.features))
    task = Spectrum.from_gram(tasks.K)
    model = Kronecker(instance, task, 0.3)
    coefficients = model.coefficients(Y)
    assert coefficients.shape == (3, 5)
    expected = kronecker_predictions(side, tasks, side.new, tasks.new, Y, 0.3)
    assert_close(side.new @ coefficients @ tasks.K_new.T, expected)
    # Where one side's null space meets the other's range, the dual parameters are the labels over
    # λ.
    unfitted = Y - kronecker_predictions(side, tasks, side.features, tasks.features, Y, 0.3)
    assert_close(model.dual(Y), unfitted / 0.3)
    swapped = Kronecker(task, instance, 0.3).coefficients(Y.T.copy())
    assert_close(swapped, coefficients.T)


def test_no_regularisation_projects_on_the_range_without_blowing_up():
    """At λ = 0 a singular kernel gives the fit of least size, though φ(0) would be infinite."""
    for shape in GRIDS[:3]:
        side, tasks, Y = make_problem(shape, "singular")
        instance, task = spectra(side, tasks, "float64")
        P = side.features @ np.linalg.pinv(side.features)
        Q = tasks.features @ np.linalg.pinv(tasks.features)
        assert np.abs(P @ Y @ Q - Y).max() > 0.1  # the labels do not lie in the range
        for model in (two_step(instance, task, 0.0, 0.0), Kronecker(instance, task, 0.0)):
            assert_close(predicted(model, Y, side.K, tasks.K), P @ Y @ Q)


# The estimators: the four kinds of predictions, in every form the sides may come in.


def models(alpha: float, task_alpha: float, kernel: str, **options) -> list:
    kernels = {"kernel": kernel, "task_kernel": kernel}
    return [
        TwoStepRidge(alpha, task_alpha, **kernels, **options),
        KroneckerRidge(alpha, **kernels, **options),
        IndependentTaskRidge(alpha, kernel=kernel, **options),
    ]


# What the paper's formulas are about.
PAPER = {"fit_intercept": False}


def expected_predictions(
    model, side: Side, tasks: Side, rows: np.ndarray, task_rows: np.ndarray, Y: np.ndarray
):
    if isinstance(model, KroneckerRidge):
        return kronecker_predictions(side, tasks, rows, task_rows, Y, model.alpha)
    left = ridge_map(side, rows, model.alpha) @ Y
    if isinstance(model, IndependentTaskRidge):
        return left
    return left @ ridge_map(tasks, task_rows, model.task_alpha).T


@over(
    covering(
        **grids,
        **ranks,
        **precisions,
        alphas=[(0.0, 0.0), (1e-10, 0.3), (0.5, 1e-10), (2.0, 1e3), (1e10, 1.0)],
    )
)
def test_estimators_predict_in_all_four_settings(shape, rank, dtype, alphas):
    alpha, task_alpha = alphas
    side, tasks, Y = make_problem(shape, rank)
    cast = [array.astype(dtype) for array in (side.K, tasks.K, Y, side.K_new, tasks.K_new)]
    K, G, labels, K_new, G_new = cast
    for model in models(alpha, task_alpha, "precomputed", **PAPER):
        model.fit(K, labels, tasks=G)
        for block, rows in ((K, side.features), (K_new, side.new)):
            expected = expected_predictions(model, side, tasks, rows, tasks.features, Y)
            assert_close(model.predict(block), expected, dtype)
            if isinstance(model, IndependentTaskRidge):
                continue
            assert_close(model.predict(block, tasks=G), expected, dtype)
            expected = expected_predictions(model, side, tasks, rows, tasks.new, Y)
            assert_close(model.predict(block, tasks=G_new), expected, dtype)


@over(covering(**containers, form=["tall", "wide"], alpha=[0.0, 1e-10, 0.5, 1e10]))
def test_estimators_on_features_equal_estimators_on_kernels(container, form, alpha):
    """Tall features run in the primal, wide ones in the dual; both agree with a precomputed kernel."""
    if form == "tall":
        side = tall_side(9, 1, dependent=False)
        tasks = tall_side(7, 2, dependent=True)
    else:
        side = make_side(5, "full", seed=4)
        tasks = make_side(4, "full", seed=5)
    shape = (len(side.features), len(tasks.features))
    Y = np.random.default_rng(3).integers(-4, 5, size=shape).astype(float)
    X, T, X_new, T_new = (
        container(a) for a in (side.features, tasks.features, side.new, tasks.new)
    )
    pairs = (models(alpha, 0.5, kernel, **PAPER) for kernel in ("linear", "precomputed"))
    for model, twin in zip(*pairs, strict=True):
        model.fit(X, Y, tasks=T)
        twin.fit(side.K, Y, tasks=tasks.K)
        for rows, block, features in ((X, side.K, side.features), (X_new, side.K_new, side.new)):
            expected = expected_predictions(model, side, tasks, features, tasks.features, Y)
            assert_close(model.predict(rows), expected)
            assert_close(twin.predict(block), expected)
            if not isinstance(model, IndependentTaskRidge):
                expected = expected_predictions(model, side, tasks, features, tasks.new, Y)
                assert_close(model.predict(rows, tasks=T_new), expected)
                assert_close(twin.predict(block, tasks=tasks.K_new), expected)
        assert_close(model.dual_coef_, twin.dual_coef_)
        assert hasattr(model, "coef_") == (form == "tall")
        if form == "tall":
            by_hand = side.new @ model.coef_
            by_hand = by_hand if isinstance(model, IndependentTaskRidge) else by_hand @ tasks.new.T
            told = None if isinstance(model, IndependentTaskRidge) else T_new
            assert_close(model.predict(X_new, tasks=told), by_hand)


def test_pairs_are_cells_of_the_grid():
    side, tasks, Y = make_problem((7, 4), "full")
    pairs = [(2, 1), (0, 0), (0, 2), (2, 1)]
    rows, columns = np.array(pairs).T
    for model in models(0.5, 0.2, "precomputed"):
        model.fit(side.K, Y, tasks=tasks.K)
        assert_close(
            model.predict_pairs(side.K_new, None, pairs), model.predict(side.K_new)[rows, columns]
        )
        if not isinstance(model, IndependentTaskRidge):
            grid = model.predict(side.K_new, tasks=tasks.K_new)
            assert_close(model.predict_pairs(side.K_new, tasks.K_new, pairs), grid[rows, columns])


@over(every(kernel=["precomputed", "linear"]))
def test_set_alpha_equals_refitting_without_a_decomposition(monkeypatch, kernel):
    """A new alpha on a fitted model costs no eigendecomposition: there is none to be had."""
    side = tall_side(9, 1, dependent=True)
    tasks = tall_side(7, 2, dependent=False)
    Y = np.random.default_rng(3).integers(-4, 5, size=(9, 7)).astype(float)
    if kernel == "precomputed":
        X, T = (side.K, tasks.K)
    else:
        X, T = (side.features, tasks.features)
    X_new = side.K_new if kernel == "precomputed" else side.new
    fitted = [model.fit(X, Y, tasks=T) for model in models(1.0, 1.0, kernel)]
    refitted = {
        alpha: [model.fit(X, Y, tasks=T) for model in models(alpha, alpha / 3, kernel)]
        for alpha in (0.0, 1e-10, 0.25, 1e10)
    }

    def refuse(*args, **kwargs):
        raise AssertionError("a decomposition was computed")

    monkeypatch.setattr("dyadlearn.decomposing.eigh", refuse)
    monkeypatch.setattr("dyadlearn._svd.svd", refuse)
    monkeypatch.setattr("dyadlearn._svd.eigh", refuse)
    for name in ("eigh", "eigvalsh", "svd", "svdvals", "inv", "pinv", "solve", "cholesky", "qr"):
        monkeypatch.setattr(f"numpy.linalg.{name}", refuse)
        monkeypatch.setattr(f"scipy.linalg.{name}", refuse, raising=False)
    with pytest.raises(AssertionError, match="a decomposition was computed"):
        TwoStepRidge(kernel=kernel, task_kernel=kernel).fit(X, Y, tasks=T)
    for alpha, twins in refitted.items():
        for model, twin in zip(fitted, twins, strict=True):
            if isinstance(model, TwoStepRidge):
                changed = model.set_alpha(alpha, alpha / 3)
            else:
                changed = model.set_alpha(alpha)
            assert changed is model
            assert model.get_params() == twin.get_params()
            assert_allclose(model.predict(X_new), twin.predict(X_new), rtol=1e-14)
            assert_allclose(model.dual_coef_, twin.dual_coef_, rtol=1e-14)


def test_set_alpha_leaves_what_is_not_given():
    side, tasks, Y = make_problem((7, 4), "full")
    arguments = {"kernel": "precomputed", "task_kernel": "precomputed"}
    model = TwoStepRidge(0.5, 0.2, **arguments).fit(side.K, Y, tasks=tasks.K)
    model.set_alpha(task_alpha=3.0)
    twin = TwoStepRidge(0.5, 3.0, **arguments).fit(side.K, Y, tasks=tasks.K)
    assert_allclose(model.predict(side.K), twin.predict(side.K), rtol=1e-14)
    before = model.predict(side.K)
    with pytest.raises(
        ValueError, match="task_alpha must be a finite number of at least 0, found -1"
    ):
        model.set_alpha(7.0, -1.0)
    assert (model.alpha, model.task_alpha) == (0.5, 3.0)
    assert_array_equal(model.predict(side.K), before)


@over(every(container={"dense": np.asarray, "sparse": sparse.csr_array}))
def test_features_that_are_all_zero_predict_zero(container):
    """Nothing can be learnt from them, but nothing breaks: the dual parameters are the labels over λ."""
    X = container(np.zeros((4, 2)))
    Y = np.arange(12.0).reshape(4, 3)
    tasks = make_side(3, "full", seed=0).features
    model = IndependentTaskRidge(alpha=0.5, **PAPER).fit(X, Y)
    assert_array_equal(model.predict(X), np.zeros((4, 3)))
    assert_close(model.dual_coef_, Y / 0.5)
    model = KroneckerRidge(alpha=0.5, **PAPER).fit(X, Y, tasks=tasks)
    assert_array_equal(model.predict(X), np.zeros((4, 3)))
    assert_close(model.dual_coef_, Y / 0.5)
    model = TwoStepRidge(alpha=0.5, task_alpha=0.0, **PAPER).fit(X, Y, tasks=tasks)
    assert_array_equal(model.predict(X), np.zeros((4, 3)))
    assert_close(model.dual_coef_, Y / 0.5 @ np.linalg.inv(tasks @ tasks.T))
