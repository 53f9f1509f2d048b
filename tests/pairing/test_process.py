"""The Gaussian process of a pair kernel against the same process written out over all pairs."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn import _memory
from dyadlearn.exceptions import NotEnoughMemoryError, PrecisionWarning
from dyadlearn.pairing import PairKernel, expansion
from dyadlearn.pairing import process as module
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.process import Process
from dyadlearn.spectrum import Spectrum
from problems import KINDS, features
from sweeps import covering, over

SHARES = [
    (1.0, 0.0, 0.0),
    (0.7, 0.4, 0.0),
    (1.0, 0.0, 0.5),
    (0.6, 0.3, 0.2),
    (0.0, 1.0, 0.5),
    (0.0, 2.0, 0.0),
]
SETTINGS = ["A", "B", "C", "D"]
N_NEW = (3, 2)
DUAL = ("full", "singular")
# Features that are no fewer than rows leave no null space out.
OWN_KINDS = [*KINDS, "spanning"]


def process_of(
    spectrum: Spectrum,
    task_spectrum: Spectrum,
    alpha: float,
    shares: tuple[float, float, float] = (1.0, 0.0, 0.0),
    free_mean: bool = False,
) -> Process:
    return Process(PairKernel(spectrum, task_spectrum, alpha, shares, free_mean))


# --- the slow twin, in extended precision ----------------------------------------------------------------------


def solved(matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the solution of a system and the logarithm of its determinant, by elimination."""
    system = np.concatenate([matrix, right], axis=1).astype(np.longdouble)
    n = len(matrix)
    logarithm = np.longdouble(0)
    for i in range(n):
        pivot = i + int(np.argmax(np.abs(system[i:, i])))
        system[[i, pivot]] = system[[pivot, i]]
        logarithm += np.log(np.abs(system[i, i]))
        system[i] /= system[i, i]
        others = np.arange(n) != i
        system[others] -= system[others, i, None] * system[i]
    return system[:, n:], float(logarithm)


