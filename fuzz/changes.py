"""What differs between the old version and this one on purpose: names, and answers.

The old version is the commit of `baseline.txt`. `compare.py` reads both tables.
"""

from __future__ import annotations

import importlib

import numpy as np

__all__ = ["EXPECTED", "RENAMED", "correct_old"]

# The cases in `cases.py` use the names of the old version; the worker of the new version looks each up here. A key is
#   "name"             a public class or function, by its path below dyadlearn, such as "explain" or "metrics.r2";
#   "name(parameter)"  a parameter of that class, function or method, such as "explain(top)";
#   "(parameter)"      that parameter of everything that has no entry of its own;
#   ".attribute"       an attribute or a method, such as ".landscape_".
# The value is the new name, or None for a parameter that is gone and is not passed any more.
RENAMED: dict[str, str | None] = {
    ".best_shares": "best_fractions",
    ".harder": "n_harder",
    ".leaks": "n_leaks",
    "OnlineTwoStepRidge(keep_tasks)": None,
    "bootstrap_interval(level)": "coverage",
    "compare(level)": "coverage",
    "evaluate(settings)": "setting",
    "explain(top)": "n",
    "landscape(settings)": "setting",
    "nested_score(n_splits)": "cv",
    "recommend(k)": "n",
    "screen(k)": "n",
    "top_pairs(k)": "n",
    "verify_holdout(n_cells)": "n",
    "report.write_report(n_cells)": "n",
    "report.write_report(settings)": "setting",
}

# Answers that may differ, each with the reason: (kind of case, quantity, words in the description of the case, reason).
# The quantity may be followed by a comma and the text of the difference.
# The first three are patterns of `fnmatch`. Such differences are counted by their reason and are no failures.
_LISTS = "a list of labels is scored per instance in B and per task in C, as a grid is"
EXPECTED: list[tuple[str, str, str, str]] = [
    ("listed", f"{quantity} {setting}*", f"{model}Ridge *", _LISTS)
    for quantity in ("evaluate", "landscape")
    for setting in "BC"
    for model in ("Kronecker", "TwoStep")
]
# The old version learned by gradient descent from the best single kernel, and stopped after sixty steps.
EXPECTED.append(("learned", "*", "*", "kernels are learned by a quasi-Newton method from equal weights"))
# The old version chose among equal contributions as a partition left them.
EXPECTED.extend(
    ("*", f"explain, pairs: {name}*", "*", "equal contributions are listed by position") for name in ("ids", "labels")
)
_CONSTANT = "rank metrics score a constant baseline as equal predictions"
for _scoring in ("roc_auc", "average_precision", "concordance_index"):
    EXPECTED.append(("*", "*baselines_*", f"*search ? {_scoring}*", _CONSTANT))
for _name in ("grand_mean", "instance_means", "task_means", "additive"):
    EXPECTED.append(("*", f"evaluate *[AD]*{_name}*", "*", _CONSTANT))

_WEIGHTED = "the width of intervals of weighted labels follows alpha relative to the largest weight"
EXPECTED.append(("*", "interval*", "*weights*", _WEIGHTED))
EXPECTED.append(("long_tables", "interval*", "*", _WEIGHTED))
EXPECTED.append(("*", "*old raised ValueError (n_splits=*", "*", "default folds are at most as many as the units"))
EXPECTED.append(("*", "*new raised NothingLeftError*", "*", "where no label remains, the error says so"))
EXPECTED.append(("listed", "* A*", "*", "few pairs of a list are left out one by one, as on a grid"))
for _answer in ("recommend", "top_pairs"):
    EXPECTED.append(("answers", f"{_answer}*", "*", "where labels are missing, zeros are labels"))


def correct_old() -> None:
    """Correct known faults of the old version, so that only what is not known differs.

    Its baselines took units of one row each in the order of the rows, whatever their codes.
    """
    module = importlib.import_module("dyadlearn.holdout.baselines")

    def summed(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        order = np.argsort(codes, kind="stable")
        return np.add.reduceat(values[order], np.flatnonzero(np.diff(codes[order], prepend=-1)), axis=0)

    module._summed = summed
