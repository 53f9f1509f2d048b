import gzip
import math
import re
import sys
from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import polars
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._tables import Ids, read_table, write_table
from dyadlearn.exceptions import IdError, NotEnoughMemoryError
from dyadlearn.kernels import Structures, normalize, sequences
from dyadlearn.kernels.sequences import (
    KmerCounts,
    SmithWaterman,
    kmer_counts,
    read_fasta,
    smith_waterman,
    spectrum_kernel,
    usual_sequence_kernel,
)
from sweeps import every, lines, over

LETTERS = sequences.LETTERS
AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"


@pytest.fixture(params=["parasail", "biopython"])
def engine(request, monkeypatch):
    """Align by either library."""
    pytest.importorskip({"parasail": "parasail", "biopython": "Bio"}[request.param])
    if request.param == "biopython":
        monkeypatch.setattr(sequences, "find_spec", lambda _: None)
    return request.param


@pytest.fixture
def any_engine():
    """Skip where there is none."""
    if not any(sequences.find_spec(name) for name in ("parasail", "Bio")):
        pytest.skip("neither parasail nor biopython is installed: alignments are not tested")


def random_sequences(n, length, seed, letters=LETTERS):
    rng = np.random.default_rng(seed)
    ancestor = rng.choice(list(letters), length)
    found = []
    for _ in range(n):
        kept = ancestor[rng.random(length) < 0.8]
        changed = np.where(rng.random(len(kept)) < 0.7, kept, rng.choice(list(letters), len(kept)))
        found.append("".join(np.roll(changed, rng.integers(length))))
    return found


def score_of_letters(matrix):
    pytest.importorskip("Bio")
    from Bio.Align import substitution_matrices

    table = substitution_matrices.load(matrix)
    return {(a, b): table[a, b] for a in LETTERS for b in LETTERS}


def slow_score(a, b, score, gap_open, gap_extend):
    """Try every gap of every length at every place."""
    best = np.zeros((len(a) + 1, len(b) + 1))
    for i, j in product(range(1, len(a) + 1), range(1, len(b) + 1)):
        down = max(best[i - n, j] - gap_open - (n - 1) * gap_extend for n in range(1, i + 1))
        right = max(best[i, j - n] - gap_open - (n - 1) * gap_extend for n in range(1, j + 1))
        best[i, j] = max(0.0, best[i - 1, j - 1] + score[a[i - 1], b[j - 1]], down, right)
    return float(best.max())


@cache
def slow_scores(texts, matrix, gap_open, gap_extend):
    """Return the scores of all pairs, once for all engines."""
    score = score_of_letters(matrix)
    return np.array([[slow_score(a, b, score, gap_open, gap_extend) for b in texts] for a in texts])


@over(
    lines(
        "matrix gap_open gap_extend",
        ("BLOSUM62", 10, 0.5),
        ("BLOSUM62", 2.5, 0.5),
        ("BLOSUM50", 1, 1),
        ("BLOSUM90", 3, 0),
        ("BLOSUM62", 65536, 65536),
    )
)
def test_equals_trying_every_gap(engine, matrix, gap_open, gap_extend):
    texts = [*random_sequences(3, 13, seed=3), "X*X", "W", "PPPP"]
    gaps = {"gap_open": gap_open, "gap_extend": gap_extend}
    scores, _ = smith_waterman(texts, matrix=matrix, normalized=False, **gaps)
    expected = slow_scores(tuple(texts), matrix, gap_open, gap_extend)
    assert_allclose(scores, expected, rtol=1e-12)
    K, _ = smith_waterman(texts, matrix=matrix, **gaps)
    assert_allclose(K, normalize(expected), rtol=1e-12)
    block = SmithWaterman(matrix, **gaps).fit(texts[:3]).transform(texts[2:])
    assert_allclose(block, normalize(expected)[2:, :3], rtol=1e-12)


