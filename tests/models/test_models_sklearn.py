"""scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.base import clone, is_regressor
from sklearn.utils import estimator_checks, get_tags

import dyadlearn
from conventions import WITHOUT_DATA, conventions
from dyadlearn import (
    LearnedKernelRidge,
    MultiwayRidge,
    OnlineTwoStepRidge,
    PairRegressor,
    TwoStepRidge,
)
from dyadlearn._registry import MODELS
from dyadlearn.kernels.chemistry import Fingerprints
from dyadlearn.kernels.sequences import KmerCounts, SmithWaterman
from sweeps import every, over

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
@conventions(*ESTIMATORS, OnlineTwoStepRidge())
def test_scikit_learn_conventions(estimator, checks, each):
    for check in each(checks):
        check(estimator)


LEARNED = LearnedKernelRidge(setting="A")
PAIRS = PairRegressor(TwoStepRidge(kernel="precomputed"))
CELLS = MultiwayRidge()
# Checks with data are asked of the models without a search, and those of the market of all.
SEARCHES = [
    getattr(dyadlearn, f"{name}CV")([0.1, 10.0])
    for name in ("TwoStepRidge", "KroneckerRidge", "IndependentTaskRidge")
]


# The other checks hand in numbers.
@over(
    every(
        estimator=[LEARNED, PAIRS, CELLS, *SEARCHES, KmerCounts(), SmithWaterman(), Fingerprints()],
        check=WITHOUT_DATA,
    )
)
def test_checks_without_data(estimator, check):
    getattr(estimator_checks, check)(type(estimator).__name__, clone(estimator))


@over(every(estimator=[PAIRS, CELLS]))
def test_what_is_said_of_tables_of_ids(estimator):
    tags = get_tags(estimator)
    assert is_regressor(estimator)
    assert not tags.input_tags.two_d_array
    assert tags.input_tags.string
    # The rows are pairs or cells: nobody may cut columns out of them, whatever the kernel.
    assert not tags.input_tags.pairwise
    assert tags.target_tags.required
