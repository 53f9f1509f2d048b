"""How much each training label weighs in a prediction, against fitting again on labels that are one larger."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from dyadlearn import IndependentTaskRidge, KroneckerRidge, PairKernelRidge, TwoStepRidge
from dyadlearn._array import to_numpy
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff
from dyadlearn.labels import Labels
from dyadlearn.pairing import expansion as weighing
from dyadlearn.pairing import pair_weights as systems
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.inverses import inverse_of, routes
from dyadlearn.pairing.remembering import last_inverse
from dyadlearn.pairing.weighing import label_weigher
from dyadlearn.solve import missing as completing
from dyadlearn.solve.columns import complete_columns, weigh_column
from problems import KINDS, RIDGE, features, holes, pattern, spectrum
from sweeps import covering, lines, over

MODELS = {
    "two-step": lambda alpha, constant: TwoStepRidge(alpha, 3 * alpha, fit_intercept=constant),
    "iterated": lambda alpha, constant: TwoStepRidge(
        alpha, 0.2, filter=IteratedTikhonov(3), task_filter=Landweber(), fit_intercept=constant
    ),
    "Kronecker": lambda alpha, constant: KroneckerRidge(alpha, fit_intercept=constant),
    "pair kernel": lambda alpha, constant: PairKernelRidge(
        alpha=alpha, product=0.7, per_task=0.5, per_instance=0.3, fit_intercept=constant
    ),
    "independent": lambda alpha, constant: IndependentTaskRidge(alpha, fit_intercept=constant),
}
ASKED = list(product(["known", "new"], repeat=2))
# As many labels are weighed by fitting again.
SOME = 2


def rows_of(kind, n, rng):
    """Return what a model is fitted on, one more row to ask about, and the kernel it is asked with."""
    width = {"primal": 2, "sparse": 3}.get(kind, n + 4)
    values = rng.normal(size=(n + 1, width)) / width**0.5
    if kind == "sparse":
        return sparse.csr_array(values[:n]), sparse.csr_array(values[n:]), "linear"
    if kind == "precomputed":
        kernel = values @ values.T
        return kernel[:n, :n], kernel[n:, :n], "precomputed"
    return values[:n], values[n:], "rbf" if kind == "rbf" else "linear"


def predicted(model, X, Y, T, asked, weights=None):
    """Fit and predict one pair; positions stand for rows of training."""
    model = clone(model).fit(X, Y, T, weights)
    new = [None if isinstance(each, int) else each for each in asked]
    F = to_numpy(model.predict(*new))
    F = F.reshape(len(F), -1)
    return float(F[tuple(each if isinstance(each, int) else 0 for each in asked)]), model


def unit_weights(model, X, Y, T, asked, cells, weights=None, sign=0):
    """Return what is predicted from labels of zero but for a single one, for some cells in turn."""
    found = np.zeros(Y.shape)
    for i, j in cells:
        labels = np.where(np.isnan(Y), np.nan, 0.0).astype(Y.dtype)
        if i == j and sign < 0:
            continue
        labels[i, j] = 1.0
        if sign and i != j:
            labels[j, i] = sign
        found[i, j] = predicted(model, X, labels, T, asked, weights)[0] / (
            2 if sign and i != j else 1
        )
    return found


def placed(asked, *new):
    """Return the position of a row of training on each side that is known, and new rows for others."""
    rows = zip(asked, (1, 3), new, strict=True)
    return [place if each == "known" else row for each, place, row in rows]


def asked_rows(model, asked):
    """Return positions as they are, and other rows as the pairing takes them."""
    reads = zip(asked, (model.fitted_.rows, model.fitted_.columns), strict=True)
    return [each if isinstance(each, int) else read(each)[1] for each, read in reads]


def found_weights(model, asked):
    """Return the weights, and what they make of the labels."""
    problem = model.fitted_.training_problem
    found = to_numpy(
        label_weigher(problem.pairing, problem.labels).weights(*asked_rows(model, asked))
    )
    return found, float(np.nansum(found * to_numpy(problem.Y)))


def check(model, X, Y, T, asked, weights=None, *, sign=0, rtol):
    prediction, fitted = predicted(model, X, Y, T, asked, weights)
    found, total = found_weights(fitted, asked)
    # The sum below has all labels in it; by itself each of a few is fitted again.
    cells = default_rng(Y.size).permutation(np.argwhere(~np.isnan(Y)))[:SOME]
    slow = unit_weights(model, X, Y, T, asked, cells, weights, sign)
    size = max(1.0, float(np.abs(slow).max()))
    assert found.dtype == Y.dtype
    assert not found[np.isnan(Y)].any()
    at = tuple(cells.T)
    assert_allclose(found[at], slow[at], rtol=0, atol=rtol * size)
    assert_allclose(total, prediction, rtol=0, atol=rtol * size * float(np.nansum(np.abs(Y))))
    return found


def by_one_system(monkeypatch, name):
    """Let pair kernels weigh labels by this system only."""
    monkeypatch.setattr(systems, "_grid_work", lambda *_: np.inf)
    monkeypatch.setattr(systems, "crossed_work", lambda *_: np.inf)
    monkeypatch.setattr(
        systems, "routes", lambda *given: [each for each in routes(*given) if each.name == name]
    )


@over(
    covering(
        name={name: MODELS[name] for name in ("Kronecker", "pair kernel")},
        system=["cells", "features"],
        sides=["primal", "rbf", "precomputed"],
        constant=[False, True],
        asked=ASKED,
        weighted=[False, True],
        alpha=[1e-2, 1e6],
        # Functions of single rows need as many features as rows, and kernels of full rank too.
        where=lambda name, system, sides, **_: (
            system == "cells" or (sides == "primal" and name is MODELS["Kronecker"])
        ),
    )
)
def test_one_system_of_the_observed_pairs(
    name, system, sides, constant, asked, weighted, alpha, monkeypatch
):
    """The weights are those by the operators of the grid, for labels of a grid and of a list."""
    rng = default_rng(7)
    m, q = (5, 4) if system == "cells" else (12, 9)
    (X, new, kernel), (T, new_task, task_kernel) = (rows_of(sides, n, rng) for n in (m, q))
    model = name(alpha, constant).set_params(kernel=kernel, task_kernel=task_kernel, tol=1e-13)
    Y = np.where(pattern("50%", (m, q), rng), rng.normal(size=(m, q)) + 2.0, np.nan)
    Y[3], Y[:, 0] = np.nan, np.nan  # an instance and a task without labels
    weights = rng.uniform(0.2, 5.0, size=Y.shape) if weighted else None
    problem = model.fit(X, Y, T, weights).fitted_.training_problem
    for place in (1, 3):
        known = zip(asked, (new, new_task), strict=True)
        places = asked_rows(model, [place if each == "known" else row for each, row in known])
        expected = label_weigher(problem.pairing, problem.labels).weights(*places)
        with monkeypatch.context() as patch:
            by_one_system(patch, system)
            found = label_weigher(problem.pairing, problem.labels).weights(*places)
            listed = label_weigher(problem.pairing, problem.labels.listed()).weights(*places)
        close = {"rtol": 0, "atol": 1e-9 * np.abs(expected).max()}
        assert_allclose(found, expected, **close)
        assert_allclose(listed, expected[~np.isnan(Y)], **close)
        if constant:
            assert_allclose(found.sum(), 1.0, rtol=1e-9)


@over(
    covering(
        name={name: MODELS[name] for name in ("two-step", "Kronecker", "pair kernel")},
        inverse=["cells", "missing", "features"],
        constant=[False, True],
        asked=ASKED,
        alpha=[1e-2, 1e6],
        strength=1,
        where=lambda name, inverse, **_: (
            inverse == "missing"
            or name is MODELS["Kronecker"]
            or (inverse == "cells" and name is not MODELS["two-step"])
        ),
    )
)
def test_the_inverse_of_a_holdout_weighs_labels(name, inverse, constant, asked, alpha):
    rng = default_rng(8)
    (X, new, _), (T, new_task, _) = (rows_of("primal", n, rng) for n in (12, 9))
    Y = rng.normal(size=(12, 9)) + 2.0
    Y[[1, 1, 5, 11], [3, 4, 0, 8]] = np.nan
    model = name(alpha, constant).fit(X, Y, T)
    problem = model.fitted_.training_problem
    places = asked_rows(model, placed(asked, new, new_task))
    expected = label_weigher(problem.pairing, problem.labels).weights(*places)
    last_inverse.of(
        problem, inverse, lambda: inverse_of(problem.pairing, problem.labels, inverse), 0.0, Y
    )
    with_inverse = label_weigher(problem.pairing, problem.labels, problem=problem)
    assert with_inverse.numbers == 0.0
    assert_allclose(
        with_inverse.weights(*places), expected, rtol=0, atol=1e-10 * np.abs(expected).max()
    )


@over(
    covering(
        name=MODELS,
        sides=[
            ("primal", "primal"),
            ("dual", "sparse"),
            ("sparse", "dual"),
            ("rbf", "precomputed"),
        ],
        constant=[False, True],
        asked=ASKED,
        labels=["complete", "holes", "block"],
        alpha=[1e-10, 1.0, 1e10],
        # New tasks are nothing to independent ones. Beside a null space λ = 1e-10 leaves a refit
        # few digits too, where labels are missing or rows are known by themselves.
        where=lambda name, sides, constant, asked, labels, alpha: (
            not (name is MODELS["independent"] and asked[1] == "new")
            and not (name is MODELS["iterated"] and alpha < 1e-3 and labels != "complete")
            # A task without labels has no constant.
            and not (name is MODELS["independent"] and constant and labels == "holes")
            and (
                alpha > 1e-3
                or sides == ("rbf", "precomputed")
                or (labels == "complete" and name is not MODELS["pair kernel"])
            )
        ),
    )
)
def test_a_label_weighs_what_a_refit_says(name, sides, constant, asked, labels, alpha):
    rng = default_rng(0)
    m = 5
    q = 4
    (X, new, kernel), (T, new_task, task_kernel) = (
        rows_of(kind, n, rng) for kind, n in zip(sides, (m, q), strict=True)
    )
    model = name(alpha, constant).set_params(kernel=kernel)
    if "task_kernel" in model.get_params():
        model.set_params(task_kernel=task_kernel)
    Y = rng.normal(size=(m, q)) + 2.0
    if labels == "holes":
        Y[~pattern("50%", (m, q), rng)] = np.nan
    if labels == "block":
        Y[:2, :3] = np.nan
    found = check(model, X, Y, T, placed(asked, new, new_task), rtol=1e-9)
    if constant:
        assert_allclose(found.sum(), 1.0, rtol=1e-9)


@over(
    covering(
        word=["symmetric", "antisymmetric"],
        sides=["primal", "dual", "precomputed"],
        constant=[False, True],
        asked=ASKED,
        missing=[False, True],
        alpha=[1e-6, 1e10],
    )
)
def test_an_edge_weighs_in_both_directions(word, sides, constant, asked, missing, alpha):
    rng = default_rng(2)
    n = 5
    sign = 1 if word == "symmetric" else -1
    X, new, kernel = rows_of(sides, n, rng)
    Y = rng.normal(size=(n, n))
    Y = Y + sign * Y.T
    if missing:
        Y[[0, 3, 1, 4], [3, 0, 4, 1]] = np.nan
    places = placed(asked, new, new)
    made = TwoStepRidge(alpha, alpha, fit_intercept=constant, symmetry=word, kernel=kernel)
    found = check(made, X, Y, None, places, sign=sign, rtol=1e-9)
    assert_allclose(found, sign * found.T, rtol=0, atol=1e-14)


@over(
    lines(
        "model alpha",
        (TwoStepRidge(0.0, 0.0), 0.0),
        (KroneckerRidge(0.0, fit_intercept=False), 0.0),
        (KroneckerRidge(0.0), 0.0),
        (PairKernelRidge(alpha=0.0, per_task=0.5), 0.0),
        (IndependentTaskRidge(0.0), 0.0),
        (
            TwoStepRidge(
                0.8, 0.5, filter=SpectralCutoff(), task_filter=SpectralCutoff(), fit_intercept=False
            ),
            0.8,
        ),
    )
)
def test_interpolation(model, alpha):
    rng = default_rng(3)
    (X, new, _), (T, new_task, _) = (rows_of("dual", n, rng) for n in (4, 3))
    asked = (1, 2), (1, new_task), (new, 2), (new, new_task)
    # Both kinds of grids for each place, with or without a constant.
    turned = getattr(model, "fit_intercept", True)
    for missing, places in zip(
        ("none missing", "5%")[:: 1 if turned else -1] * 2, asked, strict=True
    ):
        if isinstance(model, IndependentTaskRidge) and not isinstance(places[1], int):
            continue
        Y = np.where(pattern(missing, (4, 3), rng), rng.normal(size=(4, 3)), np.nan)
        check(model, X, Y, T, places, rtol=1e-8)


def test_one_dimension_and_no_side_of_tasks():
    rng = default_rng(4)
    X, new, _ = rows_of("primal", 6, rng)
    y = rng.normal(size=6)
    for model, asked in product((TwoStepRidge(0.3), IndependentTaskRidge(0.3)), (2, new)):
        found = check(model, X, y[:, None], None, (asked, 0), rtol=1e-12)
        vector = clone(model).fit(X, y)
        assert_allclose(found_weights(vector, (asked, 0))[0], found)
        problem = vector.fitted_.training_problem
        weigher = label_weigher(problem.pairing, problem.labels)
        with pytest.raises(ValueError, match="use the id of a training task"):
            weigher.weights(0, NewRows(new, lambda part: part, 0))


@over(
    covering(
        name=MODELS,
        constant=[False, True],
        asked=ASKED[::3],
        missing=["none missing", "50%"],
        strength=1,
        where=lambda name, asked, **_: not (name is MODELS["independent"] and asked[1] == "new"),
    )
)
def test_libraries_and_precisions(name, constant, asked, missing, library):
    rng = default_rng(5)
    (X, new, _), (T, new_task, _) = (rows_of("primal", n, rng) for n in (6, 5))
    Y = np.where(pattern(missing, (6, 5), rng), rng.normal(size=(6, 5)), np.nan)
    places = placed(asked, new, new_task)
    expected, _ = found_weights(name(0.5, constant).fit(X, Y, T), places)
    put = library.asarray
    model = name(0.5, constant).fit(put(X), put(Y), put(T))
    found, _ = found_weights(
        model, [place if isinstance(place, int) else put(place) for place in places]
    )
    assert_allclose(found, expected, rtol=0, atol=library.rtol)


def test_a_solver_that_stops_short_says_so(monkeypatch):
    problem = holes("two-step", (9, 6), "50%")
    monkeypatch.setattr(
        weighing, "solve_missing", partial(completing.solve_missing, max_direct=0, rank=0)
    )
    with pytest.warns(
        ConvergenceWarning, match="^Conjugate gradients stopped on the weights of labels after"
    ):
        label_weigher(problem.operators, Labels.of_grid(problem.Y), max_iter=1).weights(2, 3)


@over(
    covering(
        kind=KINDS,
        constant=[None, "free"],
        missing=["5%", "50%", "none missing"],
        weighted=[False, True],
        alpha=[1e-6, 1.0],
    )
)
def test_a_column_is_weighed_as_it_is_completed(kind, constant, missing, weighted, alpha):
    rng = default_rng(6)
    n = 8
    side = spectrum(kind, features(kind, n, rng), constant=constant).smoother(RIDGE, alpha)
    observed = pattern(missing, (n, 1), rng)[:, 0]
    asked = rng.normal(size=n)
    weights = rng.uniform(0.3, 3.0, size=n) if weighted else None
    found = weigh_column(
        side, side.smooth(asked[:, None])[:, 0], np.where(observed, 0.0, np.nan), weights
    )
    for i in range(n):
        labels = np.where(observed, 0.0, np.nan)[:, None]
        labels[i] = 1.0 if observed[i] else np.nan
        completed = complete_columns(side, labels, None if weights is None else weights[:, None])
        expected = asked @ side.smooth(completed)[:, 0] if observed[i] else 0.0
        assert_allclose(found[i], expected, rtol=0, atol=1e-9)
