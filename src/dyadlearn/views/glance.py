"""A fitted model at a glance: what there is to say of it at once, without solving anything for long."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dyadlearn._array import namespace, to_numpy
from dyadlearn._tables import Ids
from dyadlearn._words import joined, number
from dyadlearn.diagnostics.fitted import ids_of, is_network, known_settings
from dyadlearn.holdout import plan
from dyadlearn.metrics import scorer
from dyadlearn.selection.evaluate import evaluate, scoring_of
from dyadlearn.selection.scores import Scores
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names
from dyadlearn.views.facts import regularisation_in_words, sides_in_words
from dyadlearn.views.weights import weights_of_model

__all__ = ["Glance", "SideGlance", "glance_of"]

# Multiplications that hold-out predictions may take in all if nobody has asked for them, about a third of a second;
# what it takes to score a cell, beside simple means, and to start another solve; how many labels are looked at.
_MOST_WORK, _PER_CELL, _PER_SOLVE, _MOST_LABELS = 1e9, 600, 2e7, 5_000_000
# How many ids of a side are shown, and how many letters of a text.
_IDS, _LETTERS = 3, 60

# Scores of problems that were shown before, with what they were scored by. A model that is fitted again poses another.
_kept: WeakKeyDictionary[Any, tuple[Any, tuple[Scores | None, list[str]]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class SideGlance:
    """One side of a model.

    Attributes
    ----------
    name : str
        What several of it are called.
    size : int
        How many there are.
    ids : str
        The first of them, in words.
    described : str
        What is known of them, in words.
    """

    name: str
    size: int
    ids: str
    described: str


@dataclass(frozen=True, eq=False)
class Glance:
    """What there is to say of a fitted model at once.

    Attributes
    ----------
    title : str
    sides : list of SideGlance
    facts : list of (str, str)
        Labels, regularisation and the like, in words.
    scores : Scores or None
        Of the settings whose hold-out predictions are there, or had at once.
    notes : list of str
        What there is to mind, and what was left out.
    """

    title: str
    sides: list[SideGlance] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    scores: Scores | None = None
    notes: list[str] = field(default_factory=list)


def glance_of(model: Any) -> Glance:
    """Return what there is to say of a fitted estimator at once.

    Settings whose hold-out predictions a search has kept, or which take a closed form little work, are scored; of the
    others it is said that `dyadlearn.evaluate` scores them. What was found is kept as long as the model is as it is.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    Glance

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.views.glance import glance_of
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> glance = glance_of(TwoStepRidge(0.1).fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T))
    >>> glance.sides[0].described, glance.facts[1], glance.scores["setting"]
    ('3 features, linear kernel', ('Regularisation', 'λ_d = 0.1, λ_t = 1'), ['A', 'B', 'C', 'D'])
    """
    inner, title = getattr(model, "model_", model), type(model).__name__
    if inner is not model:  # a model of long tables wraps one of grids
        title = f"{title} of {type(inner).__name__}"
    grows = getattr(inner, "grows", None)
    if grows is None:
        return Glance(title, facts=model._own_facts())
    if grows:
        return Glance(title, _growing_sides(inner), [*_model_facts(inner, SideNames()), *model._own_facts()])
    names = side_names(network=is_network(inner))
    scores, notes = _scores(inner)
    facts = [("Labels", _labels(inner)), *_model_facts(inner, names), *model._own_facts()]
    return Glance(title, _sides(model, inner, names), facts, scores, notes)


# The sides ------------------------------------------------------------------------------------------------------------


def _sides(model: Any, inner: Any, names: SideNames) -> list[SideGlance]:
    sides = zip(names.both, _shape(inner), ids_of(model), _described(inner), strict=True)
    n_sides = 1 if is_network(inner) else 2
    return [SideGlance(name, size, _first(ids), said) for name, size, ids, said in islice(sides, n_sides)]


def _shape(inner: Any) -> tuple[int, int]:
    m, q = inner._grid.values.shape if len(inner._grid.values.shape) == 2 else (inner._grid.values.shape[0], 1)
    return int(m), int(q)


def _described(model: Any) -> list[str]:
    """Return what is known of each side."""
    first, *second = sides_in_words(model)
    return [_cut(first, 400), _cut(second[0], 400) if second else "nothing is known of them"]


def _growing_sides(model: Any) -> list[SideGlance]:
    sides = zip(SideNames().both, (model.n_seen_, model.n_tasks_), model._ids, _described(model), strict=True)
    return [SideGlance(name, int(size), _first(ids), said) for name, size, ids, said in sides]


def _first(ids: Ids | None) -> str:
    """Return the first ids of a side, and what they are called."""
    if ids is None:
        return "–"
    name = f"{_cut(str(ids.name))}: " if ids.name is not None else ""
    more = ", …" if len(ids) > _IDS else ""
    return f"{name}{', '.join(_id(each) for each in ids.labels[:_IDS])}{more}"


def _id(label: Hashable) -> str:
    return _cut(str(label), 24)


def _cut(text: str, letters: int = _LETTERS) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


# Labels and regularisation --------------------------------------------------------------------------------------------


def _labels(inner: Any) -> str:
    """Return how many labels are observed, and what values they have where these are few enough to look at."""
    problem, (m, q) = inner._problem(), _shape(inner)
    targets = problem.targets
    if problem.is_listed:
        n_observed = int(targets.shape[0])
    else:
        xp = namespace(targets)
        n_observed = m * q - int(xp.sum(xp.astype(xp.isnan(targets), xp.int64)))
    words = [f"{n_observed:,} of {m * q:,} observed ({100 * n_observed / (m * q):.3g} %)"]
    if n_observed == m * q:
        words = [f"{n_observed:,}, all observed"]
    elif problem.is_listed:
        words.append("fitted on these pairs alone, without a grid")
    if problem.weights is not None:
        words.append("weighted")
    if n_observed <= _MOST_LABELS:
        values = to_numpy(targets)
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        two = bool(np.all((values == low) | (values == high) | np.isnan(values)))
        span = f"{number(low)} and {number(high)}" if two else f"from {number(low)} to {number(high)}"
        words.append(f"all {number(low)}" if low == high else span)
    return "; ".join(words)


def _model_facts(model: Any, names: SideNames) -> list[tuple[str, str]]:
    facts = [("Regularisation", regularisation_in_words(model, names))]
    facts.append(("Intercept", "yes" if getattr(model, "_has_constant", model.fit_intercept) else "no"))
    own = getattr(model, "_searched_setting", None)
    if own is not None:
        best = getattr(model, "best_score_", None)
        words = "" if best is None else f" ({scorer(model.scoring).name} {number(best)}, {model.holdout_method_})"
        facts.append(("Chosen for", f"setting {names.in_words(own)}{words}"))
    weights = weights_of_model(model)
    if weights is not None:
        facts += [(f"Weights of the {name}", _cut(side.in_words, 400)) for name, side in weights.named(names).items()]
    return facts


# Scores ---------------------------------------------------------------------------------------------------------------


def _scores(model: Any) -> tuple[Scores | None, list[str]]:
    """Return the scores of what is there or had at once, and what is to be said of them and of the others."""
    problem, scoring = model._problem(), getattr(model, "scoring", None)
    if problem not in _kept or _kept[problem][0] is not scoring:
        _kept[problem] = scoring, _scored(model)
    return _kept[problem][1]


def _scored(model: Any) -> tuple[Scores | None, list[str]]:
    own, known = getattr(model, "_searched_setting", None), known_settings(model)
    scores: dict[Setting, Scores] = {}
    notes, slow, left = [], [], _MOST_WORK
    for setting in sorted(known, key=lambda each: each is not own):
        try:
            work = _work(model, setting)
            if work > left:
                slow.append(setting)
                continue
            left -= work
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # whoever asks for a score is warned of it
                scores[setting] = evaluate(model, [setting], scoring_of(model), n_permutations=0, nested=False)
        except ValueError as error:  # as where the model interpolates what is left out
            notes.append(f"Setting {setting.value} has no score. {error}")
    notes += _optimism(model, own) if own in scores else []
    if slow:
        notes.append(f"Setting {joined([each.value for each in known if each in slow])}: evaluate(model) tells.")
    told = [scores[setting] for setting in known if setting in scores]
    return _together(told) if told else None, notes


def _optimism(model: Any, own: Setting) -> list[str]:
    if model.learns_kernels:
        return [
            f"Kernels were learned from all labels, so that the score of setting {own.value} is optimistic: "
            "evaluate(model) learns them again without what is scored."
        ]
    return [
        f"The regularisation is the best of many in setting {own.value}, so its score there is a little optimistic: "
        "nested_score tells one that is not."
    ]


def _together(parts: list[Scores]) -> Scores:
    first = parts[0]
    columns = {name: [value for part in parts for value in part[name]] for name in first}
    return Scores(columns, first.scoring, first.sides)


def _work(model: Any, setting: Setting) -> float:
    """Return about how many multiplications the hold-out predictions of a setting and their scores take."""
    problem, (m, q) = model._problem(), _shape(model)
    n_labels = problem.targets.shape[0] if problem.is_listed else m * q
    scoring = float(_PER_CELL * n_labels)
    if setting is getattr(model, "_searched_setting", None) and hasattr(model, "holdout_"):
        return scoring  # which is kept
    if problem.is_listed or problem.pairing.uses_labels or model.learns_kernels:
        return math.inf
    product, least = float(m * q * (m + q)), min(m, q)
    if not problem.is_complete:
        splitter = plan(problem, setting).splitter
        n_solves = 5 if splitter is None else splitter.n_splits ** (2 if setting is Setting.D else 1)
        n_steps = 10 + (0 if model._completion is None else model._completion.solution.n_iter)
        return scoring + n_solves * (_PER_SOLVE + n_steps * product)
    if problem.pairing.decomposes(setting):
        return scoring + least * (20.0 * least**3 + 3 * product)
    if setting is Setting.A and problem.pairing.symmetry and not problem.pairing.smoothers:
        # What an edge does to its transpose takes a product of all pairs of vertices with all pairs of eigenvalues.
        return scoring + 0.25 * (m * len(problem.pairing.spectra[0].values)) ** 2
    return scoring + 4 * product
