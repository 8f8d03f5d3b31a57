"""Cutting the items into blocks and running a kernel over them on all cores.

The cut depends on the data alone, never on the number of threads, and block results are added in block
order: the same data gives the same bits on one core and on sixty-four.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from consilience.kernels._arrays import Ints

__all__ = ["cut", "one_blas_thread", "run", "run_in_order", "thread_count"]

T = TypeVar("T")

#: A block of fewer labels than this does not pay for a thread.
_LABELS_PER_BLOCK = 1 << 17
_MOST_BLOCKS = 16


def thread_count() -> int:
    """Cores that this process may use; the environment variable CONSILIENCE_THREADS lowers it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("CONSILIENCE_THREADS", "")
    return max(1, min(cores, int(wanted))) if wanted.isdigit() else cores


def cut(indptr: Ints, cells: int) -> list[tuple[int, int]]:
    """Cut items into blocks ``(first, last + 1)`` of nearly equal numbers of labels.

    Each block sums into ``cells`` numbers of its own, so blocks much smaller than that would
    spend their time on adding up.
    """
    n_items, n_labels = indptr.size - 1, int(indptr[-1])
    most = n_labels // max(_LABELS_PER_BLOCK, 5 * cells)
    n_blocks = 1
    while 2 * n_blocks <= min(most, _MOST_BLOCKS):
        n_blocks *= 2
    aims = np.arange(1, n_blocks) * (n_labels / n_blocks)
    edges = [0, *np.searchsorted(indptr, aims).tolist(), n_items]
    return [(a, b) for a, b in pairwise(edges) if b > a] or [(0, n_items)]


@lru_cache(maxsize=4)
def _pool(threads: int, _process: int) -> ThreadPoolExecutor:
    # The process id is part of the key: threads do not survive a fork.
    return ThreadPoolExecutor(threads, thread_name_prefix="consilience")


def run(work: Callable[[int, int], T], blocks: list[tuple[int, int]]) -> list[T]:
    """Do ``work(first, stop)`` for every block; results come in block order."""
    threads = min(thread_count(), len(blocks)) if len(blocks) > 1 else 1
    if threads == 1:
        return [work(*block) for block in blocks]
    return list(_pool(threads, os.getpid()).map(lambda block: work(*block), blocks))


_blas_lock = threading.Lock()
_blas_users = 0
_blas_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products to one thread each, for blocks that already take all cores.

    The limit is one for the whole process.  So the first that comes in sets it and the last that goes out restores what
    was before, however they overlap.
    """
    from threadpoolctl import threadpool_limits

    global _blas_limit, _blas_users
    with _blas_lock:
        if not _blas_users:
            _blas_limit = threadpool_limits(1, "blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if not _blas_users:
                _blas_limit.restore_original_limits()
                _blas_limit = None


def run_in_order(prepare: Callable[[int], T], commit: Callable[[T], None], n_jobs: int) -> None:
    """Prepare jobs on all cores, and commit what each gave in the order of the jobs, one at a time.

    A job is prepared and committed by the same thread.
    """
    change = threading.Condition()
    turn = 0

    def work(job: int, _: int) -> None:
        nonlocal turn
        try:
            made = prepare(job)
            with change:
                change.wait_for(lambda: turn == job)
            commit(made)
        finally:
            with change:
                change.wait_for(lambda: turn == job)
                turn += 1
                change.notify_all()

    run(work, [(job, job + 1) for job in range(n_jobs)])
