"""Networks: one node set, labels that keep a symmetry, and vertices left out of both sides."""

import itertools
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fifty_digits
import problems
from dyadlearn.filters import IteratedTikhonov
from dyadlearn.holdout import holdout
from dyadlearn.holdout.refit import refit
from dyadlearn.spectrum import Spectrum
from problems import posed
from sweeps import covering, every, over

transductive = partial(refit, fixed_penalty=True)

KINDS = ["full", "singular", "primal"]
ALPHAS = [1e-10, 1e-3, 1.0, 1e6, 1e10]


@over(covering(sign=[1, -1], kind=KINDS, setting="ABCD", n=[4, 5], alpha=ALPHAS[::2]))
def test_equals_refitting(setting, kind, sign, n, alpha):
    problem = problems.problem("network", (n, n), (kind, kind), alpha, sign=sign)
    allowed = 1e-8 if kind == "full" else problems.tolerance(problem)
    assert problems.error(holdout(problem, setting), refit(problem, setting)) <= allowed


@over(every(setting="ABD"))
def test_other_filters(setting):
    filters = {"filter": IteratedTikhonov(3), "task_filter": IteratedTikhonov(3)}
    for sign in (1, -1):
        problem = problems.problem("network", (6, 6), alpha=0.7, sign=sign, **filters)
        assert_allclose(
            holdout(problem, setting), transductive(problem, setting), rtol=1e-9, atol=1e-12
        )


@over(every(seed=[0]))
def test_filters_that_leave_little_of_all_directions_keep_their_digits(seed):
    """Remainders between 10⁻²⁷ and 10⁻³⁴: some pairs of vertices are nearly related. Fifty digits are the reference."""
    features, Y, _ = problems.data(6, 6, 9, seed=seed)
    K = features @ features.T
    Y = Y + Y.T
    alpha = 1e-7
    problem = posed("network", Y, Spectrum.from_gram(K), alpha, filter=IteratedTikhonov(4))
    found = holdout(problem, "D")
    with fifty_digits.in_fifty_digits:
        R = fifty_digits.exact(np.eye(6))
        for _ in range(4):
            R = alpha * fifty_digits.solve(fifty_digits.exact(K) + alpha * np.eye(6, dtype=int), R)
        for i, j in itertools.permutations(range(6), 2):
            others = np.delete(np.arange(6), [i, j])
            weights = -fifty_digits.solve(R[np.ix_([i, j], [i, j])], R[np.ix_([i, j], others)])
            expected = float(
                weights[0] @ fifty_digits.exact(Y[np.ix_(others, others)]) @ weights[1]
            )
            assert_allclose(found[i, j], expected, rtol=1e-9, atol=1e-9)


@over(every(sign=[1, -1], alpha=[1e-3]))
def test_small_networks(alpha, sign):
    """Of three vertices one is left in D, of two none: where there is nothing to learn from, nothing is said."""
    for n in (1, 2, 3):
        problem = problems.problem("network", (n, n), alpha=alpha, sign=sign)
        for setting in "ABCD":
            if (n == 1 and setting != "A") or (n == 2 and setting == "D"):
                with pytest.raises(ValueError, match="^No label remains to learn from"):
                    holdout(problem, setting)
            else:
                assert_allclose(
                    holdout(problem, setting), refit(problem, setting), rtol=1e-8, atol=1e-10
                )


@over(every(sign=[1, -1], alpha=[1e-10]))
def test_an_edge_leaves_in_both_directions_beside_missing_labels(sign, alpha):
    problem = problems.problem("network", (6, 6), alpha=alpha, sign=sign)
    labels = problem.Y.copy()
    labels[1, 4] = labels[4, 1] = np.nan
    held_out = holdout(problem.with_grid(labels), "A")
    for i, j in ((0, 2), (2, 2), (3, 5)):
        left = labels.copy()
        left[i, j] = left[j, i] = np.nan
        expected = problem.with_grid(left).complete().labels
        assert_allclose(held_out[[i, j], [j, i]], expected[[i, j], [j, i]], rtol=1e-6, atol=1e-8)
