"""Cut the items into blocks, run a kernel over them on all cores, and add up the results.

The cut depends on the data alone, never on the number of threads.  Results are added along a binary tree over the
blocks: node ``(first, stop)`` is the sum of its two halves.  So the same data gives the same bits on one core and on
sixty-four, in one process and in many: each process adds the nodes within its own blocks (:func:`within`), and
:func:`total` adds the rest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from consilience.kernels._arrays import Ints

__all__ = [
    "Node",
    "Share",
    "Spare",
    "add",
    "cut",
    "fold",
    "run",
    "run_in_order",
    "thread_count",
    "total",
    "within",
]

T = TypeVar("T")
#: A node of the tree: the blocks from ``first`` up to ``stop``.
Node = tuple[int, int]

#: A block of fewer labels than this does not pay for a thread.
_LABELS_PER_BLOCK = 1 << 17
#: The largest number of blocks, unless they would have more than ``_MOST_LABELS`` labels each: data larger than memory,
#: or on many machines, needs more.
_MOST_BLOCKS = 16
_MOST_LABELS = 1 << 23


def thread_count() -> int:
    """Return the number of cores that this process may use; the variable CONSILIENCE_THREADS lowers it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("CONSILIENCE_THREADS", "")
    return max(1, min(cores, int(wanted))) if wanted.isdigit() else cores


def cut(indptr: Ints, cells: int) -> list[tuple[int, int]]:
    """Cut items into blocks ``(first, last + 1)`` of nearly equal numbers of labels.

    Each block sums into ``cells`` numbers of its own, so much smaller blocks would spend their time adding up.
    """
    n_items, n_labels = indptr.size - 1, int(indptr[-1])
    most = n_labels // max(_LABELS_PER_BLOCK, 5 * cells)
    n_blocks = 1
    while 2 * n_blocks <= min(most, max(_MOST_BLOCKS, n_labels // _MOST_LABELS)):
        n_blocks *= 2
    aims = np.arange(1, n_blocks) * (n_labels / n_blocks)
    edges = [0, *np.searchsorted(indptr, aims).tolist(), n_items]
    return [(a, b) for a, b in pairwise(edges) if b > a] or [(0, n_items)]


@lru_cache(maxsize=4)
def _pool(threads: int, _process: int) -> ThreadPoolExecutor:
    # The process id is part of the key: threads do not survive a fork.
    return ThreadPoolExecutor(threads, thread_name_prefix="consilience")


def run(work: Callable[[int, int], T], blocks: list[tuple[int, int]], threads: int | None = None) -> list[T]:
    """Run ``work(first, stop)`` for every block and return the results in block order."""
    threads = min(threads or thread_count(), len(blocks)) if len(blocks) > 1 else 1
    if threads == 1:
        return [work(*block) for block in blocks]
    return list(_pool(threads, os.getpid()).map(lambda block: work(*block), blocks))


class Spare(Generic[T]):
    """Buffers for as many threads as need one at a time, created when needed and reused."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.made: list[T] = []
        self._idle: list[T] = []

    @contextmanager
    def one(self) -> Iterator[T]:
        """Lend a buffer that no other thread is using."""
        with self._lock:
            if not self._idle:
                self._idle.append(self._make())
                self.made.append(self._idle[-1])
            lent = self._idle.pop()
        try:
            yield lent
        finally:
            with self._lock:
                self._idle.append(lent)


class Share(NamedTuple):
    """The blocks of one process; the first of them is block number ``first`` of ``n``."""

    blocks: list[tuple[int, int]]
    first: int
    n: int

    @classmethod
    def all_of(cls, blocks: list[tuple[int, int]]) -> Share:
        """Return the share of a process that has all blocks."""
        return cls(blocks, 0, len(blocks))


def add(one: T, other: T) -> T:
    """Add two tuples of arrays and numbers, such as the statistics of two sets of items; the first is overwritten."""
    pairs: Any = zip(one, other, strict=True)  # type: ignore[call-overload]
    kind: Any = type(one)
    return kind(*(np.add(a, b, out=a) if isinstance(a, np.ndarray) else a + b for a, b in pairs))  # type: ignore[no-any-return]


def within(share: Share) -> list[Node]:
    """Return the largest nodes within a share, in order."""
    first, stop = share.first, share.first + len(share.blocks)

    def inside(node: Node) -> Iterator[Node]:
        if first <= node[0] and node[1] <= stop:
            yield node
        elif node[0] < stop and first < node[1]:
            for half in _halves(node):
                yield from inside(half)

    return list(inside((0, share.n))) if share.blocks else []


def fold(leaf: Callable[[int, int], T], share: Share, threads: int | None = None) -> dict[Node, T]:
    """Run ``leaf(first, stop)`` for every block of a share, and add up the results node by node."""
    if share.n == 1 and share.blocks:
        return {(0, 1): leaf(*share.blocks[0])}
    wanted = within(share)
    jobs = [job for node in wanted for job in _split(node)]

    def work(first: int, stop: int) -> T:
        if stop - first == 1:
            return leaf(*share.blocks[first - share.first])
        left, right = _halves((first, stop))
        return add(work(*left), work(*right))

    done = dict(zip(jobs, run(work, jobs, threads), strict=True))
    return {node: total(done, node) for node in wanted}


def total(parts: dict[Node, T], node: Node) -> T:
    """Return the sum over a node from those of nodes below it, in the order of the tree; the parts are consumed."""
    if node in parts:
        return parts.pop(node)
    left, right = _halves(node)
    return add(total(parts, left), total(parts, right))


def _halves(node: Node) -> tuple[Node, Node]:
    first, stop = node
    middle = (first + stop + 1) // 2
    return (first, middle), (middle, stop)


def _split(node: Node) -> list[Node]:
    """Return nodes below one, enough to keep all cores busy."""
    nodes = [node]
    while len(nodes) < _MOST_BLOCKS and any(stop - first > 1 for first, stop in nodes):
        nodes = [below for at in nodes for below in (_halves(at) if at[1] - at[0] > 1 else (at,))]
    return nodes


def run_in_order(prepare: Callable[[int], T], commits: Sequence[Callable[[T], None]], n_jobs: int) -> None:
    """Prepare jobs on all cores, and commit their results in the order of the jobs, one at a time.

    A job is prepared and committed by the same thread.  Each of several ``commits`` keeps the order of the jobs for
    itself, so that one job can be in the first while the job before is in the second.
    """
    change = threading.Condition()
    turns = [0] * len(commits)

    @contextmanager
    def in_turn(job: int, step: int) -> Iterator[None]:
        with change:
            change.wait_for(lambda: turns[step] == job)
        try:
            yield
        finally:
            with change:
                turns[step] += 1
                change.notify_all()

    def work(job: int, _: int) -> None:
        left = iter(range(len(commits)))
        try:
            made = prepare(job)
            for step in left:
                with in_turn(job, step):
                    commits[step](made)
        finally:
            # after an error, too: other jobs wait for this one
            for step in left:
                with in_turn(job, step):
                    pass

    run(work, [(job, job + 1) for job in range(n_jobs)])
