"""Observed pairs: products that touch them alone, ridge regression on them, and grids completed by way of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems
from counting import asarray, multiplications
from dyadlearn import KroneckerRidge, TwoStepRidge
from dyadlearn._array import as_array_of, to_numpy
from dyadlearn.filters import IteratedTikhonov, SpectralCutoff
from dyadlearn.labels import Labels
from dyadlearn.pairing import Kronecker
from dyadlearn.pairing.base import operators_of
from dyadlearn.solve import missing, observed
from dyadlearn.solve import observed as module
from dyadlearn.solve.conjugate_gradients import conjugate_gradients
from dyadlearn.solve.missing import complete
from dyadlearn.solve.observed import ObservedSystem, PairProducts, product_costs
from dyadlearn.spectrum import Spectrum
from problems import ALL_MODELS, PATTERNS, SHAPES, close, holes
from sweeps import covering, every, lines, over

KINDS = {
    "full": ("full", "full"),
    "thin": ("thin", "primal"),
    "primal": ("primal", "singular"),
    "sparse": ("sparse", "thin"),
}


def pairs(Y, weights=None, dtype="float64"):
    """Return the labels of a grid with holes as observed pairs."""
    rows, columns = np.nonzero(~np.isnan(Y))
    own = None if weights is None else weights[rows, columns].astype(dtype)
    return Labels((rows, columns), Y[rows, columns].astype(dtype), Y.shape, own)


def weights_of(shape, kind):
    """Return weights of cells: all alike, or over so many orders of magnitude."""
    if not kind:
        return None
    return 10.0 ** np.random.default_rng(5).uniform(-kind / 2, kind / 2, shape)


def everywhere(operators, solution):
    """Return predictions for all pairs of training."""
    coefficients = operators.coefficients_of(solution.spectral, solution.mean)
    return to_numpy(operators.expansion(coefficients).grid(None, None))


@over(covering(model=ALL_MODELS, shape=SHAPES, missing=PATTERNS, kinds=KINDS, orders=[0, 3]))
def test_predictions_are_those_of_the_dense_system(model, shape, missing, kinds, orders):
    given = holes(model, shape, missing, kinds)
    weights = weights_of(shape, orders)
    system = ObservedSystem.of(given.operators, pairs(given.Y, weights))
    solution = system.solve(tol=1e-13)
    expected = given.fitted(weights)
    close(system.fitted(solution), expected[given.observed], 1e-9)
    close(everywhere(given.operators, solution), expected, 1e-9)
    assert solution.converged
    assert solution.residual <= 1e-10
    assert_allclose(solution.mean, given.solved(weights)[1], rtol=1e-9, atol=1e-9)


# How many digits of predictions are kept, of those less their mean too, and in single precision.
# Under a large ridge the function is small beside the labels and its mean, and has digits of its
# own; where it is as small as a rounding of the mean, at 1e8 in single precision, it has none.
@over(
    covering(
        digits=[
            (1e-8, "float64", 3e-7, 1e-6),
            (1e-4, "float64", 1e-10, 1e-9),
            (1e4, "float64", 1e-11, 1e-9),
            (1e8, "float64", 1e-11, 1e-5),
            (1e-4, "float32", 1e-5, 1e-2),
            (1e4, "float32", 1e-5, 1e-1),
        ],
        model=ALL_MODELS,
        kinds=[KINDS["full"], KINDS["thin"]],
    )
)
def test_digits_at_both_ends_of_the_regularisation(model, kinds, digits):
    alpha, dtype, rtol, own = digits
    given = holes(model, (6, 4), "50%", kinds, alpha=alpha, task_alpha=alpha, dtype=dtype)
    system = ObservedSystem.of(given.operators, pairs(given.Y, dtype=dtype))
    solution = system.solve(tol=1e-13, max_iter=2000)
    expected = given.fitted()[given.observed]
    mean = given.solved()[1]
    found = system.fitted(solution)
    assert found.dtype == np.float64
    assert solution.converged
    close(found, expected, rtol)
    close(found.astype(float) - solution.mean, expected - mean, own)


@over(every(model=ALL_MODELS, orders=[0, 2], max_iter=[4]))
def test_what_is_left_over_is_told(model, orders, max_iter):
    given = holes(model, (9, 7), "50%", KINDS["full"], alpha=0.01, task_alpha=0.02)
    weights = weights_of((9, 7), orders)
    system = ObservedSystem.of(given.operators, pairs(given.Y, weights))
    solution = system.solve(max_iter=max_iter)
    assert solution.n_iter == max_iter
    assert not solution.converged
    # The parameters that its own errors make, in their dense system.
    matrix, y = given.system(weights)
    own = np.ones(y.size) if weights is None else weights[given.observed]
    centre = np.average(y, weights=own) if given.free_mean else 0.0
    dual = own * (y - system.fitted(solution)) / given.ridge
    left = matrix @ dual - (y - solution.mean)
    if given.free_mean:  # which any mean takes up
        left -= np.average(left, weights=own)
    expected = np.sqrt(np.sum(own * left**2) / np.sum(own * (y - centre) ** 2))
    assert_allclose(solution.residual, expected, rtol=1e-6)


@over(every(model=ALL_MODELS, orders=[0, 2]))
def test_other_pairs_and_other_regularisations_of_one_system(model, orders):
    given = holes(model, (7, 5), "50%", KINDS["full"])
    labels = pairs(given.Y, weights_of((7, 5), orders))
    system = ObservedSystem.of(given.operators, labels)
    part = labels.take(np.arange(labels.size) % 3 > 0)
    operators = given.operators.at(0.05)
    found = system.at(operators).among(part)
    expected = ObservedSystem.of(operators, part)
    solution = found.solve(tol=1e-13)
    close(solution.spectral, expected.solve(tol=1e-13).spectral, 1e-9)
    # Of pairs that the solution has not seen.
    rest = labels.take(np.arange(labels.size) % 3 == 0)
    left_out = found.fitted(solution, PairProducts(found.basis.left, found.basis.right, rest))
    close(left_out, everywhere(operators, solution)[rest.places], 1e-10)


@over(
    lines(
        "dtype weighted atol",
        ("float64", True, 1e-8),
        ("float32", False, 0.05),
    )
)
@over(every(model=["two-step + 1", "kronecker + 1"]))
def test_labels_far_from_zero_move_the_mean_alone(model, dtype, weighted, atol):
    given = holes(model, (12, 9), "50%", KINDS["thin"], dtype=dtype)
    far = (given.Y + 1e6).astype(dtype).astype(float)  # as they are rounded
    weights = weights_of((12, 9), 2) if weighted else None
    near, there = (
        ObservedSystem.of(given.operators, pairs(Y, weights, dtype)).solve(tol=1e-12)
        for Y in (far - 1e6, far)
    )
    close(there.spectral, near.spectral, 1e-9 if dtype == "float64" else 1e-4)
    assert_allclose(there.mean - 1e6, near.mean, rtol=0, atol=atol)


def test_labels_that_say_nothing():
    for model in ALL_MODELS:
        given = holes(model, (6, 6))
        labels = pairs(np.where(given.observed, 3.0 * given.free_mean, np.nan))
        system = ObservedSystem.of(given.operators, labels)
        solution = system.solve()
        assert (solution.n_iter, solution.residual, solution.converged) == (0, 0.0, True)
        assert not solution.spectral.any()
        assert_array_equal(system.fitted(solution), labels.values)


# --- preconditioning -----------------------------------------------------------------------------------------------


def popular(m, q, n):
    """Return labels of pairs that fall by a power law on both sides, and features of these."""
    rng = np.random.default_rng(0)
    rows, columns = (
        rng.choice(size, n, p=(p := 1.0 / np.arange(1, size + 1)) / p.sum()) for size in (m, q)
    )
    rows, columns = np.unique(np.stack([rows, columns]), axis=1)
    return (
        Labels((rows, columns), rng.normal(size=rows.size), (m, q)),
        rng.normal(size=(m, 6)),
        rng.normal(size=(q, 5)),
    )


def test_a_residual_that_was_taken_for_smaller_is_lowered_further(monkeypatch):
    rounds = []

    def counted(*args, **kwargs):
        found = conjugate_gradients(*args, **kwargs)
        rounds.append(found.n_iter)
        return found

    monkeypatch.setattr(module, "conjugate_gradients", counted)
    for model in ALL_MODELS:
        given = holes(model, (12, 11), "50%", KINDS["full"], alpha=1e-2, task_alpha=1e-2)
        system = ObservedSystem.of(given.operators, pairs(given.Y))
        with monkeypatch.context() as patch:
            # Of which the residual is estimated thirty times too small.
            whole = ObservedSystem._diagonal
            patch.setattr(ObservedSystem, "_diagonal", lambda self, whole=whole: 1e-3 * whole(self))
            rounds.clear()
            solution = system.solve(tol=1e-3)
            first = rounds[0]
            assert solution.residual <= 1e-3
            assert solution.converged
            assert len(rounds) > 1
            assert min(rounds) > 0
            assert solution.n_iter == sum(rounds)
            short = system.solve(tol=1e-3, max_iter=first + 1)
            assert short.n_iter == first + 1
            assert short.converged is (short.residual <= 1e-3)


@over(every(weighted=[False, True]))
def test_popular_tasks_cost_few_iterations(weighted):
    labels, X, T = popular(300, 200, 5000)
    # and stand out
    X[:5] = 20.0 * X[:5]
    T[:5] = 20.0 * T[:5]
    if weighted:
        labels = Labels(
            labels.places,
            labels.values,
            labels.shape,
            10.0 ** np.linspace(-3, 3, labels.size),
        )
    for constant in (None, "feature"):
        sides = (Spectrum.from_features(side, constant=constant) for side in (X, T))
        solution = ObservedSystem.of(
            Kronecker(*sides, 1.0, free_mean=constant is not None), labels
        ).solve()
        assert solution.converged
        assert solution.n_iter <= 60, solution.n_iter


# --- what is refused, and other libraries ----------------------------------------------------------------------------


def test_no_regularisation_is_refused():
    message = (
        "^Observed pairs alone determine no model without regularisation: use an alpha above 0"
    )
    for model in ALL_MODELS:
        given = holes(model, (6, 6))
        system = ObservedSystem.of(given.operators, pairs(given.Y))
        nothing = given.operators.at(*[0.0] * len(given.operators.alphas))
        with pytest.raises(ValueError, match=message):
            ObservedSystem.of(nothing, pairs(given.Y))
        with pytest.raises(ValueError, match=message):
            system.at(nothing)


# --- products ----------------------------------------------------------------------------------------------------


@over(covering(shape=SHAPES, missing=PATTERNS, first=["tasks", "instances"], gathers=[True, False]))
def test_products_touch_the_observed_pairs(monkeypatch, shape, missing, first, gathers, library):
    monkeypatch.setattr(module, "product_costs", lambda *_: (first != "tasks", 0.5))
    for cost in ("GATHER_COST", "_GATHER_COST_ELSEWHERE"):
        monkeypatch.setattr(f"dyadlearn.vectrick.{cost}", 0 if gathers else 10**9)
    Y = holes("kronecker", shape, missing).Y
    Y.flat[np.flatnonzero(~np.isnan(Y))[0]] = 0.0  # a zero is a label
    found = pairs(Y, dtype=library.dtype)
    rng = np.random.default_rng(3)
    left, right, function = (
        rng.normal(size=size) for size in ((shape[0], 3), (shape[1], 2), (3, 2))
    )
    products = PairProducts(library.asarray(left), library.asarray(right), found)
    values = products.values(library.asarray(function))
    grid = left @ function @ right.T
    assert_allclose(library.to_numpy(values), grid[found.places], rtol=0, atol=10 * library.rtol)
    gathered = products.gathered(as_array_of(found.values, values))
    expected = left.T @ np.nan_to_num(Y) @ right
    assert_allclose(library.to_numpy(gathered), expected, rtol=0, atol=10 * library.rtol)
    assert gathered.dtype == values.dtype == products.left.dtype


@over(every(shape=[(9, 4), (4, 9)], ranks=[(1, 3), (3, 1)]))
def test_the_cheaper_order_is_taken(shape, ranks):
    sides = [asarray(np.ones(size)) for size in zip(shape, ranks, strict=True)]
    found = PairProducts(*sides, pairs(np.ones(shape)))
    counted = []
    for tasks_first in (True, False):
        other = PairProducts(*sides, pairs(np.ones(shape)))
        other._tasks_first = tasks_first
        counted.append(multiplications(other.values, asarray(np.ones(ranks))))
    assert product_costs(shape, found._rows.shape[0], ranks, sides[0]) == tuple(counted)
    assert found._tasks_first is (counted[0] < counted[1])


@over(every(scale=[1e-3, 1.0, 1e3], spread=[0.01, 1.0]))
def test_features_are_rotated_for_uneven_weights_of_rows(scale, spread):
    load = scale * (1.0 + spread * np.arange(6))
    turn = module._features(problems.spectrum("full", np.eye(6)), load, True)[1]
    assert (turn is None) is (spread < 1.0)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_diagonal_of_the_gram_matrix_of_weighted_rows(shape):
    rng = np.random.default_rng(0)
    vectors, load = rng.normal(size=shape), rng.uniform(1.0, 2.0, size=shape[0])
    expected = np.diag(vectors.T @ np.diag(load) @ vectors)
    assert_allclose(module._diagonal(vectors, load), expected, rtol=1e-13)


# --- grids that are completed by way of their observed pairs -------------------------------------

RNG = np.random.default_rng(0)
M = 11
Q = 8
X = RNG.normal(size=(M, 4))
T = RNG.normal(size=(Q, 3))
WHOLE = X @ RNG.normal(size=(4, 3)) @ T.T + RNG.normal(size=(M, Q)) + 5.0
UNEVEN = RNG.random((M, Q)) < np.linspace(0.2, 0.9, Q)
WEIGHTS = RNG.uniform(0.1, 3.0, size=(M, Q))

RBF = {"kernel": "rbf", "task_kernel": "rbf"}
MODELS = [
    KroneckerRidge(0.7),
    KroneckerRidge(0.7, fit_intercept=False),
    KroneckerRidge(1e-3, **RBF),
    TwoStepRidge(0.7, 0.3),
    TwoStepRidge(0.7, 0.3, fit_intercept=False, **RBF),
    TwoStepRidge(1e-3, 1e3),
    TwoStepRidge(0.7, 0.3, filter=IteratedTikhonov(2), task_filter=IteratedTikhonov(3)),
]


def grid_with_holes(share=None):
    if share is None:
        observed = UNEVEN
    else:
        observed = np.random.default_rng(1).random((M, Q)) < share
    return np.where(observed, WHOLE, np.nan)


def operators_with(model):
    """Return the operators of a model on the complete grid."""
    fitted = model.fit(X, WHOLE, tasks=T)
    return operators_of(fitted.fitted_.training_problem.pairing)


@pytest.fixture(params=["grid", "listed"])
def products(request, monkeypatch):
    """Make products with the whole grid, or at its observed pairs, the cheaper ones."""
    n_dots = np.inf if request.param == "grid" else 0
    monkeypatch.setattr(observed, "few_dots", lambda *_: n_dots)


@pytest.mark.usefixtures("products")
def test_completed_grids_are_those_of_the_solver_of_grids(each):
    cases = [(grid_with_holes(), None), (grid_with_holes(0.2), WEIGHTS)]
    for model, (Y, weights) in each(zip(MODELS, cases * len(MODELS), strict=False)):
        operators = operators_with(model)
        found = observed.complete_by_pairs(operators, Y, weights, tol=1e-12, max_iter=2000)
        assert found.route == "pairs"
        assert found.solution.converged
        expected = complete(operators, Y, weights, route="observed", tol=1e-13)
        scale = np.abs(expected.labels).max()
        assert_allclose(found.labels, expected.labels, atol=1e-7 * scale)


def test_pairs_are_preferred_only_where_they_may_be_and_cost_less(monkeypatch):
    product, two_step, Y = (
        operators_with(KroneckerRidge()),
        operators_with(TwoStepRidge()),
        grid_with_holes(),
    )
    monkeypatch.setattr(missing, "_DIRECT_CELLS", 0)
    monkeypatch.setattr(observed, "suits_direct", lambda *_: False)
    assert observed.quickest(product, Y, None) != "pairs"  # a small grid
    monkeypatch.setattr(observed, "_LITTLE_WORK", 0)
    monkeypatch.setattr(observed, "product_costs", lambda *_: (0, 0))
    for operators in (product, two_step):
        assert observed.quickest(operators, Y, None) == "pairs"
        assert observed.quickest(operators, WHOLE, WEIGHTS) == "pairs"
        assert observed.quickest(operators, WHOLE, None) != "pairs"
        assert observed.quickest(operators, np.full((M, Q), np.nan), None) != "pairs"
    interpolating = TwoStepRidge(0.7, 0.3, filter=SpectralCutoff())
    network = operators_of(TwoStepRidge(symmetry="symmetric").fit(X, X @ X.T).fitted_.pairing)
    assert observed.quickest(operators_with(interpolating), Y, None) != "pairs"
    assert observed.quickest(network, np.where(X @ X.T > 0, X @ X.T, np.nan), None) != "pairs"
    with monkeypatch.context() as patched:
        # Twice the cost of a product is worth it for a product kernel, unless few cells are
        # observed.
        cost = min(product.kernel_cost, product.residual_cost)
        patched.setattr(observed, "product_costs", lambda *_: (cost, cost))
        few = np.full((M, Q), np.nan)
        few[0, : int(0.05 * M * Q)] = 1.0
        assert observed.quickest(product, Y, None) == "pairs"
        assert observed.quickest(product, few, None) != "pairs"
        assert observed.quickest(two_step, Y, None) != "pairs"
    monkeypatch.setattr(observed, "product_costs", lambda *_: (10**12, 10**12))
    assert observed.quickest(product, Y, None) != "pairs"


def test_a_large_grid_of_few_features_is_completed_by_pairs_unasked():
    rows, Y, columns = problems.data(300, 230, seed=2)
    rng = np.random.default_rng(3)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    weights = rng.uniform(0.0, 2.0, size=Y.shape) * (rng.random(Y.shape) < 0.9)
    for model in (KroneckerRidge(2.0, tol=1e-10), TwoStepRidge(2.0, 1.0, tol=1e-10)):
        model.fit(rows, Y, tasks=columns, sample_weight=weights)
        assert model.fitted_.solved.route == "pairs"
        problem = model.fitted_.training_problem
        slow = complete(operators_of(problem.pairing), problem.Y, problem.weights, tol=1e-10)
        assert_allclose(model.predict(), problem.pairing.hat(slow.labels), rtol=1e-6, atol=1e-6)
