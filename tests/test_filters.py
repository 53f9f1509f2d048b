"""Filters: three formulas that agree, to the last digits, and are admissible as the paper defines it."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, SpectralFilter, Tikhonov
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


def steps(filter: Landweber, alpha: float, largest: float) -> int:
    return math.ceil(largest / alpha) if filter.n_iter is None else filter.n_iter


def exact_residual(
    filter: SpectralFilter, sigma: float, alpha: float, largest: float
) -> mpmath.mpf:
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


def exact_phi_at_zero(filter: SpectralFilter, alpha: float, largest: float) -> mpmath.mpf:
    """Return the limit of f(σ)/σ as σ → 0: the slope of f there."""
    if isinstance(filter, SpectralCutoff):
        return mpmath.mpf(0)
    if isinstance(filter, Landweber):
        return steps(filter, alpha, largest) / mpmath.mpf(largest)
    return (filter.n_iter if isinstance(filter, IteratedTikhonov) else 1) / mpmath.mpf(alpha)


def assert_digits(found: float, exact: mpmath.mpf, tolerance: float, what: str) -> None:
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


@over(every(**filters))
def test_the_three_formulas_agree(filter):
    for alpha in ALPHAS:
        shrinkage = filter.shrinkage(EIGENVALUES, alpha)
        assert_allclose(EIGENVALUES * filter.phi(EIGENVALUES, alpha), shrinkage, rtol=1e-14)
        assert_allclose(shrinkage + filter.remainder(EIGENVALUES, alpha), 1.0, rtol=1e-14)


@over(every(**filters))
def test_every_library_computes_the_same(filter, library):
    values = np.array([0.0, 1e-3, 0.5, 1.0, 4.0, 4.0, 10.0])
    for alpha in (1e-2, 1.0, 30.0):
        for name in ("phi", "shrinkage", "remainder"):
            found = getattr(filter, name)(library.asarray(values), alpha)
            assert type(found) is type(library.asarray(values))
            assert found.dtype == library.asarray(values).dtype
            expected = getattr(filter, name)(values, alpha)
            assert_allclose(library.to_numpy(found), expected, rtol=library.rtol, atol=1e-30)


@over(every(filter=[f for f in FILTERS if f.uses_alpha()]))
def test_without_regularisation_a_filter_is_the_pseudo_inverse(filter):
    values = np.array([0.0, 1e-20, 0.25, 8.0])
    assert_allclose(filter.phi(values, 0.0), np.append(0.0, 1 / values[1:]), rtol=0, atol=0)
    assert_array_equal(filter.shrinkage(values, 0.0), [0.0, 1.0, 1.0, 1.0])
    assert_array_equal(filter.remainder(values, 0.0), [1.0, 0.0, 0.0, 0.0])


@over(every(filter=[f for f in FILTERS if f.uses_alpha()]))
def test_the_pseudo_inverse_is_the_limit_of_vanishing_regularisation(filter):
    values = np.array([0.25, 1.0, 8.0])
    assert_allclose(filter.phi(values, 1e-12), filter.phi(values, 0.0), rtol=1e-11)
    assert_allclose(filter.remainder(values, 1e-12), 0.0, atol=1e-11)


@over(every(**filters))
def test_a_null_space_is_never_fitted(filter):
    for values in (np.zeros(3), np.array([0.0, 2.0])):
        for alpha in (0.0, 1e-12, 1.0, 1e12):
            assert filter.shrinkage(values, alpha)[0] == 0.0
            assert filter.remainder(values, alpha)[0] == 1.0
            assert np.isfinite(filter.phi(values, alpha)).all()


@over(every(**filters))
def test_an_empty_spectrum_stays_empty(filter):
    for alpha in (0.0, 1.0):
        for values in (filter.phi, filter.shrinkage, filter.remainder):
            assert values(np.zeros(0), alpha).shape == (0,)


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


def test_one_round_of_iterated_tikhonov_is_tikhonov():
    for alpha in (0.0, *ALPHAS):
        for name in ("phi", "shrinkage", "remainder"):
            iterated = getattr(IteratedTikhonov(1), name)(EIGENVALUES, alpha)
            assert_allclose(iterated, getattr(Tikhonov(), name)(EIGENVALUES, alpha), rtol=1e-14)


def test_iterated_tikhonov_fits_its_own_residuals():
    values = np.array([0.0, 0.3, 2.0])
    labels = np.array([1.0, -2.0, 0.5])
    alpha = 0.7
    fitted = np.zeros(3)
    for n_iter in range(1, 6):
        fitted = fitted + values / (values + alpha) * (labels - fitted)
        assert_allclose(
            IteratedTikhonov(n_iter).shrinkage(values, alpha) * labels, fitted, rtol=1e-14
        )


def test_landweber_descends_the_squared_error():
    values = np.array([0.0, 0.3, 2.0])
    labels = np.array([1.0, -2.0, 0.5])
    coefficients = np.zeros(3)
    for n_iter in range(1, 6):
        coefficients = coefficients + (labels - values * coefficients) / values.max()
        assert_allclose(Landweber(n_iter).phi(values, 1.0) * labels, coefficients, rtol=1e-14)


@over(every(filter=[Tikhonov(), IteratedTikhonov(1), IteratedTikhonov(3)]))
def test_vanishing_residual_is_the_limit_up_to_scale(filter):
    values = np.array([0.5, 1.0, 6.0])
    limit = filter.remainder_limit(values)
    small = filter.remainder(values, 1e-12)
    assert_allclose(limit / limit[0], small / small[0], rtol=1e-10)


@over(every(filter=[SpectralCutoff(), Landweber(), Landweber(3)]))
def test_no_vanishing_residual_where_there_is_no_limit(filter):
    assert filter.remainder_limit(np.array([0.5, 1.0])) is None


@over(every(n_iter=[0, -1, 1.5, 2.0, True, "3"], filter=[IteratedTikhonov, Landweber]))
def test_a_bad_number_of_iterations_is_refused(filter, n_iter):
    with pytest.raises(
        ValueError, match=f"n_iter must be a whole number of at least 1, found {n_iter!r}"
    ):
        filter(n_iter)


def test_iterated_tikhonov_needs_a_number_of_iterations():
    with pytest.raises(ValueError, match="n_iter must be a whole number of at least 1, found None"):
        IteratedTikhonov(None)


@over(every(filter=[IteratedTikhonov, Landweber]))
def test_whole_numbers_of_numpy_are_whole_numbers(filter):
    values = np.array([0.5, 2.0])
    assert_array_equal(filter(np.int64(3)).remainder(values, 0.7), filter(3).remainder(values, 0.7))


def test_filters_with_equal_parameters_are_equal():
    """scikit-learn's clone and the printed form of a model compare parameters."""
    assert Tikhonov() == Tikhonov()
    assert Landweber(3) == Landweber(3)
    assert Landweber(3) != Landweber(4)
    assert IteratedTikhonov(3) != Landweber(3)
    assert repr(IteratedTikhonov(3)) == "IteratedTikhonov(n_iter=3)"