def test_scores_of_long_sequences_do_not_overflow(engine):
    # 22,000 and, in halves, 44,000 are more than 16 bits hold.
    long = "W" * 2000
    short = "W" * 700
    scores, _ = smith_waterman([long, short], normalized=False)
    assert_array_equal(scores, [[22000, 7700], [7700, 7700]])


def test_alignment_invariances(any_engine):
    texts = random_sequences(8, 60, seed=5)
    K, _ = smith_waterman(texts)
    assert_array_equal(K, K.T)
    assert_allclose(np.diag(K), 1, rtol=1e-15)
    assert K.min() >= 0
    assert K.max() <= 1 + 1e-15
    order = [3, 0, 7, 1, 1, 3]
    assert_array_equal(smith_waterman([texts[row] for row in order])[0], K[np.ix_(order, order)])
    assert_allclose(smith_waterman([text[::-1] for text in texts])[0], K, rtol=1e-15)
    assert_array_equal(smith_waterman([f" {text[:9]}\n{text[9:].lower()}" for text in texts])[0], K)
    assert_array_equal(smith_waterman(texts, n_jobs=2)[0], K)
    # What does not align with itself is similar to nothing.
    assert_allclose(smith_waterman(["XX", "WW"])[0], [[0, 0], [0, 1]], rtol=1e-15)


@over(
    lines(
        "parameters message",
        ({"matrix": "PAM250"}, "matrix must be one of 'BLOSUM45', .* found 'PAM250'"),
        ({"gap_open": -1}, "gap_open must be a finite number of at least 0, found -1"),
        ({"gap_extend": math.nan}, "gap_extend must be a finite number of at least 0, found nan"),
        ({"gap_extend": "1"}, "gap_extend must be a number of at least 0, found '1'"),
        ({"gap_open": 1 / 3}, "gap_open must be a whole or half number, found 0.333"),
        ({"gap_open": 1, "gap_extend": 2}, "gap_extend must not exceed gap_open, found 2 and 1"),
    )
)
def test_bad_scoring_is_refused(parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        smith_waterman(["W"], **parameters)
    with pytest.raises((TypeError, ValueError), match=message):
        SmithWaterman(**parameters).fit(["W"])


WRONG = {"P1": "MKV-L", "good": "MKV", "empty": " ", "none": None, "P2": "MK1JU"}


def test_invalid_letters_are_named(any_engine):
    with pytest.raises(ValueError) as caught:
        smith_waterman(WRONG)
    listed = "'P1' (with '-'), 'empty' (empty), 'none' (None), 'P2' (with '1')"
    remedy = 'Correct or remove them, or leave them out with on_error="drop".'
    assert str(caught.value) == f"Not valid: 4 of 5 sequences: {listed}. {remedy}"
    for dropping in (smith_waterman, spectrum_kernel, kmer_counts):
        with pytest.warns(UserWarning, match="Not valid: 4 of 5 sequences.*They are left out"):
            K, ids = dropping(WRONG, on_error="drop")
        assert ids == ["good"]
        assert K.shape[0] == 1
        with pytest.raises(ValueError, match=r"Not valid: 1 of 2 sequences: 'b' \(with 'ß', 'é'\)"):
            dropping(["MKV", "MKéß"], ["a", "b"])
    for step in (SmithWaterman(), KmerCounts()):
        with pytest.raises(ValueError, match=r"position 1 \(with '-'\). Correct or remove them.$"):
            step.fit(["MKV"]).transform(["MKV", "M-V"])


def test_without_a_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sequences, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "Bio", None)
    message = r"Aligning needs parasail or biopython: pip install 'dyadlearn\[bio\]'"
    with pytest.raises(ImportError, match=message):
        smith_waterman(["W"])
    with pytest.raises(ImportError, match=message):
        SmithWaterman().fit(["W"])
    assert spectrum_kernel(["WWW"])[0].tolist() == [[1.0]]


