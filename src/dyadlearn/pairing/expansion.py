r"""Predictions from coefficients: how rows of each side multiply them, in blocks.

A prediction is the instance block times the coefficients times the transposed task block. A block is kernel or feature
rows, or what a side that is not folded into the coefficients makes of them. The kernel between many new rows and those
of training can be far larger than what it is made of and what comes of it: no more of it than a block is ever there.

Two-step predictions are

.. math:: \mathbf{K}_*\,\mathbf{U}\varphi_d(\boldsymbol\Sigma)\,(\mathbf{U}^\top\mathbf{Y}\mathbf{V})\,
          \varphi_t(\mathbf{S})\mathbf{V}^\top\,\mathbf{G}_*^\top .

Everything between the new rows can be multiplied out, but in the dual it should not be. Along directions of small
eigenvalues :math:`\varphi` grows to :math:`1/\lambda`, and kernel rows, which are small there, take that back. The
product has entries of up to :math:`1/(\lambda_d\lambda_t)` and is rounded to :math:`\varepsilon` of them in *every*
direction, those included in which kernel rows are large: an error of
:math:`\varepsilon\|\mathbf{K}\|\|\mathbf{G}\|/(\lambda_d\lambda_t)`. With one side folded and the other left out,

==============  ===========================================================================================
coefficients    :math:`\mathbf{P} = \mathbf{U}\varphi_d(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{Y}\mathbf{V}`
new tasks       :math:`(\mathbf{K}_*\mathbf{P})\,(\mathbf{G}_*\mathbf{V}\varphi_t(\mathbf{S}))^\top`
training tasks  :math:`(\mathbf{K}_*\mathbf{P})\,f_t(\mathbf{S})\,\mathbf{V}^\top`, where :math:`f(s) = s\,\varphi(s)`
==============  ===========================================================================================

(or its mirror image), both factors have the size of predictions, one known to
:math:`\varepsilon\|\mathbf{K}\|/\lambda_d` and the other to :math:`\varepsilon\|\mathbf{G}\|/\lambda_t`: the errors add
where they multiplied. In the primal folded weights are :math:`\sqrt\sigma\,\varphi(\sigma) \le 1/(2\sqrt\lambda)`; with
both sides folded the error is :math:`\varepsilon\sqrt{\|\mathbf{K}\|\|\mathbf{G}\|/(\lambda_d\lambda_t)}`, which is no
more than the larger of the two. Kronecker coefficients are at most :math:`1/\lambda`, and are folded always.

How much every training label weighs in one prediction.

Predictions are linear in the labels: :math:`f = \sum_{ij} w_{ij}Y_{ij}`, where :math:`w_{ij}` is by how much the
prediction grows when label :math:`(i, j)` grows by one and the model is fitted again. On complete labels each model
has its weights :math:`\tilde{\mathbf{w}}` in closed form. A side under a filter weighs its rows by

==========  ==========================================================================================
known row   its row of the hat matrix :math:`\mathbf{H}`
new row     :math:`\mathbf{U}\,\varphi(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{k}`
==========  ==========================================================================================

and a pair kernel, with :math:`\mathbf{C} = \mathbf{P} + \lambda\mathbf{I}` and :math:`\mathbf{p}` the kernel between
the asked pair and all others, weighs the labels by :math:`\mathbf{C}^{-1}\mathbf{p}`, with a free mean by

.. math:: \mathbf{C}^{-1}\mathbf{p} + \mathbf{C}^{-1}\mathbf{1}\,
          \frac{1 - \mathbf{1}^\top\mathbf{C}^{-1}\mathbf{p}}{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}} .

Where labels are missing in cells u, the closed form works on completed ones, :math:`\mathbf{R}_{uu}\mathbf{y}_u =
-\mathbf{R}_{uo}\mathbf{y}_o`. So a label that is observed weighs for itself and for what it puts elsewhere:

.. math:: \mathbf{w} = \tilde{\mathbf{w}} - \mathbf{R}\mathbf{z}, \qquad \mathbf{z}_o = \mathbf{0}, \quad
          \mathbf{R}_{uu}\mathbf{z}_u = \tilde{\mathbf{w}}_u ,

which is zero in u. Where labels have weights d in the loss,

.. math:: (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/d))\,\mathbf{w}_o
          = (\mathbf{P}\tilde{\mathbf{w}} + c\tilde{\mathbf{w}})_o ,

and a free mean is a border of it, :math:`\mathbf{1}^\top\mathbf{w}_o = 1`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dyadlearn._array import Array, as_array_of, epsilon, itemsize, matmul, namespace, row_blocks, take_rows, zeros
from dyadlearn._memory import check_memory
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.missing import complete, solve_missing
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import Smoother, Spectrum
from dyadlearn.vectrick import dots_at, left_first, sandwich

# Up to this many bytes, everything is computed at once.
_BLOCK_BYTES = 2**27
#: A grid of so many cells is no burden.
SMALL_GRID = 2**20


@dataclass(frozen=True, eq=False)
class Part:
    """One side of the coefficients.

    Attributes
    ----------
    spectrum : Spectrum
    side : Smoother or None
        None if the side is folded: its spectral weights are in the coefficients, which rows multiply as they are. Else
        the weights of the smoother multiply rows.
    """

    spectrum: Spectrum
    side: Smoother | None = None

    @property
    def size(self) -> int:
        """Number of rows (or columns) of the coefficients that belong to this side."""
        return self.spectrum.n_coefficients if self.side is None else int(self.spectrum.values.shape[0])

    @property
    def width(self) -> int:
        """Number of values that are computed from each row."""
        return 0 if self.side is None else self.size

    @property
    def is_dual(self) -> bool:
        """Whether coefficients are dual parameters, as far as this side goes."""
        spectrum = self.spectrum
        is_kernel = spectrum.components is None and spectrum.constant is None
        return self.side is None and is_kernel and not spectrum.is_singular

    def rows(self, block: Array) -> Array:
        r"""Return kernel or feature rows as they multiply the coefficients.

        They are :math:`\mathbf{K}_*\mathbf{U}\varphi(\boldsymbol\Sigma)` of shape (a, k) unless the side is folded.
        """
        if self.side is None:
            return block
        rows = self.spectrum.project(block)
        rows *= self.side.phi
        return rows

    def folded(self, coefficients: Array) -> Array:
        """Return coefficients (size, p) with the spectral weights in them."""
        return coefficients if self.side is None else self.spectrum.lift(self.side.phi[:, None] * coefficients)

    def training(self, product: Array) -> Array:
        """Return `product` (a, size) times the transposed block of the rows of training, shape (a, n)."""
        if self.side is None:
            return self.spectrum.training_rows(product)
        return self.spectrum.expand(product * self.side.shrinkage)


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows of one side to predict for.

    Attributes
    ----------
    values : array or sparse matrix of shape (n, d)
        Features or kernel values.
    block : callable
        Turns rows into what multiplies the coefficients.
    width : int
        How many numbers it makes of each row; 0 if it takes them as they are.
    prior : callable or None
        Returns the kernel of each row with itself, as it was decomposed; None where nobody knows it.
    places : integer array of shape (n,) or None
        Where they stand in training, of rows that are known as those of training, and by more than their kernel.
    """

    values: Array
    block: Callable[[Array], Array]
    width: int
    prior: Callable[[Array], Array] | None = None
    places: np.ndarray | None = None

    @property
    def size(self) -> int:
        """How many rows there are."""
        return int(self.values.shape[0])

    def cut(self, numbers: int, like: Array) -> list[slice]:
        """Return slices of rows that take no more than a block, where each row comes to so many more numbers."""
        return list(row_blocks(self.size, (self.width + numbers) * itemsize(like), _BLOCK_BYTES))

    def at(self, here: slice) -> Array:
        """Return the block of some rows."""
        return self.block(self.values if here.stop - here.start == self.size else self.values[here, :])

    def take(self, index: np.ndarray | slice) -> NewRows:
        """Return some of the rows."""
        values = self.values[index, :] if isinstance(index, slice) else take_rows(self.values, index)
        return replace(self, values=values, places=None if self.places is None else self.places[index])

    def before(self, part: Part | None) -> NewRows:
        """Return the same rows for coefficients into which their side is folded or not."""
        if part is None:
            return self
        return replace(self, block=lambda rows: part.rows(self.block(rows)), width=self.width + part.width)


