"""The Gaussian processes of complete labels, and of missing or weighted ones, against the same written out."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import _memory
from dyadlearn.exceptions import NotEnoughMemoryError, PrecisionWarning
from dyadlearn.pairing import PairKernel
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.process import Process
from dyadlearn.spectrum import Spectrum
from problems import KINDS
from process_case import DUAL, FORMS, N_NEW, SHARES, case, may_be
from sweeps import covering, every, over

PRODUCT = SHARES[0]
NAMES = ["alpha", "product", "per_task", "per_instance", "scale"]
ANY = {
    "shares": SHARES[1::2] + SHARES[:1],
    "free_mean": [False, True],
    "beyond": [True, False],
    "where": lambda side, task_side, shares, **_: may_be((side, task_side), shares),
}
#: The closed form of complete labels, and the process of observed labels.
CLOSED = covering(
    closed=[True],
    form=["all"],
    shape=[(6, 4), (4, 6)],
    side=[*KINDS, "spanning"],
    task_side=["full", "singular", "thin"],
    alpha=[1e-8, 1e-2, 1e8],
    **ANY,
)
OBSERVED = covering(
    closed=[False],
    form=FORMS,
    shape=[(6, 5)],
    side=["full", "singular", "thin"],
    task_side=["full", "thin"],
    alpha=[1e-3, 0.3, 1e4],
    **ANY,
)
BOTH = [{"kinds": (row.pop("side"), row.pop("task_side")), **row} for row in CLOSED + OBSERVED]


def process_of(spectra, alpha, shares=PRODUCT, free_mean=False):
    return Process(PairKernel(*spectra, alpha, shares, free_mean))


# --- variances -------------------------------------------------------------------------------------------------


@over(BOTH)
def test_variances(closed, form, shape, kinds, shares, free_mean, alpha, beyond):
    problem = case(kinds, alpha, shares, free_mean, form, shape=shape, beyond=beyond)
    process = problem.process(closed)
    top = np.linalg.norm(problem.kernel().astype(float), 2)
    for setting, expected in problem.grids().items():
        found = process.variance(**problem.asked(setting))
        assert (found >= 0).all()
        if not closed:
            assert_allclose(found, expected, rtol=1e-9, atol=problem.rounding, err_msg=setting)
            continue
        # A sum of positive terms has all its digits; a difference those that are left beside the
        # prior variance.
        asked = [k for k, settings in zip(kinds, ("BD", "CD"), strict=True) if setting in settings]
        loses = any(kind in DUAL for kind in asked)
        atol = 3e-16 * (10 + (top / alpha) ** 0.5) * problem.prior if loses else 0.0
        # Elimination loses as many digits as the noise is smaller than the kernel, also in extended
        # precision.
        rtol = 1e-12 + 2e-20 * top / alpha
        assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=setting)


@over(BOTH[::3])
def test_covariances(closed, form, shape, kinds, shares, free_mean, alpha, beyond):
    if alpha < 1e-3:
        return  # a difference beside the prior covariance has no digit left
    problem = case(kinds, alpha, shares, free_mean, form, shape=shape, beyond=beyond)
    asked = problem.asked("B")
    known = np.array([3, 0])
    m, q = shape
    diagonal = asked.get("diagonal")
    for place in range(N_NEW[0]):
        pairs = (m + place) * len(problem.sides[1]) + np.arange(q)
        own = None if diagonal is None else diagonal[place : place + 1]
        row = asked["rows"].take(slice(place, place + 1))
        found = problem.process(closed).covariance(row, own, known)
        expected = problem.covariance(pairs, pairs[known])
        assert_allclose(found, expected, rtol=1e-9, atol=problem.rounding)


@over(
    covering(
        closed=[True, False],
        setting="ABCD",
        kinds=[("full", "full"), ("primal", "thin")],
        free_mean=[False, True],
    )
)
def test_blocks_of_rows_change_nothing(closed, setting, kinds, free_mean, monkeypatch):
    problem = case(kinds, 0.1, PRODUCT, free_mean, "all" if closed else "both")
    whole = problem.process(closed).variance(**problem.asked(setting))
    monkeypatch.setattr("dyadlearn._array.BLOCK", 1)
    sizes = []

    def counted(rows):
        sizes.append(rows.shape[0])
        return rows

    asked = problem.asked(setting)
    words = {"rows", "tasks"} & asked.keys()
    for word in words:
        asked[word] = NewRows(asked[word].values, counted, 0)
    assert_allclose(problem.process(closed).variance(**asked), whole, rtol=1e-10, atol=1e-14)
    if closed:  # each row is read once, and by itself
        assert sizes == [1] * sum(asked[word].size for word in words)


def test_a_grid_of_deviations_that_does_not_fit_is_refused(monkeypatch):
    problem = case(free_mean=False, form="all")
    process = problem.process(closed=True)
    many = NewRows(np.broadcast_to(np.zeros(6), (10**10, 6)), lambda rows: rows, 0)
    with pytest.raises(NotEnoughMemoryError, match="Deviations of 10000000000 × 5 labels"):
        process.variance(many, None, np.broadcast_to(np.ones(1), 10**10))
    monkeypatch.setattr(_memory, "available_memory", lambda like: 1000)
    with pytest.raises(NotEnoughMemoryError, match="Deviations of the labels of training"):
        problem.process(closed=True).variance()
    with pytest.raises(NotEnoughMemoryError, match="The likelihood of the labels of training"):
        process.log_likelihood(problem.values(closed=True))


def test_without_noise_training_is_certain_and_new_rows_are_not():
    problem = case(("full", "singular"), 0.0, PRODUCT, False, "all", beyond=True)
    process = problem.process(closed=True)
    assert_array_equal(process.variance(), np.zeros((6, 5)))
    nearly = replace(problem, alpha=1e-13).grids()
    for setting in "BCD":
        found = process.variance(**problem.asked(setting))
        assert_allclose(found, nearly[setting], rtol=1e-9, atol=1e-9)
        assert (nearly[setting] > 1e-3).all()


@over(covering(setting="BCD", dtype=["float64", "float32"]))
def test_what_is_negative_by_rounding_is_zero_and_by_more_is_told(setting, dtype):
    problem = case(alpha=1e-9, shares=PRODUCT, free_mean=False, form="all")
    for side, n in enumerate(problem.shape):
        problem.sides[side] = np.concatenate([problem.sides[side][:n]] * 2)
    asked = problem.asked(setting, dtype)
    process = problem.process(closed=True, dtype=dtype)
    assert (process.variance(**asked) >= 0).all()
    for word in {"diagonal", "task_diagonal"} & asked.keys():
        asked[word] = 0.5 * asked[word]
    with pytest.warns(
        PrecisionWarning,
        match=r"The variance of \d+ of \d+ pairs is negative by more than rounding",
    ):
        assert (process.variance(**asked) >= 0).all()


def test_a_side_of_zeros_leaves_everything_unknown():
    """Nothing is learnt of a function that is known to be zero on the training grid."""
    spectra = Spectrum.from_features(np.zeros((4, 2))), Spectrum.from_gram(np.diag([1.0, 2.0, 3.0]))
    process = process_of(spectra, 0.5)
    assert_array_equal(process.variance(), np.zeros((4, 3)))
    rows = NewRows(np.array([[3.0, 4.0]]), lambda rows: rows, 0)
    assert_allclose(process.variance(rows), 25.0 * np.array([[1.0, 2.0, 3.0]]), rtol=1e-12)
    tasks = NewRows(np.zeros((1, 3)), lambda rows: rows, 0)
    assert_allclose(process.variance(rows, tasks, None, np.array([7.0])), [[175.0]], rtol=1e-12)


def test_a_free_mean_needs_a_constant_on_each_side():
    spectra = [Spectrum.from_features(rows) for rows in (np.eye(5, 2), np.eye(4, 2))]
    with pytest.raises(ValueError, match="needs a constant feature on both sides"):
        process_of(spectra, 1.0, free_mean=True).variance()


# --- likelihood ------------------------------------------------------------------------------------------------

ASKED = [*product((False, True), (None, 1.3))]


@over(BOTH)
def test_likelihoods(closed, form, shape, kinds, shares, free_mean, alpha, beyond):
    problem = case(kinds, alpha, shares, free_mean, form, shape=shape, beyond=beyond)
    process = problem.process(closed)
    y = problem.values(closed)
    for restricted, scale in ASKED:
        found, _ = process.log_likelihood(y, restricted=restricted, scale=scale)
        expected, exact_scale = problem.likelihood(restricted, scale)
        assert_allclose(found, expected, rtol=1e-8)
        if restricted and scale is None:
            assert_allclose(process.scale(y), exact_scale, rtol=1e-8)


@over(BOTH[1::9])
def test_gradients_are_those_of_finite_differences(
    closed, form, shape, kinds, shares, free_mean, alpha, beyond
):
    problem = case(kinds, alpha, shares, free_mean, form, shape=shape, beyond=beyond)
    start = np.array([alpha, *shares, 1.3])
    for restricted, scale in ASKED:

        def value(logarithms, restricted=restricted, scale=scale):
            alpha, *shares, given = start * np.exp(logarithms)
            there = replace(problem, alpha=alpha, shares=tuple(shares))
            return there.likelihood(restricted, None if scale is None else given)[0]

        expected = [(value(step) - value(-step)) / 2e-4 for step in 1e-4 * np.eye(5)]
        process = problem.process(closed)
        _, gradient = process.log_likelihood(
            problem.values(closed), restricted=restricted, scale=scale
        )
        slopes = list(gradient.values())
        assert list(gradient) == (NAMES[:4] if scale is None else NAMES)
        size = max(1.0, np.abs(expected).max())
        assert_allclose(slopes, expected[: len(slopes)], rtol=1e-6, atol=1e-6 * size)
        if scale is None:  # a factor of everything is the scale, which is chosen already
            assert abs(sum(slopes)) < 1e-8 * size


def test_likelihoods_in_every_library_and_precision(library):
    rtol = 1e-4 if library.dtype == "float32" else 1e-10
    problem = case(("full", "singular"), 0.2, SHARES[3], True, "all", shape=(7, 5))
    process = problem.process(True, library.dtype, library.asarray)
    exact = problem.process(True)
    Y = problem.values(closed=True)
    labels = library.asarray(Y)
    found, gradient = process.log_likelihood(labels)
    expected, slopes = exact.log_likelihood(Y)
    assert_allclose(found, expected, rtol=rtol)
    assert_allclose(list(gradient.values()), list(slopes.values()), rtol=30 * rtol, atol=rtol)
    assert_allclose(process.scale(labels), exact.scale(Y), rtol=rtol)


@over(covering(closed=[True, False], unit=[1e-200, 1e150], offset=[0.0, 1e6]))
def test_labels_in_other_units_are_the_same_labels(closed, unit, offset):
    problem = case(("full", "primal"), 0.3, PRODUCT, True, "all" if closed else "both")
    process = problem.process(closed)
    y = problem.values(closed)
    value, gradient = process.log_likelihood(y)
    changed = unit * (y + offset)
    found, same = process.log_likelihood(changed)
    rtol = 1e-9 if offset else 1e-12
    assert_allclose(process.scale(changed), unit * process.scale(y), rtol=rtol)
    assert_allclose(found, value - (y.size - 1) * np.log(unit), rtol=rtol)
    assert_allclose(list(same.values()), list(gradient.values()), rtol=10 * rtol, atol=rtol)


@over(every(closed=[True, False]))
def test_labels_that_have_no_scale_are_refused(closed):
    form = "all" if closed else "both"
    problem = case(form=form)
    if closed:
        one = case(form=form, shape=(1, 1))
    else:
        one = replace(problem, labels=problem.labels.take(np.array([2])))
    with pytest.raises(ValueError, match="One label and an unpenalised mean do not determine"):
        one.process(closed).scale(one.values(closed))
    constant = np.full(problem.values(closed).shape, 3.0)
    process = problem.process(closed)
    assert process.scale(constant) == 0.0
    with pytest.raises(ValueError, match="the most likely scale is 0: pass scale="):
        process.log_likelihood(constant)
    value, gradient = process.log_likelihood(constant, scale=2.0)
    assert np.isfinite(value)
    assert gradient["scale"] == 1.0 - constant.size


@over(every(closed=[True, False]))
def test_without_noise_a_regular_kernel_has_a_likelihood_and_a_singular_one_has_none(closed):
    form = "all" if closed else "both"
    problem = case(alpha=0.0, shares=PRODUCT, free_mean=False, form=form)
    found = problem.process(closed).log_likelihood(problem.values(closed))[0]
    assert_allclose(found, problem.likelihood(True, None)[0], rtol=1e-9)
    cases = [case(kinds, 0.0, PRODUCT, False, "all") for kinds in SINGULAR]
    if not closed:
        cases = [case(kinds, 0.0, PRODUCT, False, "weighted") for kinds in SINGULAR]
        # Of these, rounding leaves a Cholesky factor.
        cases += [case(("full", "thin"), 0.0, PRODUCT, False, "few", seed=s) for s in range(12)]
        cases = [each for each in cases if is_singular(each)]
    for problem in cases:
        process = problem.process(closed)
        for ask in (process.scale, process.log_likelihood):
            with pytest.raises(
                ValueError, match="With alpha = 0 and a singular kernel.* use alpha"
            ):
                ask(problem.values(closed))


SINGULAR = [("full", "singular"), ("primal", "full"), ("thin", "thin")]


def is_singular(problem):
    return np.linalg.matrix_rank(problem.kernel().astype(float)) < problem.labels.size
