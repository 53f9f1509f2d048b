"""Default grids of alpha: multiples of the scale of the kernel and the weights, so that units do not matter."""

import warnings
from functools import cache

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    PairKernelRidge,
    PairKernelRidgeCV,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.exceptions import BaselineWarning, GridEdgeWarning
from dyadlearn.filters import IteratedTikhonov
from dyadlearn.selection import default_alphas
from dyadlearn.selection.edges import edges_of
from sweeps import covering, lines, over

RNG = default_rng(7)
M = 9
Q = 6
X = RNG.normal(size=(M, 4)) + 0.5
T = RNG.normal(size=(Q, 3)) - 0.5
Y = X @ RNG.normal(size=(4, 3)) @ T.T + 2.0 * RNG.normal(size=(M, Q))
HOLES = problems.with_holes(Y, 0.2)
WEIGHTS = RNG.random((M, Q)) + 0.5
MULTIPLES = 10.0 ** np.arange(-7, 7)
FACTORS = [1e12, 1e-12, 2.54]


# --- what the scale is ---------------------------------------------------------------------------


def centred(K):
    P = np.eye(len(K)) - 1.0 / len(K)
    return P @ K @ P


K = X @ X.T
G = T @ T.T
SCALES = {
    "two-step": (TwoStepRidge(), {"alphas": centred(K), "task_alphas": centred(G)}),
    "two-step of the paper": (TwoStepRidge(fit_intercept=False), {"alphas": K, "task_alphas": G}),
    "two-step with identities": (
        TwoStepRidge(identity=(0.5, 0.25), fit_intercept=False),
        {"alphas": K + 0.5 * np.eye(M), "task_alphas": G + 0.25 * np.eye(Q)},
    ),
    "independent": (IndependentTaskRidge(), {"alphas": centred(K)}),
    "independent of the paper": (IndependentTaskRidge(fit_intercept=False), {"alphas": K}),
    "Kronecker": (KroneckerRidge(), {"alphas": centred(problems.pair_kernel(K + 1, G + 1))}),
    "Kronecker of the paper": (
        KroneckerRidge(fit_intercept=False),
        {"alphas": problems.pair_kernel(K, G)},
    ),
    "pair kernels": (
        PairKernelRidge(product=0.5, per_task=0.3, per_instance=2.0),
        {"alphas": centred(problems.pair_kernel(K + 1, G + 1, 0.5, 0.3, 2.0))},
    ),
    "pair kernels of the paper": (
        PairKernelRidge(product=0.5, per_task=0.3, per_instance=2.0, fit_intercept=False),
        {"alphas": problems.pair_kernel(K, G, 0.5, 0.3, 2.0)},
    ),
}


@over(lines("model kernels", *SCALES.values()))
def test_the_scale_is_the_mean_eigenvalue(model, kernels):
    grids = default_alphas(model.fit(X, Y, T))
    assert grids.keys() == kernels.keys()
    for name, kernel in kernels.items():
        assert_allclose(grids[name], MULTIPLES * np.linalg.eigvalsh(kernel).mean(), rtol=1e-12)


def test_the_scale_of_a_network_is_that_of_its_nodes():
    links = K + RNG.normal()
    grids = default_alphas(TwoStepRidge(symmetry="symmetric").fit(X, links + links.T))
    assert grids.keys() == {"alphas"}
    assert_allclose(grids["alphas"], MULTIPLES * np.linalg.eigvalsh(centred(K)).mean(), rtol=1e-12)


def test_one_regularisation_grows_with_the_weights():
    """A weight of c for every label divides the regularisation by c, so the grid is multiplied by c."""
    given = {"tasks": T, "sample_weight": WEIGHTS}
    for model in (KroneckerRidge(), PairKernelRidge(per_task=1.0), IndependentTaskRidge()):
        plain = default_alphas(model.fit(X, HOLES, T))["alphas"]
        weighted = default_alphas(model.fit(X, HOLES, **given))["alphas"]
        assert_allclose(
            weighted, np.mean(WEIGHTS[~np.isnan(HOLES)]) * np.asarray(plain), rtol=1e-13
        )
    for model in (TwoStepRidge(), IndependentTaskRidge(filter=IteratedTikhonov(2))):
        assert default_alphas(model.fit(X, HOLES, T)) == default_alphas(
            model.fit(X, HOLES, **given)
        )


def test_a_kernel_of_zeros_counts_as_one():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BaselineWarning)
        for search in (
            TwoStepRidgeCV(),
            KroneckerRidgeCV(fit_intercept=False),
            IndependentTaskRidgeCV(),
        ):
            search.fit(np.zeros((M, 2)), Y, T)
            assert_allclose(search.alphas_, MULTIPLES, rtol=1e-14)


# --- units do not matter -------------------------------------------------------------------------

