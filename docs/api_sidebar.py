"""The list beside the pages of the API: every name under the heading that it has in ``api.md``, with its module.

A line ``__all__`` in ``api.md`` stands for all public names of the current module, but for those
that the package has itself.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

Group = tuple[str, list[tuple[str, str]]]


def expanded(text: str) -> str:
    """Return ``api.md`` with the names that each line ``__all__`` stands for."""
    package = import_module("dyadlearn")
    module = ""
    lines = []
    for line in text.splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        if line.strip() == "__all__":
            names = sorted(set(import_module(module).__all__) - set(package.__all__), key=str.lower)
            lines += [line.replace("__all__", name) for name in names]
        else:
            lines.append(line)
    return "\n".join(lines)


def groups_of(text: str) -> list[Group]:
    """Return the headings of ``api.md`` with the names and the pages under each.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of (heading, [(name, page), …])
        Names of modules have their module before them.
    """
    found: list[Group] = []
    module = ""
    for line in expanded(text).splitlines():
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
    from docutils.statemachine import StringList
    from sphinx.ext.autosummary import Autosummary, generate

    class Names(Autosummary):
        """A table of whole names, each with its module: parameters stand on the page of a function."""

        def run(self) -> list[Any]:
            self.options["nosignatures"] = None
            module = f".. currentmodule:: {self.env.ref_context.get('py:module')}"
            self.content = StringList(expanded("\n".join([module, *self.content])).splitlines()[1:])
            return super().run()

        def get_items(self, names: list[str]) -> list[tuple[str, str | None, str, str]]:
            return [
                (item[3].removeprefix("dyadlearn."), *item[1:]) for item in super().get_items(names)
            ]

    find = generate.find_autosummary_in_lines
    # Pages are made for the names that this function finds in the files.
    generate.find_autosummary_in_lines = lambda lines, **how: find(
        expanded("\n".join(lines)).splitlines(), **how
    )
    app.setup_extension("sphinx.ext.autosummary")
    app.add_directive("autosummary", Names, override=True)
    groups = groups_of(Path(app.srcdir, "api.md").read_text(encoding="utf-8"))

    def add(
        app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
    ) -> None:
        context["api_groups"] = groups

    app.connect("html-page-context", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
