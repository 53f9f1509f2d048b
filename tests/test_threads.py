"""Pieces of work on several threads."""

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dyadlearn._threads import for_each


def blas_threads():
    return max(
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    )


@pytest.mark.parametrize("n_operations", [0.0, 1e12])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_piece_is_done_once_and_threads_are_given_back(threads, n_operations):
    done = []
    inside = []
    with threadpool_limits(threads, user_api="blas"):
        before = blas_threads()

        def work(item):
            done.append(item)
            inside.append((threading.get_ident(), blas_threads()))

        for_each(work, list(range(5)), np.ones(1), n_operations=n_operations)
        assert blas_threads() == before
    assert sorted(done) == list(range(5))
    if before > 1 and n_operations:
        assert {count for _, count in inside} == {1}
        assert threading.get_ident() not in {thread for thread, _ in inside}
    else:
        assert {thread for thread, _ in inside} == {threading.get_ident()}


@pytest.mark.parametrize("error", [ValueError, IndexError])
def test_an_error_ends_the_work_soon(error):
    """Errors of the work are not taken for the end of the items, and the other threads begin no new items."""
    done, failed = [], threading.Event()

    def work(item):
        if item == 0:
            failed.set()
            raise error
        assert failed.wait(10)
        time.sleep(0.01)
        done.append(item)

    with threadpool_limits(2, user_api="blas"), pytest.raises(error):
        for_each(work, list(range(100)), np.ones(1), n_operations=1e12)
    assert len(done) <= 3


def test_arrays_of_other_libraries_are_worked_on_one_by_one():
    strict = pytest.importorskip("array_api_strict")
    threads = set()
    with threadpool_limits(2, user_api="blas"):
        for_each(
            lambda _: threads.add(threading.get_ident()), [0, 1], strict.ones(1), n_operations=1e12
        )
    assert threads == {threading.get_ident()}
