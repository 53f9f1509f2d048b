"""Weights of the learned kernels of a fitted model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dyadlearn._text import number
from dyadlearn.models.fitted import as_fitted
from dyadlearn.selection.learning_kernels import CONSTANT
from dyadlearn.sides import SideNames
from dyadlearn.views.spectrum import called


@dataclass(frozen=True)
class Weights:
    """Weights of the learned kernels of a model.

    Attributes
    ----------
    weights : dict of str to dict of str to float
        For ``"instances"`` and, if tasks have features, ``"tasks"``: the weight of each
        description, largest first, and of the constant, last; they sum to one.
    exponents : dict of str to dict of str to float
        For each side, the exponent of each description.
    shares : dict of str to float or None
        Shares of the terms of the kernel between pairs, which sum to one: the ``"product"`` of both
        kernels, a function of the ``"instances"`` for each task, and one of the ``"tasks"`` for
        each instance. None without tasks.
    stage_errors : list of float
        Held-out mean squared error of each stage that was tried.
    n_stages : int
        Number of stages of the model.
    """

    weights: dict[str, dict[str, float]]
    exponents: dict[str, dict[str, float]]
    shares: dict[str, float] | None
    stage_errors: list[float]
    n_stages: int

    def in_words(self, side: str) -> str:
        """Return the weights of a side, such as "ecfp 62 % (exponent 1.8), similarity 33 %, constant 5 %"."""
        words = []
        for name, weight in self.weights[side].items():
            exponent = self.exponents[side].get(name, 1.0)
            text = f"{name} {percent(weight)}"
            if exponent != 1:
                text += f" (exponent {number(exponent, 3)})"
            words.append(text)
        return ", ".join(words)

    def lines(self, names: SideNames) -> list[tuple[str, str]]:
        """Return the weights as pairs of a name and a text."""
        lines = [
            (f"weights of {called(side, names)}", self.in_words(side)) for side in self.weights
        ]
        if len(self.stage_errors) > 1:
            errors = [number(error) for error in self.stage_errors]
            errors[self.n_stages - 1] += " (kept)"
            lines.insert(0, ("error by stage", ", ".join(errors)))
        if self.shares is None:
            return lines
        return [*lines, ("pairs", self.shares_in_words(names))]

    def shares_in_words(self, names: SideNames) -> str:
        """Return the shares of the terms of the kernel between pairs, in words."""
        assert self.shares is not None
        product, instances, tasks = (
            percent(self.shares[term]) for term in ("product", "instances", "tasks")
        )
        return (
            f"{product} product of both kernels, "
            f"{instances} functions of the {names.instances} for each {names.task}, "
            f"{tasks} functions of the {names.tasks} for each {names.instance}"
        )

    def figures(self) -> dict[str, Any]:
        """Return the weights as plain values, for JSON."""
        return {
            "weights": self.weights,
            "exponents": self.exponents,
            "shares": self.shares,
            "stage_errors": self.stage_errors,
        }


def weights_of_model(model: Any) -> Weights | None:
    """Return the weights of the learned kernels of a fitted model; None if its kernels are not learned.

    Parameters
    ----------
    model : fitted estimator, or its `fitted_`

    Returns
    -------
    Weights or None

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import LearnedKernelRidge
    >>> from dyadlearn.views.weights import weights_of_model
    >>> rng = np.random.default_rng(0)
    >>> X, noise, T = rng.normal(size=(30, 2)), rng.normal(size=(30, 5)), rng.normal(size=(20, 2))
    >>> model = LearnedKernelRidge(setting="B", n_steps=20)
    >>> model.fit({"noise": noise, "signal": X}, np.sin(2 * X) @ np.cos(T).T, tasks=T).n_stages_
    1
    >>> list(weights_of_model(model).weights["instances"])
    ['signal', 'noise', 'constant']
    """
    if not getattr(model, "learns_kernels", False):
        return None
    fitted = as_fitted(model)
    weights = {}
    exponents = {}
    for side, values in fitted.weights.items():
        ordered = sorted(values.items(), key=lambda item: (item[0] == CONSTANT, -item[1]))
        weights[side] = dict(ordered)
        of_side = fitted.exponents[side]
        exponents[side] = {name: of_side[name] for name in weights[side] if name in of_side}
    shares = None
    if fitted.shares is not None:
        shares = dict(zip(("product", "instances", "tasks"), fitted.shares, strict=True))
    learned = fitted.learned
    return Weights(weights, exponents, shares, list(learned.stage_errors), len(learned.path))


def percent(share: float) -> str:
    """Return a proportion as a whole percentage, or "below 1 %"."""
    if share >= 0.0095:
        return f"{100 * share:.0f} %"
    return "below 1 %"
