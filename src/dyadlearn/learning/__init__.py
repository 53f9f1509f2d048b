"""Kernel learning: weights, exponents, shares and regularisation by gradient descent on the hold-out error."""
