"""The eigenvalues of both sides, and how much of each the filter lets through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from dyadlearn.filters import SpectralFilter
from dyadlearn.plots._canvas import COLOURS, Display, names_of, tidy
from dyadlearn.views.spectra import SideSpectrum, spectra_of_model, spectrum_of_kernel

__all__ = ["SpectrumDisplay"]


class SpectrumDisplay(Display):
    r"""Eigenvalues of instances and tasks, with the filter and the effective dimension that it leaves.

    The effective dimension counts the directions that a model uses, each as far as the filter lets it through,

    .. math:: \sum_i f(\sigma_i), \qquad \text{for ridge regression} \quad f(\sigma) = \frac{\sigma}{\sigma+\lambda}.

    A side with an intercept has the eigenvalues of its centred kernel drawn; beside them is one more direction, that of
    the constant, which is kept whole. A model that filters the kernel between pairs as a whole has the eigenvalues of
    that one drawn too, as those of the pairs: in Kronecker ridge regression the products :math:`\sigma_i s_j` of those
    of both sides. Both axes are logarithmic; eigenvalues of zero are not drawn. Make a Display with `from_estimator` or
    `from_kernel`.

    Attributes
    ----------
    sides : dict of str to SideSpectrum
        ``"instances"`` and ``"tasks"``, or ``"nodes"`` for a network; where a model filters neither side by itself, as
        Kronecker ridge regression does, ``"pairs"`` as well.
    ax_, filter_ax_ : matplotlib axes
        Of the eigenvalues, and of the filter on the right; after `plot`, as are those below.
    figure_ : matplotlib figure
    lines_, filter_lines_ : dict of str to line

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.plots import SpectrumDisplay
    >>> from matplotlib.figure import Figure
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> display = SpectrumDisplay.from_kernel(K, alpha=1.0, ax=Figure().subplots())
    >>> display.sides["kernel"].values, display.sides["kernel"].effective_dimension
    (array([3., 1.]), 1.25)
    """

    filter_ax_: Any
    lines_: dict[str, Any]
    filter_lines_: dict[str, Any]

    @property
    def sides(self) -> dict[str, SideSpectrum]:
        """The spectra that are drawn, by their names."""
        return self.view  # type: ignore[no-any-return]

    @classmethod
    def from_estimator(cls, model: Any, *, sides: Sequence[str] | None = None, ax: Any = None) -> Self:
        """Draw the spectra of a fitted model under its own regularisation.

        Parameters
        ----------
        model : fitted estimator
        sides : (str, str), default=None
            What an instance and a task are called, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        SpectrumDisplay
        """
        view = spectra_of_model(model, "use SpectrumDisplay.from_kernel")
        return cls(view, names_of(sides, model)).plot(ax)

    @classmethod
    def from_kernel(
        cls, K: Any, alpha: float, *, filter: SpectralFilter | None = None, name: str = "kernel", ax: Any = None
    ) -> Self:
        """Draw the spectrum of one kernel.

        Parameters
        ----------
        K : array or frame of shape (n, n)
            A kernel. If it is asymmetric or indefinite it is repaired as the models do it, with a warning.
        alpha : float
            The regularisation.
        filter : SpectralFilter, default=None
            None is `Tikhonov`, ridge regression.
        name : str, default="kernel"
            What the legend calls it.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        SpectrumDisplay
        """
        return cls({name: spectrum_of_kernel(K, alpha, filter)}).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw eigenvalues (left scale) and filter (right scale) over the rank of the eigenvalue.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self
        """
        empty = [name for name, side in self.sides.items() if side.rank == 0]
        if empty:
            raise ValueError(f"All eigenvalues of {empty[0]} are zero: there is nothing to draw.")
        self._open(ax)
        self.filter_ax_ = self.ax_.twinx()
        self.lines_, self.filter_lines_ = {}, {}
        for index, (name, side) in enumerate(self.sides.items()):
            ranks = np.arange(1, side.rank + 1)
            colour = COLOURS[index % len(COLOURS)]
            (self.lines_[name],) = self.ax_.plot(
                ranks, side.values[: side.rank], color=colour, linewidth=2, label=_label(self._words(name), side)
            )
            if side.shrinkage is not None:
                (self.filter_lines_[name],) = self.filter_ax_.plot(
                    ranks, side.shrinkage[: side.rank], color=colour, linestyle="--", linewidth=1.3
                )
        self.ax_.set(xscale="log", yscale="log", xlabel="Rank of the eigenvalue", ylabel="Eigenvalue σ (solid)")
        self.ax_.xaxis.set_major_formatter("{x:,g}")
        self.filter_ax_.set(ylim=(-0.02, 1.02), ylabel="Filter f(σ) (dashed)")
        tidy(self.ax_)
        self.filter_ax_.spines["top"].set_visible(False)
        # Above the axes, for on them no corner is surely free.
        self.ax_.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize="small")
        return self

    def _words(self, name: str) -> str:
        """Return what a side is called in the legend."""
        if self.names is None:
            return name
        own = {"instances": self.names.instances, "tasks": self.names.tasks, "nodes": self.names.instances}
        return own.get(name, name)


def _label(name: str, side: SideSpectrum) -> str:
    size = f"{side.n_rows:,}"
    if side.rank < side.n_rows - side.has_constant:
        size += f", rank {side.rank:,}"
    if side.has_constant:
        size += ", a constant"
    kept = "" if side.shrinkage is None else f", effective dimension {side.effective_dimension:,.1f}"
    return f"{name}: {size}{kept}"
