"""``dyadlearn card``: what a stranger should know of a model before using it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn._files.tables import writing
from dyadlearn.cli.models import Loaded, load_model
from dyadlearn.cli.options import (
    Force,
    Json,
    ModelArgument,
    Quiet,
    Sides,
    Title,
    ToldScoring,
    ToldSettings,
    check_target,
    settings_of,
)
from dyadlearn.cli.terminal import Terminal

__all__ = ["card"]


def card(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The card to write.")] = Path("README.md"),
    title: Title = None,
    settings: ToldSettings = None,
    scoring: ToldScoring = None,
    sides: Sides = None,
    license: Annotated[
        str | None, typer.Option("--license", help="Of the model, as the Hub calls it, such as cc-by-4.0.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="OWNER/NAME", help="The data on the Hub it was fitted on.")
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a card about a model: Markdown with the front matter of the Hugging Face Hub.

    For example:

        dyadlearn card model.dyad -o README.md --license cc-by-4.0
    """
    with Terminal(json, quiet) as terminal:
        check_target(output, force)
        wanted = None if settings is None else settings_of(settings)
        found = load_model(model).named(sides)
        from dyadlearn.report import write_card

        with writing(output):
            shown: dict[str, Any] = {"title": title, "settings": wanted, "scoring": scoring, "sides": found.sides}
            shown |= {"license": license, "dataset": dataset, "about": _about(found), "model_file": model.name}
            write_card(found.saved, output, **shown, progress=terminal.progress)
        terminal.result({"output": str(output)})
        terminal.say(f"Wrote {output}.")


def _about(found: Loaded) -> dict[str, str]:
    """Return what the file tells of the making of the model, by the names that facts have."""
    recipes = [found.instances] if found.tasks is None else [found.instances, found.tasks]
    facts = {
        f"{word[:1].upper()}{word[1:]}": recipe.in_words
        for word, recipe in zip(found.names.both, recipes, strict=False)
    }
    files = found.origin.get("files")
    if isinstance(files, dict):
        facts["Files"] = ", ".join(f"{name} {file}" for name, file in files.items() if isinstance(file, str))
    if found.versions:
        facts["Made with"] = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    return {name: text for name, text in facts.items() if text}
