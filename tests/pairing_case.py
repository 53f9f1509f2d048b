"""One case for all models of pairs: give it an estimator and its dense twin, get its tests.

The twin knows matrices alone: the pairwise kernel P of all cells of the grid (ravelled row by row,
with Kronecker products written out) and its ridge c. What is hidden leaves the system (P_oo + c/w)
a = y_o, and P a predicts it; a free mean is a border of it. A model whose kernel of pairs does not
change when rows and columns leave needs no more than `pairs`; one that is fitted anew to those that
stay, centred anew too, writes its own `fitted`.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import explain
from dyadlearn.exceptions import NoLabelWarning
from dyadlearn.pairing.base import side_scales
from sweeps import covering, every, lines, over

M = 6
Q = 5
NEW = 3
SHAPES = {"tall": (M, 4), "wide": (4, M), "square": (Q, Q)}
KINDS = [("full", "full"), ("singular", "full"), ("full", "thin"), ("primal", "singular")]
SOME_KINDS = [KINDS[1], KINDS[3]]
HELD_OUT_KINDS = [KINDS[0], KINDS[2], KINDS[3]]
ALPHAS = [(0.5, 0.2), (1e-3, 10.0), (1e3, 1e-2)]
GROUPS = np.array([0, 1, 1, 2, 0, 2])
TASK_GROUPS = np.array(list("aabba"))
# Two folds of cells, of which each leaves something in every row and column.
CELLS = np.add.outer(np.arange(M), np.arange(Q)) % 3


def remembered(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Remember the arrays that a pure function of arrays and numbers returns, which nobody may change."""
    known: dict[Any, np.ndarray] = {}

    @functools.wraps(function)
    def recalled(*given: Any) -> np.ndarray:
        key = tuple(
            (x.shape, x.dtype, x.tobytes()) if isinstance(x, np.ndarray) else x for x in given
        )
        if key not in known:
            known[key] = function(*given)
            known[key].flags.writeable = False
        return known[key]

    return recalled


@functools.cache
def kernels(
    shape: tuple[int, int], sizes: tuple[int, int], kinds: tuple[str, str], seed: int
) -> tuple[Any, ...]:
    """Return kernels of both sides, which nobody may change, and the generator that goes on with labels."""
    rng = np.random.default_rng([seed, *shape])
    K, G = (
        x @ x.T
        for x in (problems.features(k, n + NEW, rng) for k, n in zip(kinds, sizes, strict=True))
    )
    K.flags.writeable = G.flags.writeable = False
    return K, G, rng


