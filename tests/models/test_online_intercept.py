"""Constants that no regularisation shrinks, while data come and go."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Ridge

from dyadlearn import OnlineTwoStepRidge, TwoStepRidge
from dyadlearn.exceptions import LeverageError
from sweeps import lines, over
from telling import taken


def travelled(model, X, Y, T):
    """Return a model that has learnt and forgotten much, and knows all rows and tasks but the first two of each."""
    model.fit(X[:9], Y[:9, :4], T[:4]).partial_fit(X[9:], Y[9:, :4])
    model.partial_fit_tasks(T[4:], chunks=[(X[:10], Y[:10, 4:]), (X[10:], Y[10:, 4:])])
    return model.forget(X[:2], Y[:2]).forget_tasks([0, 1])


@over(
    lines(
        "offset level alphas",
        (1e4, 0.0, (1e-3, 1e-3)),
        (1e6, 0.0, (1e-3, 1e-3)),
        (0.0, 1.0, (0.3, 0.7)),
        (0.0, 1e6, (0.3, 0.7)),
    )
)
def test_offsets_of_features_and_labels_take_no_digits(data, offset, level, alphas):
    # Numbers that the offset does not round.
    X, Y, T = (np.round(part * 2**12) / 2**12 for part in data)
    near = travelled(OnlineTwoStepRidge(*alphas), X, Y, T)
    far = travelled(OnlineTwoStepRidge(*alphas), X + offset, Y + level, T - offset)
    assert_allclose(far.coef_, near.coef_, rtol=1e-9, atol=2e-15 * level)
    rounding = {"rtol": 0, "atol": 1e-11 + 2e-15 * level}
    found = far.predict(X + offset, T - offset) - level
    assert_allclose(found, near.predict(X, T), **rounding)
    labels = Y[2:, 2:]
    grid = {"alphas": [0.1, 10], "task_alphas": [0.2, 5]}
    for setting in "ABCD":
        found = far.holdout(X[2:] + offset, labels + level, setting) - level
        assert_allclose(
            found, near.holdout(X[2:], labels, setting), rtol=0, atol=1e-9 + 2e-15 * level
        )
        found = far.landscape(X[2:] + offset, labels + level, **grid, setting=setting)
        assert_allclose(found, near.landscape(X[2:], labels, **grid, setting=setting), rtol=1e-8)


def test_sparse_features_are_not_made_dense():
    rng = np.random.default_rng(0)
    # 10 MB as a dense matrix
    n = 4_000
    d = 300
    X = sparse.random_array((n, d), density=0.01, rng=rng, format="csr")
    Y = rng.normal(size=(n, 2)) + 5
    model = OnlineTwoStepRidge()

    def learn():
        model.fit(X, Y).partial_fit(X, Y).forget(X[:1000], Y[:1000]).predict(X)

    assert taken(learn) < 4e6
    rows = sparse.vstack([X, X[1000:]]).toarray()
    labels = np.vstack([Y, Y[1000:]])
    expected = Ridge(1.0).fit(rows, labels).predict(X.toarray())
    assert_allclose(model.predict(X), expected, rtol=1e-9)


def test_few_rows_and_few_tasks(data):
    X, Y, T = data
    model = OnlineTwoStepRidge().fit(X[:1], Y[:1, :1], T[:1])
    assert_allclose(model.predict(X, T), np.full(Y.shape, Y[0, 0]))
    with pytest.raises(LeverageError, match="^No label remains to learn from"):
        model.holdout(X[:1], Y[:1, :1])
    assert not model.forget(X[:1], Y[:1, :1]).predict(X).any()  # nothing is known
    model.partial_fit(X[4:9], Y[4:9, :1])
    wanted = TwoStepRidge().fit(X[4:9], Y[4:9, :1], T[:1])
    assert_allclose(model.predict(X), wanted.predict(X), rtol=1e-10)


def test_whether_there_is_an_intercept_is_decided_by_the_fit(data):
    X, Y, T = data
    for wrong in ("yes", None, 1):
        with pytest.raises(TypeError, match="fit_intercept must be True or False"):
            OnlineTwoStepRidge(fit_intercept=wrong).fit(X, Y)
    model = OnlineTwoStepRidge().fit(X, Y, T)
    known = model.predict(X)
    model.set_params(fit_intercept=False)
    for change, *given in ((model.partial_fit, X, Y), (model.forget, X, Y), (model.set_alpha, 2.0)):
        with pytest.raises(ValueError, match="was fitted with fit_intercept=True"):
            change(*given)
        assert_allclose(model.predict(X), known, rtol=0)
    wanted = TwoStepRidge(fit_intercept=False).fit(X, Y, T)
    assert_allclose(model.fit(X, Y, T).predict(X), wanted.predict(X), rtol=1e-10)
