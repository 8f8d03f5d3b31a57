"""Passes over a Dask cluster: labels stay with the workers, parameters travel out and statistics back.

=== ========================================================================= =====================================
..  once, and at every pass                                                   what travels
=== ========================================================================= =====================================
1   every worker gets a range of blocks of items, and keeps it                a folder's name, or the arrays
2   one task for each worker: the parameters are its arguments                θ to every worker
3   sums over the nodes of the tree that lie within its blocks                a node or a few from every worker
4   the client adds the nodes, in the order of the tree                       -
=== ========================================================================= =====================================

So the answer is that of one process, bit for bit, however many workers there are.  A worker that can see the store
opens its memory maps, and no label travels; else its arrays are part of the task that makes its range, which the
scheduler keeps.  When a worker dies, others make its range again and run its task again.  (Parameters are arguments of
tasks, never scattered: a scattered key dies with its worker.)

Dask is optional: ``pip install consilience[dask]``.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.part import Part
from consilience.engine.passes import InMemory, OnDisk, Passes
from consilience.engine.store import Store
from consilience.exceptions import ConsilienceError, EngineError, ParameterError
from consilience.kernels import blocks
from consilience.kernels._arrays import Floats
from consilience.models.dawid_skene import DawidSkene

__all__ = ["Cluster", "OnCluster", "Spread", "connect", "cut_for", "placed"]

_log = logging.getLogger("consilience")

#: Seconds to find a scheduler, between looks at a cluster that does not answer, and without any worker.
_CONNECT, _LOOK, _PATIENCE = 20.0, 1.0, 120.0
#: A worker keeps mapped pages if they are at most this share of its memory.
_KEPT = 0.25


@contextmanager
def connect(scheduler: Any = None) -> Iterator[Cluster]:
    """Give a cluster: that of a scheduler's address or of a client, the one in use, or else one of processes here."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise ParameterError("the engine 'dask' needs Dask: pip install consilience[dask]") from error
    with ExitStack() as stack:
        if scheduler is not None and not isinstance(scheduler, str):
            client = scheduler
        elif scheduler is None and (found := _client_in_use(distributed)) is not None:
            client = found
        else:
            if scheduler is None:
                options: dict[str, Any] = {"n_workers": blocks.thread_count(), "threads_per_worker": 1}
                options |= {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
                address: Any = stack.enter_context(distributed.LocalCluster(processes=True, **options))
            else:
                address = scheduler
            try:
                client = stack.enter_context(distributed.Client(address, timeout=_CONNECT, set_as_default=False))
            except (OSError, TimeoutError, ValueError) as error:
                raise EngineError(f"there is no Dask scheduler at {scheduler}: {error}") from error
        yield Cluster(client)


@contextmanager
def placed(engine: Any, scheduler: Any = None) -> Iterator[Cluster | None]:
    """Give the cluster that ``engine`` names, "dask" or a client of Dask's; None for "local", this process."""
    if isinstance(engine, str) and engine not in ("local", "dask"):
        raise ParameterError(f"engine must be 'local', 'dask' or a Dask client here, not {engine!r}")
    if engine == "local":
        yield None
        return
    with connect(scheduler if engine == "dask" else engine) as cluster:
        yield cluster


def _client_in_use(distributed: Any) -> Any:
    try:
        return distributed.default_client()
    except ValueError:
        return None


class Held(NamedTuple):
    """How a worker makes what it holds; it is made once, and made anew wherever it is moved to."""

    make: Callable[..., Any]
    arguments: dict[str, Any]


class _Made:
    """What a worker holds."""

    def __init__(self, how: Held) -> None:
        self.how, self.value = how, how.make(**how.arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Made, (self.how,)


class Cluster:
    """Workers that hold things, and tasks on these."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.distributed: Any = import_module("distributed")

    @property
    def workers(self) -> list[str]:
        """Addresses of the workers that are there, in order."""
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def wait_for_workers(self) -> list[str]:
        """Give the workers as soon as there is one."""
        deadline = time.monotonic() + _CONNECT
        while not (found := self.workers):
            if time.monotonic() > deadline:
                raise EngineError(f"the Dask cluster has no workers; start some, or wait longer than {_CONNECT:.0f} s")
            time.sleep(0.1)
        return found

    def hold(self, what: list[Held]) -> Group:
        """Let every worker in turn make one of these and keep it."""
        return Group(self, what)

    def spread(self, make: Callable[..., Any], portion: Callable[[int, int], dict[str, Any]], n: int) -> Spread:
        """Let workers make passes over portions of ``n`` blocks, of the arrays that ``portion(first, stop)`` gives."""
        return Spread(self.hold([Held(make, portion(*cut)) for cut in self.cut(n)]), n)

    def cut(self, n: int) -> list[tuple[int, int]]:
        """Cut ``n`` blocks into a range for each worker."""
        return cut_for(min(len(self.wait_for_workers()), n), n)

    def gather(self, futures: list[Any], tell: Callable[[int], None] | None = None) -> list[Any]:
        """Wait for tasks and give what they gave, in order; raise when the cluster is lost."""
        alone = time.monotonic()
        pending, when = list(futures), "FIRST_COMPLETED" if tell else "ALL_COMPLETED"
        try:
            while pending:
                try:
                    with self.client.as_current():
                        done = self.distributed.wait(pending, timeout=_LOOK, return_when=when).done
                except (TimeoutError, self.distributed.TimeoutError):
                    done = set()
                if self.client.status != "running":
                    raise self._lost("its scheduler is gone")
                pending = [future for future in pending if future not in done]
                if tell and done:
                    tell(len(done))
                if done or self.workers:
                    alone = time.monotonic()
                elif time.monotonic() > alone + _PATIENCE:
                    raise self._lost(f"it had no workers for {_PATIENCE:.0f} s")
            results: list[Any] = self.client.gather(futures)
        except ConsilienceError:
            raise
        except self.distributed.KilledWorker as error:
            raise self._lost("workers died one after the other; is there memory enough?") from error
        except Exception as error:
            # futures are cancelled when the scheduler is gone; which exception says so depends on the moment
            if self.client.status == "running" and not _is_loss(error):
                raise
            raise self._lost("its scheduler is gone") from error
        return results

    def _lost(self, why: str) -> EngineError:
        return EngineError(
            f"the Dask cluster was lost: {why}. A checkpoint, if one was asked for, is intact: the same command goes "
            "on from it"
        )


def cut_for(workers: int, n: int) -> list[tuple[int, int]]:
    """Cut ``n`` blocks into ranges that are equal but for a sixteenth, and made of few nodes of the tree."""
    unit = 1 << max(0, (n // (16 * workers)).bit_length() - 1)
    return list(pairwise([*(round(i * n / (workers * unit)) * unit for i in range(workers)), n]))


def _is_loss(error: Exception) -> bool:
    import asyncio

    names = {"FutureCancelledError", "CommClosedError", "FuturesCancelledError"}
    cancelled = isinstance(error, asyncio.CancelledError | OSError)
    return cancelled or any(kind.__name__ in names for kind in type(error).__mro__)


class Group:
    """Things that workers hold, one each; what is lost with a worker is made again elsewhere."""

    def __init__(self, cluster: Cluster, what: list[Held]) -> None:
        self.cluster, self.what = cluster, what
        self._pins: list[str] = []
        self._held: list[Any] = []
        self._looked = 0.0
        workers = cluster.wait_for_workers()
        for at, how in enumerate(what):
            self._pins.append(workers[at % len(workers)])
            self._held.append(self._made(how, self._pins[-1]))

    def _made(self, how: Held, worker: str) -> Any:
        return self._submit(_Made, how, worker=worker)

    def _submit(self, function: Callable[..., Any], *arguments: Any, worker: str) -> Any:
        with warnings.catch_warnings():
            # arrays that have to travel do: Dask's advice to scatter them would let them die with a worker
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.cluster.client.submit(
                function, *arguments, pure=False, workers=[worker], allow_other_workers=True
            )

    def each(self, what: str, *arguments: Any, tell: Callable[[int], None] | None = None) -> list[Any]:
        """Call the method ``what`` of everything that is held, one task each."""
        self._mend()
        tasks = [
            self._submit(_call, held, what, arguments, worker=pin)
            for held, pin in zip(self._held, self._pins, strict=True)
        ]
        return self.cluster.gather(tasks, tell)

    def close(self) -> None:
        """Let workers forget it all."""
        self._held.clear()

    def _mend(self) -> None:
        """Give what dead workers held to those that hold least, and to new workers what others hold beside more."""
        if time.monotonic() < self._looked + _LOOK:  # it is a question to the scheduler, and passes are short
            return
        there, self._looked = self.cluster.workers, time.monotonic()
        for at, pin in enumerate(self._pins if there else ()):
            least = min(there, key=lambda worker: (self._pins.count(worker), worker))
            if pin not in there or self._pins.count(pin) > self._pins.count(least) + 1:
                _log.info("worker %s is %s; %s has its blocks now", pin, "busy" if pin in there else "gone", least)
                self._pins[at], self._held[at] = least, self._made(self.what[at], least)


def _call(held: _Made, what: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(held.value, what)(*arguments)


class Spread:
    """A pass whose blocks are spread over workers; it is called as the pass itself is."""

    def __init__(self, group: Group, n: int) -> None:
        self.group, self.n = group, n

    def __call__(self, *parameters: Any) -> Any:
        """Run the pass under these parameters and give the sums of all blocks."""
        made: dict[blocks.Node, Any] = {}
        for part in self.group.each("parts", *parameters):
            made |= part
        return blocks.total(made, (0, self.n))


# ---- labels of items ----------------------------------------------------------------------------------------


class OnCluster(Passes):
    """Passes over labels that the workers of a cluster hold.

    Parameters
    ----------
    home
        The same labels here, for what is no pass over all of them.
    cluster
        Where the passes run.
    """

    def __init__(self, home: InMemory | OnDisk, cluster: Cluster) -> None:
        self.home, self.cluster = home, cluster
        self.n_items, self.n_labels, self.origin = home.n_items, home.n_labels, home.origin
        self.annotator_ids, self.class_ids = home.annotator_ids, home.class_ids
        self._spilled: tempfile.TemporaryDirectory[str] | None = None
        store = self._store()
        share = home.part.share
        cuts = cluster.cut(share.n)
        #: Whether workers opened the store's memory maps; else they were sent their arrays.
        self.mapped = store is not None
        if store is not None:
            place = {"folder": str(store.folder), "fingerprint": store.fingerprint, "n": share.n}
            what = [Held(_part_of_store, {**place, "cut": share.blocks[a:b], "first": a}) for a, b in cuts]
        else:
            what = [Held(Part, home.part.portion(a, b)) for a, b in cuts]
        self._group = cluster.hold(what)

    def _store(self) -> Store | None:
        """Give the labels as a store that all workers can open; None if they cannot."""
        if isinstance(self.home, OnDisk):
            store = self.home.store
        else:
            self._spilled = tempfile.TemporaryDirectory(prefix="consilience-")
            store = Store.from_annotations(self.home.annotations, os.path.join(self._spilled.name, "store"))  # noqa: PTH118
        where: dict[str, Any] = {"pure": False, "allow_other_workers": True}  # a worker may die before it has answered
        checks = [
            self.cluster.client.submit(_sees, str(store.folder), store.fingerprint, workers=[worker], **where)
            for worker in self.cluster.wait_for_workers()
        ]
        return store if all(self.cluster.gather(checks)) else None

    def close(self) -> None:
        """Let workers forget what they hold, and remove what was written for them."""
        self._group.close()
        if self._spilled is not None:
            self._spilled.cleanup()

    @property
    def fingerprint(self) -> str:
        """The same for the same labels."""
        return self.home.fingerprint

    @property
    def has_gold(self) -> bool:
        """Whether some truths are known."""
        return self.home.has_gold

    @property
    def place(self) -> str:
        """Where the labels are, in words."""
        how = (
            "which map the labels from disk" if self.mapped else "which were sent them, for they do not see the folder"
        )
        return f"{len(self._group.what)} workers, {how}"

    def _each(self, what: str, *arguments: Any, tell: Callable[[int], None] | None = None) -> Iterable[Any]:
        n = len(self._group.what)
        told = (lambda tasks: tell(tasks * -(-self.n_labels // n))) if tell else None
        return self._group.each(what, *arguments, tell=told)

    def sample(self, step: int) -> Annotations:
        """Give every ``step``-th item."""
        return self.home.sample(step)

    def posterior(self, model: DawidSkene) -> Floats:
        """Give the posterior of every item (N, K) where labels are in memory here, and else of none, (0, K)."""
        return self.home.posterior(model)

    def vote_posterior(self) -> Floats:
        """Give the share of votes that each class has on every item (N, K), likewise."""
        return self.home.vote_posterior()


def _sees(folder: str, fingerprint: str) -> bool:
    try:
        return Store.open(folder).fingerprint == fingerprint
    except ConsilienceError:
        return False


def _part_of_store(folder: str, fingerprint: str, cut: list[tuple[int, int]], first: int, n: int) -> Part:
    """Open a worker's blocks of a store."""
    store = Store.open(folder)
    if store.fingerprint != fingerprint:
        raise EngineError(f"the labels in {folder} have changed since the run began")
    low, high = cut[0][0], cut[-1][1]
    size = int(store.indptr[high] - store.indptr[low]) * (store.annotator.itemsize + store.label.itemsize)
    size += 8 * (high - low)
    threads, memory = _resources()
    return Part.of_store(store, blocks.Share(cut, first, n), keep=size < _KEPT * memory, threads=threads)


def _resources() -> tuple[int, float]:
    """Give the threads and the bytes of the worker that this runs on."""
    from distributed import get_worker

    worker = get_worker()
    limit = getattr(worker.memory_manager, "memory_limit", None)
    return int(worker.state.nthreads), float(limit or np.inf)
