"""``dyadlearn permute``: whether a model does better than on labels that were permuted."""

from __future__ import annotations

from typing import Annotated

import typer

from dyadlearn import permutation_test
from dyadlearn.cli import options
from dyadlearn.cli.models import load_model
from dyadlearn.cli.options import Json, ModelArgument, Quiet, Sides
from dyadlearn.cli.terminal import Terminal, make_table, number
from dyadlearn.sides import SideNames

__all__ = ["permute"]


def permute(
    model: ModelArgument,
    setting: Annotated[
        str | None,
        typer.Option(
            help="What predictions do without: A, B, C or D; by default what the model was tuned for, else B."
        ),
    ] = None,
    permuted: Annotated[
        str | None, typer.Option("--permute", help="instances, tasks or both; by default what is new in the setting.")
    ] = None,
    permutations: Annotated[int, typer.Option("-n", "--permutations", min=1, help="How many permutations.")] = 999,
    scoring: Annotated[
        str | None,
        typer.Option(help=f"A score; by default the one that the model was tuned for. One of {options.SCORES}."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the permutations.")] = 0,
    sides: Sides = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Test whether a model predicts better than it would if its labels belonged to other instances or tasks.

    A model that was tuned is tuned again for every permutation, which takes as long as tuning did each time: try a
    few by -n first. p is how often permuted labels do as well, the labels themselves counted in.

    For example:

        dyadlearn permute model.dyad --setting B

        dyadlearn permute model.dyad --setting D -n 99 --json
    """
    with Terminal(json, quiet) as terminal:
        loaded = load_model(model).named(sides)
        found = permutation_test(
            loaded.model,
            setting or str(getattr(loaded.model, "holdout_setting_", "B")),
            permute=_permuted(permuted, loaded.names),
            n_permutations=permutations,
            scoring=scoring or loaded.origin.get("scoring"),
            random_state=seed,
            progress=terminal.progress,
        )
        null = f"{number(found.null_mean)} ± {number(found.null_deviation)}"
        called = {"instances": loaded.names.instances, "tasks": loaded.names.tasks}.get(found.permuted, found.permuted)
        line = [found.setting, called, number(found.score), null, number(found.p_value)]
        figures = {
            "setting": found.setting,
            "permuted": found.permuted,
            "scoring": found.scoring,
            "method": found.method,
            "score": found.score,
            "null_mean": found.null_mean,
            "null_deviation": found.null_deviation,
            "null": found.null.tolist(),
            "p_value": found.p_value,
        }
        title = f"{len(found)} permutations of {called} ({found.method})"
        terminal.result(figures, title, make_table(["setting", "permuted", found.scoring, "null", "p"], [line], left=2))


def _permuted(wanted: str | None, names: SideNames) -> str | None:
    """Return what is to be permuted as the library says it; sides may be called by their own names."""
    words = {names.tasks: "tasks", names.instances: "instances"}
    words |= {word: word for word in ("instances", "tasks", "both")}
    if wanted is not None and wanted not in words:
        raise ValueError(f"--permute must be {names.instances}, {names.tasks} or both, found {wanted!r}.")
    return None if wanted is None else words[wanted]
