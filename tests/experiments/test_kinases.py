"""The pockets of kinases: alignments equal a slow twin, and names of constructs change sequences as they say."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal


def slow_score(profile, letters, opening, extension):
    """Return the best score of any alignment of all columns with a part of the sequence, by recursion."""

    @cache
    def rest(column, residue, state):
        if column == len(profile):
            return 0.0
        ways = [
            rest(column + 1, residue, "deleted") - (extension if state == "deleted" else opening)
        ]
        if state == "inserted":
            ways = []
        if residue < len(letters):
            ways.append(
                profile[column, letters[residue]] + rest(column + 1, residue + 1, "matched")
            )
            if column and state != "deleted":
                cost = extension if state == "inserted" else opening
                ways.append(rest(column, residue + 1, "inserted") - cost)
        return max(ways, default=-np.inf)

    return max(rest(0, start, "matched") for start in range(len(letters) + 1))


def score_of(profile, letters, places, opening, extension):
    """Return the score of an alignment."""
    here = places >= 0
    total = profile[here, letters[places[here]]].sum()
    skipped = np.diff(places[here]) - 1
    gaps = [len(run) for run in "".join("x" if each else "-" for each in here).split("x") if run]
    return total - sum(opening + extension * (n - 1) for n in [*gaps, *skipped[skipped > 0]])


@pytest.mark.parametrize("seed", range(12))
def test_alignments_are_the_best(script, seed):
    rng = np.random.default_rng(seed)
    length = rng.integers(3, 9)
    n = rng.integers(2, 14)
    profile = rng.normal(scale=12, size=(length, 21))
    letters = rng.integers(0, 21, size=n)
    score, places = script.align(profile, letters)
    costs = script.OPENING, script.EXTENSION
    assert_allclose(score, slow_score(profile, letters, *costs))
    assert_allclose(score_of(profile, letters, places, *costs), score)
    assert (np.diff(places[places >= 0]) > 0).all()


def test_names_change_sequences(script):
    first = "MKTAYIAKQR"
    second = "GGTTACDE"
    names = ["A", "A(T1V)", "A(A2Y3del)", "A(Y3FT1I)", "A(T1V)p", "B(W4F)", "B"]
    # The numbers of A are shifted by two. No shift fits B, which has no W.
    expected = [first, "MKVAYIAKQR", "MKTIAKQR", "MKIAFIAKQR", "MKVAYIAKQR", second, second]
    assert script.mutated(names, [first] * 5 + [second] * 2) == expected


def test_similarities(script):
    B = script.substitutions()
    assert_array_equal(B, B.T)
    assert_array_equal(np.diag(B), [4, 5, 6, 6, 9, 5, 5, 6, 8, 4, 4, 5, 5, 6, 7, 4, 5, 11, 7, 4])
    residues = np.array([script.encoded(each) for each in ("KVLG", "RVLG", "WPDH", "--LG", "----")])
    K = script.similarities(residues)
    assert_array_equal(np.diag(K), 1)
    assert K[0, 1] > K[0, 3] > K[0, 2]
    assert_allclose(K[0, 3], np.sqrt(0.5))
    assert_array_equal(K[4, :4], 0)
    assert np.linalg.eigvalsh(K)[0] > -1e-12


def test_pockets(script):
    rng = np.random.default_rng(0)
    egfr = np.array(list("".join(rng.choice(list(script.LETTERS), size=1000))))
    places = np.concatenate([np.arange(first - 1, last) for first, last in script.RANGES])
    egfr[places] = list(script.POCKET)
    domain = "".join(egfr[script.DOMAIN[0] - 1 : script.DOMAIN[1]])
    gatekeeper = domain[: 790 - script.DOMAIN[0]] + "M" + domain[791 - script.DOMAIN[0] :]
    other = "".join(rng.choice(list(script.LETTERS), size=30))
    sequences = [
        "".join(egfr),
        "A" * 50 + domain + "GG" * 20 + gatekeeper,
        other,
        other,
        domain[:30] + "WW" + domain[30:],
    ]
    names = ["EGFR", "X(KinDom.2)", "Y", "Z", "V"]
    rows = script.domain_residues(names, sequences)[:, script.pocket_columns()]
    found = ["".join((script.LETTERS + "-")[each] for each in row) for row in rows]
    changed = script.POCKET[:44] + "M" + script.POCKET[45:]
    assert found == [script.POCKET, changed, "-" * 85, "-" * 85, script.POCKET]
    assert "".join("".join(found[0])[script.HINGE]) == "TQLMPFGC"
    kernels = script.pocket_kernels(names, sequences)
    assert list(kernels) == ["pocket", "hinge"]
    for K in kernels.values():
        assert_array_equal(np.diag(K), 1)
        assert_allclose(K[0, 4], 1)
        assert 0.5 < K[0, 1] < 1
        # Without a kinase domain: like the same sequence, and like no other.
        assert_array_equal(K[2], [0, 0, 1, 1, 0])
    with pytest.raises(ValueError, match="has another numbering"):
        script.pocket_kernels(["EGFR"], ["".join(egfr)[1:]])
