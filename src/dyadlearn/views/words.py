"""Kernels and sides in words."""

from __future__ import annotations

from typing import Any

from dyadlearn.sides import SideNames

__all__ = ["kernel_words", "told_apart"]


def kernel_words(spec: Any) -> str:
    """Return a kernel with its parameters, of anything that has both.

    Examples
    --------
    >>> from dyadlearn.models._side import KernelSpec
    >>> from dyadlearn.views.words import kernel_words
    >>> kernel_words(KernelSpec("rbf", {"gamma": 1 / 3}, "warn"))
    'rbf (gamma=0.3333)'
    """
    word = spec.kernel if isinstance(spec.kernel, str) else getattr(spec.kernel, "__name__", type(spec.kernel).__name__)
    values = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in (spec.params or {}).items()}
    params = ", ".join(f"{key}={value}" for key, value in values.items())
    return f"{word} ({params})" if params else word


def told_apart(names: SideNames) -> SideNames:
    """Return names of two sides that differ, as those of a network do not.

    Examples
    --------
    >>> from dyadlearn.sides import SideNames
    >>> from dyadlearn.views.words import told_apart
    >>> tuple(told_apart(SideNames("node", "node"))), tuple(told_apart(SideNames("host", "parasite")))
    (('first node', 'second node'), ('host', 'parasite'))
    """
    return SideNames(f"first {names.instance}", f"second {names.task}") if names.instance == names.task else names