@dataclass(frozen=True, eq=False)
class Expansion:
    """What predictions are made of.

    Attributes
    ----------
    values : array
        Coefficients.
    instances, tasks : Part or None
        How rows of a side multiply them; None is as they are. Without a part of the tasks those of training are the
        columns.
    """

    values: Array
    instances: Part | None = None
    tasks: Part | None = None

    @property
    def transposed(self) -> Expansion:
        """The same with tasks for instances, and instances for tasks."""
        return Expansion(self.values.T, self.tasks, self.instances)

    @property
    def shared(self) -> Expansion:
        """What says anything of pairs whose instance and task are both new."""
        return self

    @property
    def to_training(self) -> Array | None:
        """What rows are multiplied by for predictions with the tasks of training; None if they are more than that."""
        return self._finished(self.values)

    @property
    def n_instances(self) -> int:
        """How many instances there are in training."""
        return self.transposed.n_tasks

    @property
    def n_tasks(self) -> int:
        """How many tasks there are in training."""
        return int(self.values.shape[1]) if self.tasks is None else self.tasks.spectrum.n_rows

    @property
    def dual(self) -> Array | None:
        """Coefficients where they are the dual parameters, else None."""
        return self.values if all(part.is_dual for part in (self.instances, self.tasks) if part is not None) else None

    @property
    def folded(self) -> Array:
        """Coefficients that rows of both sides multiply as they are."""
        values = self.values if self.instances is None else self.instances.folded(self.values)
        return values if self.tasks is None else self.tasks.folded(values.T).T

    def grid(self, rows: NewRows | None, tasks: NewRows | None) -> Array:
        """Return predictions for every new row with every task.

        Parameters
        ----------
        rows : NewRows or None
            The a instances; None stands for those of training.
        tasks : NewRows or None
            The b tasks; None stands for those of training.

        Returns
        -------
        array of shape (a, b)

        Raises
        ------
        NotEnoughMemoryError
            If there is no room for the result and a block.
        """
        if rows is None:
            return self.fitted() if tasks is None else self.transposed.grid(tasks, None).T
        middle, a = self.values, rows.size
        rows = rows.before(self.instances)
        if tasks is None:
            b = self.n_tasks
            # What comes before the end is finished block by block.
            finishing = 0 if self.tasks is None else 2 * b
            blocks = rows.cut(finishing, middle)
            _check_predictions(a, b, 0, [(rows, blocks)], middle, finishing)
            if len(blocks) == 1:
                return self._finished(matmul(rows.at(blocks[0]), middle))
            return _fill(zeros((a, b), middle), rows, blocks, middle, self._finished)
        tasks = tasks.before(self.tasks)
        b = tasks.size
        blocks, task_blocks = rows.cut(0, middle), tasks.cut(0, middle)
        first = left_first(a, b, *middle.shape)
        halfway = (a, middle.shape[1]) if first else (b, middle.shape[0])
        _check_predictions(a, b, halfway[0] * halfway[1], [(rows, blocks), (tasks, task_blocks)], middle)
        if len(blocks) == len(task_blocks) == 1:
            return sandwich(rows.at(blocks[0]), middle, tasks.at(task_blocks[0]))
        # One side after the other, so that the block of each row is computed once.
        result, half = zeros((a, b), middle), zeros(halfway, middle)
        if first:
            _fill(result.T, tasks, task_blocks, _fill(half, rows, blocks, middle).T)
        else:
            _fill(result, rows, blocks, _fill(half, tasks, task_blocks, middle.T).T)
        return result

    def fitted(self) -> Array:
        """Return predictions for the instances and tasks of training, shape (m, q)."""
        _check_predictions(self.n_instances, self.n_tasks, 0, [], self.values)
        half = self._finished(self.values)
        return half if self.instances is None else self.instances.training(half.T).T

    def at(self, rows: NewRows | None, tasks: NewRows | None, pairs: tuple[np.ndarray, np.ndarray]) -> Array:
        """Return predictions for some pairs of n only.

        Parameters
        ----------
        rows, tasks : as in `grid`
        pairs : (integer array of shape (n,), integer array of shape (n,))
            Positions of instances and of tasks.

        Returns
        -------
        array of shape (n,)
        """
        middle, (first, second) = self.values, pairs
        if rows is None and tasks is None:
            if self._spares_grid:
                known = _known(self.instances, middle), _known(self.tasks, middle)
                return replace(self, instances=None, tasks=None).at(*known, pairs)
            fitted = self.fitted()
            flat = namespace(fitted).reshape(fitted, (-1,))
            return take_rows(flat, first * fitted.shape[1] + second)
        if tasks is None and rows is not None and self._spares_grid and rows.size * self.n_tasks > SMALL_GRID:
            return replace(self, tasks=None).at(rows, _known(self.tasks, middle), pairs)
        if rows is None:
            return self.transposed.at(tasks, None, (second, first))
        rows, tasks, xp = rows.before(self.instances), tasks and tasks.before(self.tasks), namespace(middle)
        finishing = 2 * self.n_tasks if tasks is None and self.tasks is not None else 0
        blocks = rows.cut(middle.shape[1] + finishing, middle)
        task_blocks = [slice(0, self.n_tasks)] if tasks is None else tasks.cut(0, middle)
        sides = [(rows, blocks)] if tasks is None else [(rows, blocks), (tasks, task_blocks)]
        _check_predictions(1, first.size, 0, sides, middle)
        once = tasks.at(task_blocks[0]) if tasks is not None and len(task_blocks) == 1 else None
        pieces, places = [zeros((0,), middle)], [first[:0]]
        for here in blocks:
            inside = np.flatnonzero((here.start <= first) & (first < here.stop))
            half = matmul(rows.at(here), middle)
            for there in task_blocks:
                chosen = inside[(there.start <= second[inside]) & (second[inside] < there.stop)]
                own, other = first[chosen] - here.start, second[chosen] - there.start
                if tasks is None:
                    grid = self._finished(half)
                    flat = as_array_of(own * grid.shape[1] + other, grid)
                    pieces.append(xp.take(xp.reshape(grid, (-1,)), flat, axis=0))
                else:
                    pieces.append(dots_at(half, tasks.at(there) if once is None else once, own, other))
                places.append(chosen)
        return take_rows(xp.concat(pieces), np.argsort(np.concatenate(places)))

    @property
    def _spares_grid(self) -> bool:
        """Whether pairs of training are predicted from features of both sides, which a grid is far larger than."""
        m, q = self.n_instances, self.n_tasks
        sides = [part for part in (self.instances, self.tasks) if part is not None]
        return m * q > max(SMALL_GRID, sum(part.size * part.spectrum.n_rows for part in sides)) and len(sides) == 2

    def _finished(self, product: Array) -> Array:
        """Return predictions for tasks of training from products (a, size) of rows with the coefficients."""
        return product if self.tasks is None else self.tasks.training(product)


