"""Completed grids against dense normal equations, whatever is missing and whichever way they are solved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems as grids
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.pairing import Kronecker, PairKernel, TwoStep
from dyadlearn.solve import cells, missing
from dyadlearn.solve.missing import complete
from dyadlearn.spectrum import Spectrum
from problems import ALL_MODELS, MODELS, PATTERNS, SHAPES, WITH_MEAN
from sweeps import covering, every, over

# Every way to the answer: directly, and both systems iterated with no, few and all directions
# deflated.
WAYS = {
    "chosen": {},
    "direct": {"route": "missing"},
    "missing": {"route": "missing", "rank": 0, "max_direct": 0},
    "missing, deflated": {"route": "missing", "rank": 5, "max_direct": 0},
    "missing, all deflated": {"route": "missing", "rank": 10**6, "max_direct": 0},
    "missing, rank chosen": {"route": "missing", "max_direct": 0},
    "observed": {"route": "observed", "rank": 0},
    "observed, deflated": {"route": "observed", "rank": 5},
    "observed, all deflated": {"route": "observed", "rank": 10**6},
    "observed, rank chosen": {"route": "observed"},
}
# One of each kind, for tests in which the rest has been shown to agree.
FEW_WAYS = {name: WAYS[name] for name in ("direct", "missing, deflated", "observed, deflated")}
MORE_WAYS = FEW_WAYS | {name: WAYS[name] for name in ("missing", "observed")}
some_patterns = {"pattern": ["50%", "95%", "rows and columns", "one cell"]}


def check(given, rtol: float, ways=WAYS, dtype: str = "float64", **options) -> None:
    """Compare with the dense equations: what is missing, and what the closed form makes of the completed grid."""
    observed = given.observed
    expected = given.fitted()
    Y = given.Y.astype(dtype)
    for name, way in ways.items():
        found = complete(given.operators, Y, **way, **options)
        assert found.solution.converged, name
        assert found.route == way.get("route", found.route) or observed.all()
        assert found.labels.dtype == np.float64
        assert_array_equal(found.labels[observed], Y[observed])
        grids.close(np.where(observed, expected, found.labels), expected, rtol, name)
        grids.close(given.operators.hat(found.labels), expected, rtol, name)


@over(covering(model=ALL_MODELS, shape=SHAPES, pattern=PATTERNS, way=list(WAYS)))
def test_whatever_is_missing(model, shape, pattern, way):
    check(grids.holes(model, shape, pattern), 1e-10, {way: WAYS[way]}, tol=1e-13)


@over(
    covering(
        sides=[
            (("singular", "full"), (9, 5)),
            (("thin", "singular"), (5, 9)),
            (("primal", "sparse"), (9, 5)),
            (("sparse", "thin"), (5, 9)),
        ],
        **some_patterns,
        model=ALL_MODELS,
        way=list(MORE_WAYS),
    )
)
def test_null_spaces_kept_or_left_out(model, pattern, sides, way):
    kinds, shape = sides
    given = grids.holes(model, shape, pattern, kinds, alpha=0.02, task_alpha=0.1)
    assert given.operators.spectra[0].is_truncated == (kinds[0] != "singular")
    check(given, 1e-9, {way: WAYS[way]}, tol=1e-13)


LAMBDAS = [1e-6, 1e-2, 1.0, 1e6]


@over(
    covering(
        alpha=LAMBDAS,
        task_alpha=LAMBDAS,
        model=["two-step", "two-step + 1"],
        pattern=["50%", "rows and columns"],
    )
)
def test_every_mixture_of_regularisations(alpha, task_alpha, model, pattern):
    given = grids.holes(model, (7, 6), pattern, alpha=alpha, task_alpha=task_alpha)
    check(given, 1e-9, FEW_WAYS, tol=1e-13)


@over(every(alpha=[1e-6, 1e-3, 1.0, 1e3, 1e6]))
def test_kronecker_from_small_to_large_regularisation(alpha):
    for pattern in ("50%", "rows and columns"):
        check(grids.holes("kronecker", (7, 6), pattern, alpha=alpha), 1e-9, MORE_WAYS, tol=1e-13)


# Half of the digits are as many as the condition may take where there are null spaces.
SINGLE = [(("full", "full"), alpha) for alpha in (1e-4, 1.0, 1e4)] + [
    (("singular", "thin"), a) for a in (0.1, 1e4)
]


@over(covering(sides=SINGLE, **some_patterns, model=ALL_MODELS, way=list(FEW_WAYS)))
def test_single_precision(model, pattern, sides, way):
    kinds, alpha = sides
    given = grids.holes(model, (8, 6), pattern, kinds, alpha=alpha, task_alpha=0.3, dtype="float32")
    check(given, 1e-3, {way: WAYS[way]}, dtype="float32")


# --- the objectives themselves ---------------------------------------------------------------------


def penalty(given, model: str, alpha: float, task_alpha: float) -> np.ndarray:
    """Return the matrix of the model's penalty, from inverse kernels of full rank.

    H⁻¹ − I = (I + λ_d K⁻¹) ⊗ (I + λ_t G⁻¹) − I for two-step, λ K⁻¹ ⊗ G⁻¹ for Kronecker.
    """
    left = np.linalg.inv(given.K)
    right = np.linalg.inv(given.G)
    both = np.kron(left, right)
    if model == "kronecker":
        return alpha * both
    one = np.kron(left, np.eye(len(right)))
    other = np.kron(np.eye(len(left)), right)
    return alpha * one + task_alpha * other + alpha * task_alpha * both


@over(covering(model=MODELS, pattern=PATTERNS, alphas=[(0.5, 0.2), (1e-4, 30.0), (1e6, 1e-6)]))
def test_the_objective_is_minimised(model, pattern, alphas):
    """Σ_o (f − y)² + fᵀ(penalty)f has its minimum over all cells where the solver says."""
    alpha, task_alpha = alphas
    given = grids.holes(model, (6, 5), pattern, alpha=alpha, task_alpha=task_alpha)
    counts = given.observed.ravel()
    penalised = penalty(given, model, alpha, task_alpha)
    best = np.linalg.solve(
        np.diag(counts.astype(float)) + penalised, np.where(counts, given.Y.ravel(), 0.0)
    )
    least = np.sum((best - given.Y.ravel())[counts] ** 2) + best @ penalised @ best
    for name, way in FEW_WAYS.items():
        labels = complete(given.operators, given.Y, tol=1e-13, **way).labels
        grids.close(given.operators.hat(labels).ravel(), best, 1e-9, name)
        grids.close(np.where(counts, best, labels.ravel()), best, 1e-9, name)
        # The minimum is the residual of the completed labels: no completion has less.
        assert_allclose(
            np.sum(labels * given.operators.residual(labels)), least, rtol=1e-9, err_msg=name
        )


# --- the closed form ---------------------------------------------------------------------------------


@over(
    covering(
        kinds=[("full", "full"), ("singular", "thin"), ("primal", "sparse")],
        model=ALL_MODELS,
        shape=SHAPES,
    )
)
def test_nothing_missing_is_the_closed_form(model, shape, kinds):
    given = grids.holes(model, shape, "none missing", kinds)
    found = complete(given.operators, given.Y)
    assert_array_equal(found.labels, given.Y)
    assert found.solution.n_iter == 0
    assert found.solution.converged
    assert_array_equal(found.solution.values, np.zeros(shape))
    # Solved for all the same, with weights of one, it is what the closed form of all cells gives.
    solved = complete(given.operators, given.Y, np.ones(shape), rank=0, tol=1e-14)
    assert solved.solution.n_iter > 0
    grids.close(solved.labels, given.Y, 1e-12)
    grids.close(given.operators.hat(found.labels), given.fitted(), 1e-12)


@over(
    covering(
        kinds=[("full", "full"), ("singular", "full"), ("thin", "primal"), ("full", "sparse")],
        **some_patterns,
        model=[*MODELS, "two-step + 1"],
    )
)
def test_the_closed_form_reproduces_what_was_completed(model, pattern, kinds):
    """Coefficients fitted to the completed grid predict its missing cells, and the observed ones as the model does."""
    given = grids.holes(model, (7, 6), pattern, kinds, alpha=0.3, task_alpha=0.1)
    missing = ~given.observed
    for name, way in FEW_WAYS.items():
        labels = complete(given.operators, given.Y, tol=1e-13, **way).labels
        expansion = given.operators.expansion(given.operators.coefficients(labels))
        half = expansion.tasks.training(expansion.values)
        predicted = expansion.instances.training(half.T).T
        grids.close(predicted[missing], labels[missing], 1e-10, name)
        grids.close(predicted, given.fitted(), 1e-9, name)


@over(every(model=MODELS))
def test_nothing_observed_is_predicted_zero(model):
    given = grids.holes(model, (5, 4))
    nothing = np.full((5, 4), np.nan)
    for way in ({"route": "missing"}, {"route": "missing", "max_direct": 0}, {"route": "observed"}):
        assert_array_equal(complete(given.operators, nothing, **way).labels, np.zeros((5, 4)))


@over(every(features={"kernel": False, "features": True}, model=MODELS))
def test_a_kernel_of_zeros_predicts_zero(model, features):
    given = grids.holes(model, (5, 4))
    if features:
        empty = Spectrum.from_features(np.zeros((5, 2)))
    else:
        empty = Spectrum.from_gram(np.zeros((5, 5)))
    if model == "kronecker":
        operators = Kronecker(empty, given.operators.spectra[1], 0.5)
    else:
        operators = TwoStep(empty.smoother(Tikhonov(), 0.5), given.operators.columns)
    for way in ({"route": "missing"}, {"route": "missing", "max_direct": 0}, {"route": "observed"}):
        found = complete(operators, given.Y, **way)
        assert_allclose(
            found.labels, np.where(given.observed, given.Y, 0.0), rtol=1e-14, atol=1e-14
        )


# --- other filters of two-step ---------------------------------------------------------------------------


def filter_matrices(K: np.ndarray, filter, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return hat and residual of one side, by repetition or by choosing eigenvectors."""
    n = len(K)
    values, vectors = np.linalg.eigh(K)
    if isinstance(filter, SpectralCutoff):
        kept = vectors[:, values >= alpha]
        return kept @ kept.T, np.eye(n) - kept @ kept.T
    if isinstance(filter, Landweber):
        residual = np.linalg.matrix_power(
            np.eye(n) - K / values[-1], int(np.ceil(values[-1] / alpha))
        )
    else:
        residual = np.linalg.matrix_power(
            alpha * np.linalg.inv(K + alpha * np.eye(n)), getattr(filter, "n_iter", 1)
        )
    return np.eye(n) - residual, residual


