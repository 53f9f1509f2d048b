"""A model of pairs of five members: what it has by default is what the same model has by its own formulas."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import Tikhonov
from dyadlearn.holdout import Problem, holdout
from dyadlearn.pairing import Coupled, Kronecker, TwoStep
from dyadlearn.pairing.base import Pairing
from dyadlearn.pairing.full import cell_slack, hold_out_stack, sweep
from dyadlearn.settings import Setting
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import Spectrum
from first_model import Plain
from sweeps import every, over

M = 6
Q = 5


def both(kinds=("full", "full"), alpha=0.4):
    """Return the model and the one that has formulas, on the same sides."""
    rng = default_rng(3)
    spectra = []
    for n, kind in zip((M, Q), kinds, strict=True):
        features = rng.normal(size=(n, 3))
        gram = np.exp(-0.3 * ((features[:, None] - features) ** 2).sum(2))
        spectra.append(
            Spectrum.from_features(features) if kind == "primal" else Spectrum.from_gram(gram)
        )
    return Plain(*spectra, alpha), Kronecker(*spectra, alpha)


def labels(missing=0.0):
    rng = default_rng(4)
    Y = rng.normal(size=(M, Q))
    Y[rng.random((M, Q)) < missing] = np.nan
    return Y


kinds = {"kinds": [("full", "full"), ("primal", "full"), ("primal", "primal")]}


def test_the_model_has_few_members():
    five = {"words", "spectra", "alphas", "remainder", "coefficients"}
    assert {name for name in vars(Plain) if not name.startswith("_")} == five
    members = {
        name for name in (*vars(Pairing), *Pairing.__annotations__) if not name.startswith("_")
    }
    assert len(members) <= 15, members
    # Beside the model there are grid operators, and what connects both.
    own = {name for name in vars(Coupled) if not name.startswith("_")}
    assert own <= {*vars(GridOperators), *members, "coefficients_of"}


@over(every(**kinds))
def test_everything_else(kinds):
    plain, fast = both(kinds)
    Y = labels()
    assert_allclose(cell_slack(plain), cell_slack(fast), rtol=1e-10)
    assert_allclose(plain.dual(Y), fast.dual(Y), rtol=1e-8, atol=1e-10)
    spectral = default_rng(7).normal(size=plain.remainder.shape) * plain.kernel_values**0.5
    found = plain.expansion(plain.coefficients_of(spectral, 0.0)).fitted()
    expected = fast.expansion(fast.coefficients_of(spectral, 0.0)).fitted()
    assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    stacks = [
        list(sweep(model, Y, [0.1, 3.0], [1.0]).walk([Setting.A, Setting.B, Setting.D], 4))
        for model in (plain, fast)
    ]
    grids = [
        np.concatenate([stack for *_, setting, stack in each if setting is Setting.B])
        for each in stacks
    ]
    assert_allclose(*grids, rtol=1e-8, atol=1e-10)


def test_a_registered_formula_replaces_the_default():
    @dataclass(frozen=True, eq=False)
    class Faster(Plain):
        """The same with the formulas of another model."""

    asked = []

    @hold_out_stack.register(Faster)
    def _(model, stack, setting, *groups):
        asked.append(setting)
        return hold_out_stack(Kronecker(*model.spectra, model.alpha), stack, setting, *groups)

    plain, _ = both()
    faster = Faster(plain.spectrum, plain.task_spectrum, plain.alpha)
    found, expected = (holdout(Problem.of(model, labels()), "D") for model in (faster, plain))
    assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert asked == [Setting.D]


def test_without_regularisation_dual_coefficients_need_a_formula():
    with pytest.raises(NotImplementedError, match="Plain must define dual for alpha=0"):
        both(alpha=0.0)[0].dual(labels())


def test_two_free_constants_are_a_free_mean(each):
    """Beside intercepts of both sides, the grand mean alone is unpenalised, so that nothing is interpolated."""

    @dataclass(frozen=True, eq=False)
    class Shrunken(Plain):
        """Two-step ridge regression by its remainder."""

        @property
        def fast(self):
            return TwoStep(
                *(spectrum.smoother(Tikhonov(), self.alpha) for spectrum in self.spectra)
            )

        @property
        def remainder(self):
            rows, columns = (side.shrinkage for side in self.fast.smoothers)
            return 1.0 - np.outer(rows, columns)

        def coefficients(self, Y):
            return self.fast.coefficients(Y)

    grams = (
        np.exp(-0.3 * np.subtract.outer(rows, rows) ** 2) for rows in (np.arange(M), np.arange(Q))
    )
    model = Shrunken(*(Spectrum.from_gram(gram, constant="free") for gram in grams), 0.4)
    assert model.free_mean
    assert model.floor == 0
    assert not model.interpolates
    weights = default_rng(5).uniform(0.3, 2.0, size=(M, Q))
    for missing, given in each([(0.0, None), (0.3, None), (0.0, weights), (0.3, weights)]):
        Y = labels(missing) + 5.0
        held_out = [
            holdout(Problem.of(each, Y, given, tol=1e-13), "A") for each in (model, model.fast)
        ]
        assert_allclose(*held_out, rtol=1e-8)


def test_what_a_model_interpolates_is_refused(each):
    """The mean of each row is unpenalised: a row, or a pair with its row and column, has leverage 1."""

    @dataclass(frozen=True, eq=False)
    class Constants(Plain):
        """Means of rows."""

        @property
        def remainder(self):
            return np.where(np.arange(Q) == Q - 1, 0.0, 1.0) * np.ones((M, 1))

    model = Constants(Spectrum.from_gram(np.eye(M)), Spectrum.from_gram(np.eye(Q) + 1.0), 1.0)
    others = (labels().sum(axis=1, keepdims=True) - labels()) / (Q - 1)
    assert_allclose(holdout(Problem.of(model, labels()), "A"), others, rtol=1e-10)
    for setting, number in each([("B", Q), ("D", M + Q - 1)]):
        with pytest.raises(
            LeverageError, match=f"{number} of {M * Q} cells .* the model interpolates them"
        ):
            holdout(Problem.of(model, labels()), setting)