def test_many_sequences_are_not_aligned(monkeypatch):
    many = ["A" * n for n in range(1, 1001)]
    rest = {True: "", False: " with parasail and .* min with biopython"}
    for has_parasail, more in rest.items():
        monkeypatch.setattr(sequences, "find_spec", lambda _, found=has_parasail: found)
        kernel, reason = usual_sequence_kernel(many)
        assert kernel == "spectrum"
        assert reason.startswith("1,000 sequences are compared by their words of 3 letters")
        assert re.search(rf"smith-waterman would take about \d+ \w+{more} on one core\.$", reason)
    # Repeated sequences are aligned once.
    assert usual_sequence_kernel(many[-10:] * 100) == ("smith-waterman", "")
    with pytest.warns(UserWarning, match=r"1,000 sequences .* Pass sequence_kernel="):
        assert Structures("sequences").chosen(many).kernel == "spectrum"


@over(
    lines(
        "k alphabet unknown", (1, AMINO_ACIDS, "BXZ*"), (3, AMINO_ACIDS, "BXZ*"), (2, "TGCA", "N")
    )
)
def test_words_are_counted(k, alphabet, unknown):
    texts = [
        *random_sequences(5, 50, seed=k, letters=alphabet + unknown),
        alphabet[0],
        alphabet[:k],
    ]
    features, ids = kmer_counts(texts, k=k, alphabet=alphabet, unknown=unknown)
    words = ["".join(letters) for letters in product(alphabet, repeat=k)]
    assert features.shape == (len(texts), len(words))
    for text, row in zip(texts, features.toarray(), strict=True):
        count = Counter(text[start : start + k] for start in range(len(text) - k + 1))
        assert_array_equal(row, [count[word] for word in words])
    step = KmerCounts(k, alphabet, unknown)
    assert step.get_feature_names_out().tolist() == words
    assert_array_equal(step.fit_transform(texts).toarray(), features.toarray())
    assert ids == list(range(len(texts)))


def test_spectrum_kernel():
    texts = ["ABABA", "BAB", "AAAA", "A"]
    # Of AB and BA the first two have as many; the third has AA, the last nothing.
    expected = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    K, _ = spectrum_kernel(texts, k=2, alphabet="AB", unknown="")
    assert_allclose(K, expected, rtol=1e-15, atol=1e-15)
    proteins = random_sequences(30, 80, seed=0)
    K, _ = spectrum_kernel(proteins)
    features, _ = kmer_counts(proteins)
    assert_allclose(K, normalize((features @ features.T).toarray()), rtol=1e-14)
    assert_allclose(spectrum_kernel([text[::-1] for text in proteins])[0], K, rtol=1e-14)


@over(
    lines(
        "parameters message",
        ({"k": 0}, "k must be a whole number of at least 1, found 0"),
        ({"k": 10**9}, "k must be at most 24, .*, found 1000000000"),
        ({"k": 2.0}, "k must be a whole number of at least 1, found 2.0"),
        (
            {"k": 6},
            r"20 letters make 20\^6 words, but at most 16777216 can be counted: use a smaller k",
        ),
        ({"alphabet": ""}, "must hold different letters"),
        ({"alphabet": "ACGA"}, "must hold different letters, found 'ACGA'"),
        ({"unknown": "TN"}, "must hold different letters, found '[A-Z]*' and 'TN'"),
        ({"alphabet": "acgt"}, "alphabet must be a text of capital letters, found 'acgt'"),
        ({"unknown": None}, "unknown must be a text of capital letters, found None"),
    )
)
def test_bad_words_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        kmer_counts(["ACGT"], **parameters)
    with pytest.raises(ValueError, match=message):
        KmerCounts(**parameters).fit(["A"])


