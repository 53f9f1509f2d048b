"""Interrupts: raised before there is a result, remembered after, and raised again at the second."""

import signal
import threading

import pytest

from dyadlearn import _interrupts
from dyadlearn._interrupts import (
    Interrupted,
    current,
    ignore_signals,
    keeping_best,
    number_of,
    raise_interrupt,
)


@pytest.fixture(autouse=True)
def _as_usual():
    """Handle Ctrl-C as Python does, and put back what was there."""
    before = {number: signal.getsignal(number) for number in _interrupts.SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def ctrl_c():
    signal.raise_signal(signal.SIGINT)
    return "done"


def test_nothing_is_kept_before_there_is_a_result():
    with pytest.raises(KeyboardInterrupt), keeping_best() as interrupts:
        ctrl_c()
    assert interrupts.heard is None
    with pytest.raises(KeyboardInterrupt), keeping_best() as interrupts:
        interrupts.attempt(ctrl_c)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_with_a_result_only_what_may_be_left_out_ends(capsys):
    with keeping_best() as interrupts:
        interrupts.keep()
        assert interrupts.attempt(lambda: 5) == 5
        assert interrupts.attempt(ctrl_c) is None
        assert interrupts.attempt(lambda: 5) is None  # nor is anything else begun
    assert interrupts.heard == signal.SIGINT
    assert capsys.readouterr().err.count("is being finished") == 1
    with keeping_best(show=False) as interrupts:
        interrupts.keep()
        assert ctrl_c() == "done"  # the final fit
        assert interrupts.attempt(lambda: 5) is None
    assert interrupts.heard == signal.SIGINT
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("together", [True, False])
def test_the_second_is_raised_unless_it_belongs_to_the_first(together, monkeypatch):
    monkeypatch.setattr(_interrupts, "_SAME", 100.0 if together else 0.0)

    def twice():
        with keeping_best(show=False) as interrupts:
            interrupts.keep()
            ctrl_c()
            ctrl_c()
        return interrupts.heard

    if together:
        assert twice() == signal.SIGINT
    else:
        with pytest.raises(Interrupted):
            twice()


def test_blocks_inside_are_one_with_the_outer_block():
    with keeping_best(show=False) as outer:
        with keeping_best() as inner:
            inner.keep()
        assert inner is outer is current()
        ctrl_c()
    assert outer.heard == signal.SIGINT
    assert current() is not outer
    with pytest.raises(KeyboardInterrupt):  # nothing is kept outside
        current().heed(KeyboardInterrupt())


def test_handlers_of_others_stay():
    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    with keeping_best() as interrupts:
        interrupts.keep()
        ctrl_c()
    assert (heard, interrupts.heard) == ([signal.SIGINT], None)


def test_other_threads_have_their_own():
    found = []

    def fit():
        with keeping_best() as interrupts:
            interrupts.keep()
            found.append((interrupts, interrupts.attempt(lambda: 5)))

    with keeping_best() as interrupts:
        thread = threading.Thread(target=fit)
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGINT) == interrupts._handle
    assert found[0][0] is not interrupts
    assert found[0][1] == 5


def test_a_command_hears_both_signals_until_it_is_over(monkeypatch):
    monkeypatch.setattr(raise_interrupt, "_last", float("-inf"))
    for number in _interrupts.SIGNALS:
        signal.signal(number, raise_interrupt)
    with keeping_best(show=False) as interrupts:
        interrupts.keep()
        signal.raise_signal(signal.SIGTERM)
    assert interrupts.heard == signal.SIGTERM
    with pytest.raises(Interrupted) as stop:
        signal.raise_signal(signal.SIGTERM)
    assert number_of(stop.value) == signal.SIGTERM
    signal.raise_signal(signal.SIGTERM)  # it belongs to the one before
    ignore_signals()
    assert {signal.getsignal(number) for number in _interrupts.SIGNALS} == {signal.SIG_IGN}
