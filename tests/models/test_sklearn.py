"""scikit-learn's own checks, with no expected failures."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dyadlearn import IndependentTaskRidge, KroneckerRidge, PairKernelRidge, TwoStepRegressor, TwoStepRidge

ESTIMATORS = [
    IndependentTaskRidge(),
    KroneckerRidge(kernel="precomputed"),
    PairKernelRidge(per_task=0.5, per_instance=0.5),
    TwoStepRegressor(),
    TwoStepRidge(),
]


# One check centres a precomputed kernel entry by entry, which makes it indefinite; the warning is right.
@pytest.mark.filterwarnings("default::dyadlearn.exceptions.KernelRepairWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
