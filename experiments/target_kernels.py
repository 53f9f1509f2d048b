"""Which kernels of kinases predict new ones? Hold-out errors on the training parts of the published folds of Davis.

    python experiments/target_kernels.py [--folds 0,1,2] [--data-home FOLDER] [--cache FOLDER]

One candidate at a time joins the kernel of Smith–Waterman scores, with a share of a fifth or a
half. The model is a ridge regression of both sides. Five folds of the training part keep identical
sequences together. The errors are those of held-out proteins (C), and of held-out proteins with
held-out drugs (D), for the regularisations and the share whose errors are least. No label of a test
part is read.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from kinases import (
    HINGE,
    LETTERS,
    UNKNOWN,
    domain_residues,
    encoded,
    pocket_columns,
    similarities,
    substitutions,
)
from published_folds import sources
from records_data import digest, kept

SHARES = (0.2, 0.5)
ALPHAS = 10.0 ** np.arange(-2.5, 1.1, 0.5)
DRUG_ALPHAS = (0.1, 0.3, 1.0)
N_FOLDS = 5


def candidates(sequences: Sequence[str], residues: np.ndarray) -> dict[str, list[np.ndarray]]:
    """Return the kernels of each candidate by its name, of sequences and of aligned domains (n, 280)."""
    within = ["".join(LETTERS[code] for code in row if code < UNKNOWN) for row in residues]
    pairs = [(0, last) for last in range(1, 9)]
    triples = [(0, middle, last) for last in range(2, 5) for middle in range(1, last)]
    shares = (residues[:, :, None] == np.arange(UNKNOWN)).mean(axis=0)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    low = entropy < np.median(entropy)
    pocket, hinge = (
        similarities(residues[:, pocket_columns()[part]]) for part in (slice(None), HINGE)
    )
    return {
        "pairs of letters up to 8 apart": [cosines(words(sequences, pairs))],
        "gapped words of 3 in 5": [cosines(words(sequences, triples))],
        "words of 3, compared by BLOSUM62": [cosines(blurred(words(sequences, [(0, 1, 2)])))],
        "words of 3 of the aligned domain": [cosines(words(within, [(0, 1, 2)]))],
        "gapped words of 3 in 5 of the aligned domain": [cosines(words(within, triples))],
        "aligned domain, by BLOSUM62": [similarities(residues)],
        "its more varied half": [similarities(residues[:, ~low])],
        "its more conserved half": [similarities(residues[:, low])],
        "hinge": [hinge],
        "pocket": [pocket**3],
        "pocket and hinge": [pocket**3, hinge],
    }


def words(sequences: Sequence[str], patterns: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Return roots of how often letters occur at the distances of each pattern, side by side."""
    blocks = []
    for pattern in patterns:
        size = len(LETTERS) ** len(pattern)
        counts = np.zeros((len(sequences), size))
        for row, sequence in zip(counts, sequences, strict=True):
            letters = encoded(sequence)
            n = max(len(letters) - pattern[-1], 0)
            places = np.stack([letters[place : place + n] for place in pattern])
            places = places[:, (places < UNKNOWN).all(axis=0)]
            row += np.bincount(
                np.ravel_multi_index(tuple(places), (UNKNOWN,) * len(pattern)), minlength=size
            )
        blocks.append(np.sqrt(counts))
    return np.hstack(blocks)


def blurred(counts: np.ndarray) -> np.ndarray:
    """Return counts of words of three letters (n, 8000) such that words of similar letters are similar."""
    alike = np.exp(0.35 * substitutions())
    alike /= np.sqrt(np.outer(np.diag(alike), np.diag(alike)))
    values, vectors = np.linalg.eigh(alike)
    root = vectors * np.sqrt(values.clip(0))
    cube = counts.reshape(-1, UNKNOWN, UNKNOWN, UNKNOWN)
    return np.asarray(
        np.einsum("nabc,ai,bj,ck->nijk", cube, root, root, root, optimize=True).reshape(
            len(counts), -1
        )
    )


def cosines(features: np.ndarray) -> np.ndarray:
    """Return cosines between rows; ones on the diagonal, also of rows of zeros."""
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    features = features / np.where(lengths > 0, lengths, 1.0)
    K = features @ features.T
    np.fill_diagonal(K, 1.0)
    return np.asarray(K)


def completed(Y: np.ndarray, K: np.ndarray, G: np.ndarray, alpha: float = 0.05) -> np.ndarray:
    """Return labels whose missing ones are smoothed from the others, over drugs and proteins."""
    a, U = np.linalg.eigh(K)
    b, V = np.linalg.eigh(G)
    weights = np.outer(a, b) / (np.outer(a, b) + alpha)
    whole = np.where(np.isnan(Y), np.nanmean(Y, axis=1, keepdims=True), Y)
    for _ in range(20):
        means = whole.mean(axis=1, keepdims=True)
        whole = np.where(np.isnan(Y), U @ (weights * (U.T @ (whole - means) @ V)) @ V.T + means, Y)
    return np.asarray(whole)


