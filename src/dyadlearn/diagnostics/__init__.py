"""What is asked of a model before it is believed: which labels are wrong, which pairs to try, how sure it all is."""

from __future__ import annotations

from dyadlearn.diagnostics.recommending import RecommendationLists, Recommendations, TopPairs, recommend, top_pairs
from dyadlearn.diagnostics.screening import Screening, screen

__all__ = ["RecommendationLists", "Recommendations", "Screening", "TopPairs", "recommend", "screen", "top_pairs"]
