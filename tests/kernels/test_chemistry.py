import sys

import numpy as np
import pandas
import polars
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from dyadlearn import TwoStepRidge
from dyadlearn._tables import Ids, read_table, write_table
from dyadlearn.exceptions import IdError
from dyadlearn.kernels.chemistry import (
    KINDS,
    Fingerprints,
    canonical_smiles,
    fingerprints,
    scaffolds,
    usual_kernel,
)
from sweeps import covering, every, lines, over

pytest.importorskip("rdkit", reason="rdkit is not installed: molecules are not tested")

SMILES = {
    "aspirin": "CC(=O)Oc1ccccc1C(=O)O",
    "caffeine": "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "paracetamol": "CC(=O)Nc1ccc(O)cc1",
    "ibuprofen": "CC(C)Cc1ccc(cc1)C(C)C(=O)O",
    "theophylline": "Cn1c(=O)c2[nH]cnc2n(C)c1=O",
    "salt": "[Na+].[Cl-]",
}
NAMES = list(SMILES)
TEXTS = list(SMILES.values())


def by_rdkit(kind, radius, n_bits, counts):
    """Return fingerprints by functions of rdkit that the library does not call."""
    from rdkit import Chem
    from rdkit.Chem import MACCSkeys, rdFingerprintGenerator

    plain = {"fpSize": n_bits, "countSimulation": False}
    atoms = rdFingerprintGenerator.GetMorganFeatureAtomInvGen()
    if kind == "maccs":
        function = MACCSkeys.GenMACCSKeys
    else:
        generator = {
            "morgan": lambda: rdFingerprintGenerator.GetMorganGenerator(radius, **plain),
            "feature_morgan": lambda: rdFingerprintGenerator.GetMorganGenerator(
                radius, atomInvariantsGenerator=atoms, **plain
            ),
            "atom_pairs": lambda: rdFingerprintGenerator.GetAtomPairGenerator(**plain),
            "torsions": lambda: rdFingerprintGenerator.GetTopologicalTorsionGenerator(**plain),
            "paths": lambda: rdFingerprintGenerator.GetRDKitFPGenerator(**plain),
        }[kind]()
        function = generator.GetCountFingerprint if counts else generator.GetFingerprint
    return np.array([function(Chem.MolFromSmiles(text)).ToList() for text in TEXTS])


@over(
    covering(
        kind=[kind for kind in KINDS if kind != "descriptors"],
        radius=[0, 2, 3],
        n_bits=[64, 1000, 2048],
        counts=[False, True],
        where=lambda kind, counts, **_: not (kind == "maccs" and counts),
    )
)
def test_equal_to_rdkits_own(kind, radius, n_bits, counts):
    options = {"radius": radius, "n_bits": n_bits}
    features, ids = fingerprints(SMILES, kind=kind, counts=counts, **options)
    assert_array_equal(features.toarray(), by_rdkit(kind, radius, n_bits, counts))
    assert ids == NAMES
    assert counts or features.dtype == np.uint8
    assert len(Fingerprints(kind, **options).get_feature_names_out()) == features.shape[1]


@over(every(kind=["feature_morgan", "atom_pairs", "torsions", "paths"]))
def test_counts_of_each_kind_are_positive_where_its_bits_are(kind):
    counts, _ = fingerprints(SMILES, kind=kind, counts=True)
    bits, _ = fingerprints(SMILES, kind=kind)
    assert_array_equal(counts.toarray() > 0, bits.toarray() > 0)
    assert counts.toarray().max() > 1
    assert usual_kernel(kind, True) == "minmax"
    assert usual_kernel(kind, False) == "tanimoto"


