"""Kernels of kinases by the residues that line the binding pocket, which alignments of sequences locate.

`pocket_kernels` compares constructs of kinases at the 85 positions of KLIFS (van Linden and others
2014, J. Med. Chem. 57:249). These positions are known in EGFR, which has to be among the proteins.
All sequences are aligned with the kinase domain of EGFR first, and then twice with the profile of
the aligned sequences. No label enters.

The names of constructs say what their sequences do not: mutations, such as ABL1(T315I), and which
of two kinase domains was measured, such as JAK1(JH2domain-pseudokinase).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

LETTERS = "ARNDCQEGHILKMFPSTWYV"
UNKNOWN = len(LETTERS)
#: Lower triangle of BLOSUM62 in the order of LETTERS, in half bits (Henikoff and Henikoff 1992).
BLOSUM62 = """
 4
-1  5
-2  0  6
-2 -2  1  6
 0 -3 -3 -3  9
-1  1  0  0 -3  5
-1  0  0  2 -4  2  5
 0 -2  0 -1 -3 -2 -2  6
-2  0  1 -1 -3  0  0 -2  8
-1 -3 -3 -3 -1 -3 -3 -4 -3  4
-1 -2 -3 -4 -1 -2 -3 -4 -3  2  4
-1  2  0 -1 -3  1  1 -2 -1 -3 -2  5
-1 -1 -2 -3 -1  0 -2 -3 -2  1  2 -1  5
-2 -3 -3 -3 -2 -3 -3 -3 -1  0  0 -3  0  6
-1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4  7
 1 -1  1  0 -1  0  0  0 -1 -2 -2  0 -1 -2 -1  4
 0 -1  0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1  1  5
-3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1  1 -4 -3 -2 11
-2 -2 -2 -3 -2 -1 -2 -3  2 -1 -1 -2 -1  3 -3 -2 -2  2  7
 0 -3 -3 -3 -1 -2 -2 -3 -3  3  1 -2  1 -1 -2 -2  0 -3 -1  4
