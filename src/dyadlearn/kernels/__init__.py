"""Kernels from features, graphs, trees, taxonomies, pedigrees and similarity matrices.

`gram` computes a kernel by its name or with a callable. `Sum` and `Product` combine kernels.
`pairs_of` computes kernels of pairs of entities. `repair` makes a similarity matrix symmetric and
positive semi-definite. `Descriptions` holds several tables of the same entities. `Landmarks`
approximates any kernel by a few features. `dyadlearn.kernels.chemistry` and
`dyadlearn.kernels.sequences` are for molecules and sequences.
"""

from dyadlearn.kernels.combine import Product, Sum, normalize, pairs_of
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.kernels.gram import gram, gram_diagonal, kernel_names
from dyadlearn.kernels.graphs import (
    diffusion_kernel,
    graph_distance_kernel,
    shared_ancestors_kernel,
)
from dyadlearn.kernels.landmarks import Landmarks
from dyadlearn.kernels.pedigrees import pedigree
from dyadlearn.kernels.repair import repair
from dyadlearn.kernels.similarity import similar_groups
from dyadlearn.kernels.structures import Structures
from dyadlearn.kernels.trees import (
    Tree,
    brownian_kernel,
    read_newick,
    taxonomy_kernel,
    tree_distance_kernel,
)
from dyadlearn.kernels.vectors import delta, minmax, tanimoto

__all__ = [
    "Descriptions",
    "Landmarks",
    "Product",
    "Structures",
    "Sum",
    "Tree",
    "brownian_kernel",
    "delta",
    "diffusion_kernel",
    "gram",
    "gram_diagonal",
    "graph_distance_kernel",
    "kernel_names",
    "minmax",
    "normalize",
    "pairs_of",
    "pedigree",
    "read_newick",
    "repair",
    "shared_ancestors_kernel",
    "similar_groups",
    "tanimoto",
    "taxonomy_kernel",
    "tree_distance_kernel",
]
