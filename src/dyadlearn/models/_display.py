"""What a notebook shows of an estimator: scikit-learn's diagram and, once it is fitted, what was learnt above it.

What was learnt is told by rooms above this one: whoever can tell it says so by `tell_with`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

__all__ = ["Displayed", "tell_with"]

# What makes markup of a fitted estimator, with its parameters as markup in it.
_tellers: list[Callable[[Any, str], str]] = []


def tell_with(teller: Callable[[Any, str], str]) -> None:
    """Let all estimators be shown by a function of a fitted one and of scikit-learn's diagram, both as markup."""
    _tellers[:] = [teller]


class Displayed:
    """A mix-in before scikit-learn's `BaseEstimator`, whose diagram it shows of an estimator that is not fitted.

    Whether there is anything but text to show is scikit-learn's to say, by its option ``display``.
    """

    def _own_facts(self) -> list[tuple[str, str]]:
        """Return what a fitted estimator says of itself, in words, beside what is said of all models of pairs."""
        return []

    def _repr_html_inner(self) -> str:
        return self._with_what_was_learnt(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._with_what_was_learnt(bundle["text/html"])
        return bundle

    def _with_what_was_learnt(self, diagram: str) -> str:
        try:
            check_is_fitted(self)
            return _tellers[0](self, diagram)
        except NotFittedError:
            return diagram
        except Exception:  # whatever it is, a cell of a notebook that only names a model must not end in it
            return diagram
