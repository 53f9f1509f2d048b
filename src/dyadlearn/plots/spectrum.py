"""The eigenvalues of both sides, and how much of each the filter lets through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_alpha, check_matrix
from dyadlearn._tables import read_table
from dyadlearn.exceptions import KernelError
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.models._inputs import checked_filter
from dyadlearn.plots._canvas import COLOURS, fitted_model, matplotlib, new_axes, tidy
from dyadlearn.spectrum import Spectrum

__all__ = ["SideSpectrum", "SpectrumDisplay"]


@dataclass(frozen=True, eq=False)
class SideSpectrum:
    r"""The eigenvalues of a kernel under a filter.

    Attributes
    ----------
    values : array of shape (k,)
        Eigenvalues :math:`\sigma` in descending order; those that are left out are zero.
    shrinkage : array of shape (k,) or None
        The filter :math:`f(\sigma)`, from 1 (kept) to 0 (suppressed); None where the kernel is not filtered by itself.
    n_rows : int
        Size of the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.plots import SideSpectrum
    >>> SideSpectrum(np.array([3.0, 1.0]), np.array([0.75, 0.5]), n_rows=2).effective_dimension
    1.25
    """

    values: np.ndarray
    shrinkage: np.ndarray | None
    n_rows: int

    @property
    def rank(self) -> int:
        """Number of eigenvalues that are not zero."""
        return int(np.count_nonzero(self.values > 0))

    @property
    def effective_dimension(self) -> float:
        r"""How many directions are kept in all, :math:`\sum_i f(\sigma_i)`."""
        return float("nan") if self.shrinkage is None else float(self.shrinkage.sum())


@dataclass(eq=False, repr=False)
class SpectrumDisplay:
    r"""Eigenvalues of instances and tasks, with the filter and the effective dimension that it leaves.

    The effective dimension counts the directions that a model uses, each as far as the filter lets it through,

    .. math:: \sum_i f(\sigma_i), \qquad \text{for ridge regression} \quad f(\sigma) = \frac{\sigma}{\sigma+\lambda}.

    Kronecker ridge regression filters the products :math:`\sigma_i s_j` of the eigenvalues of both sides, which are
    drawn as those of the pairs. Both axes are logarithmic; eigenvalues of zero are not drawn. Make a Display with
    `from_estimator` or `from_kernel`.

    Attributes
    ----------
    sides : dict of str to SideSpectrum
        ``"instances"`` and ``"tasks"``, for Kronecker ridge regression ``"pairs"`` as well, for a network ``"nodes"``.
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

    sides: Mapping[str, SideSpectrum]
    ax_: Any = field(init=False)
    filter_ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    lines_: dict[str, Any] = field(init=False)
    filter_lines_: dict[str, Any] = field(init=False)

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> Self:
        """Draw the spectra of a fitted model under its own regularisation.

        Parameters
        ----------
        model : fitted estimator
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        SpectrumDisplay
        """
        problem = fitted_model(model, "use SpectrumDisplay.from_kernel")._problem()
        spectrum, tasks = problem.spectrum, problem.task_spectrum
        if problem.method == "network" or tasks is None:
            name = "instances" if tasks is None else "nodes"
            return cls({name: _side(spectrum, problem.filter, problem.alpha)}).plot(ax)
        if problem.method != "kronecker":
            rows = _side(spectrum, problem.filter, problem.alpha)
            return cls({"instances": rows, "tasks": _side(tasks, problem.task_filter, problem.task_alpha)}).plot(ax)
        rows, columns = _side(spectrum), _side(tasks)
        products = np.outer(rows.values, columns.values).ravel()
        products[::-1].sort()
        pairs = SideSpectrum(products, Tikhonov().shrinkage(products, problem.alpha), spectrum.n_rows * tasks.n_rows)
        return cls({"instances": rows, "tasks": columns, "pairs": pairs}).plot(ax)

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
        alpha, chosen = check_alpha(alpha, "alpha"), checked_filter(filter, "filter")
        kernel = check_matrix(read_table(K, "K").values, "K")
        if kernel.shape[0] != kernel.shape[1]:
            raise KernelError(f"K must be a square matrix, found shape {tuple(kernel.shape)}.")
        return cls({name: _side(Spectrum.from_gram(kernel, name="K"), chosen, alpha)}).plot(ax)

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
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure
        self.filter_ax_ = self.ax_.twinx()
        self.lines_, self.filter_lines_ = {}, {}
        for index, (name, side) in enumerate(self.sides.items()):
            ranks = np.arange(1, side.rank + 1)
            colour = COLOURS[index % len(COLOURS)]
            (self.lines_[name],) = self.ax_.plot(
                ranks, side.values[: side.rank], color=colour, linewidth=2, label=_label(name, side)
            )
            if side.shrinkage is not None:
                (self.filter_lines_[name],) = self.filter_ax_.plot(
                    ranks, side.shrinkage[: side.rank], color=colour, linestyle="--", linewidth=1.3
                )
        self.ax_.set(xscale="log", yscale="log", xlabel="Rank of the eigenvalue", ylabel="Eigenvalue σ (solid)")
        self.ax_.xaxis.set_major_formatter(matplotlib("ticker").FuncFormatter(lambda rank, _: f"{rank:,g}"))
        self.filter_ax_.set(ylim=(-0.02, 1.02), ylabel="Filter f(σ) (dashed)")
        tidy(self.ax_)
        self.filter_ax_.spines["top"].set_visible(False)
        # Above the axes, for on them no corner is surely free.
        self.ax_.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize="small")
        return self


def _side(spectrum: Spectrum, filter: SpectralFilter | None = None, alpha: float = float("nan")) -> SideSpectrum:
    values = np.sort(to_numpy(spectrum.values).astype(np.float64))[::-1]
    # With a regularisation for each task there is no single filter.
    shrinkage = None if filter is None or np.isnan(alpha) else filter.shrinkage(values, alpha)
    return SideSpectrum(values, shrinkage, spectrum.n_rows)


def _label(name: str, side: SideSpectrum) -> str:
    size = f"{side.n_rows:,}" if side.rank == side.n_rows else f"{side.n_rows:,}, rank {side.rank:,}"
    kept = "" if side.shrinkage is None else f", effective dimension {side.effective_dimension:,.1f}"
    return f"{name}: {size}{kept}"
