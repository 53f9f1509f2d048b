"""All models of the library: one entry for each, which gives most of its tests (`test_market.py`).

An entry says how the model is made, which settings and forms of labels it supports, which hold-outs
must run by a formula, and which dense model of `fuzz/refits.py` has the same predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import assert_all_finite

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairKernelRidgeCV,
    PairRegressor,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff
from dyadlearn.settings import as_setting
from dyadlearn.testing import FORMS
from first_model import PlainRidge

#: Forms of labels without weights.
PLAIN = ("full", "missing")
#: Settings that run by a formula: all if labels are complete; two-step models refit folds of sides
#: if labels are missing or weighted.
EXACT = {"full": "ABCD", "missing": "ABCD", "weights": "ABCD", "list": "ABCD"}
IN_CELLS = {"full": "ABCD", "missing": "A", "weights": "A", "list": "A"}
ALPHAS = [0.1, 3.0]
SHARES = [(1.0, 0.0, 0.0), (0.4, 0.3, 0.3)]


@dataclass(frozen=True)
class Twin:
    """The same model in `fuzz/refits.py`.

    Attributes
    ----------
    kind : {"independent", "two_step", "kronecker", "network"}
    alpha, task_alpha : float
    identity : (float, float)
        Shares of the identity in the kernels of instances and of tasks.
    filters : (str, str)
    n_iter : (int or None, int or None)
    kernel : {"linear", "rbf", "precomputed"}
        Kernel of both sides.
    levels : (float, float)
        Constants that are added to the kernels, where both have a free mean.
    forms : tuple of str
        Forms of labels for which both are the same.
    """

    kind: str
    alpha: float = 1.0
    task_alpha: float = 1.0
    identity: tuple[float, float] = (0.0, 0.0)
    filters: tuple[str, str] = ("tikhonov", "tikhonov")
    n_iter: tuple[int | None, int | None] = (None, None)
    kernel: str = "linear"
    levels: tuple[float, float] = (1.0, 1.0)
    forms: tuple[str, ...] = FORMS


@dataclass(frozen=True)
class Entry:
    """A model in the market.

    Attributes
    ----------
    make : callable
        Returns the estimator, not fitted.
    settings : str or dict
        Letters of its settings, or those of some forms of labels, as in `check_model`.
    forms : tuple of str
        Forms of labels that it accepts.
    is_exact : bool
        Whether hold-out equals refits.
    skip : dict
        Checks that have no meaning for the model, with the reason.
    formulas : dict
        For each form of labels the letters of the settings whose hold-out must run by a formula.
    twin : Twin or None
        The dense model with the same predictions; None if there is none.
    """

    make: Callable[[], Any]
    settings: str | Mapping[str, str] = "ABCD"
    forms: tuple[str, ...] = FORMS
    is_exact: bool = True
    skip: Mapping[str, str] = field(default_factory=dict)
    formulas: Mapping[str, str] = field(default_factory=dict)
    twin: Twin | None = None

    def letters(self, form: str) -> str:
        """Return the settings for a form of labels."""
        return self.settings if isinstance(self.settings, str) else self.settings.get(form, "ABCD")

    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments of `check_model`."""
        return {
            "settings": self.settings,
            "forms": self.forms,
            "is_exact": self.is_exact,
            "skip": tuple(self.skip),
        }


class ShortRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor of the form of scikit-learn's, in a few lines."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def fit(self, X: np.ndarray, y: np.ndarray) -> ShortRidge:
        assert_all_finite(X)
        self.means_ = (X.mean(axis=0), y.mean(axis=0))
        rows = X - self.means_[0]
        penalised = rows.T @ rows + self.alpha * np.eye(X.shape[1])
        self.coef_ = np.linalg.solve(penalised, rows.T @ (y - self.means_[1]))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (X - self.means_[0]) @ self.coef_ + self.means_[1]


