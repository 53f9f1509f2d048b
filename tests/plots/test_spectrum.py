"""Spectra, filters and effective dimensions against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.exceptions import KernelError
from dyadlearn.filters import SpectralCutoff
from dyadlearn.kernels import gram
from dyadlearn.pairing import Kronecker
from dyadlearn.plots import SpectrumDisplay

PAPER = {"fit_intercept": False}


def hat(K, alpha):
    return K @ np.linalg.inv(K + alpha * np.eye(len(K)))


def centred(K):
    return K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()


def test_both_sides_of_a_model(real, ax):
    X, Y, T = real
    K, G = gram(X, kernel="rbf"), gram(T, kernel="rbf")
    model = TwoStepRidge(0.5, 0.02, kernel="rbf", task_kernel="rbf", **PAPER).fit(X, Y, tasks=T)
    display = SpectrumDisplay.from_estimator(model, ax=ax)
    assert list(display.sides) == ["instances", "tasks"]
    for side, kernel, alpha in zip(display.sides.values(), (K, G), (0.5, 0.02), strict=True):
        assert_allclose(side.values, np.linalg.eigvalsh(kernel)[::-1], rtol=1e-8)
        assert_allclose(side.effective_dimension, np.trace(hat(kernel, alpha)))
    for name, side in display.sides.items():
        assert_allclose(display.lines_[name].get_ydata(), side.values)
        assert_allclose(display.lines_[name].get_xdata(), np.arange(1, len(side.values) + 1))
        assert_allclose(
            display.filter_lines_[name].get_ydata(), side.values / (side.values + {"i": 0.5, "t": 0.02}[name[0]])
        )
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[0] == f"instances: 24, effective dimension {np.trace(hat(K, 0.5)):.1f}"


def test_a_constant_is_a_direction_that_is_kept_whole(real, ax):
    X, Y, T = real
    K, G = centred(gram(X, kernel="rbf")), centred(gram(T, kernel="rbf"))
    model = TwoStepRidge(0.5, 0.02, kernel="rbf", task_kernel="rbf").fit(X, Y, tasks=T)
    display = SpectrumDisplay.from_estimator(model, ax=ax)
    for side, kernel, alpha in zip(display.sides.values(), (K, G), (0.5, 0.02), strict=True):
        assert side.has_constant
        assert_allclose(side.values, np.linalg.eigvalsh(kernel)[:0:-1], rtol=1e-8)
        assert_allclose(side.effective_dimension, 1 + np.trace(hat(kernel, alpha)))
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[0] == f"instances: 24, a constant, effective dimension {1 + np.trace(hat(K, 0.5)):.1f}"


def test_eigenvalues_of_zero_are_not_drawn_but_counted(real, ax):
    X, Y, T = real
    model = TwoStepRidge(2.0, 0.5, **PAPER).fit(X, Y, tasks=T)  # linear kernels of rank 5 and 4
    display = SpectrumDisplay.from_estimator(model, ax=ax)
    assert (display.sides["instances"].rank, display.sides["tasks"].rank) == (5, 4)
    assert display.sides["instances"].n_rows == 24
    assert display.lines_["instances"].get_xdata().size == 5
    assert "instances: 24, rank 5, " in ax.get_legend().get_texts()[0].get_text()
    full = SpectrumDisplay.from_kernel(X @ X.T, 2.0, ax=ax)
    assert_allclose(full.sides["kernel"].values[:5], display.sides["instances"].values)
    assert_allclose(full.sides["kernel"].effective_dimension, display.sides["instances"].effective_dimension)


def test_kronecker_filters_the_products(real, ax, monkeypatch):
    X, Y, T = real
    K, G = gram(X, kernel="rbf"), gram(T, kernel="rbf")
    model = KroneckerRidge(0.3, kernel="rbf", task_kernel="rbf", **PAPER).fit(X, Y, tasks=T)
    display = SpectrumDisplay.from_estimator(model, ax=ax)
    pairs = display.sides["pairs"]
    assert_allclose(pairs.effective_dimension, np.trace(hat(np.kron(G, K), 0.3)))
    assert pairs.n_rows == 24 * 16
    assert (np.diff(pairs.values) <= 0).all()
    assert np.isnan(display.sides["tasks"].effective_dimension)
    assert list(display.filter_lines_) == ["pairs"]
    assert pairs.kernel == "product"
    monkeypatch.setattr(Kronecker, "is_product", False)  # any other kernel between pairs
    assert SpectrumDisplay.from_estimator(model, ax=ax).sides["pairs"].kernel == "between pairs"


def test_models_with_one_side(real, ax):
    X, Y, _ = real
    one = SpectrumDisplay.from_estimator(IndependentTaskRidge(2.0).fit(X, Y), ax=ax)
    assert list(one.sides) == ["instances"]
    assert_allclose(one.sides["instances"].effective_dimension, 1 + np.trace(hat(centred(X @ X.T), 2.0)))
    symmetric = (Y @ Y.T) / 10
    network = SpectrumDisplay.from_estimator(TwoStepRidge(symmetry="symmetric").fit(X, symmetric), ax=ax)
    assert list(network.sides) == ["nodes"]


def test_other_filters(real, ax):
    X, Y, T = real
    values = np.linalg.svd(X, compute_uv=False) ** 2
    cut = float(np.sort(values)[2])
    display = SpectrumDisplay.from_kernel(X @ X.T, 0.99 * cut, filter=SpectralCutoff(), name="proteins", ax=ax)
    assert display.sides["proteins"].effective_dimension == 3
    model = TwoStepRidge(0.99 * cut, filter=SpectralCutoff(), **PAPER).fit(X, Y, tasks=T)
    assert SpectrumDisplay.from_estimator(model, ax=ax).sides["instances"].effective_dimension == 3


def test_frames_other_libraries_and_incomplete_labels(real, ax):
    pd = pytest.importorskip("pandas")
    X, Y, _ = real
    expected = SpectrumDisplay.from_kernel(X @ X.T, 1.0, ax=ax).sides["kernel"].values
    frame = pd.DataFrame(X @ X.T).rename("i{}".format).rename(columns="i{}".format)
    assert_allclose(SpectrumDisplay.from_kernel(frame, 1.0, ax=ax).sides["kernel"].values, expected)
    torch = pytest.importorskip("torch")
    found = SpectrumDisplay.from_kernel(torch.as_tensor(X @ X.T), 1.0, ax=ax).sides["kernel"].values
    assert_allclose(found, expected, atol=1e-12)
    holes = Y.copy()
    holes[0, 0] = np.nan
    sides = SpectrumDisplay.from_estimator(TwoStepRidge(**PAPER).fit(X, holes), ax=ax).sides
    assert_allclose(sides["instances"].values, expected[:5])


def test_bad_input_is_said_in_a_sentence(ax):
    with pytest.raises(KernelError, match=r"K must be a square matrix, found shape \(2, 3\)"):
        SpectrumDisplay.from_kernel(np.ones((2, 3)), 1.0, ax=ax)
    with pytest.raises(ValueError, match="alpha must be a finite number of at least 0"):
        SpectrumDisplay.from_kernel(np.eye(2), -1.0, ax=ax)
    with pytest.raises(ValueError, match="All eigenvalues of kernel are zero"):
        SpectrumDisplay.from_kernel(np.zeros((2, 2)), 1.0, ax=ax)
