"""What a fitted model is, in words, for models of which no grid of labels is kept too."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn.metrics import scorer
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames
from dyadlearn.views.words import kernel_words, number, power, told_apart

__all__ = ["has_grid", "known_settings_of", "plain_facts", "regularisation_in_words", "sides_in_words"]


def has_grid(model: Any) -> bool:
    """Tell whether a fitted model has kept a grid of labels, so that scores in all settings are to be had."""
    return not model.grows and not model._problem().is_listed


def regularisation_in_words(model: Any, names: SideNames) -> str:
    """Return the regularisation that a fitted model has.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.sides import SideNames
    >>> from dyadlearn.views.facts import regularisation_in_words
    >>> model = TwoStepRidge(1e-5, 2.0).fit(np.eye(3), np.eye(3), tasks=np.eye(3))
    >>> regularisation_in_words(model, SideNames())
    'λ_d = 10⁻⁵, λ_t = 2'
    """
    alphas = model._alphas if model.grows else model._problem().pairing.alphas
    chosen = np.unique(getattr(model, "alpha_", alphas["alpha"]))
    if "task_alpha" in alphas and not (model.grows and not model._knows_tasks):
        return f"λ_d = {power(alphas['alpha'])}, λ_t = {power(alphas['task_alpha'])}"
    if chosen.size > 1:
        return f"λ from {power(chosen[0])} to {power(chosen[-1])}, one for each {names.task}"
    return f"λ = {power(chosen[0])}"


def sides_in_words(model: Any) -> list[str]:
    """Return what each side that a fitted model knows of is described by.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.views.facts import sides_in_words
    >>> model = TwoStepRidge(kernel="rbf", kernel_params={"gamma": 0.5}, task_kernel="precomputed")
    >>> sides_in_words(model.fit(np.eye(3), np.eye(3), tasks=np.eye(3)))
    ['3 features, rbf (gamma=0.5) kernel', 'a kernel as given']
    """
    sides = zip(model._descriptions, _widths(model), strict=False)
    return [
        "; ".join(
            f"{name}: {_described(each, each.n_columns)}" if name else _described(each, n_columns)
            for name, each in side.items()
        )
        for side, n_columns in sides
    ]


def _widths(model: Any) -> list[int]:
    """Return how many columns a row of each side has."""
    if model.grows:
        return [model.n_features_in_, model._learnt.n_task_features]
    return [side.n_columns for side in model._sides()]


def _described(given: Any, n_columns: int) -> str:
    if given.is_precomputed:
        return "a kernel as given"
    return f"{n_columns:,} {'feature' if n_columns == 1 else 'features'}, {kernel_words(given)} kernel"


def known_settings_of(model: Any) -> list[Setting]:
    """Return the settings that a fitted model can answer in."""
    if not model.grows:
        return list(model._problem().pairing.settings)
    return [Setting.B, Setting.C, Setting.D] if model._knows_tasks else [Setting.B]


def plain_facts(model: Any, names: SideNames) -> list[tuple[str, str]]:
    """Return what is known of a model that has no grid of labels: one of batches, or of observed pairs alone."""
    facts = [("Model", type(model).__name__)]
    if model.grows:
        facts.append(("Learnt", f"{model.n_seen_:,} {names.instances}, {model.n_tasks_:,} {names.tasks}"))
        return [*facts, ("Regularisation", regularisation_in_words(model, names))]
    labels = model._problem().labels
    (m, q), values = labels.shape, to_numpy(labels.values)
    share = 100 * labels.size / (m * q)
    facts += [
        ("Grid", f"{m:,} {names.instances} × {q:,} {names.tasks}, never formed"),
        ("Labels", f"{labels.size:,} observed, {share:.3g} %"),
        ("Values", f"{number(float(values.min()))} to {number(float(values.max()))}"),
        ("Regularisation", regularisation_in_words(model, names)),
    ]
    own = getattr(model, "_searched_setting", None)
    if own is not None:
        facts += [
            ("Chosen for", f"setting {told_apart(names).in_words(own)}"),
            ("Best score of the search", f"{scorer(scoring_of(model)).name} {number(model.best_score_)}"),
        ]
    return facts