class PairingCase:
    """Fit, hold-out, groups, holes, weights, both ends of λ, null spaces and precisions of one model of pairs.

    Attributes
    ----------
    settings : str
        The settings that have a meaning for the model; all others must be refused.
    settings_with_holes : str
        Those it can leave out where labels are missing.
    takes_groups : bool
        Whether groups and folds of cells can be left out together.
    takes_weights : bool
        Whether labels may weigh more or less.
    knows_tasks : bool
        Whether it predicts for tasks it has not seen.
    has_one_alpha : bool
        Whether one regularisation is for both sides.
    constant : bool
        Whether it has an intercept: labels are then some way off zero.
    """

    settings = "ABCD"
    settings_with_holes = "ABCD"
    takes_groups = True
    takes_weights = True
    knows_tasks = True
    has_one_alpha = True
    constant = False

    # --- what a model has to give ------------------------------------------------------------------------------

    def estimator(self, alpha: float, task_alpha: float, **options: Any) -> Any:
        """Return the estimator, on precomputed kernels."""
        raise NotImplementedError

    def pairs(
        self, K: np.ndarray, G: np.ndarray, alpha: float, task_alpha: float
    ) -> tuple[np.ndarray, float]:
        """Return the pairwise kernel (mq, mq) and the ridge."""
        raise NotImplementedError

    # --- what some do otherwise --------------------------------------------------------------------------------

    def fitted(
        self,
        K: np.ndarray,
        G: np.ndarray,
        Y: np.ndarray,
        alphas: tuple[float, float],
        weights: Any,
        seen: Any,
        known: Any,
    ) -> np.ndarray:
        """Return predictions (m, q) of a model that saw the labels Y, NaN where hidden, of some rows and columns."""
        P, ridge = self.pairs(K, G, *alphas)
        at = np.flatnonzero(~np.isnan(np.where(np.outer(seen, known), Y, np.nan)))
        inverse = 1.0 if weights is None else 1.0 / weights.ravel()[at]
        dual, mean = self.solved(
            P[np.ix_(at, at)] + ridge * inverse * np.eye(at.size), Y.ravel()[at]
        )
        return (P[:, at] @ dual).reshape(Y.shape) + mean

    def solved(self, system: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, float]:
        """Return dual parameters and a mean, which is free where there is one."""
        if self.constant:
            return problems.bordered(system, labels)
        return (np.linalg.solve(system, labels), 0.0)

    def dual(
        self, K: np.ndarray, G: np.ndarray, Y: np.ndarray, alphas: tuple[float, float]
    ) -> np.ndarray:
        """Return the dual coefficients (m, q) of complete labels."""
        P, ridge = self.pairs(K, G, *alphas)
        return self.solved(P + ridge * np.eye(Y.size), Y.ravel())[0].reshape(Y.shape)

    def dual_of_tasks(self, kernel: np.ndarray, Y: np.ndarray, alpha: float) -> np.ndarray:
        """Return the dual coefficients (m, q) of one regression for each task."""
        system = kernel + alpha * np.eye(len(kernel))
        return np.stack([self.solved(system, labels)[0] for labels in Y.T], axis=1)

    def of_training(self, model: Any, K: np.ndarray) -> np.ndarray:
        """Return predictions for the instances (m, m) and tasks of training."""
        return model.predict(K)

    def labels(self, rng: np.random.Generator, m: int, q: int) -> np.ndarray:
        return rng.normal(size=(m, q)) + 3.0 * self.constant

    def unit(self, shape: tuple[int, int], row: int, column: int) -> np.ndarray:
        """Return a change of the labels that increases one of them by one."""
        grid = np.zeros(shape)
        grid[row, column] = 1.0
        return grid

    def shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        return shape

    def leaves(
        self, letter: str, rows: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return hidden cells, and which rows and columns stay, where those of a fold leave (both in A: its cells)."""
        if letter == "A":
            hidden = np.outer(rows, columns)
        else:
            hidden = np.zeros((rows.size, columns.size), dtype=bool)
        return (
            hidden,
            ~rows if letter in "BD" else rows | True,
            ~columns if letter in "CD" else columns | True,
        )

    # --- problems ------------------------------------------------------------------------------------------------

    def sides(
        self, shape: tuple[int, int], kinds: tuple[str, str], seed: int = 0
    ) -> tuple[np.ndarray, ...]:
        """Return kernels of both sides, with some new rows at the end of each, and labels."""
        K, G, rng = kernels(shape, self.shape(shape), kinds, seed)
        return K, G, self.labels(copy.deepcopy(rng), *self.shape(shape))

    def fit(
        self,
        K: np.ndarray,
        G: np.ndarray,
        Y: np.ndarray,
        alphas: tuple[float, float],
        weights: Any = None,
    ) -> Any:
        m, q = Y.shape
        given = {} if weights is None else {"sample_weight": weights}
        return self.estimator(*alphas).fit(K[:m, :m], Y, tasks=G[:q, :q], **given)

    def expected(
        self, letter: str, K: Any, G: Any, Y: Any, alphas: Any, weights: Any, folds: Any
    ) -> np.ndarray:
        """Return what models say that were fitted without each fold, a list of (rows, columns)."""
        m, q = Y.shape
        result = np.full((m, q), np.nan)
        for rows, columns in folds:
            hidden, seen, known = self.leaves(letter, rows, columns)
            labels = np.where(hidden, np.nan, Y)
            grid = self.fitted(K[:m, :m], G[:q, :q], labels, alphas, weights, seen, known)
            asked = np.outer(rows, columns)
            result[asked] = grid[asked]
        return result

    def check(self, found: Any, expected: np.ndarray, rtol: float, message: str = "") -> None:
        known = ~np.isnan(expected)
        assert known.any()
        scale = np.abs(expected[known]).max()
        assert_allclose(
            np.asarray(found)[known], expected[known], rtol=0, atol=rtol * scale, err_msg=message
        )

    def singles(self, letter: str, shape: tuple[int, int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return folds of one cell, row, column or pair each."""
        rows, columns = (np.eye(n, dtype=bool) for n in shape)
        whole = [np.ones((1, n), dtype=bool) for n in shape]
        one = whole[0] if letter == "C" else rows
        other = whole[1] if letter == "B" else columns
        return [(i, j) for i in one for j in other]

    def some(self, letter: str, shape: tuple[int, int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return some of many folds, in every row and column, or all of a few."""
        folds = self.singles(letter, shape)
        if len(folds) <= max(shape):
            return folds
        return [folds[i * shape[1] + i % shape[1]] for i in range(shape[0])]

    # --- the tests -----------------------------------------------------------------------------------------------

    @over(covering(shape=SHAPES, kinds=HELD_OUT_KINDS, alphas=ALPHAS))
    def test_predictions(self, shape, kinds, alphas):
        """For rows and tasks that were seen, and for new ones, which are cells of a larger grid without labels."""
        K, G, Y = self.sides(shape, kinds)
        m, q = Y.shape
        model = self.fit(K, G, Y, alphas)
        larger = np.full((m + NEW, q + NEW), np.nan)
        larger[:m, :q] = Y
        expected = self.fitted(
            K, G, larger, alphas, None, np.arange(m + NEW) < m, np.arange(q + NEW) < q
        )
        self.check(model.predict(K[:, :m]), expected[:, :q], 1e-9)
        if self.knows_tasks:
            self.check(model.predict(K[:, :m], tasks=G[:, :q]), expected, 1e-9)
        self.check(model.dual_coef_, self.dual(K[:m, :m], G[:q, :q], Y, alphas), 1e-8)

    def test_factors_of_eigenvalues(self):
        """A regularisation is compared with the largest slope of the pairwise kernel along each side."""
        if not (self.has_one_alpha and self.knows_tasks):
            return
        pairing = self.fit(*self.sides((M, Q), ("full", "full")), (0.5, 0.2)).fitted_.pairing
        both_sides = zip(
            side_scales(pairing),
            pairing.spectra,
            (pairing.kernel_values, pairing.kernel_values.T),
            strict=True,
        )
        for scale, spectrum, values in both_sides:
            slopes = np.diff(values, axis=0) / np.diff(spectrum.values)[:, None]
            assert_allclose(scale, slopes.max(), rtol=1e-6)

    @over(covering(shape=SHAPES, kinds=HELD_OUT_KINDS, alphas=ALPHAS, letter="ABCD"))
    def test_holdout(self, shape, kinds, alphas, letter):
        K, G, Y = self.sides(shape, kinds)
        model = self.fit(K, G, Y, alphas)
        if letter not in self.settings:
            with pytest.raises(ValueError, match=f"Setting {letter}"):
                model.holdout(letter)
            return
        folds = self.some(letter, Y.shape)
        self.check(model.holdout(letter), self.expected(letter, K, G, Y, alphas, None, folds), 1e-8)

    def folds(self, letter: str, shape: tuple[int, int]) -> list[tuple[np.ndarray, np.ndarray]]:
        if letter in "BD":
            rows = [g == GROUPS for g in np.unique(GROUPS)]
        else:
            rows = [np.ones(shape[0], dtype=bool)]
        if letter in "CD":
            columns = [g == TASK_GROUPS for g in np.unique(TASK_GROUPS)]
        else:
            columns = [np.ones(shape[1], dtype=bool)]
        return [(i, j) for i in rows for j in columns]

    def grouping(self, letter: str) -> dict[str, np.ndarray]:
        return ({"groups": GROUPS} if letter in "BD" else {}) | (
            {"task_groups": TASK_GROUPS} if letter in "CD" else {}
        )

    @over(
        covering(
            letter="BCD",
            kinds=SOME_KINDS,
            alphas=ALPHAS[1:],
            missing=[False, True],
            weighted=[False, True],
        )
    )
    def test_groups(self, letter, kinds, alphas, missing, weighted):
        if not self.takes_groups or letter not in (
            self.settings_with_holes if missing else self.settings
        ):
            return
        K, G, Y = self.sides((M, Q), kinds)
        Y, weights = (
            self.with_holes(Y, missing),
            self.weights(Y.shape) if weighted and self.takes_weights else None,
        )
        model = self.fit(K, G, Y, alphas, weights)
        with warnings.catch_warnings():  # a group may take all labels of a task
            warnings.simplefilter("ignore", NoLabelWarning)
            found = model.holdout(letter, **self.grouping(letter))
        expected = self.expected(letter, K, G, Y, alphas, weights, self.folds(letter, Y.shape))
        assert_array_equal(np.isnan(found), np.isnan(expected))
        self.check(
            found, expected if not missing else np.where(np.isnan(Y), np.nan, expected), 1e-7
        )

    @over(
        covering(kinds=SOME_KINDS, alphas=ALPHAS[1:], missing=[False, True], weighted=[False, True])
    )
    def test_cells(self, kinds, alphas, missing, weighted):
        if not self.takes_groups:
            return
        K, G, Y = self.sides((M, Q), kinds)
        Y, weights = (
            self.with_holes(Y, missing),
            self.weights(Y.shape) if weighted and self.takes_weights else None,
        )
        found = self.fit(K, G, Y, alphas, weights).holdout("A", cells=CELLS)
        whole = np.ones(M, dtype=bool), np.ones(Q, dtype=bool)
        for fold in np.unique(CELLS):
            labels = np.where(fold == CELLS, np.nan, Y)
            expected = self.fitted(K[:M, :M], G[:Q, :Q], labels, alphas, weights, *whole)
            self.check(
                found,
                np.where((fold == CELLS) & ~np.isnan(Y), expected, np.nan),
                1e-7,
                f"fold {fold}",
            )

    def with_holes(self, Y: np.ndarray, missing: bool = True) -> np.ndarray:
        return np.where(
            problems.pattern("30%", Y.shape, np.random.default_rng(3)) | (not missing), Y, np.nan
        )

    def weights(self, shape: tuple[int, int]) -> np.ndarray:
        return np.random.default_rng(4).uniform(0.2, 3.0, size=shape)

    @over(covering(kinds=SOME_KINDS, alphas=ALPHAS[1:], weighted=[False, True]))
    def test_holes(self, kinds, alphas, weighted):
        """What is missing is predicted by what is there, and each observed cell by all the others."""
        K, G, Y = self.sides((M, Q), kinds)
        Y = self.with_holes(Y)
        m, q = Y.shape
        weights = self.weights(Y.shape) if weighted and self.takes_weights else None
        model = self.fit(K, G, Y, alphas, weights)
        whole = np.ones(m, dtype=bool), np.ones(q, dtype=bool)
        expected = self.fitted(K[:m, :m], G[:q, :q], Y, alphas, weights, *whole)
        self.check(self.of_training(model, K[:m, :m]), expected, 1e-7)
        expected = self.expected("A", K, G, Y, alphas, weights, self.some("A", Y.shape))
        self.check(model.holdout("A"), np.where(np.isnan(Y), np.nan, expected), 1e-7)

    @over(every(alphas=[(1e-7, 1e-7), (1e7, 1e7)]))
    def test_both_ends(self, alphas):
        """The twin is as good as its system is conditioned: at small λ on kernels of full rank it is."""
        K, G, Y = self.sides((Q, 4), ("full", "full"))
        model = self.fit(K, G, Y, alphas)
        for letter in self.settings:
            folds = self.some(letter, Y.shape)
            self.check(
                model.holdout(letter),
                self.expected(letter, K, G, Y, alphas, None, folds),
                1e-7,
                letter,
            )

    def test_without_regularisation_it_is_the_limit(self):
        K, G, Y = self.sides((Q, 4), ("full", "full"))
        limit, nearly = (self.fit(K, G, Y, (alpha, alpha)) for alpha in (0.0, 1e-9))
        self.check(limit.predict(K[:, : len(Y)]), nearly.predict(K[:, : len(Y)]), 1e-6)
        for letter in self.settings:
            self.check(limit.holdout(letter), nearly.holdout(letter), 1e-5, letter)

    @over(lines("kinds letters", (KINDS[0], "AC"), (KINDS[3], "BD")))
    def test_single_precision(self, kinds, letters):
        K, G, Y = self.sides((M, Q), kinds)
        double = self.fit(K, G, Y, (0.5, 0.2))
        single = self.fit(*(array.astype(np.float32) for array in (K, G, Y)), (0.5, 0.2))
        assert single.predict(K[:, : len(Y)].astype(np.float32)).dtype == np.float32
        for letter in set(letters) & set(self.settings):
            held_out = single.holdout(letter)
            assert held_out.dtype == np.float32
            self.check(held_out, double.holdout(letter), 1e-3, letter)

    @over(
        covering(
            letter="ABCD",
            kinds=[KINDS[1], KINDS[3]],
            alphas=ALPHAS[1:],
            missing=[False, True],
            weighted=[False, True],
            strength=1,
        )
    )
    def test_labels_and_a_constant_give_predictions_and_that_constant(
        self, letter, kinds, alphas, missing, weighted
    ):
        if not self.constant or letter not in (
            self.settings_with_holes if missing or weighted else self.settings
        ):
            return
        K, G, Y = self.sides((M, Q), kinds)
        Y, weights = (
            self.with_holes(Y, missing),
            self.weights(Y.shape) if weighted and self.takes_weights else None,
        )
        one, other = (self.fit(K, G, labels, alphas, weights) for labels in (Y, Y + 1e4))
        predicted, moved = (model.predict(K[:, : len(Y)]) for model in (one, other))
        assert_allclose(moved, predicted + 1e4, rtol=1e-12)
        assert_allclose(other.holdout(letter), np.asarray(one.holdout(letter)) + 1e4, rtol=1e-11)

    @over(covering(kinds=KINDS, alphas=ALPHAS[:2], missing=[False, True], strength=1))
    def test_weights_of_labels(self, kinds, alphas, missing):
        """The weight of a label in a prediction is its change where the label grows by one."""
        K, G, Y = self.sides((M, Q), kinds)
        Y = self.with_holes(Y, missing)
        weights = explain(self.fit(K, G, Y, alphas), 1, 2).weights
        whole = (K[: len(Y), : len(Y)], G[: Y.shape[1], : Y.shape[1]])
        sides = np.ones(len(Y), dtype=bool), np.ones(Y.shape[1], dtype=bool)
        before = self.fitted(*whole, Y, alphas, None, *sides)[1, 2]
        for row, column in np.argwhere(~np.isnan(Y))[::4]:
            after = self.fitted(*whole, Y + self.unit(Y.shape, row, column), alphas, None, *sides)[
                1, 2
            ]
            assert_allclose(weights[row, column], after - before, rtol=1e-6, atol=1e-8)

    def exchanged(self):
        """Return the case whose instances are the tasks of this one."""
        return self

    @over(covering(alphas=ALPHAS[:2], missing=[False, True], strength=1))
    def test_new_tasks_are_new_instances_of_the_transposed_labels(self, alphas, missing):
        if not self.knows_tasks:
            return
        K, G, Y = self.sides((M, Q), ("full", "full"))
        Y = self.with_holes(Y, missing)
        q = Y.shape[1]
        exchanged = alphas if self.has_one_alpha else alphas[::-1]
        bounds = self.fit(K, G, Y, alphas).predict_interval(tasks=G[q:, :q], coverage=0.6)
        expected = (
            self.exchanged().fit(G, K, Y.T, exchanged).predict_interval(G[q:, :q], coverage=0.6)
        )
        for found, known in zip(bounds, expected, strict=True):
            assert_allclose(found, known.T, rtol=1e-6, atol=1e-8)

    def test_predictions_ignore_what_they_hold_out(self):
        if not self.takes_groups:
            return
        K, G, Y = self.sides((M, Q), ("full", "full"))
        models = [
            self.fit(K, G, labels, (0.5, 0.2))
            for labels in (Y, Y + 100.0 * self.unit(Y.shape, 3, 2))
        ]
        for letter in self.settings:
            one, another = (model.holdout(letter) for model in models)
            assert abs(one[3, 2] - another[3, 2]) < 1e-9, letter
            assert np.abs(one - another).max() > 0.1, letter


class KnownRowsCase(PairingCase):
    """A model in which training rows have functions of their own: None asks for them."""

    def of_training(self, model, K):
        return model.predict(None)

    @over(
        covering(
            shape={"tall": (6, 4), "wide": (4, 6)},
            kinds=[("full", "full"), ("singular", "full"), ("primal", "singular")],
            alphas=[(0.5, 0.2), (1e-3, 10.0), (1e3, 1e-2)],
        )
    )
    def test_predictions(self, shape, kinds, alphas):
        """Of rows of training None asks; new ones are cells of a larger grid without labels."""
        K, G, Y = self.sides(shape, kinds)
        m, q = Y.shape
        model = self.fit(K, G, Y, alphas)
        larger = np.full((m + NEW, q + NEW), np.nan)
        larger[:m, :q] = Y
        expected = self.fitted(
            K, G, larger, alphas, None, np.arange(m + NEW) < m, np.arange(q + NEW) < q
        )
        new_rows = K[m:, :m]
        new_tasks = G[q:, :q]
        for rows, tasks, block in (
            (None, None, expected[:m, :q]),
            (new_rows, None, expected[m:, :q]),
            (None, new_tasks, expected[:m, q:]),
            (new_rows, new_tasks, expected[m:, q:]),
        ):
            self.check(model.predict(rows, tasks=tasks), block, 1e-9)
            pairs = np.argwhere(np.ones(block.shape))[::-2]
            self.check(model.predict_pairs(rows, tasks, pairs), block[tuple(pairs.T)], 1e-9)
