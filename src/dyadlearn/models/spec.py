"""Validated parameters of ridge models, from which they are fitted and which fitted models keep.

An estimator makes one specification at each fit. The specification knows how to make the pairing of
decomposed sides and a regularisation; it knows nothing of scikit-learn, data or ids.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dyadlearn._checks import check_alpha, check_alphas, check_choice, check_flag, check_whole
from dyadlearn._messages import Message
from dyadlearn._state import Stored
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.holdout import Problem
from dyadlearn.labels import Labels
from dyadlearn.models.side import KernelSpec, Side
from dyadlearn.pairing import Independent, Kronecker, Network, Pairing, PairKernel, TwoStep

#: Constants that are added to the kernel of the instances and to that of the tasks.
Constants = tuple[float, float]
#: Shares of the product kernel, of the kernel per task and of the kernel per instance.
Shares = tuple[float, float, float]

#: How to fix a model that was fitted without tasks; the end of error messages.
WITH_TASKS = Message("fit it with <tasks=>, the features or kernel of the training tasks.")

#: Constants of kernels whose constants were not given.
NO_CONSTANTS: Constants = (1.0, 1.0)

_ALPHAS = ("alpha", "task_alpha")


def dual_kernels(
    kernels: tuple[KernelSpec, KernelSpec],
    shares: Sequence[Shares],
    constants: Sequence[Constants] = (),
) -> tuple[KernelSpec, KernelSpec]:
    """Return kernels, in the dual where identities or constants of zero need all directions.

    Parameters
    ----------
    kernels : (KernelSpec, KernelSpec)
    shares : sequence of Shares
        All shares that the decomposed sides are used with.
    constants : sequence of Constants
        All constants that are added to the kernels.
    """
    # Ones are no combination of a few features, and the mean needs them.
    rows_dual = any(share[2] > 0 for share in shares)
    columns_dual = any(share[1] > 0 for share in shares)
    rows_dual |= any(level == 0 for level, _ in constants)
    columns_dual |= any(level == 0 for _, level in constants)
    return replace(kernels[0], dual=rows_dual), replace(kernels[1], dual=columns_dual)


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelSpec(Stored, stored=False):
    """Validated parameters of a ridge model, except its regularisation.

    Attributes
    ----------
    name : str
        Class of the estimator, for messages.
    kernels : (KernelSpec, KernelSpec)
        Kernels of the instances and of the tasks.
    repair : {"clip", "shift", "error"}
        Treatment of kernels that are not positive semi-definite.
    fit_intercept : bool
    device : str or None
        Device that computes with numpy arrays.
    stopping : dict
        Stopping rule of the iterative solver; empty for models without one.
    """

    name: str
    kernels: tuple[KernelSpec, KernelSpec]
    repair: str
    fit_intercept: bool
    device: str | None
    stopping: dict[str, Any] = field(default_factory=dict)

    #: How to fix a model without a task side; the end of error messages.
    tasks_remedy: ClassVar[str] = WITH_TASKS
    #: The same for a search.
    search_remedy: ClassVar[str] = WITH_TASKS
    #: Whether the model can be fitted on a list of observed pairs, without forming the grid.
    takes_pairs: ClassVar[bool] = True
    #: Names of the regularisations.
    alpha_names: ClassVar[tuple[str, ...]] = ("alpha",)

    #: Constants of the kernels.
    constants: Constants = NO_CONSTANTS

    @abstractmethod
    def pairing_type(self, has_tasks: bool) -> type[Pairing]:
        """Return the class of the pairing that `pairing` will return."""

    @abstractmethod
    def pairing(self, sides: tuple[Side, ...], alphas: Mapping[str, Any]) -> Pairing:
        """Return the pairing: the model of pairs with these sides and this regularisation."""

    @property
    def uses_tasks(self) -> bool:
        """Whether the model uses features of the tasks if there are any."""
        return self.pairing_type(True).knows_tasks

    @property
    def sign(self) -> int:
        """Sign s of a network's labels, Y = s Yᵀ; 0 if the model is not a network."""
        return 0

    def constant(self, has_tasks: bool) -> str | None:
        """Return the kind of constant of the sides, see `dyadlearn.spectrum`; None without an intercept."""
        if self.fit_intercept:
            return self.pairing_type(has_tasks).constant
        return None

    def problem(
        self, sides: tuple[Side, ...], labels: Labels, alphas: Mapping[str, Any]
    ) -> Problem:
        """Return the problem of sides, labels and a regularisation, with the solver's stopping rule."""
        return Problem.scaled(self.pairing(sides, alphas), labels, **self.stopping)

    def checked_alphas(self, alphas: Mapping[str, Any]) -> dict[str, Any]:
        """Return regularisations as numbers; raise if one is negative or not a number."""
        return {name: self.checked_alpha(value, name) for name, value in alphas.items()}

    def checked_alpha(self, value: Any, name: str) -> Any:
        """Return a regularisation as a float; raise if it is negative or not a number."""
        return check_alpha(value, name)

    def check(self) -> None:
        """Raise if a parameter has a wrong value."""
        check_flag(self.fit_intercept, "fit_intercept")
        check_choice(self.repair, "repair", ("clip", "shift", "error"))
        if self.device is not None and not isinstance(self.device, str):
            raise TypeError(
                f'device must be the name of a device such as "cuda", or None, found '
                f"{self.device!r}."
            )
        checks = {"tol": check_alpha, "max_iter": check_whole}
        for name, value in self.stopping.items():
            checks[name](value, name)

    def _fits(self) -> bool:
        self.check()
        return set(self.stopping) in (set(), {"tol", "max_iter"})


