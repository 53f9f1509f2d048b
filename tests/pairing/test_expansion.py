"""Coefficients with a side absorbed or left out predict the same."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from dyadlearn import IndependentTaskRidge
from dyadlearn.filters import IteratedTikhonov, SpectralCutoff, Tikhonov
from dyadlearn.pairing import TwoStep, expansion
from dyadlearn.pairing.expansion import NewRows, Part
from dyadlearn.spectrum import Spectrum
from sweeps import covering, over

rng = np.random.default_rng(0)
X, X_NEW, T, T_NEW = (rng.normal(size=(n, d)) for n, d in ((9, 3), (2, 3), (7, 4), (5, 4)))
Y = rng.normal(size=(9, 7))
# What a side is decomposed from, and its rows: kernels that are singular, features dense and
# sparse.
FORMS = {
    "dual": lambda rows, other: (Spectrum.from_gram(rows @ rows.T), other @ rows.T),
    "primal": lambda rows, other: (Spectrum.from_features(rows), other),
    "sparse": lambda rows, other: (Spectrum.from_features(csr_array(rows)), csr_array(other)),
}


def two_step(form, task_form, others, other_tasks):
    """Return a model, and other rows of both sides in the forms of its own."""
    spectrum, rows = form(X, others)
    task_spectrum, task_rows = task_form(T, other_tasks)
    sides = (spectrum.smoother(Tikhonov(), 0.3), task_spectrum.smoother(Tikhonov(), 0.1))
    return TwoStep(*sides), rows, task_rows


def ridge(rows, other, alpha):
    return other @ rows.T @ np.linalg.inv(rows @ rows.T + alpha * np.eye(len(rows)))


@over(
    covering(
        form=FORMS,
        task_form=FORMS,
        absorbed=[(True, True), (True, False), (False, True), (False, False)],
    )
)
def test_predictions_do_not_depend_on_what_is_folded(monkeypatch, form, task_form, absorbed):
    monkeypatch.setattr(TwoStep, "_absorbed", absorbed)
    model, rows, task_rows = two_step(form, task_form, X_NEW, T_NEW)
    values = model.coefficients(Y)
    part = model.expansion(values).instances
    task_part = model.expansion(values).tasks
    assert [each.side is None for each in (part, task_part)] == list(absorbed)
    assert values.shape == (part.size, task_part.size)
    half = part.rows(rows) @ values
    for given, expected in ((task_part.rows(task_rows), T_NEW), (None, T)):
        found = task_part.training(half) if given is None else (given @ half.T).T
        assert_allclose(
            found, ridge(X, X_NEW, 0.3) @ Y @ ridge(T, expected, 0.1).T, rtol=1e-9, atol=1e-12
        )


@over(
    covering(
        filter=[Tikhonov(), IteratedTikhonov(2), SpectralCutoff()],
        alpha=[0.0, 0.5],
        form=FORMS,
    )
)
def test_rows_of_training_come_from_the_shrinkage(form, alpha, filter):
    spectrum, rows = form(X, X)
    smoother = spectrum.smoother(filter, alpha)
    side = Part(smoother.spectrum, smoother)
    product = rng.normal(size=(2, spectrum.values.shape[0]))
    assert_allclose(side.training(product), product @ side.rows(rows).T, rtol=1e-9, atol=1e-12)
    assert side.rows(rows).shape[1] == side.width
    assert not side.is_dual


@over(
    covering(
        form=FORMS,
        task_form=FORMS,
        absorbed=[(True, True), (True, False), (False, True)],
    )
)
def test_pairs_of_training_need_no_grid(monkeypatch, form, task_form, absorbed):
    monkeypatch.setattr(TwoStep, "_absorbed", absorbed)
    model, *given = two_step(form, task_form, X, T)
    made = model.expansion(model.coefficients(Y))
    pairs = (np.array([8, 0, 3, 3]), np.array([0, 6, 2, 2]))
    given = [NewRows(each, lambda block: block, 0) for each in given]
    expected = (ridge(X, X, 0.3) @ Y @ ridge(T, T, 0.1).T)[pairs]
    for spares in (False, True):
        monkeypatch.setattr(expansion, "SMALL_GRID", -1 if spares else 10**9)
        if spares:  # as where features are fewer
            monkeypatch.setattr(
                expansion.Expansion,
                "_spares_grid",
                property(lambda self: None not in (self.instances, self.tasks)),
            )
            monkeypatch.setattr(expansion.Expansion, "fitted", None)
        for asked in ((None, None), (given[0], None), (None, given[1]), tuple(given)):
            assert_allclose(made.at(*asked, pairs), expected, rtol=1e-9, atol=1e-12)


def test_coefficients_are_dual_only_where_they_are_those_of_kernels():
    """Features may be as many as rows, so that no part of the kernel is left out."""
    rows, labels = X[:3], Y[:3]
    K = rows @ rows.T
    for kernel, given in (("linear", rows), ("precomputed", K)):
        model = IndependentTaskRidge(0.5, kernel=kernel, fit_intercept=False).fit(given, labels)
        assert (model.fitted_.expansion.dual is None) is (kernel == "linear")
        assert_allclose(model.dual_coef_, np.linalg.solve(K + 0.5 * np.eye(3), labels), rtol=1e-9)


def test_a_grid_is_spared_where_features_are_far_smaller(monkeypatch):
    monkeypatch.setattr(expansion, "SMALL_GRID", 0)
    for m, q, d, spares in ((9, 7, 1, True), (9, 7, 4, False), (9, 7, 9, False)):
        sides = [rng.normal(size=(n, d)) for n in (m, q)]
        spectra = [
            Spectrum.from_features(side) if d < len(side) else Spectrum.from_gram(side @ side.T)
            for side in sides
        ]
        model = TwoStep(*(each.smoother(Tikhonov(), 0.3) for each in spectra))
        assert model.expansion(model.coefficients(Y))._spares_grid is spares
    monkeypatch.setattr(expansion, "SMALL_GRID", 63)
    narrow = [Spectrum.from_features(side[:, :1]).smoother(Tikhonov(), 0.3) for side in (X, T)]
    assert not TwoStep(*narrow).expansion(TwoStep(*narrow).coefficients(Y))._spares_grid
