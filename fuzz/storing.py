"""Model files: there and back again bit by bit, and mutated ones, which may be refused but must not do harm."""

from __future__ import annotations

import hashlib
import json
import tempfile
import tracemalloc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from campaign import Case, RefusedError, WrongAnswerError, generator
from fitting import draw_problem
from refits import UndefinedError
from scipy.sparse import csr_array

from dyadlearn import (
    IndependentTaskRidgeCV,
    KroneckerRidge,
    Landmarks,
    OnlineTwoStepRidge,
    PairRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    load,
    save,
)
from dyadlearn.exceptions import LeverageError, ModelFileError
from dyadlearn.filters import IteratedTikhonov

__all__ = ["forge", "tiny_models"]

# What reading a file of a few kilobytes may take at most.
MOST_MEMORY = 32 * 2**20


@generator
def files(case: Case) -> None:
    """Save and load: predictions and hold-out are the same to the last bit."""
    try:
        drawn = draw_problem(
            case, str(case.pick("independent", "two_step", "kronecker", "network"))
        )
    except UndefinedError as reason:
        raise RefusedError(str(reason)) from None
    model = drawn.estimator
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.dyad"
        save(model, path)
        again = load(path)
        rest = [entry.name for entry in Path(folder).iterdir()]
    if rest != ["model.dyad"]:
        raise WrongAnswerError(f"saving left {rest}")
    if repr(again) != repr(model):
        raise WrongAnswerError(f"loaded {again!r}, saved {model!r}")
    for X in (drawn.rows.rows, drawn.rows.new):
        if not np.array_equal(again.predict(X), model.predict(X), equal_nan=True):
            raise WrongAnswerError("the loaded model predicts otherwise")
    answers = []
    for one in (model, again):
        try:
            answers.append(np.asarray(one.holdout("B")))
        except (LeverageError, ValueError) as error:
            if isinstance(error, np.linalg.LinAlgError):
                raise
            answers.append(str(error))
    first, second = answers
    if isinstance(first, str):
        same = first == second
    else:
        same = np.array_equal(first, second, equal_nan=True)
    if isinstance(first, str) != isinstance(second, str) or not same:
        raise WrongAnswerError("the loaded model holds out otherwise")


