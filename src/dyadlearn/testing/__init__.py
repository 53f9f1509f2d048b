"""Checks of models of pairs: `check_model` tries anyone's model on small random problems.

The tests of this library run the same checks on its own models.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from dyadlearn.testing.checks import CHECKS, Check
from dyadlearn.testing.trial import FORMS, TOLERANCES, Trial

__all__ = ["CHECKS", "FORMS", "TOLERANCES", "Trial", "check_model", "model_checks"]


def model_checks(
    estimator: Any,
    *,
    settings: str | Mapping[str, str] = "ABCD",
    forms: Iterable[str] = FORMS,
    is_exact: bool = True,
    skip: Iterable[str] = (),
    random_state: int = 0,
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Return the checks of a model one by one, with their names, for the tests of your own package.

    Parameters are those of `check_model`.

    Yields
    ------
    name : str
        Name of the check and form of the labels.
    check : callable
        Function without arguments. It raises AssertionError if the property does not hold.

    Examples
    --------
    >>> from dyadlearn import KroneckerRidge
    >>> from dyadlearn.testing import model_checks
    >>> checks = dict(model_checks(KroneckerRidge(), forms=["full"]))
    >>> checks["hold-out (full)"]()
    """
    asked = tuple(forms)
    unknown = [form for form in asked if form not in FORMS]
    if unknown:
        raise ValueError(f"forms must be among {', '.join(FORMS)}, found {unknown[0]!r}.")
    skipped = set(skip)
    if not skipped <= set(CHECKS):
        name = min(skipped - set(CHECKS))
        raise ValueError(f"skip must be among {', '.join(CHECKS)}, found {name!r}.")
    for form in asked:
        if isinstance(settings, str):
            letters = settings
        else:
            letters = settings.get(form, "ABCD")
        trial = Trial(estimator, form, letters, is_exact, random_state)
        for check in CHECKS.values():
            if form in check.forms and check.name not in skipped:
                yield f"{check.name} ({form})", partial(run, trial, check)


def run(trial: Trial, check: Check) -> None:
    """Run a check, without warnings of the library."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        check.run(trial)


def check_model(
    estimator: Any,
    *,
    settings: str | Mapping[str, str] = "ABCD",
    forms: Iterable[str] = FORMS,
    is_exact: bool = True,
    skip: Iterable[str] = (),
    random_state: int = 0,
) -> None:
    """Check that a model of pairs behaves as the models of this library do.

    The checks fit clones of the model to random labels of 7 instances and 5 tasks. They compare
    held-out predictions with those of refitted models, and ask for frames, other array libraries,
    single precision, pickles, model files, read-only input, weights of labels (`explain`), threads
    and refusals of wrong input.
    Libraries that are not installed are left out. All checks need half a minute at most.

    Parameters
    ----------
    estimator : estimator
        The model, which is not changed.
    settings : str or dict, default="ABCD"
        Letters of the settings that the model supports; or such letters for some forms of labels,
        as in ``{"missing": "A"}``.
    forms : iterable of str, default=("full", "missing", "weights", "list")
        Forms of labels that the model accepts.
    is_exact : bool, default=True
        Whether hold-out equals refits. False for a model of which a part depends on all rows, such
        as a filter other than Tikhonov's or learned kernels.
    skip : iterable of str, default=()
        Names of checks to leave out, such as "threads".
    random_state : int, default=0
        Seed of the problems.

    Raises
    ------
    AssertionError
        If a check fails. The message has the names of all failed checks and the first error.

    See Also
    --------
    dyadlearn.testing.model_checks : the checks one by one.
    sklearn.utils.estimator_checks.check_estimator : conventions of scikit-learn.

    Examples
    --------
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.testing import check_model
    >>> check_model(TwoStepRidge(0.1, 0.5), forms=["full"])
    """
    failures: dict[str, Exception] = {}
    checks = model_checks(
        estimator,
        settings=settings,
        forms=forms,
        is_exact=is_exact,
        skip=skip,
        random_state=random_state,
    )
    for name, check in checks:
        try:
            check()
        except Exception as error:
            failures[name] = error
    if failures:
        first = next(iter(failures.values()))
        raise AssertionError(
            f"{type(estimator).__name__} fails {len(failures)} checks: {', '.join(failures)}. "
            f"The first error is: {type(first).__name__}: {first}"
        ) from first
