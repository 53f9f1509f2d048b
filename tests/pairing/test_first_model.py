"""A model of pairs of five members: what it has by default is what the same model has by its own formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn._array import Array
from dyadlearn.holdout import Problem, holdout
from dyadlearn.holdout.refit import refit
from dyadlearn.pairing import Coupled, Kronecker
from dyadlearn.pairing.base import Pairing
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.full import cell_slack, hold_out_stack, sweep
from dyadlearn.pairing.incomplete import complete_labels, label_weights
from dyadlearn.settings import Setting
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich
from sweeps import covering, every, over

M, Q = 6, 5


@dataclass(frozen=True, eq=False)
class Plain(Coupled):
    """Kronecker ridge regression, of which no formula is known."""

    words: ClassVar[str] = "a model with five members"

    spectrum: Spectrum
    task_spectrum: Spectrum
    alpha: float

    @property
    def spectra(self) -> tuple[Spectrum, ...]:
        return self.spectrum, self.task_spectrum

    @property
    def alphas(self) -> dict[str, float]:
        return {"alpha": self.alpha}

    @property
    def remainder(self) -> Array:
        return self.alpha / (np.outer(self.spectrum.values, self.task_spectrum.values) + self.alpha)

    def coefficients(self, Y: Array) -> Array:
        rotated = self.task_spectrum.rotate(self.spectrum.rotate(Y).T).T * self.remainder / self.alpha
        return sandwich(self.spectrum.basis, rotated, self.task_spectrum.basis)


def both(kinds: tuple[str, str] = ("full", "full"), alpha: float = 0.4) -> tuple[Plain, Kronecker]:
    """Return the model and the one that has formulas, on the same sides."""
    rng, spectra = np.random.default_rng(3), []
    for n, kind in zip((M, Q), kinds, strict=True):
        features = rng.normal(size=(n, 3))
        gram = np.exp(-0.3 * ((features[:, None] - features) ** 2).sum(2))
        spectra.append(Spectrum.from_features(features) if kind == "primal" else Spectrum.from_gram(gram))
    return Plain(*spectra, alpha), Kronecker(*spectra, alpha)


def labels(missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(4)
    Y = rng.normal(size=(M, Q))
    Y[rng.random((M, Q)) < missing] = np.nan
    return Y


GROUPS = {"instances": np.array([0, 1, 0, 2, 1, 2]), "tasks": np.array([0, 0, 1, 2, 1])}
kinds = {"kinds": [("full", "full"), ("primal", "full"), ("primal", "primal")]}


def test_the_model_has_few_members():
    five = {"words", "spectra", "alphas", "remainder", "coefficients"}
    assert {name for name in vars(Plain) if not name.startswith("_")} == five
    members = {name for name in (*vars(Pairing), *Pairing.__annotations__) if not name.startswith("_")}
    assert len(members) <= 15, members
    # Beside the model there are grid operators, and what connects both.
    own = {name for name in vars(Coupled) if not name.startswith("_")}
    assert own <= {*vars(GridOperators), *members, "coefficients_of"}


@over(covering(**kinds, setting="ABCD", grouped=[False, True], missing=[0.0, 0.3], alpha=[1e-3, 0.4, 30.0]))
def test_what_is_left_out(kinds, setting, grouped, missing, alpha):
    plain, fast = both(kinds, alpha)
    given = {}
    if grouped and setting in "BD":
        given["groups"] = GROUPS["instances"]
    if grouped and setting in "CD":
        given["task_groups"] = GROUPS["tasks"]
    if grouped and setting == "A":
        given["cells"] = np.arange(M * Q).reshape(M, Q) % 4
    found, expected = (
        holdout(Problem.of(model, labels(missing), tol=1e-13), setting, **given) for model in (plain, fast)
    )
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    if not missing:
        assert_allclose(refit(Problem.of(plain, labels()), setting, **given), expected, rtol=1e-7, atol=1e-9)


@over(covering(**kinds, weighted=[False, True]))
def test_missing_and_weighted_labels(kinds, weighted):
    plain, fast = both(kinds)
    weights = np.random.default_rng(5).uniform(0.3, 2.0, size=(M, Q)) if weighted else None
    found, expected = (complete_labels(model, labels(0.4), weights, tol=1e-13).labels for model in (plain, fast))
    # With weights the labels of the closed form have another scale, but the fit is the same.
    assert_allclose(plain.hat(found), fast.hat(expected), rtol=1e-9, atol=1e-11)
    rows = NewRows(np.random.default_rng(6).normal(size=(1, plain.spectrum.n_coefficients)), lambda rows: rows, 0)
    for row, column in ((2, 3), (rows, 1)):
        found, expected = (label_weights(model, row, column, labels(0.4), weights) for model in (plain, fast))
        assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@over(every(**kinds))
def test_everything_else(kinds):
    plain, fast = both(kinds)
    Y = labels()
    assert_allclose(cell_slack(plain), cell_slack(fast), rtol=1e-10)
    # Its kernel between pairs is that of the other over the ridge, which is one.
    assert_allclose(plain.dual(Y), 0.4 * fast.dual(Y), rtol=1e-8, atol=1e-10)
    spectral = np.random.default_rng(7).normal(size=plain.remainder.shape) * plain.kernel_values**0.5
    found = plain.expansion(plain.coefficients_of(0.4**0.5 * spectral, 0.0)).fitted()
    expected = fast.expansion(fast.coefficients_of(spectral, 0.0)).fitted()
    assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    stacks = [
        list(sweep(model, Y, [0.1, 3.0], [1.0]).walk([Setting.A, Setting.B, Setting.D], 4)) for model in (plain, fast)
    ]
    grids = [np.concatenate([stack for *_, setting, stack in each if setting is Setting.B]) for each in stacks]
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


def test_new_tasks_need_the_model_turned_round():
    with pytest.raises(NotImplementedError, match="must define transposed"):
        both()[0].transposed  # noqa: B018
