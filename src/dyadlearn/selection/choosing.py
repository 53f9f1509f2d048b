"""Choice between searches of different models, by the scores of their held-out predictions.

A search whose hold-out is exact is not compared with one that leaves out folds: a model that is
fitted without a fifth of the data is worse than one that is fitted without a single row. So exact
searches come first. Of these, the one with the least work is always run. Others are run if they
take about ten seconds of two cores at most, or little longer than the first: a better model is
worth this time, and a user who wants to wait longer can run such a search alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from dyadlearn._array import namespace
from dyadlearn._interrupts import Interrupts, keeping_best
from dyadlearn._progress import Phase, Progress
from dyadlearn._tables import Table
from dyadlearn._text import number
from dyadlearn.exceptions import LeverageError, NotEnoughMemoryError, SearchStoppedWarning
from dyadlearn.holdout.planning import most_work
from dyadlearn.kernels import gram_diagonal
from dyadlearn.metrics import scorer
from dyadlearn.models.pairs import PairRegressor
from dyadlearn.models.reading import Training, groups_in_order, read_training
from dyadlearn.models.side import KernelSpec
from dyadlearn.models.spec import Constants
from dyadlearn.selection.edges import warn_of_choice
from dyadlearn.selection.search import KroneckerRidgeCV, Search
from dyadlearn.selection.searching import PosedSearch
from dyadlearn.settings import as_setting

# Most work of a further search: relative to the search with the least work, and relative to the
# most work of an exact hold-out for one regularisation, about a minute.
_LITTLE_MORE = 2.0
_SOME_SECONDS = 0.25
# Constants to try, as multiples of the mean diagonal of each kernel.
_MULTIPLES = (0.1, 1.0, 10.0)


@dataclass(frozen=True, eq=False, repr=False)
class Better:
    """The best of some searches; the result of `better_of`.

    Attributes
    ----------
    model : fitted search, or PairRegressor of one
    name : str
        Name of the search.
    scores : dict of str to float
        Best score of each search that was run.
    plans : dict of str to str
        Method of hold-out of each search, its reason, and its estimated cost in time and memory.
    reason : str
        Why this search was chosen, in one or more sentences.
    """

    model: Any
    name: str
    scores: dict[str, float]
    plans: dict[str, str]
    reason: str

    def __repr__(self) -> str:
        return f"Better({self.name}: {self.reason})"


def better_of(
    searches: Mapping[str, Any],
    X: Any,
    y: Any,
    tasks: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    task_groups: Any = None,
) -> Better:
    """Run searches of different models on the same data, and keep the one with the best held-out score.

    Searches whose hold-out is exact and affordable are compared. A search is affordable if it has
    the least work of them, if it takes at most 5·10¹¹ multiplications, about ten seconds on two
    cores (on an accelerator, 50 times as many), or if it takes at most twice the least work. If no
    hold-out is exact, the same holds for searches that refit the same folds. All others are left
    out, and `reason` says what they would cost.

    An interrupt (Ctrl-C) keeps the best result so far, as in the `fit` of a search.

    Parameters
    ----------
    searches : dict of str to TwoStepRidgeCV, or any other search, or PairRegressor of one
        At least one search; they are cloned. All need the same `setting` and `scoring`. A
        `KroneckerRidgeCV` with an intercept and ``constants=None`` tries 0.1, 1 and 10 times the
        mean diagonal of each kernel as `constants`, so that the main effects have a weight.
    X, y, tasks, sample_weight
        Arguments of their `fit`; for `PairRegressor`, `X` are the pairs.
    groups, task_groups : array-like of shape (m,) and (q,), "identical" or "similar:0.6", default=None
        Groups of instances and of tasks that are left out together.

    Returns
    -------
    Better

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import KroneckerRidgeCV, TwoStepRidgeCV, better_of
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 4)), rng.normal(size=(15, 3))
    >>> Y = X @ rng.normal(size=(4, 3)) @ T.T + rng.normal(size=(20, 15))
    >>> Y[3, 5] = np.nan
    >>> searches = {"two-step": TwoStepRidgeCV(setting="A"), "kronecker": KroneckerRidgeCV(setting="A")}
    >>> found = better_of(searches, X, Y, tasks=T)
    >>> found.name, list(found.scores), found.model.holdout_method_
    ('...', ['...', '...'], 'exact leave-one-out')
    """
    if not searches:
        raise ValueError("searches is empty: give at least one search, by name.")
    candidates = [_Candidate(name, search) for name, search in searches.items()]
    first = candidates[0].search
    for candidate in candidates[1:]:
        _check_same(first, candidate.search)
    with keeping_best(first.progress) as interrupts:
        for candidate in candidates:
            candidate.pose(X, y, tasks, sample_weight, groups, task_groups)
        tried = _affordable(candidates)
        _run_all(tried, interrupts, first.progress)
        ran = [candidate for candidate in tried if candidate.score is not None]
        if not ran:
            raise next(candidate.refusal for candidate in tried if candidate.refusal is not None)
        best = max(
            ran, key=lambda candidate: -np.inf if candidate.score is None else candidate.score
        )
        best.repeat_warnings()
        reason = _reason(best, candidates, tried)
        model = best.finished(X, y, sample_weight)
    if interrupts.heard is not None:
        stopped = [candidate.stopped for candidate in tried if candidate.stopped] + [
            _ends(candidate) for candidate in tried if candidate not in ran
        ]
        warnings.warn(" ".join(stopped), SearchStoppedWarning, stacklevel=2)
    scores = {
        candidate.name: float(candidate.score) for candidate in ran if candidate.score is not None
    }
    return Better(
        model,
        best.name,
        scores,
        {candidate.name: candidate.expected.words for candidate in candidates},
        reason,
    )


class _Candidate:
    """A search to try, with its decomposed sides.

    Parameters
    ----------
    name : str
    given : search or PairRegressor
        It is cloned.
    """

    def __init__(self, name: str, estimator: Any) -> None:
        self.name = name
        self.owner: PairRegressor | None = (
            clone(estimator) if isinstance(estimator, PairRegressor) else None
        )
        model = estimator if self.owner is None else self.owner.model
        if not isinstance(model, Search) or getattr(model, "alpha_per_task", False):
            raise TypeError(
                f"{name!r} is {type(model).__name__}: better_of compares searches, such as "
                f"TwoStepRidgeCV."
            )
        self.search: Any = clone(model)
        self.score: float | None = None
        self.refusal: Exception | None = None
        #: What was reached before an interrupt; empty without one.
        self.stopped = ""
        self._warnings: list[warnings.WarningMessage] = []

    def pose(
        self, X: Any, y: Any, tasks: Any, sample_weight: Any, groups: Any, task_groups: Any
    ) -> None:
        """Read the data, decompose the sides, and plan the search."""
        search = self.search
        arguments = (X, y, tasks, sample_weight)
        if self.owner is not None:
            arguments = self.owner.given_to_model(X, y, sample_weight)
        spec = search.search_spec()
        data = read_training(spec.model, *arguments)
        if (
            isinstance(search, KroneckerRidgeCV)
            and search.constants is None
            and search.fit_intercept
        ):
            search.set_params(constants=default_constants(search, data))
            spec = search.search_spec()
        with self._recording():
            together = groups_in_order(data, groups, task_groups)
            self.posed = PosedSearch.of(spec, data, together)
            self.expected = self.posed.expected

    def run(self, interrupts: Interrupts) -> None:
        """Run the search; its score stays None if it has none, or if it is interrupted before its first score."""
        try:
            with self._recording():
                self.fitted = self.posed.run(of=self.expected.cost.seconds)
                with Phase("Baselines"):
                    interrupts.attempt(partial(warn_of_choice, self.fitted))
        except (LeverageError, NotEnoughMemoryError) as error:
            self.refusal = error
            return
        self.score = self.fitted.choice.best_score
        if interrupts.heard is not None:
            self.stopped = self.fitted.reached

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Record the warnings of a block."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                self._warnings += caught

    def repeat_warnings(self) -> None:
        """Warn of what was recorded, each once."""
        distinct = {(record.category, str(record.message)): record for record in self._warnings}
        for record in distinct.values():
            warnings.warn_explicit(record.message, record.category, record.filename, record.lineno)

    def finished(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Return the fitted estimator."""
        self.search.fitted_ = self.fitted
        if self.owner is None:
            return self.search
        return self.owner._fit_by(lambda *data: self.search, X, y, sample_weight)


