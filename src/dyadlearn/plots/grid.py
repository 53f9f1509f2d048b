"""The grid of labels as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from dyadlearn._tables import Ids
from dyadlearn.labels import read_labels
from dyadlearn.plots._canvas import FAINT, Display, matplotlib
from dyadlearn.views.grid import GridView, Pixels, grid_of_labels, grid_of_model

__all__ = ["GridDisplay"]

# So many ids can be read beside the picture.
_MAX_IDS = 40
_NEGATIVE, _POSITIVE, _MISSING = "#F0F0F0", "#08306B", "#E69F00"
# Beside all colours of a scale only grey is another one.
_MISSING_AMONG_COLOURS = "0.8"


class GridDisplay(Display):
    r"""The labels of instances × tasks, those that are not observed in a colour of their own.

    A grid larger than `max_pixels` on a side is drawn in blocks, each with the mean of its observed labels, and the
    title says so. Where labels are of more than two values, the colours span all but 1 % of them at each end. The
    degree of an instance or task is the number of its positive labels if all labels are of two values, else the number
    of its observed ones. Make a Display with `from_estimator` or `from_labels`.

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
    image_ : AxesImage
    block_ : (int, int) or None
        How many instances and tasks make one pixel.

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

    view: GridView
    image_: Any
    block_: tuple[int, int] | None

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        order: str = "given",
        max_pixels: int = 1000,
        sides: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the labels that a model was fitted on.

        Parameters
        ----------
        model : fitted estimator
        order, max_pixels, sides, ax
            As in `from_labels`.

        Returns
        -------
        GridDisplay
        """
        grid = grid_of_model(model, order, "use GridDisplay.from_labels", sides=sides)
        return cls(grid, grid.names).plot(ax, max_pixels=max_pixels)

    @classmethod
    def from_labels(
        cls,
        Y: Any,
        *,
        order: str = "given",
        max_pixels: int = 1000,
        sides: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw a grid of labels or of predictions.

        Parameters
        ----------
        Y : array or frame of shape (m, q)
            NaN where not observed.
        order : {"given", "degree", "clustered"}, default="given"
            Whether to draw instances and tasks as they come, those of the highest degree first, or similar ones beside
            each other (by Ward's method).
        max_pixels : int, default=1000
            The largest number of pixels on a side.
        sides : (str, str), default=None
            What an instance and a task are called, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        GridDisplay
        """
        grid = grid_of_labels(read_labels(Y), order, sides=sides)
        return cls(grid, grid.names).plot(ax, max_pixels=max_pixels)

    def plot(self, ax: Any = None, *, max_pixels: int = 1000, cmap: str = "viridis") -> Self:
        """Draw the grid.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        max_pixels : int, default=1000
            The largest number of pixels on a side.
        cmap : str, default="viridis"
            Colours of labels of more than two values.

        Returns
        -------
        self
        """
        if max_pixels < 1:
            raise ValueError(f"max_pixels must be at least 1, found {max_pixels}.")
        self._open(ax)
        grid, pixels = self.view, self.view.pixels(max_pixels)
        m, q = grid.values.shape
        self.block_ = pixels.block if pixels.note else None
        patches = self._draw_pixels(pixels, cmap)
        if patches:
            look = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False, "fontsize": "small"}
            self.ax_.legend(handles=patches, ncols=len(patches), **look)
        # The legend stands between the grid and its title: ids may take all the room below.
        title = "\n".join(filter(None, [grid.size, pixels.note]))
        self.ax_.set_title(title, fontsize="medium", pad=24 if patches else 6)
        rows, columns = map(_with_name, grid.names.both, (grid.instance_ids, grid.task_ids))
        self.ax_.set(xlabel=columns, ylabel=rows)
        self.ax_.set(xlim=(-0.5, q - 0.5), ylim=(m - 0.5, -0.5))
        _show_ids(self.ax_.yaxis, grid.instance_ids)
        _show_ids(self.ax_.xaxis, grid.task_ids)
        return self

    def _draw_pixels(self, pixels: Pixels, cmap: str) -> list[Any]:
        """Draw blocks of labels with a scale, and return what stands in the legend."""
        colours, patch = matplotlib("colors"), matplotlib("patches").Patch
        grid, (rows, columns), (height, width) = self.view, pixels.values.shape, pixels.block
        distinct, label, patches, missing = grid.distinct, "label", [], _MISSING
        if distinct.size <= 2 and self.block_ is None:
            chosen = [_NEGATIVE, _POSITIVE][: max(1, distinct.size)]
            colour_map = colours.ListedColormap(chosen)
            patches = [
                patch(facecolor=colour, edgecolor=FAINT, label=f"label {value:.4g}")
                for colour, value in zip(chosen, distinct, strict=False)
            ]
        elif grid.is_binary:
            colour_map = colours.LinearSegmentedColormap.from_list("share", [_NEGATIVE, _POSITIVE])
            label = f"share of label {distinct[1]:.4g}"
        else:
            colour_map, missing = matplotlib().get_cmap(cmap), _MISSING_AMONG_COLOURS
        self.image_ = self.ax_.imshow(
            np.ma.masked_invalid(pixels.values),
            cmap=colour_map.with_extremes(bad=missing),
            vmin=pixels.ends[0],
            vmax=pixels.ends[1],
            aspect="auto",
            extent=(-0.5, columns * width - 0.5, rows * height - 0.5, -0.5),
        )
        if not patches and distinct.size:
            self.figure_.colorbar(self.image_, ax=self.ax_, label=label, extend="neither" if grid.is_binary else "both")
        if not grid.is_complete:
            share = 100 * (1 - grid.n_observed / grid.values.size)
            patches.append(patch(facecolor=missing, edgecolor=FAINT, label=f"not observed ({share:.3g} %)"))
        return patches


def _with_name(side: str, ids: Ids | None) -> str:
    """Return what one side is called, with the name that its ids have in a frame."""
    return side if ids is None or ids.name is None else f"{side} ({ids.name})"


def _show_ids(axis: Any, ids: Ids | None) -> None:
    """Write the ids beside the picture where they can be read, else where whole positions are."""
    if ids is None or len(ids) > _MAX_IDS:
        axis.set_major_locator(matplotlib("ticker").MaxNLocator(nbins=6, integer=True))
        return
    axis.set_ticks(range(len(ids)), [str(label) for label in ids.labels])
    axis.set_tick_params(labelsize="small" if len(ids) <= 20 else "xx-small")
    if axis.axis_name == "x" and max(len(str(label)) for label in ids.labels) > 2:
        axis.set_tick_params(rotation=90)