PAPER = {"fit_intercept": False}
# With holes or weights, few digits are right where the powers of these filters nearly interpolate.
FILTERED = "two-step with filters"
SEARCHES = {
    "two-step": TwoStepRidgeCV(),
    "two-step of the paper": TwoStepRidgeCV(**PAPER),
    FILTERED: TwoStepRidgeCV(filter=IteratedTikhonov(3), task_filter=IteratedTikhonov(2)),
    "independent": IndependentTaskRidgeCV(),
    "independent per task": IndependentTaskRidgeCV(alpha_per_task=True),
    "independent with a filter": IndependentTaskRidgeCV(filter=IteratedTikhonov(2)),
    # An intercept of these models is a constant of size 1 beside the features, so that their units
    # matter.
    "Kronecker": KroneckerRidgeCV(**PAPER),
    "pair kernels": PairKernelRidgeCV(**PAPER),
    "pair kernels with given shares": PairKernelRidgeCV(shares=[(1.0, 0.0, 0.0)], **PAPER),
}

# All shares are searched for complete labels only, and given ones beside holes and weights.
SLOW = (FILTERED, "pair kernels")


def fitted(search, letter, *, rows=1.0, columns=1.0, weights=None, labels=Y):
    """Return a search that was fitted on features in other units, for the settings that the model supports."""
    if not isinstance(search, IndependentTaskRidgeCV) or letter in "AB":
        setting = letter
    else:
        setting = "B"
    cv = None if weights is None and not np.isnan(labels).any() else 2
    again = type(search)(**{**search.get_params(), "setting": setting, "cv": cv, "progress": False})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        warnings.simplefilter("ignore", BaselineWarning)
        return again.fit(X * rows, labels, T * columns, weights)


@cache
def plain(name, letter, form):
    """Return a search of `SEARCHES` in the units as they are, for tests that only read it."""
    return fitted(SEARCHES[name], letter, labels=Y if form == "complete" else HOLES)


def agree(one, other, rtol, factor=1.0):
    """Compare two searches by their squared errors: wherever one of them is no more than four times the best.

    Where models nearly interpolate, errors may be arbitrarily large, and depend on rounding.
    """
    near = one.landscape_ >= 4.0 * np.nanmax(
        one.landscape_, axis=0 if np.ndim(one.alpha_) else None
    )
    assert near.any()
    assert_allclose(other.landscape_[near], factor**2 * one.landscape_[near], rtol=rtol)
    assert_allclose(other.best_score_, factor**2 * one.best_score_, rtol=rtol)
    powers = [np.round(np.log10(found.alpha_ / found.alphas_[0])) for found in (one, other)]
    assert_array_equal(powers[1], powers[0])


@over(
    covering(
        name=[*SEARCHES],
        factor=FACTORS,
        units=["instances", "tasks", "both"],
        letter="ABCD",
        form=["complete", "with holes"],
        where=lambda name, form, letter, **_: (
            (name not in SLOW and letter in "AB") or form == "complete"
        ),
        strength=1,
    )
)
def test_units_of_features_and_labels_do_not_matter(name, factor, units, letter, form):
    rows = 1.0 if units == "tasks" else factor
    columns = 1.0 if units == "instances" else factor
    shift = 100.0 if SEARCHES[name].fit_intercept else 0.0
    one = plain(name, letter, form)
    labels = factor * ((Y if form == "complete" else HOLES) + shift)
    other = fitted(SEARCHES[name], letter, labels=labels, rows=rows, columns=columns)
    agree(one, other, 1e-6, factor)
    for found, expected in (
        (other.holdout_, one.holdout_),
        (other.predict(X[:3] * rows), one.predict(X[:3])),
    ):
        assert_allclose(found / factor - shift, expected, rtol=1e-6, atol=1e-6)


