"""Compare the Gaussian process of missing or weighted labels with the same process written out over all pairs."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import _memory
from dyadlearn.exceptions import NotEnoughMemoryError, PrecisionWarning
from dyadlearn.labels import Labels
from dyadlearn.pairing import PairKernel, cells_process, expansion
from dyadlearn.pairing.cells_process import CellsProcess, process_of
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.process import Process
from dyadlearn.spectrum import Spectrum
from sweeps import covering, over

SHARES = [
    (1.0, 0.0, 0.0),
    (0.7, 0.4, 0.0),
    (1.0, 0.0, 0.5),
    (0.6, 0.3, 0.2),
    (0.0, 1.0, 0.5),
    (0.0, 2.0, 0.0),
]
KINDS = [("full", "full"), ("singular", "full"), ("full", "thin"), ("thin", "thin")]
FORMS = ["missing", "weighted", "both", "few"]
SHAPE = (6, 5)
N_NEW = (3, 2)
NAMES = ["alpha", "product", "per_task", "per_instance"]


@dataclass
class Case:
    """Features of both sides, new rows after those of training, the labels, and the process over all pairs."""

    sides: list[np.ndarray]
    kinds: tuple[str, str]
    alpha: float
    shares: tuple[float, float, float]
    free_mean: bool
    labels: Labels

    @property
    def y(self) -> np.ndarray:
        return self.labels.values

    def noise(self) -> np.ndarray:
        if self.labels.weights is None:
            weights = np.ones(self.labels.size)
        else:
            weights = self.labels.weights
        return self.alpha / weights

    def terms(self) -> list[np.ndarray]:
        """Return the three kernels between all pairs, each times its share; all rows differ from each other."""
        K, G = (side @ side.T for side in self.sides)
        a, b, c = self.shares
        return [a * np.kron(K, G), b * np.kron(K, np.eye(len(G))), c * np.kron(np.eye(len(K)), G)]

    @property
    def at(self) -> np.ndarray:
        """Position of each label among all pairs."""
        rows, columns = self.labels.places
        return rows * len(self.sides[1]) + columns

    def covariances(self) -> np.ndarray:
        """Return the posterior covariance between all pairs; a flat mean is one more unknown of a border."""
        P = sum(self.terms())
        C = P[np.ix_(self.at, self.at)] + np.diag(self.noise())
        cross = P[:, self.at]
        if self.free_mean:
            ones = np.ones((len(C), 1))
            C = np.block([[C, ones], [ones.T, np.zeros((1, 1))]])
            cross = np.column_stack([cross, np.ones(len(P))])
        return P - cross @ np.linalg.solve(C, cross.T)

    def grids(self) -> dict[str, np.ndarray]:
        """Return variances of all pairs in each setting."""
        m, q = SHAPE
        grid = np.diag(self.covariances()).reshape([len(side) for side in self.sides])
        return {"A": grid[:m, :q], "B": grid[m:, :q], "C": grid[:m, q:], "D": grid[m:, q:]}

    def rounding(self) -> float:
        """Return the rounding error of a variance: of a difference, and of an inverse of this condition."""
        P = sum(self.terms())
        size = np.linalg.norm(P[np.ix_(self.at, self.at)], 2)
        return np.finfo(float).eps * (1.0 + size / self.noise().min()) * np.diag(P).max()

    def likelihood(self, restricted: bool, scale: float | None) -> tuple[float, float]:
        """Return the log marginal likelihood and the scale; restricted by contrasts, none of which has a mean."""
        C = sum(self.terms())[np.ix_(self.at, self.at)] + np.diag(self.noise())
        y = self.y
        n = len(y)
        if self.free_mean and restricted:
            contrasts = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
            C = contrasts.T @ C @ contrasts
            y = contrasts.T @ y
        elif self.free_mean:
            y = y - np.linalg.solve(C, y).sum() / np.linalg.solve(C, np.ones(n)).sum()
        square = y @ np.linalg.solve(C, y)
        scale = (square / len(y)) ** 0.5 if scale is None else scale
        value = -0.5 * (
            square / scale**2 + np.linalg.slogdet(C)[1] + len(y) * np.log(2 * np.pi * scale**2)
        )
        # A flat prior of the mean has density 1 along 1, and contrasts measure along 1/√n.
        return value - (0.5 * np.log(n) if self.free_mean and restricted else 0.0), scale

    # --- the same for the package ---

    def model(self, put: Any = np.asarray) -> PairKernel:
        spectra = []
        for side, kind, n in zip(self.sides, self.kinds, SHAPE, strict=True):
            own = side[:n]
            is_primal = kind == "thin"
            spectra.append(
                Spectrum.from_features(put(own))
                if is_primal
                else Spectrum.from_gram(put(own @ own.T))
            )
        return PairKernel(*spectra, self.alpha, self.shares, self.free_mean)

    def process(self, put: Any = np.asarray) -> CellsProcess:
        return CellsProcess(self.model(put), self.labels._changed(put))

    def asked(self, setting: str, put: Any = np.asarray) -> dict[str, Any]:
        """Return the new rows of a setting, and k(x, x) where it takes them."""
        found: dict[str, Any] = {}
        words = [("rows", "diagonal", "BD"), ("tasks", "task_diagonal", "CD")]
        for (word, diagonal, settings), side, kind, n in zip(
            words, self.sides, self.kinds, SHAPE, strict=True
        ):
            if setting in settings:
                new = side[n:]
                found[word] = NewRows(
                    put(new if kind == "thin" else new @ side[:n].T), lambda rows: rows, 0
                )
                if kind != "thin":
                    found[diagonal] = put(np.sum(new**2, axis=1))
        return found


def case(
    kinds=("full", "full"), alpha=0.3, shares=SHARES[3], free_mean=True, form="both", seed=0
) -> Case:
    """Return a problem; the last row and the last column may be without labels."""
    rng = np.random.default_rng(seed)
    sides = []
    for kind, n, n_new in zip(kinds, SHAPE, N_NEW, strict=True):
        n_features = {"full": n + 1, "singular": n - 2, "thin": 2}[kind]
        side = rng.normal(size=(n + n_new, n_features)) / n_features**0.5
        sides.append(np.column_stack([side, np.ones(n + n_new)]) if free_mean else side)
    Y = 100.0 * free_mean + rng.normal(size=SHAPE)
    share = {"missing": 0.3, "both": 0.3, "few": 0.7}.get(form, 0.0)
    Y[rng.random(SHAPE) < share] = np.nan
    if form == "few":
        Y[-1, :] = np.nan
        Y[:, -1] = np.nan
    weights = rng.uniform(0.05, 1.0, SHAPE) if form in ("weighted", "both") else None
    return Case(sides, kinds, alpha, shares, free_mean, Labels.of_grid(Y, weights).listed())


def may_be(kinds, shares, **_):
    """A truncated side has no room for what stands on its null space."""
    _, b, c = shares
    return not (c and kinds[0] == "thin") and not (b and kinds[1] == "thin")


CASES = covering(
    kinds=KINDS,
    shares=SHARES,
    free_mean=[False, True],
    alpha=[1e-3, 0.3, 1e4],
    form=[*FORMS, "all"],
    where=may_be,
)


# --- variances -------------------------------------------------------------------------------------------------


@over(CASES)
def test_variances_are_those_of_the_dense_process(kinds, shares, free_mean, alpha, form):
    problem = case(kinds, alpha, shares, free_mean, form)
    process = problem.process()
    expected = problem.grids()
    for setting in "ABCD":
        found = process.variance(**problem.asked(setting))
        assert_allclose(
            found, expected[setting], rtol=1e-9, atol=problem.rounding(), err_msg=setting
        )


@over(CASES[::2])
def test_sides_in_either_order_have_the_same_variances(
    kinds, shares, free_mean, alpha, form, monkeypatch
):
    problem = case(kinds, alpha, shares, free_mean, form)
    process = problem.process()
    for setting in "ABCD":
        found = []
        for sign in (1, -1):
            costs = iter((sign, 0))
            monkeypatch.setattr(CellsProcess, "_cost", lambda *_, costs=costs: next(costs))
            found.append(process.variance(**problem.asked(setting)))
        assert_allclose(found[0], found[1], rtol=1e-9, atol=problem.rounding(), err_msg=setting)


@over(CASES[1::2])
def test_covariances_are_those_of_the_dense_process(kinds, shares, free_mean, alpha, form):
    problem = case(kinds, alpha, shares, free_mean, form)
    asked = problem.asked("B")
    known = np.array([3, 0])
    m, q = SHAPE
    n_tasks = len(problem.sides[1])
    diagonal = asked.get("diagonal")
    for place in range(N_NEW[0]):
        pairs = (m + place) * n_tasks + np.arange(q)
        expected = problem.covariances()[np.ix_(pairs, pairs[known])]
        own = None if diagonal is None else diagonal[place : place + 1]
        found = problem.process().covariance(
            asked["rows"].take(slice(place, place + 1)), own, known
        )
        assert_allclose(found, expected, rtol=1e-9, atol=problem.rounding())


@over(covering(alpha=[1e-9, 1e-4, 1.0, 1e4, 1e9], free_mean=[False, True], form=["both", "all"]))
def test_variances_of_observed_pairs_have_all_digits(alpha, free_mean, form):
    """They are compared with those of labels whose mean is taken out of features of all pairs, without a difference."""
    problem = case(("full", "full"), alpha, (1.0, 0.0, 0.0), free_mean, form)
    features = np.kron(*problem.sides)[problem.at]
    noise = problem.noise()
    prior = np.ones(features.shape[1])
    if free_mean:
        features = np.column_stack([features, np.ones(len(features))])
        prior = np.append(prior, 0.0)
    system = features.T @ (features / noise[:, None]) + np.diag(prior)
    expected = np.sum(features * np.linalg.solve(system, features.T).T, axis=1)
    found = problem.process().variance()[problem.labels.places]
    assert_allclose(found, expected, rtol=1e-6 if alpha < 1e-6 else 1e-9)


@over(
    covering(
        kinds=KINDS, shares=SHARES, free_mean=[False, True], alpha=[1e-3, 0.3, 1e4], where=may_be
    )
)
def test_complete_labels_have_the_closed_form(kinds, shares, free_mean, alpha):
    problem = case(kinds, alpha, shares, free_mean, "all")
    process = problem.process()
    closed = Process(problem.model())
    Y = problem.y.reshape(SHAPE)
    for setting in "ABCD":
        asked = problem.asked(setting)
        assert_allclose(
            process.variance(**asked), closed.variance(**asked), rtol=1e-9, atol=problem.rounding()
        )
    asked = problem.asked("B")
    first = (
        asked["rows"].take(slice(0, 1)),
        None if "diagonal" not in asked else asked["diagonal"][:1],
        np.arange(3),
    )
    assert_allclose(
        process.covariance(*first), closed.covariance(*first), rtol=1e-9, atol=problem.rounding()
    )
    assert_allclose(process.scale(problem.y), closed.scale(Y), rtol=1e-9)
    for restricted in (False, True):
        for scale in (None, 1.3):
            value, gradient = process.log_likelihood(problem.y, restricted=restricted, scale=scale)
            expected, slopes = closed.log_likelihood(Y, restricted=restricted, scale=scale)
            assert_allclose(value, expected, rtol=1e-9)
            assert list(gradient) == list(slopes)
            assert_allclose(list(gradient.values()), list(slopes.values()), rtol=1e-8, atol=1e-8)


def test_a_process_is_chosen_by_the_labels():
    problem = case(form="all")
    Y = problem.y.reshape(SHAPE)
    for labels in (problem.labels, Labels.of_grid(Y)):
        process, values = process_of(problem.model(), labels)
        assert isinstance(process, Process)
        assert_array_equal(values, Y)
    weights = np.linspace(0.1, 1.0, Y.size).reshape(SHAPE)
    for labels in (Labels.of_grid(Y, weights), Labels.of_grid(np.where(weights < 0.2, np.nan, Y))):
        process, values = process_of(problem.model(), labels)
        assert isinstance(process, CellsProcess)
        assert_array_equal(values, Y[labels.observed])


@over(covering(setting=["A", "B", "C", "D"], shares=SHARES[::3], free_mean=[False, True]))
def test_blocks_of_rows_change_nothing(setting, shares, free_mean, monkeypatch):
    problem = case(shares=shares, free_mean=free_mean)
    whole = problem.process().variance(**problem.asked(setting))
    monkeypatch.setattr(expansion, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(
        cells_process, "row_blocks", lambda n, _: (slice(i, i + 1) for i in range(n))
    )
    assert_allclose(
        problem.process().variance(**problem.asked(setting)), whole, rtol=1e-10, atol=1e-14
    )


def test_other_diagonals_are_told():
    problem = case()
    asked = problem.asked("B")
    asked["diagonal"] = 0.1 * asked["diagonal"]
    with pytest.warns(
        PrecisionWarning, match=r"The variance of \d+ of 15 pairs is negative by more than rounding"
    ):
        assert (problem.process().variance(**asked) >= 0).all()


# --- likelihood ------------------------------------------------------------------------------------------------


@over(CASES)
def test_the_likelihood_is_that_of_the_dense_process(kinds, shares, free_mean, alpha, form):
    problem = case(kinds, alpha, shares, free_mean, form)
    process = problem.process()
    for restricted in (False, True):
        for scale in (None, 1.3):
            found, _ = process.log_likelihood(problem.y, restricted=restricted, scale=scale)
            expected, dense_scale = problem.likelihood(restricted, scale)
            assert_allclose(found, expected, rtol=1e-8)
            if restricted and scale is None:
                assert_allclose(process.scale(problem.y), dense_scale, rtol=1e-8)


@over(CASES)
def test_the_gradient_is_that_of_finite_differences(kinds, shares, free_mean, alpha, form):
    problem = case(kinds, alpha, shares, free_mean, form)
    start = np.array([alpha, *shares, 1.3])
    for restricted in (False, True):
        for scale in (None, 1.3):

            def value(logarithms, restricted=restricted, scale=scale):
                alpha, *shares, given = start * np.exp(logarithms)
                there = replace(problem, alpha=alpha, shares=tuple(shares))
                return there.likelihood(restricted, None if scale is None else given)[0]

            steps = np.eye(5) * 1e-4
            expected = [(value(step) - value(-step)) / 2e-4 for step in steps]
            _, gradient = problem.process().log_likelihood(
                problem.y, restricted=restricted, scale=scale
            )
            assert list(gradient) == (NAMES if scale is None else [*NAMES, "scale"])
            size = max(1.0, np.abs(expected).max())
            assert_allclose(
                list(gradient.values()), expected[: len(gradient)], rtol=1e-6, atol=1e-6 * size
            )


@over(covering(unit=[1e-200, 1e-3, 1e150], offset=[0.0, 1e6]))
def test_labels_in_other_units_are_the_same_labels(unit, offset):
    problem = case()
    process = problem.process()
    value, gradient = process.log_likelihood(problem.y)
    changed = unit * (problem.y + offset)
    found, same = process.log_likelihood(changed)
    rtol = 1e-9 if offset else 1e-12
    assert_allclose(process.scale(changed), unit * process.scale(problem.y), rtol=rtol)
    assert_allclose(found, value - (problem.y.size - 1) * np.log(unit), rtol=rtol)
    assert_allclose(list(same.values()), list(gradient.values()), rtol=10 * rtol, atol=rtol)


def test_weights_of_any_size_are_those_of_the_dense_process():
    """A label of hardly any weight says nothing, and costs no digit of others."""
    problem = case(form="weighted")
    weights = np.array(problem.labels.weights)
    weights[::4] = 1e-200
    light = replace(problem, labels=replace(problem.labels, weights=weights))
    without = replace(problem, labels=problem.labels.take(weights > 1e-100))
    for setting in "BCD":
        asked = problem.asked(setting)
        assert_allclose(
            light.process().variance(**asked), without.process().variance(**asked), rtol=1e-9
        )


# --- what is refused -------------------------------------------------------------------------------------------


def test_labels_that_have_no_scale_are_refused():
    problem = case()
    one = replace(problem, labels=problem.labels.take(np.array([2])))
    with pytest.raises(ValueError, match="One label and an unpenalised mean do not determine"):
        one.process().scale(one.y)
    constant = np.full(problem.y.size, 3.0)
    assert problem.process().scale(constant) == 0.0
    with pytest.raises(ValueError, match="the most likely scale is 0: pass scale="):
        problem.process().log_likelihood(constant)
    value, gradient = problem.process().log_likelihood(constant, scale=2.0)
    assert np.isfinite(value)
    assert gradient["scale"] == 1.0 - problem.y.size


def test_without_noise_a_regular_kernel_has_a_process_and_a_singular_one_has_none():
    problem = case(alpha=0.0, free_mean=False)
    assert_allclose(
        problem.process().log_likelihood(problem.y)[0], problem.likelihood(True, None)[0], rtol=1e-9
    )
    assert_array_equal(problem.process().variance()[problem.labels.places], 0.0)
    # With the last ones, rounding leaves a singular kernel a Cholesky factor.
    cases = [(("singular", "full"), "weighted", 0), (("thin", "thin"), "weighted", 0)]
    cases += [(("full", "thin"), "few", seed) for seed in (53, 59, 79, 103, 108)]
    for kinds, form, seed in cases:
        problem = case(kinds, 0.0, (1.0, 0.0, 0.0), False, form, seed)
        for ask in (problem.process().scale, problem.process().log_likelihood):
            with pytest.raises(
                ValueError, match="With alpha = 0 and a singular kernel.* use alpha > 0"
            ):
                ask(problem.y)


def test_noise_that_rounding_hides_is_told_or_refused():
    problem = case(("thin", "thin"), 1e-13, (1.0, 0.0, 0.0), False, "weighted")
    with pytest.warns(
        PrecisionWarning,
        match="leaves [0-9] accurate digits of the deviations and likelihoods: use",
    ):
        problem.process().scale(problem.y)
    problem = case(("thin", "thin"), 1e-25, (1.0, 0.0, 0.0), False, "weighted")
    with pytest.raises(
        ValueError, match="alpha = 1e-25 is lost in the rounding of the kernel between 30 observed"
    ):
        problem.process().scale(problem.y)


def test_labels_that_do_not_fit_into_memory_are_refused(monkeypatch):
    problem = case()
    many = NewRows(np.broadcast_to(np.zeros(6), (10**10, 6)), lambda rows: rows, 0)
    with pytest.raises(
        NotEnoughMemoryError, match="Computing deviations of 50000000000 pairs needs.*ask for fewer"
    ):
        problem.process().variance(many, None, np.broadcast_to(np.ones(1), 10**10))
    monkeypatch.setattr(_memory, "available_memory", lambda like: 1000)
    n = problem.y.size
    sentence = f"The matrix of {n} × {n} observed labels, .* needs about .* of memory, but only .*: fit the model on"
    with pytest.raises(NotEnoughMemoryError, match=sentence):
        problem.process().log_likelihood(problem.y)


def test_the_memory_that_is_asked_for_is_the_memory_taken(monkeypatch):
    rng = np.random.default_rng(0)
    m = 60
    q = 50
    spectra = [
        Spectrum.from_gram(side @ side.T) for side in (rng.normal(size=(n, n)) for n in (m, q))
    ]
    Y = np.where(rng.random((m, q)) < 0.4, np.nan, 1.0)
    labels = Labels.of_grid(Y).listed()
    asked = []
    monkeypatch.setattr(cells_process, "check_memory", lambda need, *_: asked.append(need))
    tracemalloc.start()
    try:
        process = CellsProcess(PairKernel(*spectra, 1e3, (0.5, 0.3, 0.2)), labels)
        process.log_likelihood(rng.normal(size=labels.size))
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.3 * asked[0] < taken < asked[0]
