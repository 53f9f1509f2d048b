"""How well a fitted model does in each setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import to_numpy
from dyadlearn._frames import write_rows
from dyadlearn.holdout import holdout
from dyadlearn.settings import Setting, as_setting

__all__ = ["evaluate"]


def evaluate(
    model: Any,
    settings: Iterable[str | Setting] = "ABCD",
    scoring: str | Callable[[np.ndarray, np.ndarray], float] = "neg_mean_squared_error",
) -> Any:
    """Score the hold-out predictions of one fitted model in several settings.

    Parameters
    ----------
    model : fitted estimator
    settings : iterable of settings, default="ABCD"
        Letters or aliases. A model without tasks is scored in those of A and B that are asked for.
    scoring : "neg_mean_squared_error" or callable, default="neg_mean_squared_error"
        A function of the labels and the held-out predictions, both of shape (m, q); greater is better.

    Returns
    -------
    frame with columns ``setting``, ``new``, ``score``
        One row per setting. It is of the library the labels came in, else of pandas or polars,
        whichever is installed.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, evaluate
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> list(evaluate(model)["setting"])
    ['A', 'B', 'C', 'D']
    """
    check_is_fitted(model)
    problem = model._problem()
    wanted = [as_setting(setting) for setting in settings]
    if problem.task_spectrum is None:
        wanted = [setting for setting in wanted if not setting.new_task]
        if not wanted:
            raise ValueError("This model knows nothing of tasks: only settings A and B can be evaluated.")
    score = _scorer(scoring)
    labels = to_numpy(problem.Y)
    scores = [score(labels, to_numpy(holdout(problem, setting))) for setting in wanted]
    columns: dict[str, list[Any]] = {
        "setting": [setting.value for setting in wanted],
        "new": [setting.description for setting in wanted],
        "score": scores,
    }
    return write_rows(columns, model._grid.kind)


def _scorer(
    scoring: str | Callable[[np.ndarray, np.ndarray], float],
) -> Callable[[np.ndarray, np.ndarray], float]:
    if callable(scoring):
        return scoring
    if scoring == "neg_mean_squared_error":
        return lambda Y, F: -float(np.mean((Y - F) ** 2))
    raise ValueError(f'scoring must be "neg_mean_squared_error" or a function of (Y, F), found {scoring!r}.')
