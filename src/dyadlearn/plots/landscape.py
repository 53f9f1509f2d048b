"""The landscape of a regularisation: scores over one or two λ, with the point that was chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._checks import check_alphas
from dyadlearn.metrics import scorer
from dyadlearn.metrics.choice import best_point
from dyadlearn.plots._canvas import COLOURS, FAINT, matplotlib, new_axes, power_ticks, setting_words, tidy
from dyadlearn.selection._search import RidgeSearch, best_kernel, grid_of
from dyadlearn.settings import Setting, as_setting

__all__ = ["LandscapeDisplay"]


@dataclass(eq=False, repr=False)
class LandscapeDisplay:
    r"""Scores at every regularisation, with the best one marked.

    Two regularisations make a map of what is lost against the best score :math:`s(\hat\lambda_d, \hat\lambda_t)`,

    .. math:: s(\hat\lambda_d, \hat\lambda_t) - s(\lambda_d, \lambda_t),

    in steps that grow: near the best a few thousandths matter, far from it nothing does. One regularisation makes a
    line of scores, regularisations of each task make a line for each. Make a Display with `from_estimator` or
    `from_landscape`.

    Attributes
    ----------
    scores : array of shape (n_alphas, n_task_alphas) or (n_alphas,)
        Greater is better. With a regularisation for each task of shape (n_alphas, q).
    alphas : array of shape (n_alphas,)
    task_alphas : array of shape (n_task_alphas,) or None
    alpha : float, or array of shape (q,)
        The best value, or that of each task.
    task_alpha : float or None
    best_score : float
    setting : Setting or None
    scoring : str
        Name of the score.
    ax_, figure_ : matplotlib axes and figure
        After `plot`, as are those below.
    contour_ : QuadContourSet or None
        The map.
    lines_ : list of lines
        Of one regularisation.
    best_ : line
        The marker of the best point, in powers of ten.
    colorbar_ : Colorbar or None

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, landscape
    >>> from dyadlearn.plots import LandscapeDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + 6 * rng.normal(size=(20, 15))
    >>> scores = landscape(TwoStepRidge().fit(X, Y, tasks=T), settings="D")["D"]
    >>> from matplotlib.figure import Figure
    >>> display = LandscapeDisplay.from_landscape(scores, setting="D", ax=Figure().subplots())
    >>> display.alpha, display.task_alpha
    (1.0, 1.0)
    """

    scores: np.ndarray
    alphas: np.ndarray
    task_alphas: np.ndarray | None
    alpha: Any
    task_alpha: float | None
    best_score: float
    setting: Setting | None = None
    scoring: str = "score"
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    contour_: Any = field(init=False)
    lines_: list[Any] = field(init=False)
    best_: Any = field(init=False)
    colorbar_: Any = field(init=False)

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> Self:
        """Draw the landscape that a model has searched.

        Parameters
        ----------
        model : fitted TwoStepRidgeCV, KroneckerRidgeCV or IndependentTaskRidgeCV
            If it searched kernel parameters too, the landscape is that of the best ones.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        LandscapeDisplay
        """
        model = getattr(model, "model_", model)
        if not isinstance(model, RidgeSearch):
            raise TypeError(
                "model must be a TwoStepRidgeCV, KroneckerRidgeCV or IndependentTaskRidgeCV, found "
                f"{type(model).__name__}: for a model without search use LandscapeDisplay.from_landscape with what "
                "dyadlearn.landscape gives."
            )
        check_is_fitted(model)
        scores, per_task = model.landscape_, np.ndim(model.alpha_) == 1
        if scores.ndim > 2:
            scores = best_kernel(model)
        two = scores.ndim == 2 and not per_task
        display = cls(
            scores=scores,
            alphas=np.asarray(grid_of(model.alphas, "alphas")),
            task_alphas=np.asarray(grid_of(model.task_alphas, "task_alphas")) if two else None,
            alpha=model.alpha_,
            task_alpha=model.task_alpha_ if two else None,
            best_score=model.best_score_,
            setting=model._searched_setting,
            scoring=scorer(model.scoring).name,
        )
        return display.plot(ax)

    @classmethod
    def from_landscape(
        cls,
        scores: Any,
        alphas: Iterable[float] | None = None,
        task_alphas: Iterable[float] | None = None,
        *,
        setting: str | Setting | None = None,
        scoring: str | Callable[[Any, Any], float] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw scores, such as those of one setting that `dyadlearn.landscape` gives.

        Parameters
        ----------
        scores : array of shape (n_alphas, n_task_alphas) or (n_alphas,)
            NaN where there is none.
        alphas, task_alphas : iterables of float, default=None
            What was searched; None is 10⁻⁷ … 10⁶, as it is there.
        setting : str or Setting, default=None
            For the title.
        scoring : str or callable, default=None
            The same.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        LandscapeDisplay
        """
        if isinstance(scores, dict):
            raise TypeError(
                f"scores must be the array of one setting, found a dict: take one of its entries, {', '.join(scores)}."
            )
        values = np.asarray(scores, dtype=np.float64)
        rows = np.asarray(check_alphas(alphas, "alphas"))
        columns = np.asarray(check_alphas(task_alphas, "task_alphas")) if values.ndim == 2 else None
        expected = (len(rows),) if columns is None else (len(rows), len(columns))
        if values.shape != expected:
            found = "alphas" if columns is None else "alphas and task_alphas"
            raise ValueError(f"scores must have shape {expected} for these {found}, found shape {values.shape}.")
        if np.isnan(values).all():
            raise ValueError("scores are all NaN: there is no best one.")
        best = best_point(values, rows, columns)
        display = cls(
            scores=values,
            alphas=rows,
            task_alphas=columns,
            alpha=float(rows[best[0]]),
            task_alpha=None if columns is None else float(columns[best[1]]),
            best_score=float(values[best]),
            setting=None if setting is None else as_setting(setting),
            scoring="score" if scoring is None else scorer(scoring).name,
        )
        return display.plot(ax)

    def plot(self, ax: Any = None, *, levels: Iterable[float] | None = None, cmap: str = "viridis_r") -> Self:
        """Draw the landscape.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        levels : iterable of float, default=None
            Steps of the map, in terms of what is lost against the best; None chooses them.
        cmap : str, default="viridis_r"
            Colours of the map, from nothing to all that is lost.

        Returns
        -------
        self
        """
        # Zero has no logarithm: what stands there is left out, and the title says so.
        rows = _order(self.alphas)
        columns = None if self.task_alphas is None else _order(self.task_alphas)
        if min(len(rows), 2 if columns is None else len(columns)) == 0 or max(len(rows), len(columns or [])) < 2:
            raise ValueError("A landscape needs at least two regularisations above 0 to be drawn: search more values.")
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure
        self.contour_ = self.colorbar_ = None
        self.lines_ = []
        if columns is None:
            self._draw_lines(rows, self.alphas, self.scores[rows], self.alpha, "alpha")
        elif min(len(rows), len(columns)) == 1:
            scores = self.scores[np.ix_(rows, columns)].ravel()
            if len(columns) == 1:
                self._draw_lines(rows, self.alphas, scores, self.alpha, "alpha")
            else:
                self._draw_lines(columns, self.task_alphas, scores, self.task_alpha, "task_alpha")
        else:
            self._draw_map(rows, columns, levels, cmap)
        power_ticks(self.ax_.xaxis)
        self.ax_.set_title(self._title(), fontsize="medium")
        return self

    def _draw_map(self, rows: list[int], columns: list[int], levels: Iterable[float] | None, cmap: str) -> None:
        assert self.task_alphas is not None
        y, x = np.log10(self.alphas[rows]), np.log10(self.task_alphas[columns])
        loss = np.ma.masked_invalid(np.maximum(np.nanmax(self.scores) - self.scores[np.ix_(rows, columns)], 0.0))
        steps = _levels(loss.compressed()) if levels is None else sorted(levels)
        norm = matplotlib("colors").BoundaryNorm(steps, 256)
        self.contour_ = self.ax_.contourf(x, y, loss, steps, cmap=cmap, norm=norm, extend="neither")
        self.ax_.contour(x, y, loss, steps[1:-1], colors="black", linewidths=0.4, alpha=0.5)
        self.best_ = self._star(_power(self.task_alpha), _power(self.alpha), "white")
        self.ax_.set(xlabel="task_alpha", ylabel="alpha")
        power_ticks(self.ax_.yaxis)
        self.colorbar_ = self.figure_.colorbar(
            self.contour_, ax=self.ax_, label="lost against the best", ticks=steps, format="%g"
        )
        self.colorbar_.ax.invert_yaxis()

    def _draw_lines(self, order: list[int], alphas: Any, scores: np.ndarray, best: Any, name: str) -> None:
        powers = np.log10(alphas[order])
        tidy(self.ax_)
        self.ax_.set(xlabel=name, ylabel=self.scoring)
        if scores.ndim == 1:
            self.lines_ = self.ax_.plot(powers, scores, color=COLOURS[0], marker="o", markersize=3.5)
            self.best_ = self._star(_power(best), self.best_score, COLOURS[1])
            return
        self.lines_ = self.ax_.plot(
            powers, scores, color=FAINT, linewidth=0.8, alpha=min(1.0, max(0.25, 10 / scores.shape[1]))
        )
        self.lines_ += self.ax_.plot(powers, scores.mean(axis=1), color=COLOURS[0], linewidth=2, label="mean of tasks")
        dots = {"linestyle": "", "marker": "o", "markersize": 4, "color": COLOURS[1], "label": "best of each task"}
        (self.best_,) = self.ax_.plot(_power(best), self.scores.max(axis=0), **dots)
        self.ax_.legend(frameon=False)

    def _star(self, x: Any, y: Any, colour: str) -> Any:
        # The best point lies on the edge of the map often enough, so that it is not clipped there.
        look = {"linestyle": "", "marker": "*", "markersize": 15, "color": colour, "markeredgecolor": "black"}
        return self.ax_.plot([x], [y], clip_on=False, zorder=5, **look)[0]

    def _title(self) -> str:
        first = "" if self.setting is None else f"{setting_words(self.setting)}, "
        if np.ndim(self.alpha) == 1:
            return f"{first}{self.scoring} {self.best_score:.4g}\nan alpha for each task"
        at = f"alpha {self.alpha:.3g}" + ("" if self.task_alpha is None else f", task_alpha {self.task_alpha:.3g}")
        zero = [name for name in ("alpha", "task_alpha") if _has_zero(getattr(self, f"{name}s"))]
        note = f" ({' and '.join(zero)} 0 not drawn)" if zero else ""
        return f"{first}best {self.scoring} {self.best_score:.4g}\nat {at}{note}"