def test_given_values_stay_as_they_are():
    """Values that are given are absolute, and so are the weights beside them."""
    given = [0.1, 1.0, 10.0, 100.0]
    weights = {"tasks": T, "sample_weight": 3.0 * WEIGHTS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        warnings.simplefilter("ignore", BaselineWarning)
        search = TwoStepRidgeCV(given, given).fit(X, HOLES, **weights)
    assert_array_equal([search.alphas_, search.task_alphas_], [given] * 2)
    model = TwoStepRidge(search.alpha_, search.task_alpha_).fit(X, HOLES, **weights)
    assert_allclose(search.predict(), model.predict(), rtol=1e-6)


def test_a_search_with_default_grids_divides_weights_by_their_mean():
    """Two-step models cannot absorb a factor of the weights; its hold-out uses the same weights as its fit."""
    search = fitted(TwoStepRidgeCV(), "B", weights=5.0 * WEIGHTS, labels=HOLES)
    weights = WEIGHTS / WEIGHTS[~np.isnan(HOLES)].mean()
    model = TwoStepRidge(search.alpha_, search.task_alpha_).fit(X, HOLES, T, weights)
    assert_allclose(search.predict(), model.predict(), atol=1e-7)
    cells = np.arange(Y.size).reshape(Y.shape) % 3
    found, expected = (each.holdout("A", cells=cells) for each in (search, model))
    assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# --- candidate kernels and landscapes ------------------------------------------------------------


def test_each_kernel_has_its_own_values():
    """The values of the chosen kernel are stored, and equal those of a search of this kernel alone."""
    kernels = [
        {"degree": 1, "coef0": 0.0, "gamma": 1e-9},
        {"degree": 2, "coef0": 1.0, "gamma": 10.0},
    ]
    given = {
        "kernel": "polynomial",
        "task_kernel": "polynomial",
        "fit_intercept": False,
        "setting": "D",
    }
    both = fitted(KroneckerRidgeCV(kernel_grid=kernels, task_kernel_grid=kernels, **given), "D")
    assert both.landscape_.shape == (2, 2, 14)
    for row, kernel in enumerate(kernels):
        for column, task_kernel in enumerate(kernels):
            alone = {"kernel_params": kernel, "task_kernel_params": task_kernel, **given}
            one = fitted(KroneckerRidgeCV(**alone), "D")
            assert_allclose(both.landscape_[row, column], one.landscape_, rtol=1e-12)
            if (kernel, task_kernel) == (both.kernel_params_, both.task_kernel_params_):
                assert_array_equal(both.alphas_, one.alphas_)
                assert both.alpha_ == one.alpha_


def test_each_triple_of_shares_has_its_own_values():
    shares = [(1.0, 0.0, 0.0), (1e-6, 1e-6, 0.0), (0.0, 1e6, 0.0)]
    search = fitted(PairKernelRidgeCV(shares=shares), "B")
    for row, triple in enumerate(shares):
        alone = fitted(PairKernelRidgeCV(shares=[triple]), "B")
        assert_allclose(search.landscape_[row], alone.landscape_[0], rtol=1e-12)
        if triple == search.shares_:
            assert_allclose(search.alphas_, alone.alphas_, rtol=1e-12)


# --- edges ---------------------------------------------------------------------------------------


def told(search, *given, **options):
    """Return the warnings of a fit: their types and texts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(*given, **options)
    assert {each.filename for each in caught} <= {__file__}
    return [(each.category, str(each.message)) for each in caught]


# Without noise the least regularisation is the best.
EXACT = X @ RNG.normal(size=(4, Q))


@over(
    lines(
        "search name",
        (TwoStepRidgeCV(setting="B", task_kernel="precomputed"), "alpha"),
        (KroneckerRidgeCV(setting="B", task_kernel="precomputed"), "alpha"),
        (IndependentTaskRidgeCV(), "alpha"),
    )
)
def test_an_edge_of_the_default_grid_is_reported(search, name):
    found = told(search, X, EXACT, tasks=np.eye(Q))
    low = search.alphas_[0]
    high = search.alphas_[-1]
    wanted = f"The best {name}, {low:g}, is on the edge of the default grid ({low:g} … {high:g}): give smaller alphas=."
    assert (GridEdgeWarning, wanted) in found
    assert search.alpha_ == low


def test_the_tasks_on_an_edge_are_counted():
    rows = default_rng(0).normal(size=(30, 3))
    # Four tasks without noise, and two with some.
    noise = 2.0 * default_rng(1).normal(size=(30, 6)) * (np.arange(6) > 3)
    search = IndependentTaskRidgeCV(alpha_per_task=True)
    ((category, text),) = told(search, rows, rows @ np.ones((3, 6)) + noise)
    assert category is GridEdgeWarning
    assert text == (
        "The best alpha of 4 of 6 tasks is on the edge of the default grid "
        f"({search.alphas_[0]:g} … {search.alphas_[-1]:g}): give smaller alphas=."
    )


def test_what_predicts_no_better_than_means_is_one_message():
    """The larger the regularisation the better, up to the edge: two rows are alike, and their labels are opposite."""
    row = np.full(300, 1e-3)
    row[:2] = 1.0
    labels = 0.3 + 1e-3 * default_rng(0).normal(size=300)
    labels[:2] = 3.0, -3.0
    search = IndependentTaskRidgeCV(fit_intercept=False)
    found = told(search, row[:, None], labels)
    assert search.alpha_ == search.alphas_[-1]
    assert search.landscape_[-1] - search.landscape_[-2] > 5e-4 * abs(search.landscape_[-1])
    assert [category for category, _ in found] == [BaselineWarning]
    assert edges_of(search) == []
    # Larger values may be what is missing in a grid that was given.
    found = told(search.set_params(alphas=search.alphas_), row[:, None], labels)
    assert [category for category, _ in found] == [GridEdgeWarning, BaselineWarning]


def test_scores_that_are_constant_beyond_the_edge_are_no_news():
    """The identity in the kernel is more regularisation than labels without noise need; less would change nothing."""
    search = IndependentTaskRidgeCV(kernel="precomputed")
    assert told(search, K + 0.1 * np.eye(M), EXACT) == []
    assert search.alpha_ == search.alphas_[0]
    assert 0 < search.landscape_[0] - search.landscape_[1] < 1e-4 * abs(search.landscape_[0])
