r"""Base classes of the models of pairs, which are functions of the spectra of both sides.

With :math:`\mathbf{K} = \mathbf{U}\boldsymbol\Sigma\mathbf{U}^\top` and
:math:`\mathbf{G} = \mathbf{V}\mathbf{S}\mathbf{V}^\top`, each model multiplies the rotated labels
:math:`\mathbf{U}^\top\mathbf{Y}\mathbf{V}` entry by entry: by :math:`\varphi` for the coefficients, by :math:`f` for
the fitted grid and by :math:`1 - f` for the residual:

=================  =============================================================  ==================================
model              :math:`\varphi_{ij}`                                           :math:`1 - f_{ij}`
=================  =============================================================  ==================================
independent-task   :math:`\varphi_d(\sigma_i)`, no rotation of the tasks          :math:`1-f_d(\sigma_i)`
two-step, network  :math:`\varphi_d(\sigma_i)\,\varphi_t(s_j)`                    :math:`\rho_i + f_i\rho'_j`
pair kernels       :math:`1/(S_{ij} + \lambda)`                                    :math:`\lambda/(S_{ij}+\lambda)`
=================  =============================================================  ==================================

with :math:`S_{ij} = \sigma_i s_j` for Kronecker's, see `dyadlearn.pairing.pair_kernel`.

A model needs five members: `words`, `spectra`, `alphas`, `remainder` (the residual in the rotated
labels) and `coefficients`. All else is in other classes and modules:

==============================  ==================================================================================
`Pairing`                       the model: sides, regularisation, coefficients and predictions
`Coupled`                       grid operators (`dyadlearn.solve.operators`) from the remainder, for two sides
`dyadlearn.pairing.full`        functions for complete labels: hold-out, its cost, jackknife, weights of labels
`dyadlearn.pairing.incomplete`  functions for missing or weighted labels: completion, hold-out
`dyadlearn.pairing.weighing`    weights of labels in a prediction, for all forms of labels
`dyadlearn.pairing.new_labels`  predictions for new rows from a few of their labels
`dyadlearn.pairing.dense`       the reference implementation
==============================  ==================================================================================

These functions are `functools.singledispatch` functions of a model. Their defaults only need grid
operators, and some are slow. A model with a formula registers it in its module. No code outside of
this package checks the class of a model.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, ClassVar, Self, cast

import numpy as np

from dyadlearn._array import Array, largest, namespace
from dyadlearn._messages import Message
from dyadlearn._rounding import check_ridge, ratio
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.pairing.expansion import Expansion, Part
from dyadlearn.settings import Groups, Setting, check_groups
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import Smoother, Spectrum

# Largest relative rounding error of the smallest eigenvalue without a warning, for alpha = 0.
_UNSURE = 1e-4
# Largest relative rounding error of the divisor without a warning, for alpha > 0.
_ROUNDED = 1e-3


class Pairing(ABC):
    """Model of pairs with its spectra and its regularisation."""

    #: Description for messages, and the names of its sides.
    words: ClassVar[str]
    side_names: ClassVar[tuple[str, ...]] = ("instances", "tasks")
    #: Whether the model predicts for new tasks, so that it supports settings C and D.
    knows_tasks: ClassVar[bool] = True
    #: Kind of constant of the sides where there is an intercept, see `dyadlearn.spectrum`.
    constant: ClassVar[str] = "free"
    #: +1 or −1 if both sides are one node set and the labels equal plus or minus their transpose;
    #: else 0.
    symmetry: int = 0

    @property
    def smoothers(self) -> tuple[Smoother, ...]:
        """Smoothers of the sides; empty if the filter does not apply to each side separately."""
        return ()

    @property
    def spectra(self) -> tuple[Spectrum, ...]:
        """Spectra of the sides; by default those of the smoothers."""
        return tuple(side.spectrum for side in self.smoothers)

    @property
    def alphas(self) -> dict[str, float]:
        """Regularisations by their names; by default those of the smoothers."""
        return dict(
            zip(("alpha", "task_alpha"), (side.alpha for side in self.smoothers), strict=False)
        )

    @property
    def refits(self) -> bool:
        """Whether holding out equals fitting again, see `dyadlearn.filters.SpectralFilter.refits`."""
        return all(side.filter.refits for side in self.smoothers)

    @property
    def ranks(self) -> list[int]:
        """Numbers of eigenvectors of the sides."""
        return [int(spectrum.values.shape[0]) for spectrum in self.spectra]

    def at(self, *alphas: Any) -> Self:
        """Return the same model with other regularisations, in the order of `alphas`; those not given are unchanged."""
        changed = dict(zip(self.alphas, alphas, strict=False))
        return replace(self, **changed)  # type: ignore[type-var]

    @abstractmethod
    def coefficients(self, Y: Array) -> Array:
        """Return the coefficients of the predictions, for labels (m, q).

        Null directions of a kernel are ignored: every kernel row is zero along them.
        """

    def expansion(self, coefficients: Array) -> Expansion:
        """Return predictions for new rows from coefficients."""
        return Expansion(coefficients, *map(Part, self.spectra))

    @abstractmethod
    def dual(self, Y: Array) -> Array:
        """Return the dual parameters of the paper's linear system, null directions included, shape (m, q)."""

    @property
    def transposed(self) -> Pairing:
        """Model of the transposed labels, in which tasks are the instances, for models with task features."""
        return Transposed(operators_of(self))


