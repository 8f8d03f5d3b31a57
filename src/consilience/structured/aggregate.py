"""One call for all kinds of data: items by themselves, tokens in order, items on a graph."""

from __future__ import annotations

from typing import Any

from consilience.aggregation import aggregate as crowds
from consilience.aggregation.em import Callback
from consilience.consensus import Consensus
from consilience.exceptions import ParameterError
from consilience.sequences import SequenceAnnotations

__all__ = ["aggregate"]


def aggregate(
    data: Any,
    method: str = "auto",
    *,
    graph: Any = None,
    gold: Any = None,
    seed: int | None = 0,
    engine: str = "local",
    callback: Callback | None = None,
    **parameters: Any,
) -> Consensus:
    """Turn what annotators said into labels with probabilities.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, or the path of a file.
        For tokens in order, a :class:`consilience.SequenceAnnotations`.
    method
        A name from :data:`consilience.METHODS`; ``+em`` refines any of them.  For sequences "auto", or one of them with
        ``+hmm`` or ``+hmm+em``.  On a graph, what to start from.
    graph
        Which items are neighbours, if that is known: a frame or a file with ``source`` and ``target``, pairs of ids, a
        scipy sparse matrix, or what :func:`consilience.nearest_neighbours` gives.
    gold
        Known truths, held fixed; see :meth:`consilience.Annotations.with_gold`.
    seed
        Decides everything that is random.
    engine
        Where the passes over the data run; "local" is this process.
    callback
        Told of every pass over the data.
    **parameters
        Those of the method, such as ``smoothing``, ``max_iter`` and ``tol``.
    """
    if not isinstance(data, SequenceAnnotations) and graph is None:
        return crowds.aggregate(data, method, gold=gold, seed=seed, engine=engine, callback=callback, **parameters)
    if engine != "local":
        raise ParameterError(f"there is no engine {engine!r} for sequences and networks; this release has 'local'")
    rest: dict[str, Any] = {"gold": gold, "seed": seed, "callback": callback, **parameters}
    if not isinstance(data, SequenceAnnotations):
        from consilience.structured.network_consensus import aggregate_network

        return aggregate_network(data, graph, *(() if method == "auto" else (method,)), **rest)
    if graph is not None:
        raise ParameterError("tokens in order have their neighbours already: give sequences or a graph, not both")
    from consilience.structured.sequence_consensus import aggregate_sequences

    return aggregate_sequences(data, method, **rest)
