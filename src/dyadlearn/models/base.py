"""Base classes of the estimators, whose methods read the fitted model `fitted_`."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags

from dyadlearn._array import Array, namespace
from dyadlearn._checks import check_alpha, check_choice
from dyadlearn._state import StoredEstimator
from dyadlearn.models.decomposing import fit_ridge
from dyadlearn.models.fitted import FittedRidge, as_fitted, predicting
from dyadlearn.models.intervals import predicted_intervals
from dyadlearn.models.reading import read_training
from dyadlearn.models.side import KernelSpec
from dyadlearn.models.spec import ModelSpec
from dyadlearn.settings import Setting


class Predictor(StoredEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator, stored=False):  # type: ignore[misc]
    """Base class of all models of a grid: predict, predict_pairs and score."""

    #: Whether the model is updated batch by batch; such a model stores statistics of the data, not
    #: the labels.
    grows = False

    #: Whether the model chooses its regularisation itself.
    searches = False

    #: Whether the model also learns its kernels from the labels.
    learns_kernels = False

    def predict(self, X: Any = None, tasks: Any = None) -> Any:
        """Predict the labels of every given instance with every given task.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel, default=None
            Instances, new or not: features, or their kernel with the training instances. None means
            the training instances, if the model stores them.
        tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q), default=None
            Tasks, new or not: features, or their kernel with the training tasks. None means the
            training tasks.

        Returns
        -------
        array or frame of shape (a, b)
            A frame if `X` or `tasks` is a frame, or if `X` is None and the training labels were a
            frame. The shape is (a,) if the training labels were one-dimensional and `tasks` is
            None.
        """
        table = predicting(self).predicted(X, tasks)
        return table.restore(table.values)

    def predict_pairs(self, X: Any, tasks: Any, pairs: Any) -> Array:
        """Predict the labels of the given pairs only.

        Parameters
        ----------
        X, tasks : as in `predict`
        pairs : array-like or frame of shape (n, 2)
            One instance and one task per row. They are ids if `X` or `tasks` is a frame with ids
            (for None: if the training labels had ids), and row positions otherwise.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn import IndependentTaskRidge
        >>> model = IndependentTaskRidge(alpha=1.0).fit(np.eye(2), np.array([[2.0, 4.0], [6.0, 8.0]]))
        >>> model.predict_pairs(np.eye(2), None, [(0, 1), (1, 0)])
        array([5., 5.])
        """
        return predicting(self).predicted_pairs(X, tasks, pairs)

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R², averaged over tasks.

        Parameters
        ----------
        X, tasks : as in `predict`
        y : array, frame or series of shape (a, b)
            True labels. Ids of its rows and columns are matched with those of `X` and `tasks`.
            Cells that are NaN are excluded, and so are tasks with fewer than two labels and tasks
            without predictions. In a sparse matrix, cells that are not stored are excluded.
        sample_weight : array of shape (a,), default=None
            Weights of the instances.

        Returns
        -------
        float
        """
        return predicting(self).score(X, y, tasks, sample_weight)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")


class TableModel(StoredEstimator, RegressorMixin, BaseEstimator, stored=False):  # type: ignore[misc]
    """Base class of models of long tables, whose columns hold ids."""

    #: Parameters with tables, which clones share: they may be large, and cross-validation clones
    #: the model for every fold.
    _shared: ClassVar[tuple[str, ...]]

    def __sklearn_clone__(self) -> Self:
        bare = copy.copy(self)
        for name in self._shared:
            setattr(bare, name, None)
        cloned: Self = BaseEstimator.__sklearn_clone__(bare)
        for name in self._shared:
            setattr(cloned, name, getattr(self, name))
        return cloned

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Columns of ids, not a matrix of features.
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


