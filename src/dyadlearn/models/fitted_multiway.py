"""Fitted ridge regression on cells of any number of sides: predictions, hold-out, effects and variances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import comb
from scipy.stats import chi2

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    epsilon,
    namespace,
    on_device,
    row_blocks,
    to_numpy,
)
from dyadlearn._codes import group_codes
from dyadlearn._columns import ids_of, read_columns
from dyadlearn._rounding import warn_of_rounding
from dyadlearn._state import Stored, is_shaped
from dyadlearn._tables import in_order_of, shown
from dyadlearn.holdout.cell_units import CellUnits
from dyadlearn.holdout.intervals import jackknife_plus
from dyadlearn.learning.variances import (
    Estimate,
    VarianceProblem,
    estimate_of,
    least_error,
    most_likely,
)
from dyadlearn.leverage import nothing_left
from dyadlearn.models.cells import CellSide, FixedColumns, not_estimable
from dyadlearn.pairing.multiway import RESIDUAL, CellTerms
from dyadlearn.pairing.remembering import last_inverse
from dyadlearn.settings import NewSides
from dyadlearn.solve.crossing import crosses_all
from dyadlearn.solve.fixed import FixedPart
from dyadlearn.solve.inverse import CellsInverse

# Likelihood ratio below which two maxima are the same: both searches end a little below theirs.
_SMALLEST_RATIO = 1e-7

# Properties that are computed once and are in no file and in no pickle.
_CACHED = ("like", "cell_terms", "variance_problem")


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
    estimation : {"likelihood", "holdout", "given"}
        How the variances are estimated.
    new : tuple of str
        Sides that are new in the held-out error, for "holdout".
    max_iter : int
        Most iterations of the restricted likelihood.
    duals, coefficients : arrays of shape (n,) and (r,)
        Solution; empty before it is computed.
    device : str or None
    index : index of pandas or None
        Index of the table, which is in no file.
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
    estimation: str
    new: tuple[str, ...]
    max_iter: int
    duals: np.ndarray
    coefficients: np.ndarray
    device: str | None = None
    index: Any = field(default=None, init=False)

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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _CACHED}

    # --- the model --------------------------------------------------------------------------------

    @property
    def problem(self) -> Any:
        """Raise TypeError, because the labels are those of cells."""
        raise TypeError(
            "MultiwayRidge has no answers about pairs, because its labels belong to cells of any "
            "number of sides: use its methods holdout, effects, contributions, label_weights and "
            "likelihood_ratio, explain(model, cell), and evaluate, compare and permutation_test "
            "with new=[…]."
        )

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
        if self.device is None:
            return centred
        return on_device(centred, self.device)

    @property
    def shift(self) -> float:
        """Number that is subtracted from the labels, so that a large mean costs no digits; 0 without a constant."""
        if self.fixed.has_constant:
            return float(np.mean(self.values))
        return 0.0

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
    def variance_problem(self) -> VarianceProblem:
        """The labels as a problem of unknown variances."""
        if self.weights is None:
            weights = np.ones(len(self.values))
        else:
            weights = self.weights
        return VarianceProblem(
            self.cell_terms,
            FixedPart(self._placed(self.columns)),
            self._placed(1.0 / weights),
            self.like,
            (*self.term_names, RESIDUAL),
        )

    def inverse(self) -> CellsInverse:
        """Return the inverse of the covariance of the labels, which is remembered until another one is computed."""
        n = len(self.values)
        problem = self.variance_problem
        variances = self.variances

        def compute() -> CellsInverse:
            inverse = problem.inverse(variances)
            sizes = variances[:-1] @ problem.sizes[:-1]
            least = float(namespace(problem.noise).min(problem.noise)) * variances[-1]
            return replace(inverse, rounding=epsilon(problem.noise) * sizes / least)

        inverse: CellsInverse = last_inverse.of(
            self, "cells", compute, array_bytes(self.like, (n, n)), self.like
        )
        warn_of_rounding(inverse.rounding, name="The residual variance")
        return inverse

    def estimated(self) -> FittedMultiway:
        """Return the model with its variances, estimated unless they are given, and with its solution."""
        problem = self.variance_problem
        if self.estimation == "given":
            return self._solved(estimate_of(problem, self.variances))
        if self.estimation == "likelihood":
            return self._solved(most_likely(problem, self.max_iter))
        units = self.units(self.setting(self.new))

        def error(inverse: CellsInverse) -> float:
            gaps = problem.labels - units.left_out(inverse, problem.labels)
            return float(namespace(gaps).mean(gaps**2 / problem.noise))

        problem.check()
        return self._solved(least_error(problem, error))

    def permuted(self, names: Sequence[str], permutation: Callable[[int], np.ndarray]) -> Self:
        """Return the model, not estimated, in which levels of some sides have the descriptions of others."""
        sides = list(self.sides)
        for place, side in enumerate(self.sides):
            if self.alike is not None and place == self.alike[1]:
                sides[place] = replace(side, labelled=sides[self.alike[0]].labelled)
            elif side.name in names:
                order = permutation(len(side.labelled))
                sides[place] = replace(side, labelled=side.labelled[order])
        return replace(self, sides=tuple(sides))

    def _solved(self, estimate: Estimate) -> FittedMultiway:
        """Return the model with variances, and its solution."""
        fitted = replace(
            self,
            variances=estimate.variances,
            errors=estimate.errors,
            log_likelihood=float(estimate.value),
        )
        for name in _CACHED:
            if name in vars(self):
                vars(fitted)[name] = vars(self)[name]
        inverse = fitted.inverse()
        duals = inverse.times(fitted.like[:, None])[:, 0]
        coefficients = np.zeros(0)
        if inverse.fixed is not None:
            coefficients = to_numpy(inverse.fixed.coefficients(fitted.like))
        # The inverse that is remembered belongs to the same object.
        object.__setattr__(fitted, "index", self.index)
        object.__setattr__(fitted, "duals", to_numpy(duals))
        object.__setattr__(fitted, "coefficients", coefficients)
        return fitted

    # --- predictions ------------------------------------------------------------------------------

    def asked(self, table: Any) -> CellsAsked:
        """Return cells to predict; None are those of the labels."""
        if table is None:
            at = [side.labelled[here] for side, here in zip(self.sides, self.places, strict=True)]
            return CellsAsked(at, self.columns)
        columns = read_columns(table, [*self.side_names, *self.fixed.names])
        n = len(next(iter(columns.values())))
        at = []
        for side in self.sides:
            at.append(side.find(ids_of(columns[side.name], side.name)))
        fixed = {name: columns[name] for name in self.fixed.names}
        return CellsAsked(at, self.fixed.orthonormal(fixed, n))

    def blocks(self, asked: CellsAsked) -> Iterator[tuple[slice, list[Array]]]:
        """Yield slices of cells, with each term times its variance between them and the labels."""
        n = len(self.values)
        for here in row_blocks(asked.size, (2, len(self.terms), n), (3, len(self.sides), n)):
            rows = []
            for side, at in zip(self.sides, asked.at, strict=True):
                rows.append(side.rows_of(at[here], self.like))
            terms = self.cell_terms.between(rows)
            yield here, [v * term for v, term in zip(self.variances, terms, strict=False)]

    def priors(self, asked: CellsAsked) -> np.ndarray:
        """Return the prior variance (t, a) of each term."""
        diagonals = [side.diagonal(at) for side, at in zip(self.sides, asked.at, strict=True)]
        between = None
        if self.alike is not None:
            between = self._between_alike(asked)
        priors = self.cell_terms.priors([to_numpy(diagonal) for diagonal in diagonals], between)
        return np.asarray(self.variances[:-1, None] * np.stack(priors))

    def _between_alike(self, asked: CellsAsked) -> np.ndarray:
        """Return the kernel between the two levels of each cell whose order does not matter."""
        assert self.alike is not None
        first, second = (asked.at[side] for side in self.alike)
        side = self.sides[self.alike[0]]
        if side.spec is None:
            return np.asarray(first == second, dtype=float)
        levels, number = np.unique(np.concatenate([first, second]), return_inverse=True)
        kernel = to_numpy(side.between(levels, levels))
        return np.asarray(kernel[number[: len(first)], number[len(first) :]])

    def means(self, asked: CellsAsked) -> np.ndarray:
        """Return predictions (a,)."""
        return np.asarray(self.contributions(asked).sum(axis=1))

    def contributions(self, asked: CellsAsked) -> np.ndarray:
        """Return the parts (a, t + 1) of predictions: fixed effects, and each term."""
        parts = np.empty((asked.size, len(self.terms) + 1))
        parts[:, 0] = asked.columns @ self.coefficients + self.shift
        duals = self._placed(self.duals)
        for here, terms in self.blocks(asked):
            for place, term in enumerate(terms):
                parts[here, place + 1] = to_numpy(term @ duals)
        return parts

    def deviations(self, asked: CellsAsked) -> np.ndarray:
        """Return the standard deviations (a,) of the errors of predictions, for labels without noise."""
        inverse = self.inverse()
        prior = self.priors(asked).sum(axis=0)
        variance = np.empty(asked.size)
        for here, terms in self.blocks(asked):
            kernel = reduce(add, terms)
            variance[here] = prior[here] - _explained(inverse, kernel)
            if inverse.fixed is not None:
                within = inverse.fixed.along.T @ kernel.T
                columns = self._placed(asked.columns[here]).T
                of_fixed = inverse.fixed.variance(columns - within) - inverse.fixed.variance(within)
                variance[here] += to_numpy(of_fixed)
        return np.asarray(np.sqrt(variance.clip(0.0)))

    def label_weights(self, asked: CellsAsked) -> np.ndarray:
        """Return the weight (a, n) of each label in each prediction."""
        inverse = self.inverse()
        weights = np.empty((asked.size, len(self.values)))
        for here, terms in self.blocks(asked):
            solved = inverse.times(reduce(add, terms).T).T
            if inverse.fixed is not None:
                solved = solved + self._placed(asked.columns[here]) @ inverse.fixed.of_labels
            weights[here] = to_numpy(solved)
        return weights

    def effects(self, term: str, table: Any) -> dict[str, Any]:
        """Return the effects of a term, as `MultiwayRidge.effects` does."""
        place = self.term_at(term)
        sides = self.terms[place]
        alike = self.alike or ()
        alone = [side for side in sides if side in alike]
        columns, at = self._levels(sides, table)
        # Sides outside of the term do not matter.
        every = [np.zeros(len(at[0]), dtype=np.intp)] * len(self.sides)
        for side, levels in zip(sides, at, strict=True):
            every[side] = levels
        share = 1.0
        if len(alone) == 1:
            # A pair of a level with itself has its effect twice.
            share = 0.5
            for side in alike:
                every[side] = every[alone[0]]
        asked = CellsAsked(every, np.zeros((len(at[0]), 0)))
        prior = self.priors(asked)[place]
        inverse = self.inverse()
        effects = np.empty(asked.size)
        explained = np.empty(asked.size)
        duals = self._placed(self.duals)
        for here, terms in self.blocks(asked):
            effects[here] = to_numpy(terms[place] @ duals)
            explained[here] = _explained(inverse, terms[place])
        explained = explained.clip(0.0, prior)
        reliabilities = np.full(asked.size, np.nan)
        np.divide(explained, prior, out=reliabilities, where=prior > 0)
        columns["effect"] = share * effects
        columns["std"] = share * np.sqrt(prior - explained)
        columns["reliability"] = reliabilities
        return columns

    def _levels(self, sides: Sequence[int], table: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Return the ids and the positions of some levels of the sides of a term.

        They are those of a table, all of one side, or those that labels have together.
        """
        if table is not None:
            known = read_columns(table, [self.sides[side].name for side in sides])
            at = [self.sides[side].find(known[self.sides[side].name]) for side in sides]
            return {name: list(column) for name, column in known.items()}, at
        if len(sides) == 1:
            at = [np.arange(len(self.sides[sides[0]].ids))]
        else:
            used = [self.sides[side].labelled[self.places[side]] for side in sides]
            at = list(np.unique(np.stack(used), axis=1))
        columns: dict[str, Any] = {}
        for side, levels in zip(sides, at, strict=True):
            ids = self.sides[side].ids.labels
            columns[self.sides[side].name] = [ids[level] for level in levels]
        return columns, at

    def term_at(self, term: str) -> int:
        """Return the position of a term by its name, whatever the order of its sides."""
        if isinstance(term, str):
            wanted = frozenset(term.split(":"))
        else:
            wanted = frozenset()
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

    def setting_of(self, asked: CellsAsked) -> NewSides:
        """Return the setting in which one cell is predicted: the sides on which its level has no label."""
        new = []
        for side, at in zip(self.sides, asked.at, strict=True):
            if at[0] not in side.labelled:
                new.append(side.name)
        return self.setting(new)

    def are_of_cell(self, asked: CellsAsked) -> np.ndarray:
        """Return whether each label (n,) is one of a cell; the order of two alike sides does not matter."""
        levels = [side.labelled[at] for side, at in zip(self.sides, self.places, strict=True)]
        wanted = [at[0] for at in asked.at]
        if self.alike is not None:
            first, second = self.alike
            levels[first], levels[second] = np.sort([levels[first], levels[second]], axis=0)
            wanted[first], wanted[second] = np.sort([wanted[first], wanted[second]])
        return np.asarray((np.stack(levels) == np.array(wanted)[:, None]).all(axis=0))

    def units(self, setting: NewSides, groups: Any = None) -> CellUnits:
        """Return what a setting leaves out; raise if a fixed effect is not estimable then."""
        if groups is None or isinstance(groups, Mapping):
            codes = self._groups(setting, groups or {})
            units = CellUnits.of(self.places, setting.new, self.alike, codes)
        elif setting.new:
            raise ValueError("groups must be a dict with the groups of each new side.")
        else:
            groups = in_order_of(groups, self.index, "groups", "the table")
            folds = group_codes(groups, (self.n_rows,), "groups")[self.rows]
            units = CellUnits(((folds, (folds,)),))
        if self.columns.shape[1] > int(self.fixed.has_constant):
            for _, members in units.sets():
                if len(members) == len(self.values):
                    raise nothing_left()
                error = self.fixed.lost(self.columns, members)
                if error is not None:
                    raise error
            return units
        conditions = [codes for codes, _ in units.conditions]
        if self.fixed.has_constant and len(conditions) == 2 and crosses_all(*conditions):
            raise nothing_left()
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
            title = f"groups[{name!r}]"
            of_rows = in_order_of(of_rows, self.index, title, "the table")
            of_labels = group_codes(of_rows, (self.n_rows,), title)[self.rows]
            of_levels = np.zeros(len(self.sides[side].labelled), dtype=np.intp)
            of_levels[self.places[side]] = of_labels
            if (of_levels[self.places[side]] != of_labels).any():
                raise ValueError(
                    f"groups[{name!r}] gives one level of {name!r} several groups: give all rows "
                    f"of a level the same group."
                )
            codes[side] = of_levels
        return codes

    def held_out(self, units: CellUnits) -> np.ndarray:
        """Return the prediction (n,) of each label by the model without what its conditions leave out."""
        return to_numpy(units.left_out(self.inverse(), self.like)) + self.shift

    def bounds(
        self, asked: CellsAsked, setting: NewSides, coverage: float
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

    def fixed_effects(self) -> dict[str, float]:
        """Return the coefficients of the fixed columns."""
        values = self.fixed.basis @ self.coefficients
        if self.fixed.has_constant:
            values[0] += self.shift
        return dict(zip(self.fixed.words, values.tolist(), strict=True))

    def shares(self) -> np.ndarray:
        """Return the share (t + 1,) of each term, and of the noise, in the variance of a label of weight one."""
        sizes = self.variance_problem.sizes.copy()
        sizes[-1] = 1.0
        parts = self.variances * sizes
        return np.asarray(parts / parts.sum())

    def likelihood_ratio(self, other: FittedMultiway) -> LikelihoodRatio:
        """Return the comparison with a model of fewer terms, as `MultiwayRidge.likelihood_ratio` does."""
        if {self.estimation, other.estimation} != {"likelihood"}:
            raise ValueError(
                "Likelihoods are compared at their maximum: fit both models with "
                "variances='likelihood'."
            )
        weights = [1.0 if model.weights is None else model.weights for model in (self, other)]
        if not np.array_equal(self.values, other.values) or np.any(weights[0] != weights[1]):
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
        statistic = 2.0 * (self.log_likelihood - other.log_likelihood)
        if statistic < _SMALLEST_RATIO:
            statistic = 0.0
        # At the border of zero variances, each of them is zero in half of all samples.
        tails = [float(statistic == 0)]
        tails.extend(chi2.sf(statistic, k) for k in range(1, len(more) + 1))
        p_value = sum(comb(len(more), k) / 2.0 ** len(more) * tail for k, tail in enumerate(tails))
        return LikelihoodRatio(statistic, float(p_value))


def _explained(inverse: CellsInverse, kernel: Array) -> np.ndarray:
    """Return how much the labels reduce the variance (a,) of cells, from the kernel (a, n) between both."""
    return to_numpy(namespace(kernel).sum(kernel.T * inverse.times(kernel.T), axis=0))


class CellsAsked(NamedTuple):
    """Cells to predict: the position of the level of each side (a,), and the orthonormal fixed columns (a, r)."""

    at: list[np.ndarray]
    columns: np.ndarray

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.columns)

    def each(self) -> Iterator[CellsAsked]:
        """Yield the cells one by one."""
        for row in range(self.size):
            yield CellsAsked([at[[row]] for at in self.at], self.columns[[row]])
