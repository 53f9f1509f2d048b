"""The paper's experiments one after the other, with a plan before anything starts.

    python experiments/reproduce.py [--quick] [--plan] [--only table2 transfer text] [--data-home FOLDER]
                                    [--out build] [--transfer="--repeats 100"] [--text="--data
                                    lshtc"]

Said first is what runs, on which data and for about how long, and what is left out and why. An
experiment that fails does not keep the others from running; the last lines say how each of them
ended. ``--plan`` stops after the plan.
"""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dyadlearn.datasets._home import resolve_home

sys.path.insert(0, str(Path(__file__).parent))
from drug_target import find_data

HERE = Path(__file__).resolve().parent

#: What the data sets are called, by their folders. Not all of their files can be downloaded.
DATA = {
    "yamanishi2008": "drugs and targets",
    "davis": "kinases",
    "lshtc1_dryrun": "web pages",
    "debtags": "packages",
}


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Attributes
    ----------
    title : str
    script : str
    data : tuple of str
        Folders of its data; those that cannot be had are done without if `partial` says that it
        can.
    minutes, quick_minutes : float
        How long it takes on two cores, roughly.
    partial : str
        What it does without data that are not there; empty where these are needed.
    """

    title: str
    script: str
    data: tuple[str, ...]
    minutes: float
    quick_minutes: float
    partial: str = ""


EXPERIMENTS = {
    "table2": Experiment(
        "Table 2, AUC and time of each search", "drug_target.py", ("yamanishi2008",), 2.0, 0.5
    ),
    "transfer": Experiment(
        "transfer between tasks, ten repetitions",
        "transfer.py",
        ("yamanishi2008", "davis"),
        6.0,
        0.5,
    ),
    "text": Experiment(
        "online learning of texts, three orders",
        "online_text.py",
        ("lshtc1_dryrun", "debtags"),
        4.0,
        0.5,
        "only the 1,500 packages that come with the library",
    ),
}

#: What is no experiment of the paper but has tables in the documentation: the scripts, and how long
#: they take.
OTHERS = {
    "records.py": "learned kernels on public benchmarks: hours, unit by unit (python "
    "experiments/records.py)",
    "pair_kernels.py": "pair kernels compared: hours",
    "intervals.py": "coverage of intervals: hours with KIBA, else less than one",
    "kiba.py": "KIBA in all settings: more than ten minutes",
    "wrong_labels.py": "planted wrong labels: a minute",
    "probabilities.py": "calibration: half a minute",
    "peers.py": "row by row beside RLScore, scikit-learn, himalaya, GPyTorch and others: minutes, "
    "and their packages",
    "recommenders.py": "beside implicit, LightFM and Surprise: minutes, and their packages",
}


@dataclass(frozen=True)
class Step:
    """What becomes of an experiment: what is said of its data, and whether it runs."""

    name: str
    experiment: Experiment
    words: str
    runs: bool


def plan(only: Sequence[str], home: Path | None) -> list[Step]:
    """Look for the data of each experiment, in the folder given or else where data sets lie."""
    folder = resolve_home(None) if home is None else home
    steps = []
    for name, experiment in EXPERIMENTS.items():
        if name not in only:
            steps.append(Step(name, experiment, "not asked for", False))
            continue
        lost = [DATA[needed] for needed in experiment.data if not (folder / needed).is_dir()]
        words = "all data here"
        if lost:
            words = f"no {', '.join(lost)} in {folder}: {experiment.partial or 'nothing to run on'}"
        steps.append(Step(name, experiment, words, not lost or bool(experiment.partial)))
    return steps


def shown(steps: Sequence[Step], quick: bool) -> Table:
    """Return the plan as a table."""
    table = Table(
        "experiment",
        "what",
        "data",
        "minutes",
        title="What runs, on two cores",
        title_justify="left",
    )
    for step in steps:
        experiment = step.experiment
        if step.runs:
            minutes = f"{experiment.quick_minutes if quick else experiment.minutes:g}"
        else:
            minutes = "left out"
        table.add_row(step.name, experiment.title, step.words, minutes)
    return table


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="without what takes long")
    parser.add_argument("--plan", action="store_true", help="say what would run, and run nothing")
    parser.add_argument(
        "--only", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS), metavar="NAME"
    )
    parser.add_argument(
        "--data-home",
        help="folder of the data; by default ../shared/data, else that of the data sets",
    )
    parser.add_argument(
        "--out", type=Path, default=HERE.parent / "build", help="where figures and numbers go"
    )
    for name in EXPERIMENTS:
        parser.add_argument(
            f"--{name}", type=shlex.split, default=[], metavar="ARGUMENTS", help="more for it alone"
        )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Say what runs, run it, say how it ended."""
    options = parse(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=110)
    home = find_data(options.data_home)
    steps = plan(options.only, None if home is None else Path(home))
    console.print(shown(steps, options.quick))
    console.print("Left out, as they are not the paper's; each is run by python experiments/NAME:")
    for script, words in OTHERS.items():
        console.print(f"  {script:<16} {words}", highlight=False)
    if options.plan:
        return
    ended = []
    for step in (step for step in steps if step.runs):
        console.rule(f"{step.name}: {step.experiment.title}")
        start = time.perf_counter()
        code = subprocess.run(command(step, options, home), check=False).returncode
        ended.append((step.name, code, (time.perf_counter() - start) / 60))
    for name, code, minutes in ended:
        console.print(
            f"{name}: {'done' if code == 0 else f'failed ({code})'} after {minutes:.1f} minutes"
        )
    console.print(f"Figures and all numbers are in {options.out}.", soft_wrap=True)
    sys.exit(max((abs(code) for _, code, _ in ended), default=0) and 1)


def command(step: Step, options: argparse.Namespace, home: str | None) -> list[str]:
    """Return how an experiment is called."""
    script = HERE / step.experiment.script
    if importlib.util.find_spec("matplotlib"):
        figures = ["--figures", str(options.out / "figures")]
    else:
        figures = []
    return [
        *(
            sys.executable,
            str(script),
            "--json",
            str(options.out / f"{script.stem}.json"),
            *figures,
        ),
        *(["--quick"] if options.quick else []),
        *([] if home is None else ["--data-home", home]),
        *getattr(options, step.name),
    ]


if __name__ == "__main__":
    main()
