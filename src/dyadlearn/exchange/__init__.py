"""Models and labels in the formats of other tools, and back.

`from_anndata` and `to_anndata` are for AnnData, the format of single-cell data.
"""

from __future__ import annotations

from dyadlearn.exchange.anndata import from_anndata, to_anndata

__all__ = ["from_anndata", "to_anndata"]