@dataclass(frozen=True, eq=False)
class PairExpansion(Expansion):
    """Predictions of a pair kernel: beside the shared function, what is known of the rows of training alone.

    Attributes
    ----------
    is_shared : bool
        Whether there is a shared function; without one, its place in the last row and column of the coefficients holds
        a mean, where there is any.
    per_task, per_instance : float
        What coefficients are multiplied by for a function of the instances for each task of training, and of the tasks
        for each instance of training.
    has_mean : bool
    """

    is_shared: bool = True
    per_task: float = 0.0
    per_instance: float = 0.0
    has_mean: bool = False

    @property
    def transposed(self) -> PairExpansion:
        """The same with tasks for instances, and instances for tasks."""
        shares = (self.is_shared, self.per_instance, self.per_task, self.has_mean)
        return PairExpansion(self.values.T, self.tasks, self.instances, *shares)

    @property
    def shared(self) -> Expansion:
        """The shared function, which alone knows anything of two new rows."""
        return Expansion(self.folded, self.instances, self.tasks)

    @property
    def to_training(self) -> Array | None:
        """None: without a shared function a mean is added."""
        return super().to_training if self.is_shared else None

    @property
    def _spares_grid(self) -> bool:
        """False: rows of training are known by more than their features."""
        return False

    @property
    def _mean(self) -> float:
        return float(self.values[-1, -1]) if self.has_mean else 0.0

    @property
    def folded(self) -> Array:
        """Coefficients of the shared function."""
        if self.is_shared:
            return self.values
        values = namespace(self.values).zeros_like(self.values)
        if self.has_mean:
            values[-1, -1] = self._mean
        return values

    @property
    def dual(self) -> Array | None:
        """None: coefficients are dual parameters times a share, or less."""
        return None

    def _finished(self, product: Array) -> Array:
        """Return predictions for tasks of training, those of a function of their own too."""
        assert self.tasks is not None
        if self.is_shared and not self.per_task:
            return self.tasks.training(product)
        n_rows = self.tasks.spectrum.n_rows
        own = self.per_task * product[:, :n_rows] if self.per_task else zeros((product.shape[0], n_rows), product)
        return own + (self.tasks.training(product) if self.is_shared else self._mean)

    def fitted(self) -> Array:
        """Return predictions for the instances and tasks of training, shape (m, q)."""
        assert self.instances is not None
        assert self.tasks is not None
        _check_predictions(self.n_instances, self.n_tasks, 0, [], self.values)
        found = self._finished(self.instances.training(self.values.T).T)
        if self.per_instance:
            known = self.per_instance * self.values[: self.instances.spectrum.n_rows, :]
            found = found + self.tasks.training(known)
        return found

    def grid(self, rows: NewRows | None, tasks: NewRows | None) -> Array:
        """Return predictions as `Expansion` does; of two new rows the shared function alone knows anything."""
        if rows is not None and rows.places is not None:
            return take_rows(self.grid(None, tasks), rows.places)
        if tasks is not None and tasks.places is not None:
            return take_rows(self.grid(rows, None).T, tasks.places).T
        if self.is_shared or rows is None or tasks is None:
            return super().grid(rows, tasks)
        _check_predictions(rows.size, tasks.size, 0, [], self.values)
        return zeros((rows.size, tasks.size), self.values) + self._mean

    def at(self, rows: NewRows | None, tasks: NewRows | None, pairs: tuple[np.ndarray, np.ndarray]) -> Array:
        """Return predictions for some pairs only, as `Expansion` does."""
        if rows is not None and rows.places is not None:
            return self.at(None, tasks, (rows.places[pairs[0]], pairs[1]))
        if tasks is not None and tasks.places is not None:
            return self.at(rows, None, (pairs[0], tasks.places[pairs[1]]))
        if self.is_shared or rows is None or tasks is None:
            return super().at(rows, tasks, pairs)
        return zeros((pairs[0].size,), self.values) + self._mean


