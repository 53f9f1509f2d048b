"""VanRaden's relationship: allele frequencies of the training rows, wherever the kernel is used."""

from itertools import product

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse

from dyadlearn import (
    KroneckerRidge,
    Landmarks,
    LearnedKernelRidge,
    MultiwayRidge,
    TwoStepRidge,
    load,
    save,
)
from dyadlearn.exceptions import KernelError, MarkerCodingWarning, MissingCallWarning
from dyadlearn.kernels import Product, Sum, gram, gram_diagonal

RNG = default_rng(0)
FREQUENCIES = RNG.uniform(0.1, 0.9, size=40)
M = RNG.binomial(2, FREQUENCIES, size=(12, 40)).astype(float)
M_NEW = RNG.binomial(2, 0.5, size=(5, 40)).astype(float)
T = RNG.normal(size=(6, 3))
T_NEW = RNG.normal(size=(4, 3))
Y = RNG.normal(size=(12, 6))


def by_formula(A, B, training):
    p = training.mean(axis=0) / 2
    return (A - 2 * p) @ (B - 2 * p).T / (2 * (p * (1 - p)).sum())


def test_frequencies_are_those_of_the_columns():
    assert_allclose(gram(M, kernel="vanraden"), by_formula(M, M, M), atol=1e-13)
    assert_allclose(gram(M_NEW, M, kernel="vanraden"), by_formula(M_NEW, M, M), atol=1e-13)
    given = {"frequencies": M.mean(axis=0) / 2}
    assert_allclose(
        gram(M_NEW, kernel="vanraden", kernel_params=given), by_formula(M_NEW, M_NEW, M), atol=1e-13
    )
    found = gram(sparse.csr_array(M_NEW), sparse.csr_array(M), kernel="vanraden")
    assert_allclose(found, by_formula(M_NEW, M, M), atol=1e-13)


