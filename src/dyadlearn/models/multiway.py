"""Ridge regression on cells of three and more sides, with terms, fixed effects and variance components."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import comb
from scipy.stats import chi2
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import (
    Array,
    as_array_of,
    epsilon,
    itemsize,
    namespace,
    on_device,
    row_blocks,
    to_numpy,
)
from dyadlearn._checks import check_alpha, check_choice, check_flag, check_share, check_whole
from dyadlearn._codes import Column, group_codes
from dyadlearn._rounding import warn_of_rounding
from dyadlearn._state import Stored, StoredEstimator, is_shaped
from dyadlearn._tables import shown
from dyadlearn.holdout.cell_units import CellUnits
from dyadlearn.holdout.intervals import jackknife_plus
from dyadlearn.labels import values_of_rows, weights_of_rows
from dyadlearn.learning.variances import (
    Estimate,
    VarianceProblem,
    given,
    least_error,
    most_likely,
)
from dyadlearn.leverage import nothing_left
from dyadlearn.models.cells import (
    CellSide,
    FixedColumns,
    ids_of,
    not_estimable,
    read_columns,
    side_kernel,
)
from dyadlearn.pairing.multiway import RESIDUAL, CellTerms, canonical, parse_terms
from dyadlearn.pairing.remembering import last_inverse
from dyadlearn.settings import NewSides
from dyadlearn.solve.fixed import FixedPart
from dyadlearn.solve.inverse import CellsInverse

_ESTIMATED = ("likelihood", "holdout")


class LikelihoodRatio(NamedTuple):
    """Comparison of two restricted likelihoods.

    Attributes
    ----------
    statistic : float
        Twice the difference of the log likelihoods.
    p_value : float
        Probability of a statistic as large if the variances of the additional terms are zero.
    """

    statistic: float
    p_value: float


class Effects(NamedTuple):
    """Effects of a term.

    Attributes
    ----------
    levels : list of tuples
        Levels of the sides of the term.
    effects, deviations : arrays of shape (a,)
        Predicted effects, and the standard deviations of their errors.
    reliabilities : array of shape (a,)
        Squared correlation of predicted and true effects; NaN for a variance of zero.
    """

    levels: list[tuple[Any, ...]]
    effects: np.ndarray
    deviations: np.ndarray
    reliabilities: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedMultiway(Stored):
    """A fitted model of cells: sides, terms, fixed columns, labels, variances and solution.

    Attributes
    ----------
    sides : tuple of CellSide
    terms : tuple of tuples of int
        Sides of each term.
    alike : (int, int) or None
        Two sides whose order does not matter.
    fixed : FixedColumns
    columns : array of shape (n, r)
        Orthonormal fixed columns of the labels.
    places : tuple of integer arrays of shape (n,)
        Level of each side, for each label: position among the levels with labels.
    values : array of shape (n,)
        Labels.
    weights : array of shape (n,) or None
    rows : integer array of shape (n,)
        Rows of the table that have a label.
    n_rows : int
        Number of rows of the table.
    variances, errors : arrays of shape (t + 1,)
        Variances of the terms and of the noise with their standard errors.
    log_likelihood : float
        Restricted log likelihood.
    is_likely : bool
        Whether the variances have the greatest restricted likelihood.
    duals, coefficients : arrays of shape (n,) and (r,)
        Solution; empty before it is computed.
    device : str or None
    """

    sides: tuple[CellSide, ...]
    terms: tuple[tuple[int, ...], ...]
    alike: tuple[int, int] | None
    fixed: FixedColumns
    columns: np.ndarray
    places: tuple[np.ndarray, ...]
    values: np.ndarray
    weights: np.ndarray | None
    rows: np.ndarray
    n_rows: int
    variances: np.ndarray
    errors: np.ndarray
    log_likelihood: float
    is_likely: bool
    duals: np.ndarray
    coefficients: np.ndarray
    device: str | None = None

    #: Why answers about pairs are not available; the end of error messages.
    not_of_pairs = (
        "its labels belong to cells of any number of sides, not to pairs of an instance and a task. "
        "It has evaluate(new=), holdout(), effects(), contributions(), label_weights() and "
        "likelihood_ratio()"
    )

    def _fits(self) -> bool:
        n = len(self.values)
        shapes = [
            is_shaped(self.columns, n, self.fixed.basis.shape[1]),
            is_shaped(self.duals, n),
            is_shaped(self.weights, n),
            is_shaped(self.coefficients, self.fixed.basis.shape[1]),
            is_shaped(self.variances, len(self.terms) + 1),
            is_shaped(self.errors, len(self.terms) + 1),
            self.rows.shape == (n,) and (self.rows < self.n_rows).all(),
            len(self.places) == len(self.sides),
        ]
        for side, at in zip(self.sides, self.places, strict=False):
            is_in = at.shape == (n,) and at.dtype.kind in "iu" and (at >= 0).all()
            shapes.append(bool(is_in and (at < len(side.labelled)).all()))
        shapes += [side in range(len(self.sides)) for term in self.terms for side in term]
        return all(shapes)

    # --- the model --------------------------------------------------------------------------------

    @property
    def side_names(self) -> tuple[str, ...]:
        """Names of the sides."""
        return tuple(side.name for side in self.sides)

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the terms, such as "mother:father"."""
        names = self.side_names
        return tuple(":".join(names[side] for side in term) for term in self.terms)

    @cached_property
    def like(self) -> Array:
        """Labels minus `shift`, on the device of the model."""
        centred = self.values - self.shift
        return centred if self.device is None else on_device(centred, self.device)

    @property
    def shift(self) -> float:
        """Number that is subtracted from the labels, so that a large mean costs no digits; 0 without a constant."""
        return float(np.mean(self.values)) if self.fixed.has_constant else 0.0

    @cached_property
    def cell_terms(self) -> CellTerms:
        """Terms of the kernel between the labels."""
        kernels = []
        for side in self.sides:
            kernel = side.kernel
            kernels.append(None if kernel is None else self._placed(kernel))
        return CellTerms(tuple(kernels), self.places, self.terms, self.like, self.alike)

    def _placed(self, values: Any) -> Array:
        return as_array_of(to_numpy(values), self.like, self.like.dtype)

    @cached_property
    def problem(self) -> VarianceProblem:
        """The labels as a problem of unknown variances."""
        weights = np.ones(len(self.values)) if self.weights is None else self.weights
        return VarianceProblem(
            self.cell_terms,
            FixedPart(self._placed(self.columns)),
            self._placed(1.0 / weights),
            self.like,
            (*self.term_names, RESIDUAL),
        )

    def inverse(self) -> CellsInverse:
        """Return the inverse of the covariance of the labels, which is remembered until another one is computed."""
        n_bytes = float(len(self.values)) ** 2 * itemsize(self.like)
        problem = self.problem
        variances = self.variances

        def compute() -> CellsInverse:
            inverse = problem.inverse(variances)
            sizes = variances[:-1] @ problem.sizes[:-1]
            least = float(namespace(problem.noise).min(problem.noise)) * variances[-1]
            return replace(inverse, rounding=epsilon(problem.noise) * sizes / least)

        inverse: CellsInverse = last_inverse.of(self, "cells", compute, n_bytes, self.like)
        warn_of_rounding(inverse.rounding)
        return inverse

    def solved(self, estimate: Estimate, is_likely: bool) -> FittedMultiway:
        """Return the model with variances, and its solution."""
        fitted = replace(
            self,
            variances=estimate.variances,
            errors=estimate.errors,
            log_likelihood=float(estimate.value),
            is_likely=is_likely,
        )
        for name in ("like", "cell_terms", "problem"):
            if name in vars(self):
                vars(fitted)[name] = vars(self)[name]
        inverse = fitted.inverse()
        duals = inverse.times(fitted.like[:, None])[:, 0]
        coefficients = np.zeros(0)
        if inverse.fixed is not None:
            coefficients = to_numpy(inverse.fixed.coefficients(fitted.like))
        # The inverse that is remembered belongs to the same object.
        object.__setattr__(fitted, "duals", to_numpy(duals))
        object.__setattr__(fitted, "coefficients", coefficients)
        return fitted

    # --- predictions ------------------------------------------------------------------------------

    def asked(self, table: Any) -> _Asked:
        """Return cells to predict; None are those of the labels."""
        if table is None:
            at = [side.labelled[here] for side, here in zip(self.sides, self.places, strict=True)]
            return _Asked(at, self.columns)
        columns = read_columns(table, [*self.side_names, *self.fixed.names])
        n = len(next(iter(columns.values())))
        at = []
        for side in self.sides:
            at.append(side.find(ids_of(columns[side.name], side.name)))
        fixed = {name: columns[name] for name in self.fixed.names}
        return _Asked(at, self.fixed.orthonormal(fixed, n))

    def blocks(self, asked: _Asked) -> Iterator[tuple[slice, list[Array]]]:
        """Yield slices of cells, with each term times its variance between them and the labels."""
        n_values = len(self.values) * (len(self.terms) + 2 * len(self.sides) + 4)
        for here in row_blocks(asked.size, n_values * itemsize(self.like)):
            rows = []
            for side, at in zip(self.sides, asked.at, strict=True):
                rows.append(side.rows_of(at[here], self.like))
            terms = self.cell_terms.between(rows)
            yield here, [v * term for v, term in zip(self.variances, terms, strict=False)]

    def priors(self, asked: _Asked) -> np.ndarray:
        """Return the prior variance (t, a) of each term."""
        diagonals = [side.diagonal(at) for side, at in zip(self.sides, asked.at, strict=True)]
        between = None
        if self.alike is not None:
            between = self._between_alike(asked)
        priors = self.cell_terms.priors([to_numpy(each) for each in diagonals], between)
        return self.variances[:-1, None] * np.stack(priors)

    def _between_alike(self, asked: _Asked) -> np.ndarray:
        """Return the kernel between the two levels of each cell whose order does not matter."""
        assert self.alike is not None
        first, second = (asked.at[side] for side in self.alike)
        side = self.sides[self.alike[0]]
        if side.spec is None:
            return np.asarray(first == second, dtype=float)
        levels, number = np.unique(np.concatenate([first, second]), return_inverse=True)
        kernel = to_numpy(side.between(levels, levels))
        return np.asarray(kernel[number[: len(first)], number[len(first) :]])

    def means(self, asked: _Asked) -> np.ndarray:
        """Return predictions (a,)."""
        return np.asarray(self.contributions(asked).sum(axis=1))

    def contributions(self, asked: _Asked) -> np.ndarray:
        """Return the parts (a, t + 1) of predictions: fixed effects, and each term."""
        parts = np.empty((asked.size, len(self.terms) + 1))
        parts[:, 0] = asked.columns @ self.coefficients + self.shift
        duals = self._placed(self.duals)
        for here, terms in self.blocks(asked):
            for place, term in enumerate(terms):
                parts[here, place + 1] = to_numpy(term @ duals)
        return parts

    def deviations(self, asked: _Asked) -> np.ndarray:
        """Return the standard deviations (a,) of the errors of predictions, for labels without noise."""
        inverse = self.inverse()
        prior = self.priors(asked).sum(axis=0)
        variance = np.empty(asked.size)
        for here, terms in self.blocks(asked):
            kernel = sum(terms)
            explained = to_numpy(namespace(kernel).sum(kernel.T * inverse.times(kernel.T), axis=0))
            variance[here] = prior[here] - explained
            if inverse.fixed is not None:
                within = inverse.fixed.along.T @ kernel.T
                columns = self._placed(asked.columns[here]).T
                of_fixed = inverse.fixed.variance(columns - within) - inverse.fixed.variance(within)
                variance[here] += to_numpy(of_fixed)
        return np.sqrt(variance.clip(0.0))

    def label_weights(self, asked: _Asked) -> np.ndarray:
        """Return the weight (a, n) of each label in each prediction."""
        inverse = self.inverse()
        weights = np.empty((asked.size, len(self.values)))
        for here, terms in self.blocks(asked):
            solved = inverse.times(sum(terms).T).T
            if inverse.fixed is not None:
                solved = solved + self._placed(asked.columns[here]) @ inverse.fixed.of_labels
            weights[here] = to_numpy(solved)
        return weights

    def effects(self, term: str, table: Any) -> Effects:
        """Return the effects of a term, as `MultiwayRidge.effects` does."""
        place = self.term_at(term)
        sides = self.terms[place]
        if self.alike is not None and set(sides) & set(self.alike):
            sides = tuple(sorted({*sides, *self.alike}))
        at = self._levels(sides, table)
        # Sides outside of the term do not matter.
        every = [np.zeros(len(at[0]), dtype=np.intp)] * len(self.sides)
        for side, here in zip(sides, at, strict=True):
            every[side] = here
        asked = _Asked(every, np.zeros((len(at[0]), 0)))
        prior = self.priors(asked)[place]
        inverse = self.inverse()
        effects = np.empty(asked.size)
        explained = np.empty(asked.size)
        duals = self._placed(self.duals)
        for here, terms in self.blocks(asked):
            kernel = terms[place]
            effects[here] = to_numpy(kernel @ duals)
            square = namespace(kernel).sum(kernel.T * inverse.times(kernel.T), axis=0)
            explained[here] = to_numpy(square)
        names = []
        for side, here in zip(sides, at, strict=True):
            labels = self.sides[side].ids.labels
            names.append([labels[level] for level in here])
        explained = explained.clip(0.0, prior)
        reliabilities = np.full(asked.size, np.nan)
        np.divide(explained, prior, out=reliabilities, where=prior > 0)
        levels = list(zip(*names, strict=True))
        return Effects(levels, effects, np.sqrt(prior - explained), reliabilities)

    def _levels(self, sides: Sequence[int], table: Any) -> list[np.ndarray]:
        """Return the levels of some sides: those of a table, all of one side, or those of the labels together."""
        if table is not None:
            columns = read_columns(table, [self.sides[side].name for side in sides])
            return [self.sides[side].find(columns[self.sides[side].name]) for side in sides]
        if len(sides) == 1:
            return [np.arange(len(self.sides[sides[0]].ids))]
        at = [self.sides[side].labelled[self.places[side]] for side in sides]
        return list(np.unique(np.stack(at), axis=1))

    def term_at(self, term: str) -> int:
        """Return the position of a term by its name, whatever the order of its sides."""
        wanted = frozenset(term.split(":")) if isinstance(term, str) else frozenset()
        for place, name in enumerate(self.term_names):
            if frozenset(name.split(":")) == wanted:
                return place
        raise ValueError(
            f"{term!r} is not a term of the model: its terms are {shown(self.term_names, 20)}."
        )

    # --- hold-out ---------------------------------------------------------------------------------

    def setting(self, new: Any) -> NewSides:
        """Return the setting in which some sides are new, given by their names."""
        names = (new,) if isinstance(new, str) else tuple(new)
        for name in names:
            if name in self.fixed.names and name not in self.side_names:
                levels = self.fixed.levels[self.fixed.names.index(name)]
                if levels:
                    raise not_estimable(name, levels[0], "is to be left out")
            if name not in self.side_names:
                raise ValueError(
                    f"new names {name!r}, which is no side of the model: its sides are "
                    f"{shown(self.side_names, 20)}."
                )
        axes = sorted({self.side_names.index(name) for name in names})
        return NewSides(tuple(axes), tuple(self.side_names[axis] for axis in axes))

    def units(self, setting: NewSides, groups: Any = None) -> CellUnits:
        """Return what a setting leaves out; raise if a fixed effect is not estimable then."""
        codes = self._groups(setting, {} if groups is None else groups)
        units = CellUnits.of(self.places, setting.new, self.alike, codes)
        if self.columns.shape[1] > int(self.fixed.has_constant):
            for _, members in units.sets():
                self._check_estimable(members)
        return units

    def _groups(self, setting: NewSides, groups: Mapping[str, Any]) -> list[np.ndarray | None]:
        """Return the group of each level of each side."""
        codes: list[np.ndarray | None] = [None] * len(self.sides)
        for name, of_rows in groups.items():
            if name not in setting.names:
                raise ValueError(
                    f"groups has {name!r}, which is not new: the new sides are "
                    f"{list(setting.names)}."
                )
            side = self.side_names.index(name)
            if self.alike is not None and side in self.alike:
                raise ValueError(
                    f"groups of {name!r} are not available, because its levels are also on another "
                    f"side: leave symmetric out, or the groups."
                )
            of_labels = group_codes(of_rows, (self.n_rows,), f"groups[{name!r}]")[self.rows]
            of_levels = np.zeros(len(self.sides[side].labelled), dtype=np.intp)
            of_levels[self.places[side]] = of_labels
            if (of_levels[self.places[side]] != of_labels).any():
                raise ValueError(
                    f"groups[{name!r}] gives one level of {name!r} several groups: give all rows "
                    f"of a level the same group."
                )
            codes[side] = of_levels
        return codes

    def _check_estimable(self, members: np.ndarray) -> None:
        """Raise if the labels do not determine the fixed effects without some of them."""
        if len(members) == len(self.values):
            raise nothing_left()
        word = self.fixed.lost(self.columns, members)
        if word is not None:
            name, _, level = word.partition("=")
            raise not_estimable(name, level or "", "only labels that are left out together have")

    def held_out(self, units: CellUnits) -> np.ndarray:
        """Return the prediction (n,) of each label by the model without what its conditions leave out."""
        return to_numpy(units.left_out(self.inverse(), self.like)) + self.shift

    def bounds(
        self, asked: _Asked, setting: NewSides, coverage: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return prediction intervals, as `MultiwayRidge.predict_interval` does."""
        units = self.units(setting)
        residuals = self.values - self.held_out(units)
        predicted = self.means(asked)
        codes = units.as_partition
        if codes is None:
            models = np.repeat(predicted[:, None], len(residuals), axis=1)
        else:
            lost = np.zeros((asked.size, int(codes.max()) + 1))
            parts = self.label_weights(asked) * residuals
            for unit in range(lost.shape[1]):
                lost[:, unit] = parts[:, codes == unit].sum(axis=1)
            models = predicted[:, None] - lost[:, codes]
        lower, upper = jackknife_plus(
            models[:, None, :],
            np.abs(residuals)[:, None],
            (np.zeros(asked.size), None),
            np.arange(len(residuals)),
            coverage,
        )
        return lower[:, 0], upper[:, 0]

    # --- variances --------------------------------------------------------------------------------

    def heritability(self, terms: Sequence[str]) -> float:
        """Return the share of some terms in the variance of a label of weight one."""
        sizes = self.problem.sizes.copy()
        sizes[-1] = 1.0
        shares = self.variances * sizes
        at = sorted({self.term_at(term) for term in terms})
        return float(shares[at].sum() / shares.sum())

    def likelihood_ratio(self, other: FittedMultiway) -> LikelihoodRatio:
        """Return the comparison with a model of fewer terms, as `MultiwayRidge.likelihood_ratio` does."""
        if not (self.is_likely and other.is_likely):
            raise ValueError(
                "Likelihoods are compared at their maximum: fit both models with "
                "variances='likelihood'."
            )
        same = [np.array_equal(self.values, other.values), self._weighs_as(other)]
        if not all(same):
            raise ValueError("Both models must be fitted on the same labels and weights.")
        shared = np.linalg.norm(self.columns.T @ other.columns) ** 2
        ranks = (self.columns.shape[1], other.columns.shape[1])
        if ranks[0] != ranks[1] or abs(shared - ranks[0]) > 1e-8:
            raise ValueError(
                "Restricted likelihoods are comparable only for equal fixed effects: fit both "
                "models with the same fixed columns and fit_intercept."
            )
        more = set(self.term_names) - set(other.term_names)
        if not more or set(other.term_names) - set(self.term_names):
            raise ValueError("The other model must have some of the terms of this one, not others.")
        statistic = max(0.0, 2.0 * (self.log_likelihood - other.log_likelihood))
        # At the border of zero variances, each of them is zero in half of all samples.
        p_value = sum(
            comb(len(more), k) / 2.0 ** len(more) * (chi2.sf(statistic, k) if k else statistic == 0)
            for k in range(len(more) + 1)
        )
        return LikelihoodRatio(statistic, float(p_value))

    def _weighs_as(self, other: FittedMultiway) -> bool:
        weights = [1.0 if each.weights is None else each.weights for each in (self, other)]
        return bool(np.all(weights[0] == weights[1]))


class _Asked(NamedTuple):
    """Cells to predict: the position of the level of each side (a,), and the orthonormal fixed columns (a, r)."""

    at: list[np.ndarray]
    columns: np.ndarray

    @property
    def size(self) -> int:
        return len(self.columns)


class MultiwayRidge(StoredEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Ridge regression on cells of any number of sides, with terms, fixed effects and variance components.

    A label belongs to a cell, one level of each side: a mother, a father and an environment. The
    label is a sum of fixed effects, of an effect of each *term*, a side or an interaction of sides,
    and of noise,

    .. math:: \mathbf{y} = \mathbf{X}\boldsymbol\beta + \sum_T \mathbf{u}_T + \mathbf{e}, \qquad
              \mathrm{Cov}(\mathbf{u}_T) = v_T \prod_{s \in T} \mathbf{K}_s, \qquad
              \mathrm{Var}(e) = v_e / w .

    With a kernel for each side it predicts cells whose levels have no label, and `holdout` is exact
    in all settings: for every label, the prediction without all labels that share its level of any
    of the new sides. It takes one dense inverse over the n labels.

    Parameters
    ----------
    terms : str, or list of str or of lists of str, default=None
        Names of columns with ``+`` between terms, such as ``"mother + father + mother:father"``.
        ``a:b`` is the interaction of two sides, and ``a*b`` is short for ``a + b + a:b``. None
        means a main effect of every column that is not fixed.
    entities : dict of str to table, default=None
        For each side with a description, features of its levels or the kernel between them, with
        ids as in `PairRegressor`. The levels of a side without one have independent effects: its
        kernel is the identity.
    kernels : dict of str to str or callable, default=None
        Kernel of each side with a description: a name of `dyadlearn.kernels.kernel_names`,
        ``"precomputed"``, or a function of two tables. The default is ``"linear"``.
    kernel_params : dict of str to dict, default=None
        Parameters of the kernel of each side.
    fixed : str or sequence of str, default=()
        Columns with fixed effects: numbers, or categories if they are text, booleans or a
        categorical column.
    variances : {"likelihood", "holdout"} or dict of str to float, default="likelihood"
        Variance of each term. The restricted likelihood estimates them with standard errors;
        ``"holdout"`` minimises the squared held-out error with the sides `new`; a dict gives a
        number for each term and for ``"residual"``, which is 1 by default.
    new : str or sequence of str, default=()
        Sides that are left out, for ``variances="holdout"``.
    symmetric : (str, str), default=None
        Two sides with the same levels whose order does not matter, such as the parents of a hybrid.
        A main effect of one is that of both, see `dyadlearn.kernels.pairs_of`.
    fit_intercept : bool, default=True
        Whether there is a constant that is not penalised.
    repair : {"clip", "shift", "error"}, default="clip"
        Treatment of kernels that are not positive semi-definite.
    device : str, default=None
        Device such as ``"cuda"`` that computes with torch or cupy.
    max_iter : int, default=100
        Most iterations of the restricted likelihood.

    Attributes
    ----------
    fitted_ : FittedMultiway
        The fitted model.
    variances_, standard_errors_ : dict of str to float
        Variance of each term and of the noise of a label of weight one, for the kernels as they
        are; standard errors are NaN where there are none.
    log_likelihood_ : float
        Restricted log likelihood; it does not depend on the coding of the fixed columns.
    fixed_effects_ : dict of str to float
        Coefficients of the fixed columns; the smallest ones if they are confounded.
    terms_, sides_ : tuple of str
        Names of the terms and of the sides.
    n_features_in_ : int
        Number of columns of the training table that the model uses.

    See Also
    --------
    KroneckerRidge : two sides, at scale.

    Notes
    -----
    Memory is :math:`8n^2` bytes, twice that for variances, and time :math:`n^3` for each step of
    the likelihood. A variance below 1e-6 of the total is zero and has no standard error. Terms that
    are confounded on the labels are refused by name if variances are estimated, and so are levels
    that only a fixed effect describes where these are left out or predicted.

    With ``terms="a*b"`` and equal variances the model is `KroneckerRidge`, and with ``terms="a:b"``
    and ``fit_intercept=False`` the same model without an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import MultiwayRidge
    >>> rng = np.random.default_rng(0)
    >>> cells = {name: rng.integers(0, 12, 300).astype(str) for name in ("mother", "father", "trial")}
    >>> effects = {name: rng.normal(size=12) for name in cells}
    >>> y = sum(effects[name][column.astype(int)] for name, column in cells.items())
    >>> y = y + 0.5 * rng.normal(size=300)
    >>> model = MultiwayRidge("mother + father", fixed="trial").fit(cells, y)
    >>> {name: round(variance, 2) for name, variance in model.variances_.items()}
    {'mother': 0.4, 'father': 0.72, 'residual': 0.25}
    >>> held_out = model.holdout(new=("mother", "father"))
    >>> model.predict({"mother": ["new"], "father": ["3"], "trial": ["7"]}).shape
    (1,)
    """

    fitted_: FittedMultiway

    def __init__(
        self,
        terms: Any = None,
        *,
        entities: Any = None,
        kernels: Any = None,
        kernel_params: Any = None,
        fixed: Any = (),
        variances: Any = "likelihood",
        new: Any = (),
        symmetric: Any = None,
        fit_intercept: bool = True,
        repair: str = "clip",
        device: str | None = None,
        max_iter: int = 100,
    ) -> None:
        self.terms = terms
        self.entities = entities
        self.kernels = kernels
        self.kernel_params = kernel_params
        self.fixed = fixed
        self.variances = variances
        self.new = new
        self.symmetric = symmetric
        self.fit_intercept = fit_intercept
        self.repair = repair
        self.device = device
        self.max_iter = max_iter

    def fit(self, table: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model on a long table of cells.

        Parameters
        ----------
        table : frame, dict of columns, or array of shape (n, c)
            A row for each label, and a column for each side and fixed effect; the columns of an
            array are called x0, x1 and so on. A cell may have several rows.
        y : array, list or series of shape (n,)
            Labels. Rows with NaN are left out.
        sample_weight : array, list or series of shape (n,), default=None
            Weights w of the labels, at least 0. Rows of weight 0 are left out.

        Returns
        -------
        self
        """
        unsolved = _read(self, table, y, sample_weight)
        estimate = self._estimate(unsolved)
        self.fitted_ = unsolved.solved(estimate, self.variances == "likelihood")
        return self

    def _estimate(self, fitted: FittedMultiway) -> Estimate:
        """Return the variances: estimated or given."""
        problem = fitted.problem
        if isinstance(self.variances, Mapping):
            return given(problem, _given_variances(self.variances, fitted.term_names))
        if self.variances == "likelihood":
            return most_likely(problem, check_whole(self.max_iter, "max_iter"))
        units = fitted.units(fitted.setting(self.new))

        def error(inverse: CellsInverse) -> float:
            gaps = problem.labels - units.left_out(inverse, problem.labels)
            return float(namespace(gaps).mean(gaps**2 / problem.noise))

        problem.check()
        return least_error(problem, error)

    def _check_params(self) -> None:
        check_flag(self.fit_intercept, "fit_intercept")
        check_choice(self.repair, "repair", ("clip", "shift", "error"))
        if not isinstance(self.variances, Mapping) and self.variances not in _ESTIMATED:
            raise ValueError(
                f"variances must be 'likelihood', 'holdout' or a dict with a number for each term, "
                f"found {self.variances!r}."
            )

    # --- predictions ------------------------------------------------------------------------------

    def predict(self, table: Any, return_std: bool = False) -> Any:
        """Predict the labels of cells, optionally with standard deviations.

        Parameters
        ----------
        table : frame, dict of columns, or array
            A row for each cell, with the columns of the training table. A level of a side without a
            description may be new: its effect is then zero.
        return_std : bool, default=False
            Whether to return the standard deviations of the prediction errors too, for a label
            without its noise. They include those of the fixed effects, but not of the variances.

        Returns
        -------
        predictions : array of shape (a,)
        deviations : array of shape (a,)
            Only with ``return_std=True``.
        """
        fitted = self._fitted()
        asked = fitted.asked(table)
        if return_std:
            return fitted.means(asked), fitted.deviations(asked)
        return fitted.means(asked)

    def predict_interval(
        self, table: Any, *, coverage: float = 0.9, new: Any = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return prediction intervals of cells of which some sides are new.

        If no side or one side is new, they are jackknife+ intervals of leave-one-out, which contain
        a label with probability at least ``2 * coverage - 1``, in practice about `coverage`, if
        levels are exchangeable. With several new sides they have the width of the held-out
        residuals, without a guarantee.

        Parameters
        ----------
        table : as in `predict`
        coverage : float, default=0.9
        new : str or sequence of str, default=()
            Sides that are new.

        Returns
        -------
        lower, upper : arrays of shape (a,)
        """
        coverage = check_share(coverage, "coverage")
        fitted = self._fitted()
        return fitted.bounds(fitted.asked(table), fitted.setting(new), coverage)

    def contributions(self, table: Any = None) -> dict[str, np.ndarray]:
        """Return the parts of predictions: that of the fixed effects, and that of each term.

        Parameters
        ----------
        table : as in `predict`, default=None
            None means the cells of the labels.

        Returns
        -------
        dict of str to array of shape (a,)
            Their sum is the prediction.
        """
        fitted = self._fitted()
        parts = fitted.contributions(fitted.asked(table))
        return dict(zip(("fixed", *fitted.term_names), parts.T, strict=True))

    def effects(self, term: str, table: Any = None) -> dict[str, Any]:
        """Return the effects of a term, such as the breeding values of all mothers.

        Parameters
        ----------
        term : str
            Name of a term, such as ``"mother"`` or ``"mother:father"``.
        table : frame or dict of columns, default=None
            Levels of the sides of the term. None means all levels of a side, also those without a
            label, or the combinations of an interaction that have a label.

        Returns
        -------
        dict of str to list or array
            Columns of a data frame: a column for each side of the term, ``effect``, ``std``, the
            standard deviation of its error, and ``reliability``, the squared correlation of the
            predicted and the true effect.
        """
        fitted = self._fitted()
        found = fitted.effects(term, table)
        sides = fitted.terms[fitted.term_at(term)]
        if fitted.alike is not None and set(sides) & set(fitted.alike):
            sides = tuple(sorted({*sides, *fitted.alike}))
        columns: dict[str, Any] = {}
        for side, levels in zip(sides, zip(*found.levels, strict=True), strict=True):
            columns[fitted.sides[side].name] = list(levels)
        columns["effect"] = found.effects
        columns["std"] = found.deviations
        columns["reliability"] = found.reliabilities
        return columns

    def label_weights(self, table: Any) -> np.ndarray:
        """Return the weight of each label in each prediction, shape (a, n_rows); 0 for rows that were left out."""
        fitted = self._fitted()
        weights = np.zeros((fitted.asked(table).size, fitted.n_rows))
        weights[:, fitted.rows] = fitted.label_weights(fitted.asked(table))
        return weights

    def holdout(self, new: Any = (), *, groups: Any = None) -> np.ndarray:
        """Predict every label by the model that was fitted without all labels that share a new level with it.

        The predictions are exact, with the variances and kernels of the model.

        Parameters
        ----------
        new : str or sequence of str, default=()
            Sides that are new. None of them means a new cell: all labels of the cell are left out.
        groups : dict of str to array-like of shape (n_rows,), default=None
            For a new side, the group of the level of each row; a group is left out together.

        Returns
        -------
        array of shape (n_rows,)
            NaN for rows that were left out of the fit.

        Raises
        ------
        ValueError
            If the other labels do not determine a fixed effect.
        """
        fitted = self._fitted()
        held_out = np.full(fitted.n_rows, np.nan)
        held_out[fitted.rows] = fitted.held_out(fitted.units(fitted.setting(new), groups))
        return held_out

    # --- variances --------------------------------------------------------------------------------

    @property
    def variances_(self) -> dict[str, float]:
        """Variance of each term and of the noise of a label of weight one."""
        fitted = self._fitted()
        return dict(zip(fitted.problem.names, fitted.variances.tolist(), strict=True))

    @property
    def standard_errors_(self) -> dict[str, float]:
        """Standard error of each variance; NaN where there is none."""
        fitted = self._fitted()
        return dict(zip(fitted.problem.names, fitted.errors.tolist(), strict=True))

    @property
    def log_likelihood_(self) -> float:
        """Restricted log likelihood."""
        return self._fitted().log_likelihood

    @property
    def fixed_effects_(self) -> dict[str, float]:
        """Coefficients of the fixed columns."""
        fitted = self._fitted()
        values = fitted.fixed.basis @ fitted.coefficients
        if fitted.fixed.has_constant:
            values[0] += fitted.shift
        return dict(zip(fitted.fixed.words, values.tolist(), strict=True))

    @property
    def terms_(self) -> tuple[str, ...]:
        """Names of the terms."""
        return self._fitted().term_names

    @property
    def sides_(self) -> tuple[str, ...]:
        """Names of the sides."""
        return self._fitted().side_names

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        """Number of columns of the training table that the model uses."""
        fitted = self._fitted()
        return len(fitted.sides) + len(fitted.fixed.names)

    def heritability(self, *terms: str) -> float:
        """Return the share of some terms in the variance of a label of weight one.

        Before, each kernel is scaled to mean(diagonal) − mean = 1 on the cells of the labels
        (Legarra 2016, Theor. Popul. Biol. 107:26), so that a variance is that among the labels.
        """
        return self._fitted().heritability(terms)

    def likelihood_ratio(self, other: MultiwayRidge) -> LikelihoodRatio:
        r"""Return the likelihood ratio test of the terms that another model lacks.

        Parameters
        ----------
        other : MultiwayRidge
            A model of some of the terms, fitted on the same labels with the same fixed columns.

        Returns
        -------
        LikelihoodRatio
            The p-value is that of the mixture of :math:`\chi^2` distributions at the border of
            zero variances (Self and Liang 1987, J. Am. Stat. Assoc. 82:605).
        """
        return self._fitted().likelihood_ratio(other._fitted())

    def _fitted(self) -> FittedMultiway:
        check_is_fitted(self)
        return self.fitted_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Columns of ids, not a matrix of features.
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


# Reading of the training table ----------------------------------------------------------------------


def _read(model: MultiwayRidge, table: Any, y: Any, sample_weight: Any) -> FittedMultiway:
    """Return the model of a training table, without variances and solution."""
    model._check_params()
    columns = read_columns(table)
    n_rows = len(next(iter(columns.values()), ()))
    fixed_names = (model.fixed,) if isinstance(model.fixed, str) else tuple(model.fixed)
    if model.terms is None:
        parsed = [(name,) for name in columns if name not in fixed_names]
    else:
        parsed = parse_terms(model.terms)
    if not parsed:
        raise ValueError("terms names no side: give at least one term, such as 'mother'.")
    names = tuple(dict.fromkeys(name for sides in parsed for name in sides))
    alike = _alike(model.symmetric, names)
    columns = read_columns(columns, [*names, *fixed_names])
    values = values_of_rows(y, n_rows).astype(np.float64)
    weights = weights_of_rows(sample_weight, "sample_weight", n_rows)
    rows = np.flatnonzero(~np.isnan(values) & (weights > 0))
    if not rows.size:
        raise ValueError(f"None of {n_rows} rows has a label and a weight above 0: give some.")
    used = {name: _taken(column, rows) for name, column in columns.items()}
    sides = _sides(model, {name: ids_of(used[name], name) for name in names}, alike)
    of_fixed = {name: used[name] for name in fixed_names}
    fixed = FixedColumns.of(of_fixed, len(rows), model.fit_intercept)
    has_weights = bool((weights[rows] != 1.0).any())
    terms = [tuple(names.index(name) for name in sides) for sides in parsed]
    places = []
    for side in sides:
        places.append(np.searchsorted(side.labelled, side.find(used[side.name])))
    return FittedMultiway(
        sides=sides,
        terms=canonical(terms, alike),
        alike=alike,
        fixed=fixed,
        columns=fixed.orthonormal(of_fixed, len(rows)),
        places=tuple(places),
        values=values[rows],
        weights=weights[rows] if has_weights else None,
        rows=rows,
        n_rows=n_rows,
        variances=np.zeros(0),
        errors=np.zeros(0),
        log_likelihood=math.nan,
        is_likely=False,
        duals=np.zeros(0),
        coefficients=np.zeros(0),
        device=model.device,
    )


def _taken(column: Column, rows: np.ndarray) -> Column:
    """Return some rows of a column."""
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]


def _alike(symmetric: Any, names: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of the two sides whose order does not matter."""
    if symmetric is None:
        return None
    pair = tuple(symmetric)
    if len(pair) != 2 or not set(pair) <= set(names) or pair[0] == pair[1]:
        raise ValueError(
            f"symmetric must name two sides of the terms, such as ('first', 'second'), found "
            f"{symmetric!r}: the sides are {shown(names, 20)}."
        )
    first, second = sorted(names.index(name) for name in pair)
    return first, second


def _sides(
    model: MultiwayRidge, used: Mapping[str, Column], alike: tuple[int, int] | None
) -> tuple[CellSide, ...]:
    """Return the sides of the labels, given the ids of each."""
    given_of: dict[str, dict[str, Any]] = {}
    for parameter in ("entities", "kernels", "kernel_params"):
        given_of[parameter] = dict(getattr(model, parameter) or {})
        unknown = [name for name in given_of[parameter] if name not in used]
        if unknown:
            raise ValueError(
                f"{parameter} has {shown(unknown)}, which is no side: the sides of the terms are "
                f"{shown(list(used), 20)}."
            )
    entities = given_of["entities"]
    without = [name for name in given_of["kernels"] if name not in entities]
    names = list(used)
    pair = [] if alike is None else [names[side] for side in alike]
    if without and not set(without) <= set(pair):
        raise ValueError(
            f"kernels has {shown(without)} without entities: give the features or the kernel of "
            f"its levels in entities."
        )
    sides = []
    for name, column in used.items():
        # Sides that are alike have one table and the levels of both.
        named = next((each for each in (name, *pair) if each in entities), None)
        if name not in pair:
            named = name if name in entities else None
        spec = None
        if named is not None:
            kernel = given_of["kernels"].get(named)
            spec = side_kernel(kernel, given_of["kernel_params"].get(named), model.repair, named)
        everything = column
        if name in pair:
            everything = [*used[pair[0]], *used[pair[1]]]
        sides.append(CellSide.of(name, everything, entities.get(named), spec))
    return tuple(sides)


def _given_variances(given: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    """Return the variances of a dict, in the order of the terms; raise if one is missing or unknown."""
    by_sides = {frozenset(name.split(":")): name for name in names}
    numbers = {RESIDUAL: 1.0}
    for name, value in given.items():
        known = RESIDUAL if name == RESIDUAL else by_sides.get(frozenset(str(name).split(":")))
        if known is None:
            raise ValueError(
                f"variances has {name!r}, which is no term: the terms are {shown(names, 20)} and "
                f"{RESIDUAL!r}."
            )
        numbers[known] = check_alpha(value, f"variances[{name!r}]")
    missing = [name for name in names if name not in numbers]
    if missing:
        raise ValueError(f"variances lacks the terms {shown(missing, 20)}: give a number for each.")
    if numbers[RESIDUAL] == 0:
        raise ValueError("variances['residual'] is 0: give a number above 0.")
    return np.array([numbers[name] for name in (*names, RESIDUAL)])
