"""Data to learn from: an embedded real data set, others to fetch, and a generator with known truth."""

from dyadlearn.datasets.debtags import debtags_kernels, load_debtags
from dyadlearn.datasets.drug_target import fetch_davis, fetch_kiba, fetch_yamanishi
from dyadlearn.datasets.dyads import make_dyads

__all__ = [
    "debtags_kernels",
    "fetch_davis",
    "fetch_kiba",
    "fetch_yamanishi",
    "load_debtags",
    "make_dyads",
]