def test_the_diagonal_is_that_of_all_rows():
    many = RNG.binomial(2, FREQUENCIES, size=(300, 40))  # more rows than a block of the diagonal
    assert_allclose(
        gram_diagonal(many, kernel="vanraden"), np.diag(by_formula(many, many, many)), rtol=1e-12
    )


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_models_predict_with_the_frequencies_of_training(fit_intercept):
    same = {"task_kernel": "rbf", "fit_intercept": fit_intercept}
    for Model in (TwoStepRidge, KroneckerRidge):
        model = Model(0.7, kernel="vanraden", **same).fit(M, Y, T)
        other = Model(0.7, kernel="precomputed", **same).fit(by_formula(M, M, M), Y, T)
        K_new = by_formula(M_NEW, M, M)
        assert_allclose(
            model.predict(M_NEW, T_NEW),
            other.predict(K_new, T_NEW),
            rtol=1e-9,
            atol=1e-12,
        )
        for setting in "ABCD":
            assert_allclose(model.holdout(setting), other.holdout(setting), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_deviation_of_a_new_row_uses_the_frequencies_of_training(fit_intercept):
    same = {"kernel": "vanraden", "task_kernel": "rbf", "fit_intercept": fit_intercept}
    model = KroneckerRidge(0.7, **same).fit(M, Y, T)
    given = {"frequencies": M.mean(axis=0) / 2}
    other = KroneckerRidge(0.7, **same, kernel_params=given).fit(M, Y, T)
    expected = other.predict(M_NEW, T_NEW, return_std=True)[1]
    # One row alone would have other frequencies.
    for rows in (slice(5), slice(1)):
        found = model.predict(M_NEW[rows], T_NEW, return_std=True)[1]
        assert_allclose(found, expected[rows], rtol=1e-9)


def test_landmarks_use_the_frequencies_of_all_rows():
    landmarks = Landmarks(40, kernel="vanraden", random_state=0).fit(M)
    found = landmarks.transform(M_NEW) @ landmarks.transform(M).T
    assert_allclose(found, by_formula(M_NEW, M, M), atol=1e-10)
    few = Landmarks(4, kernel="vanraden", random_state=0).fit(M)
    at = few.component_indices_
    features = few.transform(M)[at]
    assert_allclose(features @ features.T, by_formula(M[at], M[at], M), atol=1e-10)


def test_learned_kernels_use_the_frequencies_of_training():
    tables = {"markers": M, "size": RNG.normal(size=(12, 2))}
    new = {"markers": M_NEW, "size": RNG.normal(size=(5, 2))}
    kernels = {"markers": "vanraden", "size": "rbf"}
    model = LearnedKernelRidge(kernel=kernels, setting="B", random_state=0, max_iter=3)
    predicted = model.fit(tables, Y, T).predict(new)
    # A row alone is predicted as among others.
    alone = model.predict({name: table[:1] for name, table in new.items()})
    assert_allclose(alone, predicted[:1], rtol=1e-9)


def test_what_is_no_count_of_an_allele_is_refused():
    with pytest.raises(
        KernelError, match=r"counts of an allele, 0 to 2 \(add 1 .*found numbers from -1 to 1\."
    ):
        gram(M - 1, kernel="vanraden")
    with pytest.raises(KernelError, match="found numbers from 0 to 4"):
        TwoStepRidge(kernel="vanraden").fit(2 * M, Y)
    for coded in (M_NEW - 1, sparse.csr_array(M_NEW - 1)):
        with pytest.raises(KernelError, match="found numbers from -1 to 1"):
            TwoStepRidge(kernel="vanraden").fit(M, Y).predict(coded)
    with pytest.raises(KernelError, match="needs a marker with both alleles"):
        gram(np.full((3, 2), 2.0), kernel="vanraden")
    for wrong in (1.5, [0.5, 0.5], np.full(40, np.nan)):
        with pytest.raises(
            KernelError, match="must be 0 to 1, one for each of 40 markers, found shape"
        ):
            gram(M, kernel="vanraden", kernel_params={"frequencies": wrong})
    for Combined in (Sum, Product):
        with pytest.raises(
            KernelError, match=r"in a sum or product needs its parameters: give \('vanraden', "
        ):
            Combined(("rbf", "vanraden"))
    combined = Sum((("vanraden", {"frequencies": M.mean(axis=0) / 2}), "delta"))
    assert_allclose(combined(M_NEW, M), by_formula(M_NEW, M, M), atol=1e-13)


def test_markers_of_presence_are_reported(each):
    """Inbred lines have 0 or 2 alleles; coded 0 and 1, their relationship has another scale."""
    inbred = (M > 1).astype(float)
    uses = [
        lambda markers: gram(markers, kernel="vanraden"),
        lambda markers: TwoStepRidge(kernel="vanraden").fit(markers, Y),
        lambda markers: Landmarks(4, kernel="vanraden", random_state=0).fit(markers),
    ]
    for use, form in each(
        product(uses, (np.asarray, sparse.csr_array, lambda markers: markers.astype(int)))
    ):
        with pytest.warns(
            MarkerCodingWarning,
            match=r"are 0 or 1, but it takes counts 0, 1 and 2 .*, pass 2 \* M\.$",
        ):
            use(form(inbred))
        use(form(2 * inbred))
    model = TwoStepRidge(kernel="vanraden").fit(M, Y)
    model.predict(inbred)  # new lines may be such
    imputed = inbred * 0.9
    gram(imputed, kernel="vanraden")
    gram(M, kernel="vanraden")


def with_gaps(markers, share, seed):
    """Return markers with missing calls, and the same with the means of the markers of training in their place."""
    missing = default_rng(seed).random(markers.shape) < share
    gaps = np.where(missing, np.nan, markers)
    return gaps, int(missing.sum())


GAPS, N_GAPS = with_gaps(M, 0.1, 1)
GAPS_NEW, N_GAPS_NEW = with_gaps(M_NEW, 0.2, 2)
# The means of the calls of training, also for new lines.
MEANS = np.nanmean(GAPS, axis=0)
FILLED = np.where(np.isnan(GAPS), MEANS, GAPS)
FILLED_NEW = np.where(np.isnan(GAPS_NEW), MEANS, GAPS_NEW)


def test_missing_calls_are_the_mean_of_training(each):
    """Their number is told, of the rows that the kernel is computed for."""
    told = {"match": rf"^{N_GAPS} of 480 calls .*\(9.6 %\) are missing"}
    for form in each((np.asarray, sparse.csr_array)):
        with pytest.warns(MissingCallWarning, **told):
            found = gram(form(GAPS), kernel="vanraden")
        assert_allclose(found, by_formula(FILLED, FILLED, FILLED), atol=1e-13)
        with pytest.warns(MissingCallWarning, match=f"^{N_GAPS_NEW} of 200 calls"):
            found = gram(form(GAPS_NEW), form(GAPS), kernel="vanraden")
        assert_allclose(found, by_formula(FILLED_NEW, FILLED, FILLED), atol=1e-13)
    # The calls of training were counted when the model was fitted.
    assert_allclose(
        gram(M_NEW, GAPS, kernel="vanraden"), by_formula(M_NEW, FILLED, FILLED), atol=1e-13
    )
    single = GAPS.astype(np.float32)
    with pytest.warns(MissingCallWarning, **told):
        assert gram(single, kernel="vanraden").dtype == np.float32
    empty = GAPS.copy()
    empty[:, 3] = np.nan
    with pytest.warns(MissingCallWarning):
        found = gram(empty, kernel="vanraden")
    rest = np.delete(FILLED, 3, axis=1)
    assert_allclose(found, by_formula(rest, rest, rest), atol=1e-13)


def test_models_take_missing_calls(each, tmp_path):
    for Model in each((TwoStepRidge, KroneckerRidge)):
        filled = Model(0.7, kernel="vanraden").fit(FILLED, Y, T)
        with pytest.warns(MissingCallWarning, match=f"^{N_GAPS} of 480 calls"):
            model = Model(0.7, kernel="vanraden").fit(GAPS, Y, T)
        assert_allclose(model.predict(M_NEW), filled.predict(M_NEW), rtol=1e-9, atol=1e-12)
        assert_allclose(model.holdout("B"), filled.holdout("B"), rtol=1e-9, atol=1e-12)
        save(model, tmp_path / "model.dyad")
        for each_model in (model, load(tmp_path / "model.dyad")):
            with pytest.warns(MissingCallWarning, match=f"^{N_GAPS_NEW} of 200 calls"):
                found = each_model.predict(GAPS_NEW)
            assert_allclose(found, filled.predict(FILLED_NEW), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="contains NaN"):
        KroneckerRidge(kernel="rbf").fit(GAPS, Y, T)
    with pytest.raises(KernelError, match="write NaN for missing calls.*found numbers from 0 to 9"):
        gram(np.where(np.isnan(GAPS), 9, GAPS), kernel="vanraden")


def test_the_task_side_and_cells_take_missing_calls():
    filled = KroneckerRidge(0.7, task_kernel="vanraden").fit(T, Y.T, FILLED)
    with pytest.warns(MissingCallWarning):
        model = KroneckerRidge(0.7, task_kernel="vanraden").fit(T, Y.T, GAPS)
    assert_allclose(model.predict(tasks=M_NEW), filled.predict(tasks=M_NEW), rtol=1e-9, atol=1e-12)
    table = {"line": np.repeat(np.arange(12), 6)}
    given = {"kernels": {"line": "vanraden"}, "variances": {"line": 1.0}}
    filled = MultiwayRidge("line", entities={"line": FILLED}, **given).fit(table, Y.ravel())
    with pytest.warns(MissingCallWarning):
        model = MultiwayRidge("line", entities={"line": GAPS}, **given).fit(table, Y.ravel())
    with pytest.warns(MissingCallWarning):
        found = model.predict(table)
    assert_allclose(found, filled.predict(table), rtol=1e-9, atol=1e-12)