def _check_same(first: Search, other: Search) -> None:
    """Raise if the scores of two searches are not comparable."""
    settings = [as_setting(candidate.setting).value for candidate in (first, other)]
    if settings[0] != settings[1]:
        raise ValueError(
            f"The searches have the settings {settings[0]} and {settings[1]}: give them the same "
            f"one."
        )
    judges = [scorer(candidate.scoring).averaged(candidate.average) for candidate in (first, other)]
    if judges[0] != judges[1]:
        names = [str(judge) for judge in judges]
        raise ValueError(
            f"The searches have the scores {names[0]} and {names[1]}: give them the same scoring."
        )


def _affordable(candidates: list[_Candidate]) -> list[_Candidate]:
    """Return the searches to run, that with the least work first."""
    exact = [candidate for candidate in candidates if candidate.expected.how.is_asked]
    comparable = sorted(exact or candidates, key=lambda candidate: candidate.expected.cost.work)
    cheapest = comparable[0]
    most = max(
        _SOME_SECONDS * most_work(cheapest.posed.data.labels),
        _LITTLE_MORE * cheapest.expected.cost.work,
    )
    return [candidate for candidate in comparable if candidate.expected.cost.work <= most]


def _run_all(tried: list[_Candidate], interrupts: Interrupts, show: bool | None) -> None:
    """Run searches one after the other; after an interrupt, what has a result is kept."""
    total = sum(candidate.expected.cost.seconds for candidate in tried)
    with Progress(total, "Searches", show):
        for place, candidate in enumerate(tried):
            try:
                candidate.run(interrupts)
            except KeyboardInterrupt as error:
                if not any(before.score is not None for before in tried[:place]):
                    raise
                interrupts.heed(error)
            if interrupts.heard is not None:
                return