def _known(part: Part | None, like: Array) -> NewRows:
    """Return the rows of training as they multiply the coefficients, shape (n, size)."""
    assert part is not None
    identity = namespace(like).eye(part.size, dtype=like.dtype, device=like.device)
    return NewRows(part.training(identity).T, lambda rows: rows, 0)


def _fill(
    result: Array, rows: NewRows, blocks: list[slice], right: Array, finish: Callable[[Array], Array] | None = None
) -> Array:
    """Write the product of each block with `right` in its rows of `result`, and return this."""
    for here in blocks:
        product = matmul(rows.at(here), right)
        result[here, :] = finish(product) if finish else product
    return result


def _check_predictions(
    a: int, b: int, halfway: int, sides: list[tuple[NewRows, list[slice]]], like: Array, finishing: int = 0
) -> None:
    """Raise if predictions (a, b) do not fit in memory beside what is there halfway and the largest block.

    `finishing` is how many numbers each row of a block comes to at its end.
    """
    in_blocks = max((blocks[0].stop * max(rows.width, finishing) for rows, blocks in sides), default=0)
    check_memory(
        (a * b + halfway + 2 * in_blocks) * itemsize(like),  # computing a block of a kernel takes another one
        like,
        f"Predicting {a} × {b} labels",
        "predict for fewer rows at a time, or for some pairs only (predict_pairs)",
    )


