"""What a new user does, from an empty folder: the whole way on real data, and every wrong turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import TwoStepRidgeCV
from dyadlearn.datasets import fetch_yamanishi

COMMAND = [sys.executable, "-m dyadlearn.cli"]
TUNE = "tune labels.csv --instances targets.csv --tasks drugs.csv --setting D"
# Of 26 targets and 54 drugs, the last ones are new.
M = 20
Q = 44


@pytest.fixture(scope="session")
def nr(shared_data):
    return fetch_yamanishi("nr", data_home=shared_data, download=False)


@pytest.fixture
def folder(nr, put, tmp_path, monkeypatch):
    """A folder with the three tables of the nuclear receptors, and kernels of new targets and new drugs."""
    targets = nr.instance_names
    drugs = nr.task_names
    put(tmp_path / "labels.csv", targets[:M], drugs[:Q], nr.Y[:M, :Q])
    put(tmp_path / "targets.csv", targets, targets, nr.K)
    put(tmp_path / "drugs.csv", drugs, drugs, nr.G)
    put(tmp_path / "new_targets.csv", targets[M:], targets[:M], nr.K[M:, :M])
    put(tmp_path / "new_drugs.csv", drugs[Q:], drugs[:Q], nr.G[Q:, :Q])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_whole_way(nr, folder, run, get):
    tuned = run(f"{TUNE} --model two-step -o model.dyad --json")
    assert tuned.code == 0, tuned.err
    chosen = tuned.json
    twin = TwoStepRidgeCV(
        setting="D", scoring="roc_auc", kernel="precomputed", task_kernel="precomputed"
    )
    twin.fit(nr.K[:M, :M], nr.Y[:M, :Q], tasks=nr.G[:Q, :Q])
    assert_allclose(
        [chosen["alpha"], chosen["task_alpha"]], [twin.alpha_, twin.task_alpha_], rtol=1e-12
    )
    assert_allclose(chosen["score"], twin.best_score_)

    evaluated = run("evaluate model.dyad --json")
    assert evaluated.code == 0
    rows = {row["setting"]: row for row in evaluated.json["settings"]}
    assert_allclose(rows["D"]["scores"]["roc_auc"], twin.best_score_)
    verified = run("evaluate model.dyad --setting BC --verify --json").json["settings"]
    assert max(row["difference"] for row in verified) < 1e-8
    assert [row["scores"] for row in verified] == [rows[setting]["scores"] for setting in "BC"]

    words = ["predict model.dyad --instances new_targets.csv --tasks new_drugs.csv -o p.csv"]
    done = run(*words)
    assert (done.code, done.out, done.err) == (0, "Wrote 6 × 10 predictions to p.csv.\n", "")
    lines = get(folder / "p.csv")
    assert lines[0][1:] == nr.task_names[Q:].tolist()
    assert [line[0] for line in lines[1:]] == nr.instance_names[M:].tolist()
    predicted = np.array([line[1:] for line in lines[1:]], dtype=float)
    assert_allclose(predicted, twin.predict(nr.K[M:, :M], tasks=nr.G[Q:, :Q]), rtol=1e-10)

    screened = run("screen model.dyad -n 5 --json")
    assert len(screened.json["cells"]) == 5
    drug = screened.json["cells"][0]["task"]
    best = run(f"recommend model.dyad --for {drug} -n 3 --json")
    assert len({entry["instance"] for entry in best.json["best"]} & set(nr.instance_names)) == 3
    assert run("report model.dyad -q").code == 0
    assert (folder / "report.html").stat().st_size > 10_000
    assert run("inspect model.dyad --json").json["task_ids"] == nr.task_names[:Q].tolist()
    left = {"labels.csv", "targets.csv", "drugs.csv", "new_targets.csv", "new_drugs.csv"}
    assert set(files(folder)) == left | {"model.dyad", "p.csv", "report.html"}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are other there")
def test_an_interrupt_in_the_middle_of_tune(folder):
    before = files(folder)
    # With one model, notes are printed at once; the choice between two repeats them at its end.
    tune = f"{TUNE} --model two-step --alphas 1e-7:1e6:3000 -o model.dyad".split()
    words = [*COMMAND, *tune]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        # The last note before the search begins is about the kernel of the drugs, which is
        # asymmetric.
        while "asymmetric" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    # The search is long enough to be announced.
    told = [line for line in err.splitlines() if not line.startswith("Search D: exact")]
    assert (out, told) == ("", ["dyadlearn: interrupted."])
    assert files(folder) == before