FILTERS = [Tikhonov(), SpectralCutoff(), IteratedTikhonov(3), Landweber()]


def gives_a_kernel(filter, task_filter, **_) -> bool:
    """Tell whether one of the sides keeps nothing whole, which gives the pairs a kernel."""
    return any(kept in (filter, task_filter) for kept in (Tikhonov(), IteratedTikhonov(3)))


@over(
    covering(
        filter=FILTERS,
        task_filter=FILTERS,
        kinds=[("full", "full"), ("singular", "primal")],
        way=[way for way in WAYS if way != "chosen"],
        where=lambda way, **filters: not way.startswith("observed") or gives_a_kernel(**filters),
    )
)
def test_any_mixture_of_filters(filter, task_filter, kinds, way):
    """The missing cells solve (R_mm) f = (H y_o)_m, also where directions are kept whole."""
    given = grids.holes("two-step", (8, 6), "50%", kinds)
    spectrum, task_spectrum = given.operators.spectra
    if SpectralCutoff() in (filter, task_filter):
        alpha, task_alpha = (1.0, 1.2)
    else:
        alpha, task_alpha = (0.41, 0.61)
    operators = TwoStep(
        spectrum.smoother(filter, alpha), task_spectrum.smoother(task_filter, task_alpha)
    )
    H, R = filter_matrices(given.K, filter, alpha)
    task_H, task_R = filter_matrices(given.G, task_filter, task_alpha)
    hat = np.kron(H, task_H)
    residual = np.kron(R, np.eye(6)) + np.kron(H, task_R)
    observed = given.observed.ravel()
    right = hat[np.ix_(~observed, observed)] @ given.Y.ravel()[observed]
    system = residual[np.ix_(~observed, ~observed)]
    assert np.linalg.cond(system) < 1e4
    expected = np.linalg.solve(system, right)
    found = complete(operators, given.Y, tol=1e-13, **WAYS[way])
    assert found.solution.converged
    grids.close(found.labels[~given.observed], expected, 1e-9)


