"""The commands of the README, run on the kind of files that it names."""

from __future__ import annotations

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


def commands() -> list[list[str]]:
    """Return the arguments of each command of the README's first block for the shell."""
    block = re.search(
        r"^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert block is not None
    return [shlex.split(line) for line in block[1].replace("\\\n", " ").splitlines()]


def test_the_commands_lead_from_smiles_and_sequences_to_a_report(tmp_path, monkeypatch, run, get):
    rng = np.random.default_rng(0)
    drugs = [f"{'C' * k}{end}" for k in range(1, 8) for end in ("O", "N", "Cl")]
    proteins = {f"p{j}": "".join(rng.choice(list("ACDEFGHIKL"), 30)) for j in range(6)}
    monkeypatch.chdir(tmp_path)
    for name, texts in (("drugs.csv", drugs), ("new_drugs.csv", ["CCCCCCCCO", "CCCCCCCCN"])):
        rows = [f"{name[0]}{i},{text}" for i, text in enumerate(texts)]
        Path(name).write_text("\n".join(["drug,smiles", *rows]) + "\n")
    Path("proteins.fasta").write_text(
        "".join(f">{name}\n{sequence}\n" for name, sequence in proteins.items())
    )
    pairs = [
        f"d{i},{p},{i % 3 + i / 20 + len(p) + rng.normal() / 5:.2f}"
        for i in range(21)
        for p in proteins
    ]
    Path("affinities.csv").write_text("\n".join(["drug,protein,affinity", *pairs]) + "\n")
    assert [words[:2] for words in commands()] == [
        ["dyadlearn", name] for name in ("tune", "evaluate", "predict", "report")
    ]
    for words in commands():
        ran = run(*words[1:])
        assert ran.code == 0, ran.err
    lines = get(Path("predictions.csv"))
    assert [line[0] for line in lines] == ["drug", "n0", "n1"]
    assert lines[0][1:] == list(proteins)
    assert np.isfinite(np.array([line[1:] for line in lines[1:]], dtype=float)).all()
    assert load("model.dyad").fitted_.labels.shape == (21, 6)
    assert "<html" in Path("report.html").read_text(encoding="utf-8")
