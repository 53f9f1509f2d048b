"""A file is written as a whole or not at all, and any reader of safetensors can open it."""

import errno
import json
import os
import stat
from dataclasses import replace

import numpy as np
import pytest

from dyadlearn import TwoStepRidge, TwoStepRidgeCV, load, save
from dyadlearn.exceptions import ModelFileError

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

X = np.arange(8.0).reshape(4, 2) % 3
T = np.eye(3)
Y = np.arange(12.0).reshape(4, 3) % 5


@pytest.fixture
def model():
    return TwoStepRidge().fit(X, Y, T)


@pytest.mark.parametrize(
    ("moment", "error"),
    [
        ("open", KeyboardInterrupt()),
        ("write", MemoryError()),
        ("fsync", OSError(errno.ENOSPC, "No space left on device")),
        ("replace", KeyboardInterrupt()),
    ],
)
def test_what_goes_wrong_leaves_the_old_file_as_it_was(moment, error, model, tmp_path, monkeypatch):
    path = tmp_path / "model.dyad"
    save(model, path)
    before = path.read_bytes()

    def fail(*arguments):
        raise error

    if moment == "open":
        monkeypatch.setattr("dyadlearn._files.atomic.open", fail, raising=False)
    elif moment == "write":
        monkeypatch.setattr("dyadlearn.store.container._bytes", fail)
    else:
        monkeypatch.setattr(f"os.{moment}", fail)
    with pytest.raises(type(error)):
        save(TwoStepRidge(7.0).fit(X, Y, T), path)
    monkeypatch.undo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.dyad"]
    assert path.read_bytes() == before


def test_the_file_is_on_the_disk_before_it_takes_its_name(model, tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(
            f"os.{name}",
            lambda *arguments, name=name, original=original: (
                calls.append(name),
                original(*arguments),
            ),
        )
    save(model, tmp_path / "model.dyad")
    assert calls == ["fsync", "replace", "fsync"]


def test_places_that_cannot_be_written_are_named(model, tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"no such folder, make it or put the file elsewhere: '.*nowhere'"
    ):
        save(model, tmp_path / "nowhere" / "model.dyad")
    with pytest.raises(IsADirectoryError, match="This is a folder, not the name of a file"):
        save(model, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of other systems differ")
def test_permissions_and_links_are_kept(model, tmp_path):
    path = tmp_path / "model.dyad"
    link = tmp_path / "latest.dyad"
    save(model, path)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    link.symlink_to(path.name)
    save(TwoStepRidge(7.0).fit(X, Y, T), str(link))
    assert link.is_symlink()
    assert load(path).alpha == 7.0
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_any_reader_of_safetensors_opens_the_arrays(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    from safetensors.numpy import load_file

    model = TwoStepRidgeCV([0.1, 1.0, 1e9], [0.1, 1e-9, 1e9], setting="D", kernel="rbf").fit(
        np.asfortranarray(X + T[2, 1:]), Y.astype(np.float32), T
    )
    save(model, tmp_path / "model.dyad")
    arrays = load_file(tmp_path / "model.dyad")
    np.testing.assert_array_equal(arrays["fitted_.labels.values"], Y)
    np.testing.assert_array_equal(arrays["fitted_.choice.landscape"], model.landscape_)
    with safetensors.safe_open(tmp_path / "model.dyad", framework="np") as file:
        metadata = file.metadata()
    assert (metadata["format"], metadata["version"]) == ("dyadlearn", "11")
    header = json.loads(metadata["header"])
    assert header["versions"]["numpy"] == np.__version__
    described = header["model"]["$TwoStepRidgeCV"]
    fitted = described["fitted_"]["$FittedSearch"]
    assert described["parameters"]["setting"] == "D"
    assert fitted["choice"]["$Choice"]["best_score"] == model.best_score_


def test_what_cannot_be_loaded_is_not_written(model, tmp_path):
    path = tmp_path / "model.dyad"
    save(model, path)
    before = path.read_bytes()
    unreadable = TwoStepRidge(7.0).fit(np.ones((30, 30)), np.ones((30, 3)), T)
    # No text, and refused when it is read.
    unreadable.fitted_ = replace(unreadable.fitted_, precision=np.True_)
    with pytest.raises(
        ModelFileError, match=r"^The model was not saved, .*precision is of type bool\.$"
    ):
        save(unreadable, path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.dyad"]
    assert path.read_bytes() == before
