"""Coefficients with a side folded in or left out predict the same."""

from __future__ import annotations

import numpy as np
from dyadlearn.solvers.folding import Folded, Unfolded
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from dyadlearn.filters import IteratedTikhonov, SpectralCutoff, Tikhonov
from dyadlearn.solvers import two_step_coefficients
from dyadlearn.spectrum import Spectrum
from sweeps import covering, over

rng = np.random.default_rng(0)
X, X_NEW, T, T_NEW = (rng.normal(size=(n, d)) for n, d in ((9, 3), (2, 3), (7, 4), (5, 4)))
Y = rng.normal(size=(9, 7))
# What a side is decomposed from, and its rows: kernels that are singular, features dense and sparse.
FORMS = {
    "dual": lambda rows, other: (Spectrum.from_gram(rows @ rows.T), other @ rows.T),
    "primal": lambda rows, other: (Spectrum.from_features(rows), other),
    "sparse": lambda rows, other: (Spectrum.from_features(csr_array(rows)), csr_array(other)),
}


def ridge(rows, other, alpha):
    return other @ rows.T @ np.linalg.inv(rows @ rows.T + alpha * np.eye(len(rows)))


@over(
    covering(
        form=list(FORMS), task_form=list(FORMS), folded=[(True, True), (True, False), (False, True), (False, False)]
    )
)
def test_predictions_do_not_depend_on_what_is_folded(form, task_form, folded):
    (spectrum, rows), (task_spectrum, task_rows) = FORMS[form](X, X_NEW), FORMS[task_form](T, T_NEW)
    sides = [(spectrum, Tikhonov(), 0.3), (task_spectrum, Tikhonov(), 0.1)]
    values = two_step_coefficients(spectrum, task_spectrum, Y, Tikhonov(), 0.3, Tikhonov(), 0.1, folded)
    part, task_part = (Folded(side[0]) if whole else Unfolded(*side) for side, whole in zip(sides, folded, strict=True))
    assert values.shape == (part.size, task_part.size)
    half = part.rows(rows) @ values
    for given, expected in ((task_part.rows(task_rows), T_NEW), (None, T)):
        found = task_part.training(half) if given is None else (given @ half.T).T
        assert_allclose(found, ridge(X, X_NEW, 0.3) @ Y @ ridge(T, expected, 0.1).T, rtol=1e-9, atol=1e-12)


@over(covering(filter=[Tikhonov(), IteratedTikhonov(2), SpectralCutoff()], alpha=[0.0, 0.5], form=list(FORMS)))
def test_rows_of_training_come_from_the_shrinkage(form, alpha, filter):
    spectrum, rows = FORMS[form](X, X)
    side, product = Unfolded(spectrum, filter, alpha), rng.normal(size=(2, spectrum.values.shape[0]))
    assert_allclose(side.training(product), product @ side.rows(rows).T, rtol=1e-9, atol=1e-12)
    assert side.rows(rows).shape[1] == side.width
    assert not side.is_dual


def test_only_folded_regular_kernels_have_dual_parameters_for_coefficients():
    assert Folded(Spectrum.from_gram(X @ X.T + np.eye(9))).is_dual
    assert not Folded(Spectrum.from_gram(X @ X.T)).is_dual
    assert not Folded(Spectrum.from_features(X)).is_dual
