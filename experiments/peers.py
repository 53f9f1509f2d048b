"""Every equality that `docs/coming_from.md` claims, run on both sides: what is said there, and what is said here.

    python experiments/peers.py [--rlscore PYTHON] [--markdown] [peer ...]

The same small problem is given to scikit-learn and to those of RLScore, himalaya, GPyTorch,
implicit and Surprise that are installed; a peer that is not is named at the end. Printed is the
largest difference of the two answers over the largest number of ours. RLScore's last release builds
with Python 3.6 and none of today's: `--rlscore` names an interpreter that has it, and
`peers_rlscore.py` runs there. Ends with 1 if two answers that should be equal are not.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from peers_problem import ALPHA, BOTH_GIVEN, GIVEN, RBF, TASK_ALPHA, Problem, Row, compare
from peers_ridge import himalaya, implicit, scikit_learn, surprise

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    PairKernelRidge,
    TwoStepRidge,
    verify_holdout,
)


def ask_rlscore(on: Problem, python: str) -> dict[str, np.ndarray]:
    """Return what RLScore says to a problem, in an interpreter that has it."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder, "problem.npz")
        answered = Path(folder, "answers.npz")
        np.savez(asked, alpha=ALPHA, task_alpha=TASK_ALPHA, **vars(on))
        script = Path(__file__).with_name("peers_rlscore.py")
        subprocess.run([python, str(script), str(asked), str(answered)], check=True)
        with np.load(answered) as stored:
            return dict(stored)


