"""``dyadlearn export``: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn._files.tables import writing
from dyadlearn.cli.entities import Recipe, Recipes
from dyadlearn.cli.models import load_model
from dyadlearn.cli.options import Force, Json, ModelArgument, Quiet, check_target
from dyadlearn.cli.terminal import Terminal

__all__ = ["export"]


def export(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The graph to write.")] = Path("model.onnx"),
    known_tasks: Annotated[
        bool, typer.Option("--known-tasks", help="For the tasks of training, so that only instances come in.")
    ] = False,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="For pairs, row by row, instead of all instances with all tasks.")
    ] = False,
    dtype: Annotated[str | None, typer.Option(help="float32 or float64; by default that of the model.")] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model on features as a graph of ONNX, which runs without this library.

    For example:

        dyadlearn export model.dyad -o model.onnx
    """
    with Terminal(json, quiet) as terminal:
        check_target(output, force)
        if pairs and known_tasks:
            raise ValueError("--pairs takes features of tasks, and with --known-tasks none come in: choose one.")
        found = load_model(model)
        inputs = [("X", "instances", found.instances)]
        if not known_tasks and found.tasks is not None:
            inputs.append(("tasks", "tasks", found.tasks))
        for name, side, recipe in inputs:
            _check_side(name, side, recipe, terminal)
        from dyadlearn.exchange import to_onnx

        with writing(output):
            wanted = "training" if known_tasks else None
            graph = to_onnx(found.model, output, tasks=wanted, pairs=pairs or None, dtype=dtype).graph
        shapes = [{each.name: _shape(each) for each in part} for part in (graph.input, graph.output)]
        terminal.result({"output": str(output), "inputs": shapes[0], "outputs": shapes[1]})
        given, gives = (
            ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in each.items()) for each in shapes
        )
        terminal.say(f"Wrote {output}: of {given} it makes {gives}.")


def _check_side(name: str, side: str, recipe: Recipe | Recipes, terminal: Terminal) -> None:
    """Refuse what is no table of features, and tell which features take the place of molecules."""
    for part, each in recipe.members.items():
        title = f"{name}.{part}" if part else name
        if each.kind == "sequences":
            raise ValueError(
                f"The {side} are sequences, which a graph does not compare: fit the model on features of them, such as "
                "embeddings."
            )
        if each.kind == "smiles":
            options = ", ".join(f"{option}={value}" for option, value in each.fingerprint.items())
            terminal.note(
                f"{title} takes fingerprints in place of SMILES: dyadlearn.kernels.chemistry.fingerprints makes them"
                f"{f' with {options}' if options else ''}."
            )


def _shape(value: Any) -> list[str | int]:
    return [each.dim_value or each.dim_param for each in value.type.tensor_type.shape.dim]
