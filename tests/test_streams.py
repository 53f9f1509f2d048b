"""Streams are learnt as a whole would be, and survive whatever happens to the process."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from functools import cached_property

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDRegressor

from dyadlearn import OnlineTwoStepRidge, TwoStepRidge, load, save, streams
from dyadlearn._tables import Ids, Table
from dyadlearn.exceptions import IdError, ModelFileError
from dyadlearn.store.container import read_container, write_container
from dyadlearn.streams import fit_stream

P = 5
Q = 4
R = 2


@pytest.fixture(scope="module")
def batches():
    rng = default_rng(0)
    sizes = [7, 3, 9, 1, 6, 2, 8]
    return [(rng.normal(size=(size, P)), rng.normal(size=(size, Q))) for size in sizes]


@pytest.fixture(scope="module")
def tasks():
    return default_rng(1).normal(size=(Q, R))


def whole(batches):
    return tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))


def learnt(value):
    """Return all arrays and numbers that a model has learnt, by the names that lead to them."""
    found = {}

    def walk(part, path):
        if sparse.issparse(part):
            part = part.toarray()
        if isinstance(part, np.ndarray | int | float | str | None):
            found[path] = np.asarray(part)
        elif isinstance(part, tuple | list):
            for place, item in enumerate(part):
                walk(item, f"{path}[{place}]")
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            for name, item in vars(part).items():
                # What follows from the rest may be kept or computed anew.
                if not isinstance(getattr(type(part), name, None), cached_property):
                    walk(item, f"{path}.{name}")

    walk(value, "")
    return found


def assert_same_bits(model, other):
    mine = learnt(model)
    theirs = learnt(other)
    assert mine.keys() == theirs.keys()
    assert len(mine) > 5
    for name, value in mine.items():
        assert_array_equal(value, theirs[name], err_msg=name)
    # Of copies, because answers are kept.
    assert_array_equal(deepcopy(model).coef_, deepcopy(other).coef_)


def test_a_stream_is_learnt_as_a_whole(each, batches, tasks):
    X, Y = whole(batches)
    for fit_intercept in each([True, False]):
        model = OnlineTwoStepRidge(0.3, 0.2, fit_intercept=fit_intercept)
        assert fit_stream(model, iter(batches), tasks=tasks) is model
        wanted = TwoStepRidge(0.3, 0.2, fit_intercept=fit_intercept).fit(X, Y, tasks)
        assert_allclose(model.predict(X), wanted.predict(X), rtol=1e-10, atol=1e-12)


MODELS = {
    "plain": OnlineTwoStepRidge,
    "without constants": lambda: OnlineTwoStepRidge(fit_intercept=False),
    "keeping": lambda: OnlineTwoStepRidge(keep_labels=True),
    "projected": lambda: OnlineTwoStepRidge(feature_map=np.linspace(-1.0, 1.0, 10).reshape(5, 2)),
}
FORMS = {
    "dense": lambda X, Y: (X, Y),
    "single": lambda X, Y: (X.astype(np.float32), Y.astype(np.float32)),
    "sparse": lambda X, Y: (sparse.csr_array(X * (X > 0)), sparse.csr_array((Y > 0.5) * 1.0)),
    "vector": lambda X, Y: (X, Y[:, 0]),
}


# Every model, and every form with the models that keep what they are given as it is.
RESUMED = [
    *((kind, "dense") for kind in MODELS),
    *((kind, "sparse") for kind in ("keeping", "projected")),
    *((kind, "single") for kind in ("keeping",)),
    *((kind, "vector") for kind in ("keeping", "projected")),
]


def test_resumed_after_any_batch_it_is_the_same_bit_for_bit(each, batches, tasks, tmp_path):
    for kind, form in each(RESUMED):
        stream = [FORMS[form](X, Y) for X, Y in batches]
        given = {} if form == "vector" else {"tasks": tasks}
        expected = fit_stream(MODELS[kind](), stream, **given)
        for count in each((5,) if form == "dense" else (1,)):
            checkpoint = tmp_path / f"{kind} {form} {count}.dyad"
            fit_stream(MODELS[kind](), stream[:count], checkpoint=checkpoint, every=2, **given)
            model = fit_stream(
                MODELS[kind](), iter(stream), checkpoint=checkpoint, every=2, **given
            )
            assert_same_bits(model, expected)
            assert_same_bits(load(checkpoint), expected)


# A process that learns in child processes and kills them, so that the library is imported once
# only.
KILLED = """
import json, os, signal, sys, time
import numpy as np
from dyadlearn import OnlineTwoStepRidge, load, save
from dyadlearn.streams import fit_stream

folder = sys.argv[1]
checkpoint, final = os.path.join(folder, "model.dyad"), os.path.join(folder, "final.dyad")
tasks = default_rng(1).normal(size=(4, 2))

def stream(pause):
    rng = default_rng(0)
    for _ in range(40):
        yield rng.normal(size=(3, 30)), rng.normal(size=(3, 4))
        time.sleep(pause)

