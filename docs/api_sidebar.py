"""The list beside the pages of the API: every name under the heading that it has in ``api.md``, with its module."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

Group = tuple[str, list[tuple[str, str]]]


def groups_of(text: str) -> list[Group]:
    """Return the headings of ``api.md`` with the names and the pages under each.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of (heading, [(name, page), …])
        Names of other rooms than the package itself have their room before them.
    """
    found: list[Group] = []
    module = ""
    for line in text.splitlines():
        if line.startswith("## "):
            found.append((line[3:].strip(), []))
        elif match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif found and (match := re.match(r"   ([\w.]+)$", line)):
            full = f"{module}.{match[1]}"
            found[-1][1].append((full.removeprefix("dyadlearn."), f"generated/{full}"))
    return [group for group in found if group[1]]


def setup(app: Any) -> dict[str, bool]:
    """Hand the list to the template of the side bar, and let tables have names alone."""
    from sphinx.ext.autosummary import Autosummary

    class Names(Autosummary):
        """A table of whole names, each with its room: what a function takes stands on its own page."""

        def run(self) -> list[Any]:
            self.options["nosignatures"] = None
            return super().run()

        def get_items(self, names: list[str]) -> list[tuple[str, str | None, str, str]]:
            return [(item[3].removeprefix("dyadlearn."), *item[1:]) for item in super().get_items(names)]

    app.setup_extension("sphinx.ext.autosummary")
    app.add_directive("autosummary", Names, override=True)
    groups = groups_of(Path(app.srcdir, "api.md").read_text(encoding="utf-8"))

    def add(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
        context["api_groups"] = groups

    app.connect("html-page-context", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