def _reason(best: _Candidate, candidates: list[_Candidate], tried: list[_Candidate]) -> str:
    """Return why a search was chosen: the scores of all that were run, and what the others would cost."""
    judge = scorer(best.search.scoring).name
    setting = as_setting(best.search.setting).value
    others = [candidate for candidate in tried if candidate is not best]
    compared = [
        f", {candidate.name} {number(candidate.score)}"
        for candidate in others
        if candidate.score is not None
    ]
    sentences = [
        f"{judge} in setting {setting}: {best.name} {number(best.score)}{''.join(compared)}"
    ]
    sentences[0] += f" ({best.fitted.validation.reason})."
    for candidate in candidates:
        if candidate in tried and candidate.score is None:
            sentences.append(_ends(candidate))
        elif candidate not in tried:
            sentences.append(f"{candidate.name} was left out: {candidate.expected.words}.")
    return " ".join(sentences)


def _ends(candidate: _Candidate) -> str:
    """Return why a search that was to be run has no score."""
    if candidate.refusal is not None:
        return f"{candidate.name} has no score: {candidate.refusal}"
    return f"{candidate.name} has no score, because of the interrupt."


def default_constants(search: Any, data: Training) -> list[Constants] | None:
    """Return the constants of both kernels to try: multiples of the mean diagonal of each kernel.

    Parameters
    ----------
    search : KroneckerRidgeCV
    data : Training

    Returns
    -------
    list of (float, float) or None
        None without tasks.
    """
    if not data.has_tasks:
        return None
    sides = zip(data.sides, search.kernel_specs(), strict=True)
    first, second = (_mean_diagonal(*side) for side in sides)
    return [(multiple * first, multiple * second) for multiple in _MULTIPLES]


def _mean_diagonal(table: Table, spec: KernelSpec) -> float:
    """Return the mean of the kernel of each row with itself; one if it is zero."""
    if spec.is_precomputed:
        diagonal = namespace(table.values).linalg.diagonal(table.values)
    else:
        diagonal = gram_diagonal(
            replace(table, kind=None).values, kernel=spec.kernel, kernel_params=spec.params
        )
    return float(namespace(diagonal).mean(diagonal)) or 1.0
