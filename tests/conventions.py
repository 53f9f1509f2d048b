"""scikit-learn's own checks of estimators, with no expected failures: one test for each estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

__all__ = ["conventions"]


def conventions(*estimators: Any) -> pytest.MarkDecorator:
    """Give a test each estimator and a list of its checks.

    Checks of other array libraries are tests of their own: scikit-learn skips them unless
    SCIPY_ARRAY_API=1.
    """
    return pytest.mark.parametrize(
        ("estimator", "checks"), [case for each in estimators for case in _cases(each)]
    )


def _cases(estimator: Any) -> Iterator[Any]:
    name = type(estimator).__name__
    checks = [check for _, check in estimator_checks_generator(estimator)]
    apart = [check for check in checks if "array_api_input" in check.func.__name__]
    yield pytest.param(estimator, [check for check in checks if check not in apart], id=name)
    for check in apart:
        yield pytest.param(estimator, [check], id=f"{name}-{check.func.__name__}")
