"""The comparison of formulas with refits."""

from __future__ import annotations

import numpy as np

from dyadlearn import TwoStepRidge
from dyadlearn.holdout.refit import refit, verify_holdout


def test_verification_compares_as_many_pairs_as_asked_for_or_all(monkeypatch):
    masks = []

    def watched(*arguments, where, **options):
        masks.append(where)
        return refit(*arguments, where=where, **options)

    monkeypatch.setattr("dyadlearn.holdout.refit.refit", watched)
    rng = np.random.default_rng(0)
    model = TwoStepRidge().fit(rng.normal(size=(5, 2)), rng.normal(size=(5, 4)), tasks=np.eye(4))
    for n, compared in ((7, 7), (20, 20), (50, 20)):
        assert verify_holdout(model, "D", n=n, random_state=0) < 1e-12
        assert np.count_nonzero(masks[-1]) == compared
