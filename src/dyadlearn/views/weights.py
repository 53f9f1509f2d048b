"""What a model with learned kernels has learned of them: which description of each side matters, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dyadlearn._printing import number
from dyadlearn.selection.learned import CONSTANT
from dyadlearn.sides import SideNames

__all__ = ["SideWeights", "Weights", "percent", "weights_of_model"]


@dataclass(frozen=True)
class SideWeights:
    """The weights of one side.

    Attributes
    ----------
    weights : dict of str to float
        Of each description, and of the constant, the largest first and the constant last; they sum to one.
    exponents : dict of str to float
        Of each description.
    """

    weights: dict[str, float]
    exponents: dict[str, float]

    @property
    def in_words(self) -> str:
        """All weights in one line, such as "ecfp 62 % (exponent 1.8), similarity 33 %, constant 5 %"."""
        words = []
        for name, weight in self.weights.items():
            exponent = self.exponents.get(name, 1.0)
            power = "" if exponent == 1 else f" (exponent {number(exponent, 3)})"
            words.append(f"{name} {percent(weight)}{power}")
        return ", ".join(words)


@dataclass(frozen=True)
class Weights:
    """What a model has learned of its kernels.

    Attributes
    ----------
    sides : dict of str to SideWeights
        ``"instances"`` and, where anything is known of them, ``"tasks"``.
    shares : dict of str to float or None
        How much of the kernel between pairs is what: the ``"product"`` of both kernels, a function of the
        ``"instances"`` for each task, one of the ``"tasks"`` for each instance; they sum to one. None without tasks.
    stage_errors : list of float
        The held-out mean squared error of each stage that was tried.
    n_stages : int
        How many stages the model has.
    """

    sides: dict[str, SideWeights]
    shares: dict[str, float] | None
    stage_errors: list[float]
    n_stages: int

    def named(self, names: SideNames) -> dict[str, SideWeights]:
        """Return the sides by what they are called."""
        words = {"instances": names.instances, "tasks": names.tasks}
        return {words[name]: side for name, side in self.sides.items()}

    def lines(self, names: SideNames) -> list[tuple[str, str]]:
        """Return what was learned as names and what they stand for."""
        found = [(f"{word} weigh", side.in_words) for word, side in self.named(names).items()]
        if len(self.stage_errors) > 1:
            errors = [
                f"{number(error)}{' (kept)' if stage == self.n_stages else ''}"
                for stage, error in enumerate(self.stage_errors, 1)
            ]
            found.insert(0, ("error by stage", ", ".join(errors)))
        return [*found, ("pairs", self.shares_in_words(names))] if self.shares is not None else found

    def shares_in_words(self, names: SideNames) -> str:
        """Return what the kernel between pairs is made of."""
        assert self.shares is not None
        return (
            f"{percent(self.shares['product'])} product of both kernels, {percent(self.shares['instances'])} functions "
            f"of the {names.instances} for each {names.task}, {percent(self.shares['tasks'])} functions of the "
            f"{names.tasks} for each {names.instance}"
        )

    def figures(self) -> dict[str, Any]:
        """Return all of it as plain values, for machines."""
        return {
            "weights": {name: side.weights for name, side in self.sides.items()},
            "exponents": {name: side.exponents for name, side in self.sides.items()},
            "shares": self.shares,
            "stage_errors": self.stage_errors,
        }


def weights_of_model(model: Any) -> Weights | None:
    """Return what a fitted model has learned of its kernels; None for one whose kernels are as they were given.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    Weights or None

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import LearnedKernelRidge
    >>> rng = np.random.default_rng(0)
    >>> X, noise, T = rng.normal(size=(30, 2)), rng.normal(size=(30, 5)), rng.normal(size=(20, 2))
    >>> model = LearnedKernelRidge(setting="B", n_steps=20)
    >>> model.fit({"noise": noise, "signal": X}, np.sin(2 * X) @ np.cos(T).T, tasks=T).n_stages_
    1
    >>> list(weights_of_model(model).sides["instances"].weights)
    ['signal', 'noise', 'constant']
    """
    if not hasattr(model, "weights_"):
        return None
    exponents = model.exponents_
    sides = {name: _sorted(weights, exponents[name]) for name, weights in model.weights_.items()}
    shares = None
    if model.shares_ is not None:
        # The model has kernels in units of their constants, which are brought to a sum of weights of one here.
        own, others = (side.weights.get(CONSTANT, 1.0) for side in sides.values())
        units = {"product": own * others, "instances": own, "tasks": others}
        shares = {name: share / unit for (name, unit), share in zip(units.items(), model.shares_, strict=True)}
    return Weights(sides, shares, list(model.stage_errors_), model.n_stages_)


def percent(share: float) -> str:
    """Return a share in words, with no more digits than mean something."""
    return f"{100 * share:.0f} %" if share >= 0.0095 else "below 1 %"


def _sorted(weights: dict[str, float], exponents: dict[str, float]) -> SideWeights:
    order = sorted(weights, key=lambda name: (name == CONSTANT, -weights[name]))
    return SideWeights(
        {name: weights[name] for name in order}, {name: exponents[name] for name in order if name in exponents}
    )
