"""Activity coefficients of solutes in solvents, from structures alone and as a correction of a physical model.

    python experiments/activity.py [--settings ABC] [--known COSMO_RS] [--folds 5] [--data FOLDER] [--json FILE]

The labels are ln γ at infinite dilution and 298 K of 2,810 pairs (Sanchez Medina and others,
Digital Discovery 1:216, 2022, MIT licence). The structures are SMILES. rdkit describes them, and
`LearnedKernelRidge` learns from ten kernels of each side and an identity, with its default
parameters.

- A, new pairs: learned from the training pairs of the publication, tested on its test pairs.
- B, new solvents, and C, new solutes: folds of the solvents or solutes of the *training* pairs. For each fold, all
  parameters are learned without it.

A *correction* learns ln γ minus the value of a known column, and adds this value to its
predictions. Pairs without such a value are neither learned from nor predicted. Baselines: the known
column itself, a constant for each solvent and solute, and a random forest on the descriptors and
MACCS keys of both molecules. No parameter was chosen on test labels.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from drug_target import DATA
from records_data import drug_descriptions, drug_features, tame, whole
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import OneHotEncoder

import dyadlearn
from dyadlearn import Descriptions, LearnedKernelRidge, SettingKFold
from dyadlearn.datasets._home import DataFolder, resolve_home

SIDES = ("Solvent_SMILES", "Solute_SMILES")
LABEL = "ln_gamma"
#: Columns that are known before measuring: the published predictions of physical models.
KNOWN = {"COSMO_RS": "COSMO-RS", "UNIFAC": "UNIFAC", "mod_UNIFAC_Do": "modified UNIFAC (Dortmund)"}
#: The published mean of 30 graph networks, which were trained on the training pairs.
NETWORKS = ("GNN", "30 graph networks")
SETTINGS = {"A": "new pairs", "B": "new solvents", "C": "new solutes"}
LEARNED = "learned kernels"
COVERAGE = 0.9
TREES = 200


@dataclass(frozen=True)
class Data:
    """A table of pairs, and for each side its kernels and features.

    Attributes
    ----------
    pairs : DataFrame
        A row for each pair: both SMILES, the label, known columns, and `test`.
    kernels : tuple of two Descriptions
        Kernels of the solvents and of the solutes, with SMILES as ids.
    features : tuple of two DataFrames
        Descriptors and MACCS keys, by SMILES.
    """

    pairs: pd.DataFrame
    kernels: tuple[Descriptions, Descriptions] = field(repr=False)
    features: tuple[pd.DataFrame, pd.DataFrame] = field(repr=False)


def load_pairs(data_home: str | Path | None = None) -> pd.DataFrame:
    """Return the published table of pairs, or raise an error that names the file to get."""
    folder = DataFolder("'activity'", "activity", resolve_home(data_home))
    [path] = folder.find_all(
        ["iac.csv"], "the table of pairs of github.com/edgarsmdn/GNN_IAC, laid out as SIDES says"
    )
    return pd.read_csv(path)


def describe(smiles: list[str]) -> tuple[Descriptions, pd.DataFrame]:
    """Return the kernels of molecules and an identity, and the features for other learners."""
    features = drug_features(smiles)
    kernels = {
        name: whole(description.gram()) for name, description in drug_descriptions(features).items()
    }
    kernels["identity"] = np.eye(len(smiles))
    frames = {name: pd.DataFrame(kernel, smiles, smiles) for name, kernel in kernels.items()}
    plain = np.hstack([tame(features["descriptors"]), features["maccs"]])
    return Descriptions(frames), pd.DataFrame(plain, smiles)


def load(data_home: str | Path | None = None) -> Data:
    """Return pairs with the descriptions of both sides. No label enters the descriptions."""
    pairs = load_pairs(data_home)
    (solvents, solvent_features), (solutes, solute_features) = (
        describe(sorted(set(pairs[side]))) for side in SIDES
    )
    return Data(pairs, (solvents, solutes), (solvent_features, solute_features))


@dataclass(frozen=True)
class Predicted:
    """Predictions of pairs, the bounds of their intervals if there are any, and the seconds to learn them."""

    values: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    seconds: float = 0.0

    def __add__(self, offset: np.ndarray) -> Predicted:
        """Return the predictions and their bounds with an offset added."""
        lower, upper = (
            None if bound is None else bound + offset for bound in (self.lower, self.upper)
        )
        return Predicted(self.values + offset, lower, upper, self.seconds)


def learned(
    data: Data, setting: str, train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame
) -> Predicted:
    """Learn kernels for a setting from training pairs, and predict test pairs with intervals.

    A side that is not new has all its molecules in the grid, also those without a training label:
    their structures are known. Those of a new side are predicted as new.
    """
    is_new = {"A": (False, False), "B": (True, False), "C": (False, True)}[setting]
    ids = []
    sides = []
    asked = []
    for side, kernels, new in zip(SIDES, data.kernels, is_new, strict=True):
        everything = pd.Index(list(kernels.row_ids.labels))
        kept = everything[everything.isin(train[side])] if new else everything
        wanted = pd.Index(test[side].unique()) if new else everything
        ids.append((kept, wanted))
        sides.append(kernels[everything.get_indexer(kept)])
        asked.append(kernels[everything.get_indexer(wanted)])
    (rows, new_rows), (columns, new_columns) = ids
    Y = np.full((len(rows), len(columns)), np.nan)
    Y[rows.get_indexer(train[SIDES[0]]), columns.get_indexer(train[SIDES[1]])] = y
    model = LearnedKernelRidge(kernel="precomputed", task_kernel="precomputed", setting=setting)
    start = time.perf_counter()
    model.fit(sides[0], pd.DataFrame(Y, rows, columns), tasks=sides[1])
    seconds = time.perf_counter() - start
    cells = new_rows.get_indexer(test[SIDES[0]]), new_columns.get_indexer(test[SIDES[1]])
    grids = (model.predict(*asked), *model.predict_interval(*asked, coverage=COVERAGE))
    return Predicted(*(np.asarray(grid)[cells] for grid in grids), seconds)


def forest(
    data: Data, setting: str, train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame
) -> Predicted:
    """Fit a random forest of `TREES` trees on the features of both molecules side by side."""
    X, X_new = (
        np.hstack(
            [
                table.loc[part[side]].to_numpy()
                for side, table in zip(SIDES, data.features, strict=True)
            ]
        )
        for part in (train, test)
    )
    start = time.perf_counter()
    model = RandomForestRegressor(TREES, max_features=0.1, random_state=0).fit(X, y)
    return Predicted(model.predict(X_new), seconds=time.perf_counter() - start)


def constants(
    data: Data, setting: str, train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame
) -> Predicted:
    """Fit a constant for each solvent and each solute, shrunk by leave-one-out; those of new molecules are zero."""
    codes = OneHotEncoder(handle_unknown="ignore").fit(train[list(SIDES)])
    X, X_new = (codes.transform(part[list(SIDES)]).toarray() for part in (train, test))
    start = time.perf_counter()
    model = RidgeCV(np.logspace(-3, 3, 13)).fit(X, y)
    return Predicted(model.predict(X_new), seconds=time.perf_counter() - start)


LEARNERS = {
    "a constant per solvent and solute": constants,
    "random forest": forest,
    LEARNED: learned,
}


def splits(
    pairs: pd.DataFrame, setting: str, folds: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield positions of training and test pairs: the published ones in A, folds of the training pairs in B and C."""
    train = np.flatnonzero(pairs["test"] == 0)
    if setting == "A":
        yield train, np.flatnonzero(pairs["test"] == 1)
        return
    table = pairs.iloc[train][list(SIDES)].to_numpy()
    for kept, left_out in SettingKFold(setting, n_splits=folds, random_state=0).split(table):
        yield train[kept], train[left_out]