"""
#: The kinase domain of EGFR, the residues of its pocket (KLIFS) and what they are, counted from 1.
DOMAIN = (706, 985)
RANGES = ((716, 728), (742, 747), (758, 770), (772, 780), (787, 804), (827, 845), (853, 859))
POCKET = "KVLGSGAFGTVYKVAIKELEILDEAYVMASVDPHVCRLLGIQLITQLMPFGCLLDYVREYLEDRRLVHRDLAARNVLVITDFGLA"
#: Gatekeeper, hinge and linker among the positions of the pocket.
HINGE = slice(44, 52)
#: Costs of gaps, and the score in half bits that a kinase domain has at least; other proteins have
#: much less.
OPENING = 8.0
EXTENSION = 0.5
LEAST = 160.0
#: How far the numbers of residues in names may be shifted.
SHIFT = 100


def pocket_kernels(names: Sequence[str], sequences: Sequence[str]) -> dict[str, np.ndarray]:
    """Return two kernels of kinases: the cube of the similarity of pockets, and the similarity of hinges.

    The similarity of residues is that of BLOSUM62. A protein without a kinase domain is similar to
    those of the same sequence alone.
    """
    residues = domain_residues(names, sequences)[:, pocket_columns()]
    known = (residues < UNKNOWN).any(axis=1)
    codes = np.unique(sequences, return_inverse=True)[1]
    same = (codes[:, None] == codes) & ~known[:, None] & ~known
    pocket = similarities(residues)
    hinge = similarities(residues[:, HINGE])
    return {"pocket": np.where(same, 1.0, pocket**3), "hinge": np.where(same, 1.0, hinge)}


def pocket_columns() -> np.ndarray:
    """Return the 85 columns of the pocket among those of the domain."""
    return np.concatenate([np.arange(first, last + 1) for first, last in RANGES]) - DOMAIN[0]


def domain_residues(names: Sequence[str], sequences: Sequence[str]) -> np.ndarray:
    """Return places in LETTERS of the residues of kinase domains (n, 280), one column for each residue of EGFR.

    They are UNKNOWN for gaps and for proteins without a kinase domain.
    """
    egfr = encoded(sequences[list(names).index("EGFR")][DOMAIN[0] - 1 : DOMAIN[1]])
    if len(egfr) <= pocket_columns().max() or (egfr[pocket_columns()] != encoded(POCKET)).any():
        raise ValueError(
            "The sequence of EGFR has another numbering: its pocket is not where KLIFS has it."
        )
    coded = [encoded(coded_one) for coded_one in mutated(names, sequences)]
    profile = extended(substitutions()[egfr])
    for _ in range(2):
        profile = profile_of(
            np.array([at(coded_one, align(profile, coded_one)[1]) for coded_one in coded])
        )
    return np.array(
        [
            at(coded_one, domain(profile, coded_one, name))
            for coded_one, name in zip(coded, names, strict=True)
        ]
    )


def domain(profile: np.ndarray, letters: np.ndarray, name: str) -> np.ndarray:
    """Return the residue of each column of a profile in the kinase domain that the name says; -1 for a gap."""
    score, where = align(profile, letters)
    if score < LEAST:
        return np.full(len(profile), -1)
    asked = re.search(r"(JH2|KinDom\.1)|JH1|KinDom\.?2", name)
    if asked:
        hidden = letters.copy()
        hidden[where[where >= 0].min() : where.max() + 1] = UNKNOWN
        score, other = align(profile, hidden)
        if score >= LEAST and (other.max() < where.max()) == bool(asked[1]):
            return other
    return where


def mutated(names: Sequence[str], sequences: Sequence[str]) -> list[str]:
    """Return the sequences with the substitutions and deletions that the names say.

    Numbers in names may be shifted, by as much for all variants of a sequence. Without a shift that
    fits all of them, the sequence stays as it is.
    """
    changed = list(sequences)
    variants = defaultdict(list)
    for place, (name, sequence) in enumerate(zip(names, sequences, strict=True)):
        inside = "".join(re.findall(r"\(.*\)", name))
        if "del" in inside:
            pattern = r"([A-Z])(\d+)([A-Z])(\d+)del"
        else:
            pattern = r"([A-Z])(\d+)([A-Z])()"
        variants[sequence] += [(place, *change) for change in re.findall(pattern, inside)]
    for sequence, edits in variants.items():
        needed = {(old, int(first)) for _, old, first, _, _ in edits}
        needed |= {(new, int(last)) for _, _, _, new, last in edits if last}
        for shift in sorted(range(-SHIFT, SHIFT + 1), key=abs):
            if all(sequence[max(at + shift - 1, 0) :][:1] == letter for letter, at in needed):
                for place, _, first, new, last in edits:
                    begin = int(first) + shift - 1
                    end, put = (int(last) + shift, "") if last else (begin + 1, new)
                    changed[place] = changed[place][:begin] + put + changed[place][end:]
                break
    return changed


def align(profile: np.ndarray, letters: np.ndarray) -> tuple[float, np.ndarray]:
    """Align all columns of a profile with a part of a sequence; gaps have affine costs.

    Parameters
    ----------
    profile : array of shape (n_columns, 21)
        Score of each letter, and of UNKNOWN.
    letters : array of shape (n,)
        Places in LETTERS.

    Returns
    -------
    score : float
    places : array of shape (n_columns,)
        Residue of each column; -1 for a gap.
    """
    n = len(letters)
    # Entry i is the best score if the last residue used is i, counted from 1.
    gains = np.hstack([np.full((len(profile), 1), -np.inf), profile[:, letters]])
    steps = EXTENSION * np.arange(n + 1)
    order = np.arange(n + 1)
    match = np.zeros(n + 1)
    insert = np.full(n + 1, -np.inf)
    delete = np.full(n + 1, -np.inf)
    begun = np.zeros(n + 1, dtype=int)
    history = []
    for gain in gains:
        inserted = insert > match
        best = np.maximum(match, insert)
        came = np.where(delete > best, 2, inserted)
        best = np.maximum(best, delete)
        opened = match - OPENING
        extended = delete - EXTENSION
        history.append((came, extended > opened, begun))
        delete = np.maximum(opened, extended)
        match = gain
        match[1:] += best[:-1]
        # An insertion after this column follows the match that is best so far, less the extensions
        # since.
        sums = match + steps
        run = np.maximum.accumulate(sums)
        begun = np.maximum.accumulate(np.where(sums >= run, order, 0))
        insert[1:] = run[:-1] - steps[1:] + (EXTENSION - OPENING)
    if match.max() >= delete.max():
        state, i = (0, match.argmax())
    else:
        state, i = (2, delete.argmax())
    score = float(max(match.max(), delete.max()))
    places = np.full(len(profile), -1)
    for column in range(len(profile))[::-1]:
        came, longer, begun = history[column]
        if state == 2:
            state = 2 * longer[i]
            continue
        i -= 1
        places[column] = i
        state = came[i]
        if state == 1:
            state = 0
            i = begun[i - 1]
    return score, places


def profile_of(aligned: np.ndarray) -> np.ndarray:
    """Return scores in half bits (n_columns, 21) of each letter in each column of aligned sequences (n, n_columns).

    Sequences count less if many are like them. Letters that were not seen score as BLOSUM62 says of
    those seen.
    """
    shown = (aligned[:, :, None] == np.arange(UNKNOWN)).astype(np.float64)
    flat = shown.reshape(len(aligned), -1)
    weights = 1.0 / (flat @ flat.T > aligned.shape[1] / 2).sum(axis=1).clip(1)
    seen = np.tensordot(weights, shown, axes=1)
    totals = seen.sum(axis=1, keepdims=True)
    seen /= totals
    common = seen.mean(axis=0)
    likely = common * 2.0 ** (substitutions() / 2)
    likely /= likely.sum(axis=1, keepdims=True)
    shares = (totals * seen + 8.0 * seen @ likely) / (totals + 8.0)
    return extended(2.0 * np.log2(shares / common))


def similarities(residues: np.ndarray) -> np.ndarray:
    """Return cosines (n, n) between residues at the same positions (n, n_positions), compared by BLOSUM62."""
    alike = np.exp(0.2 * substitutions())
    alike /= np.sqrt(np.outer(np.diag(alike), np.diag(alike)))
    values, vectors = np.linalg.eigh(alike)
    features = np.vstack([vectors * np.sqrt(values.clip(0)), np.zeros(UNKNOWN)])[residues].reshape(
        len(residues), -1
    )
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    features = features / np.where(lengths > 0, lengths, 1.0)
    K = features @ features.T
    np.fill_diagonal(K, 1.0)
    return np.asarray((K + K.T) / 2)


def substitutions() -> np.ndarray:
    """Return BLOSUM62 as a matrix (20, 20)."""
    lower = np.zeros((UNKNOWN, UNKNOWN))
    for row, line in zip(lower, BLOSUM62.strip().splitlines(), strict=True):
        numbers = [float(part) for part in line.split()]
        row[: len(numbers)] = numbers
    return lower + np.tril(lower, -1).T


def encoded(sequence: str) -> np.ndarray:
    """Return the places in LETTERS of a sequence; UNKNOWN for other letters."""
    places = {letter: place for place, letter in enumerate(LETTERS)}
    return np.array([places.get(letter, UNKNOWN) for letter in sequence], dtype=int)


def extended(scores: np.ndarray) -> np.ndarray:
    """Return scores with a column for UNKNOWN."""
    return np.hstack([scores, np.full((len(scores), 1), -1.0)])


def at(letters: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the letters at places; UNKNOWN where a place is -1."""
    return np.append(letters, UNKNOWN)[places]
