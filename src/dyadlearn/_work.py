"""Estimates of work: the multiplications of products of matrices, by which routes are chosen.

Matrix products take nearly all the time of large problems. An estimate is the list of the products
that a route makes, each with the numbers that are multiplied: the matrices (m, k) and (k, q) take
m·k·q multiplications. Products with vectors and operations on single entries are left out, unless
they take longer than the products of matrices.
"""

from __future__ import annotations

import math

#: Work of a product of a matrix with its own transpose, relative to other products of this size.
SYMMETRIC = 0.5
#: Multiplications of a Cholesky factor of order n, relative to n³.
FACTORED = 1.0 / 3.0
#: Cost of an eigendecomposition of order n, relative to n³ multiplications.
DECOMPOSED = 10.0


def products(*factors: tuple[float, ...]) -> float:
    """Return the multiplications of some products of matrices, each given by the numbers to multiply.

    Parameters
    ----------
    *factors : tuples of numbers
        For a product of matrices (m, k) and (k, q), the numbers m, k and q; more numbers stand for
        several such products, or for a cost relative to them.

    Examples
    --------
    >>> from dyadlearn._work import products
    >>> products((2, 3, 4), (10, 2, 2, 3))
    144.0
    """
    # Products of large integers of numpy would overflow.
    return sum(math.prod(map(float, numbers)) for numbers in factors)
