r"""Leave-pair-out: the share of pairs of labels in the right order, each by the model without both labels.

The area under the ROC curve and the concordance index compare two labels at a time. With the
inverse N of the system of the observed labels, and :math:`\mathbf{o}_i = \sum_{l \ne i} N_{il} y_l`,
the model that was fitted without the labels i and j predicts

.. math:: \begin{pmatrix} f_i \\ f_j \end{pmatrix} =
          -\begin{pmatrix} N_{ii} & N_{ij} \\ N_{ij} & N_{jj} \end{pmatrix}^{-1}
          \begin{pmatrix} o_i - N_{ij} y_j \\ o_j - N_{ij} y_i \end{pmatrix} ,

so that all pairs take one inverse and a few operations each (Airola, Pahikkala, Waegeman, De Baets
and Salakoski 2011).

Where all pairs cost too much, the score is that of the leave-one-out predictions, which takes one
sort, plus what leave-pair-out adds to it in a sample of pairs. Both put nearly all pairs in the
same order, so that the sum varies far less with the sample than the score of the sample itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np

from dyadlearn._array import Array, namespace, to_numpy
from dyadlearn._memory import fits_in_memory
from dyadlearn._work import products
from dyadlearn.holdout.planning import Cost, is_affordable
from dyadlearn.holdout.units import Problem
from dyadlearn.labels import Labels, distinct_labels
from dyadlearn.metrics import Scorer
from dyadlearn.pairing.base import Coupled, operators_of
from dyadlearn.pairing.inverses import Route, bytes_of, inverse_of, routes
from dyadlearn.pairing.remembering import last_inverse
from dyadlearn.settings import Setting
from dyadlearn.solve.inverse import Inverse

# Numbers of a block of pairs: four arrays of it are in memory.
_BLOCK_NUMBERS = 2**20
# Numbers that are compared at once: their arrays stay in the cache of a processor.
_CACHED_NUMBERS = 2**15
# Number of random pairs of rows whose labels are compared, where all pairs of labels cost too much.
_SAMPLED = 1024
# As many are kept for resampling, where the score of the sample itself is needed.
_RESAMPLED = 16384
# Rows whose labels of the rarer value are compared with the labels of other rows at once.
_ROWS_TOGETHER = 16
_OTHER_ROWS = 8
# Most labels of these other rows that are compared, as a share and in number: the error of the
# sample is that of rows, not of labels.
_SHARE = 0.25
_MOST_OTHERS = 64
# Most labels that are compared with them at once.
_MOST_FIRST = 1024
# Most comparisons that are kept for resampling.
_MOST_KEPT = 2**24
# Operations for each pair, relative to a multiplication in a matrix product.
_OF_A_PAIR = 30.0
# Least determinant of a pair, relative to the product of its diagonal, that keeps its digits.
_LEAST = 1e-6


class PairScore(NamedTuple):
    """Score of pairs of labels.

    Attributes
    ----------
    score : float
        Mean over the rows that have pairs.
    n_undefined, n_parts : int
        Number of rows without pairs of different labels, and of all rows.
    """

    score: float
    n_undefined: int
    n_parts: int


@dataclass(frozen=True, eq=False)
class PairsOut:
    """Plan to compare each two labels by the model without both, in setting A.

    Attributes
    ----------
    problem : Problem
    judge : Scorer
        The area under the ROC curve, or the concordance index.
    route : Route
        The inverse of the observed labels.
    n_sampled : int, default=0
        Number of random pairs of rows of a complete grid, whose labels are compared with each
        other; 0 means that all labels are compared.
    """

    problem: Problem
    judge: Scorer
    route: Route
    n_sampled: int = 0
    # What inverses of other regularisations share.
    cache: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def method(self) -> str:
        """Description for a column of a table."""
        if self.n_sampled:
            return "leave-pair-out, sampled"
        return "exact leave-pair-out"

    @classmethod
    def of(cls, problem: Problem, judge: Scorer, n_alphas: int = 1) -> Self | None:
        """Return the plan; None if the score is none of pairs, or if there is no inverse that is affordable."""
        pairing = problem.pairing
        if not judge.counts_pairs or pairing.symmetry or problem.labels.size < 3:
            return None
        labels = problem.labels
        if labels.is_full and isinstance(pairing, Coupled):
            return cls._of_grid(problem, judge, n_alphas)
        units = [np.arange(labels.size)]
        offered = []
        for route in routes(pairing, labels, Setting.A, units, n_alphas):
            compared = _pair_work(route, problem)
            work = route.work + compared
            is_cheap = is_affordable(route.work, labels, n_alphas, on_processor=compared)
            if is_cheap and fits_in_memory(bytes_of(route, labels), labels.values):
                offered.append((work, route))
        if not offered:
            return None
        return cls(problem, judge, min(offered, key=lambda offer: offer[0])[1])

    @classmethod
    def _of_grid(cls, problem: Problem, judge: Scorer, n_alphas: int) -> Self | None:
        """Return the plan for complete labels, which compares a sample if all pairs cost too much.

        A sample has at most about half a million comparisons, so that it is always affordable.
        """
        labels = problem.labels
        m, q = labels.shape
        k, r = problem.pairing.ranks
        work = products((min(m, q), m, k, r), (4, m, q, k), (4, m, q, r))
        route = Route("missing", "closed form of a complete grid", work, products((8, m, q)))
        if is_affordable(work, labels, n_alphas, on_processor=_pair_work(route, problem)):
            return cls(problem, judge, route)
        if judge.average_in(Setting.A) != "pooled":
            return None
        return cls(problem, judge, route, _SAMPLED)

    @property
    def cost(self) -> Cost:
        """Estimated cost for one regularisation."""
        labels = self.problem.labels
        work = self.route.work + _pair_work(self.route, self.problem)
        return Cost(work, bytes_of(self.route, labels) + 64.0 * _BLOCK_NUMBERS)

    @property
    def explanation(self) -> str:
        """Method and reason in one line."""
        return f"{self.method}: each two labels by the model without both"

    def score(self, targets: Array | None = None, problem: Problem | None = None) -> PairScore:
        """Return the score of pairs of labels.

        Parameters
        ----------
        targets : array of the shape of the labels' values, default=None
            Labels to compare, NaN for others, which are trained on; None means all.
        problem : Problem, default=None
            The same problem with another regularisation or other labels; None is that of the plan.

        Raises
        ------
        LeverageError
            If the model fits two labels exactly, whatever they are.
        ValueError
            If no row has two different labels.
        """
        if problem is None:
            problem = self.problem
        if self.n_sampled:
            return self._sampled_score(targets, problem)
        labels = problem.labels
        won = []
        for outcomes in self._outcomes(targets, problem):
            count = 0.0
            total = 0.0
            for block in outcomes:
                count += float(block.wins[block.differ].sum())
                total += float(np.count_nonzero(block.differ))
            if total:
                won.append(count / total)
        average = self.judge.average_in(Setting.A)
        n_parts = {"instance": labels.shape[0], "task": labels.shape[1]}.get(average, 1)
        if not won:
            raise ValueError(
                f"{self.judge.name} is undefined here: no two labels to compare differ. Give labels "
                f"of both values, or use a metric of errors such as 'neg_mean_squared_error'."
            )
        return PairScore(float(np.mean(won)), n_parts - len(won), n_parts)

    def _sampled_score(self, targets: Array | None, problem: Problem) -> PairScore:
        """Return the score of leave-one-out predictions, plus the mean gain of leave-pair-out in a sample."""
        pairs = self._pairs_of(problem)
        grid = to_numpy(problem.labels.values if targets is None else targets)
        alone = np.reshape(pairs.predictions, grid.shape)
        score = float(self.judge(grid, alone, average="pooled", tie_tolerance=None))
        sample = _sample(problem.labels, grid[problem.labels.observed], self.n_sampled)
        score += pairs.gain(sample)
        return PairScore(min(max(score, 0.0), 1.0), 0, 1)

    def gain(self, held_out: Array, problem: Problem) -> float:
        """Return what leave-pair-out adds to the score of leave-one-out predictions, in the sample.

        Parameters
        ----------
        held_out : array of shape (m, q)
            Leave-one-out predictions.
        problem : Problem
            The same problem with the regularisation of the predictions.
        """
        inverse = inverse_of(problem.pairing, problem.labels, self.route.name, self.cache)
        pairs = _Pairs.of(inverse, problem, held_out)
        return pairs.gain(self._usual_sample)

    @cached_property
    def _usual_sample(self) -> _Sample:
        """The sample of all labels."""
        labels = self.problem.labels
        return _sample(labels, to_numpy(labels.values)[labels.observed], self.n_sampled)

    def _pairs_of(self, problem: Problem) -> _Pairs:
        labels = problem.labels
        need = bytes_of(self.route, labels)
        compute = partial(inverse_of, problem.pairing, labels, self.route.name, self.cache)
        inverse = last_inverse.of(problem, self.route.name, compute, need, labels.values)
        return _Pairs.of(inverse, problem)

    def _outcomes(self, targets: Array | None, problem: Problem) -> Iterator[Iterator[_Outcomes]]:
        """Yield the comparisons of each row that is compared by itself, in blocks."""
        labels = problem.labels
        pairs = self._pairs_of(problem)
        values = to_numpy(labels.values if targets is None else targets)[labels.observed]
        if self.n_sampled:
            yield pairs.sampled(_sample(labels, values, _RESAMPLED))
            return
        average = self.judge.average_in(Setting.A)
        for members in _rows(labels, average, ~np.isnan(values)):
            yield pairs.compared(members, values)

    def resampled(
        self, targets: Array, draws: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> np.ndarray | None:
        """Return the scores of rows and columns that are drawn with replacement; None if there are too many pairs.

        Parameters
        ----------
        targets : array of the shape of the labels' values
            Labels to compare.
        draws : iterable of (integer array, integer array)
            Positions of the drawn rows and columns.

        Returns
        -------
        array of shape (number of draws,)
            NaN where no two labels differ.
        """
        labels = self.problem.labels
        if not self.n_sampled and _n_chosen(labels) * labels.size > _MOST_KEPT:
            return None
        rows = [list(blocks) for blocks in self._outcomes(targets, self.problem)]
        axis = {"instance": 0, "task": 1}.get(self.judge.average_in(Setting.A))
        scores = []
        for drawn in draws:
            counts = [
                np.bincount(of_side, minlength=size).astype(np.float64)
                for of_side, size in zip(drawn, labels.shape, strict=True)
            ]
            weights = counts[0][labels.places[0]] * counts[1][labels.places[1]]
            means = []
            for blocks in rows:
                won = sum(block.weighted(block.wins, weights) for block in blocks)
                total = sum(block.weighted(block.differ, weights) for block in blocks)
                if total:
                    if axis is None:
                        of_row = 1.0
                    else:
                        of_row = counts[axis][blocks[0].row(labels, axis)]
                    means.append((won / total, of_row))
            of_rows = np.asarray(means, dtype=np.float64).reshape(-1, 2)
            is_scored = bool(of_rows[:, 1].sum() > 0)
            mean = np.average(of_rows[:, 0], weights=of_rows[:, 1]) if is_scored else np.nan
            scores.append(mean)
        return np.asarray(scores)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Random pairs of rows, or of columns if these are more, whose labels are compared.

    Attributes
    ----------
    values : array of shape (n,)
        Labels that say which is higher.
    scored : integer array of shape (r,)
        Positions of the labels that are not NaN.
    blocks : list of (integer array, integer array)
        Labels that are compared with others. The rarer labels of several rows are compared with a
        share of the labels of a few others at once.
    """

    values: np.ndarray
    scored: np.ndarray
    blocks: list[tuple[np.ndarray, np.ndarray]]