# Admissibility (as the paper defines it, with the ratio (σ/λ)^ν that its proof uses; the printed
# (λ/σ)^ν diverges for every filter as σ → 0): sup |σφ| ≤ D, sup |φ| ≤ B/λ, sup |1 − σφ| ≤ γ and sup
# (σ/λ)^ν |1 − σφ| ≤ γ_ν for all ν up to the qualification, the suprema over 0 < σ ≤ κ², 0 < λ ≤ κ².
KAPPA_SQUARED = 4.0
LAMBDAS = KAPPA_SQUARED * 10.0 ** -np.arange(0.0, 10.0, 0.5)
# A cut-off has its supremum just below λ.
SIGMAS = np.union1d(KAPPA_SQUARED * np.logspace(-14, 0, 1001), np.nextafter(LAMBDAS, 0.0))


def tikhonov_gamma(n_iter: int, nu: float) -> float:
    """Return the supremum of x^ν/(1+x)^n, which is had at x = ν/(n−ν)."""
    share = nu / n_iter
    return share**nu * (1 - share) ** (n_iter - nu)


ADMISSIBLE = {
    # filter: B and γ_ν as a function of ν (D = γ = 1 for all)
    Tikhonov(): (1.0, lambda nu: tikhonov_gamma(1, nu)),
    IteratedTikhonov(2): (2.0, lambda nu: tikhonov_gamma(2, nu)),
    IteratedTikhonov(5): (5.0, lambda nu: tikhonov_gamma(5, nu)),
    SpectralCutoff(): (1.0, lambda nu: 1.0),
    # Rounding σ_max/λ up to whole steps costs the factor 2; (1 − σ/σ_max)^t ≤ exp(−σ/λ).
    Landweber(): (2.0, lambda nu: (nu / math.e) ** nu),
}
admissible = {"filter": list(ADMISSIBLE)}


def qualified_supremum(filter: SpectralFilter, nu: float, alpha: float) -> float:
    return float(np.max((SIGMAS / alpha) ** nu * np.abs(filter.remainder(SIGMAS, alpha))))


