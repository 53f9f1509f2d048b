"""``dyadlearn datasets``: what there is to try, and where it lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn import datasets
from dyadlearn._files.tables import write_grid
from dyadlearn._tables import Ids
from dyadlearn.cli.options import Force, check_target, taking_options
from dyadlearn.cli.terminal import Terminal, make_table
from dyadlearn.datasets._home import resolve_home

__all__ = ["app"]

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
        _write(data, name, to, targets)
    shape = list(data.Y.shape) if "Y" in data else None
    terminal.result({"name": name, "shape": shape, "files": [str(target) for target in targets]})
    terminal.say(f"{name}: {what}" + (f", {shape[0]} × {shape[1]}." if shape else "."))
    if targets:
        terminal.say(f"Wrote {', '.join(target.name for target in targets)} to {to}.")


def _write(data: Any, name: str, folder: Path, targets: list[Path]) -> None:
    """Write labels and both kernels as tables with ids."""
    if name == "debtags":
        K, G = datasets.debtags_kernels(data)
    elif "K" in data and "G" in data:
        K, G = data.K, data.G
    else:
        raise ValueError(f"{name} has no pair of kernels to write as tables: use it in Python.")
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = (Ids(tuple(map(str, names))) for names in (data.instance_names, data.task_names))
    for target, values, axes in zip(
        targets, (data.Y, K, G), ((rows, columns), (rows, rows), (columns, columns)), strict=True
    ):
        write_grid(target, [np.asarray(values, dtype=np.float64)], *axes, "")
