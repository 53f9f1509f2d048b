"""Draw the picture of docs/notebooks.md: what a notebook shows of a fitted model, and of its scores.

    python scripts/notebook_picture.py [--output docs/images/notebook.png]

It needs playwright and a chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import warnings
from pathlib import Path

from playwright.sync_api import sync_playwright

from dyadlearn import TwoStepRidgeCV
from dyadlearn.datasets import debtags_kernels, load_debtags
from dyadlearn.exceptions import GridEdgeWarning
from dyadlearn.views.notebook import html_of_model

_PAGE = (
    "<!doctype html><meta charset='utf-8'><style>body{margin:12px;font:14px sans-serif;width:700px;background:#fff}"
    "</style><body>"
)


def main() -> None:
    """Fit a model, and take a picture of what it shows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("docs/images/notebook.png"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", GridEdgeWarning)
    data = load_debtags(as_frame=True)
    K, G = debtags_kernels(data)
    grid = [0.01, 0.1, 1.0, 10.0, 100.0]
    model = TwoStepRidgeCV(
        grid, grid, setting="D", scoring="roc_auc", kernel="precomputed", task_kernel="precomputed"
    ).fit(K[:300, :300], data.Y.iloc[:300], tasks=G)
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    # A browser run by root, as in most containers, has no sandbox.
    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=options)
        page = browser.new_page(viewport={"width": 730, "height": 400})
        page.set_content(_PAGE + html_of_model(model, ""))
        page.screenshot(path=arguments.output, full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
