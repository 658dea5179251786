"""Number of threads, and loops distributed over threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from evalplugin.base.errors import ModelError

_VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
_LIMIT: ContextVar[int | None] = ContextVar("evalplugin_threads", default=None)
T = TypeVar("T")
R = TypeVar("R")


def thread_count() -> int:
    """Return the number of threads to use: the one that was set, or else the CPUs available to this process.

    ``limit_threads`` comes before the environment variables NUMBA_NUM_THREADS and OMP_NUM_THREADS.

    Raises:
        ModelError: A variable is no whole number of at least 1.
    """
    limit = _LIMIT.get()
    if limit is not None:
        return limit
    for variable in _VARIABLES:
        text = os.environ.get(variable, "").strip()
        if text:
            if not text.isdecimal() or int(text) < 1:
                raise ModelError(
                    f"the environment variable {variable} must be a whole number from 1, not {text!r}"
                )
            return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def limit_threads(n: int) -> Iterator[None]:
    """Let work inside run on at most n threads."""
    token = _LIMIT.set(n)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def in_threads(work: Callable[[T], R], inputs: Iterable[T], threads: int) -> Iterator[R]:
    """Yield the results of ``work`` in the order of the inputs, while other threads work on the next ones.

    Each thread works alone on its input: work inside it starts no threads of its own.
    """

    def alone(value: T) -> R:
        with limit_threads(1):
            return work(value)

    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[R]] = deque()
        for value in inputs:
            pending.append(pool.submit(alone, value))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let linear algebra inside run on one thread, so that it rounds the same on any number of processors."""
    import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, which can be limited only once it is loaded
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


def for_ranges(work: Callable[[int, int], None], n: int, size: int) -> None:
    """Call ``work(start, stop)`` for consecutive ranges of ``size`` that cover 0 to n, in any order.

    Ranges run on several threads at once if ``work`` releases the interpreter's lock; an error in one is raised.
    """
    starts = range(0, n, max(1, size))
    threads = min(thread_count(), len(starts))
    if threads <= 1:
        for start in starts:
            work(start, min(start + size, n))
        return
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work, start, min(start + size, n)) for start in starts]:
            future.result()