def settings_of(model: Pairing) -> tuple[Setting, ...]:
    """Return the settings that a model supports."""
    return tuple(setting for setting in Setting if model.knows_tasks or 1 not in setting.new)


def check_request(model: Pairing, setting: Setting, groups: Groups, cells: Any = None) -> None:
    """Raise if a model does not support a setting, or does not support groups or cells in it."""
    if 1 in setting.new and not model.knows_tasks:
        raise ValueError(
            Message(
                "Setting {setting} leaves out tasks, but this model knows nothing of tasks: fit "
                "one that does, any but IndependentTaskRidge, with <tasks=>, or ask for setting A "
                "or B.",
                setting=setting.value,
            )
        )
    check_groups(setting, groups, cells)
    if model.symmetry and any(codes is not None for codes in (*groups, cells)):
        raise ValueError(
            "A network leaves out one edge or vertex at a time: groups and cells are not supported."
        )


def has_task_constants(model: Pairing) -> bool:
    """Return whether each task has a separate intercept, so that predictions of a task without labels are NaN."""
    return not model.knows_tasks and model.spectra[0].has_free_constant


@singledispatch
def side_scales(model: Pairing) -> tuple[float, ...]:
    """Return, for each side, the largest factor of its eigenvalues in the eigenvalues that the ridge is added to."""
    return (1.0,) * len(model.spectra)


@singledispatch
def side_ridges(model: Pairing) -> tuple[float, ...]:
    """Return the ridge that is added to the kernel of each of the `spectra`; the median if tasks have separate ones."""
    ridges = tuple(float(np.median(alpha)) for alpha in model.alphas.values())
    return (*ridges, *ridges)[: len(model.spectra)]


@singledispatch
def mean_eigenvalues(model: Pairing) -> dict[str, float]:
    """Return the mean eigenvalue of the kernel that each regularisation is added to, by the name of the regularisation.

    A model with a regularisation of each side adds it to the kernel of the side, another one to the
    pairwise kernel.
    """
    if len(model.alphas) == len(model.spectra):
        return {name: side.mean for name, side in zip(model.alphas, model.spectra, strict=True)}
    operators = operators_of(model)
    values = operators.kernel_values
    return dict.fromkeys(model.alphas, float(namespace(values).sum(values)) / operators.n_cells)


@singledispatch
def knows_new_pairs(model: Pairing) -> bool:
    """Return whether pairs of a new row and a new column share a function, or a mean, with other pairs."""
    return True


@singledispatch
def absorbs_weights(model: Pairing) -> bool:
    """Return whether weights of c for all labels are the same as a regularisation divided by c."""
    return False


def divided(model: Pairing, unit: float) -> Pairing | None:
    r"""Return the model whose regularisation is divided by a unit of the weights; None if weights have no unit.

    If the model minimises :math:`\sum_o w_o(f_o-y_o)^2 + \lambda\|f\|^2`, weights :math:`w/u` with
    :math:`\lambda/u` give the same predictions. In two-step ridge regression and with filters other
    than Tikhonov's, the penalty is no multiple of the regularisation.
    """
    if absorbs_weights(model):
        return model.at(model.alphas["alpha"] / unit)
    return None


