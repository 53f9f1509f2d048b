"""What there is to see of a fitted model, as plain numbers: plots, report and command line draw and print them."""

from __future__ import annotations

from dyadlearn.views.summary import SideSpectrum

__all__ = ["SideSpectrum"]
