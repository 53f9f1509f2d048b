"""How well a fitted model does in each setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from dyadlearn._frames import write_rows
from dyadlearn.metrics import scorer
from dyadlearn.selection.incomplete import model_holdout
from dyadlearn.settings import Setting, as_setting

__all__ = ["evaluate"]


def evaluate(
    model: Any,
    settings: Iterable[str | Setting] = "ABCD",
    scoring: str | Callable[[Any, Any], float] = "neg_mean_squared_error",
    *,
    cv: int | None = None,
) -> Any:
    """Score the hold-out predictions of one fitted model in several settings.

    Parameters
    ----------
    model : fitted estimator
    settings : iterable of settings, default="ABCD"
        Letters or aliases. A model without tasks is scored in those of A and B that are asked for.
    scoring : str or callable, default="neg_mean_squared_error"
        A name (see `dyadlearn.metrics.scorer`) or a function of the labels and the held-out predictions, both of
        shape (m, q); greater is better. Rank metrics are averaged as the setting wants: over all cells for A and D,
        per instance for B, per task for C.
    cv : int, default=None
        Number of folds to leave out where labels are missing or weighted and no shortcut exists; None is five.

    Returns
    -------
    frame with columns ``setting``, ``new``, ``score``, ``undefined``, ``method``
        One row per setting; ``undefined`` counts the instances or tasks for which the metric is undefined and
        that were left out, ``method`` says how the predictions were made. It is of the library the labels
        came in, else of pandas or polars,
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
    judge = scorer(scoring)
    scores, undefined, methods = [], [], []
    for setting in wanted:
        prepared = judge.prepare(problem.Y, setting=setting)
        held_out, method = model_holdout(model, setting, cv)
        scores.append(float(prepared(held_out)))
        undefined.append(prepared.n_undefined)
        methods.append(method)
    columns: dict[str, list[Any]] = {
        "setting": [setting.value for setting in wanted],
        "new": [setting.description for setting in wanted],
        "score": scores,
        "undefined": undefined,
        "method": methods,
    }
    return write_rows(columns, model._grid.kind)
