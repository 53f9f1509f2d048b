"""Kernel learning: weights, exponents, shares and regularisation that minimise the hold-out error."""
