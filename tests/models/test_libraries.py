"""The whole model suite in every array library: what comes in goes out, and the numbers agree.

The numbers to agree with are dense solves in numpy's double precision, written out below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    TwoStepRidge,
    _svd,
    decomposing,
)
from dyadlearn.exceptions import KernelRepairWarning
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from sweeps import covering, every, lines, over

M = 8
Q = 6
NEW = 4
NEW_TASKS = 3
ALPHA = 0.7
TASK_ALPHA = 0.4


@dataclass(frozen=True)
class Problem:
    """Inputs for a model and, as kernels, what they mean."""

    kernel: str
    task_kernel: str
    rows: np.ndarray
    task_rows: np.ndarray
    new: np.ndarray
    new_tasks: np.ndarray
    K: np.ndarray
    G: np.ndarray
    K_new: np.ndarray
    G_new: np.ndarray


def block(kernel: str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    if kernel == "linear":
        return A @ B.T
    distances = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1)
    return np.exp(-distances / A.shape[1])


def problem(kernel: str, d: int, task_kernel: str, r: int) -> Problem:
    rng = np.random.default_rng([d, r])
    X = rng.normal(size=(M, d))
    T = rng.normal(size=(Q, r))
    X_new = rng.normal(size=(NEW, d))
    T_new = rng.normal(size=(NEW_TASKS, r))
    K = block(kernel, X, X)
    K_new = block(kernel, X_new, X)
    G = block(task_kernel, T, T)
    G_new = block(task_kernel, T_new, T)
    return Problem(kernel, task_kernel, X, T, X_new, T_new, K, G, K_new, G_new)


def precomputed() -> Problem:
    given = problem("rbf", 3, "rbf", 2)
    kernels = (given.K, given.G, given.K_new, given.G_new)
    return Problem("precomputed", "precomputed", *kernels, *kernels)


PROBLEMS = {
    "linear-primal": problem("linear", 3, "linear", 2),
    "linear-dual": problem("linear", 11, "linear", 9),
    "linear-primal-and-dual": problem("linear", 3, "linear", 9),
    "rbf": problem("rbf", 3, "rbf", 2),
    "rbf-and-primal": problem("rbf", 3, "linear", 2),
    "precomputed": precomputed(),
}
Y = np.random.default_rng(1).normal(size=(M, Q))


def dense_dual(
    Model: Any, given: Problem, with_tasks: bool, alpha: float, task_alpha: float
) -> np.ndarray:
    """Solve the model's linear system as the paper writes it."""
    if Model is KroneckerRidge and with_tasks:
        system = np.kron(given.G, given.K) + alpha * np.eye(M * Q)
        return np.linalg.solve(system, Y.ravel(order="F")).reshape(M, Q, order="F")
    half = np.linalg.solve(given.K + alpha * np.eye(M), Y)
    if Model is IndependentTaskRidge or not with_tasks:
        return half
    return np.linalg.solve(given.G + task_alpha * np.eye(Q), half.T).T


def make(
    Model: Any, given: Problem, alpha: float = ALPHA, task_alpha: float = TASK_ALPHA, **options: Any
) -> Any:
    params: dict[str, Any] = {"alpha": alpha, "kernel": given.kernel, **options}
    if Model is not IndependentTaskRidge:
        params["task_kernel"] = given.task_kernel
    if Model is TwoStepRidge:
        params["task_alpha"] = task_alpha
    return Model(**params)


def check(library: Any, found: Any, expected: np.ndarray) -> None:
    """Assert that an answer is in the library and dtype that came in, and right."""
    like = library.asarray(expected)
    assert type(found) is type(like)
    assert found.dtype == like.dtype
    scale = float(np.max(np.abs(expected)))
    assert_allclose(library.to_numpy(found), expected, rtol=library.rtol, atol=library.rtol * scale)


CASES = [
    (IndependentTaskRidge, False),
    (KroneckerRidge, False),
    (KroneckerRidge, True),
    (TwoStepRidge, False),
    (TwoStepRidge, True),
]
all_cases = lines("Model with_tasks", *CASES)
all_problems = {"name": list(PROBLEMS)}


def is_run(library: Any, case: tuple[Any, bool], name: str) -> bool:
    """Return whether a case is run in a library: all in numpy, one for each problem in others."""
    return library.name == "numpy" or CASES.index(case) == list(PROBLEMS).index(name) % len(CASES)


def fitted(library: Any, Model: Any, given: Problem, with_tasks: bool, **alphas: float) -> Any:
    tasks = library.asarray(given.task_rows) if with_tasks else None
    model = make(Model, given, fit_intercept=False, **alphas)
    return model.fit(library.asarray(given.rows), library.asarray(Y), tasks=tasks)


