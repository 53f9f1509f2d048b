"""What holds for any data: transposing, permuting and adding up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralFilter, Tikhonov

# The same examples in every run, and no opinion on how fast the machine is.
any_data = settings(
    derandomize=True, deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow]
)


@dataclass(frozen=True)
class Dyads:
    """A problem with features on both sides; `new` rows of them are predicted for."""

    X: np.ndarray
    tasks: np.ndarray
    Y: np.ndarray
    X_new: np.ndarray
    tasks_new: np.ndarray
    alpha: float
    task_alpha: float
    filter: SpectralFilter
    task_filter: SpectralFilter

    def swapped(self) -> Dyads:
        """Return the problem with instances as tasks and tasks as instances."""
        return Dyads(
            self.tasks,
            self.X,
            self.Y.T,
            self.tasks_new,
            self.X_new,
            self.task_alpha,
            self.alpha,
            self.task_filter,
            self.filter,
        )


def matrices(n_rows: int, n_columns: int) -> st.SearchStrategy[np.ndarray]:
    # Tenths: differences that matter, no numbers whose squares are lost.
    tenths = arrays.arrays(np.int64, (n_rows, n_columns), elements=st.integers(-20, 20))
    return tenths.map(lambda values: values / 10.0)


@st.composite
def dyads(draw: st.DrawFn) -> Dyads:
    m, q, d, r, a, b = (draw(st.integers(1, 6)) for _ in range(6))
    # A cut-off is left out: it jumps where an eigenvalue meets λ, and rounding decides on which
    # side.
    filters = st.sampled_from([Tikhonov(), IteratedTikhonov(3), Landweber(4)])
    regularisation = st.integers(-2, 3).map(lambda exponent: 10.0**exponent)
    return Dyads(
        draw(matrices(m, d)),
        draw(matrices(q, r)),
        draw(matrices(m, q)),
        draw(matrices(a, d)),
        draw(matrices(b, r)),
        draw(regularisation),
        draw(regularisation),
        draw(filters),
        draw(filters),
    )


FORMS = ["linear", "rbf", "precomputed"]


def two_step(data: Dyads, kernel: str) -> Any:
    return TwoStepRidge(
        data.alpha,
        data.task_alpha,
        kernel=kernel,
        task_kernel=kernel,
        filter=data.filter,
        task_filter=data.task_filter,
    )


def kronecker(data: Dyads, kernel: str) -> Any:
    return KroneckerRidge(data.alpha, kernel=kernel, task_kernel=kernel)


def independent(data: Dyads, kernel: str) -> Any:
    return IndependentTaskRidge(data.alpha, kernel=kernel, filter=data.filter)


def rbf(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.exp(-((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


def predictions(make: Any, data: Dyads, kernel: str) -> np.ndarray:
    """Fit and predict for the new instances: with the new tasks, or with all where tasks mean nothing."""
    X = data.X
    tasks = data.tasks
    X_new = data.X_new
    tasks_new = data.tasks_new
    if kernel == "precomputed":
        X, tasks, X_new, tasks_new = (
            rbf(X, X),
            rbf(tasks, tasks),
            rbf(X_new, X),
            rbf(tasks_new, tasks),
        )
    model = make(data, kernel).fit(X, data.Y, tasks=tasks)
    if make is independent:
        return model.predict(X_new)
    return model.predict(X_new, tasks=tasks_new)


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    # Labels are at most 2, and λ ≥ 0.01 bounds what rounding can grow to.
    assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


pairwise = st.sampled_from([two_step, kronecker])
every_model = st.sampled_from([two_step, kronecker, independent])
forms = st.sampled_from(FORMS)


@any_data
@given(make=pairwise, kernel=forms, data=dyads())
def test_swapping_the_sides_transposes_the_answer(make, kernel, data):
    swapped = data.swapped()
    if make is kronecker:  # one λ for both sides
        swapped = replace(swapped, alpha=data.alpha)
    assert_same(predictions(make, swapped, kernel), predictions(make, data, kernel).T)


@any_data
@given(make=every_model, kernel=forms, data=dyads(), scale=st.integers(-30, 30), extra=st.data())
def test_predictions_are_linear_in_the_labels(make, kernel, data, scale, extra):
    other = extra.draw(matrices(*data.Y.shape))
    factor = scale / 10.0
    mixed = replace(data, Y=data.Y + factor * other)
    expected = predictions(make, data, kernel) + factor * predictions(
        make, replace(data, Y=other), kernel
    )
    assert_same(predictions(make, mixed, kernel), expected)
