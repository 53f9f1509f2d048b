"""Models without each unit of instances for jackknife+ intervals, where labels are missing or weighted.

The plan of setting B decides. A formula by an inverse gives all models at once
(`dyadlearn.pairing.without_units`), and so does the closed form of the rows and columns with
labels. A plan that solves again has solved each model. Without a formula for the models, or if it
would cost too much, five folds are refitted (CV+).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dyadlearn._array import Array, array_bytes, namespace, take_rows
from dyadlearn._memory import fits_in_memory
from dyadlearn.holdout.planning import (
    Formula,
    Plan,
    SolveAgain,
    is_affordable,
    labelled_part,
    plan,
    plan_units,
)
from dyadlearn.holdout.units import Problem, Units
from dyadlearn.pairing.base import operators_of
from dyadlearn.pairing.certainty import Jackknife, fold_jackknife
from dyadlearn.pairing.incomplete import expansion_of_fold
from dyadlearn.pairing.inverses import Route
from dyadlearn.pairing.without_units import (
    UnitsLeftOut,
    models_by_inverse,
    models_cost,
    models_of_duals,
)
from dyadlearn.settings import Setting
from dyadlearn.solve.missing import Completion


def jackknife_of(problem: Problem, codes: np.ndarray | None) -> Jackknife:
    """Return the models without each unit of instances; labels without a formula must be a grid.

    Parameters
    ----------
    problem : Problem
        Model with missing or weighted labels.
    codes : integer array of shape (m,) or None
        Unit of each instance; None means each instance, or folds if that would cost too much.
    """
    how = _plan(problem, codes)
    if _has_models(how):
        assert isinstance(how, Formula)
        return _by_formula(how)
    if isinstance(how, SolveAgain):
        return _by_folds(how)
    folds = plan(problem, Setting.B, method="folds")
    return _by_folds(folds if codes is None else replace(folds, units=how.units))


def has_formula(problem: Problem, codes: np.ndarray | None) -> bool:
    """Return whether `jackknife_of` takes one fit and no refits; arguments are the same."""
    return problem.labels.is_full or _has_models(_plan(problem, codes))


def _plan(problem: Problem, codes: np.ndarray | None) -> Plan:
    if codes is None:
        return plan(problem, Setting.B)
    return plan_units(problem, Setting.B, Units((codes, None)))


def _has_models(how: Plan) -> bool:
    """Return whether a plan is a formula that gives the models without each unit, and whether they are affordable."""
    if not isinstance(how, Formula):
        return False
    labels = how.problem.labels
    if isinstance(how.way, Route):
        name = how.way.name
    elif how.way == "labelled" and how.problem.pairing.knows_tasks:
        name = how.way
    else:
        return False
    work, numbers = models_cost(how.problem.pairing, labels, int(_units(how).max()) + 1, name)
    return is_affordable(work, labels) and fits_in_memory(
        array_bytes(labels.values, numbers), labels.values
    )


def _units(how: Formula) -> np.ndarray:
    """Return the unit of each instance, numbered from 0, shape (m,)."""
    codes = how.units.sides[0]
    if codes is None:
        return np.arange(how.problem.labels.shape[0])
    return np.unique(codes, return_inverse=True)[1]


def _by_formula(how: Formula) -> Jackknife:
    """Return the models of a formula that `_has_models` accepts."""
    if not isinstance(how.way, Route):
        return _by_labelled_part(how, _units(how))
    inverted = how.inverted()
    left = UnitsLeftOut(
        how.problem.labels, inverted.centred, inverted.held_out, inverted.shift, _units(how)
    )
    return models_by_inverse(how.problem.pairing, inverted.inverse, left)


def _by_labelled_part(how: Formula, units: np.ndarray) -> Jackknife:
    """Return the models from the closed form of the rows and columns with labels."""
    problem = how.problem
    listed = problem.labels.listed()
    xp = namespace(listed.values)
    shift = operators_of(problem.pairing).shift_of(listed.values)
    flat = np.flatnonzero(problem.labels.observed)
    held_out = take_rows(xp.reshape(how.held_out(), (-1,)), flat)
    left = UnitsLeftOut(problem.labels, listed.values - shift, held_out - shift, shift, units)
    part = labelled_part(problem)[0]
    assert part is not None
    changed = left.changed
    shape = part.labels.shape
    columns: list[Array] = []
    for unit in range(left.n_units):
        dual = part.pairing.dual(xp.reshape(changed[:, unit], shape))
        columns.append(xp.reshape(dual, (-1,)))
    return models_of_duals(problem.pairing, xp.stack(columns, axis=1), left)


def _by_folds(how: Plan) -> Jackknife:
    """Return the models that were solved without each fold."""
    assert isinstance(how, SolveAgain)
    held_out = how.held_out()
    folds = how.folds
    models = []
    for fold, solved in zip(folds.folds, folds.starts, strict=True):
        assert isinstance(solved, Completion)
        staying = fold.staying if folds.rows_leave else None
        models.append(expansion_of_fold(how.problem.pairing, staying, solved.labels))
    return fold_jackknife(held_out, [fold.leaving[0] for fold in folds.folds], models)
