"""``dyadlearn export``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge, TwoStepRidge, load, save

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def predicted(path, **inputs):
    return onnxruntime.InferenceSession(str(path)).run(["predictions"], inputs)[0]


def test_a_graph_predicts_what_the_model_does(tables, model, run):
    path = tables.folder / "model.onnx"
    ran = run("export", model, "-o", path)
    shown = f"X (n, {tables.X.shape[1]}), tasks (q, {tables.T.shape[1]}) it makes predictions (n, q)"
    assert (ran.code, ran.err) == (0, "")
    assert shown in " ".join(ran.out.split())
    fitted = load(model)
    assert_allclose(
        predicted(path, X=tables.X, tasks=tables.T), fitted.predict(tables.X, tasks=tables.T), rtol=1e-10, atol=1e-12
    )
    ran = run("export", model, "-o", path)
    assert ran.code == 2
    assert "--force" in ran.err
    found = run("export", model, "-o", path, "--known-tasks", "--dtype", "float32", "--force", "--json").json
    assert found["inputs"] == {"X": ["n", tables.X.shape[1]]}
    assert found["outputs"] == {"predictions": ["n", 8]}
    single = predicted(path, X=tables.X.astype(np.float32))
    assert_allclose(single, fitted.predict(tables.X), rtol=1e-4, atol=1e-4)
    told = {each.key: each.value for each in onnx.load(path).metadata_props}
    assert json.loads(told["task_ids"]) == tables.items
    assert run("export", model, "-o", path, "--pairs", "--force", "-q").out == ""
    rows = predicted(path, X=tables.X[:8], tasks=tables.T)
    assert_allclose(rows, np.diag(fitted.predict(tables.X[:8], tasks=tables.T)), rtol=1e-10, atol=1e-12)


def test_what_no_graph_takes_is_refused(tables, run):
    path, target = tables.folder / "k.dyad", tables.folder / "k.onnx"
    save(TwoStepRidge(task_kernel="precomputed").fit(tables.X, tables.Y, tasks=np.eye(8)), path)
    ran = run("export", path, "-o", target)
    assert (ran.code, target.exists()) == (2, False)
    assert ran.err.startswith("dyadlearn: The kernel of the tasks was computed beforehand")
    assert run("export", path, "-o", target, "--known-tasks").code == 0
    assert run("export", path, "-o", target, "--known-tasks", "--pairs", "-f").code == 2
    save(IndependentTaskRidge().fit(tables.X, tables.Y), path)
    assert run("export", path, "-o", target, "-f", "--pairs").code == 2
    assert run("export", path, "-o", target, "-f", "--json").json["inputs"] == {"X": ["n", tables.X.shape[1]]}


def test_molecules_and_sequences(tables, run):
    pytest.importorskip("rdkit")
    smiles = ["CCO", "CCN", "CCC", "c1ccccc1", "CC(=O)O", "CO", "CN", "CCCC"]
    drugs, proteins = tables.folder / "drugs.csv", tables.folder / "users.fasta"
    lines = ["id,structure", *(f"{item},{each}" for item, each in zip(tables.items, smiles, strict=True))]
    drugs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACDEFGHIKL"), 20)) for _ in tables.users]
    proteins.write_text("".join(f">{user}\n{text}\n" for user, text in zip(tables.users, texts, strict=True)))
    path, target = tables.folder / "s.dyad", tables.folder / "s.onnx"
    given = ("tune", tables.folder / "labels.csv", "--tasks", drugs, "--tasks-smiles", "structure", "-o", path, "-f")
    options = ("--fingerprint", "radius=1,n_bits=64", "-q")
    assert run(*given, "--instances", tables.folder / "users.csv", *options).code == 0
    ran = run("export", path, "-o", target)
    assert ran.code == 0
    assert "note: tasks takes fingerprints in place of SMILES" in ran.err
    assert "n_bits=64" in ran.err
    from dyadlearn.kernels.chemistry import fingerprints

    bits = fingerprints(smiles, radius=1, n_bits=64)[0].toarray().astype(float)
    assert_allclose(
        predicted(target, X=tables.X, tasks=bits), load(path).predict(tables.X, tasks=bits), rtol=1e-10, atol=1e-12
    )
    assert run(*given, "--instances", proteins, "--kernel", "spectrum:k=2", *options).code == 0
    ran = run("export", path, "-o", target, "-f")
    assert (ran.code, ran.err.startswith("dyadlearn: The instances are sequences")) == (2, True)