class GridOfPairs(RegressorMixin, BaseEstimator):
    """A `PairRegressor` with the methods of a model of a grid.

    The pairs are the cells with a label, and ids are positions, which go on for new rows.
    """

    def __init__(self, model: Any = None) -> None:
        self.model = model

    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> GridOfPairs:
        self.shape_ = y.shape
        self.known_ = (np.array(X), np.array(tasks))
        pairs = np.argwhere(~np.isnan(y))
        places = tuple(pairs.T)
        weights = None if sample_weight is None else sample_weight[places]
        regressor = PairRegressor(self.model, instances=self.known_[0], tasks=self.known_[1])
        self.regressor_ = regressor.fit(pairs, y[places], weights)
        return self

    @property
    def alpha_(self) -> Any:
        return self.regressor_.model_.alpha_

    @property
    def fitted_(self) -> Any:
        return self.regressor_.fitted_

    def predict(self, X: Any = None, tasks: Any = None) -> np.ndarray:
        ids = []
        tables = []
        for known, new in zip(self.known_, (X, tasks), strict=True):
            n = len(known)
            ids.append(np.arange(n) if new is None else np.arange(n, n + len(new)))
            tables.append(known if new is None else np.vstack([known, new]))
        self.regressor_.set_params(instances=tables[0], tasks=tables[1])
        pairs = np.stack(np.meshgrid(*ids, indexing="ij"), axis=-1).reshape(-1, 2)
        return self.regressor_.predict(pairs).reshape(len(ids[0]), len(ids[1]))

    def holdout(self, setting: str, **units: Any) -> np.ndarray:
        """Return held-out predictions in the order of the grid; the model orders ids as they appear."""
        fitted = self.fitted_
        order = [np.array(ids.labels, dtype=int) for ids in (fitted.instance_ids, fitted.task_ids)]
        if "groups" in units:
            units["groups"] = units["groups"][order[0]]
        if "task_groups" in units:
            units["task_groups"] = units["task_groups"][order[1]]
        held_out = fitted.hold_out(as_setting(setting), **units)
        grid = np.full(self.shape_, np.nan)
        grid[np.ix_(*order)] = fitted.labels.spread(held_out.predictions)
        return grid


def not_stored(model: Any) -> list[str]:
    """Return what was learnt that is in no state of a model."""
    stored = {*model.state(), *model.get_params(deep=False)}
    return [name for name in vars(model) if not {name, name.removeprefix("_")} & stored]


def _network(sign: str, Model: Any = TwoStepRidge, **options: Any) -> Callable[[], Any]:
    if Model is TwoStepRidge:
        options |= {"alpha": 0.5, "task_alpha": 0.5}
    return lambda: Model(symmetry=sign, **options)


NETWORK = {
    "settings": {"missing": "A"},
    "forms": PLAIN,
    "formulas": {"full": "ABCD", "missing": "A"},
}
SEARCH = {"progress": False, "scoring": "neg_mean_squared_error"}
#: Filters keep the penalty that was built from all rows, so that hold-out is not a refit.
FILTER = {"is_exact": False, "forms": PLAIN, "formulas": {"full": "ABCD", "missing": "A"}}
PRECOMPUTED = {"kernel": "precomputed", "task_kernel": "precomputed"}
RBF = {"kernel": "rbf", "task_kernel": "rbf"}
ANOTHER_INPUT = {
    "frames": "ids of pairs are tested in models/test_pairs.py",
    "libraries": "the table of pairs is an array of numpy",
    "float32": "the table of pairs is an array of numpy",
    "file": "the adaptor has no file",
    "refusals": "errors name pairs",
    "list": "there is no grid",
    "vector": "there is no grid",
    "pairs": "there is no grid",
    "score": "there is no grid",
    "intervals": "there is no grid",
    "groups": "folds of pairs are tested in models/test_pairs.py",
    "evaluate": "ids are in the order in which they appear",
    "order": "ids are in the order in which they appear",
    "explain": "ids are in the order in which they appear",
    "threads": "predictions for new ids set parameters",
}

#: Other parameters of a model, of which its first entry has these checks.
VARIANT = dict.fromkeys(
    ("threads", "libraries", "frames", "pickle", "input", "refusals", "parameters", "evaluate"),
    "asked of the model with its parameters by default",
)

#: Searches of which another one has these checks.
SEARCHED = dict.fromkeys(
    ("threads", "libraries", "frames", "parameters", "refusals"), "asked of TwoStepRidgeCV"
)

