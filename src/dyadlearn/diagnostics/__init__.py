"""What a fitted model says about its own labels: cells that look wrong, and pairs that are worth a try."""

from __future__ import annotations

from dyadlearn.diagnostics.recommending import Recommendations, recommend
from dyadlearn.diagnostics.screening import Screening, screen

__all__ = ["Recommendations", "Screening", "recommend", "screen"]
