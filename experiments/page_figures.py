"""Print the small figures of the pages that no other script prints, with date and versions.

    python experiments/page_figures.py [noise] [fingerprints] [landmarks] [missing] [identical] [flixster] [times]
        [sizes] [rankings]

Each part takes less than a minute on one core; without names all run. `fingerprints` and `times`
need the drug–target networks, `identical` needs Davis, and `flixster` the published split of
ratings (docs/reproduce.md says where from).
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import scipy  # noqa: E402
import sklearn  # noqa: E402
from ratings import load_ratings  # noqa: E402
from records_data import find_data  # noqa: E402
from sklearn.feature_extraction.text import TfidfTransformer  # noqa: E402

import dyadlearn  # noqa: E402
from dyadlearn import (  # noqa: E402
    KroneckerRidge,
    Landmarks,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
    explain,
    load,
    permutation_test,
    save,
)
from dyadlearn.datasets import debtags_kernels, fetch_davis, fetch_yamanishi, load_debtags  # noqa: E402
from dyadlearn.holdout.baselines import baselines  # noqa: E402
from dyadlearn.kernels import minmax, tanimoto  # noqa: E402
from dyadlearn.kernels.chemistry import fingerprints as morgan  # noqa: E402
from dyadlearn.metrics import ic_index, pearson, roc_auc  # noqa: E402
from dyadlearn.report import write_report  # noqa: E402

ALPHAS = 10.0 ** np.arange(-7, 7)


def noise(n_grids: int = 350) -> Iterator[str]:
    """comparing.md: how often p is at most 0.05 on noise, with the search repeated and with a fixed model."""
    alphas = np.logspace(-3, 4, 8)
    small = np.zeros(2)
    for seed in range(n_grids):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(12, 5))
        T = rng.normal(size=(6, 3))
        Y = rng.normal(size=(12, 6))
        search = TwoStepRidgeCV(alphas, alphas, setting="D", scoring="neg_mean_squared_error").fit(
            X, Y, tasks=T
        )
        fixed = TwoStepRidge(search.alpha_, search.task_alpha_).fit(X, Y, tasks=T)
        for i, model in enumerate((search, fixed)):
            test = permutation_test(
                model, "D", scoring="neg_mean_squared_error", n_permutations=19, random_state=seed
            )
            small[i] += test.p_value <= 0.05
    repeated, held = small / n_grids
    yield f"{n_grids} grids of noise, p ≤ 0.05: search repeated {repeated:.1%}, best regularisation fixed {held:.1%}"


def fingerprints() -> Iterator[str]:
    """kernels.md: correlation of kernels of fingerprints with the published similarities of drugs."""
    for name in ("e", "ic", "gpcr", "nr"):
        data = fetch_yamanishi(name, data_home=find_data(None), instances="drugs")
        known = [i for i, drug in enumerate(data.instance_names) if str(drug) in data.smiles]
        smiles = [data.smiles[str(data.instance_names[i])] for i in known]
        above = np.triu_indices(len(known), 1)
        published = data.K[np.ix_(known, known)][above]
        bits, counts = (
            morgan(smiles, counts=has_counts)[0].toarray() for has_counts in (False, True)
        )
        kernels = {"tanimoto": tanimoto(bits), "minmax": minmax(counts)}
        scores = [
            f"{key} {np.corrcoef(kernel[above], published)[0, 1]:.2f}"
            for key, kernel in kernels.items()
        ]
        yield f"{name}, {len(known)} of {len(data.instance_names)} drugs: {', '.join(scores)}"


def landmarks() -> Iterator[str]:
    """kernels.md: AUC of the packages and tags by the number of landmarks."""
    data = load_debtags()
    packages = TfidfTransformer().fit_transform(data.X)
    _, G = debtags_kernels(data)
    for n in (50, 100, 200, 400, 800, None):
        if n is None:
            model = TwoStepRidge(kernel="cosine", task_kernel="precomputed")
            X = packages
            error = 0.0
        else:
            rows = Landmarks(n, kernel="cosine", random_state=0)
            model = TwoStepRidge(task_kernel="precomputed")
            X = rows.fit_transform(packages)
            error = rows.error_
        model.fit(X, data.Y, tasks=G)
        scores = [roc_auc(data.Y, model.holdout(setting), average="task") for setting in "ABCD"]
        yield f"{n or 'all'} landmarks, error {error:.2f}: " + ", ".join(
            f"{score:.3f}" for score in scores
        )


def missing(n_sets: int = 20) -> Iterator[str]:
    """learned_kernels.md: errors for new rows that lack one of two descriptions."""
    for correlation in (0.0, 0.95):
        errors = []
        for seed in range(n_sets):
            rng = np.random.default_rng(seed)
            a = rng.normal(size=(180, 5))
            b = correlation * a + np.sqrt(1 - correlation**2) * rng.normal(size=(180, 5))
            T = rng.normal(size=(20, 5))
            truth = (a + b) @ T.T
            truth /= truth.std()
            Y = truth[:120] + 0.2 * rng.normal(size=(120, 20))
            train, new = ({"a": a[part], "b": b[part]} for part in (slice(120), slice(120, None)))

            def fitted(
                X: dict[str, np.ndarray], Y: np.ndarray = Y, T: np.ndarray = T
            ) -> LearnedKernelRidge:
                # Linear kernels without normalisation: the part of a description of zeros is zero.
                linear = {"kernel": "linear", "task_kernel": "linear", "normalize": False}
                return LearnedKernelRidge(**linear, setting="B", progress=False).fit(X, Y, tasks=T)

            model = fitted(train)
            zero = {"a": new["a"], "b": np.zeros_like(new["b"])}
            predictions = (
                model.predict(new),
                model.predict({"a": new["a"]}),
                fitted({"a": train["a"]}).predict({"a": new["a"]}),
                model.predict(zero),
            )
            errors.append([np.mean((values - truth[120:]) ** 2) for values in predictions])
        both, predicted, again, nothing = np.mean(errors, axis=0)
        yield (
            f"correlation {correlation}: both {both:.3f}, predicted {predicted:.3f}, fitted again "
            f"{again:.3f}, "
            f"set to zero {nothing:.3f}"
        )


def identical() -> Iterator[str]:
    """records.md: Davis with random folds of targets, and with identical sequences in one fold."""
    data = fetch_davis(data_home=find_data(None))
    for groups in (None, "identical"):
        kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
        search = TwoStepRidgeCV(ALPHAS, ALPHAS, setting="B", cv=5, progress=False, **kernels)
        search.fit(data.K, data.Y, tasks=data.G, groups=groups)
        yield f"groups={groups!r}: mean squared error {np.mean((search.holdout_ - data.Y) ** 2):.3f}"


def flixster() -> Iterator[str]:
    """online.md: RMSE of ratings with and without a term for each user."""
    data = load_ratings("flixster", data_home=find_data(None))
    m, q = data.Y.shape

    def leading(edges: np.ndarray, n: int) -> np.ndarray:
        """Return the 15 leading eigenvectors of a graph."""
        adjacency = np.zeros((n, n))
        adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1
        return scipy.sparse.linalg.eigsh(adjacency, 15, v0=np.ones(n))[1]

    X = leading(data.instance_edges, m)
    T = leading(data.task_edges, q)
    users = pd.DataFrame(X / X.std(), [f"user {i}" for i in range(m)])
    Y = pd.DataFrame(data.Y, users.index)
    some = np.flatnonzero(np.isfinite(data.Y).any(axis=1))[:200]
    test = np.isfinite(data.Y_test)
    model = OnlineTwoStepRidge(alpha=30, task_alpha=30, keep_labels=True).fit(
        users, Y, tasks=T / T.std()
    )
    for row_alpha in (None, 1, 3, 5, 10, 20):
        model.set_params(row_alpha=row_alpha)
        gaps = np.asarray(model.holdout(users.iloc[some], Y.iloc[some], "A")) - data.Y[some]
        errors = np.asarray(model.predict(users))[test] - data.Y_test[test]
        held = np.nanmean(gaps**2) ** 0.5
        rmse = np.mean(errors**2) ** 0.5
        yield f"row_alpha {row_alpha}: RMSE {rmse:.3f}, held out for 200 users {held:.3f}"


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a function."""
    start = time.process_time()
    work()
    return time.process_time() - start


