"""Messages that name parameters."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest

from dyadlearn._messages import Argument, InPython, Message, Parameter, message_of

MESSAGE = Message(
    "Give ",
    Parameter("X"),
    ", ",
    Argument("tasks"),
    " or ",
    Argument("setting", "A", "'"),
    InPython(" (see fit)", " (see tune)"),
    ".",
)


def name(parameter):
    return f"<{parameter.name}>"


def test_the_text_is_that_for_python():
    assert MESSAGE == "Give X, tasks= or setting='A' (see fit)."
    assert str(Argument("cv", 5)) == "cv=5"
    assert str(Argument("known", "replace")) == 'known="replace"'
    assert str(Argument("zeros", True)) == "zeros=True"


def test_other_places_write_parameters_in_their_way():
    assert MESSAGE.written(name) == "Give <X>, <tasks> or <setting> (see tune)."


def test_a_message_in_a_message_keeps_its_parts():
    whole = Message("In A: ", MESSAGE, " Twice: ", Message("no ", Message(Parameter("cv")), "."))
    assert whole.startswith("In A: Give X, tasks=")
    assert whole.written(name) == f"In A: {MESSAGE.written(name)} Twice: no <cv>."


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]
)
def test_copies_of_errors_keep_the_parts(again):
    error = again(ValueError(MESSAGE))
    assert str(error) == MESSAGE
    assert message_of(error).written(name) == MESSAGE.written(name)


def test_warnings_keep_the_parts():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(MESSAGE, UserWarning, stacklevel=1)
    assert message_of(caught[0].message).written(name) == MESSAGE.written(name)


def test_other_errors_have_their_text():
    assert message_of(ValueError("as it is")) == "as it is"
    assert message_of(ValueError()) == ""
    assert message_of(KeyError("a")) == "'a'"