def _order(alphas: np.ndarray) -> list[int]:
    """Return where the distinct values above 0 stand, in ascending order."""
    values, first = np.unique(alphas, return_index=True)
    return [int(place) for value, place in zip(values, first, strict=True) if value > 0]


def _has_zero(alphas: np.ndarray | None) -> bool:
    return alphas is not None and bool((alphas == 0).any())


def _power(alpha: Any) -> Any:
    """Return the power of ten of regularisations, NaN for 0."""
    values = np.asarray(alpha, dtype=np.float64)
    return np.log10(np.where(values > 0, values, np.nan))


def _levels(loss: np.ndarray) -> list[float]:
    """Return steps from 0 to the largest loss: 1, 2, 5, 10, … below the usual loss, 10 and 100 times it, all beyond."""
    highest = float(loss.max())
    if highest == 0:
        return [0.0, 1.0]
    usual = float(np.median(loss[loss > 0]))
    powers = range(math.floor(math.log10(usual)) - 3, math.ceil(math.log10(highest)) + 1)
    steps = [
        float(f"{digit}e{power}") for power in powers for digit in ((1, 2, 5) if 10.0**power < 5 * usual else (1,))
    ]
    # Steps much below the second best of all points would be drawn by interpolation alone.
    lowest = max(3e-3 * usual, 0.3 * float(np.quantile(loss[loss > 0], 0.01)))
    inside = [step for step in steps if lowest <= step < min(highest, 200 * usual)]
    return [0.0, *inside, next(step for step in steps if step >= highest)]
