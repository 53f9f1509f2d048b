"""Ridge regression on cells of any number of sides, with terms, fixed effects and variance components."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.metadata_routing import UNUSED

from dyadlearn._checks import check_alpha, check_choice, check_flag, check_share, check_whole
from dyadlearn._codes import Column
from dyadlearn._columns import chosen, ids_of, read_columns
from dyadlearn._tables import in_rows_of, index_of_rows, shown
from dyadlearn.labels import values_of_rows, weights_of_rows
from dyadlearn.models.base import TableModel
from dyadlearn.models.cells import CellSide, FixedColumns, side_kernel
from dyadlearn.models.fitted import as_fitted
from dyadlearn.models.fitted_multiway import FittedMultiway, LikelihoodRatio
from dyadlearn.pairing.multiway import RESIDUAL, canonical, parse_terms

_ESTIMATED = ("likelihood", "holdout")


class MultiwayRidge(TableModel):
    r"""Ridge regression on cells of any number of sides, with terms, fixed effects and variance components.

    A label belongs to a cell, one level of each side: a mother, a father and an environment. The
    label is a sum of fixed effects, of an effect of each *term*, a side or an interaction of sides,
    and of noise,

    .. math:: \mathbf{y} = \mathbf{X}\boldsymbol\beta + \sum_T \mathbf{u}_T + \mathbf{e}, \qquad
              \mathrm{Cov}(\mathbf{u}_T) = v_T \prod_{s \in T} \mathbf{K}_s, \qquad
              \mathrm{Var}(e) = v_e / w .

    With a kernel for each side it predicts cells whose levels have no label, and `holdout` is exact
    in all settings: for every label, the prediction without all labels that share its level of any
    of the new sides. It takes one dense inverse over the n labels.

    Parameters
    ----------
    terms : str, or list of str or of lists of str, default=None
        Names of columns with ``+`` between terms, such as ``"mother + father + mother:father"``.
        ``a:b`` is the interaction of two sides, and ``a*b`` is short for ``a + b + a:b``. None
        means a main effect of every column that is not fixed.
    entities : dict of str to table, default=None
        For each side with a description, features of its levels or the kernel between them, with
        ids as in `PairRegressor`. The levels of a side without one have independent effects: its
        kernel is the identity.
    kernels : dict of str to str or callable, default=None
        Kernel of each side with a description: a name of `dyadlearn.kernels.kernel_names`,
        ``"precomputed"``, or a function of two tables. The default is ``"linear"``.
    kernel_params : dict of str to dict, default=None
        Parameters of the kernel of each side.
    fixed : str or sequence of str, default=()
        Columns with fixed effects: numbers, or categories if they are text, booleans or a
        categorical column.
    variances : {"likelihood", "holdout"} or dict of str to float, default="likelihood"
        Variance of each term. The restricted likelihood estimates them with standard errors;
        ``"holdout"`` minimises the squared held-out error with the sides `new`; a dict gives a
        number for each term and for ``"residual"``, which is 1 by default.
    new : str or sequence of str, default=()
        Sides that are left out, for ``variances="holdout"``.
    symmetric : (str, str), default=None
        Two sides with the same levels whose order does not matter, such as the parents of a hybrid.
        A main effect of one is that of both, see `dyadlearn.kernels.pairs_of`.
    fit_intercept : bool, default=True
        Whether there is a constant that is not penalised.
    repair : {"clip", "shift", "error"}, default="clip"
        Treatment of kernels that are not positive semi-definite.
    device : str, default=None
        Device such as ``"cuda"`` that computes with torch or cupy.
    max_iter : int, default=100
        Most iterations of the restricted likelihood.

    Attributes
    ----------
    fitted_ : FittedMultiway
        The fitted model.
    variances_, standard_errors_ : dict of str to float
        Variance of each term and of the noise of a label of weight one, for the kernels as they
        are; standard errors are NaN where there are none.
    log_likelihood_ : float
        Restricted log likelihood; it does not depend on the coding of the fixed columns.
    fixed_effects_ : dict of str to float
        Coefficients of the fixed columns; the smallest ones if they are confounded.
    terms_, sides_ : tuple of str
        Names of the terms and of the sides.
    n_features_in_ : int
        Number of columns of the training table that the model uses.

    See Also
    --------
    KroneckerRidge, PairKernelRidge : two sides, at scale, without fixed columns.

    Notes
    -----
    Memory is :math:`8n^2` bytes, twice that for variances, and time :math:`n^3` for each step of
    the likelihood. A variance below 1e-6 of the total is zero and has no standard error. Terms that
    are confounded on the labels are refused by name if variances are estimated, and so are levels
    that only a fixed effect describes where these are left out or predicted.

    With ``terms="a*b"`` and equal variances the model is `KroneckerRidge`, and with ``terms="a:b"``
    and ``fit_intercept=False`` the same model without an intercept. `PairKernelRidge` has terms
    ``"a:b + a:task + instance:b"``, where the columns `instance` and `task` repeat a and b and have
    no entities.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import MultiwayRidge
    >>> rng = np.random.default_rng(0)
    >>> cells = {name: rng.integers(0, 12, 300).astype(str) for name in ("mother", "father", "trial")}
    >>> effects = {name: rng.normal(size=12) for name in cells}
    >>> y = sum(effects[name][column.astype(int)] for name, column in cells.items())
    >>> y = y + 0.5 * rng.normal(size=300)
    >>> model = MultiwayRidge("mother + father", fixed="trial").fit(cells, y)
    >>> {name: round(variance, 2) for name, variance in model.variances_.items()}
    {'mother': 0.51, 'father': 1.09, 'residual': 0.24}
    >>> held_out = model.holdout(new=("mother", "father"))
    >>> model.predict({"mother": ["new"], "father": ["3"], "trial": ["7"]}).shape
    (1,)
    """

    # scikit-learn treats a first argument that is not called X as metadata.
    __metadata_request__fit = {"table": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"table": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"table": UNUSED}  # noqa: RUF012

    fitted_: FittedMultiway
    _shared = ("entities",)

    def __init__(
        self,
        terms: Any = None,
        *,
        entities: Any = None,
        kernels: Any = None,
        kernel_params: Any = None,
        fixed: Any = (),
        variances: Any = "likelihood",
        new: Any = (),
        symmetric: Any = None,
        fit_intercept: bool = True,
        repair: str = "clip",
        device: str | None = None,
        max_iter: int = 100,
    ) -> None:
        self.terms = terms
        self.entities = entities
        self.kernels = kernels
        self.kernel_params = kernel_params
        self.fixed = fixed
        self.variances = variances
        self.new = new
        self.symmetric = symmetric
        self.fit_intercept = fit_intercept
        self.repair = repair
        self.device = device
        self.max_iter = max_iter

    def fit(self, table: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model on a long table of cells.

        Parameters
        ----------
        table : frame, dict of columns, or array of shape (n, c)
            A row for each label, and a column for each side and fixed effect; the columns of an
            array are called x0, x1 and so on. A cell may have several rows.
        y : array, list or series of shape (n,)
            Labels. Rows with NaN are left out. A series of pandas must have the index of a frame,
            in the same order; the default index 0, 1, 2, … goes by position beside other ids.
        sample_weight : array, list or series of shape (n,), default=None
            Weights w of the labels, at least 0. Rows of weight 0 are left out.

        Returns
        -------
        self
        """
        self.fitted_ = _read(self, table, y, sample_weight).estimated()
        return self

    def _check_params(self) -> None:
        check_flag(self.fit_intercept, "fit_intercept")
        check_choice(self.repair, "repair", ("clip", "shift", "error"))
        check_whole(self.max_iter, "max_iter")
        if not isinstance(self.variances, Mapping) and self.variances not in _ESTIMATED:
            raise ValueError(
                f"variances must be 'likelihood', 'holdout' or a dict with a number for each term, "
                f"found {self.variances!r}."
            )

    # --- predictions ------------------------------------------------------------------------------

    def predict(self, table: Any, return_std: bool = False) -> Any:
        """Predict the labels of cells, optionally with standard deviations.

        Parameters
        ----------
        table : frame, dict of columns, or array
            A row for each cell, with the columns of the training table. A level of a side without a
            description may be new: its effect is then zero.
        return_std : bool, default=False
            Whether to return the standard deviations of the prediction errors too, for a label
            without its noise. They include those of the fixed effects, but not of the variances.

        Returns
        -------
        predictions : array of shape (a,)
        deviations : array of shape (a,)
            Only with ``return_std=True``.
        """
        fitted = as_fitted(self)
        asked = fitted.asked(table)
        if return_std:
            return fitted.means(asked), fitted.deviations(asked)
        return fitted.means(asked)

    def score(self, table: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of predictions.

        Parameters
        ----------
        table : as in `predict`
        y, sample_weight : as in `fit`

        Returns
        -------
        float
        """
        y = in_rows_of(y, table, "y", "the table")
        sample_weight = in_rows_of(sample_weight, table, "sample_weight", "the table")
        return float(super().score(table, y, sample_weight))

    def predict_interval(
        self, table: Any, *, coverage: float = 0.9, new: Any = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return prediction intervals of cells of which some sides are new.

        If no side or one side is new, they are jackknife+ intervals of leave-one-out, which contain
        a label with probability at least ``2 * coverage - 1``, in practice about `coverage`, if
        levels are exchangeable. With several new sides they have the width of the held-out
        residuals, without a guarantee.

        Parameters
        ----------
        table : as in `predict`
        coverage : float, default=0.9
        new : str or sequence of str, default=()
            Sides that are new.

        Returns
        -------
        lower, upper : arrays of shape (a,)
        """
        coverage = check_share(coverage, "coverage")
        fitted = as_fitted(self)
        return fitted.bounds(fitted.asked(table), fitted.setting(new), coverage)

    def contributions(self, table: Any = None) -> dict[str, np.ndarray]:
        """Return the parts of predictions: that of the fixed effects, and that of each term.

        Parameters
        ----------
        table : as in `predict`, default=None
            None means the cells of the labels.

        Returns
        -------
        dict of str to array of shape (a,)
            Their sum is the prediction.
        """
        fitted = as_fitted(self)
        parts = fitted.contributions(fitted.asked(table))
        return dict(zip(("fixed", *fitted.term_names), parts.T, strict=True))

    def effects(self, term: str, table: Any = None) -> dict[str, Any]:
        """Return the effects of a term, such as the breeding values of all mothers.

        Parameters
        ----------
        term : str
            Name of a term, such as ``"mother"`` or ``"mother:father"``.
        table : frame or dict of columns, default=None
            Levels of the sides of the term. None means all levels of a side, also those without a
            label, or the combinations of an interaction that have a label.

        Returns
        -------
        dict of str to list or array
            Columns of a data frame: a column for each side of the term, ``effect``, ``std``, the
            standard deviation of its error, and ``reliability``, the squared correlation of the
            predicted and the true effect.
        """
        return as_fitted(self).effects(term, table)

    def label_weights(self, table: Any) -> np.ndarray:
        """Return the weight of each label in each prediction, shape (a, n_rows); 0 for rows that were left out."""
        fitted = as_fitted(self)
        weights = np.zeros((fitted.asked(table).size, fitted.n_rows))
        weights[:, fitted.rows] = fitted.label_weights(fitted.asked(table))
        return weights

    def holdout(self, new: Any = (), *, groups: Any = None) -> np.ndarray:
        """Predict every label by the model that was fitted without all labels that share a new level with it.

        The predictions are exact, with the variances and kernels of the model.

        Parameters
        ----------
        new : str or sequence of str, default=()
            Sides that are new. None of them means a new cell: all labels of the cell are left out.
        groups : dict of str to array-like of shape (n_rows,), or array-like, default=None
            For a new side, the group of the level of each row; a group is left out together. An
            array without a new side is the fold of each row. A series of pandas must have the index
            of the training table, in the same order, as `y` in `fit`; a model that was read from a
            file has no index, and takes groups by position.

        Returns
        -------
        array of shape (n_rows,)
            NaN for rows that were left out of the fit.

        Raises
        ------
        ValueError
            If the other labels do not determine a fixed effect.
        """
        fitted = as_fitted(self)
        held_out = np.full(fitted.n_rows, np.nan)
        held_out[fitted.rows] = fitted.held_out(fitted.units(fitted.setting(new), groups))
        return held_out

    # --- variances --------------------------------------------------------------------------------

    @property
    def variances_(self) -> dict[str, float]:
        """Variance of each term and of the noise of a label of weight one."""
        fitted = as_fitted(self)
        return dict(zip(fitted.variance_problem.names, fitted.variances.tolist(), strict=True))

    @property
    def standard_errors_(self) -> dict[str, float]:
        """Standard error of each variance; NaN where there is none."""
        fitted = as_fitted(self)
        return dict(zip(fitted.variance_problem.names, fitted.errors.tolist(), strict=True))

    @property
    def log_likelihood_(self) -> float:
        """Restricted log likelihood."""
        return as_fitted(self).log_likelihood

    @property
    def fixed_effects_(self) -> dict[str, float]:
        """Coefficients of the fixed columns."""
        return as_fitted(self).fixed_effects()

    @property
    def terms_(self) -> tuple[str, ...]:
        """Names of the terms."""
        return as_fitted(self).term_names

    @property
    def sides_(self) -> tuple[str, ...]:
        """Names of the sides."""
        return as_fitted(self).side_names

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        """Number of columns of the training table that the model uses."""
        fitted = as_fitted(self)
        return len(fitted.sides) + len(fitted.fixed.names)

    def heritability(self, *terms: str) -> float:
        """Return the share of some terms in the variance of a label of weight one.

        Before, each kernel is scaled to mean(diagonal) − mean = 1 on the cells of the labels
        (Legarra 2016, Theor. Popul. Biol. 107:26), so that a variance is that among the labels.
        """
        fitted = as_fitted(self)
        at = sorted({fitted.term_at(term) for term in terms})
        return float(fitted.shares()[at].sum())

    def likelihood_ratio(self, smaller: MultiwayRidge) -> LikelihoodRatio:
        r"""Return the likelihood ratio test of the terms that another model lacks.

        Parameters
        ----------
        smaller : MultiwayRidge
            A model of some of the terms, fitted on the same labels with the same fixed columns.

        Returns
        -------
        LikelihoodRatio
            The p-value is that of the mixture of :math:`\chi^2` distributions at the border of
            zero variances (Self and Liang 1987, J. Am. Stat. Assoc. 82:605).
        """
        return as_fitted(self).likelihood_ratio(as_fitted(smaller))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")


# Reading of the training table ----------------------------------------------------------------------


class _Terms(NamedTuple):
    """Names of the sides, the sides of each term, and the two sides whose order does not matter."""

    names: tuple[str, ...]
    terms: tuple[tuple[int, ...], ...]
    alike: tuple[int, int] | None

    @property
    def term_names(self) -> list[str]:
        """Names of the terms."""
        return [":".join(self.names[side] for side in term) for term in self.terms]


def _read(model: MultiwayRidge, table: Any, y: Any, sample_weight: Any) -> FittedMultiway:
    """Return the model of a training table, without its estimates and solution."""
    model._check_params()
    columns = read_columns(table)
    if isinstance(model.fixed, str):
        fixed_names = (model.fixed,)
    else:
        fixed_names = tuple(model.fixed)
    names, terms, alike = asked = _read_terms(model, columns, fixed_names)
    _check_names(model, tuple(columns))
    columns = chosen(columns, [*names, *fixed_names])
    n_rows = len(columns[names[0]])
    y = in_rows_of(y, table, "y", "the table")
    sample_weight = in_rows_of(sample_weight, table, "sample_weight", "the table")
    values = values_of_rows(y, n_rows).astype(np.float64)
    weights = weights_of_rows(sample_weight, "sample_weight", n_rows)
    rows = np.flatnonzero(~np.isnan(values) & (weights > 0))
    if not rows.size:
        raise ValueError(f"None of {n_rows} rows has a label and a weight above 0: give some.")
    used = {name: _taken(column, rows) for name, column in columns.items()}
    sides = _sides(model, {name: ids_of(used[name], name) for name in names}, alike)
    places = []
    for side in sides:
        places.append(np.searchsorted(side.labelled, side.find(used[side.name])))
    of_fixed = {name: used[name] for name in fixed_names}
    fixed = FixedColumns.of(of_fixed, len(rows), model.fit_intercept)
    are_given = isinstance(model.variances, Mapping)
    fitted = FittedMultiway(
        sides=sides,
        terms=terms,
        alike=alike,
        fixed=fixed,
        columns=fixed.orthonormal(of_fixed, len(rows)),
        places=tuple(places),
        values=values[rows],
        weights=weights[rows] if (weights[rows] != 1.0).any() else None,
        rows=rows,
        n_rows=n_rows,
        variances=_given_variances(model.variances, asked.term_names),
        errors=np.zeros(0),
        log_likelihood=math.nan,
        estimation="given" if are_given else model.variances,
        new=(model.new,) if isinstance(model.new, str) else tuple(model.new),
        max_iter=model.max_iter,
        duals=np.zeros(0),
        coefficients=np.zeros(0),
        device=model.device,
    )
    object.__setattr__(fitted, "index", index_of_rows(table))
    return fitted


def _read_terms(model: MultiwayRidge, columns: Iterable[str], fixed: Sequence[str]) -> _Terms:
    """Return the terms of a model for a table with some columns."""
    parsed: list[tuple[str, ...]] = [(name,) for name in columns if name not in fixed]
    if model.terms is not None:
        parsed = parse_terms(model.terms)
    if not parsed:
        raise ValueError("terms names no side: give at least one term, such as 'mother'.")
    names = tuple(dict.fromkeys(chain(*parsed, model.symmetric or ())))
    alike = _alike(model.symmetric, names)
    terms = [tuple(names.index(name) for name in term) for term in parsed]
    return _Terms(names, canonical(terms, alike), alike)


def _taken(column: Column, rows: np.ndarray) -> Column:
    """Return some rows of a column."""
    if isinstance(column, np.ndarray):
        return np.asarray(column[rows])
    return [column[row] for row in rows]


def _alike(symmetric: Any, names: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of the two sides whose order does not matter."""
    if symmetric is None:
        return None
    pair = tuple(symmetric)
    if isinstance(symmetric, str) or len(set(pair)) != 2:
        raise ValueError(
            f"symmetric must name two sides, such as ('first', 'second'), found {symmetric!r}."
        )
    first, second = sorted(names.index(name) for name in pair)
    return first, second


def _check_names(model: MultiwayRidge, columns: Sequence[str]) -> None:
    """Raise if a description is that of no column of the table; it need not be in a term."""
    for parameter in ("entities", "kernels", "kernel_params"):
        unknown = [name for name in getattr(model, parameter) or {} if name not in columns]
        if unknown:
            raise ValueError(
                f"{parameter} has {shown(unknown)}, which is no column of the table: its columns "
                f"are {shown(columns, 20)}."
            )


def _sides(
    model: MultiwayRidge, used: Mapping[str, Column], alike: tuple[int, int] | None
) -> tuple[CellSide, ...]:
    """Return the sides of the labels, given the ids of each."""
    entities = dict(model.entities or {})
    kernels = dict(model.kernels or {})
    params = dict(model.kernel_params or {})
    names = list(used)
    pair = [] if alike is None else [names[side] for side in alike]
    if len([name for name in pair if name in entities]) == 2:
        raise ValueError(
            f"entities has both {pair[0]!r} and {pair[1]!r}, which are symmetric: give one table "
            f"for both."
        )
    sides = []
    for name, column in used.items():
        # Sides that are alike have one table and the levels of both.
        sources = pair if name in pair else [name]
        source = next((one for one in sources if one in entities), name)
        spec = None
        if source in entities:
            spec = side_kernel(kernels.get(source), params.get(source), model.repair, source)
        elif name in kernels:
            raise ValueError(
                f"kernels has {name!r} without entities: give the features or the kernel of its "
                f"levels in entities."
            )
        everything = column
        if name in pair:
            everything = [*used[pair[0]], *used[pair[1]]]
        sides.append(CellSide.of(name, everything, entities.get(source), spec))
    return tuple(sides)


def _given_variances(variances: Any, names: Sequence[str]) -> np.ndarray:
    """Return the variances of a dict, in the order of the terms; none if they are to be estimated."""
    if not isinstance(variances, Mapping):
        return np.zeros(0)
    by_sides = {frozenset(name.split(":")): name for name in names}
    numbers = {RESIDUAL: 1.0}
    for name, value in variances.items():
        known = RESIDUAL if name == RESIDUAL else by_sides.get(frozenset(str(name).split(":")))
        if known is None:
            raise ValueError(
                f"variances has {name!r}, which is no term: the terms are {shown(names, 20)} and "
                f"{RESIDUAL!r}."
            )
        numbers[known] = check_alpha(value, f"variances[{name!r}]")
    missing = [name for name in names if name not in numbers]
    if missing:
        raise ValueError(f"variances lacks the terms {shown(missing, 20)}: give a number for each.")
    if numbers[RESIDUAL] == 0:
        raise ValueError("variances['residual'] is 0: give a number above 0.")
    return np.array([numbers[name] for name in (*names, RESIDUAL)])
