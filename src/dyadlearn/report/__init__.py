"""A page about a fitted model, to open in any browser, offline; and a card, to read wherever the model lies."""

from dyadlearn.report.card import write_card
from dyadlearn.report.page import write_report

__all__ = ["write_card", "write_report"]