def rlscore(on: Problem, answers: dict[str, np.ndarray]) -> Iterator[Row]:
    """All of RLScore that is about squared error."""
    plain: dict[str, Any] = {"fit_intercept": False}
    ones, ones_new = (np.hstack([rows, np.ones((len(rows), 1))]) for rows in (on.X, on.X_new))
    single = IndependentTaskRidge(2 * ALPHA, **GIVEN).fit(on.K, on.Y).set_alpha(ALPHA)
    kronecker = KroneckerRidge(2 * ALPHA, **BOTH_GIVEN).fit(on.K, on.Y, tasks=on.G).set_alpha(ALPHA)
    two_step = TwoStepRidge(2 * ALPHA, 2 * TASK_ALPHA, **BOTH_GIVEN).fit(on.K, on.Y, tasks=on.G)
    two_step.set_alpha(ALPHA, TASK_ALPHA)
    holes: dict[str, Any] = {"tol": 1e-12}
    two_kernels = KroneckerRidge(ALPHA, **BOTH_GIVEN, **holes).fit(on.K, on.holes, tasks=on.G)
    features = KroneckerRidge(ALPHA, **plain, **holes).fit(on.X, on.holes, tasks=on.tasks)
    shares = dict(zip(("product", "per_task", "per_instance"), on.shares, strict=True))
    summed = PairKernelRidge(ALPHA, **shares, **BOTH_GIVEN, **holes).fit(on.K, on.holes, tasks=on.G)
    new = (on.K_new, on.G_new)
    new_features = (on.X_new, on.tasks_new)
    folds = {"groups": on.fold}
    task_folds = {"task_groups": on.task_fold}
    for name, theirs, ours, actual in (
        (
            "RLS.predict",
            "`RLS`, `solve`",
            "`IndependentTaskRidge`, `set_alpha`",
            single.predict(on.K_new),
        ),
        ("RLS.leave_one_out", "`RLS.leave_one_out()`", '`holdout("B")`', single.holdout("B")),
        (
            "RLS.holdout",
            "`RLS.holdout(indices)`",
            '`holdout("B", groups=…)`',
            single.holdout("B", **folds)[on.fold == 1],
        ),
        (
            "RLS.bias",
            "`RLS(bias=1)`",
            "a feature of ones",
            IndependentTaskRidge(ALPHA, **plain).fit(ones, on.Y).predict(ones_new),
        ),
        (
            "RLS.gaussian",
            "`GaussianKernel`, `gamma`",
            '`kernel="rbf"`, `gamma`',
            IndependentTaskRidge(ALPHA, **RBF, **plain).fit(on.X, on.Y).predict(on.X_new),
        ),
        (
            "KronRLS.predict",
            "`KronRLS(K1, K2)`, `solve`",
            "`KroneckerRidge`, `set_alpha`",
            kronecker.predict(*new),
        ),
        (
            "KronRLS.linear",
            "`KronRLS(X1, X2)`",
            "`KroneckerRidge` on features",
            KroneckerRidge(ALPHA, **plain).fit(on.X, on.Y, tasks=on.tasks).predict(*new_features),
        ),
        (
            "KronRLS.in_sample_loo",
            "`KronRLS.in_sample_loo()`",
            '`holdout("A")`',
            kronecker.holdout("A"),
        ),
        (
            "TwoStepRLS.predict",
            "`TwoStepRLS(K1, K2)`, `solve`",
            "`TwoStepRidge`, `set_alpha`",
            two_step.predict(*new),
        ),
        (
            "TwoStepRLS.linear",
            "`TwoStepRLS(X1, X2)`",
            "`TwoStepRidge` on features",
            TwoStepRidge(ALPHA, TASK_ALPHA, **plain)
            .fit(on.X, on.Y, tasks=on.tasks)
            .predict(*new_features),
        ),
        *(
            (
                f"TwoStepRLS.{word}",
                f"`TwoStepRLS.{word}()`",
                f'`holdout("{letter}")`',
                two_step.holdout(word),
            )
            for word, letter in zip(
                ("in_sample_loo", "leave_x1_out", "leave_x2_out", "out_of_sample_loo"),
                "ABCD",
                strict=True,
            )
        ),
        (
            "TwoStepRLS.x1_kfold_cv",
            "`x1_kfold_cv(folds)`",
            '`holdout("B", groups=…)`',
            two_step.holdout("B", **folds),
        ),
        (
            "TwoStepRLS.x2_kfold_cv",
            "`x2_kfold_cv(folds)`",
            '`holdout("C", task_groups=…)`',
            two_step.holdout("C", **task_folds),
        ),
        (
            "TwoStepRLS.out_of_sample_kfold_cv",
            "`out_of_sample_kfold_cv(…)`",
            '`holdout("D", groups=…, task_groups=…)`',
            two_step.holdout("D", **folds, **task_folds),
        ),
        (
            "CGKronRLS.predict",
            "`CGKronRLS(K1, K2)`, half of the pairs",
            "`KroneckerRidge`, NaN",
            two_kernels.predict(*new),
        ),
        (
            "CGKronRLS.linear",
            "`CGKronRLS(X1, X2)`",
            "`KroneckerRidge` on features",
            features.predict(*new_features),
        ),
        (
            "CGKronRLS.sum",
            "`CGKronRLS(pko)`, three products",
            "`PairKernelRidge`",
            summed.predict(*new),
        ),
    ):
        yield compare(theirs, ours, answers[name], actual)
    yield from _networks(on, answers)


