"""Variances of terms: the likelihood and its derivatives, its maximum, and simulations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from dyadlearn import MultiwayRidge
from dyadlearn.learning import variances as module
from dyadlearn.learning.variances import most_likely

TERMS = "mother + father + trial + mother:father"


def simulated(seed, n=400, variances=(1.0, 0.5, 0.0, 0.8, 0.6), weights=None):
    """Return cells of three sides with kernels, and labels with these variances of `TERMS` and of the noise."""
    rng = np.random.default_rng(seed)
    sizes = {"mother": 25, "father": 25, "trial": 8}
    kernels, roots, places = {}, {}, {}
    for name, size in sizes.items():
        rows = rng.normal(size=(size, 40))
        kernels[name] = rows @ rows.T / 40
        roots[name] = np.linalg.cholesky(kernels[name])
        places[name] = rng.integers(0, size, n)
    y = 2.0 + np.zeros(n)
    for variance, name in zip(variances, sizes, strict=False):
        effects = roots[name] @ rng.normal(size=sizes[name])
        y += np.sqrt(variance) * effects[places[name]]
    both = roots["mother"] @ rng.normal(size=(25, 25)) @ roots["father"].T
    y += np.sqrt(variances[3]) * both[places["mother"], places["father"]]
    noise = np.ones(n) if weights is None else 1.0 / weights
    y += np.sqrt(variances[4] * noise) * rng.normal(size=n)
    return kernels, places, y


def fitted(kernels, places, y, terms=TERMS, **options):
    sample_weight = options.pop("sample_weight", None)
    precomputed = dict.fromkeys(kernels, "precomputed")
    model = MultiwayRidge(terms, entities=kernels, kernels=precomputed, **options)
    return model.fit(places, y, sample_weight)


def dense_likelihood(matrices, X, y):
    """Return a function of the variances that returns the restricted log likelihood, by its definition."""
    n, r = X.shape

    def value(variances):
        V = sum(variance * K for variance, K in zip(variances, matrices, strict=True))
        VX, Vy = np.linalg.solve(V, X), np.linalg.solve(V, y)
        b = np.linalg.solve(X.T @ VX, X.T @ Vy)
        square = (y - X @ b) @ np.linalg.solve(V, y - X @ b)
        logs = np.linalg.slogdet(V)[1] + np.linalg.slogdet(X.T @ VX)[1]
        return -0.5 * ((n - r) * np.log(2 * np.pi) + logs - np.linalg.slogdet(X.T @ X)[1] + square)

    return value


def test_the_likelihood_has_the_value_and_the_derivatives_of_its_definition():
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.3, 3.0, 120)
    kernels, places, y = simulated(0, 120)
    places["covariate"] = rng.normal(size=120)
    model = fitted(kernels, places, y, fixed="covariate", sample_weight=weights)
    problem = model.fitted_.variance_problem
    matrices = [kernels[name][np.ix_(places[name], places[name])] for name in kernels]
    matrices += [matrices[0] * matrices[1], np.diag(1.0 / weights)]
    X = np.stack([np.ones(120), places["covariate"]], axis=1)
    value = dense_likelihood(matrices, X, y)
    at = np.array([0.7, 0.4, 0.2, 0.9, 0.5])
    found = problem.at(at)
    assert_allclose(found.value, value(at), rtol=1e-12)
    for k in range(5):
        step = 1e-5 * np.eye(5)[k]
        slope = (value(at + step) - value(at - step)) / 2e-5
        assert_allclose(found.slopes[k], slope, rtol=1e-5, atol=1e-6)
    # The average information is the mean of the observed and the expected one.
    Q = np.linalg.inv(np.tensordot(at, np.array(matrices), axes=1))
    N = Q - Q @ X @ np.linalg.solve(X.T @ Q @ X, X.T @ Q)
    images = np.stack([K @ N @ y for K in matrices])
    assert_allclose(found.information, images @ N @ images.T / 2, rtol=1e-9)
    assert_allclose(model.log_likelihood_, value(model.fitted_.variances), rtol=1e-12)


def test_no_other_variances_have_a_greater_likelihood():
    kernels, places, y = simulated(1, 120)
    model = fitted(kernels, places, y)
    problem = model.fitted_.variance_problem

    def loss(logs):
        found = problem.at(np.exp(logs))
        return -found.value, -found.slopes * np.exp(logs)

    bounds = [(-14.0, 5.0)] * 5
    others = minimize(loss, np.zeros(5), jac=True, method="L-BFGS-B", bounds=bounds)
    assert model.log_likelihood_ >= -others.fun - 1e-6
    slopes = problem.at(model.fitted_.variances).slopes * model.fitted_.variances
    assert_allclose(slopes, 0.0, atol=1e-4)


def test_a_variance_of_zero_has_no_standard_error():
    found = []
    for seed in range(4):
        model = fitted(*simulated(seed, 150))
        found.append(model.variances_["trial"])
        is_zero = model.variances_["trial"] == 0
        assert np.isnan(model.standard_errors_["trial"]) == is_zero
        if is_zero:
            small = fitted(*simulated(seed, 150), "mother + father + mother:father")
            assert_allclose(model.log_likelihood_, small.log_likelihood_, atol=1e-6)
            assert_allclose(model.likelihood_ratio(small), (0.0, 1.0), atol=1e-5)
            assert model.fitted_.variance_problem.at(model.fitted_.variances).slopes[2] <= 0
    assert 1 <= np.sum(np.array(found) == 0) <= 3


def test_a_search_that_is_cut_short_warns():
    problem = fitted(*simulated(0, 100)).fitted_.variance_problem
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        most_likely(problem, max_iter=1)


def test_a_variance_that_was_zero_too_early_is_tried_again(monkeypatch):
    problem = fitted(*simulated(1, 150)).fitted_.variance_problem
    expected = most_likely(problem).variances
    assert (expected > 0).sum() >= 4
    start = problem.start
    start[1] = 0.0
    monkeypatch.setattr(type(problem), "start", property(lambda self: start))
    assert_allclose(most_likely(problem).variances, expected, rtol=1e-3, atol=1e-6)


def test_likelihood_ratios_compare_models_of_equal_fixed_effects():
    kernels, places, y = simulated(5, 150)
    large = fitted(kernels, places, y)
    small = fitted(kernels, places, y, "mother + father")
    ratio = large.likelihood_ratio(small)
    assert_allclose(ratio.statistic, 2 * (large.log_likelihood_ - small.log_likelihood_))
    assert 0 < ratio.p_value < 0.01
    places["covariate"] = np.arange(150.0)
    other = fitted(kernels, places, y, "mother + father", fixed="covariate")
    with pytest.raises(ValueError, match="only for equal fixed effects"):
        large.likelihood_ratio(other)
    with pytest.raises(ValueError, match="same labels"):
        large.likelihood_ratio(fitted(kernels, places, y + 1.0, "mother"))
    with pytest.raises(ValueError, match="some of the terms"):
        small.likelihood_ratio(large)
    given = {"mother": 1.0, "father": 1.0}
    with pytest.raises(ValueError, match="at their maximum"):
        large.likelihood_ratio(fitted(kernels, places, y, "mother + father", variances=given))


def test_variances_by_held_out_error_have_the_least_error():
    kernels, places, y = simulated(6, 120)
    new = ("mother", "father")
    model = fitted(kernels, places, y, "mother + father", variances="holdout", new=new)

    def error(variances):
        other = fitted(kernels, places, y, "mother + father", variances=variances)
        return np.mean((other.holdout(new) - y) ** 2)

    least = error(model.variances_)
    for name in ("mother", "father"):
        for factor in (0.7, 1.4):
            assert error({**model.variances_, name: factor * model.variances_[name]}) > least - 1e-9
    # The scale is that of the greatest likelihood.
    slopes = model.fitted_.variance_problem.at(model.fitted_.variances).slopes
    assert_allclose(slopes @ model.fitted_.variances, 0.0, atol=1e-8)
    assert all(np.isnan(each) for each in model.standard_errors_.values())


def test_heritability_is_that_of_scaled_kernels():
    kernels, places, y = simulated(7, 200)
    model = fitted(kernels, places, y, "mother + father")
    shares = {}
    for name in ("mother", "father"):
        K = kernels[name][np.ix_(places[name], places[name])]
        shares[name] = model.variances_[name] * (np.mean(np.diag(K)) - np.mean(K))
    total = sum(shares.values()) + model.variances_["residual"]
    assert_allclose(model.heritability("mother"), shares["mother"] / total)
    assert_allclose(model.heritability("mother", "father"), sum(shares.values()) / total)
    # A kernel in other units has another variance and the same share.
    scaled = {**kernels, "mother": 7.0 * kernels["mother"]}
    other = fitted(scaled, places, y, "mother + father")
    assert_allclose(other.variances_["mother"], model.variances_["mother"] / 7.0, rtol=1e-3)
    assert_allclose(other.heritability("mother"), model.heritability("mother"), rtol=1e-3)


def test_confounded_terms_are_named():
    kernels, places, y = simulated(8, 100)
    places["nested"] = 100 + places["mother"]
    entities = {"mother": kernels["mother"]}
    model = MultiwayRidge("mother + father + nested + mother:nested", entities=entities)
    model.set_params(kernels={"mother": "precomputed"})
    model.fit(places, y)  # a kernel and the identity differ
    model.set_params(entities=None, kernels=None, terms="mother + father + nested")
    with pytest.raises(ValueError, match="the terms 'mother', 'nested' are confounded"):
        model.fit(places, y)
    model.set_params(variances={"mother": 1.0, "father": 1.0, "nested": 1.0}).fit(places, y)
    few = {name: at[:4] for name, at in places.items()}
    with pytest.raises(ValueError, match="5 variances need more than"):
        fitted(kernels, few, y[:4])
    assert module.most_likely is most_likely