def _sample(labels: Labels, values: np.ndarray, n_sampled: int) -> _Sample:
    """Return a number of pairs of rows; they are the same in every call."""
    axis = int(labels.shape[1] > labels.shape[0])
    scored = np.flatnonzero(~np.isnan(values))
    is_first = np.zeros(values.size, dtype=bool)
    is_first[_rarer(scored, values[scored])] = True
    codes = labels.places[axis][scored]
    order = np.argsort(codes, kind="stable")
    rows = np.split(scored[order], np.flatnonzero(np.diff(codes[order])) + 1)
    random = np.random.RandomState(0)
    n_sets = max(2, len(rows) // _ROWS_TOGETHER)
    blocks = []
    while n_sampled > 0:
        sets = np.array_split(random.permutation(len(rows)), n_sets)
        for one, other in zip(sets, [sets[-1], *sets[:-1]], strict=True):
            members = np.concatenate([rows[row] for row in one])
            second = np.concatenate([rows[row] for row in other[:_OTHER_ROWS]])
            second = _thinned(second, min(_SHARE * second.size, _MOST_OTHERS), random)
            first = _thinned(members[is_first[members]], _MOST_FIRST, random)
            if first.size and second.size:
                blocks.append((first, second))
            n_sampled -= len(one) * len(other[:_OTHER_ROWS])
            if n_sampled <= 0:
                break
    return _Sample(values, scored, blocks)


def _thinned(members: np.ndarray, most: float, random: np.random.RandomState) -> np.ndarray:
    """Return about so many random members, or all if they are not more."""
    if members.size <= most:
        return members
    return members[random.random_sample(members.size) < most / members.size]


class _Outcomes(NamedTuple):
    """Comparisons of some labels with others.

    Attributes
    ----------
    first, second : integer arrays of shape (s,) and (r,)
        Positions among the observed labels.
    wins : array of shape (s, r)
        1 for two labels in the right order, 0.5 for a tie, else 0; 0 for equal labels.
    differ : boolean array of shape (s, r)
        Whether the labels differ.
    alone : array of shape (s, r), or (s, 0)
        The wins of leave-one-out predictions, in samples.
    """

    first: np.ndarray
    second: np.ndarray
    wins: np.ndarray
    differ: np.ndarray
    alone: np.ndarray

    def weighted(self, values: np.ndarray, weights: np.ndarray) -> float:
        """Return the sum of values (s, r), each times the weights of both labels."""
        return float(weights[self.first] @ values.astype(np.float64) @ weights[self.second])

    def row(self, labels: Labels, axis: int) -> int:
        """Return the instance or the task of the labels."""
        return int(labels.places[axis][self.first[0]])


def _n_chosen(labels: Labels) -> float:
    """Return the number of labels that are compared with all others: those of the rarer of two values, or all."""
    values = distinct_labels(labels.values)
    if values.size != 2:
        return float(labels.size)
    observed = to_numpy(labels.values)[labels.observed]
    n_high = float(np.count_nonzero(observed == values[1]))
    return min(n_high, labels.size - n_high)


def _pair_work(route: Route, problem: Problem) -> float:
    """Return the multiplications to compare all pairs of labels, given the inverse."""
    labels = problem.labels
    n = labels.size
    ranks = problem.pairing.ranks
    n_missing = math.prod(labels.shape) - n
    # Multiplications for an entry of N.
    of_entry = {
        "cells": 1,
        "spectrum": n,
        "features": math.prod(ranks),
        "missing": sum(ranks) + n_missing,
    }[route.name]
    return products((_n_chosen(labels), n, of_entry), (_n_chosen(labels), n, _OF_A_PAIR))


def _rows(labels: Labels, average: str, scored: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the positions, among the observed labels, of those that are compared with each other."""
    places = np.flatnonzero(scored)
    axis = {"instance": 0, "task": 1}.get(average)
    if axis is None or not places.size:
        yield places
        return
    codes = labels.places[axis][places]
    order = np.argsort(codes, kind="stable")
    yield from np.split(places[order], np.flatnonzero(np.diff(codes[order])) + 1)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The inverse of the observed labels, and what it needs of each label to leave pairs out.

    Attributes
    ----------
    inverse : Inverse
    centred : array of shape (n, 1)
        Labels minus the shift.
    labels, others, diagonal, root, predictions : arrays of shape (n,)
        Labels minus the shift, times the root of their weights; the sums o; the diagonal of N; the
        root of the weights; and the leave-one-out predictions.
    level : float
        Rounding error of a sum that is zero.
    """

    inverse: Inverse
    centred: Array
    labels: np.ndarray
    others: np.ndarray
    diagonal: np.ndarray
    root: np.ndarray
    predictions: np.ndarray
    level: float

    @classmethod
    def of(cls, inverse: Inverse, problem: Problem, held_out: Array | None = None) -> Self:
        """Return the pairs of a problem, whose leave-one-out predictions may be known."""
        listed = problem.labels.listed()
        shift = operators_of(problem.pairing).shift_of(listed.values)
        xp = namespace(listed.values)
        if inverse.root is None:
            root = xp.ones_like(listed.values)
        else:
            root = inverse.root
        centred = listed.values - shift
        if held_out is None:
            # This raises for labels that are fitted exactly.
            singles = inverse.leave_singles_out(centred)
        else:
            singles = inverse.singles_of(centred, xp.reshape(held_out, (-1,)) - shift)
        return cls(
            inverse=inverse,
            centred=centred[:, None],
            labels=to_numpy(singles.labels),
            others=to_numpy(singles.sums),
            diagonal=to_numpy(singles.diagonal),
            root=to_numpy(root),
            predictions=to_numpy(singles.predictions + shift),
            level=float(singles.level),
        )

    def compared(self, members: np.ndarray, values: np.ndarray) -> Iterator[_Outcomes]:
        """Yield the comparisons of some labels, in blocks.

        Parameters
        ----------
        members : integer array of shape (r,)
            Labels that are compared.
        values : array of shape (n,)
            Labels that say which is higher.
        """
        of_members = values[members]
        if members.size < 2 or (of_members == of_members[0]).all():
            return
        width = self.tie_width(members)
        first = _rarer(members, of_members)
        step = max(1, _BLOCK_NUMBERS // self.inverse.n_labels)
        if first.size < members.size:
            second = np.setdiff1d(members, first)
            for start in range(0, first.size, step):
                yield self._outcomes(first[start : start + step], second, values, width)
            return
        # Each pair is compared once: labels with those after them.
        for start in range(0, members.size, step):
            outcomes = self._outcomes(members[start : start + step], members[start:], values, width)
            is_later = np.triu(np.ones(outcomes.differ.shape, dtype=bool), 1)
            yield outcomes._replace(
                wins=outcomes.wins * is_later, differ=outcomes.differ & is_later
            )

    def sampled(self, sample: _Sample) -> Iterator[_Outcomes]:
        """Yield the comparisons of a sample."""
        width = self.tie_width(sample.scored)
        for first, second in sample.blocks:
            yield self._outcomes(first, second, sample.values, width, with_alone=True)

    def gain(self, sample: _Sample) -> float:
        """Return the mean of the wins of a sample, less those of leave-one-out predictions."""
        gain = 0.0
        total = 0.0
        for block in self.sampled(sample):
            gain += float((block.wins - block.alone).sum())
            total += float(np.count_nonzero(block.differ))
        if not total:
            return 0.0
        return gain / total

    def _outcomes(
        self,
        at: np.ndarray,
        second: np.ndarray,
        values: np.ndarray,
        width: float,
        *,
        with_alone: bool = False,
    ) -> _Outcomes:
        """Return the comparisons of some labels with others; those of leave-one-out are zero if not asked for."""
        between = to_numpy(self.inverse.between(at, second))
        wins = np.empty(between.shape, dtype=np.float32)
        alone = np.zeros(between.shape if with_alone else (at.size, 0), dtype=np.float32)
        differ = np.empty(between.shape, dtype=bool)
        step = max(1, _CACHED_NUMBERS // max(second.size, 1))
        for start in range(0, at.size, step):
            here = slice(start, start + step)
            first = at[here]
            sign = np.sign(values[first][:, None] - values[second])
            np.not_equal(sign, 0, out=differ[here])
            gaps, scale = self._gaps(first, second, between[here])
            wins[here] = _wins(gaps, sign, width * scale)
            if with_alone:
                gaps = self.predictions[first][:, None] - self.predictions[second]
                alone[here] = _wins(gaps, sign, width)
        return _Outcomes(at, second, wins, differ, alone)

    def tie_width(self, members: np.ndarray) -> float:
        """Return the largest difference of two predictions that tie, as for held-out predictions."""
        return float(np.finfo(np.float64).eps ** 0.75 * np.abs(self.predictions[members]).max())

    def _gaps(
        self, at: np.ndarray, others: np.ndarray, between: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the predictions of some labels minus those of others, each pair left out, and their unit.

        Both have the shape (s, r). The unit is the determinant of each pair, which is positive:
        without a division by it, the sign of the difference is the same.
        """
        diagonal = self.diagonal[at][:, None]
        other_diagonal = self.diagonal[others]
        scale = diagonal * other_diagonal
        least = _LEAST * scale
        scale -= between * between
        right = self._settled(self.others[at][:, None] - between * self.labels[others])
        left = self._settled(self.others[others] - between * self.labels[at][:, None])
        root = self.root[at][:, None]
        other_root = self.root[others]
        left *= between / root + diagonal / other_root
        right *= other_diagonal / root + between / other_root
        left -= right
        is_near = scale <= least
        near = np.argwhere(is_near) if is_near.any() else ()
        for row, column in near:
            pair = np.array([at[row], others[column]])
            scale[row, column] = 1.0
            # A label with itself is no pair.
            if pair[0] != pair[1]:
                alone = to_numpy(self.inverse.leave_set_out(self.centred, pair))[:, 0]
                left[row, column] = alone[0] - alone[1]
        return left, scale

    def _settled(self, sums: np.ndarray) -> np.ndarray:
        """Set those of the sums that are rounding to zero, and return the sums."""
        sums[np.abs(sums) <= self.level] = 0.0
        return sums


def _wins(gaps: np.ndarray, sign: np.ndarray, width: Any) -> np.ndarray:
    """Return 1 where differences of predictions have the sign of those of the labels, 0.5 for ties, else 0.

    Equal labels have the sign 0, and the answer 0.
    """
    wins = (gaps * sign > 0).astype(np.float32)
    is_tie = np.abs(gaps) <= width
    wins[is_tie] = 0.5 * np.abs(sign[is_tie])
    return np.asarray(wins)


def _rarer(members: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the members with the rarer of two values, or all members if there are more values."""
    distinct = distinct_labels(values)
    if distinct.size != 2:
        return members
    is_high = values == distinct[1]
    if 2 * np.count_nonzero(is_high) <= members.size:
        is_rarer = is_high
    else:
        is_rarer = ~is_high
    return np.asarray(members[is_rarer])
