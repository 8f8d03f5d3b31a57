"""Passes on a Dask cluster: labels stay on the workers, parameters are sent out and statistics come back.

=== ========================================================================= =====================================
..  step                                                                      what is sent
=== ========================================================================= =====================================
1   once: every worker gets a range of blocks of items, and keeps it          a folder's name, or the arrays
2   every pass: one task per worker, with the parameters as arguments         θ to every worker
3   sums over the nodes of the tree within its blocks                         one or a few nodes per worker
4   the client adds the nodes, in the order of the tree                       -
=== ========================================================================= =====================================

So the result equals that of one process, bit for bit, for any number of workers.  A worker that can read the store
opens its memory maps, and no label is sent; otherwise the arrays are part of the task that makes its range, which the
scheduler keeps.  When a worker dies, others make its range again and repeat its task.  (Parameters are arguments of
tasks, never scattered: a scattered key dies with its worker.)

Dask is optional: ``pip install consilience[dask]``.
"""

from __future__ import annotations

import logging
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
from consilience.engine.store_writer import write_store
from consilience.engine.workplace import WorkFolder
from consilience.exceptions import ConsilienceError, EngineError, ParameterError
from consilience.kernels import blocks
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene

__all__ = ["Cluster", "ClusterPass", "OnCluster", "checked_address", "connect", "cut_for", "placed"]

_log = logging.getLogger("consilience")

#: Seconds to find a scheduler, between checks of a silent cluster, and to wait for a worker.
_CONNECT, _LOOK, _PATIENCE = 20.0, 1.0, 120.0
#: A worker keeps mapped pages if they are at most this share of its memory.
_KEPT = 0.25


