"""Sphinx settings. `make docs` builds; every warning is an error."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import matplotlib

import dyadlearn

sys.path.insert(0, str(Path(__file__).parent))  # our own extensions

project = "dyadlearn"
author = "the dyadlearn developers"
copyright = "2026, the dyadlearn developers"
release = version = dyadlearn.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "api_sidebar",
    "mathml",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {
    "members": True,
    # The methods of our own bases are shown, those of others' classes are documented there.
    "inherited-members": "BaseEstimator,RegressorMixin,MultiOutputMixin,TransformerMixin,dict,str",
    "exclude-members": "get_metadata_routing,set_fit_request,set_output,set_partial_fit_request,set_predict_request,"
    "set_score_request,set_split_request,set_transform_request",
}
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"  # the page is about the class: its methods need not say so

html_theme = "pydata_sphinx_theme"
html_title = "dyadlearn"
html_show_sourcelink = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
# Beside a page stand its neighbours; the start page lists them all itself.
html_sidebars = {
    "*": ["pages_sidebar"],
    "index": [],
    "search": [],
    "api": ["api_sidebar"],
    "generated/*": ["api_sidebar"],
    "gallery/*": ["gallery_sidebar"],
}
html_context = {
    "default_mode": "auto",  # light or dark, as the reader's system is; unsaid, the theme reports an error
    # title, page, and the folder whose pages belong to it
    "header_pages": [
        ("Start", "start", ""),
        ("Settings", "settings", ""),
        ("Models", "models", ""),
        ("Command line", "cli", ""),
        ("Gallery", "gallery/index", "gallery/"),
        ("API", "api", "generated/"),
    ],
}
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "navbar_center": ["header_pages"],
    # The gallery has no list of sections: its lines of code need the width.
    "secondary_sidebar_items": {"*": ["page-toc"], "generated/*": ["page-toc"]},
}

# The gallery: examples whose data or packages are not here are shown and not run.
matplotlib.use("agg")
home = Path(
    os.environ.setdefault(
        "DYADLEARN_DATA", str(Path(__file__).resolve().parents[2] / "shared" / "data")
    )
)
has_data = all(
    (home / name).is_dir() for name in ("activity", "hummingbird_plant", "kiba", "yamanishi2008")
)
runs = ["plot", *(["data"] if has_data else []), *(["chem"] if find_spec("rdkit") else [])]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/({'|'.join(runs)})_",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1,
    "within_subsection_order": "FileNameSortKey",
    "image_srcset": [],
    # What an example ends with is not printed where it is a part of its figure.
    "ignore_repr_types": r"matplotlib[.]|dyadlearn[.]plots[.]",
    "remove_config_comments": True,
    "write_computation_times": False,  # a page that asks others for its scripts
}


def without_last_blank(app, docname, source):
    """Take away the empty line that ends the output of a session: on a page it would be drawn."""
    source[0] = re.sub(r"\n\n+```$", "\n```", source[0], flags=re.MULTILINE)


def to_the_right_place(app, pagename, templatename, context, doctree):
    """Let a page of source code point back at places that are there.

    It takes all names of a file to be those of one room, while some of ours are also found one
    floor up.
    """

    def mended(found):
        whole, page, stem, place = found[0], *found.groups()
        if f"{place}.".startswith(f"{stem}."):
            return whole
        name = stem.rpartition(".")[2]
        return f"{page}#{stem}{re.split(rf'[.]{name}(?=[.]|$)', place)[-1]}"

    if pagename.startswith("_modules/") and "body" in context:
        context["body"] = re.sub(r"(generated/([\w.]+)\.html)#([\w.]+)", mended, context["body"])


def setup(app):
    """Let Sphinx call what is above."""
    app.connect("source-read", without_last_blank)
    app.connect("html-page-context", to_the_right_place)