def learn(pause, **options):
    model = OnlineTwoStepRidge(0.3, 0.2)
    return fit_stream(model, stream(pause), tasks=tasks, **options)

def written():
    return os.stat(checkpoint).st_ino if os.path.exists(checkpoint) else None

def parts():
    return sum(name.endswith(".part") for name in os.listdir(folder))

sync = os.fsync
os.fsync = lambda file: (time.sleep(0.01), sync(file))  # so that there is time to be killed in
rng = default_rng(2)
seen, files = [], []
while True:
    before, left, child = written(), parts(), os.fork()
    if child == 0:
        try:
            save(learn(0.002, checkpoint=checkpoint, every=3), final)
            os._exit(0)
        finally:
            os._exit(1)
    status = None

    def wait(condition):
        global status
        while status is None and not condition():
            time.sleep(0.001)
            ended, found = os.waitpid(child, os.WNOHANG)
            status = found if ended else None

    wait(lambda: len(seen) < 6 and written() != before)
    if status is None:
        time.sleep(rng.uniform(0, 0.03))
        wait(lambda: len(seen) % 2 == 0 or parts() > left)
    if status is not None:
        assert status == 0
        break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    seen.append(load(checkpoint).n_seen_ // 3)
    files.append(parts())
save(learn(0.0), os.path.join(folder, "uninterrupted.dyad"))
print(json.dumps({"seen": seen, "files": files}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed where they can be forked")
def test_killed_again_and_again_it_is_the_same_bit_for_bit(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told["seen"]) >= 3
    assert told["seen"] == sorted(told["seen"])
    assert 0 < told["seen"][0] < told["seen"][-1]
    assert max(told["files"]) > 0  # some were killed while they wrote a checkpoint
    assert_same_bits(load(tmp_path / "final.dyad"), load(tmp_path / "uninterrupted.dyad"))


def test_a_checkpoint_that_fails_leaves_the_one_before(batches, tmp_path, monkeypatch):
    checkpoint = tmp_path / "model.dyad"
    fit_stream(OnlineTwoStepRidge(), batches[:2], checkpoint=checkpoint)
    before = checkpoint.read_bytes()

    def full(*arguments):
        raise OSError("no space left on device")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="no space left"):
                fit_stream(OnlineTwoStepRidge(), batches, checkpoint=checkpoint, every=1)
        assert checkpoint.read_bytes() == before
        assert os.listdir(tmp_path) == ["model.dyad"]
    model = fit_stream(OnlineTwoStepRidge(), batches, checkpoint=checkpoint)
    assert_same_bits(model, fit_stream(OnlineTwoStepRidge(), batches))


def test_checkpoints_are_written_after_the_first_batch_then_every_few_and_at_the_end(
    batches, tmp_path, monkeypatch
):
    written = []
    monkeypatch.setattr(
        streams,
        "write_model",
        lambda model, path, stream: written.append((stream["n_batches"], model.n_seen_)),
    )
    fit_stream(OnlineTwoStepRidge(), batches, checkpoint=tmp_path / "model.dyad", every=3)
    rows = np.cumsum([len(X) for X, _ in batches])
    assert written == [(count, rows[count - 1]) for count in (1, 3, 6, 7)]


# A stream, a model or a file that is not what it was --------------------------------------------


@pytest.fixture
def checkpoint(batches, tasks, tmp_path):
    fit_stream(OnlineTwoStepRidge(), batches[:4], tasks=tasks, checkpoint=tmp_path / "model.dyad")
    return tmp_path / "model.dyad"


def test_another_stream_is_refused(batches, checkpoint):
    before = checkpoint.read_bytes()
    model = OnlineTwoStepRidge()

    def refused(stream, match):
        with pytest.raises(ValueError, match=match):
            fit_stream(model, stream, checkpoint=checkpoint)
        assert not hasattr(model, "n_features_in_")
        assert checkpoint.read_bytes() == before

    refused(
        batches[:3],
        r"ended after 3 batches, but the checkpoint .*model.dyad has learned 4\. Give the same",
    )
    X, Y = batches[0]
    told = r"The stream has changed: its first 4 batches are not those of the checkpoint .*model.dyad\. Give the same"
    refused(batches[1:], told)
    for changed in (
        (np.nextafter(X, 9.0), Y),
        (X, -Y),
        (X, Y[:, 0]),
        (X[:1], Y[:1]),
        (sparse.csr_array(X + 1), Y),
        (Table(X, Ids(tuple(range(len(X))))), Y),
        (X, Table(Y, column_ids=Ids(tuple("abcd")))),
    ):
        refused([changed, *batches[1:]], told)
    for place in (1, 2, 3):
        refused([*batches[:place], (X, -Y), *batches[place + 1 :]], told)
    refused([*batches[:2], batches[3], batches[2], *batches[4:]], told)


def test_a_checkpoint_that_does_not_say_how_far_it_came_is_refused(batches, checkpoint):
    header, arrays = read_container(checkpoint)
    plain = header["stream"]
    model = OnlineTwoStepRidge()
    changes = [
        {"digest": 3},
        {"n_batches": 0},
        {"n_batches": -1},
        {"n_batches": 2.0},
        {"n_rows": "4"},
    ]
    for forged in (
        {},
        [],
        None,
        3,
        "digest",
        {"n_batches": 2},
        *(plain | change for change in changes),
    ):
        write_container(checkpoint, {**header, "stream": forged}, arrays)
        with pytest.raises(
            ModelFileError, match=r"model.dyad does not contain its position in the stream"
        ):
            fit_stream(model, batches, checkpoint=checkpoint)
    assert not hasattr(model, "n_features_in_")


def test_other_parameters_are_refused(batches, checkpoint):
    with pytest.raises(
        ValueError,
        match=r"was made with alpha=1.0, and the model has alpha=2.0: use the same param",
    ):
        fit_stream(OnlineTwoStepRidge(2.0), batches, checkpoint=checkpoint)
    with pytest.raises(
        ValueError, match=r"made with feature_map=None, and the model has feature_map=array"
    ):
        fit_stream(OnlineTwoStepRidge(feature_map=np.ones((5, 2))), batches, checkpoint=checkpoint)
    with pytest.raises(
        ValueError,
        match="holds a OnlineTwoStepRidge, and the model is a SGDRegressor: give another name",
    ):
        fit_stream(SGDRegressor(), batches, checkpoint=checkpoint)


def test_other_files_are_refused(batches, tasks, tmp_path):
    path = tmp_path / "model.dyad"
    save(OnlineTwoStepRidge().fit(*batches[0]), path)
    with pytest.raises(
        ModelFileError, match="is a model but no checkpoint of a stream: give another name"
    ):
        fit_stream(OnlineTwoStepRidge(), batches, checkpoint=path)


def test_what_cannot_be_stored_is_told_after_the_first_batch(batches, tmp_path):
    path = tmp_path / "model.dyad"
    read = []

    def stream():
        for number, batch in enumerate(batches):
            read.append(number)
            yield batch

    with pytest.raises(ModelFileError, match="feature_map is of type Nystroem"):
        fit_stream(
            OnlineTwoStepRidge(feature_map=Nystroem(n_components=2)), stream(), checkpoint=path
        )
    with pytest.raises(ModelFileError, match="not an object of class SGDRegressor"):
        fit_stream(SGDRegressor(), ((X, Y[:, 0]) for X, Y in stream()), checkpoint=path)
    torch = pytest.importorskip("torch")
    with pytest.raises(
        TypeError,
        match="A checkpoint needs batches of numpy arrays.* found Tensor: convert",
    ):
        fit_stream(
            OnlineTwoStepRidge(),
            (map(torch.as_tensor, batch) for batch in stream()),
            checkpoint=path,
        )
    assert read == [0, 0, 0]
    assert not path.exists()


def rated(batches):
    """Return the batches as frames with holes; every second one speaks of users of the one before it too."""
    rng = default_rng(3)
    frames = []
    count = 0
    for number, (X, Y) in enumerate(batches):
        names = [f"u{count + row}" for row in range(len(X))]
        count += len(X)
        Y = np.where(rng.random(Y.shape) < 0.4, np.nan, Y)
        Y[0, number % Q] = 1.0
        if number % 2:
            names[0] = "u0"
        frames.append((pd.DataFrame(X, names), pd.DataFrame(Y, names)))
    return frames


@pytest.mark.parametrize("cut", [1, 5])
def test_ratings_go_on_after_a_crash(batches, tasks, tmp_path, cut):
    frames = rated(batches)
    path = tmp_path / "model.dyad"

    def model():
        return OnlineTwoStepRidge(keep_labels=True)

    how = {"tasks": tasks, "known": "replace"}
    fit_stream(model(), frames[:cut], checkpoint=path, every=2, **how)
    resumed = fit_stream(model(), frames, checkpoint=path, every=2, **how)
    assert_same_bits(resumed, fit_stream(model(), frames, **how))
    # The last row of each user with what earlier ones said where it is silent.
    rows = pd.concat([X for X, _ in frames])
    labels = pd.concat([Y for _, Y in frames])
    final = labels.groupby(level=0).last()
    final_rows = rows[~rows.index.duplicated(keep="last")].loc[final.index]
    twin = OnlineTwoStepRidge().fit(final_rows, final, tasks)
    assert resumed.n_seen_ == len(final)
    assert_allclose(resumed.predict(final_rows), twin.predict(final_rows), rtol=1e-8)


def test_known_users_of_a_stream_are_an_error_unless_replaced(batches, tasks):
    with pytest.raises(IdError, match="1 of 3 instances are known already.*'u0'"):
        fit_stream(OnlineTwoStepRidge(keep_labels=True), rated(batches), tasks=tasks)
    with pytest.raises(TypeError, match="known"):
        fit_stream(SGDRegressor(), batches, known="replace")