@cache
def tiny_models() -> tuple[bytes, ...]:
    """Return the files of some tiny models, one of each kind."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5, 2))
    T = rng.standard_normal((4, 3))
    Y = rng.standard_normal((5, 4))
    holes = Y.copy()
    holes[1, 2] = np.nan
    network = Y[:4] + Y[:4].T
    pairs = [(row, column) for row in range(5) for column in range(4)]
    models = [
        TwoStepRidge(0.5, 0.1).fit(X, Y, tasks=T),
        TwoStepRidge(0.5, 0.1).fit(csr_array(np.round(X)), Y, tasks=csr_array(T[:, :2])),
        TwoStepRidge(0.5, 0.5, kernel="rbf", symmetry="symmetric", filter=IteratedTikhonov(3)).fit(
            X[:4], network
        ),
        KroneckerRidge(0.5, kernel="rbf", kernel_params={"gamma": 0.3}).fit(X, holes, tasks=T),
        TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], setting="D", progress=False).fit(X, Y, tasks=T),
        IndependentTaskRidgeCV([0.1, 1, 10], progress=False).fit(X, Y),
        OnlineTwoStepRidge(0.5, keep_labels=True).fit(X, Y, tasks=T),
        Landmarks(3, random_state=0).fit(X),
        PairRegressor(KroneckerRidge(0.5), instances=pd.DataFrame(X), tasks=pd.DataFrame(T)).fit(
            pairs, Y.ravel()
        ),
    ]
    contents = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.dyad"
        for model in models:
            save(model, path)
            contents.append(path.read_bytes())
    return tuple(contents)


@generator
def broken_files(case: Case) -> None:
    """Mutated model files: a ModelFileError, or a model; no other error, and no memory beyond their size."""
    rng = case.rng
    number = int(rng.integers(len(tiny_models())))
    content = bytearray(tiny_models()[number])
    kind = str(
        case.pick("flips", "cut", "grown", "swapped", "forged", "forged", "forged", "forged")
    )
    if kind == "flips":
        for _ in range(int(rng.integers(1, 6))):
            place = int(rng.integers(len(content) if case.chance(0.5) else min(200, len(content))))
            content[place] ^= 1 << int(rng.integers(8))
    elif kind == "cut":
        del content[int(rng.integers(len(content))) :]
    elif kind == "grown":
        content += bytes(int(value) for value in rng.integers(0, 256, int(rng.integers(1, 50))))
    elif kind == "swapped":
        first, second = (int(rng.integers(len(content) - 16)) for _ in range(2))
        content[first : first + 16] = content[second : second + 16]
    else:
        content = bytearray(forge(case, bytes(content)))
    case.what = f"model {number}, {kind}: {case.what}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.dyad"
        path.write_bytes(content)
        tracemalloc.start()
        try:
            model = load(path)
        except ModelFileError as error:
            text = str(error)
            if "\n" in text.strip() or not text:
                raise WrongAnswerError(f"a message that is no sentence: {text!r}") from None
            raise RefusedError("ModelFileError") from None
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > MOST_MEMORY:
                raise WrongAnswerError(f"reading {len(content)} bytes took {peak / 2**20:.0f} MiB")
    _use(model)


def _use(model: Any) -> None:
    """Predict with a model that was loaded from a mutated file: an error of its own is fine, a crash is not."""
    answer = model.predict if hasattr(model, "predict") else model.transform
    if isinstance(model, PairRegressor):
        rows = [(0, 0)]
    else:
        rows = np.zeros((1, getattr(model, "n_features_in_", 1)))
    try:
        answer(rows)
        repr(model)
    except ValueError as error:
        raise RefusedError("loaded, and refused to predict") from error


def forge(case: Case, content: bytes) -> bytes:
    """Change the JSON of a file, or the shapes of its arrays, and make places and checksum right again."""
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    body = content[8 + length :]
    metadata = head.pop("__metadata__")
    header = json.loads(metadata["header"])
    data = {name: body[slice(*place["data_offsets"])] for name, place in head.items()}
    kind = str(case.pick("header", "header", "lacking", "lacking", "place", "empty axes", "size"))
    case.what += kind
    names = list(head)
    name = str(case.pick(*names))
    if kind == "header":
        for _ in range(int(case.rng.integers(1, 3))):
            header = mutate_json(case, header)
    elif kind == "lacking":
        *path, last = case.pick(*_entries(header["model"], ("model",)))
        case.what += f"/{'/'.join(map(str, path))}/{last}"
        node = header
        for key in path:
            node = node[key]
        del node[last]
    elif kind == "place":
        head[name] = mutate_json(case, head[name])
    elif kind == "empty axes":
        # Arrays of no bytes may be of any length along the other axis.
        many = int(case.pick(10**6, 10**9, 2**40))
        for key in {name, str(case.pick(*names))}:
            head[key]["shape"] = case.pick([0, many], [many, 0], [0], [0] + [2**47] * 7)
            data[key] = b""
        if case.chance(0.7):
            header = _with_size(header, many, case)
    else:
        header = _with_size(header, int(case.pick(0, -1, 10**9, 2**62)), case)
    if kind != "place":
        end = 0
        for key, place in head.items():
            place["data_offsets"] = [end, end + len(data[key])]
            end += len(data[key])
    metadata["header"] = json.dumps(header, separators=(",", ":"))
    metadata["checksum"] = zeros = "0" * 64
    text = json.dumps({"__metadata__": metadata, **head}, separators=(",", ":")).encode(
        "ascii", "replace"
    )
    text += b" " * (-len(text) % 8)
    whole = len(text).to_bytes(8, "little") + text + b"".join(data.values())
    digest = hashlib.sha256(whole).hexdigest().encode()
    return whole.replace(zeros.encode(), digest, 1)


def _entries(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every named entry of what JSON holds."""
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        pairs = ()
    for key, thing in pairs:
        if isinstance(value, dict):
            yield (*path, key)
        yield from _entries(thing, (*path, key))


def _with_size(value: Any, many: int, case: Case) -> Any:
    """Return what JSON holds with some of its whole numbers changed to another one."""
    if isinstance(value, dict):
        return {key: _with_size(thing, many, case) for key, thing in value.items()}
    if isinstance(value, list):
        return [_with_size(thing, many, case) for thing in value]
    return many if type(value) is int and case.chance(0.4) else value


def mutate_json(case: Case, value: Any) -> Any:
    """Return what JSON holds with one thing in it changed: a value, a key, an element more or less."""
    rng = case.rng
    if isinstance(value, dict) and value and not case.chance(0.15):
        key = str(list(value)[int(rng.integers(len(value)))])
        kind = case.pick("deeper", "deeper", "deeper", "delete", "rename", "add")
        case.what += f"/{key}"
        if kind == "delete":
            return {name: thing for name, thing in value.items() if name != key}
        if kind == "rename":
            return {name + "x" if name == key else name: thing for name, thing in value.items()}
        if kind == "add":
            return {**value, "more": _hostile(case)}
        return {**value, key: mutate_json(case, value[key])}
    if isinstance(value, list) and value and not case.chance(0.2):
        place = int(rng.integers(len(value)))
        kind = case.pick("deeper", "deeper", "delete", "double")
        case.what += f"/{place}"
        if kind == "delete":
            return value[:place] + value[place + 1 :]
        if kind == "double":
            return [*value, value[place]]
        return [*value[:place], mutate_json(case, value[place]), *value[place + 1 :]]
    changed = _hostile(case)
    case.what += f"={str(changed)[:40]}"
    return changed


def _hostile(case: Case) -> Any:
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    return case.pick(
        None, True, False, 0, -1, 1, 2, 7, 10**6, 2**31, 2**48 - 1, 2**63, 2**70, 0.5, -1e308, 1e-320, "", "x", "rbf",
        "linear", "precomputed", "Tikhonov", "é\u2028\x1b[31m", "a" * 5000, [], [1], [0, 10**9], [[1, 2], [3]], {},
        {"a": 1}, deep, "NaN", "float64", "F64", [10**6, 10**6], [0, 2**40],
    )  # fmt: skip