class GridModel(Predictor, stored=False):
    """Base class of kernel ridge models of a grid of labels, with an instance side and an optional task side.

    The attribute `fitted_` is the fitted model. A change of the model replaces it in one
    assignment, so that other threads read the old or the new model.
    """

    #: Whether a side may have several tables of descriptions.
    takes_descriptions = False

    # Parameters that not every model has.
    kernel: Any
    symmetry: str | None = None

    fitted_: FittedRidge

    @abstractmethod
    def _spec(self) -> ModelSpec:
        """Return the validated parameters, except the regularisation."""

    def _check_params(self) -> None:
        self._spec()

    def kernel_specs(self) -> tuple[KernelSpec, KernelSpec]:
        """Return the kernels of both sides, as the parameters give them."""
        return self._spec().kernels

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        """Number of features, or of training instances for a precomputed kernel."""
        return as_fitted(self).n_features

    @property
    def feature_names_in_(self) -> np.ndarray:  # type: ignore[override]
        """Column names; only if `X` was a frame and all its column names are strings."""
        names = as_fitted(self).feature_names
        if names is None:
            raise AttributeError("feature_names_in_ exists only if X was a frame with names.")
        return names

    def predict(
        self,
        X: Any = None,
        tasks: Any = None,
        *,
        labels: Any = None,
        diagonal: Any = None,
        task_diagonal: Any = None,
    ) -> Any:
        """Predict the labels of every given instance with every given task.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel, default=None
            Instances, new or not: features, or their kernel with the training instances. None means
            the training instances.
        tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q), default=None
            Tasks, new or not: features, or their kernel with the training tasks. None means the
            training tasks.
        labels : array or frame of shape (a, b), default=None
            Known labels of new instances with training tasks (``tasks=None``), or of training
            instances with new tasks (``X=None``); NaN means not known. The predictions are exactly
            those of a model that is fitted again with the new row and its labels, with the same
            kernels and regularisation. Each new row is added alone: its labels do not change the
            predictions for other rows. A frame is matched by ids, and may lack rows and columns
            without labels. Complete training labels have a formula; if some are missing or
            weighted, the model is solved once for each new row.
        diagonal, task_diagonal : array or series of shape (a,) and (b,), default=None
            Kernel of every row of `X`, or of `tasks`, with itself; required for `labels` with a
            precomputed kernel whose training diagonal is not constant.

        Returns
        -------
        array or frame of shape (a, b)
            A frame if `X` or `tasks` is a frame, or if `X` is None and the training labels were a
            frame. The shape is (a,) if the training labels were one-dimensional and `tasks` is
            None.
        """
        if labels is None:
            return super().predict(X, tasks)
        table = as_fitted(self).predicted_with(X, tasks, labels, (diagonal, task_diagonal))
        return table.restore(table.values)

    def holdout(
        self,
        setting: str | Setting,
        *,
        groups: Any = None,
        task_groups: Any = None,
        cells: Any = None,
    ) -> Any:
        """Predict every label of the training grid by a model that was fitted without it.

        The predictions are exact. They are computed from the fitted spectra without refitting. If
        labels are missing or weighted and there is no formula, each fold is hidden and the model is
        refitted.

        Parameters
        ----------
        setting : {"A", "B", "C", "D"} or an alias (see `dyadlearn.settings.as_setting`)
            What is left out to predict a cell: the pair alone (A), its instance (B), its task (C)
            or both (D).
        groups : array-like of shape (m,), "identical" or "similar:0.6", default=None
            Group of each instance (fold, cluster); a group is left out together. For B and D.
            "identical" leaves out instances with equal rows of the kernel together.
        task_groups : array-like of shape (q,), "identical" or "similar:0.6", default=None
            Group of each task; a group is left out together. For C and D.
        cells : array-like of shape (m, q), default=None
            Fold of each cell; a fold is left out together. For A. A sparse matrix stores a fold,
            which may be 0, for each label.

        Returns
        -------
        array or frame of shape (m, q) or (m,)
            Held-out predictions, of the type of the labels. They are NaN, with a `NoLabelWarning`,
            where an independent task has no other label from which to estimate its intercept. A
            model that was fitted on a list of observed pairs returns a sparse matrix with one
            prediction per pair. For such a model `cells` may also be an array with one fold per
            pair, ordered by row and column.

        Raises
        ------
        LeverageError
            If the model interpolates the labels that are left out (leverage 1).
        """
        fitted = as_fitted(self)
        return fitted.holdout(setting, groups=groups, task_groups=task_groups, cells=cells)

    def predict_interval(
        self,
        X: Any = None,
        tasks: Any = None,
        *,
        coverage: float = 0.9,
        setting: str | Setting | None = None,
        diagonal: Any = None,
        task_diagonal: Any = None,
    ) -> tuple[Any, Any]:
        """Return prediction intervals, computed from the held-out residuals of the same setting.

        Intervals for new instances (B) or new tasks (C) are jackknife+ intervals of leave-one-out,
        also if labels are missing or weighted and the hold-out of `evaluate` in this setting leaves
        out one row at a time. If it refits folds, they are CV+ intervals of these. They contain a
        new label with probability at least ``2 * coverage - 1`` (with folds slightly less), in
        practice about `coverage`, if rows (columns) are exchangeable and the regularisation was not
        chosen on them. If labels are missing, this holds for labels that would have been observed.
        Intervals for known pairs (A), for pairs that are new on both sides (D) and for networks are
        calibrated on the residuals of that setting and have no guarantee. All intervals are wider
        for rows that are far from the training rows. Nothing is refitted, except where hold-out
        refits, and results are cached. A model that was fitted on a list of observed pairs has
        these intervals if there are formulas in B and C and most rows and columns have nine labels;
        with fewer labels, and for other lists, intervals have one width per setting, from the
        residuals that `evaluate` scores, without a guarantee.

        Parameters
        ----------
        X, tasks : as in `predict`
        coverage : float, default=0.9
            Share of labels that the intervals should contain.
        setting : {"A", "B", "C", "D"} or an alias, default=None
            Which sides are new. With None, the ids decide: rows with a training id are known, all
            other rows are new, and rows without ids are new. ``X=None`` or ``tasks=None`` means the
            known training rows. For a known id the training features are used, whatever features
            are passed.
        diagonal, task_diagonal : array or series of shape (a,) and (b,), default=None
            Kernel of every row of `X`, or of `tasks`, with itself, for a precomputed kernel whose
            training diagonal is not constant. The distance of new rows from the training rows
            depends on it. Without it, all new rows have the median distance.

        Returns
        -------
        lower, upper : arrays or frames of shape (a, b)
            Bounds, of the type that `predict` returns. They are infinite, with an
            `UnboundedIntervalWarning`, if there are too few residuals for the coverage, and NaN
            where the prediction is NaN. For observed training labels they are centred on the
            held-out prediction, because the fitted prediction has used the label.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn import TwoStepRidge
        >>> rng = np.random.default_rng(0)
        >>> X, T = rng.normal(size=(60, 3)), rng.normal(size=(40, 2))
        >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(60, 40))
        >>> model = TwoStepRidge().fit(X[:40], Y[:40], tasks=T)
        >>> lower, upper = model.predict_interval(X[40:])
        >>> bool(0.85 < ((lower <= Y[40:]) & (Y[40:] <= upper)).mean() < 0.95)
        True
        """
        fitted = as_fitted(self)
        read = fitted.read(X, tasks, (diagonal, task_diagonal))
        return predicted_intervals(fitted, read, coverage, setting)

    @property
    def dual_coef_(self) -> Array:
        """Dual coefficients A of shape (m, q), or (m,) for one-dimensional labels."""
        fitted = as_fitted(self)
        return fitted.home(fitted.in_form(fitted.dual))

    @property
    def coef_(self) -> Array:
        """Primal coefficients W of shape (d, r); without a task side (d, q) or (d,). See `intercept_` for the formula.

        The attribute exists only if every side is solved in the primal.
        """
        fitted = as_fitted(self)
        if not fitted.is_primal:
            raise AttributeError(
                "coef_ exists only in the primal: linear kernels, fewer features than rows; see "
                "dual_coef_."
            )
        return interactions_of(fitted)

    @property
    def intercept_(self) -> Any:
        """Prediction where every feature, or kernel value, is zero: a number, or shape (q,) without a task side.

        A prediction is ``x @ W @ t + x @ instance_coef_ + task_coef_ @ t + intercept_``; without a
        task side it is ``x @ W + intercept_``. In the primal, x and t are the features of an
        instance and a task, after feature maps, and W is `coef_`. In the dual, they are kernel
        values with the training rows, and W is `dual_coef_`.
        """
        return intercept_of(as_fitted(self))

    @property
    def instance_coef_(self) -> Array:
        """Main effects of instances, which do not depend on the task: shape (d,) or (m,), see `intercept_`."""
        return main_effects_of(as_fitted(self), "instances")

    @property
    def task_coef_(self) -> Array:
        """Main effects of tasks, which do not depend on the instance: shape (r,) or (q,), see `intercept_`."""
        return main_effects_of(as_fitted(self), "tasks")

    @property
    def completed_(self) -> Any:
        """Labels where they are observed and predictions elsewhere, in the form the labels came in.

        Without weights, closed forms and hold-out formulas of the complete grid apply to these
        completed labels.
        """
        fitted = as_fitted(self)
        labels = fitted.grid_of("completed_").Y
        predicted = fitted.completed_problem.Y
        xp = namespace(labels)
        return fitted.form.restore(fitted.home(xp.where(xp.isnan(labels), predicted, labels)))

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver; 1 for a closed form or a dense system."""
        return max(1, as_fitted(self).solution.n_iter)

    @property
    def residual_(self) -> float:
        """Relative residual norm of the solved linear system, computed from the solution; 0 for a closed form."""
        return as_fitted(self).solution.residual

    def _fits(self) -> bool:
        spec = self.fitted_.spec
        return spec.name == type(self).__name__ and type(spec) is type(self._spec())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class RidgeModel(GridModel, stored=False):
    """Base class of kernel ridge models whose regularisation the user sets."""

    kernel: Any = "linear"
    kernel_params: dict[str, Any] | None = None
    fit_intercept: bool = True
    repair: str = "clip"
    device: str | None = None

    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model on a grid of labels, complete or with missing labels.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (m, d), or (m, m) for a precomputed kernel
            The instances: features, or the kernel between them.
        y : array, frame or series of shape (m, q) or (m,)
            Grid of labels Y. NaN, None and masked cells mean "not observed". Ids of its rows and
            columns are matched with those of `X` and `tasks`. In a sparse matrix, cells that are
            not stored are not observed; stored zeros are labels. The grid of a sparse matrix is not
            formed if it does not fit in memory or if computing on the pairs is cheaper, see
            `dyadlearn.solve.observed`.
        tasks : array, sparse matrix, frame or Tasks of shape (q, r) or (q, q), default=None
            The tasks: features, or the kernel between them. Without `tasks` there is no task side,
            and the model equals `IndependentTaskRidge`, which accepts and ignores `tasks`.
        sample_weight : array, series or frame of shape (m,), (q,) or (m, q), default=None
            Weights of instances, of tasks or of labels in the squared loss. Ids, else the length,
            tell instances from tasks; if neither does, a vector is of the instances, and a row (1,
            q) of the tasks. A cell of weight zero is treated as not observed. With a sparse `y`, a
            sparse matrix with one weight per label is accepted too.

        Returns
        -------
        self
        """
        spec = self._spec()
        alphas = self._checked_alphas(spec)
        self.fitted_ = fit_ridge(spec, read_training(spec, X, y, tasks, sample_weight), alphas)
        return self

    def set_alpha(self, alpha: Any = None, task_alpha: float | None = None) -> Self:
        """Change the regularisation of a fitted model without a new decomposition.

        Other threads may read the model at the same time: each method and attribute uses either the
        old or the new state, never a mixture. Two threads must not change the same model at the
        same time.

        Parameters
        ----------
        alpha, task_alpha : float, default=None
            New values; None keeps the current value. A model with one regularisation has no
            `task_alpha`. `IndependentTaskRidge` also accepts an array of shape (q,) as `alpha`.

        Returns
        -------
        self
        """
        fitted = as_fitted(self)
        spec = self._spec()
        asked = {"alpha": alpha, "task_alpha": task_alpha}
        asked = {name: value for name, value in asked.items() if value is not None}
        unknown = {name: value for name, value in asked.items() if name not in spec.alpha_names}
        if unknown:
            self.set_params(**unknown)  # raises
        changed = {name: spec.checked_alpha(value, name) for name, value in asked.items()}
        current = {name: getattr(self, name) for name in spec.alpha_names}
        solved = fitted.at(spec, spec.checked_alphas({**current, **changed}))
        self.set_params(**changed)
        self.fitted_ = solved
        return self

    def _checked_alphas(self, spec: ModelSpec) -> dict[str, Any]:
        """Return the regularisation that the user has set."""
        return spec.checked_alphas({name: getattr(self, name) for name in spec.alpha_names})

    def _check_params(self) -> None:
        self._checked_alphas(self._spec())


