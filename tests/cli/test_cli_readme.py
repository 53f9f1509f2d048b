"""The commands of the README, run on the kind of files that it names."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from dyadlearn import load

pytest.importorskip(
    "rdkit", reason="rdkit is not installed: the commands of the README are not run"
)
pytest.importorskip(
    "Bio", reason="biopython is not installed: the commands of the README are not run"
)

README = Path(__file__).resolve().parents[2] / "README.md"


def commands():
    """Return the arguments of each command of the README's first block for the shell."""
    block = re.search(
        r"^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert block is not None
    return [shlex.split(line) for line in block[1].replace("\\\n", " ").splitlines()]


def test_the_commands_lead_from_smiles_and_sequences_to_a_report(tmp_path, monkeypatch, run, get):
    rng = np.random.default_rng(0)
    drugs = [f"{'C' * k}{end}" for k in range(1, 8) for end in ("O", "N", "Cl")]
    proteins = ["".join(rng.choice(list("ACDEFGHIKL"), 30)) for j in range(6)]
    monkeypatch.chdir(tmp_path)
    pairs = []
    for i, drug in enumerate(drugs):
        for j, protein in enumerate(proteins):
            pairs.append(f"{drug},{protein},{i % 3 + i / 20 + j + rng.normal() / 5:.2f}")
    headings = "drug_smiles,protein_sequence"
    Path("table.csv").write_text("\n".join([f"{headings},y", *pairs]) + "\n")
    wanted = [("CCCCCCCCO", proteins[0]), ("OCC", proteins[5]), ("CCCCCCCCN", "ACDEFGHIKL")]
    Path("wanted.csv").write_text("\n".join([headings, *map(",".join, wanted)]) + "\n")
    assert [words[:2] for words in commands()] == [
        ["dyadlearn", name] for name in ("tune", "evaluate", "predict", "report")
    ]
    for words in commands():
        ran = run(*words[1:])
        assert ran.code == 0, ran.err
    lines = get(Path("predictions.csv"))
    names = ["drug_smiles", "protein_sequence", "setting", "prediction", "lower", "upper"]
    assert lines[0] == [*names, "training_label"]
    assert [line[2] for line in lines[1:]] == ["B", "A", "D"]
    assert np.isfinite(np.array([line[3] for line in lines[1:]], dtype=float)).all()
    assert load("model.dyad").fitted_.labels.shape == (21, 6)
    assert "<html" in Path("report.html").read_text(encoding="utf-8")
