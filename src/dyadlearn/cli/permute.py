"""``dyadlearn permute``: whether a model does better than on labels that were permuted."""

from __future__ import annotations

from typing import Annotated

import typer

from dyadlearn import permutation_test
from dyadlearn.cli import options
from dyadlearn.cli.models import ModelFile
from dyadlearn.cli.terminal import Terminal, make_table, number

__all__ = ["permute"]

_FIGURES = ("setting", "permuted", "scoring", "method", "score", "null_mean", "null_deviation", "null", "p_value")


def permute(
    source: ModelFile,
    *,
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
    scoring: options.OwnScoring = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the permutations.")] = 0,
    terminal: Terminal,
) -> None:
    """Test whether a model predicts better than it would if its labels belonged to other instances or tasks.

    A model that was tuned is tuned again for every permutation, which takes as long as tuning did each time: try a
    few by -n first. p is how often permuted labels do as well, the labels themselves counted in.

    For example:

        dyadlearn permute model.dyad --setting B

        dyadlearn permute model.dyad --setting D -n 99 --json
    """
    loaded = source.load()
    found = permutation_test(
        loaded.model,
        setting or str(getattr(loaded.model, "holdout_setting_", "B")),
        permute=loaded.role(permuted, "--permute", ("instances", "tasks"), "both"),
        n_permutations=permutations,
        scoring=scoring or loaded.origin.get("scoring"),
        random_state=seed,
        progress=terminal.progress,
    )
    null = f"{number(found.null_mean)} ± {number(found.null_deviation)}"
    words = {"instances": loaded.names.instances, "tasks": loaded.names.tasks}.get(found.permuted, found.permuted)
    line = [found.setting, words, number(found.score), null, number(found.p_value)]
    title = f"{len(found)} permutations of {words} ({found.method})"
    table = make_table(["setting", "permuted", found.scoring, "null", "p"], [line], left=2)
    terminal.result({name: getattr(found, name) for name in _FIGURES}, title, table)
