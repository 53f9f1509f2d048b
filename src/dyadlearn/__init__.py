# ruff: noqa: F403, F405
"""Learning from labelled pairs: an instance, a task, and a label for the two together."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dyadlearn._registry import MODELS as _MODELS

if sys.argv[:1] == ["-m"]:  # python -m dyadlearn: Ctrl-C is quiet while the rest is loaded
    import _dyadlearn_main  # noqa: F401

if TYPE_CHECKING:  # mypy does not find names that a star import takes from another one
    from dyadlearn.diagnostics.calibration import *
    from dyadlearn.diagnostics.comparing import *
    from dyadlearn.diagnostics.explaining import *
    from dyadlearn.diagnostics.mixed import *
    from dyadlearn.diagnostics.permutation import *
    from dyadlearn.diagnostics.recommending import *
    from dyadlearn.diagnostics.screening import *
    from dyadlearn.features import read_features
    from dyadlearn.holdout.refit import verify_holdout
    from dyadlearn.kernels import Descriptions, Landmarks
    from dyadlearn.models import *
    from dyadlearn.selection import *
    from dyadlearn.store import load, save

__version__ = "0.2.0"

__all__ = [
    "Descriptions",
    "IndependentTaskRidge",
    "IndependentTaskRidgeCV",
    "KroneckerRidge",
    "KroneckerRidgeCV",
    "Landmarks",
    "LearnedKernelRidge",
    "MultiwayRidge",
    "OnlineTwoStepRidge",
    "PairKernelRidge",
    "PairKernelRidgeCV",
    "PairRegressor",
    "SettingKFold",
    "Tasks",
    "TwoStepRegressor",
    "TwoStepRidge",
    "TwoStepRidgeCV",
    "audit",
    "better_of",
    "bootstrap_interval",
    "calibrate",
    "compare",
    "evaluate",
    "explain",
    "landscape",
    "load",
    "nested_score",
    "permutation_test",
    "predict_table",
    "read_features",
    "recommend",
    "save",
    "screen",
    "top_pairs",
    "verify_holdout",
]

# Models that the list above does not name, for type checkers, are public all the same.
__all__ += [
    str(name)
    for entry in _MODELS.values()
    for name in (entry.model, entry.search)
    if name not in (None, *__all__)
]

# Modules in which public names are looked for; they are imported when a name is first used.
_MODULES = (
    *("models", "selection", "kernels", "holdout.refit", "diagnostics", "features", "store"),
    *(entry.module for entry in _MODELS.values() if entry.module),
)


def __getattr__(name: str) -> Any:
    """Import a public name, or a module such as ``dyadlearn.kernels``, when it is first used."""
    if name in __all__:
        modules = (import_module(f"{__name__}.{module}") for module in _MODULES)
        value = next(vars(module)[name] for module in modules if name in vars(module))
        globals()[name] = value
        return value
    if not name.startswith("_"):
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