def predictions(
    data: Data, setting: str, known: str, folds: int
) -> tuple[np.ndarray, dict[str, Predicted]]:
    """Return positions of the tested pairs, and what each learner predicts; NaN for pairs without a known value."""
    pairs = data.pairs
    parts: dict[str, list[Predicted]] = {}
    tested = []
    for train, test in splits(pairs, setting, folds):
        tested.append(test)
        for name, learner in LEARNERS.items():
            predicted = learner(
                data, setting, pairs.iloc[train], pairs[LABEL].to_numpy()[train], pairs.iloc[test]
            )
            parts.setdefault(name, []).append(predicted)
            offset = pairs[known].to_numpy()
            some = train[np.isfinite(offset[train])]
            rest = (pairs[LABEL].to_numpy() - offset)[some]
            predicted = (
                learner(data, setting, pairs.iloc[some], rest, pairs.iloc[test]) + offset[test]
            )
            parts.setdefault(f"{KNOWN[known]} + {name}", []).append(predicted)
    positions = np.concatenate(tested)
    joined = {name: _joined(predicted) for name, predicted in parts.items()}
    published = {**KNOWN, **({NETWORKS[0]: NETWORKS[1]} if setting == "A" else {})}
    return positions, {
        **{
            title: Predicted(pairs[name].to_numpy()[positions]) for name, title in published.items()
        },
        **joined,
        f"{KNOWN[known]} + {LEARNED}, alone without a value": _filled(
            joined[f"{KNOWN[known]} + {LEARNED}"], joined[LEARNED]
        ),
    }


