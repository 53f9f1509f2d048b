"""Tables of all models and metrics, for the package, the command line, messages, docs and tests.

It imports no other module.
"""

from __future__ import annotations

from typing import NamedTuple


class Registered(NamedTuple):
    """A model of pairs.

    Attributes
    ----------
    title : str
        Description for tables of the documentation.
    model : str
        Name of the class.
    search : str or None
        Name of the class that chooses the regularisation; `model` if it chooses the regularisation
        itself.
    alphas : tuple of str
        Names of the regularisation parameters.
    settings : str
        Letters of the supported settings.
    module : str
        Module of a model that `dyadlearn.models` and `dyadlearn.selection` do not import.
    needs_tasks : bool
        Whether the command line requires files of the tasks.
    """

    title: str
    model: str
    search: str | None
    alphas: tuple[str, ...] = ("alpha",)
    settings: str = "ABCD"
    module: str = ""
    needs_tasks: bool = True


#: By the names that the command line gives them.
MODELS = {
    "two-step": Registered(
        "a regression over instances, then one over tasks",
        "TwoStepRidge",
        "TwoStepRidgeCV",
        ("alpha", "task_alpha"),
    ),
    "kronecker": Registered("one regression over all pairs", "KroneckerRidge", "KroneckerRidgeCV"),
    "independent": Registered(
        "one regression per task",
        "IndependentTaskRidge",
        "IndependentTaskRidgeCV",
        settings="AB",
        needs_tasks=False,
    ),
    "pair": Registered(
        "one regression over all pairs, with an additional function for each task and each "
        "instance",
        "PairKernelRidge",
        "PairKernelRidgeCV",
    ),
    "online": Registered(
        "two-step, in batches; rows can be removed exactly",
        "OnlineTwoStepRidge",
        None,
        ("alpha", "task_alpha"),
        needs_tasks=False,
    ),
    "learned": Registered(
        "one regression over all pairs, with kernels learned from several descriptions",
        "LearnedKernelRidge",
        "LearnedKernelRidge",
        (),
        needs_tasks=False,
    ),
}


#: Names of the metrics for `scoring`, which the help of the command line lists without numpy. A
#: test compares them with the classes.
SCORINGS = (
    "average_precision",
    "concordance_index",
    "enrichment_factor",
    "ic_index",
    "ndcg_at_k",
    "neg_mean_absolute_error",
    "neg_mean_squared_error",
    "neg_root_mean_squared_error",
    "pearson",
    "precision_at_k",
    "r2",
    "recall_at_k",
    "roc_auc",
    "spearman",
)


def names_where(*, has_alpha: str = "", setting: str = "") -> tuple[str, ...]:
    """Return the models of the command line that have a regularisation parameter and support a setting."""
    return tuple(
        name
        for name, model in MODELS.items()
        if (not has_alpha or has_alpha in model.alphas) and setting in model.settings
    )


def listed(*, searches: bool) -> str:
    """Return a list, in words, of the model classes that have a search class, or of their search classes.

    Examples
    --------
    >>> from dyadlearn._registry import listed
    >>> listed(searches=False)  # doctest: +ELLIPSIS
    'TwoStepRidge, KroneckerRidge, IndependentTaskRidge... or ...'
    """
    models = [model for model in MODELS.values() if model.search not in (None, model.model)]
    names = [str(model.search) if searches else model.model for model in models]
    return f"{', '.join(names[:-1])} or {names[-1]}"