@dataclass
class Case:
    """Features of both sides, those of new rows after those of training, and what the process is."""

    sides: list[np.ndarray]
    kinds: tuple[str, str]
    shape: tuple[int, int]
    alpha: float
    shares: tuple[float, float, float]
    free_mean: bool
    Y: np.ndarray

    def kernels(self) -> list[np.ndarray]:
        return [side.astype(np.longdouble) @ side.T.astype(np.longdouble) for side in self.sides]

    def dense(self, setting: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the kernel of all training pairs, that of asked pairs with them, and of these with themselves."""
        a, b, c = self.shares
        m, q = self.shape
        K, G = self.kernels()
        new = (
            (slice(m, None) if setting in "BD" else slice(m)),
            (slice(q, None) if setting in "CD" else slice(q)),
        )
        cross = []
        own = []
        for rows, columns in ((slice(m), slice(q)), new):
            # The same thing, and not one that is like it.
            same = np.eye(len(K))[rows, :m]
            same_task = np.eye(len(G))[columns, :q]
            k = K[rows, :m]
            g = G[columns, :q]
            cross.append(a * np.kron(k, g) + b * np.kron(k, same_task) + c * np.kron(same, g))
            k = np.diag(K)[rows, None]
            g = np.diag(G)[None, columns]
            own.append(a * k * g + b * k + c * g)
        return cross[0], cross[1], own[1]

    def variances(self) -> dict[str, np.ndarray]:
        """Return posterior variances in each setting, as those of a linear model of the features of pairs.

        With features Φ and weights of variance 1 they are λ φᵀ(ΦᵀΦ + λI)⁻¹φ, which subtracts
        nothing; a flat mean is a feature whose weight has no prior.
        """
        a, b, c = self.shares
        m, q = self.shape
        F, H = self.sides
        parts = [
            a**0.5 * np.kron(F, H),
            b**0.5 * np.kron(F, np.eye(len(H))),
            c**0.5 * np.kron(np.eye(len(F)), H),
        ]
        pairs = np.concatenate([part for part in parts if part.any()], axis=1)
        prior = np.ones(pairs.shape[1])
        if self.free_mean:
            pairs = np.column_stack([pairs, np.ones(len(pairs))])
            prior = np.r_[prior, 0.0]
        pairs = pairs.astype(np.longdouble).reshape(len(F), len(H), -1)
        own = pairs[:m, :q].reshape(m * q, -1)
        everything = pairs.reshape(-1, len(prior))
        found, _ = solved(own.T @ own + self.alpha * np.diag(prior), everything.T)
        grid = (
            (self.alpha * np.sum(everything * found.T, axis=1))
            .astype(float)
            .reshape(len(F), len(H))
        )
        return {"A": grid[:m, :q], "B": grid[m:, :q], "C": grid[:m, q:], "D": grid[m:, q:]}

    def by_kernel(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return posterior and prior variances in each setting; a flat mean is one more unknown of a border."""
        dense = [self.dense(setting) for setting in SETTINGS]
        C = dense[0][0] + self.alpha * np.eye(len(dense[0][0]))
        cross = np.concatenate([each for _, each, _ in dense])
        if self.free_mean:
            ones = np.ones((len(C), 1))
            C = np.block([[C, ones], [ones.T, np.zeros((1, 1))]])
            cross = np.concatenate([cross, np.ones((len(cross), 1))], axis=1)
        explained = np.sum(cross * solved(C, cross.T)[0].T, axis=1)
        found = {}
        for setting, (_, _, own) in zip(SETTINGS, dense, strict=True):
            here = explained[: own.size].reshape(own.shape)
            explained = explained[own.size :]
            found[setting] = (own - here).astype(float), own.astype(float)
        return found

    def likelihood(self, restricted: bool, scale: float | None) -> tuple[float, float]:
        """Return the log marginal likelihood and the scale; restricted by contrasts, none of which has a mean."""
        C, _, _ = self.dense("A")
        C = C + self.alpha * np.eye(len(C))
        y = self.Y.reshape(-1, 1)
        n = len(C)
        if self.free_mean and restricted:
            contrasts = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
            C = contrasts.T @ C @ contrasts
            y = contrasts.T @ y
        elif self.free_mean:
            found, _ = solved(C, np.column_stack([np.ones(n), y]))
            y = y - found[:, 1].sum() / found[:, 0].sum()
        found, logarithm = solved(C, y)
        square = float((y.T @ found)[0, 0])
        scale = (square / len(y)) ** 0.5 if scale is None else scale
        value = -0.5 * (square / scale**2 + logarithm + len(y) * np.log(2 * np.pi * scale**2))
        # A flat prior of the mean has density 1 along 1, and contrasts measure along 1/√n.
        return value - (0.5 * np.log(n) if self.free_mean and restricted else 0.0), scale

    # --- the same for the package ---

    def process(self, dtype: str = "float64", put: Any = np.asarray) -> Process:
        spectra = []
        for side, kind, n in zip(self.sides, self.kinds, self.shape, strict=True):
            own = side[:n]
            if kind in DUAL:
                spectra.append(Spectrum.from_gram(put((own @ own.T).astype(dtype))))
            else:
                given = own.astype(dtype)
                spectra.append(
                    Spectrum.from_features(
                        sparse.csr_array(given) if kind == "sparse" else put(given)
                    )
                )
        return process_of(*spectra, self.alpha, self.shares, self.free_mean)

    def asked(self, setting: str, dtype: str = "float64", put: Any = np.asarray) -> dict[str, Any]:
        """Return the new rows of a setting, and k(x, x) where it takes them."""
        found: dict[str, Any] = {}
        words = [("rows", "diagonal", "BD"), ("tasks", "task_diagonal", "CD")]
        for (word, diagonal, settings), side, kind, n in zip(
            words, self.sides, self.kinds, self.shape, strict=True
        ):
            if setting not in settings:
                continue
            new = side[n:]
            own = side[:n]
            if kind in DUAL:
                found[word] = NewRows(put((new @ own.T).astype(dtype)), lambda rows: rows, 0)
                found[diagonal] = put(np.sum(new**2, axis=1).astype(dtype))
            else:
                given = new.astype(dtype)
                given = sparse.csr_array(given) if kind == "sparse" else put(given)
                found[word] = NewRows(given, lambda rows: rows, 0)
        return found


def case(shape, kinds, alpha, shares, free_mean, beyond=True, seed=0) -> Case:
    """Return a problem; with `beyond`, new rows have a feature that those of training lack."""
    rng = np.random.default_rng([seed, *shape])
    sides = []
    for kind, n, n_new in zip(kinds, shape, N_NEW, strict=True):
        own = features("full" if kind == "spanning" else kind, n, rng)
        side = np.concatenate([own, rng.normal(size=(n_new, own.shape[1])) / own.shape[1] ** 0.5])
        if beyond:
            side = np.column_stack([side, np.r_[np.zeros(n), rng.normal(size=n_new)]])
        sides.append(np.column_stack([side, np.ones(len(side))]) if free_mean else side)
    return Case(
        sides, kinds, shape, alpha, shares, free_mean, 100.0 * free_mean + rng.normal(size=shape)
    )


def may_be(kind, task_kind, shares, **_):
    """A truncated side has no room for what stands on its null space."""
    _, b, c = shares
    whole = (*DUAL, "spanning")
    return not (c and kind not in whole) and not (b and task_kind not in whole)


CASES = covering(
    shape=[(6, 4), (4, 6)],
    kind=OWN_KINDS,
    task_kind=["full", "singular", "thin", "spanning"],
    shares=SHARES,
    free_mean=[False, True],
    alpha=[1e-8, 1e-2, 1e8],
    beyond=[True, False],
    where=may_be,
)


# --- variances -------------------------------------------------------------------------------------------------


@over(CASES)
def test_variances_are_those_of_the_dense_process(
    shape, kind, task_kind, shares, free_mean, alpha, beyond
):
    problem = case(shape, (kind, task_kind), alpha, shares, free_mean, beyond)
    process = problem.process()
    by_weights = problem.variances()
    all_by_kernel = problem.by_kernel()
    top = np.linalg.norm(problem.dense("A")[0].astype(float), 2)
    for setting in SETTINGS:
        found = process.variance(**problem.asked(setting))
        by_kernel, prior = all_by_kernel[setting]
        # A sum of positive terms has all its digits; a difference those that are left beside the
        # prior variance.
        asked = [k for k, settings in ((kind, "BD"), (task_kind, "CD")) if setting in settings]
        loses = any(k in DUAL for k in asked)
        atol = 3e-16 * (10 + (top / alpha) ** 0.5) * prior.max() if loses else 0.0
        # Elimination loses as many digits as the noise is smaller than the kernel, also in extended
        # precision.
        rtol = 1e-12 + 2e-20 * top / alpha
        assert_allclose(found, by_weights[setting], rtol=rtol, atol=atol, err_msg=setting)
        assert_allclose(
            found, by_kernel, rtol=1e-9, atol=(1e-14 + 1e-16 / alpha) * prior.max(), err_msg=setting
        )
        assert (found >= 0).all()


@over(
    covering(
        kinds=[("full", "full"), ("singular", "primal"), ("thin", "sparse")],
        free_mean=[False, True],
    )
)
def test_rows_of_training_are_as_sure_as_they_are_known_to_be(kinds, free_mean):
    """The product kernel cannot tell a row of training that is handed in from one that it knows."""
    problem = case((7, 5), kinds, 0.1, (1.0, 0.0, 0.0), free_mean)
    process = problem.process()
    known = problem.process().variance()
    for side, n in enumerate(problem.shape):
        problem.sides[side] = np.concatenate([problem.sides[side][:n]] * 2)
    for setting in "BCD":
        assert_allclose(process.variance(**problem.asked(setting)), known, rtol=1e-11)


@over(
    covering(
        setting=["B", "C", "D"],
        kinds=[("full", "full"), ("primal", "thin")],
        free_mean=[False, True],
    )
)
def test_blocks_of_rows_change_nothing(setting, kinds, free_mean, monkeypatch):
    problem = case((7, 5), kinds, 0.1, (1.0, 0.0, 0.0), free_mean)
    whole = problem.process().variance(**problem.asked(setting))
    monkeypatch.setattr(expansion, "_BLOCK_BYTES", 1)
    sizes = []

    def counted(rows):
        sizes.append(rows.shape[0])
        return rows

    asked = problem.asked(setting)
    for word in {"rows", "tasks"} & asked.keys():
        asked[word] = NewRows(asked[word].values, counted, 0)
    assert_allclose(problem.process().variance(**asked), whole, rtol=1e-12)
    # Each row is read once, and by itself.
    assert sizes == [1] * sum(asked[word].size for word in {"rows", "tasks"} & asked.keys())


@over(
    covering(
        n_new=[(2000, 0), (400, 300), (300, 400)], free_mean=[False, True], block=[2**20, 2**27]
    )
)
def test_the_memory_that_is_asked_for_is_the_memory_taken(n_new, free_mean, block, monkeypatch):
    rng = np.random.default_rng(0)
    asked = []
    sides = [np.column_stack([rng.normal(size=(n, n)), np.ones(n)]) for n in (60, 50)]
    spectra = [Spectrum.from_gram(side @ side.T) for side in sides]
    process = process_of(*spectra, 1e9, (1.0, 0.0, 0.0), free_mean)
    rows, tasks = (
        NewRows(np.zeros((a, n)), lambda rows: rows, 0) if a else None
        for a, n in zip(n_new, (60, 50), strict=True)
    )
    diagonals = (None if new is None else np.ones(new.size) for new in (rows, tasks))
    process.variance()  # what it keeps of itself is there before
    monkeypatch.setattr(expansion, "_BLOCK_BYTES", block)
    monkeypatch.setattr(module, "check_memory", lambda need, *_: asked.append(need))
    tracemalloc.start()
    try:
        process.variance(rows, tasks, *diagonals)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.6 * asked[0] < taken + 1e5
    assert taken < 1.1 * asked[0] + 1e5


def test_a_grid_of_deviations_that_does_not_fit_is_refused(monkeypatch):
    problem = case((7, 5), ("full", "full"), 0.1, (1.0, 0.0, 0.0), False)
    many = NewRows(np.broadcast_to(np.zeros(7), (10**10, 7)), lambda rows: rows, 0)
    with pytest.raises(NotEnoughMemoryError, match="Deviations of 10000000000 × 5 labels"):
        problem.process().variance(many, None, np.broadcast_to(np.ones(1), 10**10))
    monkeypatch.setattr(_memory, "available_memory", lambda like: 1000)
    with pytest.raises(NotEnoughMemoryError, match="Deviations of the labels of training"):
        problem.process().variance()
    with pytest.raises(NotEnoughMemoryError, match="The likelihood of the labels of training"):
        problem.process().log_likelihood(problem.Y)


def test_without_noise_training_is_certain_and_new_rows_are_not():
    problem = case((6, 5), ("full", "singular"), 0.0, (1.0, 0.0, 0.0), False)
    process = problem.process()
    assert_array_equal(process.variance(), np.zeros((6, 5)))
    problem.alpha = 1e-13
    nearly = problem.variances()
    for setting in "BCD":
        assert_allclose(
            process.variance(**problem.asked(setting)), nearly[setting], rtol=1e-9, atol=1e-9
        )
        assert (nearly[setting] > 1e-3).all()


def test_directions_that_rounding_made_are_left_out():
    """A smooth kernel has most eigenvalues below the precision, where the noise is larger than they are."""
    rng = np.random.default_rng(0)
    sides = [rng.normal(size=(n + 3, 2)) for n in (20, 12)]
    grams = [np.exp(-0.1 * ((side[:, None] - side[None]) ** 2).sum(-1)) for side in sides]
    found = []
    for dtype in (np.float64, np.float32):
        spectra = [Spectrum.from_gram(gram[:-3, :-3].astype(dtype)) for gram in grams]
        rows, tasks = (
            NewRows(gram[-3:, :-3].astype(dtype), lambda rows: rows, 0) for gram in grams
        )
        ones = np.ones(3, dtype)
        process = process_of(*spectra, 1e-9)
        found.append(
            [process.variance(rows, tasks, ones, ones), process.variance(rows, None, ones)]
        )
    for exact, rounded in zip(*found, strict=True):
        assert_allclose(rounded, exact, atol=1e-2)


def test_a_constant_is_known_ever_better_and_other_things_not():
    """Far from all data, where the kernel is zero, what is left is the prior and the mean's own uncertainty."""
    rng = np.random.default_rng(0)
    sides = [rng.normal(size=(n, 2)) for n in (8, 6)]
    far = NewRows(np.ones((1, 8)), lambda rows: rows, 0)  # a kernel of zero, and the constant's one
    grams = [np.exp(-((side[:, None] - side[None]) ** 2).sum(-1)) + 1.0 for side in sides]
    spectra = [Spectrum.from_gram(gram) for gram in grams]
    for alpha in (1e-3, 1.0, 1e3):
        bounded = process_of(*spectra, alpha, (1.0, 0.0, 0.0), False).variance(
            far, None, np.full(1, 2.0)
        )
        free = process_of(*spectra, alpha, (1.0, 0.0, 0.0), True).variance(
            far, None, np.full(1, 2.0)
        )
        assert (free > bounded).all()
    # With so much noise nothing is known of the mean but the average of the labels.
    assert_allclose(free, 1e3 / 48, rtol=0.3)


@over(covering(setting=["B", "C", "D"], dtype=["float64", "float32"]))
def test_what_is_negative_by_rounding_is_zero_and_by_more_is_told(setting, dtype):
    problem = case((6, 5), ("full", "full"), 1e-9, (1.0, 0.0, 0.0), False, beyond=False)
    for side, n in enumerate(problem.shape):
        problem.sides[side] = np.concatenate([problem.sides[side][:n]] * 2)
    asked = problem.asked(setting, dtype)
    assert (problem.process(dtype).variance(**asked) >= 0).all()
    for word in {"diagonal", "task_diagonal"} & asked.keys():
        asked[word] = 0.5 * asked[word]
    with pytest.warns(
        PrecisionWarning,
        match=r"The variance of \d+ of \d+ pairs is negative by more than rounding",
    ):
        assert (problem.process(dtype).variance(**asked) >= 0).all()


@over(
    covering(
        shape=[(5, 4), (4, 5)],
        kinds=[("full", "singular"), ("thin", "primal")],
        free_mean=[False, True],
    )
)
def test_the_scale_is_that_of_the_dual_parameters(shape, kinds, free_mean):
    for shares in SHARES if kinds[0] in DUAL else SHARES[:1]:
        problem = case(shape, kinds, 0.3, shares, free_mean)
        process = problem.process()
        pairs = PairKernel(*process.model.spectra, 0.3, shares, free_mean)
        square = float(np.sum(problem.Y * pairs.dual(problem.Y))) / (problem.Y.size - free_mean)
        assert_allclose(Process(pairs).scale(problem.Y), square**0.5, rtol=1e-10)
        assert_allclose(Process(pairs).variance(), problem.variances()["A"], rtol=1e-10)


def test_a_side_of_zeros_leaves_everything_unknown():
    """Nothing is learnt of a function that is known to be zero on the training grid."""
    spectra = Spectrum.from_features(np.zeros((4, 2))), Spectrum.from_gram(np.diag([1.0, 2.0, 3.0]))
    process = process_of(*spectra, 0.5)
    new = np.array([[3.0, 4.0]])
    assert_array_equal(process.variance(), np.zeros((4, 3)))
    rows = NewRows(new, lambda rows: rows, 0)
    assert_allclose(process.variance(rows), 25.0 * np.array([[1.0, 2.0, 3.0]]), rtol=1e-12)
    tasks = NewRows(np.zeros((1, 3)), lambda rows: rows, 0)
    assert_allclose(process.variance(rows, tasks, None, np.array([7.0])), [[175.0]], rtol=1e-12)
    Y = np.arange(12.0).reshape(4, 3)
    assert_allclose(process.scale(Y), (np.sum(Y**2) / 0.5 / 12) ** 0.5, rtol=1e-12)
    assert_allclose(
        process.log_likelihood(Y, scale=1.0)[0],
        -np.sum(Y**2) - 6 * np.log(2 * np.pi * 0.5),
        rtol=1e-12,
    )


def test_a_free_mean_needs_a_constant_on_each_side():
    spectra = [Spectrum.from_features(rng) for rng in (np.eye(5, 2), np.eye(4, 2))]
    with pytest.raises(ValueError, match="needs a constant feature on both sides"):
        process_of(*spectra, 1.0, free_mean=True).variance()


# --- likelihood ------------------------------------------------------------------------------------------------


@over(CASES[1::2])
def test_the_likelihood_is_that_of_the_dense_process(
    shape, kind, task_kind, shares, free_mean, alpha, beyond
):
    problem = case(shape, (kind, task_kind), alpha, shares, free_mean, beyond)
    process = problem.process()
    for restricted in (False, True):
        for scale in (None, 1.3):
            found, _ = process.log_likelihood(problem.Y, restricted=restricted, scale=scale)
            expected, dense_scale = problem.likelihood(restricted, scale)
            assert_allclose(found, expected, rtol=1e-8)
            if restricted and scale is None:
                assert_allclose(process.scale(problem.Y), dense_scale, rtol=1e-8)


@over(CASES[::2])
def test_the_gradient_is_that_of_finite_differences(
    shape, kind, task_kind, shares, free_mean, alpha, beyond
):
    problem = case(shape, (kind, task_kind), alpha, shares, free_mean, beyond)
    process = problem.process()
    names = ["alpha", "product", "per_task", "per_instance", "scale"]
    start = np.array([alpha, *shares, 1.3])
    for restricted in (False, True):
        for scale in (None, 1.3):

            def value(logarithms, restricted=restricted, scale=scale):
                alpha, *shares, given = start * np.exp(logarithms)
                there = process_of(*process.model.spectra, alpha, tuple(shares), free_mean)
                given = None if scale is None else given
                return there.log_likelihood(problem.Y, restricted=restricted, scale=given)[0]

            steps = np.eye(5) * 1e-4
            expected = [(value(step) - value(-step)) / 2e-4 for step in steps]
            _, gradient = process.log_likelihood(problem.Y, restricted=restricted, scale=scale)
            assert list(gradient) == (names[:4] if scale is None else names)
            size = max(1.0, np.abs(expected).max())
            assert_allclose(
                list(gradient.values()), expected[: len(gradient)], rtol=1e-6, atol=1e-6 * size
            )
            if scale is None:  # a factor of everything is the scale, which is chosen already
                assert abs(sum(gradient.values())) < 1e-9 * size


def test_the_likelihood_in_every_library_and_precision(library):
    for kinds, shares, free_mean in (
        (("full", "singular"), (0.6, 0.3, 0.2), True),
        (("primal", "full"), (1.0, 0.4, 0.0), False),
    ):
        problem = case((7, 5), kinds, 0.2, shares, free_mean)
        process = problem.process(library.dtype, library.asarray)
        labels = library.asarray(problem.Y)
        rtol = 1e-4 if library.dtype == "float32" else 1e-10
        found, gradient = process.log_likelihood(labels)
        expected, exact = problem.process().log_likelihood(problem.Y)
        assert_allclose(found, expected, rtol=rtol)
        assert_allclose(list(gradient.values()), list(exact.values()), rtol=30 * rtol, atol=rtol)
        assert_allclose(process.scale(labels), problem.process().scale(problem.Y), rtol=rtol)


@over(covering(unit=[1e-200, 1e-3, 1e150], offset=[0.0, 1e6]))
def test_labels_in_other_units_are_the_same_labels(unit, offset):
    problem = case((6, 5), ("full", "primal"), 0.3, (1.0, 0.0, 0.0), True)
    process = problem.process()
    Y = problem.Y
    value, gradient = process.log_likelihood(Y)
    found, same = process.log_likelihood(unit * (Y + offset))
    rtol = 1e-9 if offset else 1e-12
    assert_allclose(process.scale(unit * (Y + offset)), unit * process.scale(Y), rtol=rtol)
    assert_allclose(found, value - 29 * np.log(unit), rtol=rtol)
    assert_allclose(list(same.values()), list(gradient.values()), rtol=10 * rtol, atol=rtol)


def test_labels_that_have_no_scale_are_refused():
    one = np.ones((1, 1))
    with pytest.raises(ValueError, match="One label and an unpenalised mean do not determine"):
        process_of(
            Spectrum.from_gram(2 * one), Spectrum.from_gram(2 * one), 1.0, free_mean=True
        ).scale(one)
    problem = case((6, 5), ("full", "full"), 0.3, (1.0, 0.0, 0.0), True)
    constant = np.full((6, 5), 3.0)
    assert problem.process().scale(constant) == 0.0
    with pytest.raises(ValueError, match="the most likely scale is 0: pass scale="):
        problem.process().log_likelihood(constant)
    value, gradient = problem.process().log_likelihood(constant, scale=2.0)
    assert np.isfinite(value)
    assert gradient["scale"] == -29.0
    for kinds in (("full", "singular"), ("primal", "full")):
        problem = case((6, 5), kinds, 0.0, (1.0, 0.0, 0.0), False)
        for ask in (problem.process().scale, problem.process().log_likelihood):
            with pytest.raises(
                ValueError, match="With alpha = 0 and a singular kernel.* use alpha > 0"
            ):
                ask(problem.Y)
    problem = case((6, 5), ("full", "full"), 0.0, (1.0, 0.0, 0.0), False)
    assert_allclose(
        problem.process().log_likelihood(problem.Y)[0],
        problem.likelihood(True, None)[0],
        rtol=1e-10,
    )