def test_descriptors_are_rdkits_in_units_of_their_usual_spread():
    from rdkit import Chem
    from rdkit.Chem import Crippen, rdMolDescriptors

    features, ids = fingerprints(SMILES, kind="descriptors")
    names = Fingerprints("descriptors").get_feature_names_out().tolist()
    molecules = [Chem.MolFromSmiles(text) for text in TEXTS]
    for name, scale, function in (
        ("MolWt", 75, rdMolDescriptors._CalcMolWt),
        ("MolLogP", 1.25, Crippen.MolLogP),
        ("TPSA", 25, rdMolDescriptors.CalcTPSA),
        ("FractionCSP3", 0.15, rdMolDescriptors.CalcFractionCSP3),
    ):
        expected = [function(molecule) / scale for molecule in molecules]
        assert_allclose(features[:, names.index(name)], expected, rtol=1e-12)
    assert features.shape == (len(TEXTS), 20)
    assert np.isfinite(features).all()
    assert ids == NAMES


def test_wrong_kinds_are_refused():
    with pytest.raises(
        ValueError, match="kind must be one of 'morgan', 'feature_morgan', .*'ecfp'"
    ):
        fingerprints(["C"], kind="ecfp")
    for kind in ("maccs", "descriptors"):
        with pytest.raises(ValueError, match=f"the kind {kind} have no counts: leave counts out"):
            fingerprints(["C"], kind=kind, counts=True)


def test_canonical_smiles_are_equal_for_the_same_molecule():
    texts, ids = canonical_smiles({"a": "OCC", "b": "C(O)C", "c": "[H]OCC", "d": "CCN"})
    assert texts == ["CCO", "CCO", "CCO", "CCN"]
    assert ids == ["a", "b", "c", "d"]
    # Mirror images are different molecules.
    both, _ = canonical_smiles(["C[C@H](N)O", "C[C@@H](N)O"])
    assert both[0] != both[1]
    with pytest.warns(UserWarning, match="Not valid: 1 of 2 molecules"):
        kept = canonical_smiles(["CCO", "nonsense"], on_error="drop")
    assert kept == (["CCO"], [0])


WRONG = {
    "ring": "C1CC",
    "good": "CCO",
    "valence": "C(C)(C)(C)(C)C",
    "empty": "",
    "blank": "C C",
    "none": None,
    "odd": "é",
}


def test_scaffolds_are_rings_and_the_chains_between_them():
    found = scaffolds(
        {
            "toluene": "Cc1ccccc1",
            "phenol": "Oc1ccccc1",
            "two": "CC(c1ccccc1)C1CC1",
            "ethanol": "CCO",
        }
    )
    assert found == ["c1ccccc1", "c1ccccc1", "c1ccc(CC2CC2)cc1", ""]
    with pytest.raises(
        ValueError,
        match=r"Not valid: 1 of 2 molecules: position 1 \('C1CC'\). Correct or remove them\.$",
    ):
        scaffolds(["CCO", "C1CC"])


def test_what_is_no_molecule_is_named(capfd):
    with pytest.raises(ValueError) as caught:
        fingerprints(WRONG)
    assert str(caught.value) == (
        "Not valid: 6 of 7 molecules: 'ring' ('C1CC'), 'valence' ('C(C)(C)(C)(C)C'), 'empty' (''), "
        "'blank' ('C C'), "
        "'none' (None), 'odd' ('é'). Correct or remove them, or leave them out with "
        'on_error="drop".'
    )
    with pytest.raises(ValueError, match=r"Not valid: 1 of 2 molecules: position 1 \('C1CC'\)"):
        fingerprints(["CCO", "C1CC"])
    with pytest.raises(ValueError, match=r"'b' \('C1CCCC"):
        fingerprints(["CCO", "C1" + "C" * 100], ids=["a", "b"])
    out = capfd.readouterr()
    assert out.out == out.err == ""


def test_what_is_no_molecule_is_left_out():
    with pytest.warns(UserWarning, match="Not valid: 6 of 7 molecules: 'ring'.*They are left out"):
        features, ids = fingerprints(WRONG, on_error="drop")
    assert ids == ["good"]
    assert_array_equal(features.toarray(), fingerprints(["CCO"])[0].toarray())
    with pytest.raises(ValueError, match="Not valid: 2 of 2 molecules"):
        fingerprints(["C1CC", "C1CC"], on_error="drop")
    with pytest.raises(ValueError, match="on_error must be one of 'raise', 'drop', found 'ignore'"):
        fingerprints(["C"], on_error="ignore")


