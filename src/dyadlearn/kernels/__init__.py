"""From features, graphs and similarity matrices to kernels.

`gram` computes a kernel by its name or with a callable; `Sum` and `Product` combine kernels; `repair` makes a
similarity matrix symmetric and positive semi-definite.
"""

from __future__ import annotations

from dyadlearn.kernels.combine import Product, Sum, normalize, weighted_product, weighted_sum
from dyadlearn.kernels.gram import gram, kernel_names
from dyadlearn.kernels.graphs import graph_distance_kernel
from dyadlearn.kernels.repair import repair
from dyadlearn.kernels.vectors import delta, minmax, tanimoto

__all__ = [
    "Product",
    "Sum",
    "delta",
    "gram",
    "graph_distance_kernel",
    "kernel_names",
    "minmax",
    "normalize",
    "repair",
    "tanimoto",
    "weighted_product",
    "weighted_sum",
]
