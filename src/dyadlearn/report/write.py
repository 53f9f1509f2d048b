"""Write a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dyadlearn._checks import check_count
from dyadlearn._files.atomic import replacing
from dyadlearn.report.gather import gather
from dyadlearn.report.page import render
from dyadlearn.settings import Setting

__all__ = ["write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    settings: Iterable[str | Setting] | None = None,
    scoring: str | Callable[[Any, Any], float] | None = None,
    alphas: Iterable[float] | None = None,
    task_alphas: Iterable[float] | None = None,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    n_cells: int = 200,
    notes: Iterable[str] = (),
    progress: bool | None = None,
) -> Path:
    """Write one page about a fitted model: its data, its settings compared, its landscapes, its doubtful labels.

    The page is a single file that opens in any browser, offline. It shows the grid, the degrees and the spectra of
    both kernels; the score in each setting; the score at every regularisation, to point at; ROC and precision–recall
    curves, or predictions against labels; the labels that contradict their held-out prediction most; and warnings.

    Parameters
    ----------
    model : fitted estimator
        A model of pairs, one that chooses its regularisation, or a `PairRegressor` of one.
    path : path
        Where to write, as ``"report.html"``; an existing file is replaced, and only by a whole one.
    title : str, default=None
        None makes one of the model and the size of the grid.
    settings : iterable of settings, default=None
        Letters or aliases. None is all that the model can be shown in. Where labels are missing, only those that have
        a shortcut and the model's own (without search B, for a network A): the others are solved again for
        every fold.
    scoring : str or callable, default=None
        A name (see `dyadlearn.metrics.scorer`) or a function of the labels and the held-out predictions, both of
        shape (m, q); greater is better. None is the score the model was chosen by, else ``"roc_auc"`` for labels of
        two values and ``"neg_mean_squared_error"`` for all others.
    alphas, task_alphas : iterables of float, default=None
        Regularisations of the landscapes. None is what the model has searched, else 10⁻⁷ … 10⁶.
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Instances and tasks that are left out together. A model that was chosen with groups has kept what it found,
        but not the groups: give them, that the other settings leave out the same.
    cv : int or SettingKFold, default=None
        Folds to leave out, as in `dyadlearn.landscape`.
    n_cells : int, default=200
        How many contradicting labels to list.
    notes : iterable of str, default=()
        Warnings to show beside those that are found, such as those that fitting gave.
    progress : bool, default=None
        Whether to show progress bars; None shows them on a terminal.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidgeCV
    >>> from dyadlearn.report import write_report
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + 6 * rng.normal(size=(20, 15))
    >>> model = TwoStepRidgeCV(setting="D").fit(X, Y, tasks=T)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, pathlib.Path(folder) / "report.html").name
    'report.html'
    """
    target = Path(path)
    # Before anything is computed.
    if target.is_dir():
        raise IsADirectoryError(f"path must name a file to write, found the folder {target}: add report.html to it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"The folder {target.parent} of path does not exist: make it first.")
    check_count(n_cells, "n_cells")
    report = gather(
        model,
        title=title,
        n_cells=n_cells,
        notes=notes,
        wanted=settings,
        scoring=scoring,
        alphas=alphas,
        task_alphas=task_alphas,
        groups=groups,
        task_groups=task_groups,
        cv=cv,
        progress=progress,
    )
    # An id may hold half a character, which no file can.
    page = render(report).encode("utf-8", errors="backslashreplace")
    with replacing(target) as file:
        file.write(page)
    return target
