"""Known rows count as themselves: models with identity= against models of K + δI and G + εI written out."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import (
    KroneckerRidge,
    KroneckerRidgeCV,
    PairRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    load,
    save,
)
from sweeps import every, over

DELTA, EPSILON = SHARES = (0.7, 0.3)
KERNELS = {"kernel": "precomputed", "task_kernel": "precomputed", "tol": 1e-12}
RNG = np.random.default_rng(0)
M = 12
Q = 9
X = RNG.normal(size=(M + 3, 3))
T = RNG.normal(size=(Q + 2, 2))
K = X @ X.T
G = T @ T.T
Y = (
    X[:M] @ RNG.normal(size=(3, 2)) @ T[:Q].T
    + RNG.normal(size=(M, 1))
    + RNG.normal(size=(M, Q))
    + 5.0
)
HOLES = problems.with_holes(Y, 0.3)


def explicit(model, labels=Y):
    """Fit a model on kernels with the identities written out."""
    kernel, task_kernel = (
        each[:n, :n] + share * np.eye(n) for each, n, share in ((K, M, DELTA), (G, Q, EPSILON))
    )
    return model.set_params(**KERNELS).fit(kernel, labels, task_kernel)


def test_long_tables_know_their_rows_by_id(tmp_path):
    """In predictions, lists and model files."""
    users = [f"u{i}" for i in range(M + 3)]
    items = [f"i{j}" for j in range(Q + 2)]
    tables = pd.DataFrame(X, users), pd.DataFrame(T, items)
    at = np.argwhere(~np.isnan(HOLES))
    pairs = [(users[i], items[j]) for i, j in at]
    for grid in (TwoStepRidge(0.5, identity=SHARES), KroneckerRidge(0.5, identity=SHARES)):
        model = PairRegressor(grid, instances=tables[0], tasks=tables[1]).fit(
            pairs, HOLES[tuple(at.T)]
        )
        expected = model.model_.predict()
        place = model.instance_ids_.index("u2"), model.task_ids_.index("i4")
        assert_allclose(model.predict([("u2", "i4")]), expected[place], rtol=1e-9)
        new = model.model_.predict(X[M : M + 1])[0, place[1]]
        asked = [("u12", "i4"), (model.instance_ids_[0], "i4")]
        assert_allclose(model.predict(asked), [new, expected[0, place[1]]], rtol=1e-9)
        save(model, tmp_path / "model.dyad")
        assert_array_equal(load(tmp_path / "model.dyad").predict(pairs), model.predict(pairs))


@over(every(letter="ABCD"))
@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_searches_choose_alpha_for_a_fixed_identity(letter):
    alphas = [0.1, 1.0, 10.0]
    two = TwoStepRidgeCV(alphas, alphas, setting=letter, identity=SHARES).fit(X[:M], Y, T[:Q])
    reference = explicit(TwoStepRidgeCV(alphas, alphas, setting=letter))
    assert_allclose(two.landscape_, reference.landscape_)
    kronecker = KroneckerRidgeCV(alphas, setting=letter, identity=SHARES).fit(X[:M], Y, T[:Q])
    one = KroneckerRidge(kronecker.alpha_, identity=SHARES).fit(X[:M], Y, T[:Q])
    assert_allclose(kronecker.holdout_, one.holdout(letter), rtol=1e-9)


def test_wrong_identities_are_refused():
    for kind in (KroneckerRidge, TwoStepRidge):
        changed = kind().fit(X[:M], Y, T[:Q]).set_params(identity=1.0)
        with pytest.raises(ValueError, match="all directions"):
            changed.set_alpha(2.0)
    with pytest.raises(ValueError, match=r"A network has one kernel: .* found \(1.0, 2.0\)"):
        TwoStepRidge(symmetry="symmetric", identity=(1, 2)).fit(X[:M], K[:M, :M])
