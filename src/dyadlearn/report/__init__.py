"""A page about a fitted model, to open in any browser, offline."""

from dyadlearn.report.write import write_report

__all__ = ["write_report"]
