"""groups="similar:0.6" keeps similar rows together, by the kernel of the model, in every hold-out."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import Ridge

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    PairKernelRidge,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    better_of,
    evaluate,
    landscape,
    nested_score,
    verify_holdout,
)
from dyadlearn.kernels import gram, similar_groups
from dyadlearn.kernels.similarity import Similarity
from sweeps import covering, lines, over

ALPHAS = np.logspace(-3, 3, 3)
MODELS = {
    "two-step": TwoStepRidge,
    "kronecker": KroneckerRidge,
    "pair": PairKernelRidge,
    "independent": IndependentTaskRidge,
}


def grid(X):
    rng = default_rng(1)
    T = rng.normal(size=(5, 2))
    dense = X.toarray() if sparse.issparse(X) else X
    return dense @ rng.normal(size=(dense.shape[1], 2)) @ T.T + rng.normal(size=(len(dense), 5)), T


def features(form):
    rng = default_rng(0)
    if form == "tall":
        return rng.normal(size=(14, 3)) + 2.0
    if form == "wide":
        return rng.normal(size=(14, 30)) + 1.0
    if form == "sparse":
        return sparse.csr_array(rng.poisson(0.7, size=(14, 6)) + np.eye(14, 6))
    if form == "wide sparse":
        return sparse.csr_array(rng.poisson(0.5, size=(14, 40)) + np.eye(14, 40))
    return (rng.random((14, 20)) < 0.4).astype(float)


def fitted(kind, form, kernel, intercept):
    X = features(form)
    Y, T = grid(X)
    model = MODELS[kind](kernel=kernel, fit_intercept=intercept)
    given = gram(X, kernel="rbf") if kernel == "precomputed" else X
    return model.fit(given, Y, T), X


@over(
    covering(
        kind=list(MODELS),
        form=["tall", "wide", "sparse", "wide sparse"],
        kernel=["linear", "rbf", "precomputed"],
        intercept=[True, False],
    )
)
def test_a_fitted_model_knows_the_similarities_of_its_rows(kind, form, kernel, intercept):
    model, X = fitted(kind, form, kernel, intercept)
    everything = np.arange(14)
    S = model.fitted_.similarity(0).rows(everything)
    word = "rbf" if kernel == "precomputed" else kernel
    assert_allclose(S, Similarity.of_table(X, word).rows(everything), atol=1e-10)


def test_of_tasks_and_of_other_models():
    X = features("tall")
    Y, T = grid(X)
    expected = Similarity.of_table(T).rows(np.arange(5))
    assert_allclose(TwoStepRidge().fit(X, Y, T).fitted_.similarity(1).rows(np.arange(5)), expected)
    steps = TwoStepRegressor(Ridge(), Ridge()).fit(X, Y, T)
    assert_allclose(steps.fitted_.similarity(1).rows(np.arange(5)), expected)
    assert IndependentTaskRidge().fit(X, Y).fitted_.similarity(1) is None


def test_every_hold_out_leaves_similar_rows_out_together():
    X = features("bits")
    Y, T = grid(X)
    codes = similar_groups(X, 0.5, kernel="tanimoto")
    task_codes = similar_groups(T, 0.9)
    assert 1 < codes.max() + 1 < 14
    assert 1 < task_codes.max() + 1 < 5
    words = {"groups": "similar:0.5", "task_groups": "similar:0.9"}
    arrays = {"groups": codes, "task_groups": task_codes}
    model = TwoStepRidge(kernel="tanimoto").fit(X, Y, T)
    for setting, names in (("B", ["groups"]), ("C", ["task_groups"]), ("D", list(words))):
        one = model.holdout(setting, **{name: words[name] for name in names})
        other = model.holdout(setting, **{name: arrays[name] for name in names})
        assert_array_equal(one, other)
    assert evaluate(model, "BCD", **words) == evaluate(model, "BCD", **arrays)
    assert verify_holdout(model, "D", **words) < 1e-10
    one = landscape(model, "B", groups="similar:0.5")
    other = landscape(model, "B", groups=codes)
    for name, values in one.items():
        assert_array_equal(values, other[name])


def validated(search):
    """Return a function of groups: the held-out predictions of a search of two descriptions or one."""

    def held_out(X, Y, T, groups):
        return search.fit(X, Y, T, groups=groups).fitted_.validation.predictions

    return held_out


TWO_STEP = TwoStepRidgeCV(ALPHAS, kernel="tanimoto", setting="B")
KRONECKER = KroneckerRidgeCV(ALPHAS, kernel="tanimoto", setting="B")
LEARNED = LearnedKernelRidge(kernel="tanimoto", setting="B", n_steps=1, random_state=0)


@pytest.mark.filterwarnings("ignore:.*edge of the grid")
@over(
    lines(
        "found",
        validated(TWO_STEP),
        validated(KRONECKER),
        validated(LEARNED),
        lambda X, Y, T, groups: (
            nested_score(TWO_STEP, X, Y, T, cv=3, groups=groups, random_state=0).predictions
        ),
        lambda X, Y, T, groups: list(
            better_of({"a": TWO_STEP, "b": KRONECKER}, X, Y, T, groups=groups).scores.values()
        ),
    )
)
def test_searches_nested_scores_and_choices(found):
    X = features("bits")
    Y, T = grid(X)
    codes = similar_groups(X, 0.5, kernel="tanimoto")
    assert_array_equal(found(X, Y, T, "similar:0.5"), found(X, Y, T, codes))


def test_errors():
    X = features("tall") + 10.0
    Y, T = grid(X)
    model = TwoStepRidge().fit(X, Y, T)
    with pytest.raises(ValueError, match=r"All 14 instances are one group, .*similar:0\.8"):
        evaluate(model, "B", groups="similar")
    with pytest.raises(ValueError, match="'identical' or 'similar:0.6' for features, found 'same'"):
        evaluate(model, "B", groups="same")
    with pytest.raises(ValueError, match="groups takes a similarity above 0"):
        evaluate(model, "B", groups="similar:2")
    alone = IndependentTaskRidge().fit(X, Y)
    with pytest.raises(ValueError, match="task_groups must be one label per row"):
        evaluate(alone, "A", task_groups="similar")