@over(all_cases)
@over(every(**all_problems))
def test_parameters(library, Model, with_tasks, name):
    if not is_run(library, (Model, with_tasks), name):
        return
    given = PROBLEMS[name]
    model = fitted(library, Model, given, with_tasks)
    A = dense_dual(Model, given, with_tasks, ALPHA, TASK_ALPHA)
    check(library, model.dual_coef_, A)
    primal = given.kernel == "linear" and given.rows.shape[1] < M
    if with_tasks:
        primal = primal and given.task_kernel == "linear" and given.task_rows.shape[1] < Q
    assert hasattr(model, "coef_") == primal
    if primal:
        W = given.rows.T @ A
        check(library, model.coef_, W @ given.task_rows if with_tasks else W)


@over(all_cases)
@over(every(**all_problems))
def test_regularisation_changes_without_a_decomposition(
    library, Model, with_tasks, name, monkeypatch
):
    if not is_run(library, (Model, with_tasks), name):
        return
    given = PROBLEMS[name]
    model = fitted(library, Model, given, with_tasks, alpha=5.0, task_alpha=9.0)

    def refuse(*args):
        raise AssertionError("a decomposition that is not needed")

    monkeypatch.setattr(decomposing, "eigh", refuse)
    monkeypatch.setattr(_svd, "svd", refuse)
    monkeypatch.setattr(_svd, "eigh", refuse)
    alphas = {"alpha": ALPHA} | ({"task_alpha": TASK_ALPHA} if Model is TwoStepRidge else {})
    assert model.set_alpha(**alphas) is model
    A = dense_dual(Model, given, with_tasks, ALPHA, TASK_ALPHA)
    grid = given.K_new @ A @ given.G if with_tasks else given.K_new @ A
    check(library, model.predict(library.asarray(given.new)), grid)
    check(library, model.dual_coef_, A)


@over(
    covering(
        filter=[
            Tikhonov(),
            SpectralCutoff(),
            IteratedTikhonov(3),
            Landweber(),
            Landweber(n_iter=4),
        ],
        name=["rbf", "linear-primal", "linear-primal-and-dual"],
        strength=1,
    )
)
def test_filters(library, filter, name):
    given = PROBLEMS[name]
    filters = {"filter": filter, "task_filter": SpectralCutoff()}
    model = make(TwoStepRidge, given, **filters, fit_intercept=False)
    model.fit(
        library.asarray(given.rows), library.asarray(Y), tasks=library.asarray(given.task_rows)
    )
    sigma, U = np.linalg.eigh(given.K)
    s, V = np.linalg.eigh(given.G)
    # The rank is known here; rounding must not pass for a small eigenvalue.
    sigma = np.where(sigma > 1e-9, sigma, 0.0)
    s = np.where(s > 1e-9, s, 0.0)
    weights = np.outer(
        filter.phi(sigma, ALPHA) * (sigma > 0), SpectralCutoff().phi(s, TASK_ALPHA) * (s > 0)
    )
    expected = given.K_new @ U @ (weights * (U.T @ Y @ V)) @ V.T @ given.G_new.T
    found = model.predict(library.asarray(given.new), tasks=library.asarray(given.new_tasks))
    check(library, found, expected)


def test_repair_in_every_library(library):
    given = PROBLEMS["precomputed"]
    bent = given.K - 0.5 * np.eye(M)
    bent[0, 3] += 0.5
    symmetric = (bent + bent.T) / 2
    values, U = np.linalg.eigh(symmetric)
    assert values[0] < -0.1
    plain = IndependentTaskRidge(ALPHA, kernel="precomputed", fit_intercept=False)
    with pytest.warns(
        KernelRepairWarning, match=r"asymmetric \(largest gap 0\.5; .*indefinite \(eigenvalues from"
    ):
        model = plain.fit(library.asarray(bent), library.asarray(Y))
    f = np.clip(values, 0, None) / (np.clip(values, 0, None) + ALPHA)
    check(library, model.predict(library.asarray(symmetric)), (U * f) @ U.T @ Y)


# --- dtypes ------------------------------------------------------------------------------------


def float_types(name: str) -> tuple[Any, Any, Any]:
    """Return asarray and the two floating dtypes of a library."""
    xp = np if name == "numpy" else pytest.importorskip(name)
    return xp.asarray, xp.float32, xp.float64


