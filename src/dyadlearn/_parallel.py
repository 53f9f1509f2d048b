"""Independent calls of a function, on the workers of a joblib backend.

Without a backend of several jobs, such as that of ``joblib.parallel_config(backend="dask")``, the
calls run here, one after the other, and nothing is pickled. Linear algebra uses all cores of one
process, so that threads of joblib are not used either. Of nested loops the outermost is spread.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.parallel import get_active_backend
from sklearn import config_context, get_config

from dyadlearn._checks import caller_level
from dyadlearn._interrupts import current
from dyadlearn._progress import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

# The calls change the warning filters and the threads of linear algebra, which belong to a process.
# So a worker with several threads, as dask may have, runs one call at a time.
_alone = threading.Lock()


class _Shared(Generic[Item, Result]):
    """The function of all calls, with its data, which goes with every call.

    Dask would keep an array on one worker for all of them, and lose it with this worker.

    Attributes
    ----------
    work : callable
    is_over : bool
        Whether no further call should begin. It is known to workers that are threads of the caller.
    """

    def __init__(self, work: Callable[[Item], Result]) -> None:
        self.work = work
        self.is_over = False


class _Finished(NamedTuple):
    """The result of a call, the place of its item, and the warnings that it raised."""

    place: int
    result: Any
    warned: list[Warning | str]


def is_spread() -> bool:
    """Return whether independent calls run on the workers of a backend."""
    backend, n_jobs = get_active_backend()
    if n_jobs is None:
        n_jobs = backend.default_n_jobs
    return n_jobs != 1 and not getattr(backend, "supports_sharedmem", False)


def spread(
    work: Callable[[Item], Result], items: Iterable[Item], *, may_end: bool = False
) -> Generator[tuple[int, Result], None, None]:
    """Yield the place and the result of each item as soon as it is known.

    Parameters
    ----------
    work : callable
        Function that changes nothing that another call reads.
    items : iterable
    may_end : bool, default=False
        Whether results may be left out after an interrupt (`Interrupts.attempt`). Calls in this
        process handle interrupts themselves.

    Raises
    ------
    RuntimeError
        If a worker has ended, and the backend does not repeat its calls.
    """
    if not is_spread():
        yield from map_here(work, items)
        return
    shared = _Shared(work)
    config = get_config()
    calls = (delayed(_call)(shared, place, item, config) for place, item in enumerate(items))
    told = set[tuple[type, str]]()
    try:
        with closing(Parallel(return_as="generator_unordered")(calls)) as finished:
            step = partial(_next_of, finished)
            while (one := current().attempt(step) if may_end else step()) is not None:
                _warn_once(one.warned, told)
                yield one.place, one.result
    finally:
        shared.is_over = True
        with _alone:  # a worker that is a thread of this process has finished its call
            pass


def map_here(
    work: Callable[[Item], Result], items: Iterable[Item]
) -> Generator[tuple[int, Result], None, None]:
    """Yield what `spread` yields, from calls in this process, one after the other."""
    for place, item in enumerate(items):
        yield place, work(item)


def collected(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    watch: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Return the result of each item, in order; a single item stays in this process.

    Parameters
    ----------
    work : callable
        As in `spread`.
    items : sequence
    watch : callable
        Callback that is called after each result.
    """
    results = {}
    over = spread if len(items) > 1 else map_here
    with closing(over(work, items)) as finished:
        for place, result in finished:
            results[place] = result
            watch()
    return [results[place] for place in range(len(results))]


def _call(
    shared: _Shared[Item, Result], place: int, item: Item, config: dict[str, Any]
) -> _Finished:
    """Call the function in a worker, which shows no progress."""
    with (
        _alone,
        parallel_config(backend="sequential"),
        config_context(**config),
        Progress(None, "", show=False),
        warnings.catch_warnings(record=True) as caught,
    ):
        if shared.is_over:
            raise CancelledError
        warnings.simplefilter("always")
        result = shared.work(item)
    return _Finished(place, result, [record.message for record in caught])


def _next_of(finished: Iterator[_Finished]) -> _Finished | None:
    """Return the next call that is finished, None after the last."""
    try:
        return next(finished, None)
    except Exception as error:
        if not isinstance(error, _lost_workers()):
            raise
        raise RuntimeError(
            "A worker process ended before its work was done, for lack of memory or because it could "
            "not read what it was sent, as the error above says: use fewer workers, workers with "
            "more memory, or functions that can be pickled. Nothing was changed."
        ) from error


def _lost_workers() -> tuple[type[Exception], ...]:
    """Return the errors by which backends tell that a worker has ended."""
    distributed = sys.modules.get("distributed")
    killed = getattr(distributed, "KilledWorker", BrokenExecutor)
    return BrokenExecutor, killed


def _warn_once(warned: Iterable[Warning | str], told: set[tuple[type, str]]) -> None:
    """Warn of what calls have warned of, once for all calls."""
    for message in warned:
        key = (type(message), str(message))
        if key not in told:
            told.add(key)
            warnings.warn(message, stacklevel=caller_level())
