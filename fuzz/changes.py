"""What differs between the old version and this one on purpose: names, and answers.

The old version is the commit of `baseline.txt`. `compare.py` reads both tables.
"""

from __future__ import annotations

__all__ = ["CORRECTED", "EXPECTED", "RENAMED"]

# The cases in `cases.py` use the names of the old version; the worker of the new version looks each
# up here. A key is
#   "name"             a public class or function, by its path below dyadlearn, such as "explain" or "metrics.r2";
#   "name(parameter)"  a parameter of that class, function or method, such as "explain(top)";
#   "(parameter)"      that parameter of everything that has no entry of its own;
#   ".attribute"       an attribute or a method, such as ".landscape_".
# The value is the new name, or None for a parameter that is gone and is not passed any more.
RENAMED: dict[str, str | None] = {}

# Answers that may differ, each with the reason: (kind of case, quantity, words in the description
# of the case, reason). The quantity may be followed by a comma and the text of the difference. The
# first three are patterns of `fnmatch`. Such differences are counted by their reason and are no
# failures.
_ORDER = (
    "rankings and correlations of A and D compare predictions that were made without both labels"
)
_ONE_CLASS = "average precision needs a negative label too"
_INTERVALS = "intervals of missing labels take the residuals of pairs of their actual setting"
_FEW_LABELS = (
    "learned kernels of D start from small constants, and shrink as if there were more labels"
)
_TIES = "pairs without a label that share a prediction are exact ties now"

EXPECTED: list[tuple[str, str, str, str]] = [
    ("searches", "*", "*search [AD] roc_auc*", _ORDER),
    ("searches", "*", "*search [AD] average_precision*", _ORDER),
    ("searches", "*", "*search [AD] concordance_index*", _ORDER),
    ("*", "evaluate *", "*evaluate by roc_auc*", _ORDER),
    ("answers", "compare [AD]*", "*0/1 labels*", _ORDER),
    ("metrics", "average_precision", "*", _ONE_CLASS),
    ("searches", "*", "*search [BC] average_precision*", _ONE_CLASS),
    ("long_tables", "interval", "*", _INTERVALS),
    ("models", "interval A", "*missing*", _INTERVALS),
    ("learned", "interval", "*missing*", _INTERVALS),
    ("learned", "*", "*learned * D *", _FEW_LABELS),
    ("answers", "recommend, ids*", "PairKernelRidge*missing*", _TIES),
    ("answers", "top_pairs, tasks*", "PairKernelRidge*missing*", _TIES),
]

# Known faults of the old version that are corrected in its sources, so that only what is not known
# differs: (file, text, text in its place).
CORRECTED: list[tuple[str, str, str]] = [
    # The search for the missing pairs of each unit took minutes on sparse grids.
    (
        "src/dyadlearn/holdout/unlabelled.py",
        "[np.flatnonzero(unit_of == number) for number in range(here.start, here.start + len(changed))]",
        "np.split(np.argsort(unit_of, kind='stable'), np.cumsum(np.bincount(unit_of, minlength=n_units))[:-1])[here]",
    ),
]
