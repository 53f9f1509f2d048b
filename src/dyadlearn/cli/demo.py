"""``dyadlearn demo``: a short tour. ``dyadlearn datasets``: real data to try."""

from __future__ import annotations

import time
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn import datasets as data_sets
from dyadlearn._files.tables import write_grid
from dyadlearn._tables import Ids, Table
from dyadlearn._text import make_table
from dyadlearn.cli.commands import Datasets, Demo
from dyadlearn.cli.evaluate import write_page
from dyadlearn.cli.options import check_target
from dyadlearn.cli.terminal import Terminal, column_table
from dyadlearn.datasets._home import resolve_home
from dyadlearn.views.landscape import landscape_of_scores

_ALPHAS = (0.1, 1.0, 10.0, 100.0)
# Baselines of popularity: their names, their headings, and the settings in which they are defined.
_MEANS = (
    ("task_means", "tag means", "AB"),
    ("instance_means", "package means", "AC"),
    ("additive", "both means", "A"),
)
_NEW = {"A": "A: pair", "B": "B: new package", "C": "C: new tag", "D": "D: both new"}


def demo(given: Demo, terminal: Terminal) -> None:
    """Tune three models on Debian packages and tags, list the likeliest missing tags, and write a report."""
    start = time.perf_counter()
    data = data_sets.load_debtags()
    m, q = data.Y.shape
    terminal.say(f"{m} Debian packages × {q} tags, {100 * data.Y.mean():.1f} % of the cells are 1.")
    K, G = data_sets.debtags_kernels(data)
    labels = Table(data.Y, *_ids(data))
    kernels: dict[str, Any] = {"kernel": "precomputed", "task_kernel": "precomputed"}
    model = dyadlearn.TwoStepRidge(**kernels).fit(K, labels, tasks=G)
    models = {
        "independent": dyadlearn.IndependentTaskRidge(kernel="precomputed").fit(K, labels),
        "kronecker": dyadlearn.KroneckerRidge(**kernels).fit(K, labels, tasks=G),
        "two-step": model,
    }
    scores = {name: _best(name, each, terminal) for name, each in models.items()}
    popularity = {
        each.setting.value: each.baselines
        for each in dyadlearn.evaluate(model, scoring="roc_auc").results
    }
    terminal.say(
        "\nAUC in each setting: popularity alone, then each model with the best of four λ:",
        _comparison(scores, popularity),
        "Exact hold-out: no prediction uses the held-out pair, package or tag, and no model was "
        "fitted again. "
        "(Kronecker ridge can predict in D too, in ten seconds more.)\n",
    )
    model.set_alpha(scores["two-step"]["A"]["alpha"], scores["two-step"]["A"]["task_alpha"])
    likeliest = dyadlearn.screen(model, "A", label=0.0, n=10).columns()
    listed = {
        "package": likeliest["instance"],
        "tag": likeliest["task"],
        "score": likeliest["prediction"],
    }
    terminal.say("The likeliest missing tags:", column_table(listed, 2))
    shown: dict[str, Any] = {"title": "Debian packages and their tags", "sides": ("package", "tag")}
    write_page(
        model,
        given.output,
        terminal,
        **shown,
        scoring="roc_auc",
        alphas=_ALPHAS,
        task_alphas=_ALPHAS,
    )
    figures = {
        "instances": m,
        "tasks": q,
        "models": scores,
        "baselines": popularity,
        "likeliest_missing": likeliest,
    }
    terminal.result({**figures, "report": str(given.output)})
    terminal.say(f"Done in {time.perf_counter() - start:.1f} s.")


def _ids(data: Any) -> tuple[Ids, Ids]:
    return Ids(tuple(map(str, data.instance_names))), Ids(tuple(map(str, data.task_names)))


def _best(name: str, model: Any, terminal: Terminal) -> dict[str, dict[str, Any]]:
    """Return the best AUC of a model in each setting, with the regularisation that reaches it."""
    # In D, Kronecker ridge needs one decomposition for each tag, which would take half of the time.
    settings = "ABC" if name == "kronecker" else "ABCD"
    grids = dyadlearn.landscape(
        model,
        alphas=_ALPHAS,
        task_alphas=_ALPHAS,
        setting=settings,
        scoring="roc_auc",
        progress=terminal.progress,
    )
    best = {
        setting: landscape_of_scores(values, _ALPHAS, _ALPHAS).best
        for setting, values in grids.items()
    }
    return {
        setting: dict(zip_longest(("auc", "alpha", "task_alpha"), each))
        for setting, each in best.items()
    }