@pytest.mark.parametrize("name", ["numpy", "array_api_strict", "torch"])
class TestDtypes:
    def test_the_widest_precision_decides(self, name):
        asarray, single, double = float_types(name)
        given = PROBLEMS["rbf"]
        X, T, labels = asarray(given.rows), asarray(given.task_rows), asarray(Y)

        def dtype(x, y, t):
            fit = make(TwoStepRidge, given).fit(
                asarray(X, dtype=x), asarray(labels, dtype=y), tasks=asarray(T, dtype=t)
            )
            return fit.predict(asarray(X, dtype=x)).dtype

        assert dtype(single, single, single) == single
        assert dtype(single, double, single) == double
        assert dtype(single, single, double) == double
        assert dtype(double, single, single) == double

    def test_the_model_decides_at_prediction(self, name):
        asarray, single, double = float_types(name)
        given = PROBLEMS["linear-primal"]
        X = asarray(given.rows)
        T = asarray(given.task_rows)
        X32, Y32, T32 = (asarray(part, dtype=single) for part in (X, asarray(Y), T))
        model = make(TwoStepRidge, given).fit(X32, Y32, tasks=T32)
        assert model.predict(asarray(X, dtype=double)).dtype == single
        assert (
            model.predict(asarray(X, dtype=single), tasks=asarray(T, dtype=double)).dtype == single
        )
        assert model.coef_.dtype == single
        assert model.dual_coef_.dtype == single

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
            assert TwoStepRidge().fit(x, y, tasks=t).predict(x).dtype == expected
            assert OnlineTwoStepRidge().fit(x, y, tasks=t).coef_.dtype == expected

    def test_whole_numbers_are_read_as_double(self, name):
        asarray, _, double = float_types(name)
        X = np.random.default_rng(0).integers(0, 5, size=(M, 3))
        labels = Y > 0
        model = TwoStepRidge(ALPHA, fit_intercept=False).fit(asarray(X), asarray(labels))
        expected = np.linalg.solve(X.T @ X + ALPHA * np.eye(3), X.T @ labels)
        assert model.coef_.dtype == double
        assert_allclose(np.asarray(model.coef_), expected, rtol=1e-9)


# --- mixtures ----------------------------------------------------------------------------------

FOREIGN = ["array_api_strict", "torch"]


def foreign(name: str) -> Any:
    module = pytest.importorskip(name)
    return lambda values: module.asarray(np.asarray(values))


@over(
    covering(
        name=FOREIGN,
        problem_name=["linear-primal", "precomputed"],
        which=[(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1)],
    )
)
def test_libraries_do_not_mix_in_fit(name, problem_name, which):
    given = PROBLEMS[problem_name]
    convert = foreign(name)
    X, labels, T = (
        convert(array) if other else array
        for array, other in zip((given.rows, Y, given.task_rows), which, strict=True)
    )
    owner = ["numpy", name]
    message = (
        f"All inputs must be arrays of one library, found X of {owner[which[0]]}, Y of "
        f"{owner[which[1]]}, "
        f"tasks of {owner[which[2]]}: convert them first."
    )
    with pytest.raises(TypeError) as caught:
        make(TwoStepRidge, given).fit(X, labels, tasks=T)
    assert str(caught.value) == message


@over(every(name=FOREIGN, problem_name=["linear-primal", "rbf", "precomputed"]))
def test_libraries_do_not_mix_in_predict(name, problem_name):
    given = PROBLEMS[problem_name]
    convert = foreign(name)
    plain = make(TwoStepRidge, given).fit(given.rows, Y, tasks=given.task_rows)
    other = make(TwoStepRidge, given).fit(
        convert(given.rows), convert(Y), tasks=convert(given.task_rows)
    )
    with pytest.raises(TypeError, match=f"found X of {name}, the fitted model of numpy: convert"):
        plain.predict(convert(given.new))
    with pytest.raises(
        TypeError, match=f"found tasks of {name}, the fitted model of numpy: convert"
    ):
        plain.predict(given.new, tasks=convert(given.new_tasks))
    with pytest.raises(TypeError, match=f"found X of numpy, the fitted model of {name}: convert"):
        other.predict(given.new)
    with pytest.raises(
        TypeError, match=f"found tasks of numpy, the fitted model of {name}: convert"
    ):
        other.predict_pairs(convert(given.new), given.new_tasks, [(0, 0)])


def test_two_foreign_libraries_do_not_mix():
    given = PROBLEMS["rbf"]
    strict = foreign("array_api_strict")
    torch = foreign("torch")
    with pytest.raises(TypeError, match="found X of torch, Y of array_api_strict: convert"):
        make(TwoStepRidge, given).fit(torch(given.rows), strict(Y))