class ProcessModel(GridModel, stored=False):
    """Base class of models whose predictions are the posterior mean of a Gaussian process.

    Attributes
    ----------
    scale_ : float
        Scale of the Gaussian process in the units of the labels; the standard deviation of the
        noise of a label of weight w is ``scale_ * sqrt(alpha / w)``.
    """

    def predict(
        self,
        X: Any = None,
        tasks: Any = None,
        return_std: bool = False,
        *,
        labels: Any = None,
        diagonal: Any = None,
        task_diagonal: Any = None,
    ) -> Any:
        r"""Predict the labels of every given instance with every given task, optionally with standard deviations.

        The deviation is the posterior standard deviation of the *latent* function, that is, of the
        label without its noise (see `log_marginal_likelihood`). It is :math:`\hat\tau\sqrt{v}`,
        where v is the posterior variance and
        :math:`\hat\tau` is `scale_`. The deviation of a label of weight w is :math:`\hat\tau\sqrt{v + \lambda/w}`.
        Both are calibrated only if the labels follow this Gaussian process. Hold-out errors do not
        need that assumption. Deviations for missing or weighted labels take the memory and time of
        a dense inverse over the n observed labels.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel,
        default=None
            Instances: features, or their kernel with the training instances. None means the
            training instances. With `identity` or `per_instance`, only None includes the individual
            effects of instances.
        tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q), default=None
            Tasks: features, or their kernel with the training tasks. None means the training tasks.
            With `identity` or `per_task`, only None includes the individual effects of tasks.
        return_std : bool, default=False
            Whether to return deviations too.
        labels : array or frame of shape (a, b), default=None
            Known labels of new instances with training tasks, or of training instances with new
            tasks; NaN means not known. See `TwoStepRidge.predict`.
        diagonal, task_diagonal : array or series of shape (a,) and (b,), default=None
            Kernel of every row of `X`, or of `tasks`, with itself; required for deviations and for
            `labels` with a precomputed kernel whose training diagonal is not constant.

        Returns
        -------
        predictions : array or frame of shape (a, b)
            A frame if `X` or `tasks` is a frame. The shape is (a,) if the training labels were
            one-dimensional and `tasks` is None.
        deviations : array or frame of shape (a, b)
            Only with ``return_std=True``.

        Warns
        -----
        PrecisionWarning
            If a variance is negative by more than rounding errors: a kernel is not positive
            semi-definite, or `diagonal` belongs to another kernel. Also if `alpha` is so small that
            rounding changes deviations for missing or weighted labels.

        Raises
        ------
        NotEnoughMemoryError
            If some labels are missing or weighted, and a matrix of n × n observed labels does not
            fit into memory.
        """
        if not return_std:
            return super().predict(
                X, tasks, labels=labels, diagonal=diagonal, task_diagonal=task_diagonal
            )
        if labels is not None:
            raise ValueError(
                "return_std gives deviations without labels of new rows: leave return_std or "
                "labels out."
            )
        fitted = as_fitted(self)
        process, values = fitted.process()
        form, rows = fitted.read(X, tasks, (diagonal, task_diagonal))
        variance = process.variance(*rows, *fitted.priors(rows))
        deviations = namespace(variance).sqrt(variance)
        deviations *= process.scale(values)
        predictions = fitted.predict(*rows)
        return form.restore(fitted.home(predictions)), form.restore(fitted.home(deviations))

    @property
    def scale_(self) -> float:
        r"""Scale :math:`\hat\tau` of the Gaussian process, in the units of the labels.

        .. math:: \hat\tau^2 = \frac{\langle\mathbf{Y}, \mathbf{A}\rangle}{n - 1}

        **A** are the dual coefficients and n is the number of observed labels; without an intercept
        the denominator is n. The standard deviation of the noise of a label of weight w is
        :math:`\hat\tau\sqrt{\lambda/w}`.
        """
        fitted = as_fitted(self)
        try:
            process, values = fitted.process()
            return process.scale(values)
        except ValueError as error:  # hasattr expects AttributeError
            raise AttributeError(f"scale_ does not exist. {error}") from error

    def log_marginal_likelihood(
        self, *, method: str = "restricted", scale: float | None = None, eval_gradient: bool = False
    ) -> Any:
        r"""Return the log marginal likelihood of the training labels under the Gaussian process of the model.

        .. math:: \mathrm{vec}(\mathbf{Y}) \sim
                  \mathcal{N}\bigl(\mu\mathbf{1},\; \tau^2(\mathbf{P} + \lambda\mathbf{I})\bigr),

        where **P** is the kernel between all pairs. If labels are missing, **Y** and **P** are
        those of the n observed pairs. The noise of a label of weight w is :math:`\lambda/w` instead
        of λ. Without an intercept, μ is zero and both methods give the same value. The likelihood
        of missing or weighted labels takes the memory and time of a dense inverse over the n
        labels.

        Parameters
        ----------
        method : {"restricted", "profile"}, default="restricted"
            Treatment of the free mean μ: integrate it out with a flat prior, or set it to its most
            likely value. Restricted likelihoods of a model with an intercept and of one without
            cannot be compared.
        scale : float, default=None
            Scale τ, in the units of the labels. None means its most likely value, which equals
            `scale_` if the mean is integrated out.
        eval_gradient : bool, default=False
            Whether to return the gradient too.

        Returns
        -------
        value : float
        gradient : dict
            Only with ``eval_gradient=True``: derivatives with respect to the logarithms of
            ``alpha``, of the shares
            ``product``, ``per_task`` and ``per_instance`` (the derivative of a zero share is zero), and of ``scale`` if
            it is given. The derivative with respect to a common factor of all kernels is the sum of
            the derivatives of the shares.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn import KroneckerRidge
        >>> rng = np.random.default_rng(0)
        >>> X, T = rng.normal(size=(20, 3)), rng.normal(size=(15, 2))
        >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(20, 15))
        >>> model = KroneckerRidge().fit(X, Y, tasks=T)
        >>> likely = [model.set_alpha(alpha).log_marginal_likelihood() for alpha in (1e-3, 1.0, 1e3)]
        >>> int(np.argmax(likely))
        1
        """
        check_choice(method, "method", ("restricted", "profile"))
        if scale is not None and check_alpha(scale, "scale") == 0:
            raise ValueError("scale must be above 0, found 0: give a positive number, or None.")
        process, values = as_fitted(self).process()
        value, gradient = process.log_likelihood(
            values, restricted=method == "restricted", scale=scale
        )
        return (value, gradient) if eval_gradient else value


# Coefficients, for models that store them and for online models -----------------------------------------------


def interactions_of(fitted: Any) -> Array:
    """Return the coefficients W of the interactions of a fitted model."""
    interactions = fitted.effects.interactions
    return fitted.home(interactions if fitted.knows_tasks else fitted.in_form(interactions))


def intercept_of(fitted: Any) -> Any:
    """Return the constant, or the constant of each task, of a fitted model."""
    constants = fitted.effects.constants
    if constants is None:
        return 0.0
    if fitted.knows_tasks or fitted.form.is_vector:
        return float(constants[0])
    return fitted.home(constants)


def main_effects_of(fitted: Any, side: str) -> Array:
    """Return the main effects of a side of a fitted model; raise AttributeError if it has none."""
    effects = getattr(fitted.effects, side)
    if effects is None:
        name = {"instances": "instance_coef_", "tasks": "task_coef_"}[side]
        raise AttributeError(f"{name} exists only with fit_intercept=True and a task side.")
    return fitted.home(effects)
