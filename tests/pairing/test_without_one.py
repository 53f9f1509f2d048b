"""A side without one of its rows, by the roots of an equation, beside a decomposition of what is left."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn.pairing import PairKernel
from dyadlearn.pairing.new_both import new_both
from dyadlearn.pairing.without_one import without_each
from dyadlearn.spectrum import Spectrum
from sweeps import lines, over

array_api_strict = pytest.importorskip("array_api_strict")


def kernels(n):
    rng = default_rng(n)
    full = rng.normal(size=(n, n))
    some = rng.normal(size=(n, max(1, n // 3)))
    points = rng.normal(size=(n, 2))
    turn = np.linalg.qr(full)[0]
    twins = np.repeat(full, 2, axis=0)[:n]
    return {
        "of full rank": full @ full.T,
        "of low rank": some @ some.T,
        "the identity": np.eye(n),
        "ones": np.ones((n, n)),
        "zeros": np.zeros((n, n)),
        "doubled eigenvalues": np.diag(1.0 + np.arange(n) // 2),
        "rows alike": twins @ twins.T,
        "smooth": np.exp(-np.sum((points[:, None] - points) ** 2, axis=2)),
        "graded": (turn * 10.0 ** -np.arange(n)) @ turn.T,
        "large": 1e200 * (full @ full.T),
        "small": 1e-200 * (full @ full.T),
    }


@over(lines("n", 2, 3, 11))
def test_a_row_that_leaves_is_as_good_as_a_decomposition_without_it(n):
    for name, gram in kernels(n).items():
        values, vectors = np.linalg.eigh(gram)
        values = np.where(values > 0, values, 0.0)
        gram = (vectors * values) @ vectors.T
        size = values.max()
        shuffled = default_rng(0).permutation(n)
        found = without_each(values[shuffled], vectors[:, shuffled], slice(0, n))
        for row, (roots, turned, cross) in enumerate(zip(*found, strict=True)):
            rest = np.delete(np.arange(n), row)
            inner = gram[np.ix_(rest, rest)]
            level = 1e-15 * n * size + 1e-300
            assert_allclose(turned[row], 0.0, err_msg=name)
            assert_allclose(turned.T @ turned, np.eye(n - 1), atol=1e-15 * n + 5e-15, err_msg=name)
            assert_allclose(roots, np.linalg.eigvalsh(inner), rtol=0, atol=level, err_msg=name)
            assert_allclose(
                (turned[rest] * roots) @ turned[rest].T, inner, rtol=0, atol=level, err_msg=name
            )
            assert_allclose(
                cross, turned[rest].T @ gram[rest, row], rtol=0, atol=level, err_msg=name
            )


def strict(spectrum):
    """Return a spectrum in a library that has an accelerator's way of leaving rows out."""
    arrays = (
        array_api_strict.asarray(np.ascontiguousarray(part))
        for part in (spectrum.values, spectrum.vectors)
    )
    values, vectors = arrays
    return Spectrum(values, spectrum.n_rows, None, vectors, None, spectrum.constant)


CASES = {
    # kernels of the two sides, shares, a free mean
    "kronecker": ("of full rank", "of full rank", (1.0, 0.0, 0.0), False),
    "singular": ("smooth", "of low rank", (1.0, 0.0, 0.0), False),
    "singular, with a mean": ("smooth", "of low rank", (1.0, 0.0, 0.0), True),
    "rows alike": ("rows alike", "rows alike", (1.0, 0.0, 0.0), False),
    "own functions": ("smooth", "of low rank", (0.7, 0.4, 0.2), False),
    "own functions, with a mean": ("of low rank", "of low rank", (0.7, 0.4, 0.2), True),
}


@over(lines("name shape", *zip(CASES, [(5, 4), (5, 6)] * 3, strict=True)))
def test_pairs_left_out_are_those_of_decompositions_of_each_rest(name, shape, monkeypatch):
    first, second, shares, free_mean = CASES[name]
    grams = kernels(shape[0])[first], kernels(shape[1])[second]
    sides = [Spectrum.from_gram(gram / np.trace(gram)) for gram in grams]
    Y = default_rng(1).normal(size=(1, *shape))
    alphas = [1e-4, 20.0]
    model = PairKernel(*map(strict, sides), 1.0, shares, free_mean)
    numpy_model = PairKernel(*sides, 1.0, shares, free_mean)
    several = [np.array([0, 2]), np.array([1, 3]), np.array([4])]
    # The last case leaves few rows out at once.
    for members, numbers in ((None, 2**20), (several, 2**20), (None, 40)):
        monkeypatch.setattr("dyadlearn.pairing.new_both._FOREIGN_BLOCK_NUMBERS", numbers)
        found = np.asarray(new_both(model, array_api_strict.asarray(Y), alphas, members))
        assert_allclose(found, new_both(numpy_model, Y, alphas, members), rtol=1e-8, atol=1e-9)
