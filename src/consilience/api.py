"""One function for all kinds of data: independent items, tokens in order, items on a graph."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from consilience.data.sequences import SequenceAnnotations
from consilience.diagnose.runs import LATER
from consilience.engine.place import check_engine
from consilience.exceptions import ParameterError
from consilience.fitting.em import Callback
from consilience.methods.base.running import run_method
from consilience.runs.consensus import Consensus
from consilience.validation import check_seed

__all__ = ["aggregate"]


def aggregate(
    data: Any,
    method: str = "auto",
    *,
    graph: Any = None,
    gold: Any = None,
    seed: int | None = 0,
    engine: Any = "local",
    memory: int | str | None = None,
    scheduler: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    reading: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    **parameters: Any,
) -> Consensus:
    """Turn labels of several annotators into consensus labels with probabilities.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, the path of a file or of a
        folder of Parquet files, or a result of :func:`consilience.scan`.  For tokens in order, a
        :class:`consilience.SequenceAnnotations`.
    method
        A name from :data:`consilience.METHODS`; ``+em`` refines any of them.  For sequences "auto", or one of them with
        ``+hmm`` or ``+hmm+em``.  On a graph, the method to start from.
    graph
        Which items are neighbours, if that is known: a frame or a file with ``source`` and ``target``, pairs of ids, a
        scipy sparse matrix, or a result of :func:`consilience.nearest_neighbours`.
    gold
        Known truths, which are kept fixed; see :meth:`consilience.Annotations.with_gold`.
    seed
        Seed of all random numbers.
    engine
        Where the passes over the data run: "local" (this process), "stream" (this process, labels on disk), "dask", or
        a Dask client.  Scanned labels and folders of Parquet files are streamed also with "local".
    memory
        With labels on disk: how much memory this process may use, such as "2GiB"; by default half of the machine's.
    scheduler
        With "dask": address of the scheduler.  By default the current client, or else a local cluster.
    checkpoint
        Folder for intermediate results: a killed run continues from there, to the same result.
    reading
        With a path: options of :func:`consilience.read` or :func:`consilience.scan`, such as ``item``.
    callback
        Called after every pass over the data.
    **parameters
        Those of the method, such as ``smoothing``, ``max_iter`` and ``tol``.
    """
    check_seed(seed)
    rest: dict[str, Any] = {"gold": gold, "seed": seed, "callback": callback, **parameters}
    if isinstance(data, str | os.PathLike):
        from consilience.io.formats import holds_sequences

        if holds_sequences(data, (reading or {}).get("format")):
            from consilience.io.sequences import read_sequences

            data = read_sequences(data, **(reading or {}))
    if not isinstance(data, SequenceAnnotations) and graph is None:
        places: dict[str, Any] = {"engine": engine, "memory": memory, "scheduler": scheduler, "checkpoint": checkpoint}
        return run_method(data, method, reading=reading, later=LATER, **places, **rest)
    check_engine(engine)
    if engine == "stream" or (engine != "local" and graph is not None):
        kind = "networks run on the engine 'local' alone" if graph is not None else "sequences cannot be streamed"
        raise ParameterError(f"{kind}, not on {engine!r}")
    if not isinstance(data, SequenceAnnotations):
        from consilience.structured.network_consensus import aggregate_network

        return aggregate_network(data, graph, *(() if method == "auto" else (method,)), **rest)
    if graph is not None:
        raise ParameterError("tokens in order have their neighbours already: give sequences or a graph, not both")
    from consilience.structured.sequence_consensus import aggregate_sequences

    return aggregate_sequences(data, method, engine=engine, scheduler=scheduler, checkpoint=checkpoint, **rest)
