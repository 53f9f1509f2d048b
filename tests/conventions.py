"""scikit-learn's own checks of estimators, with no expected failures: one test for each estimator."""

from collections.abc import Iterator
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

#: Checks of estimators that take no grid of features.
WITHOUT_DATA = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
]


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
