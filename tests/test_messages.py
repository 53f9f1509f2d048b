"""Messages that name parameters."""

import copy
import pickle

import pytest

from dyadlearn._messages import InPython, Message, Parameter, message_of
from message_templates import messages
from sweeps import lines, over

MESSAGE = Message("Give <X>, <tasks=> or <setting='A'>[ (see fit)| (see tune)].")


def name(parameter):
    return f"<{parameter.name}>"


def test_the_text_is_that_for_python():
    assert MESSAGE == "Give X, tasks= or setting='A' (see fit)."


def test_other_places_write_parameters_in_their_way():
    assert MESSAGE.written(name) == "Give <X>, <tasks> or <setting> (see tune)."


@over(
    lines("template value", ("<X>", ""), ("<cv=>", ""), ("<cv=5>", "5"), ('<known="add">', "add"))
)
def test_parameters_have_the_value_of_the_template(template, value):
    [parameter] = filter(None, Message(template).parts)
    assert isinstance(parameter, Parameter)
    assert str(parameter) == template.strip("<>")
    assert parameter.value == value


def test_values_stand_in_the_text_and_in_all_marks():
    message = Message(
        "{n:,} labels: give <{side}> and <cv={n!r}>, or [{side}[{n}]|--{side} {n}].",
        n=1000,
        side="tasks",
    )
    assert message == "1,000 labels: give tasks and cv=1000, or tasks[1000]."
    assert message.written(name) == "1,000 labels: give <tasks> and <cv>, or --tasks 1000."


@over(lines("text", "<cv=5>", "[a|b]", "{path}", "{", "}", "<", "|"))
def test_values_are_never_read_as_a_template(text):
    message = Message("{path}: <cv={path}> [{path}|{path}]", path=text)
    assert message == f"{text}: cv={text} {text}"
    assert message.written(name) == f"{text}: <cv> {text}"


@over(lines("template", "{path}", "<{path}>", "<cv={path}>", "[{path}|]"))
def test_a_missing_value_is_refused(template):
    with pytest.raises(KeyError, match="path"):
        Message(template, file="a.csv")


def test_a_message_in_a_message_keeps_its_parts():
    remedy = Message("no {parameter}.", parameter=Message("<cv>"))
    whole = Message("In A: {message} Twice: {remedy}", message=MESSAGE, remedy=remedy)
    assert whole.startswith("In A: Give X, tasks=")
    assert whole.written(name) == f"In A: {MESSAGE.written(name)} Twice: no <cv>."


def test_messages_of_the_library_have_all_values_and_no_mark_that_is_not_read():
    places = []
    for place, message in messages():
        places.append(place)
        for part in message.parts:
            if isinstance(part, str | InPython):
                assert not set("<>{}|") & set(str(part)), place
    assert len(places) > 100


@over(lines("again", copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))))
def test_copies_of_errors_keep_the_parts(again):
    error = again(ValueError(MESSAGE))
    assert str(error) == MESSAGE
    assert message_of(error).written(name) == MESSAGE.written(name)
