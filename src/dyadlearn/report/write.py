"""Write the report about a model to a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dyadlearn._checks import check_whole
from dyadlearn._files.atomic import check_place, replacing
from dyadlearn.models.fitted_multiway import FittedMultiway
from dyadlearn.report.cells import render_cells
from dyadlearn.report.page import render
from dyadlearn.settings import Setting
from dyadlearn.views.cells import cell_summary
from dyadlearn.views.summary import Summary, SummaryOptions, summary_of


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    setting: Iterable[str | Setting] | None = None,
    scoring: str | Callable[[Any, Any], float] | None = None,
    alphas: Iterable[float] | None = None,
    task_alphas: Iterable[float] | None = None,
    new: Sequence[Any] | None = None,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    nested: bool = True,
    n_permutations: int = 0,
    n: int = 200,
    notes: Iterable[str] = (),
    sides: tuple[str, str] | None = None,
    names: Mapping[Any, str] | None = None,
    progress: bool | None = None,
) -> Path:
    """Write an HTML report about a fitted model: its data, scores, regularisation and doubtful labels.

    The report is a single file that opens in any browser, without a network. It shows:

    - the grid of labels, the number of labels of instances and tasks, and the spectra of both kernels;
    - the weights of learned kernels;
    - the score in each setting, with an interval, baselines and, with `n_permutations`, the score of permuted labels;
    - the score at every regularisation;
    - the score by the similarity of what was held out to what remained in training;
    - ROC and precision–recall curves, or predictions against labels;
    - the correlation of labels and held-out predictions within each task, for labels of more than two values;
    - the labels that contradict their held-out predictions most;
    - the likeliest pairs that are not observed, and the training labels behind the first of these predictions;
    - warnings, the important first; those that repeat each other are shown once, with their number.

    Parameters
    ----------
    model : fitted estimator
        A model of pairs, a search such as `TwoStepRidgeCV`, a `PairRegressor`, or a `MultiwayRidge`,
        whose report has variances, fixed effects, scores with any sides new, and effects of terms.
    path : path
        File to write, such as ``"report.html"``; an existing file is replaced once the report is
        complete.
    title : str, default=None
        Heading; None uses the name of the model and the size of the grid.
    setting : iterable of settings, default=None
        Letters or aliases; None means all settings that the model supports, with two exceptions. If
        labels are missing, settings without a closed form are refitted for every fold; they are
        left out if that takes more than about half a minute, except the setting of the search
        (without a search B, for a network A). A model with learned kernels is shown in its setting
        only, unless `nested` is False; its kernels are learned again in each fold, as in
        `dyadlearn.evaluate`.
    scoring : str or callable, default=None
        A name (see `dyadlearn.metrics.scorer`) or a function of the labels and the held-out
        predictions, both of shape (m, q); greater is better. None means the score of the search or,
        without a search, ``"roc_auc"`` for binary labels and ``"neg_mean_squared_error"`` for
        others.
    alphas, task_alphas : iterables of float, default=None
        Regularisations to score; None means those of the search or, without a search, the default
        grid of `dyadlearn.selection.default_alphas`.
    new : list of names or of sequences of names, default=None
        Settings of a `MultiwayRidge`, as in `dyadlearn.evaluate`. It has no `setting`, `alphas`,
        `task_groups`, `cv`, `n_permutations` and `sides`; `n` is the number of effects to list.
    groups, task_groups : array-like of shape (m,) and (q,), "identical" or "similar:0.6", default=None
        Groups of instances and tasks that are left out together. None means the groups of the fit
        for the scores of a search, and no groups for its landscapes in other settings than its own.
    cv : int, SettingKFold or list of (training rows, test rows), default=None
        Folds, as in `dyadlearn.evaluate`.
    nested : bool, default=True
        Whether learned kernels are learned again in each fold. With False, the scores of all
        settings are shown, which takes little time; they are optimistic.
    n_permutations : int, default=0
        Number of permutations of the labels to score beside the model, as in `dyadlearn.evaluate`.
    n : int, default=200
        Number of contradicted labels to list.
    notes : iterable of str, default=()
        Further warnings to show, such as those raised by `fit`.
    sides : (str, str), default=None
        Names of an instance and a task, such as ``("host", "parasite")``; the report uses them
        throughout.
    names : mapping of id to str, default=None
        Names of instances and tasks, which are shown after their ids.
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
    options = SummaryOptions(
        title=title,
        setting=setting,
        scoring=scoring,
        alphas=alphas,
        task_alphas=task_alphas,
        groups=groups,
        task_groups=task_groups,
        cv=cv,
        nested=nested,
        n_permutations=n_permutations,
        n=n,
        notes=notes,
        sides=sides,
        names=names,
        progress=progress,
    )
    return write_page(model, Path(path), options, new)


def write_page(
    model: Any,
    target: Path,
    options: SummaryOptions,
    new: Sequence[Any] | None = None,
    write: Callable[[str], str] = str,
) -> Path:
    """Write the report of a model.

    Parameters
    ----------
    model : fitted estimator
    target : Path
    options : SummaryOptions
    new : as in `write_report`
    write : as in `dyadlearn.report.page.render`

    Returns
    -------
    Path
        The file that was written.
    """
    check_place(target)  # before anything is computed
    check_whole(options.n, "n")
    if isinstance(getattr(model, "fitted_", None), FittedMultiway):
        markup = render_cells(cell_summary(model, options, new), write)
    elif new is not None:
        raise TypeError("new= names sides of a MultiwayRidge: use setting=.")
    else:
        markup = render(summary_of(model, options), write)
    return _write(markup, target)


def write_summary(summary: Summary, path: Path, write: Callable[[str], str] = str) -> None:
    """Write the report of a summary that is computed already; see `write_page`."""
    _write(render(summary, write), path)


def _write(markup: str, target: Path) -> Path:
    """Write the markup of a report to a file, and return the file."""
    # An id may contain a surrogate, which UTF-8 cannot encode.
    page = markup.encode("utf-8", errors="backslashreplace")
    with replacing(target) as file:
        file.write(page)
    return target