def test_cells_that_the_model_interpolates_are_refused():
    """Nothing predicts a cell on which the kept directions fit any label, and nobody invents one."""
    given = grids.holes("two-step", (5, 4), "one cell")
    spectrum, task_spectrum = given.operators.spectra
    whole = TwoStep(
        spectrum.smoother(SpectralCutoff(), 0.35), task_spectrum.smoother(SpectralCutoff(), 0.35)
    )
    for operators in (
        whole,
        Kronecker(Spectrum.from_features(np.eye(5)[:, :3]), task_spectrum, 0.0),
    ):
        with pytest.raises(
            LeverageError, match=r"19 of 20 cells form a set that .* Use a larger alpha"
        ):
            complete(operators, given.Y)


# --- no regularisation --------------------------------------------------------------------------------------


def interpolated(precision: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return labels that minimise fᵀ(precision)f where they are missing."""
    observed = ~np.isnan(Y).ravel()
    filled = Y.ravel().copy()
    system = precision[np.ix_(~observed, ~observed)]
    filled[~observed] = np.linalg.solve(
        system, -precision[np.ix_(~observed, observed)] @ filled[observed]
    )
    return filled.reshape(Y.shape)


@over(covering(max_direct={"iterative": 0, "direct": 1000}, model=MODELS, pattern=PATTERNS))
def test_without_regularisation_the_penalty_alone_decides(model, pattern, max_direct):
    """At λ = 0 observed labels are interpolated, as in the limit of one small λ on all sides."""
    given = grids.holes(model, (6, 5), pattern)
    spectrum, task_spectrum = given.operators.spectra
    left = np.linalg.inv(given.K)
    right = np.linalg.inv(given.G)
    if model == "kronecker":
        operators = Kronecker(spectrum, task_spectrum, 0.0)
        precision = np.kron(left, right)
    else:
        operators = TwoStep(
            spectrum.smoother(Tikhonov(), 0.0), task_spectrum.smoother(Tikhonov(), 0.0)
        )
        precision = np.kron(left, np.eye(5)) + np.kron(np.eye(6), right)
    for rank in (0, 4):
        found = complete(operators, given.Y, rank=rank, max_direct=max_direct, tol=1e-13)
        grids.close(found.labels, interpolated(precision, given.Y), 1e-9)


def test_no_regularisation_on_one_side():
    given = grids.holes("two-step", (6, 5), "50%")
    spectrum = given.operators.spectra[0]
    tasks = given.operators.columns
    operators = TwoStep(spectrum.smoother(Tikhonov(), 0.0), tasks)
    # Instances keep all they are given: every row is a problem of its own, with the kernel of the
    # tasks.
    expected = given.Y.copy()
    for row, here in zip(expected, given.observed, strict=True):
        system = given.G[np.ix_(here, here)] + 0.2 * np.eye(here.sum())
        row[~here] = given.G[np.ix_(~here, here)] @ np.linalg.solve(system, row[here])
    for way in ("direct", "missing, deflated", "observed, deflated"):
        grids.close(complete(operators, given.Y, tol=1e-13, **WAYS[way]).labels, expected, 1e-9)


# --- how it is called ---------------------------------------------------------------------------------------------


@over(every(model=ALL_MODELS))
def test_labels_are_left_alone(model):
    given = grids.holes(model)
    before = given.Y.copy()
    weights = np.full(given.Y.shape, 2.0)
    for way in FEW_WAYS.values():
        complete(given.operators, given.Y, **way)
        assert_array_equal(given.Y, before)
    complete(given.operators, given.Y, weights)
    assert_array_equal(given.Y, before)
    assert_array_equal(weights, 2.0)


@over(every(model=MODELS))
def test_the_form_by_default(model):
    """Few missing cells are solved for directly; where they are many, the smaller system is iterated on."""
    given = grids.holes(model, (9, 6), "95%")
    assert complete(given.operators, given.Y).route == "missing"
    assert complete(given.operators, given.Y).solution.n_iter == 0
    # One observed cell makes a tiny system, almost all of them a tiny one of the others.
    for pattern, route in (("one cell", "observed"), ("5%", "missing")):
        given = grids.holes(model, (9, 6), pattern)
        found = complete(given.operators, given.Y, max_direct=0)
        assert found.route == route
        assert 0 < found.solution.n_iter <= 4


def test_the_form_where_something_is_kept_whole():
    """There is no kernel with a ridge then: only the missing cells can be solved for, however many they are."""
    given = grids.holes("two-step", (9, 6), "95%")
    spectrum, task_spectrum = given.operators.spectra
    cutoff = TwoStep(
        spectrum.smoother(SpectralCutoff(), 2.9), task_spectrum.smoother(SpectralCutoff(), 2.9)
    )
    for operators in (cutoff, Kronecker(spectrum, task_spectrum, 0.0)):
        assert complete(operators, given.Y, max_direct=0).route == "missing"
    assert complete(given.operators, given.Y, max_direct=0).route == "observed"


@over(every(model=ALL_MODELS))
def test_every_library_computes_the_same(library, model):
    iterated = "observed, deflated" if model in WITH_MEAN else "missing, deflated"
    for kinds, way in ((("full", "full"), "direct"), (("singular", "primal"), iterated)):
        given = grids.holes(model, (6, 4), "50%", kinds)
        spectra = list(given.operators.spectra)
        spectra = [
            Spectrum(
                library.asarray(s.values),
                s.n_rows,
                None,
                library.asarray(s.vectors),
                None,
                s.constant,
            )
            for s in spectra
        ]
        if model.startswith("kronecker"):
            operators = Kronecker(*spectra, 0.5, free_mean=given.free_mean)
        else:
            operators = TwoStep(
                spectra[0].smoother(Tikhonov(), 0.5), spectra[1].smoother(Tikhonov(), 0.2)
            )
        Y = library.asarray(given.Y)
        weights = np.random.default_rng(1).uniform(0.5, 2.0, size=given.Y.shape)
        found = complete(operators, Y, tol=1e-12, **WAYS[way])
        weighted = complete(operators, Y, library.asarray(weights), rank=5, tol=1e-12)
        assert type(found.labels) is type(weighted.labels) is type(Y)
        assert found.labels.dtype == weighted.labels.dtype == Y.dtype
        grids.close(library.to_numpy(found.labels), given.completed(), library.rtol)
        fitted = operators.hat(weighted.labels)
        grids.close(library.to_numpy(fitted), given.fitted(weights), library.rtol)


def test_cells_that_only_together_are_interpolated_are_refused():
    """On flat spectra the eigenvalues of what is missing are rounding, and no larger than that of the kernels."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        bases = [np.linalg.qr(rng.normal(size=shape))[0] for shape in ((9, 7), (6, 4))]
        spectrum, task_spectrum = (Spectrum.from_gram(basis @ basis.T) for basis in bases)
        sides = spectrum.smoother(Tikhonov(), 0.0), task_spectrum.smoother(Tikhonov(), 0.0)
        Y = rng.normal(size=(9, 6))
        Y[np.ix_(rng.permutation(9)[:3], rng.permutation(6)[:3])] = np.nan
        for operators in (TwoStep(*sides), Kronecker(spectrum, task_spectrum, 0.0)):
            with pytest.raises(LeverageError, match="cells form a set that have leverage 1"):
                complete(operators, Y)


PAIR_KERNELS = [name for name in ALL_MODELS if "two-step" not in name]


@over(
    covering(
        model=PAIR_KERNELS,
        sides=[
            (("full", "full"), (9, 5)),
            (("singular", "full"), (5, 9)),
            (("thin", "singular"), (7, 6)),
        ],
        pattern=["50%", "95%", "rows and columns"],
        alpha=[1e-4, 0.3, 1e6],
        has_sparse_products=[False, True],
    )
)
def test_few_cells_have_one_unknown_each(
    monkeypatch, model, sides, pattern, alpha, has_sparse_products
):
    kinds, shape = sides
    given = grids.holes(model, shape, pattern, kinds, alpha=alpha)
    assert given.operators.shares is not None
    monkeypatch.setattr(missing, "_DIRECT_OBSERVED", 0)
    monkeypatch.setattr(missing, "are_few", lambda *_: True)
    monkeypatch.setattr(cells, "are_few", lambda *_: has_sparse_products)
    monkeypatch.setattr(cells, "_DENSE", 2.0)
    monkeypatch.setattr(missing, "_ObservedCells", None)
    check(given, 1e-9, {"observed": {"route": "observed"}}, tol=1e-13)
    # A solution is where the next one starts.
    found = complete(given.operators, given.Y, route="observed", tol=1e-10)
    again = complete(given.operators, given.Y, route="observed", tol=1e-9, start=found)
    assert again.solution.n_iter == 0
    assert_allclose(again.labels, found.labels, rtol=1e-6, atol=1e-9)


def test_pair_kernels_on_large_sparse_grids_are_solved_at_their_cells(monkeypatch):
    """The cost decides, and weights and a tiny share of the product kernel are left to the other way."""
    rng = np.random.default_rng(0)
    m = 90
    q = 130
    Y = np.full((m, q), np.nan)
    rows = rng.integers(m, size=300)
    columns = rng.integers(q, size=300)
    Y[rows, columns] = rng.normal(size=300)
    monkeypatch.setattr(cells, "_CHEAP", 0)
    spectra = [Spectrum.from_features(rng.normal(size=(n, n))) for n in (m, q)]
    model = PairKernel(*spectra, 50.0, (0.5, 0.2, 0.3), free_mean=True)
    direct = complete(model, Y)
    assert direct.solution.n_iter == 0
    monkeypatch.setattr(missing, "_FEW_ITERATIONS", 0)
    used = []
    solve_at_cells = missing._completed_by_cells
    monkeypatch.setattr(
        missing,
        "_completed_by_cells",
        lambda *given, **more: used.append(1) or solve_at_cells(*given, **more),
    )
    found = complete(model, Y, tol=1e-10)
    assert used == [1]
    assert found.solution.converged
    fitted = model.hat(found.labels)
    assert_allclose(fitted[np.isnan(Y)], found.labels[np.isnan(Y)], atol=1e-7)
    assert_allclose(found.labels, direct.labels, rtol=0, atol=1e-8)
    complete(model, Y, np.ones_like(Y), tol=1e-2, max_iter=1)
    complete(replace(model, shares=(1e-9, 0.2, 0.3)), Y, tol=1e-2, max_iter=1)
    assert used == [1]
