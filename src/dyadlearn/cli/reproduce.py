"""``dyadlearn reproduce``: the experiments of the paper, and public benchmarks, from a source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import dyadlearn

__all__ = ["reproduce"]

_EXPERIMENTS = {
    "all": "reproduce.py",
    "table2": "drug_target.py",
    "transfer": "transfer.py",
    "online-text": "online_text.py",
    "records": "records.py",
}


def reproduce(
    context: typer.Context,
    experiment: Annotated[str, typer.Argument(help=f"One of {', '.join(_EXPERIMENTS)}.")],
) -> None:
    """Run an experiment of the paper, or public benchmarks (records); what follows its name is handed on to it.

    For example:

        dyadlearn reproduce all --plan

        dyadlearn reproduce table2 --quick

        dyadlearn reproduce records --data nr,davis --setting A

        dyadlearn reproduce transfer -- --help
    """
    if experiment not in _EXPERIMENTS:
        raise ValueError(f"There is no experiment {experiment!r}: the names are {', '.join(_EXPERIMENTS)}.")
    script = _folder() / _EXPERIMENTS[experiment]
    if not script.is_file():
        raise FileNotFoundError(f"This checkout has no {script.name}: get one that has, by git pull.")
    done = subprocess.run([sys.executable, str(script), *context.args], check=False)
    raise typer.Exit(done.returncode)


def _folder() -> Path:
    """Return the folder of the experiments, which are no part of the installed package."""
    root = Path(dyadlearn.__file__).resolve().parents[2]
    if not (root / "experiments").is_dir() or not (root / "pyproject.toml").is_file():
        raise FileNotFoundError(
            "The experiments are not part of the installed package: clone the repository, and there run "
            "pip install -e . and this command again."
        )
    return root / "experiments"
