"""Crowds with a known truth whose items are on a graph: neighbours tend to be of one class.

Every item draws partners.  With probability ``agreement`` a partner is one of the same class, else any item: the share
of edges within a class is a + (1 - a) Σ π².  If the degree is small, the graph is nearly a tree, and the truth is a
draw from the stationary Potts field of :mod:`consilience.structured.potts` with a / (1 - a) = (e^δ - 1) / K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.datasets.simulation import simulate
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Ints
from consilience.models.dawid_skene import DawidSkene

__all__ = ["NetworkSimulation", "simulate_network"]


@dataclass(frozen=True, eq=False, slots=True)
class NetworkSimulation:
    """A simulated crowd, its graph, and the model of its annotators."""

    annotations: Annotations
    edges: Ints  #: the two items of every edge, (E, 2)
    truth: Ints  #: class code of every item, (N,)
    model: DawidSkene


def simulate_network(
    n_items: int = 1000,
    n_annotators: int = 10,
    n_classes: int = 3,
    *,
    degree: float = 4.0,
    agreement: float = 0.7,
    seed: int = 0,
    **crowd: Any,
) -> NetworkSimulation:
    """Draw a crowd and a graph of its items.

    Parameters
    ----------
    n_items, n_annotators, n_classes
        N, M and K.
    degree
        Neighbours of an item, on average.
    agreement
        Probability that a partner is chosen within the class, from 0 (the graph is uninformative) to 1.
    seed
        Seed of all random numbers.
    **crowd
        Parameters of :func:`consilience.simulate`: ``labels_per_item``, ``prior``, ``accuracy``, ….

    Examples
    --------
    >>> network = simulate_network(200, 10, 3, degree=4, seed=1)
    >>> network.edges.shape
    (400, 2)
    """
    if not 0 <= agreement <= 1:
        raise ParameterError(f"agreement must lie between 0 and 1, not {agreement!r}")
    if not degree > 0:
        raise ParameterError(f"degree must be a number > 0, not {degree!r}")
    drawn = simulate(n_items, n_annotators, n_classes, seed=seed, **crowd)
    rng = np.random.default_rng([seed, 1])
    source = rng.integers(0, n_items, round(n_items * degree / 2))
    by_class = np.argsort(drawn.truth, kind="stable")
    size = np.bincount(drawn.truth, minlength=n_classes)
    first = np.cumsum(size) - size
    k = drawn.truth[source]
    alike = by_class[first[k] + (rng.random(source.size) * size[k]).astype(np.int64)]
    target = np.where(rng.random(source.size) < agreement, alike, rng.integers(0, n_items, source.size))
    return NetworkSimulation(drawn.annotations, np.column_stack([source, target]), drawn.truth, drawn.model)
