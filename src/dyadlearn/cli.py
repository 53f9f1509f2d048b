"""The command ``dyadlearn``. The only file that loads typer and rich."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, __version__
from dyadlearn.datasets import debtags_kernels, load_debtags

__all__ = ["app", "main"]

app = typer.Typer(
    help="Learn from labelled pairs of instances and tasks.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dyadlearn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn from labelled pairs of instances and tasks."""


@dataclass(frozen=True)
class _Split:
    """Kernels K (m, m) and G (q, q), labels Y (m, q), and the rows and columns on each side of the split."""

    K: np.ndarray
    G: np.ndarray
    Y: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    new_rows: np.ndarray
    new_columns: np.ndarray

    def labels(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the labels of a block."""
        return np.asarray(self.Y[np.ix_(rows, columns)])

    def fit(self, model: Any) -> Any:
        """Fit `model` on the training block."""
        K, Y = self.K[np.ix_(self.rows, self.rows)], self.labels(self.rows, self.columns)
        if isinstance(model, IndependentTaskRidge):
            return model.fit(K, Y)
        return model.fit(K, Y, tasks=self.G[np.ix_(self.columns, self.columns)])

    def predict(self, model: Any, rows: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """Predict for `rows`, and for `columns` or the tasks of training."""
        tasks = None if columns is None else self.G[np.ix_(columns, self.columns)]
        return np.asarray(model.predict(self.K[np.ix_(rows, self.rows)], tasks=tasks))

    def auc(self, model: Any, rows: np.ndarray, columns: np.ndarray | None = None) -> float:
        """Return the AUC over all cells of a block together."""
        truth = self.labels(rows, self.columns if columns is None else columns)
        return float(roc_auc_score(truth.ravel(), self.predict(model, rows, columns).ravel()))


def _hide_a_fifth(data: Any) -> _Split:
    """Hide a fifth of the packages and a fifth of the tags, always the same."""
    stream = np.random.default_rng(0)
    new_row, new_column = (stream.permutation(n) % 5 == 0 for n in data.Y.shape)
    K, G = debtags_kernels(data)
    return _Split(K, G, data.Y, *map(np.flatnonzero, (~new_row, ~new_column, new_row, new_column)))


def _models() -> dict[str, Any]:
    """Return the models to compare; the demonstration does not search for the best alphas."""
    kernels: dict[str, Any] = {"kernel": "precomputed", "task_kernel": "precomputed"}
    return {
        "independent-task ridge": IndependentTaskRidge(alpha=3.0, kernel="precomputed"),
        "Kronecker ridge": KroneckerRidge(alpha=3.0, **kernels),
        "two-step ridge": TwoStepRidge(alpha=3.0, task_alpha=1.0, **kernels),
    }


@app.command()
def demo() -> None:
    """Fit the three models on Debian packages and tags, and try them on packages and tags they never saw."""
    start = time.perf_counter()
    # Names of tags are full of colons, which must not be read as codes of emoji.
    console = Console(emoji=False, markup=False)
    data = load_debtags()
    split = _hide_a_fifth(data)
    console.print(
        f"{data.Y.shape[0]} Debian packages × {data.Y.shape[1]} tags, {100 * data.Y.mean():.1f} % of the "
        f"cells are 1. Fitting on {len(split.rows)} × {len(split.columns)}; "
        f"{len(split.new_rows)} packages and {len(split.new_columns)} tags are hidden."
    )
    models = {name: split.fit(model) for name, model in _models().items()}
    console.print(_comparison(split, models))
    console.print(f"C and D rest on {len(split.new_columns)} tags only: another choice changes them a good deal.")
    # Packages that carry most of the hidden tags have most to show.
    carried = split.labels(split.new_rows, split.new_columns).sum(axis=1)
    console.print("\nWhat two-step ridge says about three of the hidden packages:")
    for row in split.new_rows[np.argsort(-carried, kind="stable")[:3]]:
        console.print(_likeliest(split, models["two-step ridge"], row, data))
    console.print(f"Done in {time.perf_counter() - start:.1f} s.")


def _comparison(split: _Split, models: dict[str, Any]) -> Table:
    """Put the AUC of each model in settings B, C and D in a table."""
    table = Table(title="AUC over all cells of a setting (0.5 is guessing)")
    table.add_column("model")
    for setting in ("B: new packages", "C: new tags", "D: both new"):
        table.add_column(setting, justify="right")
    for name, model in models.items():
        scores = [f"{split.auc(model, split.new_rows):.3f}"]
        if isinstance(model, IndependentTaskRidge):
            scores += ["–", "–"]
        else:
            scores += [f"{split.auc(model, rows, split.new_columns):.3f}" for rows in (split.rows, split.new_rows)]
        table.add_row(name, *scores)
    return table


def _likeliest(split: _Split, model: Any, row: int, data: Any) -> Table:
    """Put the likeliest known and never seen tags of one hidden package in a table."""
    table = Table(title=f"likeliest tags of {data.instance_names[row]}")
    for heading in ("tag", "score", "true?", "tag in training?"):
        table.add_column(heading, justify="right" if heading == "score" else "left")
    for columns, known, count in ((split.columns, True, 5), (split.new_columns, False, 3)):
        scores = split.predict(model, np.array([row]), None if known else columns)[0]
        for best in np.argsort(-scores)[:count]:
            true = "yes" if data.Y[row, columns[best]] else "no"
            seen = "yes" if known else "never seen"
            table.add_row(str(data.task_names[columns[best]]), f"{scores[best]:.3f}", true, seen)
    return table


def main() -> None:
    """Run the command; bad input ends it with one sentence and exit code 1."""
    try:
        app()
    except (ValueError, MemoryError) as error:
        typer.echo(f"dyadlearn: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
