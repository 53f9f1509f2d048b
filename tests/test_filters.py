"""Filters: three formulas that agree, to the last digits, and are admissible as the paper defines it."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from sweeps import covering, every, lines, over

FILTERS = [
    Tikhonov(),
    SpectralCutoff(),
    IteratedTikhonov(1),
    IteratedTikhonov(2),
    IteratedTikhonov(7),
    Landweber(),
    Landweber(1),
    Landweber(20),
]
filters = {"filter": FILTERS}

LARGEST = 1e3
EIGENVALUES = np.array(
    [
        0.0,
        *(digit * 10.0**k for k in range(-16, 3) for digit in (1.0, 3.7)),
        *(0.5 * LARGEST, 0.9 * LARGEST, LARGEST),
    ]
)
ALPHAS = 10.0 ** np.arange(-12, 13, 2)
EPSILON = np.finfo(np.float64).eps


def steps(filter, alpha, largest):
    return math.ceil(largest / alpha) if filter.n_iter is None else filter.n_iter


def exact_residual(filter, sigma, alpha, largest):
    """Return 1 − f in the working precision of mpmath, as the definition reads."""
    exact_sigma = mpmath.mpf(sigma)
    exact_alpha = mpmath.mpf(alpha)
    if isinstance(filter, Tikhonov):
        return exact_alpha / (exact_sigma + exact_alpha)
    if isinstance(filter, IteratedTikhonov):
        return (exact_alpha / (exact_sigma + exact_alpha)) ** filter.n_iter
    if isinstance(filter, SpectralCutoff):
        return mpmath.mpf(0 if sigma >= alpha else 1)
    assert isinstance(filter, Landweber)
    return (1 - exact_sigma / mpmath.mpf(largest)) ** steps(filter, alpha, largest)


def exact_phi_at_zero(filter, alpha, largest):
    """Return the limit of f(σ)/σ as σ → 0: the slope of f there."""
    if isinstance(filter, SpectralCutoff):
        return mpmath.mpf(0)
    if isinstance(filter, Landweber):
        return steps(filter, alpha, largest) / mpmath.mpf(largest)
    return (filter.n_iter if isinstance(filter, IteratedTikhonov) else 1) / mpmath.mpf(alpha)


def assert_digits(found, exact, tolerance, what):
    if abs(exact) < 1e-300:  # not representable: nothing but a vanishing number is right
        assert abs(found) < 1e-299, what
        return
    error = float(abs(mpmath.mpf(float(found)) / exact - 1))
    assert error <= tolerance, f"{what}: relative error {error:.1e}"


@over(every(**filters))
def test_thirteen_digits_of_phi_shrinkage_and_residual(filter):
    """Each of φ, f and 1 − f has a relative error of at most 1e-13 against 50 digits of mpmath.

    The one excuse is the problem itself: where t steps of `Landweber` leave (1 − σ/σ_max)^t, a
    change of σ in its last place changes the exact answer by tσ/(σ_max − σ) last places.
    """
    with mpmath.workdps(50):
        for alpha in ALPHAS:
            phi = filter.phi(EIGENVALUES, alpha)
            shrinkage = filter.shrinkage(EIGENVALUES, alpha)
            residual = filter.remainder(EIGENVALUES, alpha)
            for i, sigma in enumerate(EIGENVALUES):
                exact = exact_residual(filter, sigma, alpha, LARGEST)
                if sigma:
                    inverse = (1 - exact) / sigma
                else:
                    inverse = exact_phi_at_zero(filter, alpha, LARGEST)
                condition = 1.0
                if isinstance(filter, Landweber) and sigma < LARGEST:
                    condition = steps(filter, alpha, LARGEST) * sigma / (LARGEST - sigma)
                where = f"at σ={sigma}, λ={alpha}"
                assert_digits(
                    residual[i], exact, max(1e-13, 2 * EPSILON * condition), f"1 - f {where}"
                )
                assert_digits(shrinkage[i], 1 - exact, 1e-13, f"f {where}")
                assert_digits(phi[i], inverse, 1e-13, f"φ {where}")


@over(every(filter=[f for f in FILTERS if f.uses_alpha()]))
def test_without_regularisation_a_filter_is_the_pseudo_inverse(filter):
    values = np.array([0.0, 1e-20, 0.25, 8.0])
    assert_allclose(filter.phi(values, 0.0), np.append(0.0, 1 / values[1:]), rtol=0)
    assert_array_equal(filter.shrinkage(values, 0.0), [0.0, 1.0, 1.0, 1.0])
    assert_array_equal(filter.remainder(values, 0.0), [1.0, 0.0, 0.0, 0.0])


@over(every(**filters))
def test_a_null_space_is_never_fitted(filter):
    for values in (np.zeros(3), np.array([0.0, 2.0])):
        for alpha in (0.0, 1e-12, 1.0, 1e12):
            assert filter.shrinkage(values, alpha)[0] == 0.0
            assert filter.remainder(values, alpha)[0] == 1.0
            assert np.isfinite(filter.phi(values, alpha)).all()


def test_a_given_number_of_steps_replaces_alpha():
    values = np.array([0.0, 0.5, 1.0, 2.0])
    fixed = Landweber(3)
    assert not fixed.uses_alpha()
    for alpha in (0.0, 1e-6, 1e6):
        assert_allclose(fixed.remainder(values, alpha), (1 - values / 2.0) ** 3, rtol=1e-15)
        assert_allclose(
            fixed.phi(values, alpha), [1.5, (1 - 0.75**3) / 0.5, 0.875, 0.5], rtol=1e-15
        )
    # ⌈2.0 / 0.7⌉ = 3
    for name in ("phi", "shrinkage", "remainder"):
        assert_array_equal(
            getattr(Landweber(), name)(values, 0.7), getattr(fixed, name)(values, 0.0)
        )


@over(every(filter=[Tikhonov(), IteratedTikhonov(1), IteratedTikhonov(3)]))
def test_vanishing_residual_is_the_limit_up_to_scale(filter):
    values = np.array([0.5, 1.0, 6.0])
    limit = filter.remainder_limit(values)
    small = filter.remainder(values, 1e-12)
    assert_allclose(limit / limit[0], small / small[0], rtol=1e-10)


@over(every(filter=[SpectralCutoff(), Landweber(), Landweber(3)]))
def test_no_vanishing_residual_where_there_is_no_limit(filter):
    assert filter.remainder_limit(np.array([0.5, 1.0])) is None


@over(
    every(n_iter=[0, -1, 1.5, 2.0, True, "3"], filter=[IteratedTikhonov, Landweber])
    + lines("n_iter filter", (None, IteratedTikhonov))
)
def test_a_bad_number_of_iterations_is_refused(filter, n_iter):
    with pytest.raises(
        ValueError, match=f"n_iter must be a whole number of at least 1, found {n_iter!r}"
    ):
        filter(n_iter)


# Admissibility (as the paper defines it, with the ratio (σ/λ)^ν that its proof uses; the printed
# (λ/σ)^ν diverges for every filter as σ → 0): sup (σ/λ)^ν |1 − σφ| ≤ γ_ν for all ν up to the
# qualification, the suprema over 0 < σ ≤ κ², 0 < λ ≤ κ². The bounds sup |σφ| ≤ D = 1,
# sup |1 − σφ| ≤ γ = 1 and sup |φ| ≤ B/λ follow from the formulas, which the digits above confirm.
KAPPA_SQUARED = 4.0
LAMBDAS = KAPPA_SQUARED * 10.0 ** -np.arange(0.0, 10.0, 0.5)
# A cut-off has its supremum just below λ.
SIGMAS = np.union1d(KAPPA_SQUARED * np.logspace(-14, 0, 1001), np.nextafter(LAMBDAS, 0.0))


def tikhonov_gamma(n_iter, nu):
    """Return the supremum of x^ν/(1+x)^n, which is had at x = ν/(n−ν)."""
    share = nu / n_iter
    return share**nu * (1 - share) ** (n_iter - nu)


# γ_ν as a function of ν
ADMISSIBLE = {
    Tikhonov(): lambda nu: tikhonov_gamma(1, nu),
    IteratedTikhonov(2): lambda nu: tikhonov_gamma(2, nu),
    IteratedTikhonov(5): lambda nu: tikhonov_gamma(5, nu),
    SpectralCutoff(): lambda nu: 1.0,
    # (1 − σ/σ_max)^t ≤ exp(−σ/λ)
    Landweber(): lambda nu: (nu / math.e) ** nu,
}
admissible = {"filter": list(ADMISSIBLE)}


def qualified_supremum(filter, nu, alpha):
    return float(np.max((SIGMAS / alpha) ** nu * np.abs(filter.remainder(SIGMAS, alpha))))


@over(covering(**admissible, share=[0.01, 0.3, 0.5, 0.9, 1.0]))
def test_gamma_nu_does_not_depend_on_lambda_up_to_the_qualification(filter, share):
    nu = share * min(filter.qualification, 20.0)
    gamma = ADMISSIBLE[filter](nu)
    suprema = np.array([qualified_supremum(filter, nu, alpha) for alpha in LAMBDAS])
    assert (suprema <= gamma * (1 + 1e-12)).all()
    # And no smaller constant would do, however small λ.
    assert_allclose(suprema[-6:], gamma, rtol=1e-2)


@over(
    lines(
        "filter qualification",
        (Tikhonov(), 1.0),
        (IteratedTikhonov(1), 1.0),
        (IteratedTikhonov(4), 4.0),
        (SpectralCutoff(), math.inf),
        (Landweber(), math.inf),
    )
)
def test_qualification(filter, qualification):
    assert filter.qualification == qualification


# The two-step filter φ_d(σ)φ_t(s) at ς = σs and λ = λ_d λ_t, for the factorizations that the
# constants a and b allow: σ, s ≤ a√ς and λ_d, λ_t ≤ b√λ.
FACTORIZATION_BOUNDS = [(1.0, 1.0), (1.0, 3.0), (2.0, 1.0), (2.0, 3.0)]


def factorizations(bound):
    """Return ratios c such that (c√ς, √ς/c) are factorizations of ς under the bound, extremes included."""
    return bound ** np.linspace(-1, 1, 5)


def two_step_residuals(a, b, alpha):
    """Return the residual at SIGMAS for every allowed factorization, without the difference 1 − f_d f_t."""
    tikhonov = Tikhonov()
    root = np.sqrt(SIGMAS)
    found = []
    for c in factorizations(a):
        for e in factorizations(b):
            alpha_d = e * alpha**0.5
            alpha_t = alpha**0.5 / e
            own = tikhonov.remainder(c * root, alpha_d)
            other = tikhonov.remainder(root / c, alpha_t)
            found.append(own + tikhonov.shrinkage(c * root, alpha_d) * other)
    return found


@cache
def largest_residual(a, b, alpha):
    """Return the largest residual of all factorizations at each of SIGMAS, which serves every ν."""
    return np.max(two_step_residuals(a, b, alpha), axis=0)


def two_step_supremum(a, b, nu, alpha):
    return float(np.max((SIGMAS / alpha) ** nu * largest_residual(a, b, alpha)))


@over(lines("a b", *FACTORIZATION_BOUNDS))
def test_two_step_gamma_at_one_half_is_attained(a, b):
    """At ν = ½ the supremum tends to ab + 1/(ab), which is 2ab for balanced factorizations (a = b = 1).

    The constant 2ab of the paper lets σ and s be a√ς at once, and λ_d and λ_t likewise; so relaxed,
    (ς/λ)^ν (1 − ς/(ς + 2ab√(λς) + λ)) comes as close to 2ab as one likes, whatever a and b.
    """
    smallest = LAMBDAS[-1]
    assert_allclose(two_step_supremum(a, b, 0.5, smallest), a * b + 1 / (a * b), rtol=1e-3)
    mixed = 2 * a * b * np.sqrt(smallest * SIGMAS)
    relaxed = np.sqrt(SIGMAS / smallest) * (mixed + smallest) / (SIGMAS + mixed + smallest)
    assert_allclose(relaxed.max(), 2 * a * b, rtol=1e-3)
    assert relaxed.max() < 2 * a * b


@over(lines("a b", *FACTORIZATION_BOUNDS))
@over(every(nu=[0.6, 0.75, 1.0]))
def test_two_step_qualification_is_one_half(a, b, nu):
    """Beyond ν = ½ the supremum grows as (κ²/λ)^(ν − ½), though each factor alone has qualification 1."""
    suprema = np.array([two_step_supremum(a, b, nu, alpha) for alpha in LAMBDAS])
    assert (np.diff(suprema) > 0).all()
    growth = suprema[-4:] / (KAPPA_SQUARED / LAMBDAS[-4:]) ** (nu - 0.5)
    assert_allclose(growth, a * b + 1 / (a * b), rtol=1e-2)
