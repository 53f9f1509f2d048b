"""Completed grids against dense normal equations, whatever is missing and whichever way they are solved."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems as grids
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.pairing import Kronecker, PairKernel, TwoStep
from dyadlearn.solve import cells, missing
from dyadlearn.solve.missing import _check_determined, complete
from dyadlearn.spectrum import Spectrum
from problems import ALL_MODELS, MODELS, PATTERNS, SHAPES
from references import fitted, reference
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


def make_weights(shape, spread=10.0):
    return np.exp(np.random.default_rng(5).uniform(-1, 1, size=shape) * np.log(spread))


def check(given, rtol, ways=WAYS, weights=None, **options):
    """Compare with the dense equations: what is missing, and what the closed form makes of the completed grid."""
    observed = given.observed
    expected = given.fitted(weights)
    for name, way in ways.items():
        found = complete(given.operators, given.Y, weights, **way, **options)
        assert found.solution.converged, name
        assert found.route == way.get("route", found.route) or observed.all()
        assert found.labels.dtype == np.float64
        grids.close(given.operators.hat(found.labels), expected, rtol, name)
        if weights is not None:
            dual = given.ridge * given.dual(weights)
            grids.close(found.labels, expected + dual, rtol, name)
            continue
        assert found.solution.n_iter == 0 or not observed.all()
        assert_array_equal(found.labels[observed], given.Y[observed])
        grids.close(np.where(observed, expected, found.labels), expected, rtol, name)


SIDES = [
    ("full", "full"),
    ("singular", "full"),
    ("thin", "singular"),
    ("primal", "sparse"),
    ("sparse", "thin"),
]


LAMBDAS = [1e-6, 1e-2, 1.0, 1e6]


def is_usual(alpha, task_alpha):
    """Return whether a dense system loses no digit."""
    return (alpha, task_alpha) == (0.3, 0.1)


@over(
    covering(
        model=ALL_MODELS,
        shape=SHAPES,
        kinds=SIDES,
        pattern=PATTERNS,
        way=list(WAYS),
        alpha=[*LAMBDAS, 0.3],
        task_alpha=[*LAMBDAS, 0.1],
        spread=[None, 1.0, 10.0, 1e3, 1e6],
        # A singular kernel beside next to no regularisation leaves a dense system few digits.
        where=lambda kinds, way, alpha, task_alpha, spread, **_: (
            (is_usual(alpha, task_alpha) or (kinds == SIDES[0] and way in FEW_WAYS))
            and (spread is None or WAYS[way].get("route") != "missing")
            and (spread in (None, 10.0) or is_usual(alpha, task_alpha))
        ),
    )
)
def test_whatever_is_missing(model, shape, kinds, pattern, way, alpha, task_alpha, spread):
    given = grids.holes(model, shape, pattern, kinds, alpha=alpha, task_alpha=task_alpha)
    if spread is None:
        # Twelve orders of magnitude between the two leave an iteration a digit less.
        limit = 1e-9 if max(alpha, task_alpha) >= 1e12 * min(alpha, task_alpha) else 1e-10
        check(given, limit, {way: WAYS[way]}, tol=1e-13)
        return
    limit = 1e-9 if spread < 10 else 1e-7
    if not is_usual(alpha, task_alpha) and not given.free_mean:
        limit = 1e-8
    check(given, limit, {way: WAYS[way]}, make_weights(shape, spread), tol=1e-13)


# --- the closed form ---------------------------------------------------------------------------------


@over(every(model=MODELS))
def test_nothing_observed_is_predicted_zero(model):
    given = grids.holes(model, (5, 4))
    nothing = np.full((5, 4), np.nan)
    for way in ({"route": "missing"}, {"route": "missing", "max_direct": 0}, {"route": "observed"}):
        assert_array_equal(complete(given.operators, nothing, **way).labels, np.zeros((5, 4)))


@over(every(features=[False, True], model=[*MODELS, "two-step + 1"]))
def test_a_kernel_of_zeros_predicts_zero_or_a_constant(model, features):
    given = grids.holes(model, (5, 4))
    build = Spectrum.from_features if features else Spectrum.from_gram
    constant = given.operators.spectra[0].constant
    empty = build(np.zeros((5, 2 if features else 5)), constant=constant)
    if model == "kronecker":
        operators = Kronecker(empty, given.operators.spectra[1], 0.5)
    else:
        operators = TwoStep(empty.smoother(Tikhonov(), 0.5), given.operators.columns)
    kind = "kronecker" if model == "kronecker" else "two_step"
    kernels = np.zeros((5, 5)), given.G
    zero = reference(kind, kernels, (0.5, 0.2), given.Y, constant=given.free_mean)
    expected = np.where(given.observed, given.Y, fitted(zero))
    for way in MORE_WAYS.values():
        grids.close(complete(operators, given.Y, tol=1e-13, **way).labels, expected, 1e-10)


# --- other filters of two-step ---------------------------------------------------------------------------


FILTERS = [Tikhonov(), SpectralCutoff(), IteratedTikhonov(3), Landweber()]


@over(
    covering(
        filter=FILTERS,
        task_filter=FILTERS,
        kinds=[("full", "full"), ("singular", "primal")],
        constant=[False, True],
        way=[way for way in WAYS if way != "chosen"],
    )
)
def test_any_mixture_of_filters(filter, task_filter, kinds, constant, way):
    """Also where directions are kept whole, which have no penalty beside the constant of the other side."""
    given = grids.holes("two-step + 1" if constant else "two-step", (8, 6), "30%", kinds)
    filters = (filter, task_filter)
    alphas = tuple(1.2 if each == SpectralCutoff() else 0.41 for each in filters)
    sides = zip(given.operators.spectra, filters, alphas, strict=True)
    operators = TwoStep(*(spectrum.smoother(*how) for spectrum, *how in sides))
    model = reference(
        "two_step", (given.K, given.G), alphas, given.Y, filters=filters, constant=constant
    )
    if WAYS[way]["route"] == "observed" and operators.floor > 0:
        with pytest.raises(ValueError, match="^sample_weight has no effect on a model that inter"):
            complete(operators, given.Y, np.ones((8, 6)))
        return
    found = complete(operators, given.Y, tol=1e-13, **WAYS[way])
    assert found.solution.converged
    missing = ~given.observed
    grids.close(found.labels[missing], fitted(model)[missing], 1e-9)


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


@over(
    covering(
        max_direct={"iterative": 0, "direct": 1000},
        rank=[0, 4],
        model=[*MODELS, "two-step + 1"],
        pattern=PATTERNS,
    )
)
def test_without_regularisation_the_penalty_alone_decides(model, pattern, rank, max_direct):
    """At λ = 0 observed labels are interpolated, as in the limit of one small λ on all sides."""
    given = grids.holes(model, (6, 5), pattern)
    operators = given.operators.at(*[0.0] * len(given.operators.alphas))
    kind = "kronecker" if model == "kronecker" else "two_step"
    limit = reference(kind, (given.K, given.G), (0.0, 0.0), given.Y, constant=given.free_mean)
    found = complete(operators, given.Y, rank=rank, max_direct=max_direct, tol=1e-13)
    grids.close(found.labels, np.where(given.observed, given.Y, fitted(limit)), 1e-9)


# --- how it is called ---------------------------------------------------------------------------------------------


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


def test_cells_that_only_together_are_interpolated_are_refused():
    """On flat spectra the eigenvalues of what is missing are rounding, and no larger than that of the kernels."""
    for seed in range(4):
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
    check(given, 1e-10, {"observed": {"route": "observed"}}, tol=1e-13)
    # A solution is where the next one starts.
    found = complete(given.operators, given.Y, route="observed", tol=1e-10)
    again = complete(given.operators, given.Y, route="observed", tol=1e-9, start=found)
    assert again.solution.n_iter == 0
    assert_allclose(again.labels, found.labels, rtol=1e-6, atol=1e-9)


def test_pair_kernels_on_large_sparse_grids_are_solved_at_their_cells(monkeypatch):
    """The cost decides, and weights and a tiny share of the product kernel are left to the other way."""
    rng = np.random.default_rng(0)
    Y = np.full((90, 130), np.nan)
    Y[rng.integers(90, size=300), rng.integers(130, size=300)] = rng.normal(size=300)
    monkeypatch.setattr(cells, "_CHEAP", 0)
    spectra = [Spectrum.from_features(rng.normal(size=(n, n))) for n in Y.shape]
    model = PairKernel(*spectra, 50.0, (0.5, 0.2, 0.3), free_mean=True)
    direct = complete(model, Y)
    assert direct.solution.n_iter == 0
    monkeypatch.setattr(missing, "ITERATIONS", 0)
    used = []
    solve_at_cells = missing._completed_by_cells
    monkeypatch.setattr(
        missing,
        "_completed_by_cells",
        lambda *given, **more: used.append(1) or solve_at_cells(*given, **more),
    )
    found = complete(model, Y, tol=1e-10)
    assert used == [1]
    assert_allclose(found.labels, direct.labels, rtol=0, atol=1e-8)
    complete(model, Y, np.ones_like(Y), tol=1e-2, max_iter=1)
    complete(replace(model, shares=(1e-9, 0.2, 0.3)), Y, tol=1e-2, max_iter=1)
    assert used == [1]


def test_observed_cells_that_nearly_leave_a_free_direction_open_are_refused():
    right = np.ones((1, 1))
    for gap, is_refused in ((0.0, True), (1e-5, True), (0.1, False)):
        left = np.array([[1.0, 1.0, 0.0], [1.0, 1.0 + gap, 1.0]]).T
        operators = SimpleNamespace(remainder=np.zeros((2, 1)), vectors=(left, right), floor=1e-10)
        observed = np.array([[True], [True], [False]])
        context = pytest.raises(LeverageError) if is_refused else contextlib.nullcontext()
        with context:
            _check_determined(operators, observed)


# --- weights ---------------------------------------------------------------------------------


@over(every(model=ALL_MODELS))
def test_cells_that_weigh_nothing_are_missing(model):
    given = grids.holes(model, (6, 5), "50%")
    full = np.where(given.observed, given.Y, 100.0)
    weights = np.where(given.observed, 1.0, 1e-13)
    found = complete(given.operators, full, weights, tol=1e-13)
    grids.close(given.operators.hat(found.labels), given.fitted(), 1e-8)


@over(every(shape={"few cells": (16, 16), "many": (17, 16)}, model=ALL_MODELS))
def test_few_observed_cells_are_solved_for_directly(model, shape):
    given = grids.holes(model, shape, "none missing")
    weights = make_weights(shape)
    found = complete(given.operators, given.Y, weights, tol=1e-13)
    assert (found.solution.n_iter == 0) == (shape == (16, 16))
    assert complete(given.operators, given.Y, weights, max_direct=0).solution.n_iter > 0
    grids.close(given.operators.hat(found.labels), given.fitted(weights), 1e-9)


# --- warm starts -----------------------------------------------------------------------------

# Wide spectra and little regularisation take many iterations.
HARD = {"shape": (12, 9), "kinds": ("singular", "full"), "alpha": 1e-3, "task_alpha": 1e-2}
ITERATED = ("missing", "missing, deflated", "observed", "observed, deflated")
ways = {"way": {name: WAYS[name] for name in ITERATED}}


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


@over(every(**ways, model=MODELS))
def test_a_start_from_other_holes_leads_to_the_same_answer(model, way):
    """Cells that were missing and are no more, or the reverse, take nothing along."""
    given = grids.holes(model, (9, 7), "50%")
    rng = np.random.default_rng(8)
    everything = np.where(given.observed, given.Y, rng.normal(size=(9, 7)))
    other = np.where(rng.random((9, 7)) < 0.4, np.nan, everything)
    start = complete(given.operators, other, tol=1e-12, **way)
    found = complete(given.operators, given.Y, start=start, tol=1e-12, **way)
    grids.close(found.labels, given.completed(), 1e-9)
    back = complete(given.operators, other, start=found, tol=1e-12, **way)
    grids.close(back.labels, replace(given, Y=other).completed(), 1e-9)


def test_many_missing_cells_that_are_interpolated_are_refused(monkeypatch):
    """Too many to solve for directly: the directions that are kept whole tell whether the rest determines them."""
    monkeypatch.setattr(missing, "_CHECKED_CELLS", 10)
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