def test_a_frame_of_too_many_words_is_refused(monkeypatch):
    assert KmerCounts(k=5).fit_transform(["MKVLAAG"]).shape == (1, 20**5)
    monkeypatch.setattr("dyadlearn._memory.available_memory", lambda _: 1000)
    with pytest.raises(NotEnoughMemoryError, match="A frame of 400 columns"):
        KmerCounts(k=2).fit_transform(polars.Series(["MKV"]))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_keep_their_ids(any_engine, kind):
    texts = dict(zip("abcdefg", random_sequences(7, 40, seed=4), strict=True))

    def proteins(names):
        column = np.array([[texts[name]] for name in names], dtype=object)
        return write_table(column, Ids(tuple(names)), Ids(("sequence",)), kind)

    K, _ = smith_waterman(texts)
    step = SmithWaterman()
    square = read_table(step.fit_transform(proteins("abcde")), "K")
    block = read_table(step.transform(proteins("gf")), "K")
    for table, rows, wanted in ((square, "abcde", K[:5, :5]), (block, "gf", K[[6, 5], :5])):
        assert (table.row_ids.labels, table.column_ids.labels) == (tuple(rows), tuple("abcde"))
        assert_allclose(table.values, wanted, rtol=1e-14)
    assert step.get_feature_names_out().tolist() == list("abcde")
    assert step.transform(list(texts.values())).shape == (7, 5)
    counts = KmerCounts(k=1).fit_transform(proteins("gf"))
    assert read_table(counts, "counts").row_ids.labels == ("g", "f")


FASTA = "; a comment\n>P1 first protein\r\nMKV\r\nlla\n\n>P2|x\n  MK VLA \n"


@over(every(compress=[lambda data: data, gzip.compress]))
def test_fasta_files(tmp_path, compress):
    path = tmp_path / "proteins.fasta"
    path.write_bytes(compress(b"\xef\xbb\xbf" + FASTA.encode()))
    assert read_fasta(path) == read_fasta(str(path)) == {"P1": "MKVLLA", "P2|x": "MKVLA"}


def test_only_ends_of_lines_end_the_lines_of_fasta_files(tmp_path):
    path = tmp_path / "proteins.fasta"
    path.write_bytes(
        ">a kinase\x0bhuman\r\nMK V\n>b\u2028c d\u2028MKV\rLLA\n>\te\x1c\nM\tK\n".encode()
    )
    assert read_fasta(path) == {"a": "MKV", "b\u2028c": "LLA", "e\x1c": "MK"}


@over(
    lines(
        "data error message",
        (b"", ValueError, "holds no sequences"),
        (
            b"MKV\n>P1\nMKV",
            ValueError,
            "is not a FASTA file: its first line must begin with '>', found 'MKV'",
        ),
        (b">P1\nMKV\n> \nMK", ValueError, "line 3 of .* is a header without an id"),
        (b">P1\nMKV\n>P1 again\nMK", IdError, "has repeated ids: 'P1'"),
        (
            gzip.compress(b">P1\nMKV\n" * 99, mtime=0)[:-20],
            ValueError,
            "is damaged or no FASTA file .Compressed file ended",
        ),
        (b">P1\n\xff\xfe", ValueError, "is damaged or no FASTA file in UTF-8 .byte 0xff in line 2"),
    )
)
def test_bad_fasta_files_are_refused(tmp_path, data, error, message):
    path = tmp_path / "proteins.fasta"
    path.write_bytes(data)
    with pytest.raises(error, match=message):
        read_fasta(path)


def test_a_sequence_without_letters_is_named_later(tmp_path):
    path = tmp_path / "proteins.fasta"
    path.write_text(">P1\n>P2\nMKV\n")
    assert read_fasta(path) == {"P1": "", "P2": "MKV"}
    with pytest.raises(ValueError, match=r"Not valid: 1 of 2 sequences: 'P1' \(empty\)"):
        kmer_counts(read_fasta(path))


def test_rare_amino_acids_are_taken_by_all_kernels(any_engine):
    rare = {"a": "MKUVLJAO", "b": "MKVLA"}
    unknown = {"a": "MKXVLXAX", "b": "MKVLA"}
    assert_array_equal(smith_waterman(rare)[0], smith_waterman(unknown)[0])
    assert_array_equal(spectrum_kernel(rare)[0], spectrum_kernel(unknown)[0])
    step = SmithWaterman().fit(list(unknown.values()))
    assert_array_equal(step.transform(list(rare.values())), step.transform(list(unknown.values())))
