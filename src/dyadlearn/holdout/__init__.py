"""Hold-out predictions: the prediction of each label by a model that was trained without the label's unit."""

from dyadlearn.holdout.planning import (
    FitAgain,
    Formula,
    SolveAgain,
    check_enough_left,
    holdout,
    leave_out,
    plan,
    plan_fits,
)
from dyadlearn.holdout.units import Problem, Units

__all__ = [
    "FitAgain",
    "Formula",
    "Problem",
    "SolveAgain",
    "Units",
    "check_enough_left",
    "holdout",
    "leave_out",
    "plan",
    "plan_fits",
]