def _networks(on: Problem, answers: dict[str, np.ndarray]) -> Iterator[Row]:
    """Leave edges and vertices out of a network: the two do not agree everywhere, and refitting tells who is right."""
    loops = np.eye(len(on.K), dtype=bool)
    for kind, name, setting, cells, equal in (
        ("symmetric", "in_sample_loo_symmetric", "A", ~loops, True),
        ("symmetric", "in_sample_loo_symmetric", "A", loops, False),
        ("symmetric", "out_of_sample_loo_symmetric", "D", ~loops, True),
        ("symmetric", "out_of_sample_loo_symmetric", "D", loops, False),
        ("symmetric", "leave_vertex_out", "B", ~loops, False),
        ("antisymmetric", "in_sample_loo_symmetric", "A", ~loops, False),
        ("antisymmetric", "out_of_sample_loo_symmetric", "D", ~loops, True),
        ("antisymmetric", "leave_vertex_out", "B", ~loops, False),
    ):
        model = TwoStepRidge(ALPHA, ALPHA, **GIVEN, symmetry=kind).fit(on.K, getattr(on, kind))
        theirs = f"{kind}, `{name}()`" + (" of loops" if cells is loops else "")
        answer = answers[f"{kind}.{name}"][cells]
        actual = model.holdout(setting)[cells]
        yield compare(theirs, f'`holdout("{setting}")`', answer, actual, 1e-10 if equal else None)
    for kind in ("symmetric", "antisymmetric"):
        model = TwoStepRidge(ALPHA, ALPHA, **GIVEN, symmetry=kind).fit(on.K, getattr(on, kind))
        off = max(verify_holdout(model, setting, n=100) for setting in "ABCD")
        yield Row(
            f"{kind}, refitted without what is left out", "`holdout`, all settings", off, 1e-10
        )


def gpytorch(on: Problem) -> Iterator[Row]:
    """Gaussian processes, where there is a library of them."""
    from peers_gpytorch import processes

    return processes(on)


PEERS: dict[str, tuple[str, Callable[[Problem], Iterator[Row]]]] = {
    "sklearn": ("scikit-learn", scikit_learn),
    "himalaya": ("himalaya", himalaya),
    "gpytorch": ("gpytorch", gpytorch),
    "implicit": ("implicit", implicit),
    "surprise": ("scikit-surprise", surprise),
}


def say(name: str, rows: list[Row], markdown: bool) -> None:
    """Print the table of one peer."""
    print(f"\n| {name} | here | difference |\n|---|---|--:|" if markdown else f"\n{name}")
    for row in rows:
        if markdown:
            shown = f"{row.difference:.0e}" if row.verdict == "equal" else row.verdict
            print(f"| {row.theirs} | {row.ours} | {shown} |")
        else:
            theirs, ours = (words.replace("`", "") for words in (row.theirs, row.ours))
            print(f"  {theirs:<56} {ours:<50} {row.difference:6.0e}  {row.verdict}")


def main(arguments: list[str] | None = None) -> int:
    """Print what is equal, and how nearly."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "peers", nargs="*", help=f"which of rlscore, {', '.join(PEERS)}; all by default"
    )
    parser.add_argument("--rlscore", metavar="PYTHON", help="an interpreter that has RLScore")
    parser.add_argument("--markdown", action="store_true", help="tables for the documentation")
    args = parser.parse_args(arguments)
    unknown = set(args.peers) - {"rlscore", *PEERS}
    if unknown:
        parser.error(
            f"no such peer: {', '.join(sorted(unknown))}. There are rlscore, {', '.join(PEERS)}."
        )
    chosen = args.peers or ["rlscore", *PEERS]
    on = Problem()
    told = []
    absent = []
    wrong = 0
    python = args.rlscore or (sys.executable if find_spec("rlscore") else None)
    for name in chosen:
        if name == "rlscore" and python is not None:
            answers = ask_rlscore(on, python)
            compared = list(rlscore(on, answers))
            told.append(str(answers["versions"]))
        elif name in PEERS and find_spec(name) is not None:
            package, work = PEERS[name]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those of the peers are theirs
                compared = list(work(on))
            told.append(f"{package} {version(package)}")
        else:
            absent.append(name)
            continue
        say(told[-1], compared, args.markdown)
        wrong += sum(row.verdict == "NOT EQUAL" for row in compared)
    print(
        f"\n{date.today()}, Python {platform.python_version()}, numpy {np.__version__}; "
        f"{', '.join(told)}"
    )
    print(f"not installed, and not compared: {', '.join(absent) or 'none'}")
    if wrong:
        print(f"{wrong} rows are NOT EQUAL.")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
