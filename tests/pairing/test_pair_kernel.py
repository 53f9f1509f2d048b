"""Pair kernels with and without a free mean, against systems of all pairs written out."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import problems as grids
from dyadlearn import PairKernelRidge
from dyadlearn.diagnostics.best import best_columns
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Problem, holdout
from dyadlearn.holdout.refit import refit
from dyadlearn.pairing import PairKernel
from dyadlearn.pairing.constant import ConstantColumns, ones_of
from dyadlearn.spectrum import Spectrum
from sweeps import covering, every, lines, over

SHAPES = {"tall": (7, 4), "wide": (4, 6), "square": (5, 5)}
SHARES = [
    (1.0, 0.0, 0.0),
    (1.0, 0.4, 0.0),
    (0.7, 0.0, 0.5),
    (0.6, 0.3, 0.2),
    (0.0, 1.0, 0.5),
    (0.0, 1.0, 0.0),
]
KINDS = [
    ("full", "full"),
    ("singular", "full"),
    ("full", "singular"),
    ("primal", "full"),
    ("thin", "sparse"),
]
ALPHAS = [1e-3, 0.4, 1e3]
LETTERS = "ABCD"


def fits(kinds, shares):
    """Tell whether no side that must be complete is truncated."""
    truncated = [kind not in ("full", "singular") for kind in kinds]
    return not (truncated[0] and shares[2]) and not (truncated[1] and shares[1])


def has_place(kinds, free, constant):
    """Tell whether a free mean, if there is one, lies within what the sides keep."""
    return constant or not free or all(kind in ("full", "singular") for kind in kinds)


def sides(kinds, shape, seed=0, constant=True):
    """Return kernels of both sides with a constant feature, and their spectra."""
    rng = default_rng([seed, *shape])
    given = [grids.features(kind, n, rng) for kind, n in zip(kinds, shape, strict=True)]
    given = [np.column_stack([x, np.ones(len(x))]) if constant else x for x in given]
    return [x @ x.T for x in given], [
        grids.spectrum(kind, x) for kind, x in zip(kinds, given, strict=True)
    ]


def posed(kinds, shape, shares, free_mean, alpha, seed=0, constant=True):
    kernels, spectra = sides(kinds, shape, seed, constant)
    Y = default_rng(seed + 1).normal(size=shape) + 3.0
    return PairKernel(*spectra, alpha, shares, free_mean), kernels, Y


def mean_of(pairing, Y):
    """Return the unpenalised mean of the labels."""
    return replace(pairing).centred(Y)[1]


def solved(P, labels, alpha, free_mean):
    """Return dual parameters and mean of labels (n,)."""
    system = P + alpha * np.eye(labels.size)
    if free_mean:
        return grids.bordered(system, labels)
    return np.linalg.solve(system, labels), 0.0


def predicted(P, Y, seen, alpha, free_mean):
    """Return what the seen cells predict for all."""
    at = np.flatnonzero(seen)
    dual, mean = solved(P[np.ix_(at, at)], Y.ravel()[at], alpha, free_mean)
    return (P[:, at] @ dual + mean).reshape(Y.shape)


def groups_of(letter, shape):
    """Return unequal groups as arguments of hold-out; the wide shape has fewer groups of tasks."""
    m, q = shape
    if letter == "A":
        return {"cells": np.add.outer(np.arange(m), np.arange(q)) % 4}
    groups = {"groups": np.arange(m) ** 2 % 3} if letter in "BD" else {}
    return groups | ({"task_groups": np.arange(q) % (2 if q > m else 3)} if letter in "CD" else {})


def held_out(P, Y, letter, alpha, free_mean, units):
    """Return predictions for some cells, NaN for the others; labels may be missing."""
    m, q = Y.shape
    rows = units.get("groups", np.arange(m))
    columns = units.get("task_groups", np.arange(q))
    cells = units.get("cells", np.arange(m * q).reshape(m, q))
    result = np.full(Y.shape, np.nan)
    for i, j in np.argwhere(grids.some_cells(Y.shape)):
        row = (rows == rows[i])[:, None] & (letter in "BD")
        column = (columns == columns[j])[None, :] & (letter in "CD")
        hidden = cells == cells[i, j] if letter == "A" else row | column
        seen = ~hidden & ~np.isnan(Y)
        result[i, j] = predicted(P, Y, seen, alpha, free_mean)[i, j]
    return result


@over(
    covering(
        shape=SHAPES,
        kinds=KINDS,
        shares=SHARES,
        alpha=ALPHAS,
        letter=LETTERS,
        free=[True, False],
        constant=[True, False],
        grouped=[False, True],
        missing=["none missing", "50%", "rows and columns"],
        # Without a constant ones lie in the null space, in part or altogether.
        where=lambda kinds, shares, free, constant, **_: (
            fits(kinds, shares) and has_place(kinds, free, constant)
        ),
    )
)
def test_holdout(shape, kinds, shares, alpha, letter, free, constant, grouped, missing):
    pairing, kernels, Y = posed(kinds, shape, shares, free, alpha, constant=constant)
    observed = grids.pattern(missing, Y.shape, default_rng(5))
    Y = np.where(observed, Y, np.nan)
    units = groups_of(letter, shape) if grouped else {}
    expected = held_out(grids.pair_kernel(*kernels, *shares), Y, letter, alpha, free, units)
    some = grids.some_cells(shape)
    problem = Problem.of(pairing, Y, tol=1e-13)
    grids.close(holdout(problem, letter, **units)[some], expected[some], 1e-9)
    if observed.all():
        grids.close(refit(problem, letter, **units, where=some)[some], expected[some], 1e-9)


@over(
    covering(
        kinds=KINDS,
        shares=SHARES,
        free=[True, False],
        alpha=ALPHAS,
        constant=[True, False],
        where=lambda kinds, shares, free, constant, **_: (
            fits(kinds, shares) and has_place(kinds, free, constant)
        ),
    )
)
def test_dual_coefficients_and_the_mean(kinds, shares, free, alpha, constant):
    pairing, kernels, Y = posed(kinds, (6, 5), shares, free, alpha, constant=constant)
    P = grids.pair_kernel(*kernels, *shares)
    dual, mean = solved(P, Y.ravel(), alpha, free)
    grids.close(pairing.dual(Y), dual.reshape(Y.shape), 1e-10)
    assert_allclose(mean_of(pairing, Y), mean, rtol=1e-10)
    grids.close(pairing.hat(Y), (P @ dual + mean).reshape(Y.shape), 1e-10)


@over(
    covering(
        shares=SHARES[::2],
        kinds=KINDS,
        letter=LETTERS,
        free=[True, False],
        strength=1,
        where=lambda kinds, shares, **_: fits(kinds, shares),
    )
)
def test_without_regularisation_it_is_the_limit(shares, kinds, letter, free):
    pairing, _, Y = posed(kinds, (6, 5), shares, free, 0.0)
    nearly = replace(pairing, alpha=1e-9)
    assert_allclose(mean_of(pairing, Y), mean_of(nearly, Y), rtol=1e-5)
    grids.close(pairing.hat(Y), nearly.hat(Y), 1e-6)
    try:
        found = holdout(Problem.of(pairing, Y), letter)
    except LeverageError:
        # Whatever is left out is then interpolated: the limit depends on how it is come to.
        assert any(spectrum.is_singular for spectrum in pairing.spectra)
        return
    grids.close(found, holdout(Problem.of(nearly, Y), letter), 1e-4)
    some = grids.some_cells(Y.shape)
    grids.close(found[some], refit(Problem.of(pairing, Y), letter, where=some)[some], 1e-7)


@over(
    lines(
        "shares message",
        ((0.0, 0.0, 0.0), "one of them positive"),
        ((1.0, -0.1, 0.0), "at least 0"),
        ((1.0, np.nan, 0.0), "at least 0"),
        (
            (1.0, 0.0, 0.5),
            "each of the instances needs all directions of the instances, found 3 of 7",
        ),
    )
)
def test_shares_that_no_kernel_has(shares, message):
    _, spectra = sides(("thin", "full"), (7, 4))
    with pytest.raises(ValueError, match=message):
        PairKernel(*spectra, 1.0, shares)


def test_a_mean_that_nothing_determines():
    """With a kernel that reaches no constant, and nothing to regularise, only what the kernel leaves tells the mean."""
    pairing, _, Y = posed(("singular", "full"), (6, 5), (1.0, 0.0, 0.0), True, 0.0, constant=False)
    residual = pairing.spectrum.matrix((pairing.spectrum.values == 0).astype(float))
    weights = np.outer(residual.sum(axis=0), np.ones(5))
    assert_allclose(mean_of(pairing, Y), np.sum(weights * Y) / weights.sum(), rtol=1e-9)
    for letter in LETTERS:
        with pytest.raises(LeverageError, match="add a constant to both kernels"):
            holdout(Problem.of(pairing, Y), letter)
    # Of features that hold no constant, a part of the mean is left out.
    pairing, _, Y = posed(("thin", "full"), (6, 5), (1.0, 0.0, 0.0), True, 1.0, constant=False)
    with pytest.raises(ValueError, match="needs a constant feature on both sides"):
        pairing.coefficients(Y)
    for letter in LETTERS:
        with pytest.raises(ValueError, match="needs a constant feature on both sides"):
            holdout(Problem.of(pairing, Y), letter)


@over(every(letter="BCD", shares=[(1.0, 0.0, 0.0), (0.5, 0.3, 0.2)], alpha=[1e-3]))
def test_what_is_learnt_from_zeros_alone_is_zero(letter, shares, alpha):
    """Whatever the mean of all labels was before one row, column or both of them left."""
    rng = default_rng(8)
    features = rng.normal(size=(7, 9))
    task_features = rng.normal(size=(5, 6))
    spectra = [Spectrum.from_gram(side @ side.T + 1) for side in (features, task_features)]
    Y = np.zeros((7, 5))
    if letter in "BD":
        Y[2, :] = rng.uniform(0.1, 3.0, size=5)
    else:
        Y[:, 3] = rng.uniform(0.1, 3.0, size=7)
    found = holdout(Problem.of(PairKernel(*spectra, alpha, shares, free_mean=True), Y), letter)
    gone = found[2, :] if letter in "BD" else found[:, 3]
    assert_array_equal(gone, 0.0)
    assert np.abs(found).max() > 1e-3


def test_columns_without_ridge_are_determined_by_kernels_of_full_rank_only():
    X = default_rng(0).normal(size=(4, 6))
    for features, is_singular in ((X, False), (X[:, :2], True)):
        spectrum = Spectrum.from_gram(features @ features.T)
        ridges = np.array([[0.0, 0.0, 0.5]])
        columns = ConstantColumns.of(
            spectrum, ones_of(spectrum), np.array([2.0, 0.0, 0.0]), ridges, np.zeros(3)
        )
        assert_array_equal(columns.sign, [[0.0 if is_singular else 1.0, 0.0, 1.0]])


@over(every(level=[1.0, 0.04, 25.0]))
def test_the_projection_of_ones_keeps_its_digits(level):
    """Along directions that are nearly orthogonal to ones, where a product of eigenvectors and ones is rounding."""
    features = 1e-6 * (default_rng(0).normal(size=(9, 2)) + 0.1)
    with mpmath.workdps(60):
        exact = mpmath.matrix(np.column_stack([features, np.ones(9)]).tolist())
        exact[:, 2] *= mpmath.sqrt(mpmath.mpf(level))
        values, vectors = mpmath.eigsy(exact.T * exact)
        expected = [
            float(mpmath.sqrt(values[i]) * abs(vectors[2, i]) / mpmath.sqrt(level))
            for i in range(3)
        ]
    found = np.abs(ones_of(Spectrum.from_features(features, constant="feature", level=level)))
    assert 0 < min(expected) < 1e-5
    assert_allclose(np.sort(found), np.sort(expected), rtol=1e-10)


@over(every(side=[0, 1], product=[0.0, 0.7]))
def test_the_best_of_new_pairs_have_their_predictions(side, product):
    """Also where two new rows share no function, so that all have the mean."""
    rng = default_rng(5)
    X, tasks = rng.normal(size=(6, 3)), rng.normal(size=(5, 2))
    model = PairKernelRidge(0.5, product=product, per_task=1.0, per_instance=0.5)
    fitted = model.fit(X, rng.normal(size=(6, 5)) + 3.0, tasks).fitted_
    rows, others = (
        fitted.new_rows(new, axis)[1] for axis, new in enumerate((X + 1.0, tasks - 1.0))
    )
    expected = model.predict(X + 1.0, tasks - 1.0)
    expansion = fitted.expansion
    if side:
        rows, others, expansion, expected = others, rows, expansion.transposed, expected.T
    _, scores = best_columns(expansion, rows, others, 3)
    assert_allclose(scores, -np.sort(-expected, axis=1)[:, :3], rtol=1e-12)