def smoothers(
    G: np.ndarray, train: np.ndarray, test: np.ndarray, alphas: Sequence[float]
) -> list[np.ndarray]:
    """Return the matrices (n_test, n_train) of ridge regressions, one for each alpha."""
    values, V = np.linalg.eigh(G[np.ix_(train, train)])
    rows = G[np.ix_(test, train)] @ V
    return [(rows / (values + alpha)) @ V.T for alpha in alphas]


def parts(groups: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and held-out rows of each fold; groups stay together."""
    codes = np.unique(groups, return_inverse=True)[1]
    fold = np.random.default_rng(seed).permutation(codes.max() + 1)[codes] % N_FOLDS
    return [
        (np.flatnonzero(fold != number), np.flatnonzero(fold == number))
        for number in range(N_FOLDS)
    ]


def error_of_new_proteins(
    Y: np.ndarray, G: np.ndarray, sequences: np.ndarray, whole: np.ndarray
) -> float:
    """Return the least mean squared error of held-out proteins over ALPHAS, of two divisions into folds."""
    squares = np.zeros((len(ALPHAS), *Y.shape))
    for seed in range(2):
        for train, test in parts(sequences, seed):
            means = whole[:, train].mean(axis=1, keepdims=True)
            for place, S in enumerate(smoothers(G, train, test, ALPHAS)):
                squares[place][:, test] += (
                    Y[:, test] - means - (whole[:, train] - means) @ S.T
                ) ** 2 / 2
    return float(np.nanmean(squares, axis=(1, 2)).min())


def error_of_new_pairs(Y: np.ndarray, K: np.ndarray, G: np.ndarray, sequences: np.ndarray) -> float:
    """Return the least mean squared error of held-out drugs with held-out proteins, over both regularisations."""
    squares = np.zeros((len(DRUG_ALPHAS), len(ALPHAS)))
    for train, test in parts(sequences, 0):
        right = smoothers(G, train, test, ALPHAS)
        for drugs, new_drugs in parts(np.arange(len(K)), 0):
            left = smoothers(K, drugs, new_drugs, DRUG_ALPHAS)
            known = Y[np.ix_(drugs, train)]
            grand = known.mean()
            for j, S in enumerate(right):
                both = (known - grand) @ S.T
                main = both.mean(axis=0)
                for i, R in enumerate(left):
                    squares[i, j] += (
                        (Y[np.ix_(new_drugs, test)] - grand - main - R @ (both - main)) ** 2
                    ).sum()
    return float(squares.min() / Y.size)


def main() -> None:
    """Print a table in Markdown: errors in C and D with each candidate, means over the folds."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--folds", default="0,1,2")
    reader.add_argument("--data-home")
    reader.add_argument("--cache")
    options = reader.parse_args()
    data, folds = sources(options.data_home, options.cache)
    first = data.G["smith_waterman"]
    K = np.mean([*data.K.values()], axis=0)
    names, sequences = ([str(one) for one in folds[key]] for key in ("protein_ids", "sequences"))
    codes = np.unique(sequences, return_inverse=True)[1]
    key = digest("domains", *names, *sequences)
    aligned = kept(
        "davis-domains", key, options.cache, lambda: {"residues": domain_residues(names, sequences)}
    )
    joined = {"words of 2, 3, 4 and 5": [data.G[f"words{k}"] for k in (2, 3, 4, 5)]}
    joined |= candidates(sequences, aligned["residues"])
    mixed = {"Smith–Waterman alone": [first]}
    for name, kernels in joined.items():
        mixed[name] = [(1 - share) * first + share * np.mean(kernels, axis=0) for share in SHARES]
    print("| kernel that joins | C | D |\n|---|--:|--:|", flush=True)
    start: dict[str, np.ndarray] = {}
    for name, kernels in mixed.items():
        cells = []
        for setting in ("novel-prot", "novel-pair"):
            errors = []
            for fold in map(int, options.folds.split(",")):
                train, labels = (
                    folds[f"{setting}_{fold}_train_{part}"] for part in ("pairs", "labels")
                )
                rows, columns = (np.unique(one) for one in train.T)
                Y = np.full(data.Y.shape, np.nan)
                Y[tuple(train.T)] = labels
                Y = Y[np.ix_(rows, columns)]
                D = K[np.ix_(rows, rows)]
                same = codes[columns]
                parts_of = [one[np.ix_(columns, columns)] for one in kernels]
                if setting == "novel-prot":
                    whole = completed(Y, D, first[np.ix_(columns, columns)])
                    errors.append([error_of_new_proteins(Y, G, same, whole) for G in parts_of])
                else:
                    errors.append([error_of_new_pairs(Y, D, G, same) for G in parts_of])
            table = np.array(errors)
            best = table[:, table.mean(axis=0).argmin()]
            difference = best - start.setdefault(setting, best)
            spread = difference.std(ddof=1) / np.sqrt(len(best))
            cells.append(f"{best.mean():.3f} ({difference.mean():+.4f} ± {spread:.4f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
