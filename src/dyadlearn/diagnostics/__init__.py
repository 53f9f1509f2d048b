# ruff: noqa: F403
"""Diagnostics of fitted models: suspicious labels, recommendations, explanations, calibration and tests."""

from dyadlearn.diagnostics import (
    calibration,
    comparing,
    explaining,
    mixed,
    permutation,
    ranked_lists,
    recommending,
    reliability,
    screening,
)
from dyadlearn.diagnostics.calibration import *
from dyadlearn.diagnostics.comparing import *
from dyadlearn.diagnostics.explaining import *
from dyadlearn.diagnostics.mixed import *
from dyadlearn.diagnostics.permutation import *
from dyadlearn.diagnostics.ranked_lists import *
from dyadlearn.diagnostics.recommending import *
from dyadlearn.diagnostics.reliability import *
from dyadlearn.diagnostics.screening import *

__all__: list[str] = []
__all__ += calibration.__all__
__all__ += comparing.__all__
__all__ += explaining.__all__
__all__ += mixed.__all__
__all__ += permutation.__all__
__all__ += ranked_lists.__all__
__all__ += recommending.__all__
__all__ += reliability.__all__
__all__ += screening.__all__
