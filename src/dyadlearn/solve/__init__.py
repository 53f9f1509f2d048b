"""Solvers of the equations of a model: missing labels, observed pairs, single tasks."""
