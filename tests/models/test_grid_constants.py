"""Weights of main effects: models with constants= against models of the kernels K + a and G + b written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import problems
from dyadlearn import (
    KroneckerRidge,
    KroneckerRidgeCV,
    PairKernelRidge,
    PairKernelRidgeCV,
    landscape,
    load,
    permutation_test,
    save,
)
from dyadlearn.models import decomposing
from dyadlearn.models.side import fit_side
from dyadlearn.settings import as_setting
from sweeps import covering, every, lines, over

# Where constants are looked at, the best regularisation may stand anywhere.
pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

RNG = np.random.default_rng(0)
M = 9
Q = 7
NEW = 2
X = RNG.normal(size=(M + NEW, 3)) + 1.0
T = RNG.normal(size=(Q + NEW, 2)) - 0.5
WIDE = RNG.normal(size=(M + NEW, 15)) + 1.0
MAIN = 2.0 * X[:M] @ RNG.normal(size=(3, 1))
Y = X[:M] @ RNG.normal(size=(3, 2)) @ T[:Q].T + MAIN + RNG.normal(size=(M, Q)) + 5.0
HOLES = problems.with_holes(Y, 0.4)
PAIRS = [(0.3, 4.0), (5.0, 0.2), (0.0, 2.0), (1.5, 0.0)]
ALPHAS = [0.1, 3.0, 100.0]
TIGHT = {"tol": 1e-12}


def blocks(side, rows, n, kernel):
    """Return what multiplies the coefficients of a side, for all rows, and the map of dual coefficients to them."""
    if side.is_primal and side.directions is None:
        return rows, rows[:n].T
    distances = ((rows[:, None] - rows[None, :n]) ** 2).sum(axis=2)
    return rows @ rows[:n].T if kernel == "linear" else np.exp(-distances / rows.shape[1]), np.eye(
        n
    )


@over(
    every(
        pair=PAIRS,
        kernel=["linear", "rbf"],
        rows={"narrow": X, "wide": WIDE, "sparse": sparse.csr_array(X)},
    )
)
def test_coefficients_give_the_predictions(pair, kernel, rows):
    """By the documented formula, of features in the primal and of kernel values in the dual."""
    model = KroneckerRidge(0.5, constants=pair, kernel=kernel).fit(rows[:M], Y, T[:Q])
    side, task_side = model.fitted_.sides
    assert side.is_primal == (pair[0] > 0 and kernel == "linear")
    assert task_side.is_primal == (pair[1] > 0)
    dense = rows.toarray() if sparse.issparse(rows) else rows
    left, to_left = blocks(side, dense, M, kernel)
    right, to_right = blocks(task_side, T, Q, "linear")
    middle = to_left @ model.dual_coef_ @ to_right.T
    predictions = (
        left @ middle @ right.T + (left @ model.instance_coef_)[:, None] + right @ model.task_coef_
    )
    assert_allclose(predictions + model.intercept_, model.predict(rows, T), rtol=1e-8)
    in_primal = left is dense and right is T
    assert hasattr(model, "coef_") == in_primal
    if in_primal:
        assert_allclose(model.coef_, middle, rtol=1e-8)


# --- the search ----------------------------------------------------------------------------------------------------

TRIED = [0.2, (0.0, 2.0), (10.0, 0.2)]
AS_PAIRS = [(0.2, 0.2), (0.0, 2.0), (10.0, 0.2)]


@over(
    covering(
        letter="ABCD",
        rows={"narrow": X, "wide": WIDE},
        labels={"complete": Y, "missing": HOLES},
        alphas=[ALPHAS[:2], None],
        kind=[KroneckerRidge, PairKernelRidge],
        strength=1,
    )
)
def test_a_search_is_a_loop_over_fits(letter, rows, labels, alphas, kind):
    options = {"cv": 3} if labels is HOLES else {}
    shares = {"shares": [(1.0, 0.5, 0.0)]} if kind is PairKernelRidge else {}
    own = {"per_task": 0.5} if shares else {}
    Search = PairKernelRidgeCV if shares else KroneckerRidgeCV
    search = Search(
        alphas, constants=TRIED, setting=letter, exhaustive=True, **shares, **options, **TIGHT
    )
    search.fit(rows[:M], labels, T[:Q])
    scores = []
    for pair in AS_PAIRS:
        model = kind(1.0, constants=pair, **own, **TIGHT).fit(rows[:M], labels, T[:Q])
        scores.append(landscape(model, letter, alphas=alphas, **options)[letter])
    expected = np.array(scores)
    assert_allclose(search.landscape_.reshape(expected.shape), expected, rtol=1e-5)
    assert search.landscape_.ndim == (3 if shares else 2)
    best = np.unravel_index(np.argmax(expected), expected.shape)
    assert search.constants_ == AS_PAIRS[best[0]]
    one = kind(search.alpha_, constants=search.constants_, **own, **TIGHT).fit(
        rows[:M], labels, T[:Q]
    )
    assert_allclose(search.predict(rows, T), one.predict(rows, T), rtol=1e-6)
    if labels is Y:
        assert_allclose(search.holdout_, one.holdout(letter), rtol=1e-8)


def test_each_kernel_is_decomposed_once_for_each_constant(monkeypatch):
    found = []

    def counting(table, spec, name, kernel):
        found.append((name, spec.level))
        return fit_side(table, spec, name, kernel)

    monkeypatch.setattr(decomposing, "fit_side", counting)
    KroneckerRidgeCV(ALPHAS, constants=[1.0, (1.0, 2.0), (3.0, 2.0)]).fit(X[:M], Y, T[:Q])
    assert found == [("instance", 1.0), ("instance", 3.0), ("task", 1.0), ("task", 2.0)]


def test_without_tasks_or_an_intercept_there_are_no_constants():
    search = KroneckerRidgeCV(ALPHAS, constants=[1.0, 2.0]).fit(X[:M], Y)
    plain = KroneckerRidgeCV(ALPHAS).fit(X[:M], Y)
    assert search.constants_ is None
    assert_array_equal(search.landscape_, plain.landscape_)
    assert_array_equal(
        KroneckerRidge(constants=3.0).fit(X[:M], Y).coef_, KroneckerRidge().fit(X[:M], Y).coef_
    )
    assert KroneckerRidgeCV(ALPHAS, fit_intercept=False).fit(X[:M], Y, T[:Q]).constants_ is None


@over(
    lines(
        "rows form",
        (WIDE, "linear"),
        (sparse.csr_array(X), "rbf"),
        (WIDE, "precomputed"),
    )
)
def test_searches_are_repeated_on_other_labels(rows, form, tmp_path):
    """The sides that were not chosen are made again, also those of a model that was loaded."""
    options = {"kernel": form, "task_kernel": "linear"}
    dense = rows.toarray() if sparse.issparse(rows) else rows
    given = dense[:M] @ dense[:M].T if form == "precomputed" else rows[:M]
    tried = [0.2, (2.0, 1.0), (10.0, 0.2)] + [(0.0, 2.0)] * (form != "linear")
    search = KroneckerRidgeCV(ALPHAS, constants=tried, setting="B", **options).fit(given, Y, T[:Q])
    search.set_params(constants=[7.0])  # for the next fit
    again = search.fitted_.refitter(as_setting("B"))(search.fitted_.labels)
    assert_allclose(again.choice.landscape, search.landscape_)
    assert again.choice.constants == search.constants_
    search.set_params(constants=tried)
    save(search, tmp_path / "model.dyad")
    loaded = load(tmp_path / "model.dyad")
    assert loaded.constants_ == search.constants_
    assert_array_equal(loaded.landscape_, search.landscape_)
    found = permutation_test(loaded, "B", n_permutations=3)
    assert_allclose(found.score, search.best_score_)


# --- refusals ------------------------------------------------------------------------------------------------------

REFUSED = lines(
    "given error message",
    (-1.0, ValueError, r"^constants must be a finite number of at least 0, found -1.0\.$"),
    ((1.0, np.nan), ValueError, r"^constants must be a finite number of at least 0, found nan\.$"),
    (np.inf, ValueError, r"^constants must be a finite number of at least 0, found inf\.$"),
    (
        (1, 2, 3),
        ValueError,
        r"^constants must be one number, or two for instances and tasks, found \(1, 2, 3\)\.$",
    ),
    (None, TypeError, r"^constants must be a number of at least 0, found None\.$"),
)


@over(REFUSED)
def test_wrong_constants_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        PairKernelRidge(constants=given).fit(X[:M], Y, T[:Q])


REFUSED_BY_SEARCHES = lines(
    "given error message",
    (
        [1.0, -1.0],
        ValueError,
        r"^each of constants must be a finite number of at least 0, found -1.0\.$",
    ),
    (
        [(1, 2, 3)],
        ValueError,
        r"^each of constants must be one number, or two .*, found \(1, 2, 3\)\.$",
    ),
    ([], ValueError, r"^constants is empty: give at least one number or pair of numbers\.$"),
    ("much", TypeError, r"^constants must be a number of at least 0, found 'much'\.$"),
    (
        iter([1.0]),
        TypeError,
        r"^constants is an iterator, which can be read only once: give a sequence",
    ),
)


@over(REFUSED_BY_SEARCHES)
def test_searches_refuse_wrong_constants(given, error, message):
    with pytest.raises(error, match=message):
        PairKernelRidgeCV(ALPHAS, constants=given).fit(X[:M], Y, T[:Q])


@over(
    lines(
        "kind given",
        (KroneckerRidge, 2.0),
        (KroneckerRidge, (1.0, 0.0)),
        (PairKernelRidge, 0.0),
        (KroneckerRidgeCV, [1.0, 2.0]),
        (PairKernelRidgeCV, [(1.0, 3.0)]),
    )
)
def test_constants_need_an_intercept(kind, given):
    message = r"^constants=.* are weights of main effects, which fit_intercept=False leaves out: set fit_intercept"
    with pytest.raises(ValueError, match=message):
        kind(constants=given, fit_intercept=False).fit(X[:M], Y, T[:Q])
    kind(constants=1.0, fit_intercept=False).fit(X[:M], Y, T[:Q])
