"""One clear sentence for every bad input, and nothing for good ones."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dyadlearn._checks import (
    check_alpha,
    check_choice,
    check_labels,
    check_matrix,
    check_same_library,
    check_whole,
)
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.kernels import chemistry
from dyadlearn.metrics import roc_auc, scorer
from dyadlearn.settings import Setting
from sweeps import every, over

MATRIX = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


# --- numbers and choices -----------------------------------------------------------------------


def check_repair(value, name):
    check_choice(value, name, ("clip", "shift"))


NUMBER = "a number of at least 0"
COUNT = "a whole number of at least 1"
REFUSED = {
    (check_alpha, TypeError, NUMBER): ["1", None, True, [1.0], 1j, np.array(1.0), np.bool_(True)],
    (check_whole, ValueError, COUNT): ["1", None, True, np.bool_(True), [1], 1.0, Fraction(1, 2)],
    (check_repair, ValueError, "one of 'clip', 'shift'"): ["Clip", "", None, 1, ["clip"]],
}


@over(
    every(value=[0, 1, 2.5, np.float32(2.5), np.int64(3), Fraction(1, 2), 1e-300], check=[float])
    + every(value=[1, 1000, np.int64(3), np.uint8(7)], check=[int])
)
def test_numbers_and_counts(value, check):
    found = check_alpha(value, "alpha") if check is float else check_whole(value, "max_iter")
    assert type(found) is check
    assert found == check(value)


def test_what_is_no_number_and_no_choice(each):
    for check, error, wanted in each(REFUSED):
        for value in each(REFUSED[check, error, wanted]):
            with pytest.raises(error) as caught:
                check(value, "given")
            assert str(caught.value) == f"given must be {wanted}, found {value!r}."


@over(every(value=[-1e-12, -1, math.nan, math.inf, -math.inf, np.float64("nan")]))
def test_numbers_out_of_range_are_a_value_error(value):
    with pytest.raises(
        ValueError, match=rf"^alpha must be a finite number of at least 0, found {float(value)}\.$"
    ):
        check_alpha(value, "alpha")


@over(every(value=[0, -1, np.int32(-7)]))
def test_nothing_is_no_count(value):
    with pytest.raises(ValueError, match=rf"^max_iter must be {COUNT}, found "):
        check_whole(value, "max_iter")


# --- matrices ----------------------------------------------------------------------------------


def test_a_good_matrix_stays_as_it_is(library):
    array = library.asarray(MATRIX)
    checked = check_matrix(array, "tasks")
    assert type(checked) is type(array)
    assert checked.dtype == array.dtype
    assert_array_equal(library.to_numpy(checked), MATRIX)


@over(every(given=[MATRIX.astype(int), MATRIX.tolist(), pd.DataFrame(MATRIX), MATRIX > 2]))
def test_other_numbers_become_double(given):
    checked = check_matrix(given, "tasks")
    assert checked.dtype == np.float64
    assert_array_equal(checked, np.asarray(given, dtype=float))


@over(every(bad=[np.nan, np.inf, -np.inf]))
def test_entries_must_be_finite(library, bad):
    with pytest.raises(ValueError, match=r"tasks contains (NaN|infinity)"):
        check_matrix(library.asarray(np.where(MATRIX == 4, bad, MATRIX)), "tasks")


def test_a_vector_is_no_matrix(library):
    with pytest.raises(ValueError, match="2D array|tasks must be a matrix, found 1 dimension"):
        check_matrix(library.asarray(MATRIX[0]), "tasks")


@over(every(shape=[(0, 2), (2, 0)]))
def test_a_matrix_must_not_be_empty(library, shape):
    with pytest.raises(ValueError, match="tasks") as caught:
        check_matrix(library.asarray(np.empty(shape)), "tasks")
    assert "empty" in str(caught.value)
    assert str(shape) in str(caught.value)


@over(every(text=[np.array([["a", "b"]]), np.array([["a", 1.0]], dtype=object), [["a", "b"]]]))
def test_text_is_refused_and_the_argument_named(text):
    with pytest.raises(ValueError, match="tasks"):
        check_matrix(text, "tasks")


def test_sparse_matrices_only_where_they_are_accepted():
    matrix = sparse.coo_array(MATRIX)
    checked = check_matrix(matrix, "tasks", accept_sparse=True)
    assert sparse.issparse(checked)
    assert checked.format == "csr"
    assert_array_equal(checked.toarray(), MATRIX)
    with pytest.raises(TypeError, match=r"[Ss]parse.*tasks"):
        check_matrix(matrix, "tasks")


# --- labels ------------------------------------------------------------------------------------


def test_labels_that_are_all_missing_are_refused(library):
    with pytest.raises(
        ValueError, match=r"^labels is NaN everywhere: no label is observed, so there is nothing to"
    ):
        check_labels(library.asarray(np.full((3, 2), np.nan)), "labels")


@over(every(bad=[np.inf, -np.inf], others=[0.0, np.nan]))
def test_infinite_labels_are_refused(library, bad, others):
    Y = library.asarray(np.where(MATRIX == 4, bad, MATRIX + others))
    with pytest.raises(ValueError, match=rf"Input labels contains infinity.*{library.dtype}"):
        check_labels(Y, "labels")


# --- libraries ---------------------------------------------------------------------------------


def test_different_libraries_are_named():
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(
        TypeError, match="one library, found X of numpy, Y of array_api_strict: convert"
    ):
        check_same_library({"X": MATRIX, "Y": strict.asarray(MATRIX), "tasks": None})


# --- names of release 0.1.0 --------------------------------------------------------------------


class OldFilter(SpectralFilter):
    """A filter as it was written for release 0.1.0."""

    @property
    def qualification(self):
        return 1

    def _phi(self, values, alpha):
        return 1.0 / (values + alpha)

    def _shrinkage(self, values, alpha):
        return values / (values + alpha)

    def _remainder(self, values, alpha):
        return alpha / (values + alpha)

    def vanishing_remainder(self, values):
        return 1.0 / values


OLD_NAMES = {
    "fingerprints": (
        lambda: chemistry.MorganFingerprints(radius=3).get_params(),
        chemistry.Fingerprints("morgan", radius=3).get_params(),
        "Fingerprints, whose first parameter is kind",
    ),
    "new_instance": (lambda: [s.new_instance for s in Setting], [False, True] * 2, "0 in"),
    "new_task": (lambda: [s.new_task for s in Setting], [False] * 2 + [True] * 2, "1 in"),
    "filter": (lambda: Tikhonov().vanishing_remainder(np.array([2.0]))[0], 0.5, "remainder_limit"),
    "own filter": (lambda: OldFilter().remainder_limit(np.array([2.0]))[0], 0.5, "the name"),
    "average": (
        lambda: roc_auc(MATRIX > 2, MATRIX, average="micro"),
        roc_auc(MATRIX > 2, MATRIX, average="pooled"),
        "average='pooled'",
    ),
    "scorer": (lambda: scorer("r2", average="micro").options["average"], "pooled", "pooled"),
}


def test_old_names_work_and_warn(each):
    for call, expected, instead in each(OLD_NAMES.values()):
        with pytest.warns(
            FutureWarning, match=f"will be removed in 0.4.0: use .*{instead}"
        ) as told:
            assert call() == expected
        assert told[0].filename == __file__
