"""The grid of labels as a picture, and how many labels instances and tasks have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_choice
from dyadlearn._tables import Ids, Table
from dyadlearn.labels import read_labels
from dyadlearn.plots._canvas import COLOURS, FAINT, fitted_model, matplotlib, new_axes, side_words, tidy

__all__ = ["GridDisplay"]

# Clustering compares all pairs of rows: beyond this it takes too long for a picture.
_MAX_CLUSTERED = 5000
# So many ids can be read beside the picture.
_MAX_IDS = 40
_NEGATIVE, _POSITIVE, _MISSING = "#F0F0F0", "#08306B", "#E69F00"
# Beside all colours of a scale only grey is another one.
_MISSING_AMONG_COLOURS = "0.8"


@dataclass(eq=False, repr=False)
class GridDisplay:
    r"""The labels of instances × tasks, those that are not observed in a colour of their own.

    A grid larger than `max_pixels` on a side is drawn in blocks, each with the mean of its observed labels, and the
    title says so. The degree of an instance or task is the number of its positive labels if all labels are of two
    values, else the number of its observed ones. Make a Display with `from_estimator` or `from_labels`.

    Attributes
    ----------
    values : array of shape (m, q)
        Labels in the order they are drawn; NaN where not observed.
    instance_order, task_order : arrays of shape (m,) and (q,)
        Where these rows and columns stood before.
    instance_ids, task_ids : Ids or None
        In the order they are drawn.
    ax_, figure_ : matplotlib axes and figure
        After `plot`, as are those below.
    image_ : AxesImage or None
    block_ : (int, int) or None
        How many instances and tasks make one pixel.
    lines_ : list of lines
        The distributions of degrees.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.plots import GridDisplay
    >>> from matplotlib.figure import Figure
    >>> Y = np.array([[0, 0, 1], [1, np.nan, 1]])
    >>> display = GridDisplay.from_labels(Y, order="degree", ax=Figure().subplots())
    >>> display.values
    array([[ 1.,  1., nan],
           [ 1.,  0.,  0.]])
    >>> display.degrees()
    (array([2, 1]), array([2, 1, 0]))
    """

    values: np.ndarray
    instance_order: np.ndarray
    task_order: np.ndarray
    instance_ids: Ids | None = None
    task_ids: Ids | None = None
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    image_: Any = field(init=False)
    block_: tuple[int, int] | None = field(init=False)
    lines_: list[Any] = field(init=False)

    @classmethod
    def from_estimator(
        cls, model: Any, *, order: str = "given", kind: str = "grid", max_pixels: int = 1000, ax: Any = None
    ) -> Self:
        """Draw the labels that a model was fitted on.

        Parameters
        ----------
        model : fitted estimator
        order, kind, max_pixels, ax
            As in `from_labels`.

        Returns
        -------
        GridDisplay
        """
        grid = fitted_model(model, "use GridDisplay.from_labels")._grid
        return cls._made(grid, order).plot(ax, kind=kind, max_pixels=max_pixels)

    @classmethod
    def from_labels(
        cls, Y: Any, *, order: str = "given", kind: str = "grid", max_pixels: int = 1000, ax: Any = None
    ) -> Self:
        """Draw a grid of labels or of predictions.

        Parameters
        ----------
        Y : array or frame of shape (m, q)
            NaN where not observed.
        order : {"given", "degree", "clustered"}, default="given"
            Whether to draw instances and tasks as they come, those of the highest degree first, or similar ones beside
            each other (by Ward's method).
        kind : {"grid", "degrees"}, default="grid"
            The picture of the grid, or the distributions of the degrees of instances and tasks.
        max_pixels : int, default=1000
            The largest number of pixels on a side.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        GridDisplay
        """
        return cls._made(read_labels(Y), order).plot(ax, kind=kind, max_pixels=max_pixels)

    @classmethod
    def _made(cls, grid: Table, order: str) -> Self:
        values = to_numpy(grid.values).astype(np.float64)
        check_choice(order, "order", ("given", "degree", "clustered"))
        if np.isinf(values).any():
            raise ValueError("Y contains infinity: labels are finite, or NaN where they are not observed.")
        if order == "given":
            rows, columns = (np.arange(length) for length in values.shape)
        elif order == "degree":
            rows, columns = _by_degree(values), _by_degree(values.T)
        else:
            rows, columns = _by_cluster(values, "instances"), _by_cluster(values.T, "tasks")
        ids = (_taken(grid.row_ids, rows), _taken(grid.column_ids, columns))
        return cls(values[np.ix_(rows, columns)], rows, columns, *ids)

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the degrees of instances (m,) and tasks (q,) in the order they are drawn."""
        counted = _counted(self.values)
        return counted.sum(axis=1), counted.sum(axis=0)

    def plot(self, ax: Any = None, *, kind: str = "grid", max_pixels: int = 1000, cmap: str = "viridis") -> Self:
        """Draw the grid, or the distributions of degrees.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        kind : {"grid", "degrees"}, default="grid"
        max_pixels : int, default=1000
            The largest number of pixels on a side.
        cmap : str, default="viridis"
            Colours of labels of more than two values.

        Returns
        -------
        self
        """
        check_choice(kind, "kind", ("grid", "degrees"))
        if max_pixels < 1:
            raise ValueError(f"max_pixels must be at least 1, found {max_pixels}.")
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure
        self.image_, self.block_, self.lines_ = None, None, []
        if kind == "grid":
            self._draw_grid(max_pixels, cmap)
        else:
            self._draw_degrees()
        return self

    def _draw_grid(self, max_pixels: int, cmap: str) -> None:
        m, q = self.values.shape
        height, width = -(-m // max_pixels), -(-q // max_pixels)
        title = f"{m:,} instances × {q:,} tasks"
        if height * width > 1:
            self.block_ = (height, width)
            title += f"\na pixel is the mean of {height} × {width} labels"
        patches = self._draw_pixels(height, width, cmap)
        if patches:
            look = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False, "fontsize": "small"}
            self.ax_.legend(handles=patches, ncols=len(patches), **look)
        # The legend stands between the grid and its title: ids may take all the room below.
        self.ax_.set_title(title, fontsize="medium", pad=24 if patches else 6)
        self.ax_.set(xlabel=side_words("tasks", self.task_ids), ylabel=side_words("instances", self.instance_ids))
        self.ax_.set(xlim=(-0.5, q - 0.5), ylim=(m - 0.5, -0.5))
        _show_ids(self.ax_.yaxis, self.instance_ids)
        _show_ids(self.ax_.xaxis, self.task_ids)

    def _draw_pixels(self, height: int, width: int, cmap: str) -> list[Any]:
        """Draw blocks of labels with a scale, and return what stands in the legend."""
        colours, patch = matplotlib("colors"), matplotlib("patches").Patch
        distinct = np.unique(self.values[~np.isnan(self.values)])
        pixels, label, patches, missing = self.values, "label", [], _MISSING
        if distinct.size <= 2 and self.block_ is None:
            chosen = [_NEGATIVE, _POSITIVE][: max(1, distinct.size)]
            colour_map = colours.ListedColormap(chosen)
            patches = [
                patch(facecolor=colour, edgecolor=FAINT, label=f"label {value:.4g}")
                for colour, value in zip(chosen, distinct, strict=False)
            ]
        elif distinct.size == 2:
            colour_map = colours.LinearSegmentedColormap.from_list("share", [_NEGATIVE, _POSITIVE])
            label = f"share of label {distinct[1]:.4g}"
            pixels = np.where(np.isnan(pixels), np.nan, pixels == distinct[1])
        else:
            colour_map, missing = matplotlib().get_cmap(cmap), _MISSING_AMONG_COLOURS
        if self.block_ is not None:
            pixels = _block_means(pixels, height, width)
        self.image_ = self.ax_.imshow(
            np.ma.masked_invalid(pixels),
            cmap=colour_map.with_extremes(bad=missing),
            aspect="auto",
            extent=(-0.5, pixels.shape[1] * width - 0.5, pixels.shape[0] * height - 0.5, -0.5),
        )
        if not patches and distinct.size:
            self.figure_.colorbar(self.image_, ax=self.ax_, label=label)
        n_missing = int(np.isnan(self.values).sum())
        if n_missing:
            share = 100 * n_missing / self.values.size
            patches.append(patch(facecolor=missing, edgecolor=FAINT, label=f"not observed ({share:.3g} %)"))
        return patches

    def _draw_degrees(self) -> None:
        counted = "positive" if _is_binary(self.values) else "observed"
        for index, (name, degrees) in enumerate(zip(("instances", "tasks"), self.degrees(), strict=True)):
            levels, count = np.unique(degrees, return_counts=True)
            at_least = np.cumsum(count[::-1])[::-1] / degrees.size
            label = f"{degrees.size:,} {name}: median {np.median(degrees):g}, most {degrees.max():,}"
            self.lines_ += self.ax_.plot(
                [0, *levels, levels[-1]],
                [1, *at_least, 0],
                color=COLOURS[index],
                linestyle=("-", "--")[index],
                drawstyle="steps-pre",
                linewidth=1.8,
                label=label,
            )
        self.ax_.set(xlabel=f"Degree k ({counted} labels)", ylabel="Share with degree k or more", ylim=(0, 1.03))
        self.ax_.set_title("Degrees", fontsize="medium")
        tidy(self.ax_)
        self.ax_.legend(fontsize="small")


def _taken(ids: Ids | None, order: np.ndarray) -> Ids | None:
    return None if ids is None else replace(ids, labels=tuple(ids.labels[place] for place in order))


def _is_binary(values: np.ndarray) -> bool:
    return np.unique(values[~np.isnan(values)]).size == 2


def _counted(values: np.ndarray) -> np.ndarray:
    """Tell which cells a degree counts."""
    return np.asarray(values == np.nanmax(values) if _is_binary(values) else ~np.isnan(values))


def _by_degree(values: np.ndarray) -> np.ndarray:
    """Return the order of rows by degree, highest first; equal ones by their mean label."""
    observed = ~np.isnan(values)
    mean = np.where(observed, values, 0.0).sum(axis=1) / np.maximum(observed.sum(axis=1), 1)
    return np.lexsort((-mean, -_counted(values).sum(axis=1)))


def _by_cluster(values: np.ndarray, side: str) -> np.ndarray:
    """Return the order of rows as the leaves of a tree of clusters; a missing label is the mean of its column."""
    n_rows = len(values)
    if n_rows > _MAX_CLUSTERED:
        raise ValueError(
            f'order="clustered" compares all pairs of {side}, at most {_MAX_CLUSTERED:,} of them, found {n_rows:,}: '
            'use order="degree".'
        )
    if n_rows < 3:
        return np.arange(n_rows)
    observed = ~np.isnan(values)
    mean = np.where(observed, values, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    return np.asarray(leaves_list(linkage(np.where(observed, values, mean), method="ward")))


def _block_means(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the mean of the observed labels in each block, NaN where there is none."""
    observed = ~np.isnan(values)
    starts = [np.arange(0, length, step) for length, step in zip(values.shape, (height, width), strict=True)]

    def sums(cells: np.ndarray) -> np.ndarray:
        return np.asarray(np.add.reduceat(np.add.reduceat(cells, starts[0], axis=0), starts[1], axis=1))

    total, count = sums(np.where(observed, values, 0.0)), sums(observed.astype(np.float64))
    return np.asarray(np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0))


def _show_ids(axis: Any, ids: Ids | None) -> None:
    """Write the ids beside the picture where they can be read, else where whole positions are."""
    if ids is None or len(ids) > _MAX_IDS:
        axis.set_major_locator(matplotlib("ticker").MaxNLocator(nbins=6, integer=True))
        return
    axis.set_ticks(range(len(ids)), [str(label) for label in ids.labels])
    axis.set_tick_params(labelsize="small" if len(ids) <= 20 else "xx-small")
    if axis.axis_name == "x" and max(len(str(label)) for label in ids.labels) > 2:
        axis.set_tick_params(rotation=90)