@contextmanager
def connect(scheduler: Any = None) -> Iterator[Cluster]:
    """Return the cluster of a scheduler's address or a client; by default the one in use, or local processes."""
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
                options |= {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
                address: Any = stack.enter_context(distributed.LocalCluster(processes=True, **options))
            else:
                address = checked_address(scheduler)
            try:
                client = stack.enter_context(distributed.Client(address, timeout=_CONNECT, set_as_default=False))
            except (OSError, TimeoutError, ValueError) as error:
                raise EngineError(f"there is no Dask scheduler at {scheduler}: {error}") from error
        yield Cluster(client)


def checked_address(address: str) -> str:
    """Return the address of a scheduler; raise if it cannot be one, before a client tries for a long time."""
    comm, security = import_module("distributed.comm"), import_module("distributed.security")
    try:
        scheme, place = comm.parse_address(address)
        comm.registry.get_backend(scheme)
        if scheme in ("tcp", "tls"):
            comm.parse_host_port(place)
    except ValueError as error:
        raise ParameterError(
            f"{address!r} is not the address of a Dask scheduler, such as tcp://host:8786: {error}"
        ) from error
    if scheme == "tls" and security.Security().get_connection_args("client")["ssl_context"] is None:
        raise ParameterError(
            f"{address} needs certificates: name them in Dask's configuration, under distributed.comm.tls (see 'Large "
            "data' in the documentation)"
        )
    return address


@contextmanager
def placed(engine: Any, scheduler: Any = None) -> Iterator[Cluster | None]:
    """Return the cluster of ``engine``, "dask" or a Dask client; None for "local", this process."""
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


class Recipe(NamedTuple):
    """How a worker makes an object that it keeps; it is made once, and again where it is moved to."""

    make: Callable[..., Any]
    arguments: dict[str, Any]


class _Kept:
    """An object that a worker keeps."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.value = recipe, recipe.make(**recipe.arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, (self.recipe,)


class Cluster:
    """Workers that keep objects, and tasks on these objects."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.distributed: Any = import_module("distributed")

    @property
    def workers(self) -> list[str]:
        """Addresses of the present workers, in order."""
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def wait_for_workers(self) -> list[str]:
        """Return the workers as soon as there is one."""
        deadline = time.monotonic() + _CONNECT
        while not (found := self.workers):
            if time.monotonic() > deadline:
                raise EngineError(f"the Dask cluster has no workers; start some, or wait longer than {_CONNECT:.0f} s")
            time.sleep(0.1)
        return found

    def distribute(
        self, make: Callable[..., Any], portion: Callable[[int, int], dict[str, Any]], n: int
    ) -> ClusterPass:
        """Return a pass over ``n`` blocks whose portions, ``make(**portion(first, stop))``, are kept by workers."""
        return ClusterPass(Group(self, [Recipe(make, portion(*cut)) for cut in self.cut(n)]), n)

    def cut(self, n: int) -> list[tuple[int, int]]:
        """Cut ``n`` blocks into one range per worker."""
        return cut_for(min(len(self.wait_for_workers()), n), n)

    def gather(self, futures: list[Any], tell: Callable[[int], None] | None = None) -> list[Any]:
        """Wait for tasks and return their results in order; raise when the cluster is lost."""
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
            raise self._lost("workers died one after the other; is there enough memory?") from error
        except Exception as error:
            # futures are cancelled when the scheduler is gone, with different exceptions
            if self.client.status == "running" and not _is_loss(error):
                raise
            raise self._lost("its scheduler is gone") from error
        return results

    def _lost(self, why: str) -> EngineError:
        return EngineError(
            f"the Dask cluster was lost: {why}. A checkpoint, if one was asked for, is intact: the same command "
            "resumes from it"
        )


def cut_for(workers: int, n: int) -> list[tuple[int, int]]:
    """Cut ``n`` blocks into ranges that are equal within a sixteenth and consist of few nodes of the tree."""
    unit = 1 << max(0, (n // (16 * workers)).bit_length() - 1)
    return list(pairwise([*(round(i * n / (workers * unit)) * unit for i in range(workers)), n]))


def _is_loss(error: Exception) -> bool:
    import asyncio

    names = {"FutureCancelledError", "CommClosedError", "FuturesCancelledError"}
    cancelled = isinstance(error, asyncio.CancelledError | OSError)
    return cancelled or any(kind.__name__ in names for kind in type(error).__mro__)


class Group:
    """Objects kept by workers, in turn; those of a dead worker are made again elsewhere."""

    def __init__(self, cluster: Cluster, recipes: list[Recipe]) -> None:
        self.cluster, self.recipes = cluster, recipes
        self._checked = 0.0
        workers = cluster.wait_for_workers()
        self._workers = [workers[at % len(workers)] for at in range(len(recipes))]
        self._kept = [
            self._submit(_Kept, recipe, worker=worker) for recipe, worker in zip(recipes, self._workers, strict=True)
        ]

    def _submit(self, function: Callable[..., Any], *arguments: Any, worker: str) -> Any:
        with warnings.catch_warnings():
            # Dask advises to scatter large arrays; scattered arrays would die with a worker
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.cluster.client.submit(
                function, *arguments, pure=False, workers=[worker], allow_other_workers=True
            )

    def each(self, method: str, *arguments: Any, tell: Callable[[int], None] | None = None) -> list[Any]:
        """Call a method of every object, one task each."""
        self._rebalance()
        tasks = [
            self._submit(_call, kept, method, arguments, worker=worker)
            for kept, worker in zip(self._kept, self._workers, strict=True)
        ]
        return self.cluster.gather(tasks, tell)

    def close(self) -> None:
        """Release the objects."""
        self._kept.clear()

    def _rebalance(self) -> None:
        """Move the objects of dead workers to those that keep fewest, and rebalance onto new workers."""
        if time.monotonic() < self._checked + _LOOK:  # asking the scheduler takes longer than a short pass
            return
        present, self._checked = self.cluster.workers, time.monotonic()
        load = self._workers.count
        for at, worker in enumerate(self._workers if present else ()):
            least = min(present, key=lambda other: (load(other), other))
            if worker not in present or load(worker) > load(least) + 1:
                state = "busy" if worker in present else "gone"
                _log.info("worker %s is %s; %s has its blocks now", worker, state, least)
                self._workers[at] = least
                self._kept[at] = self._submit(_Kept, self.recipes[at], worker=least)


def _call(kept: _Kept, method: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(kept.value, method)(*arguments)


class ClusterPass:
    """A pass whose blocks are on workers; it is called like the local pass."""

    def __init__(self, group: Group, n: int) -> None:
        self.group, self.n = group, n

    def __call__(self, *parameters: Any) -> Any:
        """Run the pass with these parameters and return the sums over all blocks."""
        made: dict[blocks.Node, Any] = {}
        for part in self.group.each("parts", *parameters):
            made |= part
        return blocks.total(made, (0, self.n))


# ---- labels of items ----------------------------------------------------------------------------------------


class OnCluster(Passes):
    """Passes over labels on the workers of a cluster.

    Parameters
    ----------
    home
        The same labels in this process, for everything but passes over all labels.
    cluster
        The cluster.
    """

    def __init__(self, home: InMemory | OnDisk, cluster: Cluster) -> None:
        self.home, self.cluster = home, cluster
        self.n_items, self.n_labels, self.origin = home.n_items, home.n_labels, home.origin
        self.annotator_ids, self.class_ids = home.annotator_ids, home.class_ids
        self._spilled: WorkFolder | None = None
        store = self._store()
        share = home.part.share
        cuts = cluster.cut(share.n)
        #: Whether workers opened the store's memory maps; otherwise arrays were sent.
        self.mapped = store is not None
        if store is not None:
            place = {"folder": str(store.folder), "fingerprint": store.fingerprint, "n": share.n}
            recipes = [Recipe(_part_of_store, {**place, "cut": share.blocks[a:b], "first": a}) for a, b in cuts]
        else:
            recipes = [Recipe(Part, home.part.portion(a, b)) for a, b in cuts]
        self._group = Group(cluster, recipes)

    def _store(self) -> Store | None:
        """Return the labels as a store that all workers can open; None if they cannot."""
        if isinstance(self.home, OnDisk):
            store = self.home.store
        else:
            self._spilled = WorkFolder()
            store = write_store(self.home.annotations, self._spilled.path / "store")
        where: dict[str, Any] = {"pure": False, "allow_other_workers": True}  # a worker may die before it answers
        checks = [
            self.cluster.client.submit(_sees, str(store.folder), store.fingerprint, workers=[worker], **where)
            for worker in self.cluster.wait_for_workers()
        ]
        return store if all(self.cluster.gather(checks)) else None

    def close(self) -> None:
        """Release the workers' objects, and remove files written for them."""
        self._group.close()
        if self._spilled is not None:
            self._spilled.remove()

    @property
    def fingerprint(self) -> str:
        """Equal for equal labels."""
        return self.home.fingerprint

    @property
    def has_gold(self) -> bool:
        """Whether some truths are known."""
        return self.home.has_gold

    @property
    def place(self) -> str:
        """Where the labels are, in words."""
        how = "map the labels from disk" if self.mapped else "were sent the labels, because they cannot read the folder"
        return f"{len(self._group.recipes)} workers, which {how}"

    def _each(self, what: str, *arguments: Any, tell: Callable[[int], None] | None = None) -> Iterable[Any]:
        n = len(self._group.recipes)
        told = (lambda tasks: tell(tasks * -(-self.n_labels // n))) if tell else None
        return self._group.each(what, *arguments, tell=told)

    @property
    def known_items(self) -> Ints:
        """The labelled items of known truth, ascending."""
        return self.home.known_items

    def select(self, items: Ints) -> Annotations:
        """Return some items, in memory."""
        return self.home.select(items)

    def posterior(self, model: DawidSkene) -> Floats:
        """Return the posterior of every item (N, K) if labels are in memory here, otherwise an empty (0, K)."""
        return self.home.posterior(model)

    def vote_posterior(self) -> Floats:
        """Return the share of votes of each class on every item (N, K), likewise."""
        return self.home.vote_posterior()


def _sees(folder: str, fingerprint: str) -> bool:
    try:
        return Store(folder).fingerprint == fingerprint
    except ConsilienceError:
        return False


def _part_of_store(folder: str, fingerprint: str, cut: list[tuple[int, int]], first: int, n: int) -> Part:
    """Open a worker's blocks of a store."""
    store = Store(folder)
    if store.fingerprint != fingerprint:
        raise EngineError(f"the labels in {folder} have changed since the run began")
    low, high = cut[0][0], cut[-1][1]
    size = int(store.indptr[high] - store.indptr[low]) * (store.annotator.itemsize + store.label.itemsize)
    size += 8 * (high - low)
    threads, memory = _resources()
    return Part.of_store(store, blocks.Share(cut, first, n), keep=size < _KEPT * memory, threads=threads)


def _resources() -> tuple[int, float]:
    """Return the threads and the bytes of the worker that runs this."""
    from distributed import get_worker

    worker = get_worker()
    limit = getattr(worker.memory_manager, "memory_limit", None)
    return int(worker.state.nthreads), float(limit or np.inf)
