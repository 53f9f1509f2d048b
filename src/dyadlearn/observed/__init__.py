"""Observed pairs only: a model of pairs whose grid of labels is never formed."""
