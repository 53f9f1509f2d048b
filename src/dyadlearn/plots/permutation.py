"""Permutation tests: the score of a model beside those of permuted labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from dyadlearn.diagnostics.permutation import PermutationTest, permutation_test
from dyadlearn.plots._canvas import COLOURS, Display, matplotlib, tidy
from dyadlearn.settings import Setting, as_setting

__all__ = ["PermutationDisplay"]


class PermutationDisplay(Display):
    """A histogram of the scores of permuted labels, and the score of the labels themselves as a line.

    Make a Display with `from_result`, of what `dyadlearn.permutation_test` found, or with `from_estimator`.

    Attributes
    ----------
    score, p_value : float
    null : array of shape (n_permutations,)
    setting, permuted, scoring, method : str
        As in `dyadlearn.diagnostics.PermutationTest`.
    ax_, figure_ : matplotlib axes and figure
        After `plot`, as are those below.
    bars_ : BarContainer
        How many permutations have which score.
    line_ : line
        The score of the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.plots import PermutationDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 3)), rng.normal(size=(15, 2))
    >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(20, 15))
    >>> model = TwoStepRidge().fit(X, Y, tasks=T)
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> display = PermutationDisplay.from_estimator(model, "B", n_permutations=99, random_state=0, ax=ax)
    >>> display.line_.get_label()[-8:]
    'p = 0.01'
    """

    view: PermutationTest
    bars_: Any
    line_: Any

    @classmethod
    def from_result(cls, test: PermutationTest, *, ax: Any = None) -> Self:
        """Draw a test that was made.

        Parameters
        ----------
        test : PermutationTest
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        PermutationDisplay
        """
        if not isinstance(test, PermutationTest):
            raise TypeError(
                f"test must be a PermutationTest; for a model use from_estimator, found {type(test).__name__}."
            )
        return cls(test).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        setting: str | Setting,
        *,
        permute: str | None = None,
        n_permutations: int = 999,
        scoring: str | Callable[[Any, Any], float] | None = None,
        random_state: Any = None,
        progress: bool | None = None,
        ax: Any = None,
    ) -> Self:
        """Test a model, and draw it.

        Parameters
        ----------
        model, setting, permute, n_permutations, scoring, random_state, progress
            As in `dyadlearn.permutation_test`.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        PermutationDisplay
        """
        matplotlib()  # before the permutations, which take their time
        test = permutation_test(
            model,
            setting,
            permute=permute,
            n_permutations=n_permutations,
            scoring=scoring,
            random_state=random_state,
            progress=progress,
        )
        return cls(test).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the histogram and the line.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self
        """
        self._open(ax)
        test = self.view
        n_bins = max(5, min(40, round(2 * len(test) ** 0.5)))
        look = {"color": COLOURS[4], "edgecolor": "white", "linewidth": 0.4}
        self.bars_ = self.ax_.hist(test.null, bins=n_bins, label=f"{test.permuted} permuted", **look)[2]
        label = f"{test.scoring} {test.score:.4g}, p = {test.p_value:.3g}"
        self.line_ = self.ax_.axvline(test.score, color=COLOURS[1], linewidth=1.8, label=label)
        self.ax_.set(xlabel=test.scoring, ylabel="Permutations")
        self.ax_.set_title(as_setting(test.setting).in_words, fontsize="medium")
        tidy(self.ax_)
        self.ax_.legend(frameon=False, fontsize="small")
        return self