@dataclass(frozen=True, eq=False, kw_only=True)
class IndependentSpec(ModelSpec):
    """Validated parameters of independent-task ridge regression.

    Attributes
    ----------
    filter : SpectralFilter
    """

    filter: SpectralFilter

    tasks_remedy: ClassVar[str] = "use TwoStepRidge or KroneckerRidge."
    search_remedy: ClassVar[str] = "use TwoStepRidgeCV or KroneckerRidgeCV."

    def pairing_type(self, has_tasks: bool) -> type[Pairing]:
        """Return the class of the pairing."""
        return Independent

    def pairing(self, sides: tuple[Side, ...], alphas: Mapping[str, Any]) -> Pairing:
        """Return the pairing."""
        alpha = self.checked_alpha(alphas["alpha"], "alpha")
        return Independent.of(sides[0].spectrum, self.filter, alpha)

    def problem(
        self, sides: tuple[Side, ...], labels: Labels, alphas: Mapping[str, Any]
    ) -> Problem:
        """Return the problem; raise if there is not one regularisation, or one for each task."""
        alpha = self.checked_alpha(alphas["alpha"], "alpha")
        n_tasks = labels.shape[1]
        if np.shape(alpha) not in ((), (n_tasks,)):
            raise ValueError(
                f"alpha has {len(alpha)} values, but Y has {n_tasks} tasks: give one, or one per "
                f"task."
            )
        return super().problem(sides, labels, alphas)

    def checked_alpha(self, value: Any, name: str) -> Any:
        """Return one regularisation as a float, or several as an array."""
        if np.ndim(value) == 0:
            return super().checked_alpha(value, name)
        return np.asarray(check_alphas(value, name))


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoStepSpec(ModelSpec):
    """Validated parameters of two-step ridge regression.

    Attributes
    ----------
    filters : (SpectralFilter, SpectralFilter)
        Spectral filter of each side.
    shares : Shares
        Shares of the identity, as those of a pair kernel.
    symmetry : {"symmetric", "antisymmetric"} or None
        Symmetry of the labels of a network.
    """

    filters: tuple[SpectralFilter, SpectralFilter]
    shares: Shares
    symmetry: str | None

    alpha_names: ClassVar[tuple[str, ...]] = _ALPHAS

    def pairing_type(self, has_tasks: bool) -> type[Pairing]:
        """Return the class of the pairing."""
        if self.symmetry is not None:
            return Network
        return TwoStep if has_tasks else Independent

    def pairing(self, sides: tuple[Side, ...], alphas: Mapping[str, Any]) -> Pairing:
        """Return the pairing."""
        _, per_task, per_instance = self.shares
        spectrum = sides[0].spectrum.with_identity(per_instance)
        rows = spectrum.smoother(self.filters[0], alphas["alpha"])
        if self.symmetry is not None:
            return Network.of(rows, self.sign)
        if len(sides) == 1:
            return Independent(rows)
        columns = sides[1].spectrum.with_identity(per_task)
        return TwoStep(rows, columns.smoother(self.filters[1], alphas["task_alpha"]))

    @property
    def sign(self) -> int:
        """Sign s of a network's labels, Y = s Yᵀ; 0 if the model is not a network."""
        return {None: 0, "symmetric": 1, "antisymmetric": -1}[self.symmetry]

    def checked_alphas(self, alphas: Mapping[str, Any]) -> dict[str, Any]:
        """Return regularisations as numbers; those of both sides of a network are equal."""
        checked = super().checked_alphas(alphas)
        if self.symmetry is not None:
            one_alpha(checked.get("alpha"), checked.get("task_alpha"))
        return checked

    def check(self) -> None:
        """Raise if a parameter has a wrong value."""
        super().check()
        check_shares(self.shares)
        if self.symmetry is None:
            return
        check_choice(self.symmetry, "symmetry", ("symmetric", "antisymmetric"))
        _, per_task, per_instance = self.shares
        if per_task != per_instance:
            raise ValueError(
                f"A network has one kernel: give one number as identity, found "
                f"{(per_instance, per_task)!r}."
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class PairKernelSpec(ModelSpec):
    """Validated parameters of ridge regression with a kernel between pairs.

    Attributes
    ----------
    shares : Shares
        Shares of the product kernel, of the kernel per task and of the kernel per instance.
    is_kronecker : bool
        Whether the model is that of a product kernel if the other shares are zero, with fewer
        directions than that of a sum of kernels.
    """

    shares: Shares
    is_kronecker: bool = False

    def pairing_type(self, has_tasks: bool) -> type[Pairing]:
        """Return the class of the pairing."""
        return self.kernel_type if has_tasks else Independent

    @property
    def kernel_type(self) -> type[PairKernel]:
        """Class of the pairing with tasks."""
        if self.is_kronecker and not any(self.shares[1:]):
            return Kronecker
        return PairKernel

    def pairing(self, sides: tuple[Side, ...], alphas: Mapping[str, Any]) -> Pairing:
        """Return the pairing."""
        spectrum = sides[0].spectrum
        alpha = alphas["alpha"]
        if len(sides) == 1:
            return Independent.of(spectrum, Tikhonov(), alpha)
        has_constant = sides[0].spec.constant is not None
        return self.kernel_type(spectrum, sides[1].spectrum, alpha, self.shares, has_constant)

    def check(self) -> None:
        """Raise if a parameter has a wrong value."""
        super().check()
        check_shares(self.shares)


def one_alpha(alpha: float | None, task_alpha: float | None) -> float | None:
    """Return the regularisation of a network; raise if those of both sides differ."""
    if alpha is not None and task_alpha is not None and alpha != task_alpha:
        raise ValueError(
            Message(
                "A network has one regularisation for both sides: set "
                "<task_alpha={task_alpha!r}> equal to <alpha={alpha!r}>.",
                task_alpha=task_alpha,
                alpha=alpha,
            )
        )
    return task_alpha if alpha is None else alpha


def checked_filter(filter: SpectralFilter | None, name: str) -> SpectralFilter:
    """Return the filter; `Tikhonov` if it is None."""
    if filter is None:
        return Tikhonov()
    if not isinstance(filter, SpectralFilter):
        raise TypeError(f"{name} must be a spectral filter such as Tikhonov(), found {filter!r}.")
    return filter


def identity_shares(identity: Any) -> Shares:
    """Return the shares of a pair kernel with shares of the identity in its kernels, one number or two."""
    if np.ndim(identity) == 0:
        pair = (identity, identity)
    else:
        pair = tuple(identity)
    if len(pair) != 2:
        raise ValueError(
            f"identity must be one number, or two for instances and tasks, found {identity!r}."
        )
    per_instance, per_task = (check_alpha(share, "identity") for share in pair)
    return 1.0, per_task, per_instance


def check_shares(shares: Any) -> Shares:
    """Return three shares as floats; raise if one is negative or all are zero."""
    if np.shape(shares) != (3,):
        raise ValueError(
            f"shares must be triples (product, per_task, per_instance), found {shares!r}."
        )
    a, b, c = map(check_alpha, shares, ("product", "per_task", "per_instance"))
    if not any((a, b, c)):
        raise ValueError(
            "product, per_task and per_instance are all zero, which leaves no kernel: set one "
            "above 0."
        )
    return a, b, c


def check_constants(constants: Any, where: str = "constants") -> Constants:
    """Return one constant for both kernels, or one for each, as a pair; raise if one is negative or no number.

    `where` names the parameter, or an entry of it, in messages.
    """
    if not isinstance(constants, list | tuple) and getattr(constants, "ndim", 0) == 0:
        level = check_alpha(constants, where)
        return level, level
    if len(constants) != 2:
        raise ValueError(
            f"{where} must be one number, or two for instances and tasks, found {constants!r}."
        )
    first, second = (check_alpha(level, where) for level in constants)
    return first, second
