"""scikit-learn's own checks, with no expected failures."""

from __future__ import annotations

import pytest

import dyadlearn
from conventions import conventions
from dyadlearn._registry import MODELS

# The models that have a search, some with other parameters than those by default, and one of any
# learners.
VARIANTS = {
    "KroneckerRidge": {"kernel": "precomputed"},
    "PairKernelRidge": {"per_task": 0.5, "per_instance": 0.5},
}
NAMES = [each.model for each in MODELS.values() if each.search not in (None, each.model)]
ESTIMATORS = [
    getattr(dyadlearn, name)(**VARIANTS.get(name, {})) for name in [*NAMES, "TwoStepRegressor"]
]


# One check centres a precomputed kernel entry by entry, which makes it indefinite; the warning is
# right.
@pytest.mark.filterwarnings("default::dyadlearn.exceptions.KernelRepairWarning")
@conventions(*ESTIMATORS)
def test_scikit_learn_conventions(estimator, checks, each):
    for check in each(checks):
        check(estimator)