ENTRIES: dict[str, Entry] = {
    "IndependentTaskRidge": Entry(
        lambda: IndependentTaskRidge(0.5),
        settings="AB",
        formulas=EXACT,
        twin=Twin("independent", 0.5),
    ),
    "IndependentTaskRidge of the paper": Entry(
        lambda: IndependentTaskRidge(0.5, kernel="precomputed", fit_intercept=False),
        settings="AB",
        forms=("full", "list"),
        formulas=EXACT,
        twin=Twin("independent", 0.5, kernel="precomputed"),
        skip=VARIANT,
    ),
    "TwoStepRidge": Entry(
        lambda: TwoStepRidge(0.5, 2.0), formulas=IN_CELLS, twin=Twin("two_step", 0.5, 2.0)
    ),
    "TwoStepRidge of the paper": Entry(
        lambda: TwoStepRidge(0.5, 2.0, fit_intercept=False, **PRECOMPUTED),
        forms=("full", "list"),
        formulas=IN_CELLS,
        twin=Twin("two_step", 0.5, 2.0, kernel="precomputed"),
        skip={name: reason for name, reason in VARIANT.items() if name not in ("frames", "input")},
    ),
    "TwoStepRidge with identity": Entry(
        lambda: TwoStepRidge(0.5, 2.0, identity=(0.4, 0.2), **RBF),
        forms=("missing", "weights"),
        formulas=IN_CELLS,
        twin=Twin("two_step", 0.5, 2.0, identity=(0.4, 0.2), kernel="rbf"),
        skip=VARIANT,
    ),
    "TwoStepRidge with identity of tasks": Entry(
        lambda: TwoStepRidge(0.5, 2.0, identity=(0.0, 0.5), fit_intercept=False),
        forms=("missing",),
        formulas=IN_CELLS,
        twin=Twin("two_step", 0.5, 2.0, identity=(0.0, 0.5)),
        skip=VARIANT,
    ),
    "TwoStepRidge, iterated": Entry(
        lambda: TwoStepRidge(0.5, 2.0, filter=IteratedTikhonov(3), **RBF),
        **FILTER,
        twin=Twin(
            "two_step",
            0.5,
            2.0,
            filters=("iterated", "tikhonov"),
            n_iter=(3, None),
            kernel="rbf",
        ),
        skip=VARIANT,
    ),
    "TwoStepRidge, other filters": Entry(
        lambda: TwoStepRidge(0.5, 0.3, filter=Landweber(4), task_filter=SpectralCutoff(), **RBF),
        is_exact=False,
        forms=("full",),
        skip=VARIANT | {"scale": "a cut-off keeps means exactly only if they are in its range"},
    ),
    "symmetric network": Entry(_network("symmetric"), **NETWORK, twin=Twin("network", 0.5, 0.5)),
    "antisymmetric network": Entry(
        _network("antisymmetric", fit_intercept=False, **RBF),
        **NETWORK,
        twin=Twin("network", 0.5, 0.5, kernel="rbf"),
        skip=VARIANT,
    ),
    "network with identity": Entry(
        _network("symmetric", identity=0.4),
        **NETWORK,
        twin=Twin("network", 0.5, 0.5, identity=(0.4, 0.4)),
        skip=VARIANT,
    ),
    "KroneckerRidge": Entry(
        lambda: KroneckerRidge(0.5), formulas=EXACT, twin=Twin("kronecker", 0.5)
    ),
    "KroneckerRidge of the paper": Entry(
        lambda: KroneckerRidge(0.5, fit_intercept=False, **PRECOMPUTED),
        forms=("full", "list"),
        formulas=EXACT,
        twin=Twin("kronecker", 0.5, kernel="precomputed"),
        skip=VARIANT,
    ),
    # The product of both identities is a part of the ridge, which weights divide.
    "KroneckerRidge with identity": Entry(
        lambda: KroneckerRidge(0.5 + 0.4 * 0.2, identity=(0.4, 0.2), **RBF),
        forms=("missing",),
        formulas=EXACT,
        twin=Twin("kronecker", 0.5, identity=(0.4, 0.2), kernel="rbf"),
        skip=VARIANT,
    ),
    "KroneckerRidge with other constants": Entry(
        lambda: KroneckerRidge(0.5, constants=(0.3, 4.0)),
        forms=("full", "missing", "list"),
        formulas=EXACT,
        twin=Twin("kronecker", 0.5, levels=(0.3, 4.0)),
        skip=VARIANT,
    ),
    "KroneckerRidge without effects of tasks": Entry(
        lambda: KroneckerRidge(0.5, constants=(0.0, 2.0)),
        forms=("weights",),
        formulas=EXACT,
        twin=Twin("kronecker", 0.5, levels=(0.0, 2.0)),
        skip=VARIANT,
    ),
    "PairKernelRidge": Entry(
        lambda: PairKernelRidge(0.5 + 0.4 * 0.2, per_task=0.2, per_instance=0.4),
        formulas=EXACT,
        twin=Twin("kronecker", 0.5, identity=(0.4, 0.2), forms=("full", "missing", "list")),
    ),
    "PairKernelRidge with other constants": Entry(
        lambda: PairKernelRidge(
            0.5 + 0.4 * 0.2, per_task=0.2, per_instance=0.4, constants=(0.3, 4.0)
        ),
        forms=("missing",),
        formulas=EXACT,
        twin=Twin("kronecker", 0.5, identity=(0.4, 0.2), levels=(0.3, 4.0)),
        skip=VARIANT,
    ),
    "PairKernelRidge without product": Entry(
        lambda: PairKernelRidge(0.5, product=0.0, per_task=1.0, per_instance=0.5),
        forms=PLAIN,
        formulas=EXACT,
        skip=VARIANT,
    ),
    "IndependentTaskRidgeCV": Entry(
        lambda: IndependentTaskRidgeCV(ALPHAS, **SEARCH),
        settings="AB",
        forms=PLAIN,
        formulas=EXACT,
        skip=SEARCHED,
    ),
    "TwoStepRidgeCV": Entry(
        lambda: TwoStepRidgeCV(ALPHAS, 2.0, **SEARCH), forms=PLAIN, formulas=IN_CELLS
    ),
    "symmetric network, searched": Entry(
        _network("symmetric", TwoStepRidgeCV, alphas=ALPHAS, setting="A", **SEARCH),
        **NETWORK,
        skip=VARIANT,
    ),
    "antisymmetric network, searched": Entry(
        _network("antisymmetric", TwoStepRidgeCV, alphas=ALPHAS, setting="A", **SEARCH, **RBF),
        forms=("full",),
        formulas=EXACT,
        skip=VARIANT,
    ),
    "KroneckerRidgeCV": Entry(
        lambda: KroneckerRidgeCV(ALPHAS, **SEARCH),
        forms=PLAIN,
        formulas=EXACT,
        skip={"threads": SEARCHED["threads"]},
    ),
    "PairKernelRidgeCV": Entry(
        lambda: PairKernelRidgeCV(ALPHAS, shares=SHARES, **SEARCH),
        forms=PLAIN,
        formulas=EXACT,
        skip=SEARCHED,
    ),
    "LearnedKernelRidge": Entry(
        lambda: LearnedKernelRidge(
            setting="A", stages=1, n_steps=1, cv=2, random_state=0, progress=False
        ),
        is_exact=False,
        skip={"order": "folds are drawn by position"},
        formulas={"full": "ABCD", "missing": "BCD", "weights": "BCD"},
    ),
    "TwoStepRegressor": Entry(
        lambda: TwoStepRegressor(ShortRidge(0.5), ShortRidge(2.0)),
        forms=PLAIN,
        skip={
            "libraries": "the regressors of scikit-learn take arrays of numpy",
            "explain": "predictions have no closed form",
            "threads": "hold-out reads the data of a fit one after the other",
        },
    ),
    "OnlineTwoStepRidge": Entry(
        lambda: OnlineTwoStepRidge(0.5, 2.0),
        # With complete labels, setting A completes the left-out pair by both steps.
        settings={"full": "BCD"},
        forms=PLAIN,
        skip={"threads": "fit forgets before it learns"},
    ),
    "OnlineTwoStepRidge with labels": Entry(
        lambda: OnlineTwoStepRidge(0.5, 2.0, keep_labels=True),
        settings={"full": "BCD"},
        forms=PLAIN,
        skip={"threads": "fit forgets before it learns"},
    ),
    "OnlineTwoStepRidge with terms": Entry(
        lambda: OnlineTwoStepRidge(0.5, 2.0, keep_labels=True, row_alpha=3.0),
        # Terms of known rows are refitted in models/test_online_rows.py.
        is_exact=False,
        forms=PLAIN,
        skip=VARIANT | {"vector": "terms need features of tasks"},
    ),
    "PairRegressor": Entry(
        lambda: GridOfPairs(KroneckerRidge(0.5)),
        forms=("missing", "weights"),
        skip=ANOTHER_INPUT,
        formulas=EXACT,
        twin=Twin("kronecker", 0.5),
    ),
    "PlainRidge of CONTRIBUTING": Entry(
        PlainRidge,
        forms=("full", "missing", "weights"),
        formulas=EXACT,
        twin=Twin("kronecker"),
        skip=VARIANT,
    ),
}
