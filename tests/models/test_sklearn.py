"""scikit-learn's own checks, with no expected failures."""

from __future__ import annotations

import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

from dyadlearn import IndependentTaskRidge, KroneckerRidge, PairKernelRidge, TwoStepRegressor, TwoStepRidge

ESTIMATORS = [
    IndependentTaskRidge(),
    IndependentTaskRidge(kernel="precomputed"),
    KroneckerRidge(),
    KroneckerRidge(kernel="precomputed"),
    PairKernelRidge(per_task=0.5, per_instance=0.5),
    PairKernelRidge(kernel="precomputed"),
    TwoStepRegressor(),
    TwoStepRegressor(GradientBoostingRegressor(n_estimators=10)),
    TwoStepRegressor(KernelRidge(kernel="precomputed"), first_step="tasks"),
    TwoStepRidge(),
    TwoStepRidge(kernel="precomputed"),
]


# One check centres a precomputed kernel entry by entry, which makes it indefinite; the warning is right.
@pytest.mark.filterwarnings("default::dyadlearn.exceptions.KernelRepairWarning")
@pytest.mark.filterwarnings("ignore:Singular matrix in solving dual problem:UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
