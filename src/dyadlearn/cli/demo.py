"""``dyadlearn demo``: everything once, on the data that come with the library.

``dyadlearn datasets``: what there is to try, and where it lies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, datasets, evaluate, landscape, screen
from dyadlearn._files.tables import write_grid
from dyadlearn._tables import Ids, Table
from dyadlearn._text import make_table
from dyadlearn.cli.inspect import write_page
from dyadlearn.cli.options import Force, check_target, taking_options
from dyadlearn.cli.terminal import Terminal, column_table
from dyadlearn.datasets import debtags_kernels, load_debtags
from dyadlearn.datasets._home import resolve_home
from dyadlearn.views.landscape import landscape_of_scores

_ALPHAS = (0.1, 1.0, 10.0, 100.0)
# What is known of popularity, and where: the mean of a tag is how many packages have it.
_MEANS = (("task_means", "tag means", "AB"), ("instance_means", "package means", "AC"), ("additive", "both means", "A"))
_NEW = {"A": "A: pair", "B": "B: new package", "C": "C: new tag", "D": "D: both new"}


def demo(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page about the model goes.")] = Path(
        "report.html"
    ),
    force: Force = False,
    terminal: Terminal,
) -> None:
    """Tune the three models on Debian packages and tags, list the likeliest missing tags, write a report.

    Takes about ten seconds and needs no network.

    For example:

        dyadlearn demo
    """
    start = time.perf_counter()
    writes = not output.exists() or force
    check_target(output, force=True)
    data = load_debtags()
    m, q = data.Y.shape
    terminal.say(f"{m} Debian packages × {q} tags, {100 * data.Y.mean():.1f} % of the cells are 1.")
    models = _fitted(data)
    model = models["two-step"]
    scores = {name: _best(name, each, terminal) for name, each in models.items()}
    popularity = {each.setting.value: each.baselines for each in evaluate(model, scoring="roc_auc").results}
    said = "\nAUC in each setting: popularity alone, then each model with its best λ of four:"
    terminal.say(said, _comparison(scores, popularity))
    terminal.say(
        "Exact hold-out: what a score is about was never seen by its model, and none was fitted again. (Kronecker "
        "ridge answers in D too, in ten seconds more.)\n"
    )
    best = scores["two-step"]["A"]
    model.set_alpha(best["alpha"], best["task_alpha"])
    likeliest = screen(model, "A", label=0.0, k=10).columns()
    listed = {"package": likeliest["instance"], "tag": likeliest["task"], "score": likeliest["prediction"]}
    terminal.say("The likeliest tags that nobody has given:", column_table(listed, 2))
    if writes:
        shown: dict[str, Any] = {"title": "Debian packages and their tags", "sides": ("package", "tag")}
        write_page(model, output, terminal, **shown, scoring="roc_auc", alphas=_ALPHAS, task_alphas=_ALPHAS)
    else:
        terminal.note(f"{output} exists already and was left as it is: --force replaces it, -o writes elsewhere.")
    figures = {"instances": m, "tasks": q, "models": scores, "baselines": popularity, "likeliest_missing": likeliest}
    terminal.result({**figures, "report": str(output) if writes else None})
    terminal.say(f"Done in {time.perf_counter() - start:.1f} s.")


def _fitted(data: Any) -> dict[str, Any]:
    """Fit all models on kernels of the texts."""
    K, G = debtags_kernels(data)
    packages, tags = (Ids(tuple(map(str, names))) for names in (data.instance_names, data.task_names))
    labels = Table(data.Y, packages, tags)
    kernels: dict[str, Any] = {"kernel": "precomputed", "task_kernel": "precomputed"}
    return {
        "independent": IndependentTaskRidge(kernel="precomputed").fit(K, labels),
        "kronecker": KroneckerRidge(**kernels).fit(K, labels, tasks=G),
        "two-step": TwoStepRidge(**kernels).fit(K, labels, tasks=G),
    }


def _best(name: str, model: Any, terminal: Terminal) -> dict[str, dict[str, Any]]:
    """Return the best AUC of a model in each setting that it knows, and where it is."""
    # In D, Kronecker ridge decomposes the tags anew without each of them, which would take half of the time.
    settings = "ABC" if name == "kronecker" else "ABCD"
    found = landscape(model, _ALPHAS, _ALPHAS, settings, "roc_auc", progress=terminal.progress)
    best = {setting: landscape_of_scores(values, _ALPHAS, _ALPHAS).best for setting, values in found.items()}
    return {setting: dict(zip_longest(("auc", "alpha", "task_alpha"), each)) for setting, each in best.items()}


def _comparison(scores: dict[str, dict[str, dict[str, Any]]], popularity: dict[str, dict[str, float]]) -> Any:
    """Put the scores in a table, those of models with their regularisation; of what is new there is no mean.

    Popularity is how many packages have a tag, and how many tags a package has.
    """
    lines = {words: {setting: f"{popularity[setting][name]:.3f}" for setting in known} for name, words, known in _MEANS}
    for name, found in scores.items():
        lines[name] = {setting: _cell(**best) for setting, best in found.items()}
    rows = [[name, *(line.get(setting, "–") for setting in _NEW)] for name, line in lines.items()]
    return make_table(["", *_NEW.values()], rows)


def _cell(auc: float, alpha: float, task_alpha: float | None) -> str:
    return f"{auc:.3f} ({alpha:g})" if task_alpha is None else f"{auc:.3f} ({alpha:g}, {task_alpha:g})"


app = typer.Typer(help="Real data to try: list, fetch and find them.", no_args_is_help=True)

DataHome = Annotated[
    Path | None, typer.Option(help="The folder of data sets; by default DYADLEARN_DATA, else the user's cache.")
]


def _yamanishi(name: str) -> Callable[[Path | None], Any]:
    return lambda home: datasets.fetch_yamanishi(name, data_home=home)


# What a data set is about, its size, and how it is loaded.
_SETS: dict[str, tuple[str, str, Callable[[Path | None], Any]]] = {
    "debtags": ("Debian packages × tags; part of dyadlearn", "1500 × 151", lambda home: datasets.load_debtags()),
    "nr": ("nuclear receptors × drugs (Yamanishi 2008)", "26 × 54", _yamanishi("nr")),
    "gpcr": ("GPCRs × drugs (Yamanishi 2008)", "95 × 223", _yamanishi("gpcr")),
    "ic": ("ion channels × drugs (Yamanishi 2008)", "204 × 210", _yamanishi("ic")),
    "e": ("enzymes × drugs (Yamanishi 2008)", "664 × 445", _yamanishi("e")),
    "davis": ("kinases × inhibitors (Davis 2011)", "442 × 68", lambda home: datasets.fetch_davis(data_home=home)),
    "kiba": ("drugs × kinases, 3/4 missing", "2111 × 229", lambda home: datasets.fetch_kiba(data_home=home)),
    "hummingbird": ("plants × birds; from a folder only", "20 × 8", lambda home: datasets.load_hummingbird(home)),
}


@app.command("list")
@taking_options
def list_sets(terminal: Terminal) -> None:
    """List the data sets."""
    figures = {name: {"what": what, "size": size} for name, (what, size, _) in _SETS.items()}
    rows = [(name, what, size) for name, (what, size, _) in _SETS.items()]
    terminal.result({"datasets": figures}, make_table(("name", "what", "size"), rows, left=2))


@app.command()
@taking_options
def path(*, data_home: DataHome = None, terminal: Terminal) -> None:
    """Print the folder in which data sets are looked for and downloaded to."""
    home = str(resolve_home(data_home))
    terminal.result({"path": home})
    if not terminal.json:
        typer.echo(home)


@app.command()
@taking_options
def fetch(
    name: Annotated[str, typer.Argument(help="A name out of: dyadlearn datasets list.")],
    *,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write labels.csv, instances.csv and tasks.csv here.")
    ] = None,
    data_home: DataHome = None,
    force: Force = False,
    terminal: Terminal,
) -> None:
    """Download a data set unless it is there already, and write it as tables if asked to.

    For example:

        dyadlearn datasets fetch nr --to nr

        dyadlearn tune nr/labels.csv --instances nr/instances.csv --tasks nr/tasks.csv --setting D -o nr.dyad
    """
    if name not in _SETS:
        raise ValueError(f"There is no data set {name!r}: the names are {', '.join(_SETS)}.")
    what, _, load = _SETS[name]
    targets = [] if to is None else [to / f"{table}.csv" for table in ("labels", "instances", "tasks")]
    for target in targets if to is not None and to.exists() else ():
        check_target(target, force)
    with terminal.working(f"Fetching {name}"):
        data = load(data_home)
    if to is not None:
        _write(data, to, targets)
    m, q = data.Y.shape
    terminal.result({"name": name, "shape": [m, q], "files": [str(target) for target in targets]})
    terminal.say(f"{name}: {what}, {m} × {q}.")
    if targets:
        terminal.say(f"Wrote {', '.join(target.name for target in targets)} to {to}.")


def _write(data: Any, folder: Path, targets: list[Path]) -> None:
    """Write labels and both kernels as tables with ids."""
    K, G = (data.K, data.G) if "K" in data else debtags_kernels(data)
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = (Ids(tuple(map(str, names))) for names in (data.instance_names, data.task_names))
    for target, values, axes in zip(
        targets, (data.Y, K, G), ((rows, columns), (rows, rows), (columns, columns)), strict=True
    ):
        write_grid(target, [np.asarray(values, dtype=np.float64)], *axes, "")
