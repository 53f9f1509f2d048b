"""The four settings and the words others use for them."""

import pickle
import re

import pytest

from dyadlearn.settings import Setting, as_setting, as_settings
from sweeps import lines, over


@over(
    lines(
        "letter new transposed",
        ("A", (), "A"),
        ("B", (0,), "C"),
        ("C", (1,), "B"),
        ("D", (0, 1), "D"),
    )
)
def test_a_setting_is_the_set_of_new_sides(letter, new, transposed):
    setting = Setting(letter)
    assert setting.new == new
    assert Setting.of(reversed(new)) is setting
    assert setting.transposed is Setting(transposed)
    assert setting.value == setting == str(setting) == letter
    assert pickle.loads(pickle.dumps(setting)) is setting
    assert Setting.from_state(setting.state(), "model") is setting


@over(
    lines(
        "setting words",
        ("A", ["in_sample_loo", "interaction", "edges", "random", "R", "CV2", "T2"]),
        ("B", ["leave_x1_out", "row", "cold_instance", "I1e", "CV1"]),
        ("C", ["leave_x2_out", "column", "cold_task", "I1f", "CV0"]),
        ("D", ["out_of_sample_loo", "both", "vertices", "cold_both", "I2", "CV00", "T0"]),
    )
)
def test_the_words_of_other_libraries(setting, words):
    for word in (setting, setting.lower(), *words):
        assert as_setting(word) is Setting(setting), word
        assert as_setting(word.upper()) is Setting(setting), word
        assert as_setting(f" {word.replace('_', '-')} ") is Setting(setting), word


def test_one_new_parent_is_no_setting_before_its_side_is_known():
    for word in ("T1", " t1 "):
        with pytest.raises(
            ValueError,
            match=r"^T1 does not name the new parent: use B if .* rows, C if .* columns\.$",
        ):
            as_setting(word)


def test_several_settings_are_letters_or_names():
    A, B, C, D = Setting
    for given, wanted in (
        ("ABCD", [A, B, C, D]),
        ("dA", [D, A]),
        ("B", [B]),
        (C, [C]),
        ("CV00", [D]),
        ("row", [B]),
        (["CV1", D], [B, D]),
        (Setting, [A, B, C, D]),
        (iter("BA"), [B, A]),
    ):
        assert as_settings(given) == wanted, given
    for wrong in ("AE", "CV3", ["A", "T1"]):
        with pytest.raises(ValueError, match="T1 does not name the new parent|Unknown setting"):
            as_settings(wrong)


def test_no_setting_and_a_repeated_setting_are_refused():
    expected = "letters of A, B, C and D such as 'BD', one name, or a list of names"
    for wrong, kind, message in (
        (None, TypeError, f"setting must be {expected}, found None."),
        (3, TypeError, f"setting must be {expected}, found 3."),
        ("", ValueError, f"setting names no setting: expected {expected}."),
        ([], ValueError, f"setting names no setting: expected {expected}."),
        ("ABA", ValueError, "setting must name each setting once, found A more than once."),
        (
            ["CV1", "row", "D"],
            ValueError,
            "setting must name each setting once, found B more than once.",
        ),
    ):
        with pytest.raises(kind, match=f"^{re.escape(message)}$"):
            as_settings(wrong)


def test_an_unknown_word_is_refused_in_one_line():
    for word in ("E", "nothing like it", "cold_drug"):
        with pytest.raises(
            ValueError, match=f"^Unknown setting '{word}': expected A .*, B .*, C .* or D "
        ) as caught:
            as_setting(word)
        assert len(str(caught.value)) < 180
