"""Labelled dyads drawn from a known truth, for tests and for learning curves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch, check_random_state

from dyadlearn._array import Array, array_bytes
from dyadlearn._checks import check_choice, check_whole
from dyadlearn._memory import check_memory
from dyadlearn.kernels.gram import Params, gram

# A factor is spanned by this many centres, and its scale is measured on this many further rows.
# Both are drawn with the function, so that the truth does not depend on the size of the sample.
_N_CENTRES = 50
_N_REFERENCE = 200


def make_dyads(
    n_instances: int = 50,
    n_tasks: int = 30,
    *,
    n_features: int = 5,
    n_task_features: int = 4,
    kernel: Any = "rbf",
    task_kernel: Any = "rbf",
    kernel_params: Params = None,
    task_kernel_params: Params = None,
    rank: int = 3,
    mean: float = 0.0,
    main_effects: float = 0.0,
    noise: float = 0.1,
    missing: float = 0.0,
    labels: str = "real",
    symmetry: str | None = None,
    random_state: Any = None,
) -> Bunch:
    r"""Draw a grid of labels whose true function has low rank and lies in the spaces of given kernels.

    .. math:: \text{truth}(x, t) = \sum_{r=1}^{\text{rank}} a_r(x)\, b_r(t), \qquad
              a_r(x) = \sum_c k(x, z_c)\, w_{cr}, \quad b_r(t) = \sum_c g(t, z'_c)\, w'_{cr},

    with random centres `z` and random weights `w` that add up to zero for each r. The true function
    is scaled to mean square 1 over a large reference sample. A grand mean and main effects
    :math:`a_0(x) + b_0(t)`, drawn from the same kernels, may be added.

    The function, instances, tasks, noise and missing labels have separate random streams. With the
    same `random_state`, a larger sample has the same true function, and its first rows are those of
    the smaller sample.

    Parameters
    ----------
    n_instances, n_tasks : int, default=50, 30
        Size of the grid.
    n_features, n_task_features : int, default=5, 4
        Features of each side, uniform in [-1, 1].
    kernel, task_kernel : str or callable, default="rbf"
        Kernel of each side, as in the models.
    kernel_params, task_kernel_params : mapping or None, default=None
        Parameters of the kernels.
    rank : int, default=3
        Number of terms. With a `symmetry`, the mirror image of each term is added.
    mean : float, default=0.0
        Constant that is added to every label.
    main_effects : float, default=0.0
        Mean square of the main effect of instances and of that of tasks; interactions have mean
        square 1. In an antisymmetric network the main effect of tasks is subtracted.
    noise : float, default=0.1
        Standard deviation of the normal noise added to the truth.
    missing : float, default=0.0
        Probability that a label is missing (NaN), in [0, 1).
    labels : {"real", "binary"}, default="real"
        Real labels are the noisy truth; binary labels are 1 if it is positive, else 0.
    symmetry : {None, "symmetric", "antisymmetric"}, default=None
        If not None, both sides are the same nodes, and :math:`Y = Y^\top` or :math:`Y = -Y^\top`
        exactly, including noise and missing labels. `n_tasks`, `n_task_features` and the kernel of
        the tasks are ignored.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all random numbers.

    Returns
    -------
    data : Bunch
        With the keys

        X : ndarray of shape (n_instances, n_features)
            Features of the instances.
        tasks : ndarray of shape (n_tasks, n_task_features) or None
            Features of the tasks; None with a `symmetry`.
        K, G : ndarray of shape (n_instances, n_instances), (n_tasks, n_tasks)
            Kernel matrices of both sides.
        Y : ndarray of shape (n_instances, n_tasks)
            Labels; NaN means not observed.
        truth : ndarray of shape (n_instances, n_tasks)
            Values of the true function without noise, including mean and main effects; real for
            binary labels too.
        observed : ndarray of bool of shape (n_instances, n_tasks)
            False if the label is NaN.
        function : callable
            ``function(X, tasks)`` returns the truth for other rows, (n, n_features) and (p, n_task_features),
            as an array of shape (n, p); with a `symmetry`, ``tasks=None`` means the rows of X.

    Examples
    --------
    >>> from dyadlearn.datasets import make_dyads
    >>> data = make_dyads(40, 20, missing=0.1, random_state=0)
    >>> data.Y.shape, data.K.shape, data.G.shape
    ((40, 20), (40, 40), (20, 20))
    >>> data.function(data.X[:3], data.tasks).shape
    (3, 20)
    >>> network = make_dyads(10, symmetry="antisymmetric", random_state=0)
    >>> bool((network.Y == -network.Y.T).all())
    True
    """
    counts = {
        "n_instances": n_instances,
        "n_tasks": n_tasks,
        "n_features": n_features,
        "n_task_features": n_task_features,
        "rank": rank,
    }
    for name, count in counts.items():
        check_whole(count, name)
    _check_sizes(noise, main_effects, mean, missing)
    _check_kinds(labels, symmetry, mean)
    sign = {None: 0, "symmetric": 1, "antisymmetric": -1}[symmetry]
    _check_size(n_instances, None if sign else n_tasks)
    side = _Side(kernel, kernel_params, n_features)
    task_side = side if sign else _Side(task_kernel, task_kernel_params, n_task_features)
    of_function, of_instances, of_tasks, of_noise, of_missing, of_effects = _streams(random_state)
    function = _Truth.draw(side, task_side, sign, rank, of_function)
    effects = _draw_effects(side, task_side, sign, float(main_effects), of_effects)
    function = replace(function, mean=float(mean), effects=effects)

    X = side.draw_rows(n_instances, of_instances)
    tasks = None if sign else task_side.draw_rows(n_tasks, of_tasks)
    truth = function(X, tasks)
    values = truth + noise * _mirrored(of_noise.standard_normal(truth.shape), sign)
    if labels == "binary":
        values = (values > 0).astype(np.float64)
    observed = _mirrored(of_missing.random(truth.shape), abs(sign)) >= missing
    K = side.gram(X)
    return Bunch(
        X=X,
        tasks=tasks,
        K=K,
        G=K if tasks is None else task_side.gram(tasks),
        Y=np.where(observed, values, np.nan),
        truth=truth,
        observed=observed,
        function=function,
    )


# Checks of the arguments ---------------------------------------------------------------------------


def _is_number(value: Any, least: float, below: float) -> bool:
    """Return whether a value is a real number that is at least `least` and below `below`."""
    is_real = isinstance(value, Real)
    return is_real and bool(least <= value < below)


def _check_sizes(noise: Any, main_effects: Any, mean: Any, missing: Any) -> None:
    """Raise unless all are finite numbers in their ranges."""
    for name, value in (("noise", noise), ("main_effects", main_effects)):
        if not _is_number(value, 0, np.inf):
            raise ValueError(f"{name} must be a finite number of at least 0, found {value!r}.")
    if not _is_number(mean, -np.finfo(np.float64).max, np.inf):
        raise ValueError(f"mean must be a finite number, found {mean!r}.")
    if not _is_number(missing, 0, 1):
        raise ValueError(
            f"missing must be a probability of at least 0 and below 1, found {missing!r}."
        )


def _check_kinds(labels: str, symmetry: str | None, mean: float) -> None:
    """Raise unless the kind of labels, the symmetry and the mean are known and go together."""
    check_choice(labels, "labels", ("real", "binary"))
    if symmetry is not None:
        check_choice(symmetry, "symmetry", ("symmetric", "antisymmetric"))
    if mean != 0 and symmetry == "antisymmetric":
        raise ValueError(
            f"The mean of an antisymmetric grid is zero: leave mean out, found {mean!r}."
        )
    if labels == "binary" and symmetry == "antisymmetric":
        raise ValueError(
            "Labels 0 and 1 cannot be antisymmetric: use labels='real', or another symmetry."
        )


def _check_size(n_instances: int, n_tasks: int | None) -> None:
    """Raise if labels and kernels do not fit into memory; None means a network."""
    n_columns = n_instances if n_tasks is None else n_tasks
    kernels = [(1.2, n, n) for n in (n_instances, n_tasks) if n is not None]
    need = array_bytes(None, *kernels, (7, n_instances, n_columns))
    purpose = f"Drawing {n_instances} × {n_columns} labels with their kernels"
    check_memory(need, None, purpose, "draw fewer instances or tasks")


# The true function ---------------------------------------------------------------------------------


class _Side(NamedTuple):
    """Kernel and number of features of one side."""

    kernel: Any
    params: Params
    n_features: int

    def gram(self, rows: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
        """Return the kernel between `rows` (n, features) and others, or the kernel matrix (n, n) of `rows`."""
        return np.asarray(gram(rows, others, kernel=self.kernel, kernel_params=self.params))

    def draw_rows(self, n_rows: int, stream: np.random.Generator) -> np.ndarray:
        """Draw features (n_rows, features)."""
        return stream.uniform(-1, 1, size=(n_rows, self.n_features))

    def draw_factor(self, rank: int, stream: np.random.Generator) -> _Factor:
        """Draw functions of this side."""
        centres = self.draw_rows(_N_CENTRES, stream)
        weights = stream.standard_normal((_N_CENTRES, rank))
        # The weights of a function add up to zero; otherwise it would be nearly constant if all
        # rows are similar.
        return _Factor(self, centres, weights - weights.mean(axis=0))

    def draw_effect(self, mean_square: float, stream: np.random.Generator) -> _Factor:
        """Draw a main effect of this side, with a given mean square over a reference sample."""
        factor = self.draw_factor(1, stream)
        values = factor(self.draw_rows(_N_REFERENCE, stream))
        size = np.linalg.norm(values) / np.sqrt(values.size)
        scale = np.sqrt(mean_square) / size if size > 0 else 0.0
        return replace(factor, weights=factor.weights * scale)


@dataclass(frozen=True)
class _Factor:
    """The functions a_1 … a_rank of one side: expansions over `centres` (c, features) with `weights` (c, rank)."""

    side: _Side
    centres: np.ndarray
    weights: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Evaluate at `rows` (n, features)."""
        return np.asarray(self.basis(rows) @ self.weights)

    def basis(self, rows: np.ndarray) -> np.ndarray:
        """Return the kernel (n, c) between rows and centres, which the weights multiply."""
        return self.side.gram(rows, self.centres)


@dataclass(frozen=True)
class _Truth:
    """True function of rows; `sign` is the sign of the mirror image, 0 for two separate sides."""

    first: _Factor
    second: _Factor
    sign: int
    mean: float = 0.0
    effects: tuple[_Factor, _Factor] | None = None

    @classmethod
    def draw(
        cls, side: _Side, task_side: _Side, sign: int, rank: int, stream: np.random.Generator
    ) -> _Truth:
        """Draw a function of `rank` terms with mean square 1, without mean and effects."""
        first = side.draw_factor(rank, stream)
        second = task_side.draw_factor(rank, stream)
        return _scaled(cls(first, second, sign), stream)

    def __call__(self, X: np.ndarray, tasks: np.ndarray | None = None) -> np.ndarray:
        """Return the truth (n, p) for instances `X` (n, features) and `tasks` (p, task features)."""
        if self.sign == 0 and tasks is None:
            raise ValueError(
                "function needs tasks: only a network has the same rows on both sides."
            )
        others = X if tasks is None else tasks
        truth = self.first(X) @ self.second(others).T
        if self.sign != 0 and tasks is None:
            # One product and its transpose keep the (anti)symmetry exact to the last bit.
            truth = truth + self.sign * truth.T
        elif self.sign != 0:
            truth = truth + self.sign * (self.second(X) @ self.first(others).T)
        truth = truth + self.mean
        if self.effects is not None:
            effect, task_effect = self.effects
            truth += effect(X) + (self.sign or 1) * task_effect(others).T
        return np.asarray(truth)


def _draw_effects(
    side: _Side, task_side: _Side, sign: int, mean_square: float, stream: np.random.Generator
) -> tuple[_Factor, _Factor] | None:
    """Draw the main effects of both sides, which are the same for a network; None for a mean square of 0."""
    if mean_square == 0:
        return None
    effect = side.draw_effect(mean_square, stream)
    if sign:
        return effect, effect
    return effect, task_side.draw_effect(mean_square, stream)


def _scaled(truth: _Truth, stream: np.random.Generator) -> _Truth:
    """Scale `truth` to mean square 1 over a reference sample."""
    rows = truth.first.side.draw_rows(_N_REFERENCE, stream)
    columns = rows
    if not truth.sign:
        columns = truth.second.side.draw_rows(_N_REFERENCE, stream)
    values = truth(rows, columns)
    size = np.linalg.norm(values) / np.sqrt(values.size)
    row_norm = np.linalg.norm(truth.first.basis(rows))
    column_norm = np.linalg.norm(truth.second.basis(columns))
    if size <= 1e-10 * row_norm * column_norm / np.sqrt(values.size):
        raise ValueError(
            "The truth drawn from these kernels is zero everywhere: use kernels under which "
            "different rows are similar but not equal, and more features."
        )
    return replace(truth, first=replace(truth.first, weights=truth.first.weights / size))


def _mirrored(values: Array, sign: int) -> np.ndarray:
    """Return a square array (n, n) made symmetric or antisymmetric from its upper triangle; unchanged if sign is 0."""
    if sign == 0:
        return np.asarray(values)
    upper = np.triu(values, 1)
    diagonal = np.diag(np.diag(values)) if sign > 0 else 0.0
    return np.asarray(upper + sign * upper.T + diagonal)


def _streams(random_state: Any) -> list[np.random.Generator]:
    """Return six independent random streams, from any kind of `random_state`."""
    if isinstance(random_state, np.random.Generator):
        entropy = int(random_state.integers(2**63))
    else:
        entropy = int(check_random_state(random_state).randint(2**31 - 1))
    return np.random.default_rng(entropy).spawn(6)
