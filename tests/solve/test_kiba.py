"""A certificate on real data: what was solved for 241,000 cells solves the equations, written out anew."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from dyadlearn.datasets import fetch_kiba
from dyadlearn.filters import Tikhonov
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.solve.missing import complete
from dyadlearn.spectrum import Spectrum

pytestmark = pytest.mark.slow  # small grids are compared with dense systems elsewhere


@pytest.fixture(scope="module")
def kiba(shared_data):
    """Give scores (every other drug, kinases), a quarter of them observed, with both kernels and both spectra."""
    data = fetch_kiba(data_home=shared_data)
    K = data.K[::2, ::2].copy()
    Y = data.Y[::2] - np.nanmean(data.Y)
    assert np.isnan(Y).mean() > 0.75
    return K, data.G, Y, Spectrum.from_gram(K), Spectrum.from_gram(data.G)


def relative(residual: np.ndarray, right: np.ndarray) -> float:
    return float(np.linalg.norm(residual) / np.linalg.norm(right))


def test_kronecker_solves_its_equations(kiba):
    K, G, Y, spectrum, task_spectrum = kiba
    observed = ~np.isnan(Y)
    alpha = 50.0
    found = complete(Kronecker(spectrum, task_spectrum, alpha), Y, route="observed", tol=1e-7)
    assert found.solution.converged
    # The dual parameters are grids of zeros but for the observed cells, where K A G + λA is the
    # label.
    dual = found.solution.values
    assert np.all(dual[~observed] == 0)
    fitted = K @ dual @ G
    residual = relative((fitted + alpha * dual - Y)[observed], Y[observed])
    assert residual <= 1.01e-7
    assert abs(residual - found.solution.residual) <= 1e-10
    assert relative((fitted - found.labels)[~observed], fitted[~observed]) <= 1e-12
    np.testing.assert_array_equal(found.labels[observed], Y[observed])


def test_two_step_solves_its_equations(kiba):
    K, G, Y, spectrum, task_spectrum = kiba
    observed = ~np.isnan(Y)
    alpha = 20.0
    task_alpha = 5.0
    operators = TwoStep(
        spectrum.smoother(Tikhonov(), alpha), task_spectrum.smoother(Tikhonov(), task_alpha)
    )
    found = complete(operators, Y, route="missing", tol=1e-7)
    assert found.solution.converged

    def hat(labels):
        left = K @ linalg.solve(K + alpha * np.eye(len(K)), labels, assume_a="pos")
        return left @ linalg.solve(G + task_alpha * np.eye(len(G)), G, assume_a="pos")

    # The model fitted to the completed grid predicts what was put where nothing is observed.
    np.testing.assert_array_equal(found.labels[observed], Y[observed])
    known = np.where(observed, Y, 0.0)
    fitted = hat(found.labels)
    residual = relative((found.labels - fitted)[~observed], hat(known)[~observed])
    assert residual <= 1.01e-7
    assert abs(residual - found.solution.residual) <= 1e-10
