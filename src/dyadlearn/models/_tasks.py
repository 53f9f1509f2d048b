"""The holder that keeps the tasks whole on their way through scikit-learn."""

from __future__ import annotations

from typing import Any

from dyadlearn._state import Stored

__all__ = ["Tasks", "unwrap_tasks"]


class Tasks(Stored):
    """Tasks that no cross-validation will slice.

    scikit-learn cuts any array-like metadata as long as `X` into training and test rows. With as
    many tasks as instances that would cut the tasks too. A holder is not array-like, so it is
    passed on whole.

    Parameters
    ----------
    array : array, sparse matrix or frame of shape (q, r) or (q, q)
        The features or the kernel of the tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn import config_context
    >>> from sklearn.model_selection import cross_validate
    >>> from dyadlearn import Tasks, TwoStepRidge
    >>> rng = np.random.default_rng(0)
    >>> X, T, Y = rng.normal(size=(6, 2)), rng.normal(size=(6, 3)), rng.normal(size=(6, 6))
    >>> with config_context(enable_metadata_routing=True):
    ...     model = TwoStepRidge().set_fit_request(tasks=True).set_score_request(tasks=False)
    ...     result = cross_validate(model, X, Y, cv=3, params={"tasks": Tasks(T)})
    >>> result["test_score"].shape
    (3,)
    """

    def __init__(self, array: Any) -> None:
        self.array = array

    def __repr__(self) -> str:
        shape = getattr(self.array, "shape", None)
        return f"Tasks({type(self.array).__name__}{'' if shape is None else f' of shape {tuple(shape)}'})"


def unwrap_tasks(tasks: Any) -> Any:
    """Return the array in a `Tasks` holder, or what came without one."""
    return tasks.array if isinstance(tasks, Tasks) else tasks
