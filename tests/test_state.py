"""Objects come apart into named values and together again, and what does not fit is refused by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import sparse

from dyadlearn import TwoStepRidge, load, save
from dyadlearn._array import Array
from dyadlearn._state import Stored, _classes, is_shaped, stored_class, stored_estimators
from dyadlearn.exceptions import ModelFileError
from dyadlearn.filters import IteratedTikhonov, Tikhonov
from sweeps import lines, over


@dataclass(frozen=True)
class Ruler(Stored):
    length: float
    _marks: tuple[int, ...] = ()
    scale: Array | None = None

    _kept: ClassVar[tuple[str, ...]] = ("half",)

    @cached_property
    def half(self) -> float:
        return self.length / 2

    def _fits(self):
        return is_shaped(self.scale, len(self._marks))


def test_the_state_is_what_an_object_was_made_from():
    scale = np.ones(2)
    ruler = Ruler(3.0, (1, 2), scale)
    assert ruler.state() == {"length": 3.0, "marks": (1, 2), "scale": scale}
    assert Ruler.from_state(ruler.state(), "ruler").state() == ruler.state()
    assert "half" not in vars(Ruler.from_state(ruler.state(), "ruler"))


def test_what_was_computed_since_is_kept_where_it_is_named():
    ruler = Ruler(3.0)
    assert ruler.half == 1.5
    assert ruler.state() == {"length": 3.0, "marks": (), "scale": None, "half": 1.5}
    assert vars(Ruler.from_state({**ruler.state(), "half": 7.0}, "ruler"))["half"] == 7.0


@over(
    lines(
        "change words",
        ({"more": 1}, r"its case.ruler has the unknown \['more'\]"),
        ({"length": None}, "its case.ruler.length is of type NoneType"),
        ({"marks": (1, "a")}, "its case.ruler.marks is of type tuple"),
        ({"half": "x"}, "its case.ruler.half is of type str"),
        ({"scale": np.ones(3)}, "the parts of its case.ruler do not fit together"),
    )
)
def test_what_does_not_fit_is_refused_by_name(change, words):
    state = Ruler(3.0, (1, 2), np.ones(2)).state()
    with pytest.raises(ModelFileError, match=words):
        Ruler.from_state({**state, **change}, "case.ruler")
    del state["marks"]
    with pytest.raises(ModelFileError, match=r"lacks \['marks'\]"):
        Ruler.from_state(state, "case.ruler")


def test_a_constructor_has_its_say_too():
    with pytest.raises(ValueError, match="n_iter must be a whole number of at least 1"):
        IteratedTikhonov.from_state({"n_iter": 0}, "filter")


@dataclass(frozen=True)
class Chart(Stored):
    n_rows: int
    values: Array
    names: tuple[str, ...] | None = None
    ruler: Ruler | None = None
    other: Array | None = None

    _shapes: ClassVar[Mapping[str, str]] = {
        "values": "n_rows d",
        "names": "d",
        "ruler.scale": "d",
        "other": "sparse d d",
    }


@over(
    lines(
        "change fits",
        ({}, True),
        ({"n_rows": 3}, False),
        ({"values": np.ones((2, 3, 1))}, False),
        ({"values": sparse.csr_array((2, 3))}, False),
        ({"names": ("a", "b")}, False),
        ({"ruler": Ruler(1.0)}, True),
        ({"ruler": Ruler(1.0, (1, 2, 3), np.ones(3))}, True),
        ({"other": np.ones((3, 3))}, True),
        ({"other": sparse.csr_array((3, 3))}, True),
        ({"other": np.ones((3, 2))}, False),
    )
)
def test_shapes_fit_to_each_other(change, fits):
    state = {
        "n_rows": 2,
        "values": np.ones((2, 3)),
        "names": None,
        "ruler": None,
        "other": None,
    } | change
    if fits:
        assert Chart.from_state(state, "chart").n_rows == 2
    else:
        with pytest.raises(ModelFileError, match="the parts of its chart do not fit together"):
            Chart.from_state(state, "chart")


def test_only_classes_of_this_library_are_made_from_files():
    assert Ruler._file_name is None
    assert stored_class("Ruler") is None
    assert stored_class("IteratedTikhonov") is IteratedTikhonov
    for base in ("SpectralFilter", "GridModel", "StoredEstimator", "Stored", "Combination"):
        assert stored_class(base) is None
    assert "TwoStepRidge" in stored_estimators()
    assert "IteratedTikhonov" not in stored_estimators()


def test_a_filter_of_this_library_is_stored_without_a_line_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr("dyadlearn._state._classes", dict(_classes))
    body = {"__module__": "dyadlearn.filters", "__annotations__": {"height": "float"}}
    brickwall: Any = dataclass(frozen=True)(type("Brickwall", (Tikhonov,), body))
    model = TwoStepRidge(filter=brickwall(height=2.0)).fit(np.eye(3), np.ones((3, 2)))
    save(model, tmp_path / "model.dyad")
    assert load(tmp_path / "model.dyad").filter == brickwall(2.0)
