"""``dyadlearn datasets``: names, folders and tables."""

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.utils import Bunch

from dyadlearn._files.tables import read_cells
from dyadlearn.cli import demo as datasets


def test_list(run):
    ran = run("datasets")
    assert ran.code == 0
    found = run("datasets --json").json["datasets"]
    assert set(found) == {"debtags", "nr", "gpcr", "ic", "e", "davis", "kiba"}
    assert all(name in ran.out for name in found)


def test_path(run, monkeypatch, tmp_path):
    monkeypatch.setenv("DYADLEARN_DATA", str(tmp_path))
    assert f"kept in {tmp_path}." in run("datasets").out.replace("\n", "")
    assert run(f"datasets --data-home {tmp_path / 'x'} --json").json["folder"] == str(
        tmp_path / "x"
    )


def test_fetch_writes_tables_that_tune_can_read(run, monkeypatch, tmp_path):
    K = np.array([[2.0, 0.5], [0.5, 1.0]])
    G = np.eye(3)
    Y = np.array([[1.0, 0.0, np.nan], [0.0, 1.0, 1.0]])
    data = Bunch(
        Y=Y, K=K, G=G, instance_names=np.array(["a", "b"]), task_names=np.array(["p", "q", "r"])
    )
    asked = []
    monkeypatch.setattr(
        datasets.data_sets, "fetch_yamanishi", lambda name, data_home: asked.append(name) or data
    )
    ran = run(f"datasets nr --to {tmp_path / 'nr'}")
    assert ran.code == 0, ran.err
    assert asked == ["nr"]
    found = {
        name: read_cells(tmp_path / "nr" / f"{name}.csv").table()
        for name in ("labels", "instances", "tasks")
    }
    assert_array_equal(found["labels"].values, Y)
    assert_array_equal(found["instances"].values, K)
    assert found["tasks"].row_ids.labels == found["labels"].column_ids.labels == ("p", "q", "r")
    assert "2 × 3" in ran.out
    again = run(f"datasets nr --to {tmp_path / 'nr'}")
    assert (again.code, "exists already" in again.err) == (2, True)