def times() -> Iterator[str]:
    """selection.md, report.md, explaining.md: processor times of one thread."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(200, 200))
    F = Y + rng.normal(size=Y.shape)
    yield f"IC-index of 200 × 200: {seconds(lambda: ic_index(Y, F)):.2f} s"
    data = fetch_yamanishi("e", data_home=find_data(None))
    fit = TwoStepRidge(kernel="precomputed", task_kernel="precomputed").fit(
        data.K, data.Y, tasks=data.G
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        took = seconds(lambda: write_report(fit, path))
        yield f"report of two-step on 664 × 445: {took:.0f} s, {path.stat().st_size / 1e6:.1f} MB"
    X, T = rng.normal(size=(943, 25)), rng.normal(size=(1650, 19))
    Y = X @ rng.normal(size=(25, 19)) @ T.T / 20 + rng.normal(size=(943, 1650))
    Y[rng.random(Y.shape) > 0.05] = np.nan
    for model in (KroneckerRidge(1), PairKernelRidge(10, per_task=0.3, per_instance=0.3)):
        fitting = seconds(lambda model=model: model.fit(X, Y, tasks=T))
        one = seconds(lambda model=model: explain(model, 0, 0))
        yield f"{model}: fit {fitting:.1f} s, one explanation {one:.1f} s"


def sizes() -> Iterator[str]:
    """files.md: sizes of files of learned kernels, and processor times to save, load and use them."""
    rng = np.random.default_rng(0)
    for m, q, setting, stages in ((1500, 200, "B", 1), (600, 150, "A", 2)):
        bits = (rng.random((m, 2048)) < 0.03).astype(float)
        kernel = correlations(rng.normal(size=(m, 30)))
        Y = bits[:, :5] @ rng.normal(size=(5, q)) + rng.normal(size=(m, q))
        if setting == "A":
            Y[rng.random(Y.shape) < 0.5] = np.nan
        kernels = {"bits": "tanimoto", "kernel": "precomputed"}
        model = LearnedKernelRidge(
            kernel=kernels,
            task_kernel="precomputed",
            setting=setting,
            stages=stages,
            n_steps=1,
            cv=2,
            progress=False,
        )
        model.fit({"bits": bits, "kernel": kernel}, Y, correlations(rng.normal(size=(q, 20))))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.dyad"
            saving = seconds(lambda model=model, path=path: save(model, path))
            size = path.stat().st_size / 1e6
            loading = seconds(lambda path=path: load(path))
            again = load(path)
            first = seconds(again.predict)
        is_same = np.array_equal(again.predict(), model.predict())
        yield (
            f"{m} × {q}, {setting}, {stages} stages: {size:.1f} MB, save {saving:.1f} s, load "
            f"{loading:.1f} s, first predict() {first:.1f} s, equal {is_same}"
        )


def rankings(n_draws: int = 30) -> Iterator[str]:
    """holdout.md and breeding.md: leave-one-out predictions of noise, compared between fits."""
    models = {
        "Kronecker, A, λ = 100": ("A", lambda **options: KroneckerRidge(100.0, **options)),
        "two-step, A, λ = 1000": ("A", lambda **options: TwoStepRidge(1e3, 1e3, **options)),
        "two-step, D, λ = 1": ("D", lambda **options: TwoStepRidge(1.0, 1.0, **options)),
    }
    for name, (setting, make) in models.items():
        for fit_intercept in (True, False):
            scores = []
            for seed in range(n_draws):
                rng = np.random.default_rng(seed)
                X = rng.normal(size=(30, 4))
                T = rng.normal(size=(20, 3))
                Y = rng.integers(0, 2, size=(30, 20)).astype(float)
                model = make(fit_intercept=fit_intercept).fit(X, Y, tasks=T)
                scores.append(roc_auc(Y, model.holdout(setting), average="pooled"))
            yield f"{name}, intercept {fit_intercept}: pooled AUC {np.mean(scores):.3f}"
    found = []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        M = rng.binomial(2, rng.uniform(0.1, 0.9, size=300), size=(150, 300))
        W = rng.normal(size=(5, 4))
        Y = rng.normal(size=(150, 5))
        model = KroneckerRidge(1000.0, kernel="vanraden").fit(M, Y, tasks=W)
        held_out = model.holdout("B")
        without = held_out - baselines(model.fitted_.labels, "B")["task_means"]
        found.append([pearson(Y, F, average="task") for F in (held_out, without)])
    plain, subtracted = np.mean(found, axis=0)
    yield f"150 lines, 5 environments: correlation {plain:.2f}, minus the means {subtracted:.2f}"


def correlations(rows: np.ndarray) -> np.ndarray:
    """Return the exactly symmetric matrix of cosines of rows."""
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    cosines = (cosines + cosines.T) / 2
    np.fill_diagonal(cosines, 1.0)
    return cosines


PARTS = {
    part.__name__: part
    for part in (
        noise,
        fingerprints,
        landmarks,
        missing,
        identical,
        flixster,
        times,
        sizes,
        rankings,
    )
}


def main() -> None:
    """Print the figures of the named parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all by default")
    versions = (
        f"numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )
    print(
        f"{date.today()}, Python {platform.python_version()}, dyadlearn {dyadlearn.__version__}, "
        f"{versions}"
    )
    for name in parser.parse_args().parts or PARTS:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for line in PARTS[name]():
                print(f"{name}: {line}", flush=True)
        print(f"{name}: {time.process_time() - start:.0f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
