"""Precisions and libraries of arrays that differ between inputs; what all models have in common is in the market."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import problems
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    TwoStepRidge,
    _svd,
    decomposing,
)
from sweeps import covering, every, over

M = 8
Q = 6
ALPHA = 0.7
X, Y, T = problems.data(M, Q, 3, 2, seed=1)
RNG = np.random.default_rng(2)
X_NEW = RNG.normal(size=(4, 3))
T_NEW = RNG.normal(size=(3, 2))
#: Training rows of both sides and new ones, for each kernel.
INPUTS = {
    "linear": (X, T, X_NEW, T_NEW),
    "rbf": (X, T, X_NEW, T_NEW),
    "precomputed": (X @ X.T, T @ T.T, X_NEW @ X.T, T_NEW @ T.T),
}


def two_step(kernel):
    return TwoStepRidge(ALPHA, 0.4, kernel=kernel, task_kernel=kernel)


@over(every(Model=[IndependentTaskRidge, KroneckerRidge, TwoStepRidge], kernel=list(INPUTS)))
def test_regularisation_changes_without_a_decomposition(library, Model, kernel, monkeypatch):
    rows, tasks, new, _ = map(library.asarray, INPUTS[kernel])
    options: dict[str, Any] = {"kernel": kernel}
    given: dict[str, Any] = {}
    if Model is not IndependentTaskRidge:
        options["task_kernel"] = kernel
        given["tasks"] = tasks
    labels = library.asarray(Y)
    expected = Model(ALPHA, **options).fit(rows, labels, **given).predict(new)
    model = Model(5.0, **options).fit(rows, labels, **given)

    def refuse(*args):
        raise AssertionError("a decomposition that is not needed")

    monkeypatch.setattr(decomposing, "eigh", refuse)
    monkeypatch.setattr(_svd, "svd", refuse)
    monkeypatch.setattr(_svd, "eigh", refuse)
    assert model.set_alpha(ALPHA) is model
    found = library.to_numpy(model.predict(new))
    assert_allclose(found, library.to_numpy(expected), rtol=library.rtol, atol=library.rtol)


# --- dtypes ------------------------------------------------------------------------------------


def float_types(name):
    """Return asarray and the two floating dtypes of a library."""
    xp = np if name == "numpy" else pytest.importorskip(name)
    return xp.asarray, xp.float32, xp.float64


@pytest.mark.parametrize("name", ["numpy", "array_api_strict", "torch"])
class TestDtypes:
    def test_the_widest_precision_decides(self, name):
        asarray, single, double = float_types(name)

        def dtype(x, y, t):
            rows = asarray(X, dtype=x)
            model = two_step("rbf").fit(rows, asarray(Y, dtype=y), asarray(T, dtype=t))
            return model.predict(rows).dtype

        assert dtype(single, single, single) == single
        assert dtype(single, double, single) == double
        assert dtype(single, single, double) == double
        assert dtype(double, single, single) == double

    def test_labels_keep_their_digits_beside_features_of_single_precision(self, name):
        asarray, single, double = float_types(name)
        X = asarray(np.eye(M), dtype=single)
        for fit_intercept, rtol in ((False, 1e-14), (True, 1e-13)):
            model = TwoStepRidge(0.0, kernel="precomputed", fit_intercept=fit_intercept).fit(
                X, asarray(Y)
            )
            assert_allclose(np.asarray(model.predict(X)), Y, rtol=rtol)
        assert OnlineTwoStepRidge().fit(X, asarray(Y)).coef_.dtype == double

    def test_whole_numbers_take_the_precision_of_the_rest(self, name):
        asarray, single, double = float_types(name)
        counts = asarray(np.arange(3 * M).reshape(M, 3) % 5)
        labels = asarray(Y > 0)
        T = asarray(np.eye(Q))
        for x, y, t, expected in (
            (counts, asarray(Y, dtype=single), asarray(T, dtype=single), single),
            (asarray(counts, dtype=single), labels, None, single),
            (counts, labels, asarray(T, dtype=single), single),
            (asarray(counts, dtype=single), labels, T, double),
        ):
            assert TwoStepRidge().fit(x, y, t).predict(x).dtype == expected
            assert OnlineTwoStepRidge().fit(x, y, t).coef_.dtype == expected


# --- mixtures ----------------------------------------------------------------------------------

FOREIGN = ["array_api_strict", "torch"]


def foreign(name):
    module = pytest.importorskip(name)
    return lambda values: module.asarray(np.asarray(values))


@over(
    covering(
        name=FOREIGN,
        kernel=["linear", "precomputed"],
        which=[(0, 0, 1), (0, 1, 0), (1, 0, 0)],
    )
)
def test_libraries_do_not_mix_in_fit(name, kernel, which):
    rows, tasks, _, _ = INPUTS[kernel]
    convert = foreign(name)
    rows, labels, tasks = (
        convert(array) if other else array
        for array, other in zip((rows, Y, tasks), which, strict=True)
    )
    owner = ["numpy", name]
    message = (
        f"All inputs must be arrays of one library, found X of {owner[which[0]]}, Y of "
        f"{owner[which[1]]}, "
        f"tasks of {owner[which[2]]}: convert them first."
    )
    with pytest.raises(TypeError) as caught:
        two_step(kernel).fit(rows, labels, tasks)
    assert str(caught.value) == message


@over(every(name=FOREIGN))
def test_libraries_do_not_mix_in_predict(name):
    convert = foreign(name)
    plain = two_step("rbf").fit(X, Y, T)
    other = two_step("rbf").fit(convert(X), convert(Y), convert(T))
    with pytest.raises(
        TypeError, match=f"found tasks of {name}, the fitted model of numpy: convert"
    ):
        plain.predict(X_NEW, convert(T_NEW))
    with pytest.raises(TypeError, match=f"found X of numpy, the fitted model of {name}: convert"):
        other.predict_pairs(X_NEW, convert(T_NEW), [(0, 0)])


def test_gradients_are_left_behind():
    torch = pytest.importorskip("torch")
    X = torch.eye(3, dtype=torch.float64, requires_grad=True)
    labels = torch.ones((3, 2), dtype=torch.float64)
    assert not TwoStepRidge().fit(X, labels).predict(X).requires_grad
