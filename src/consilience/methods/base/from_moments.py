"""Dawid-Skene from co-occurrences alone, without labels: for statistics that were counted or published elsewhere.

The methods from pairs of annotators use labels for three things beside their statistics: to start from the votes, to
choose among several fits by likelihood, and to order the classes.  Here starts are random, the best fit is the one with
the smallest objective, and classes are in the order in which most annotators are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from consilience.exceptions import MethodError
from consilience.factor.square_root import square_root
from consilience.factor.symnmf import rotate
from consilience.fitting.em import Parameters
from consilience.fitting.known import by_agreement, permuted
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.base.factor_model import model_of_factor
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences
from consilience.moments.graph import groups
from consilience.moments.imputation import block_matrix, designated, random_factors, robust
from consilience.validation import check_parameters, generator, one_of

__all__ = ["from_moments"]

Pairwise = Literal["rob-symnmf", "des-symnmf", "symnmf", "multispa", "cnmf"]


def from_moments(
    moments: CoOccurrences | Mapping[tuple[Any, Any], Any],
    method: Pairwise = "rob-symnmf",
    *,
    through: Sequence[Any] | None = None,
    rounds: int = 3,
    starts: int = 8,
    rotations: int = 20,
    reweigh: bool = True,
    count_weights: bool | None = None,
    xi: float | None = None,
    radius: float = 1.0,
    alpha: float = 1e-6,
    decay: float | None = None,
    shrinkage: float = 0.0,
    max_iter: int = 2000,
    tol: float = 1e-9,
    random_state: Any = 0,
) -> DawidSkene:
    """Return prior and confusions from co-occurrences of pairs of annotators, without their labels.

    Parameters
    ----------
    moments
        What :func:`consilience.moments.pair_moments` counts, or a mapping from pairs of annotators to blocks, see
        :meth:`consilience.moments.CoOccurrences.from_blocks`.
    method
        "rob-symnmf", "des-symnmf", "symnmf", "multispa" or "cnmf".
    through, rounds
        Of des-symnmf: names of the designated annotators, and rounds of (7)-(8).
    starts, rotations
        Random starts of the robust imputation, and starts of the rotation.
    reweigh, count_weights, xi, radius, alpha, decay, shrinkage
        As for :class:`consilience.RobustSymNMF`.  By default counts are weights unless all blocks sum to one.
    max_iter, tol
        Most iterations of the imputation or of the coupled factors, and the relative change that ends them.
    random_state
        Decides everything that is random.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(2000, 10, 3, experts=0.3, seed=1)
    >>> model = cs.from_moments(cs.moments.pair_moments(crowd.annotations))
    >>> cs.metrics.mean_squared_error(model, crowd.model) < 0.01
    True
    """
    one_of("method", method, ("rob-symnmf", "des-symnmf", "symnmf", "multispa", "cnmf"))
    check_parameters({"alpha": alpha, "decay": decay, "rounds": rounds, "starts": starts, "rotations": rotations})
    check_parameters({"xi": xi, "radius": radius, "shrinkage": shrinkage, "max_iter": max_iter, "tol": tol})
    pairs = moments if isinstance(moments, CoOccurrences) else CoOccurrences.from_blocks(moments)
    graph = groups(pairs)
    if len(graph) != 1 or not graph[0].determined:
        raise MethodError(
            "without labels, the blocks must link all annotators, at least three and not in two camps; these "
            f"{pairs.n_annotators} annotators fall into {len(graph)} groups that share no block. Give the blocks of "
            "one group, or fit the labels themselves"
        )
    counted = bool((pairs.totals > 1.0 + 1e-9).any())
    behind = _items_behind(pairs)
    if method in ("multispa", "cnmf"):
        found = _by_vertices(pairs, behind, counted, coupled=method == "cnmf", max_iter=max_iter, tol=tol)
    else:
        rng = generator(random_state)
        if method == "rob-symnmf":
            by_count = counted if count_weights is None else count_weights
            weights: dict[str, Any] = {"reweigh": reweigh, "count_weights": by_count, "xi": xi, "radius": radius}
            U = _best_factors(pairs, rng, starts, max_iter=max_iter, tol=tol, **weights)
        elif method == "des-symnmf":
            codes = None if through is None else pairs.annotators.codes_of(list(through)).tolist()
            U = square_root(designated(pairs, through=codes, rounds=rounds).matrix, pairs.n_classes)
        else:
            U = square_root(block_matrix(pairs).matrix, pairs.n_classes)
        H = rotate(U, alpha=alpha, decay=decay, starts=rotations, random_state=rng).H
        shape = pairs.n_annotators, pairs.n_classes, pairs.n_classes
        found = model_of_factor(H.reshape(shape), behind, shrinkage)
    order = by_agreement(behind[:, None, None] * found.confusions * found.prior)
    return DawidSkene(*permuted(found, order), pairs.classes, pairs.annotators)


def _best_factors(pairs: CoOccurrences, rng: np.random.Generator, starts: int, **options: Any) -> Floats:
    """Return the factors, stacked (M K, K), with the smallest objective of several random starts."""
    M, K = pairs.n_annotators, pairs.n_classes
    fits = [robust(pairs, random_factors(rng, M, K), **options) for _ in range(starts)]
    return min(fits, key=lambda fit: fit.history[-1]).factors.reshape(M * K, K)


def _by_vertices(
    pairs: CoOccurrences, behind: Ints, counted: bool, *, coupled: bool, max_iter: int, tol: float
) -> Parameters:
    """Return the model of successive projection, or of coupled factors started from it."""
    from consilience.methods.cnmf import Coupled, run_updates
    from consilience.methods.multispa import common_order, least_squares_prior, vertices

    confusions, _ = vertices(pairs, shrink=counted)
    order = common_order(pairs, confusions, groups(pairs), behind)
    confusions = np.maximum(np.take_along_axis(confusions, order[:, None, :], axis=2), 1e-6)
    confusions /= confusions.sum(axis=1, keepdims=True)
    K = pairs.n_classes
    found = Parameters((least_squares_prior(pairs, confusions) + 1e-6) / (1.0 + K * 1e-6), confusions)
    if not coupled:
        return found
    nothing = np.zeros_like(confusions), np.zeros(K)
    return run_updates(Coupled(pairs, *nothing, True), found, max_iter, tol, None).parameters


def _items_behind(pairs: CoOccurrences) -> Ints:
    """Return the common items of each annotator with all others, (M,); at least one."""
    shared = np.bincount(pairs.who.ravel(), np.repeat(pairs.totals, 2), pairs.n_annotators)
    return np.ceil(shared).astype(np.int64)
