"""What is asked of a model before it is believed: which labels are wrong, which pairs to try, how sure it all is."""

from __future__ import annotations

from dyadlearn.diagnostics.permutation import PermutationTest, permutation_test
from dyadlearn.diagnostics.recommending import Recommendations, recommend
from dyadlearn.diagnostics.screening import Screening, screen

__all__ = ["PermutationTest", "Recommendations", "Screening", "permutation_test", "recommend", "screen"]