def _joined(parts: list[Predicted]) -> Predicted:
    bounds = (
        None if any(bound is None for bound in ends) else np.concatenate(ends)
        for ends in ([part.lower for part in parts], [part.upper for part in parts])
    )
    return Predicted(
        np.concatenate([part.values for part in parts]),
        *bounds,
        sum(part.seconds for part in parts),
    )


def _filled(first: Predicted, second: Predicted) -> Predicted:
    """Return the first predictions and intervals, and the second where there are none."""
    absent = np.isnan(first.values)
    columns = (
        np.where(absent, getattr(second, name), getattr(first, name))
        for name in ("values", "lower", "upper")
    )
    return Predicted(*columns, first.seconds + second.seconds)


def errors(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return the number of predicted pairs, the mean absolute error and the root mean squared error."""
    gap = (predicted - y)[np.isfinite(predicted)]
    return {
        "pairs": len(gap),
        "MAE": float(np.abs(gap).mean()),
        "RMSE": float(np.sqrt((gap**2).mean())),
    }


def coverage(y: np.ndarray, predicted: Predicted) -> dict[str, float]:
    """Return the share of labels within their intervals, the share of finite intervals, and their median width.

    Without finite intervals the result is empty.
    """
    if predicted.lower is None or predicted.upper is None:
        return {}
    asked = np.isfinite(predicted.values)
    inside = (predicted.lower <= y) & (y <= predicted.upper)
    width = predicted.upper - predicted.lower
    finite = asked & np.isfinite(width)
    if not finite.any():
        return {}
    return {
        "inside": float(inside[asked].mean()),
        "inside_finite": float(inside[finite].mean()),
        "finite": float(finite.sum() / asked.sum()),
        "width": float(np.median(width[finite])),
    }


def measured(data: Data, settings: str, known: str, folds: int) -> Iterator[dict[str, Any]]:
    """Yield a row of scores for each setting and model: of all its pairs, and of those with a known value."""
    for setting in settings:
        positions, by_name = predictions(data, setting, known, folds)
        y = data.pairs[LABEL].to_numpy()[positions]
        has_value = np.isfinite(data.pairs[known].to_numpy()[positions])
        for name, predicted in by_name.items():
            shared = errors(y[has_value], predicted.values[has_value])
            yield {
                "setting": setting,
                "model": name,
                **errors(y, predicted.values),
                "with_known": shared,
                "intervals": coverage(y, predicted),
                "seconds": round(predicted.seconds, 1),
            }


def table(rows: list[dict[str, Any]], known: str) -> str:
    """Return the rows in Markdown."""
    title = KNOWN[known]
    lines = [
        f"| setting | model | pairs | MAE | RMSE | pairs with {title} | MAE | RMSE | within 90 % "
        f"intervals, width |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        shared = row["with_known"]
        covered = row["intervals"]
        if covered:
            intervals = "{inside_finite:.1%}, {width:.2f}".format(**covered).replace("%", " %")
        else:
            intervals = ""
        if covered and covered["finite"] < 1:
            intervals += f" ({covered['finite']:.0%} finite)".replace("%", " %")
        scores = " | ".join(
            f"{figures['pairs']} | {figures['MAE']:.3f} | {figures['RMSE']:.3f}"
            for figures in (row, shared)
        )
        lines.append(
            f"| {row['setting']}, {SETTINGS[row['setting']]} | {row['model']} | {scores} | "
            f"{intervals} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=DATA,
        help="folder with the data (default: beside the checkout)",
    )
    parser.add_argument("--settings", default="ABC")
    parser.add_argument(
        "--known", choices=KNOWN, default="COSMO_RS", help="column to correct (default: COSMO_RS)"
    )
    parser.add_argument(
        "--folds", type=int, default=5, help="folds of solvents and of solutes (default: 5)"
    )
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    if unknown := set(options.settings) - set(SETTINGS):
        parser.error(f"--settings must be some of A, B and C, found {', '.join(sorted(unknown))}")
    names = ("numpy", "scipy", "scikit-learn", "rdkit")
    versions = {"dyadlearn": dyadlearn.__version__, **{name: version(name) for name in names}}
    about = {
        "date": str(datetime.date.today()),
        "python": platform.python_version(),
        "versions": versions,
    }
    rows = []
    for row in measured(load(options.data), options.settings, options.known, options.folds):
        print(
            "{setting} {model}: MAE {MAE:.3f}, RMSE {RMSE:.3f}, {seconds} s".format(**row),
            flush=True,
        )
        rows.append(row)
        if options.json:
            options.json.write_text(
                json.dumps({**about, "known": options.known, "rows": rows}, indent=1) + "\n"
            )
    print(table(rows, options.known))
    print(
        f"\n{about['date']}, {', '.join(' '.join(named) for named in versions.items())}, Python "
        f"{about['python']}."
    )


if __name__ == "__main__":
    main()