@over(every(**admissible))
def test_bounds_d_b_and_gamma(filter):
    bound, _ = ADMISSIBLE[filter]
    for alpha in LAMBDAS:
        assert np.max(np.abs(filter.shrinkage(SIGMAS, alpha))) <= 1.0
        assert np.max(np.abs(filter.remainder(SIGMAS, alpha))) <= 1.0
        assert np.max(np.abs(filter.phi(SIGMAS, alpha))) <= bound / alpha * (1 + 1e-12)


@over(every(filter=[Tikhonov(), IteratedTikhonov(2), IteratedTikhonov(5)]))
def test_bound_b_is_attained(filter):
    for alpha in LAMBDAS:
        attained = alpha * np.max(filter.phi(SIGMAS, alpha))
        assert_allclose(attained, ADMISSIBLE[filter][0], rtol=1e-3)


@over(covering(**admissible, share=[0.01, 0.3, 0.5, 0.9, 1.0]))
def test_gamma_nu_does_not_depend_on_lambda_up_to_the_qualification(filter, share):
    nu = share * min(filter.qualification, 20.0)
    gamma = ADMISSIBLE[filter][1](nu)
    suprema = np.array([qualified_supremum(filter, nu, alpha) for alpha in LAMBDAS])
    assert (suprema <= gamma * (1 + 1e-12)).all()
    # And no smaller constant would do, however small λ.
    assert_allclose(suprema[-6:], gamma, rtol=1e-2)


@over(
    covering(
        filter=[f for f in ADMISSIBLE if math.isfinite(f.qualification)], excess=[0.1, 0.5, 2.0]
    )
)
def test_beyond_the_qualification_every_bound_is_exceeded(filter, excess):
    """The supremum grows as (κ²/λ)^(ν − ν̄), without end as λ → 0."""
    nu = filter.qualification + excess
    suprema = np.array([qualified_supremum(filter, nu, alpha) for alpha in LAMBDAS])
    assert (np.diff(suprema) > 0).all()
    assert_allclose(suprema[-6:], (KAPPA_SQUARED / LAMBDAS[-6:]) ** excess, rtol=1e-3)


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


def factorizations(bound: float) -> np.ndarray:
    """Return ratios c such that (c√ς, √ς/c) are factorizations of ς under the bound, extremes included."""
    return bound ** np.linspace(-1, 1, 5)


def two_step_values(
    a: float, b: float, alpha: float
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the filter, its shrinkage and its residual at SIGMAS, for every allowed factorization."""
    tikhonov = Tikhonov()
    root = np.sqrt(SIGMAS)
    values = []
    for c in factorizations(a):
        for e in factorizations(b):
            alpha_d = e * alpha**0.5
            alpha_t = alpha**0.5 / e
            f_d = tikhonov.shrinkage(c * root, alpha_d)
            f_t = tikhonov.shrinkage(root / c, alpha_t)
            # 1 − f_d f_t without the difference
            residual = tikhonov.remainder(c * root, alpha_d) + f_d * tikhonov.remainder(
                root / c, alpha_t
            )
            phi = tikhonov.phi(c * root, alpha_d) * tikhonov.phi(root / c, alpha_t)
            values.append((phi, f_d * f_t, residual))
    return values


@cache
def largest_residual(a: float, b: float, alpha: float) -> np.ndarray:
    """Return the largest residual of all factorizations at each of SIGMAS, which serves every ν."""
    return np.max([residual for _, _, residual in two_step_values(a, b, alpha)], axis=0)


def two_step_supremum(a: float, b: float, nu: float, alpha: float) -> float:
    return float(np.max((SIGMAS / alpha) ** nu * largest_residual(a, b, alpha)))


@over(lines("a b", *FACTORIZATION_BOUNDS))
def test_two_step_bounds_d_b_and_gamma(a, b):
    for alpha in LAMBDAS:
        for phi, shrinkage, residual in two_step_values(a, b, alpha):
            assert np.max(np.abs(SIGMAS * phi)) <= 1 + 1e-12
            assert np.max(np.abs(shrinkage)) <= 1.0
            assert np.max(np.abs(phi)) <= 1 / alpha * (1 + 1e-12)
            assert np.max(np.abs(residual)) <= 1 + 1e-12


@over(lines("a b", *FACTORIZATION_BOUNDS))
@over(every(nu=[0.1, 0.5]))
def test_two_step_gamma_nu_is_at_most_2ab_up_to_one_half(a, b, nu):
    for alpha in LAMBDAS:
        assert two_step_supremum(a, b, nu, alpha) <= 2 * a * b * (1 + 1e-12)


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
