"""``dyadlearn demo``: a short tour. ``dyadlearn datasets``: real data to try."""

from __future__ import annotations

import time
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn import datasets as data_sets
from dyadlearn._files.tables import write_grid, writing
from dyadlearn._tables import Ids, Table
from dyadlearn._text import make_table
from dyadlearn.cli.commands import Datasets, Demo
from dyadlearn.cli.options import check_target
from dyadlearn.cli.terminal import Terminal, column_table, with_options
from dyadlearn.datasets._home import resolve_home
from dyadlearn.report.write import write_summary
from dyadlearn.views.landscape import LandscapeView, landscape_of_scores
from dyadlearn.views.summary import Summary, SummaryOptions, summary_of

_ALPHAS = (0.1, 1.0, 10.0, 100.0)
_TASK_ALPHAS = (0.01, 0.1, 1.0, 10.0)
# Baselines of popularity: their names, their headings, and the settings in which they are defined.
_MEANS = (
    ("task_means", "tag means", "AB"),
    ("instance_means", "package means", "AC"),
    ("additive", "both means", "A"),
)
_NEW = {"A": "A: pair", "B": "B: new package", "C": "C: new tag", "D": "D: both new"}


def demo(options: Demo, terminal: Terminal) -> None:
    """Tune three models on Debian packages and tags, list the likeliest missing tags, and write a report."""
    start = time.perf_counter()
    data = data_sets.load_debtags()
    m, q = data.Y.shape
    terminal.say(f"{m} Debian packages × {q} tags, {100 * data.Y.mean():.1f} % of the cells are 1.")
    models = _fitted(data, terminal.progress)
    model = models["two-step"]
    summary = _summary(model, terminal)
    scores = {
        "independent": _best(models["independent"], "AB", terminal),
        # In D, it needs one decomposition for each tag, which would take half of the time.
        "kronecker": _best(models["kronecker"], "ABC", terminal),
        "two-step": {
            setting: _figures(view) for setting, view in zip(_NEW, summary.landscapes, strict=True)
        },
    }
    popularity = {result.setting.value: result.baselines for result in summary.results}
    terminal.say(
        "\nAUC in each setting: popularity alone, then each model with the best of four λ:",
        _comparison(scores, popularity),
        "Exact hold-out: no prediction uses the held-out pair, package or tag, and no model was "
        "fitted again. "
        "(Kronecker ridge can predict in D too, in ten seconds more.)\n",
    )
    likeliest = dyadlearn.screen(model, "A", label=0.0, n=10).columns()
    terminal.say("The likeliest missing tags:", _missing_tags(likeliest))
    with writing(options.output):
        write_summary(summary, options.output, with_options)
    terminal.say(f"Wrote {options.output}: open it in a browser.")
    figures = {
        "instances": m,
        "tasks": q,
        "models": scores,
        "baselines": popularity,
        "likeliest_missing": likeliest,
        "report": str(options.output),
    }
    terminal.result(figures)
    terminal.say(f"Done in {time.perf_counter() - start:.1f} s.")


def _fitted(data: Any, progress: Any) -> dict[str, Any]:
    """Return three fitted models by their names; two-step ridge is the best one of a search in setting A."""
    K, G = data_sets.debtags_kernels(data)
    labels = Table(data.Y, *_ids(data))
    kernels: dict[str, Any] = {"kernel": "precomputed", "task_kernel": "precomputed"}
    search = dyadlearn.TwoStepRidgeCV(
        alphas=_ALPHAS,
        task_alphas=_TASK_ALPHAS,
        setting="A",
        scoring="roc_auc",
        progress=progress,
        **kernels,
    )
    return {
        "independent": dyadlearn.IndependentTaskRidge(kernel="precomputed").fit(K, labels),
        "kronecker": dyadlearn.KroneckerRidge(**kernels).fit(K, labels, tasks=G),
        "two-step": search.fit(K, labels, tasks=G),
    }


def _ids(data: Any) -> tuple[Ids, Ids]:
    return Ids(tuple(map(str, data.instance_names))), Ids(tuple(map(str, data.task_names)))


def _missing_tags(likeliest: dict[str, list[Any]]) -> Any:
    """Return a table of the likeliest missing tags."""
    columns = {
        "package": likeliest["instance"],
        "tag": likeliest["task"],
        "score": likeliest["prediction"],
    }
    return column_table(columns, 2)