def _comparison(
    scores: dict[str, dict[str, dict[str, Any]]], popularity: dict[str, dict[str, float]]
) -> Any:
    """Return a table of the scores of baselines and models, with the regularisation of the models.

    Popularity is the number of packages that have a tag, and the number of tags of a package.
    """
    lines = {
        words: {setting: f"{popularity[setting][name]:.3f}" for setting in known}
        for name, words, known in _MEANS
    }
    for name, best in scores.items():
        alphas = {key: [each["alpha"], each["task_alpha"]] for key, each in best.items()}
        cells = {
            key: ", ".join(f"{alpha:g}" for alpha in each if alpha is not None)
            for key, each in alphas.items()
        }
        lines[name] = {
            setting: f"{each['auc']:.3f} ({cells[setting]})" for setting, each in best.items()
        }
    rows = [[name, *(line.get(setting, "–") for setting in _NEW)] for name, line in lines.items()]
    return make_table(["", *_NEW.values()], rows)


# Content and size of each data set.
_SETS = {
    "debtags": ("Debian packages × tags; part of dyadlearn", "1500 × 151"),
    "nr": ("nuclear receptors × drugs (Yamanishi 2008)", "26 × 54"),
    "gpcr": ("GPCRs × drugs (Yamanishi 2008)", "95 × 223"),
    "ic": ("ion channels × drugs (Yamanishi 2008)", "204 × 210"),
    "e": ("enzymes × drugs (Yamanishi 2008)", "664 × 445"),
    "davis": ("kinases × inhibitors (Davis 2011)", "442 × 68"),
    "kiba": ("drugs × kinases, 3/4 missing", "2111 × 229"),
}


def _loaded(name: str, home: Path | None) -> Any:
    """Return a data set, after downloading it unless it is there already."""
    if name == "debtags":
        return data_sets.load_debtags()
    if name in ("davis", "kiba"):
        return getattr(data_sets, f"fetch_{name}")(data_home=home)
    return data_sets.fetch_yamanishi(name, data_home=home)


def datasets(given: Datasets, terminal: Terminal) -> None:
    """List the data sets, or download one and write it as tables."""
    if given.name is None:
        figures = {name: {"what": what, "size": size} for name, (what, size) in _SETS.items()}
        lines = [(name, what, size) for name, (what, size) in _SETS.items()]
        home = str(resolve_home(given.data_home))
        table = make_table(("name", "content", "size"), lines, left=2)
        terminal.result(
            {"datasets": figures, "folder": home}, table, f"Downloads are kept in {home}."
        )
        return
    if given.name not in _SETS:
        raise ValueError(f"Unknown data set {given.name!r}: the names are {', '.join(_SETS)}.")
    if given.to is None:
        targets = []
    else:
        targets = [given.to / f"{table}.csv" for table in ("labels", "instances", "tasks")]
    for target in targets if given.to is not None and given.to.exists() else ():
        check_target(target, given.force)
    with terminal.working(f"Fetching {given.name}"):
        data = _loaded(given.name, given.data_home)
    m, q = data.Y.shape
    instances, tasks = _ids(data)
    if given.to is not None:
        given.to.mkdir(parents=True, exist_ok=True)
        K, G = (data.K, data.G) if "K" in data else data_sets.debtags_kernels(data)
        grids = (data.Y, instances, tasks), (K, instances, instances), (G, tasks, tasks)
        for target, (values, rows, columns) in zip(targets, grids, strict=True):
            write_grid(target, [np.asarray(values, dtype=np.float64)], rows, columns, "")
    terminal.result(
        {"name": given.name, "shape": [m, q], "files": [str(target) for target in targets]}
    )
    terminal.say(f"{given.name}: {_SETS[given.name][0]}, {m} × {q}.")
    if targets:
        terminal.say(f"Wrote {', '.join(target.name for target in targets)} to {given.to}.")