def check_regularisation(model: Pairing) -> None:
    """Raise if a regularisation is too small for the precision of the kernels, and warn if results are inaccurate.

    Raises
    ------
    ValueError
        If alpha is positive but smaller than the rounding errors of the kernel.

    Warns
    -----
    PrecisionWarning
        If alpha is 0 and the smallest nonzero eigenvalue is dominated by rounding, or if alpha is
        positive and rounding of the kernel changes the divisor σ + alpha noticeably.
    """
    sides = zip(
        ("instance", "task"),
        [*model.alphas.items()] * 2,
        side_scales(model),
        model.spectra,
        strict=False,
    )
    for word, (name, alphas), scale, spectrum in sides:
        size = largest(spectrum.values)
        for alpha in map(float, np.unique(alphas)):
            check_ridge(name, alpha, scale * size, spectrum.values)
            share = 0.0
            if alpha > 0 and scale > 0:
                share = spectrum.rounding(alpha / scale)
            message: str | None = None
            if alpha == 0 and spectrum.uncertainty > _UNSURE:
                message = Message(
                    "The {word} kernel is nearly singular: with <{name}=0>, results may have a "
                    "relative error of {error:.0e}. Use a larger {name}.",
                    word=word,
                    name=name,
                    error=spectrum.uncertainty,
                )
            elif share > _ROUNDED:
                message = (
                    f"{name} = {alpha:g} is small beside the largest eigenvalue of the {word} "
                    f"kernel, {size:.3g}: with "
                    f"rounding of the kernel, results may have a relative error of "
                    f"{min(share, 1.0):.0e}. Use a "
                    f"larger {name}, or scale the features."
                )
            if message is not None:
                warnings.warn(message, PrecisionWarning, stacklevel=3)


def operators_of(model: Pairing) -> Coupled:
    """Return the grid operators of a model: a copy, with which the arrays of all pairs are cached and freed."""
    return replace(cast(Coupled, model))


@dataclass(frozen=True, eq=False)
class Coupled(Pairing, GridOperators):
    """Model that solves for the labels of all tasks together, with grid operators from the `remainder`."""

    @property
    def grid_spectra(self) -> tuple[Spectrum, Spectrum]:
        """Spectra of the rows and of the columns of a grid."""
        rows, columns = self.spectra
        return rows, columns

    @property
    def ridge(self) -> float:
        """The ridge that is added to the pairwise kernel: the regularisation of a model with one, else 1."""
        alphas = tuple(self.alphas.values())
        return alphas[0] if len(alphas) == 1 else 1.0

    def coefficients_of(self, spectral: Array, mean: float) -> Array:
        r"""Return the coefficients of a function of the training pairs, from its values X along pairs of directions.

        .. math:: f = \mathbf{U}(\sqrt S\circ\mathbf{X})\mathbf{V}^\top + \mu

        Parameters
        ----------
        spectral : array of shape (k, l)
            The matrix X.
        mean : float
            The unpenalised mean μ; 0 where there is none.
        """
        # Rotated labels of which the function is the fit.
        rotated = ratio(spectral * self.kernel_values**0.5, self.shrinkage)
        return self.coefficients(self.on_grid(rotated) + mean)

    def dual(self, Y: Array) -> Array:
        """Return the dual coefficients of the pairwise kernel with its ridge, shape (m, q)."""
        if not self.ridge:
            raise NotImplementedError(
                f"{type(self).__name__} must define dual for alpha=0, which leaves no residual."
            )
        return operators_of(self).residual(Y) / self.ridge


@dataclass(frozen=True, eq=False)
class Transposed(Coupled):
    """Model of transposed labels, from the members of the model of the labels."""

    words: ClassVar[str] = "a model of transposed labels"

    model: Coupled

    @property
    def spectra(self) -> tuple[Spectrum, ...]:
        """Spectra of tasks and instances."""
        return self.model.spectra[::-1]

    @property
    def alphas(self) -> dict[str, float]:
        """Regularisations, of tasks and instances if there are two."""
        return dict(zip(self.model.alphas, reversed(self.model.alphas.values()), strict=True))

    @property
    def free_mean(self) -> bool:
        """Whether the grand mean is unpenalised."""
        return self.model.free_mean

    @property
    def remainder(self) -> Array:
        """The transposed residual in the rotated labels."""
        return self.model.remainder.T

    def coefficients(self, Y: Array) -> Array:
        """Return the transposed coefficients."""
        return self.model.coefficients(Y.T).T

    def expansion(self, coefficients: Array) -> Expansion:
        """Return predictions for new rows from coefficients."""
        return self.model.expansion(coefficients.T).transposed