def test_many_are_named_in_short():
    with pytest.raises(ValueError, match=r"30 of 30 .* position 19 \('C1'\), …\. Correct"):
        fingerprints(["C1"] * 30)


def test_whatever_holds_them():
    expected = fingerprints(TEXTS)[0].toarray()
    with_ids = (
        pandas.Series(SMILES),
        pandas.DataFrame({"smiles": SMILES}),
        polars.DataFrame({"drug": NAMES, "smiles": TEXTS}),
    )
    without = (
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS)[:, None],
        polars.Series(TEXTS),
        iter(TEXTS),
    )
    for texts in (*with_ids, *without, polars.DataFrame({"smiles": TEXTS})):
        features, ids = fingerprints(texts)
        assert_array_equal(features.toarray(), expected)
        assert ids == (
            NAMES if any(texts is some for some in with_ids) else list(range(len(TEXTS)))
        )
    assert fingerprints(TEXTS, NAMES)[1] == NAMES


def test_bad_containers_are_refused(each):
    one_column = r"one column of text, found shape \(1, 2\)"
    cases = [
        (("CCO",), TypeError, "molecules must be several: put a single text into a list"),
        ((3,), TypeError, "molecules must be a sequence of text, found int"),
        (([],), ValueError, "There are no molecules: found an empty list"),
        (([["C", "CC"]],), ValueError, one_column),
        ((pandas.DataFrame({"a": ["C"], "b": ["C"]}),), ValueError, one_column),
        ((SMILES, NAMES), ValueError, "ids were given twice"),
        ((["C", "CC"], ["a"]), ValueError, "ids must name each of the 2 molecules, found 1"),
        ((["C", "CC"], ["a", "a"]), IdError, "ids has repeated ids: 'a'"),
        (
            (pandas.Series(["C", "CC"], index=["a", "a"]),),
            IdError,
            "The index of the molecules has repeated ids: 'a'",
        ),
    ]
    for given, error, message in each(cases):
        with pytest.raises(error, match=message):
            fingerprints(*given)


@over(
    lines(
        "parameter value",
        ("radius", -1),
        ("radius", 1.5),
        ("radius", 10**9),
        ("n_bits", 0),
        ("n_bits", True),
        ("n_bits", "2048"),
    )
)
def test_bad_parameters_are_refused(parameter, value):
    with pytest.raises(ValueError, match=f"{parameter} must be a whole number of at least"):
        fingerprints(["C"], **{parameter: value})
    with pytest.raises(ValueError, match=f"{parameter} must be a whole number of at least"):
        Fingerprints(**{parameter: value}).fit(["C"])


def test_without_rdkit_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(
        ImportError, match=r"Reading molecules needs rdkit: pip install 'dyadlearn\[chem\]'"
    ):
        fingerprints(["C"])


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_keep_their_ids(kind):

    def molecules(rows):
        column = np.array(TEXTS, dtype=object)[rows, None]
        return write_table(column, Ids(tuple(NAMES[rows])), Ids(("smiles",)), kind)

    features = read_table(Fingerprints(n_bits=128).fit_transform(molecules(slice(None))), "bits")
    assert_array_equal(features.values, fingerprints(SMILES, n_bits=128)[0].toarray())
    assert features.column_ids.labels[-1] == "bit_127"
    assert features.row_ids.labels == tuple(NAMES)

    Y = np.random.default_rng(1).random((4, 2))
    pipeline = make_pipeline(Fingerprints(), TwoStepRidge(kernel="tanimoto", alpha=0.1))
    expected = pipeline.fit(TEXTS[:4], Y).predict(TEXTS[4:])
    predicted = pipeline.fit(molecules(slice(4)), Y).predict(molecules(slice(4, None)))
    assert_allclose(np.asarray(predicted)[:, -2:].astype(float), expected, rtol=1e-12)