#: What is asked about: a row of training by its position, or one new row.
Asked = int | NewRows


def hat_row(side: Smoother, asked: Asked) -> Array:
    """Return how much each of n rows of a side weighs in the prediction for one, shape (n,)."""
    if isinstance(asked, NewRows):
        return side.spectrum.expand(side.spectrum.project(asked.at(slice(0, 1))) * side.phi)[0, :]
    return side.smooth(_unit(side.spectrum, asked))[:, 0]


def rotated_row(spectrum: Spectrum, asked: Asked) -> tuple[Array, Array]:
    """Return the kernel row of what is asked about and, if it is of training, its unit vector, rotated: (k,) each."""
    if not isinstance(asked, NewRows):
        own = spectrum.rotate(_unit(spectrum, asked))[:, 0]
        return spectrum.values * own, own
    along = spectrum.project(asked.at(slice(0, 1)))[0, :]
    # Kernel rows have nothing along null directions but rounding.
    along = along * namespace(along).astype(spectrum.values > 0, along.dtype)
    return along, namespace(along).zeros_like(along)


def _unit(spectrum: Spectrum, position: int) -> Array:
    column = zeros((spectrum.n_rows, 1), spectrum.values)
    column[position, 0] = 1.0
    return column


def weights_of_observed(
    operators: GridOperators, found: Array, Y: Array, weights: Array | None, tol: float, max_iter: int
) -> Array:
    """Return how much the observed labels weigh, from the weights of completed ones.

    Parameters
    ----------
    operators : GridOperators
    found : array of shape (m, q)
        The weights on completed labels.
    Y : array of shape (m, q)
        NaN where not observed.
    weights : array of shape (m, q) or None
        Of the squared loss of each observed cell.
    tol, max_iter : float and int
        When conjugate gradients must have converged; they go on as far as the precision allows.

    Returns
    -------
    array of shape (m, q)
        Zero where nothing is observed.
    """
    xp, observed = namespace(Y), ~namespace(Y).isnan(Y)
    none, tight = xp.zeros_like(found), 100 * epsilon(Y)
    # As λ vanishes at full rank the model interpolates, and weights of the loss no longer matter.
    if weights is None or operators.vanishing:
        right = xp.where(observed, none, found)
        solution = solve_missing(operators, right, observed, tol=tight, max_iter=max_iter)
        warn_unless_converged(solution, tol, " on the weights of labels", stacklevel=3)
        return xp.where(observed, found - operators.residual(solution.values), none)
    known = xp.astype(observed, found.dtype)
    begin = known / xp.sum(known) if operators.free_mean else none
    weights = xp.where(observed, weights, xp.ones_like(weights))
    labels = operators.kernel(found - begin) + operators.ridge * (found - begin / weights)
    labels = xp.where(observed, labels, xp.full_like(labels, float("nan")))
    solution = complete(operators, labels, weights, tol=tight, max_iter=max_iter).solution
    warn_unless_converged(solution, tol, " on the weights of labels", stacklevel=3)
    return begin + xp.where(observed, solution.values * weights**0.5, none)
