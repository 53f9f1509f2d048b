"""Weights of any size, against weighted ridge regression in fifty digits."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fifty_digits
import problems
from dyadlearn import IndependentTaskRidge, KroneckerRidge, PairKernelRidge, TwoStepRidge
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.filters import IteratedTikhonov
from sweeps import covering, lines, over

# More features than rows, and fewer: the kernel of the cells is regular, and singular.
SHAPES = {"wide": (4, 3, 7, 5), "tall": (6, 4, 3, 2)}
SHARES = (1.0, 0.3, 0.2)
MODELS = {
    "independent": lambda **given: IndependentTaskRidge(1.0, **given),
    "kronecker": lambda **given: KroneckerRidge(1.0, **given),
    "pair kernel": lambda **given: PairKernelRidge(
        1.0, per_task=SHARES[1], per_instance=SHARES[2], **given
    ),
    "two-step": lambda **given: TwoStepRidge(1.0, 0.5, **given),
}
# A common factor of the weights, and the orders of magnitude between the largest and the smallest
# of them.
SCALES = [(1e-18, 0), (1e12, 2), (1.0, 16), (1e18, 16)]


@dataclass(frozen=True)
class Data:
    X: np.ndarray
    T: np.ndarray
    Y: np.ndarray
    W: np.ndarray
    new: np.ndarray
    new_tasks: np.ndarray

    def expected(self, model, Y, new, new_tasks, constant):
        """Return predictions for new rows; all training tasks are new ones for independent tasks."""
        if model == "independent":
            return fifty_digits.independent(self.X, Y, self.W, 1.0, new, constant)
        if model == "two-step":
            return fifty_digits.two_step(
                self.X, self.T, Y, self.W, (1.0, 0.5), (new, new_tasks), constant
            )
        shares = SHARES if model == "pair kernel" else (1.0, 0.0, 0.0)
        return fifty_digits.pair_kernel(
            self.X, self.T, Y, self.W, 1.0, (new, new_tasks), constant, shares
        )

    def part(self, rows, columns):
        within = np.ix_(rows, columns)
        return Data(
            self.X[rows], self.T[columns], self.Y[within], self.W[within], self.new, self.new_tasks
        )


def draw(shape, scale, spread, missing):
    m, q, d, r = shape
    X, Y, T = problems.data(m, q, d, r, seed=1)
    rng = np.random.default_rng(2)
    if missing:
        Y[rng.random(Y.shape) < 0.25] = np.nan
    W = scale * 10.0 ** rng.uniform(-spread / 2, spread / 2, size=(m, q))
    return Data(X, T, Y, W, rng.normal(size=(2, d)), rng.normal(size=(2, r)))


@over(
    covering(
        model=list(MODELS),
        shape=SHAPES,
        scale=SCALES,
        missing=[False, True],
        constant=[True, False],
    )
)
def test_predictions_are_those_of_weighted_least_squares(model, shape, scale, missing, constant):
    data = draw(shape, *scale, missing)
    fitted = MODELS[model](fit_intercept=constant).fit(data.X, data.Y, data.T, data.W)
    asked = (data.new,) if model == "independent" else (data.new, data.new_tasks)
    expected = data.expected(model, data.Y, data.new, data.new_tasks, constant)
    assert_allclose(fitted.predict(*asked), expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@over(
    covering(
        model=["independent", "kronecker", "two-step"],
        shape=SHAPES,
        scale=[(1e18, 0), (1e-18, 16)],
        missing=[False, True],
        setting="ABCD",
        where=lambda model, setting, **rest: model != "independent" or setting in "AB",
    )
)
def test_held_out_predictions_are_those_of_refits(model, shape, scale, missing, setting):
    data = draw(shape, *scale, missing)
    fitted = MODELS[model]().fit(data.X, data.Y, data.T, data.W)
    found = fitted.holdout(setting)
    for i, j in fifty_digits.cells_of(data.Y, 4):
        hidden, rows, columns = fifty_digits.left_out(data.Y, setting, (i, j))
        if model == "two-step" and setting != "A":
            part = data.part(rows, columns)
            expected = part.expected(model, part.Y, data.X[[i]], data.T[[j]], True)[0, 0]
        else:
            place = j if model == "independent" else 0
            expected = data.expected(model, hidden, data.X[[i]], data.T[[j]], True)[0, place]
        assert_allclose(found[i, j], expected, atol=1e-8 * np.nanmax(np.abs(found)))


@over(lines("model", "kronecker", "independent"))
def test_the_regularisation_in_reports_is_that_of_the_user(model):
    data = draw(SHAPES["tall"], 1e6, 1, False)
    fitted = MODELS[model]().fit(data.X, data.Y, data.T, data.W).fitted_
    assert_allclose(fitted.training_problem.alphas["alpha"], 1.0)
    assert_allclose(fitted.training_problem.at(3.0).alphas["alpha"], 3.0)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_other_filters_keep_their_weights(scale):
    """A filter that is not a ridge has no penalty to divide."""
    data = draw(SHAPES["tall"], scale, 1, False)
    model = IndependentTaskRidge(1.0, filter=IteratedTikhonov(2))
    assert model.fit(data.X, data.Y, sample_weight=data.W).fitted_.training_problem.unit == 1.0


def test_labels_that_differ_by_sixteen_orders_of_magnitude_in_weight_may_lose_digits():
    """A few light labels determine an instance: their directions are moved by rounding of the heavy ones."""
    data = draw((7, 5, 3, 2), 1e18, 2, False)
    X = np.concatenate([data.X, data.new[:1]])
    Y = np.concatenate([data.Y, [[0.3, 1.1, np.nan, np.nan, np.nan]]])
    W = np.concatenate([data.W, np.ones((1, 5))])
    with pytest.warns(
        PrecisionWarning, match=r"leaves \d accurate digits of the predictions: use a larger alpha"
    ):
        MODELS["pair kernel"]().fit(X, Y, data.T, W)
