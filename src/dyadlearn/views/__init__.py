"""What there is to see of a fitted model, as plain numbers: plots, report and command line draw and print them."""

from __future__ import annotations

from dyadlearn.views.advice import Recommendations, Screening, recommend, screen
from dyadlearn.views.spectra import SideSpectrum

__all__ = ["Recommendations", "Screening", "SideSpectrum", "recommend", "screen"]
