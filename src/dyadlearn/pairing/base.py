r"""A model of pairs is an object: what it makes of two spectra.

With :math:`\mathbf{K} = \mathbf{U}\boldsymbol\Sigma\mathbf{U}^\top` and
:math:`\mathbf{G} = \mathbf{V}\mathbf{S}\mathbf{V}^\top`, each model weighs the rotated labels
:math:`\mathbf{U}^\top\mathbf{Y}\mathbf{V}` entry by entry, to get coefficients by :math:`\varphi`, the fitted grid by
:math:`f` and what is left over by :math:`1 - f`:

=================  =============================================================  ==================================
model              :math:`\varphi_{ij}`                                           :math:`1 - f_{ij}`
=================  =============================================================  ==================================
independent-task   :math:`\varphi_d(\sigma_i)`, no rotation of the tasks          :math:`1-f_d(\sigma_i)`
two-step, network  :math:`\varphi_d(\sigma_i)\,\varphi_t(s_j)`                    :math:`\rho_i + f_i\rho'_j`
pair kernels       :math:`1/(S_{ij} + \lambda)`                                    :math:`\lambda/(S_{ij}+\lambda)`
=================  =============================================================  ==================================

with :math:`S_{ij} = \sigma_i s_j` for Kronecker's, see `dyadlearn.pairing.pair_kernel`.

A model needs five members: `words`, `spectra`, `alphas`, `remainder` (what stays unexplained in the rotated labels) and
`coefficients`. All others have defaults, of which some are slow and which a model replaces where it knows better:

=====================  ===========================================================================================
`Model`                sides, regularisation and predictions
`Pairing`              what hold-out asks of a model, what it costs, and the slow reference
`Coupled`              grid operators (`dyadlearn.solve.operators`) from the remainder, for two sides
=====================  ===========================================================================================

No code outside of this package asks which model it has.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from dyadlearn._array import (
    Array,
    epsilon,
    largest,
    namespace,
    placed,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._memory import holdout_numbers
from dyadlearn._rounding import check_ridge, is_graded, solve_block
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.pairing.certainty import Jackknife
from dyadlearn.pairing.dense import DenseSide, fitted_without
from dyadlearn.pairing.expansion import Asked, Expansion, Folded, Part, weights_of_observed
from dyadlearn.pairing.leaving import Members, nothing_left, refuse, unit_codes
from dyadlearn.settings import Setting, check_groups
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.leaving import inverse_with_border, leave_set_out, leave_units_out
from dyadlearn.solve.missing import Completion, complete
from dyadlearn.solve.observed import complete_grid
from dyadlearn.solve.operators import rotated_block, rotated_product, rotation_cost
from dyadlearn.spectrum import Smoother, Spectrum, leverage_error, slack_floor
from dyadlearn.vectrick import sandwich

#: Positions among the regularisations of instances and of tasks, the setting, and predictions of shape (n, m, q).
Stack = tuple[slice | int, slice | int, Setting, Array]


@dataclass(frozen=True, eq=False)
class Sweep:
    """A model on complete labels, to be held out under each of some regularisations.

    Attributes
    ----------
    pairing : Pairing
    Y : array of shape (m, q)
    alphas, task_alphas : sequences of float
        The latter is one value, whatever it is, for a model with one regularisation.
    members, task_members : lists of integer arrays, or None
        Row positions of each group of instances and of tasks, used by the settings that leave them out.
    """

    pairing: Pairing
    Y: Array
    alphas: Sequence[float]
    task_alphas: Sequence[float]
    members: Members
    task_members: Members

    def _groups(self, setting: Setting) -> tuple[Members, Members]:
        """Return the groups that a setting leaves out."""
        return self.members if setting.new_instance else None, self.task_members if setting.new_task else None

    def check_memory(self, settings: Sequence[Setting], per_stack: int, *, squared: bool) -> None:
        """Refuse to score predictions that do not fit in memory; `squared` tells that squared errors are wanted."""
        grids, rotated = self.pairing.holdout_grids
        grids += 1 + 3 * len(settings)  # each setting has labels prepared for its scores
        for setting in settings:
            sizes = [rows.size for members in self._groups(setting) for rows in members or ()]
            need = holdout_numbers(
                self.Y.shape, self.pairing.ranks, (grids, rotated), largest_group=max(sizes, default=1)
            )
            refuse(need, self.Y, setting)

    def squared_errors(self, settings: Sequence[Setting], per_stack: int) -> dict[Setting, np.ndarray]:
        """Return mean squared errors (n, n_tasks) that need no predictions, of the settings that have them."""
        return {}

    def walk(self, settings: Sequence[Setting], per_stack: int) -> Iterator[Stack]:
        """Yield predictions for all regularisations, some together.

        Parameters
        ----------
        settings : sequence of Setting
        per_stack : int
            How many grids may be held at once.

        Yields
        ------
        rows, columns : slice or int
            Which regularisations.
        setting : Setting
        predictions : array of shape (n, m, q)
            The next one may overwrite it.
        """
        for setting in settings:
            for (row, alpha), (column, task_alpha) in product(enumerate(self.alphas), enumerate(self.task_alphas)):
                held_out = self.pairing.at(alpha, task_alpha).holdout(self.Y, setting, *self._groups(setting))
                yield slice(row, row + 1), column, setting, held_out[None, ...]


#: Where labels are missing, so many observed cells at most are left out one by one: for a single λ, and for one λ
#: after the other.
MANY_CELLS, FEW_CELLS = 4096, 1024

# A dense system of this many cells takes 128 MiB and about the time of a hundred iterations.
_DIRECT_CELLS = 4096

# Where alpha is 0: how much of the smallest eigenvalue may be rounding.
_UNSURE = 1e-4
# Where it is not: how much of what is divided by may be rounding.
_ROUNDED = 1e-3


class Model(ABC):
    """What a model of pairs is on its fitted sides, under some regularisation, and what it predicts."""

    #: Description for messages, and the names of its sides.
    words: ClassVar[str]
    side_names: ClassVar[tuple[str, ...]] = ("instances", "tasks")
    #: Whether it predicts for tasks that it never saw, so that settings C and D have a meaning.
    knows_tasks: ClassVar[bool] = True
    #: What kind of constant its sides have where there is an intercept, see `dyadlearn.spectrum`.
    constant: ClassVar[str] = "free"
    #: +1 or −1 where both sides are one node set and the labels equal plus or minus their transpose.
    symmetry: int = 0

    @property
    @abstractmethod
    def spectra(self) -> tuple[Spectrum, ...]:
        """Spectra of the sides."""

    @property
    @abstractmethod
    def alphas(self) -> dict[str, float]:
        """Regularisations by their names."""

    @property
    def smoothers(self) -> tuple[Smoother, ...]:
        """Operators of the sides; none where the filter does not work on each by itself."""
        return ()

    @property
    def knows_rows(self) -> bool:
        """Whether rows of training are known by themselves, beyond their kernel with each other."""
        return False

    @property
    def pair_spectrum(self) -> tuple[Array, ...]:
        """Eigenvalues of the kernel between pairs, and how much is kept of each; none where `smoothers` say it."""
        return ()

    def at(self, alpha: float, task_alpha: float | None = None) -> Self:
        """Return the same model under another regularisation; without `task_alpha`, that of the tasks stays."""
        given = {"alpha": alpha, "task_alpha": task_alpha}
        changed = {name: given[name] for name in self.alphas if given[name] is not None}
        return replace(self, **changed)  # type: ignore[type-var]

    @abstractmethod
    def coefficients(self, Y: Array) -> Array:
        """Return what predictions are made of, for labels (m, q).

        Null directions of a kernel are left out: every kernel row is zero along them.
        """

    @property
    def parts(self) -> tuple[Part, ...]:
        """How rows of each side multiply the coefficients."""
        return tuple(Folded(spectrum) for spectrum in self.spectra)

    def expansion(self, coefficients: Array) -> Expansion:
        """Return predictions for new rows from coefficients."""
        return Expansion(coefficients, *self.parts)

    @property
    def transposed(self) -> Pairing:
        """The same with tasks for instances, for models that know both."""
        raise NotImplementedError(f"{type(self).__name__} must define transposed: new tasks are its new instances.")


class Pairing(Model):
    """A model of pairs with what hold-out asks of it, most of it by default."""

    #: How it goes through many regularisations.
    sweep_type: ClassVar[type[Sweep]] = Sweep
    #: Whether it can be solved for observed pairs alone, see `dyadlearn.solve.observed`.
    takes_pairs: ClassVar[bool] = False

    # --- what hold-out means ------------------------------------------------------------------------

    @property
    def filters(self) -> tuple[SpectralFilter, ...]:
        """Spectral filters of the sides; none is ridge regression."""
        return tuple(side.filter for side in self.smoothers)

    @property
    def refits(self) -> bool:
        """Whether holding out equals fitting again, see `dyadlearn.filters.SpectralFilter.refits`."""
        return all(filter.refits for filter in self.filters)

    @property
    def is_product(self) -> bool:
        """Whether the pairwise kernel is the product of both sides' kernels."""
        return False

    @property
    def has_task_constants(self) -> bool:
        """Whether every task takes a constant from its own labels, so that one without them has no predictions: NaN."""
        return False

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that have a meaning."""
        return tuple(setting for setting in Setting if self.knows_tasks or not setting.new_task)

    def check_request(self, setting: Setting, groups: Any, task_groups: Any, cells: Any) -> None:
        """Refuse what a setting or this model has no meaning for."""
        if setting.new_task and not self.knows_tasks:
            raise ValueError(
                f"Setting {setting.value} leaves out tasks, but this model knows nothing of tasks: fit one that does, "
                "any but IndependentTaskRidge, with tasks=, or ask for setting A or B."
            )
        check_groups(setting, groups, task_groups, cells)

    def check_regularisation(self) -> None:
        """Raise if a regularisation vanishes beside the kernels, and warn where rounding is much beside it.

        Raises
        ------
        ValueError
            If alpha is above 0, but too small for the precision of the kernels to divide by.

        Warns
        -----
        PrecisionWarning
            If alpha is 0 and the smallest eigenvalue that is not taken for zero is mostly rounding, or if alpha is
            above 0 and rounding of the kernel changes what is divided by noticeably.
        """
        for word, name, alpha, scale, spectrum in self._regularised():
            size = largest(spectrum.values)
            check_ridge(name, alpha, scale * size, spectrum.values)
            share = spectrum.rounding(alpha / scale) if alpha > 0 and scale > 0 else 0.0
            if alpha == 0 and spectrum.uncertainty > _UNSURE:
                warnings.warn(
                    f"The {word} kernel is nearly singular: with {name}=0, results may have a relative error of "
                    f"{spectrum.uncertainty:.0e}. Use a larger {name}.",
                    PrecisionWarning,
                    stacklevel=3,
                )
            elif share > _ROUNDED:
                warnings.warn(
                    f"{name} = {alpha:g} is small beside the largest eigenvalue of the {word} kernel, {size:.3g}: with "
                    f"rounding of the kernel, results may have a relative error of {min(share, 1.0):.0e}. Use a larger "
                    f"{name}, or scale the features.",
                    PrecisionWarning,
                    stacklevel=3,
                )

    def _regularised(self) -> Iterator[tuple[str, str, float, float, Spectrum]]:
        """Yield for each side its word, its regularisation, what its eigenvalues are multiplied by, its spectrum."""
        for word, (name, alpha), spectrum in zip(("instance", "task"), self.alphas.items(), self.spectra, strict=False):
            yield word, name, alpha, 1.0, spectrum

    # --- complete labels ----------------------------------------------------------------------------

    @abstractmethod
    def dual(self, Y: Array) -> Array:
        """Return the dual parameters of the paper's linear system, null directions included, shape (m, q)."""

    @abstractmethod
    def holdout(self, Y: Array, setting: Setting, members: Members = None, task_members: Members = None) -> Array:
        """Return what the model predicts for each cell once what the setting leaves out was never seen.

        Parameters
        ----------
        Y : array of shape (m, q)
        setting : Setting
        members, task_members : lists of integer arrays, or None
            Row positions of each group of instances and of tasks, in the settings that leave them out.

        Returns
        -------
        array of shape (m, q)

        Raises
        ------
        LeverageError
            If something is fitted exactly whatever its labels, so that nothing else predicts it.
        """

    def jackknife(self, Y: Array, members: Members = None) -> Jackknife | None:
        """Return the models of complete labels that each did without some instances, where they can be had."""
        return None

    def for_new_rows(self, axes: tuple[np.ndarray, np.ndarray] | None, completed: Array) -> Expansion:
        """Return what the model of a fold that some instances have left says of new instances.

        Parameters
        ----------
        axes : (integer array, integer array) or None
            The rows and columns that stayed, for a model that takes others apart.
        completed : array
            Labels of the fold, completed.
        """
        return self.expansion(self.coefficients(completed))

    @abstractmethod
    def cell_slack(self) -> Array:
        """Return how much of each label is left over where all others say nothing, shape (m, q) or (m, 1)."""

    @property
    def side_ridges(self) -> tuple[float, ...]:
        """The ridge beside the kernel of each of the `spectra`, which says how far apart rows are."""
        ridges = tuple(self.alphas.values())
        return (*ridges, *ridges)[: len(self.spectra)]

    def holdout_stack(
        self, stack: Array, setting: Setting, members: Members = None, task_members: Members = None
    ) -> Array:
        """Return what `holdout` does for each grid of a stack (n, m, q) of labels, shape (n, m, q).

        What depends on the sides alone is shared by all of them, where the model knows how.
        """
        held_out = zeros(tuple(stack.shape), stack)
        for place in range(stack.shape[0]):
            held_out[place, ...] = self.holdout(stack[place, ...], setting, members, task_members)
        return held_out

    def decomposes(self, setting: Setting) -> bool:
        """Tell whether holding out decomposes a side again for each row that leaves, whatever the labels."""
        return False

    @abstractmethod
    def leave_cells_out(self, Y: Array) -> Array:
        """Return a complete grid from one with some cells missing, as exactly as those allow."""

    def sweep(
        self,
        Y: Array,
        alphas: Sequence[float],
        task_alphas: Sequence[float],
        members: Members = None,
        task_members: Members = None,
    ) -> Sweep:
        """Return hold-out predictions under each of some regularisations, see `dyadlearn.pairing.base.Sweep`."""
        return self.sweep_type(self, Y, alphas, task_alphas, members, task_members)

    # --- missing or weighted labels -----------------------------------------------------------------

    def complete(
        self,
        Y: Array,
        weights: Array | None = None,
        start: Completion | None = None,
        *,
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> Completion:
        """Complete labels, so that the closed form on them is the model of those observed.

        A warning says where a solver stopped short.

        Parameters
        ----------
        Y : array of shape (m, q)
            NaN where not observed.
        weights : array of shape (m, q), default=None
            Of the squared loss of each observed cell, positive there.
        start : Completion, default=None
            Of a problem nearby.
        tol, max_iter : float and int
            When conjugate gradients stop.
        """
        found = self._completed(Y, weights, start, tol, max_iter)
        warn_unless_converged(found.solution, tol, stacklevel=3)
        return found

    @abstractmethod
    def _completed(
        self, Y: Array, weights: Array | None, start: Completion | None, tol: float, max_iter: int
    ) -> Completion: ...

    @abstractmethod
    def label_weights(
        self, row: Asked, column: Asked, Y: Array, weights: Array | None, *, tol: float = 1e-8, max_iter: int = 1000
    ) -> Array:
        """Return how much each label weighs in the prediction for one pair, zero where none is observed.

        Parameters
        ----------
        row, column : int or NewRows
            The instance and the task: a position in training, or one new row.
        Y, weights, tol, max_iter : as in `complete`

        Returns
        -------
        array of shape (m, q)
        """

    def has_shortcut(self, Y: Array, weights: Array | None, setting: Setting) -> bool:
        """Tell whether leave-one-out needs no solving again though labels are missing, at little cost."""
        return False

    def leave_one_out(
        self, Y: Array, weights: Array | None, setting: Setting, completed: Callable[[], Array]
    ) -> Array | None:
        """Return what `has_shortcut` promises, where it can be had at all.

        Parameters
        ----------
        Y, weights : as in `complete`
        setting : Setting
        completed : callable
            Returns the labels, completed, shape (m, q).

        Returns
        -------
        array of shape (m, q), or None
            Cells that are not observed get a prediction too.
        """
        return None

    def takes_apart(self, setting: Setting) -> bool:
        """Tell whether rows are taken out of the grid, kernel and all, where hiding their labels is not the same."""
        return False

    def part(self, axes: tuple[np.ndarray, np.ndarray], spectra: Any, sides: Any = None) -> Pairing:
        """Return the model of some rows and columns, for those that take others apart."""
        raise NotImplementedError

    def outside(self, axes: tuple[np.ndarray, np.ndarray], completed: Array) -> Array:
        """Return, as a grid (m, q), what a completed part says of the rows and columns that left it."""
        raise NotImplementedError

    def without_unlabelled(self, rows: np.ndarray, columns: np.ndarray) -> Self | None:
        """Return the model of the rows and columns that have labels, where the others say nothing."""
        return None

    def beside_labelled(
        self, Y: Array, setting: Setting, whole: Self, rows: np.ndarray, columns: np.ndarray
    ) -> list[tuple[Array, np.ndarray, np.ndarray]]:
        """Return what held-out rows and columns of a labelled part get where nothing is labelled.

        Parameters
        ----------
        Y : array
            Labels of the part, which is this model's.
        setting : Setting
        whole : Pairing
            Of the grid around it.
        rows, columns : integer arrays
            Where the part lies.

        Returns
        -------
        list of (values, rows, columns)
        """
        return []

    # --- refit --------------------------------------------------------------------------------------

    def dense_sides(self, fixed_penalty: bool) -> list[DenseSide]:
        """Return the sides of the slow twin."""
        filters = self.filters or (Tikhonov(),) * len(self.spectra)
        sides = zip(self.spectra, filters, self.side_ridges, strict=True)
        return [DenseSide.of(*side, fixed_penalty) for side in sides]

    @abstractmethod
    def refit_block(
        self, sides: Sequence[DenseSide], Y: np.ndarray, kept: Sequence[np.ndarray], asked: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return what the slow twin, fitted on the kept rows and columns (masks), predicts for others.

        Parameters
        ----------
        sides : DenseSide of each side
        Y : array of shape (m, q)
        kept, asked : (boolean array of shape (m,), boolean array of shape (q,))
        """

    @abstractmethod
    def refit_cells(self, sides: Sequence[DenseSide], Y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function of hidden cells (a mask): what the slow twin, fitted on the others, predicts for them."""

    @property
    @abstractmethod
    def holdout_grids(self) -> tuple[float, float]:
        """Grids (m, q), and grids rotated by one side, that a closed form of leaving out holds at once, at most."""

    @property
    def ranks(self) -> list[int]:
        """Numbers of eigenvectors of the sides."""
        return [int(spectrum.values.shape[0]) for spectrum in self.spectra]


@dataclass(frozen=True, eq=False)
class Coupled(Pairing):
    r"""A model in which labels of all tasks are one system, with operators on grids from what stays unexplained.

    By default it is ridge regression on pairs with the kernel :math:`(1-\rho)/\rho` in the rotated labels, where
    :math:`\rho` is the `remainder`, and a ridge of one. See `dyadlearn.solve.operators`.
    """

    @property
    def ridge(self) -> float:
        """The ridge that goes with the pairwise kernel."""
        return 1.0

    @property
    def free_mean(self) -> bool:
        """Whether the grand mean carries no penalty, so that the dual parameters sum to zero."""
        return False

    @property
    def vanishing(self) -> bool:
        """Whether λ = 0 at full rank, where hats are identities and residuals are known up to scale."""
        return False

    @property
    def floor(self) -> float:
        """What slacks must exceed; 0 if nothing is ever interpolated."""
        whole = self.remainder <= 0
        return slack_floor(self.grid_spectra[0], math.inf) if bool(namespace(whole).any(whole)) else 0.0

    @property
    def prefers_residual(self) -> bool:
        """Whether most of the spectrum is kept, so that the residual is the small part and carries the digits."""
        xp, kept = namespace(self.remainder), self.remainder < 0.5
        n_cells = math.prod(side.n_rows for side in self.grid_spectra)
        return not self.is_truncated and 2 * int(xp.sum(xp.astype(kept, xp.int64))) > n_cells

    @property
    def holdout_grids(self) -> tuple[float, float]:
        """Grids that leaving out holds at once: one dense system of all cells, and others as large."""
        return 4.0 * math.prod(side.n_rows for side in self.grid_spectra), 0.0

    @property
    def residual_cost(self) -> int:
        """Multiplications in one product with the residual operator."""
        return rotation_cost(*self.grid_spectra)

    @property
    def kernel_cost(self) -> int:
        """Multiplications in one product with the pairwise kernel."""
        return rotation_cost(*self.grid_spectra)

    @property
    def grid_spectra(self) -> tuple[Spectrum, Spectrum]:
        """Spectra of the rows and of the columns of a grid."""
        rows, columns = self.spectra
        return rows, columns

    def _working(self) -> Self:
        """Return a copy to keep arrays of all pairs on, which go with it when the work is done."""
        return replace(self)

    @property
    def shrinkage(self) -> Array:
        """The hat f in the rotated labels, shape (k, l)."""
        return 1.0 - self.remainder

    @property
    @abstractmethod
    def remainder(self) -> Array:
        """The residual 1 − f in the rotated labels, shape (k, l); up to its scale where it vanishes."""

    @property
    def kernel_values(self) -> Array:
        """The pairwise kernel in the rotated labels, shape (k, l); zero where nothing is penalised."""
        xp, remainder = namespace(self.remainder), self.remainder
        return xp.where(remainder > 0, self.shrinkage / xp.where(remainder > 0, remainder, 1.0), 0.0)

    def coefficients_of(self, spectral: Array, mean: float) -> Array:
        r"""Return the coefficients of a function of the pairs of training that is known along pairs of directions.

        .. math:: f = \mathbf{U}(\sqrt S\circ\mathbf{X})\mathbf{V}^\top + \mu

        Parameters
        ----------
        spectral : array of shape (k, l)
            X.
        mean : float
            The free mean; 0 where there is none.
        """
        (left, right), kept = (side.vectors for side in self.grid_spectra), self.shrinkage
        xp, values = namespace(spectral), spectral * self.kernel_values**0.5
        # The labels whose fit it is.
        rotated = xp.where(kept > 0, values / xp.where(kept > 0, kept, 1.0), 0.0)
        return self.coefficients(sandwich(left, rotated, right) + mean)

    def dual(self, Y: Array) -> Array:
        """Return the dual parameters of the pairwise kernel with its ridge, shape (m, q)."""
        return self._working().residual(Y) / self.ridge

    @property
    def is_truncated(self) -> bool:
        """Whether a null space is left out of a spectrum."""
        return any(spectrum.is_truncated for spectrum in self.grid_spectra)

    @cached_property
    def is_graded(self) -> bool:
        """Whether blocks of the residual operator and of the kernel may be singular to all digits."""
        return self._is_graded(namespace(self.remainder).reshape(self.remainder, (-1, 1)))

    def _is_graded(self, remainders: Array) -> bool:
        return is_graded(remainders, sum(side.n_rows for side in self.grid_spectra), self.is_truncated)

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""
        return rotated_product(*self.grid_spectra, self.shrinkage, grid)

    def residual(self, grid: Array) -> Array:
        """Return the grid less the fitted grid."""
        if self.is_truncated:
            return grid - self.hat(grid)
        return rotated_product(*self.grid_spectra, self.remainder, grid)

    def kernel(self, grid: Array) -> Array:
        """Return the pairwise kernel times a grid."""
        return rotated_product(*self.grid_spectra, self.kernel_values, grid)

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the residual operator between some cells, shape (n, n)."""
        if not self.is_truncated:
            return rotated_block(*self.grid_spectra, self.remainder, rows, columns)
        block = rotated_block(*self.grid_spectra, -self.shrinkage, rows, columns)
        return block + namespace(block).eye(block.shape[0], dtype=block.dtype, device=block.device)

    def kernel_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the pairwise kernel between some cells, shape (n, n)."""
        return rotated_block(*self.grid_spectra, self.kernel_values, rows, columns)

    def split_kernel(self, rows: np.ndarray, columns: np.ndarray) -> tuple[Array, Array | None, Array | None]:
        """Return a part of the kernel between some cells (n, n), and a border of it: ones without a penalty."""
        return self.kernel_block(rows, columns), None, None

    def _completed(
        self, Y: Array, weights: Array | None, start: Completion | None, tol: float, max_iter: int
    ) -> Completion:
        return complete_grid(self._working(), Y, weights, start, tol, max_iter)

    def cell_slack(self) -> Array:
        """Return the diagonal of the residual operator, shape (m, q)."""
        working, (rows, columns) = self._working(), self.grid_spectra
        weights = working.shrinkage if self.is_truncated else working.remainder
        diagonal = columns.diagonal(rows.diagonal(weights).T).T
        return 1.0 - diagonal if self.is_truncated else diagonal

    def holdout(self, Y: Array, setting: Setting, members: Members = None, task_members: Members = None) -> Array:
        """Return held-out predictions, shape (m, q), from one dense system of all cells."""
        m, q = Y.shape
        rows, columns = np.divmod(np.arange(m * q), q)
        own, other = unit_codes(members, m)[rows], unit_codes(task_members, q)[columns]
        xp, inverse = namespace(Y), self._working().residual_block(rows, columns)
        shift = xp.mean(Y) if self.free_mean else zeros((), Y)
        y = xp.reshape(Y - shift, (-1, 1))
        if setting is Setting.D:
            pieces, places = [], []
            for i, j in np.unique(np.stack([own, other]), axis=1).T:
                left_out = np.flatnonzero((own == i) | (other == j))
                asked = np.flatnonzero((own[left_out] == i) & (other[left_out] == j))
                pieces.append(take_rows(leave_set_out(inverse, y, left_out), asked)[:, 0])
                places.append(left_out[asked])
            held_out = placed(pieces, places, m * q)
        else:
            units = {Setting.A: self._cell_units(rows, columns), Setting.B: own, Setting.C: other}[setting]
            held_out = leave_units_out(inverse, y, units)[:, 0]
        return xp.reshape(held_out, Y.shape) + shift

    def closed_weights(self, row: Asked, column: Asked) -> Array:
        """Return how much each label of a complete grid weighs in the prediction for one pair, shape (m, q).

        Predictions are linear in the labels: each weighs what is predicted where it is one, and all others are zero.
        """
        m, q = (side.n_rows for side in self.grid_spectra)
        like, sides = self.grid_spectra[0].values, (row, column)
        asked = [None if isinstance(each, int) else each for each in sides]
        place, task_place = (each if isinstance(each, int) else 0 for each in sides)
        found = zeros((m, q), like)
        for i, j in np.ndindex(m, q):
            unit = zeros((m, q), like)
            unit[i, j] = 1.0
            found[i, j] = self.expansion(self.coefficients(unit)).grid(*asked)[place, task_place]
        return found

    def label_weights(
        self, row: Asked, column: Asked, Y: Array, weights: Array | None, *, tol: float = 1e-8, max_iter: int = 1000
    ) -> Array:
        """Return how much each label weighs, from the weights of completed labels where some are missing."""
        found = self.closed_weights(row, column)
        if weights is None and not bool(namespace(Y).any(namespace(Y).isnan(Y))):
            return found
        return weights_of_observed(self._working(), found, Y, weights, tol, max_iter)

    def leave_cells_out(self, Y: Array) -> Array:
        r"""Return a grid in which missing cells S hold what the others predict for them.

        .. math:: \mathbf{R}_{SS}\,\mathbf{f}_S = (\mathbf{H}\mathbf{y}_{\setminus S})_S
                  = -(\mathbf{R}\mathbf{y}_{\setminus S})_S

        A small set is solved for directly, a large one by conjugate gradients, whose products are a few matrix
        products of the size of the grid.
        """
        tol = 100 * epsilon(Y)
        found = complete(self._working(), Y, form="missing", max_direct=_DIRECT_CELLS, tol=tol)
        warn_unless_converged(found.solution, tol, " in a fold of cells")
        return found.labels

    def has_shortcut(self, Y: Array, weights: Array | None, setting: Setting) -> bool:
        """Tell whether single cells are to be left out, and few are observed."""
        return setting is Setting.A and int(np.count_nonzero(~np.isnan(to_numpy(Y)))) <= FEW_CELLS

    def leave_one_out(
        self, Y: Array, weights: Array | None, setting: Setting, completed: Callable[[], Array]
    ) -> Array | None:
        r"""Return setting A for each observed cell, from one dense system of all observed cells.

        With :math:`\mathbf{P}` the pairwise kernel, :math:`c` the ridge and
        :math:`\mathbf{Q} = (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))^{-1}` the prediction is
        :math:`-\sum_{j\ne i}Q_{ij}y_j/Q_{ii}`, which loses no digits however small it is. With a free mean
        :math:`\mathbf{Q}` loses :math:`\mathbf{Q11}^\top\mathbf{Q}/\mathbf{1}^\top\mathbf{Q1}`.
        """
        if setting is not Setting.A:
            return None
        observed = ~np.isnan(to_numpy(Y))
        self._check_others(observed)
        if observed.sum() > MANY_CELLS:
            raise ValueError(
                f"Leaving out each of {observed.sum()} observed cells by itself takes too long where labels are "
                "missing: give cells=, a fold for each cell, so that a few folds are left out instead."
            )
        working = self._working()
        if working.ridge == 0 or working.floor > 0:
            raise ValueError("Leaving out single cells where labels are missing needs regularisation: use alpha > 0.")
        xp, flat = namespace(Y), np.flatnonzero(observed)
        y = take_rows(xp.reshape(Y, (-1,)), flat)
        system, border, penalties = working.split_kernel(*np.nonzero(observed))
        ones = xp.ones_like(y) if weights is None else take_rows(xp.reshape(weights, (-1,)), flat)
        eye = xp.eye(flat.size, dtype=system.dtype, device=system.device)
        refusal = partial(leverage_error, flat, observed.size, "cells form a set that")
        inverse = solve_block(system + working.ridge * eye / ones, eye, 0.0, working.is_graded, refusal)
        shift = zeros((), y)
        if working.free_mean:
            inverse, shift = inverse_with_border(inverse, border, penalties), xp.mean(y)
        held_out = leave_units_out(inverse, (y - shift)[:, None], self._cell_units(*np.nonzero(observed)))[:, 0] + shift
        everything = xp.concat([held_out, xp.reshape(completed(), (-1,))])
        places = np.arange(observed.size) + flat.size
        places[flat] = np.arange(flat.size)
        return xp.reshape(take_rows(everything, places), Y.shape)

    def _check_others(self, observed: np.ndarray) -> None:
        """Refuse to leave out the only pair that determines a free mean."""
        if self.free_mean and np.count_nonzero(np.triu(observed) if self.symmetry else observed) < 2:
            raise nothing_left()

    def _cell_units(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
        """Return which of n cells leave together, integers of shape (n,); None is each by itself."""
        if not self.symmetry:
            return None
        return np.asarray(np.minimum(rows, columns) * self.grid_spectra[1].n_rows + np.maximum(rows, columns))

    # --- refit --------------------------------------------------------------------------------------

    def refit_block(
        self, sides: Sequence[DenseSide], Y: np.ndarray, kept: Sequence[np.ndarray], asked: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return what the slow reference predicts for a block, whose cells are hidden with all others that leave."""
        hidden, found = ~np.logical_and.outer(*kept), np.zeros(Y.shape)
        found[hidden] = self.refit_cells(sides, Y)(hidden)
        return np.asarray(found[np.ix_(*asked)])

    def refit_cells(self, sides: Sequence[DenseSide], Y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return what the slow reference predicts for hidden cells, by the pairwise kernel written out."""
        working, (left, right) = self._working(), (to_numpy(side.vectors) for side in self.grid_spectra)
        return fitted_without((left, right), to_numpy(working.kernel_values), self.ridge, Y, self.free_mean)
