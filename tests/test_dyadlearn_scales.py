"""Units do not matter: what happens to every answer if labels, features or weights are multiplied.

A change of the data says by which powers of its factor the regularisations and the answers grow.
The market shifts the labels.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    TwoStepRidge,
    evaluate,
    explain,
    permutation_test,
)
from dyadlearn.testing import Trial

#: Of each form of labels.
FACTORS = {"full": 1e12, "missing": 1e-12, "weights": 1e-12}
#: Digits of answers that are compared, relative to the spread of the labels.
RTOL = 1e-7


class Change(NamedTuple):
    """Powers of the factor by which parts of the data, the regularisations and the answers grow."""

    X: int = 0
    tasks: int = 0
    y: int = 0
    weights: int = 0
    alpha: int = 0
    task_alpha: int = 0


LABELS = Change(y=1)
WEIGHTS = Change(weights=1, alpha=1)
# With an intercept, Kronecker ridge regression adds a constant of size 1 to each kernel: its
# features have a unit.
MODELS = {
    "independent": (IndependentTaskRidge(0.7), "AB", [LABELS, WEIGHTS, Change(X=1, alpha=2)]),
    "kronecker": (KroneckerRidge(0.7), "AB", [LABELS, WEIGHTS]),
    "kronecker, no intercept": (
        KroneckerRidge(0.7, fit_intercept=False),
        "ACBD",
        [LABELS, WEIGHTS, Change(X=1, alpha=2), Change(tasks=1, alpha=2)],
    ),
    "two-step": (
        TwoStepRidge(0.7, 0.3),
        "CABD",
        [LABELS, Change(X=1, alpha=2), Change(tasks=1, task_alpha=2)],
    ),
    "network": (
        TwoStepRidge(0.7, 0.7, symmetry="symmetric"),
        "DBCA",
        [LABELS, Change(X=1, alpha=2, task_alpha=2)],
    ),
}
CASES = [
    (name, form)
    for name in MODELS
    for form in ("full", "missing", "weights")
    if name != "network" or form == "full"
]


def unchanged(model, is_permuted):
    """Return what has no units: shares of labels, scores, and scores of permuted labels."""
    found = {"explain": explain(model, 1, 2).weights}
    found["scores"] = evaluate(model, "B", scoring=["r2", "pearson"])["score"]
    if is_permuted:
        options = {"scoring": "r2", "n_permutations": 2, "random_state": 0, "progress": False}
        found["null"] = permutation_test(model, "B", **options).null
    return found


@pytest.mark.parametrize(("name", "form"), CASES)
def test_units_do_not_matter(name, form, each):
    estimator, settings, changes = MODELS[name]
    trial = Trial(estimator, form, settings)
    data = trial.data
    same = unchanged(trial.fitted, True)
    spread = np.nanstd(data.y)
    c = FACTORS[form]
    for change in each(changes):
        weights = data.weights
        if change.weights:
            weights = c * (np.ones(data.y.shape) if weights is None else weights)
        changed = replace(
            data,
            X=data.X.converted(lambda rows: rows * c**change.X),  # noqa: B023
            tasks=data.tasks and data.tasks.converted(lambda rows: rows * c**change.tasks),  # noqa: B023
            y=data.y * c**change.y,
            new_y=data.new_y * c**change.y,
            weights=weights,
        )
        names = {"alpha", "task_alpha"} & estimator.get_params().keys()
        alphas = {key: getattr(estimator, key) * c ** getattr(change, key) for key in names}
        model = trial.fit(changed, **alphas)
        answers = trial.answers(model, changed)
        if change.weights:  # labels of new rows have the weight 1
            answers.pop("predictions with labels", None)
        for answer, values in answers.items():
            found = values / c**change.y
            expected = trial.expected[answer]
            assert_allclose(found, expected, rtol=0, atol=RTOL * spread, err_msg=answer)
        # Permuted labels are large or small as the labels are.
        for answer, values in unchanged(model, change == LABELS).items():
            assert_allclose(values, same[answer], rtol=1e-5, atol=1e-6, err_msg=answer)