def _summary(model: Any, terminal: Terminal) -> Summary:
    """Return the summary of a model of packages and tags, which has its landscapes and the scores of popularity."""
    options = SummaryOptions(
        title="Debian packages and their tags",
        sides=("package", "tag"),
        scoring="roc_auc",
        progress=terminal.progress,
    )
    return summary_of(model, options)


def _best(model: Any, settings: str, terminal: Terminal) -> dict[str, dict[str, Any]]:
    """Return the best AUC of a model in each setting, with the regularisation that reaches it."""
    grids = dyadlearn.landscape(
        model,
        alphas=_ALPHAS,
        setting=settings,
        scoring="roc_auc",
        progress=terminal.progress,
    )
    return {
        setting: _figures(landscape_of_scores(values, _ALPHAS)) for setting, values in grids.items()
    }


def _figures(view: LandscapeView) -> dict[str, Any]:
    """Return the best AUC of a landscape, with its one or two regularisations."""
    return dict(zip_longest(("auc", "alpha", "task_alpha"), view.best))


def _comparison(
    scores: dict[str, dict[str, dict[str, Any]]], popularity: dict[str, dict[str, float]]
) -> Any:
    """Return a table of the scores of baselines and models, with the regularisation of the models.

    Popularity is the number of packages that have a tag, and the number of tags of a package.
    """
    lines: dict[str, dict[str, str]] = {}
    for name, words, settings in _MEANS:
        lines[words] = {setting: f"{popularity[setting][name]:.3f}" for setting in settings}
    for name, best in scores.items():
        lines[name] = {setting: _cell(figures) for setting, figures in best.items()}
    rows = []
    for name, line in lines.items():
        rows.append([name, *(line.get(setting, "–") for setting in _NEW)])
    return make_table(["", *_NEW.values()], rows)


def _cell(figures: dict[str, Any]) -> str:
    """Return the AUC of a model with its regularisation, as text."""
    alphas = [figures["alpha"], figures["task_alpha"]]
    listed = ", ".join(f"{alpha:g}" for alpha in alphas if alpha is not None)
    return f"{figures['auc']:.3f} ({listed})"


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


def datasets(options: Datasets, terminal: Terminal) -> None:
    """List the data sets, or download one and write it as tables."""
    if options.name is None:
        _list_datasets(options.data_home, terminal)
        return
    if options.name not in _SETS:
        raise ValueError(f"Unknown data set {options.name!r}: the names are {', '.join(_SETS)}.")
    targets: list[Path] = []
    if options.to is not None:
        targets = [options.to / f"{table}.csv" for table in ("labels", "instances", "tasks")]
        if options.to.exists():
            for target in targets:
                check_target(target, options.force)
    with terminal.working(f"Fetching {options.name}"):
        data = _loaded(options.name, options.data_home)
    m, q = data.Y.shape
    if options.to is not None:
        options.to.mkdir(parents=True, exist_ok=True)
        _write_tables(data, targets)
    files = [str(target) for target in targets]
    terminal.result({"name": options.name, "shape": [m, q], "files": files})
    content, _ = _SETS[options.name]
    terminal.say(f"{options.name}: {content}, {m} × {q}.")
    if targets:
        terminal.say(f"Wrote {', '.join(target.name for target in targets)} to {options.to}.")


def _list_datasets(folder: Path | None, terminal: Terminal) -> None:
    """Print the names, the content and the sizes of the data sets."""
    figures = {name: {"what": content, "size": size} for name, (content, size) in _SETS.items()}
    lines = [(name, content, size) for name, (content, size) in _SETS.items()]
    home = str(resolve_home(folder))
    table = make_table(("name", "content", "size"), lines, left=2)
    terminal.result({"datasets": figures, "folder": home}, table, f"Downloads are kept in {home}.")


def _write_tables(data: Any, targets: list[Path]) -> None:
    """Write labels, instances and tasks as tables."""
    instances, tasks = _ids(data)
    K, G = (data.K, data.G) if "K" in data else data_sets.debtags_kernels(data)
    grids = (data.Y, instances, tasks), (K, instances, instances), (G, tasks, tasks)
    for target, (values, rows, columns) in zip(targets, grids, strict=True):
        write_grid(target, [np.asarray(values, dtype=np.float64)], rows, columns, "")
