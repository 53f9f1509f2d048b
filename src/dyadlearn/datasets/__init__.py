"""Data to learn from: an embedded real data set, others to fetch, and a generator with known truth."""

from __future__ import annotations

from dyadlearn.datasets.davis import fetch_davis
from dyadlearn.datasets.debtags import debtags_kernels, load_debtags
from dyadlearn.datasets.dyads import make_dyads
from dyadlearn.datasets.kiba import fetch_kiba
from dyadlearn.datasets.yamanishi import fetch_yamanishi

__all__ = [
    "debtags_kernels",
    "fetch_davis",
    "fetch_kiba",
    "fetch_yamanishi",
    "load_debtags",
    "make_dyads",
]
