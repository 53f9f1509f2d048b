"""Learning from labelled pairs: an instance, a task, and a label for the two together."""

from dyadlearn.holdout.refit import verify_holdout
from dyadlearn.models import IndependentTaskRidge, KroneckerRidge, Tasks, TwoStepRidge
from dyadlearn.selection import evaluate

__version__ = "0.1.0.dev0"

__all__ = ["IndependentTaskRidge", "KroneckerRidge", "Tasks", "TwoStepRidge", "evaluate", "verify_holdout"]
