"""CRIA-V: complete everybody's labels at low rank, then let everybody vote on everything.

Annotators see few items.  Completion at low rank predicts what each would have answered elsewhere, and corrects their
answers by those of annotators who agree with them; the consensus is the vote of the completed labels,

    score[n, k] = mean over m of X[n, m, k],

where annotators who guess, or gave few labels, have small entries.

S.-Y. Li and Y. Jiang, "Multi-label crowdsourcing learning with incomplete annotations", PRICAI 2018.

This is a reconstruction from the abstract of the authors' companion paper ("Multi-label crowdsourcing learning",
Journal of Software 31, 2020): the tensor of instances, labels and annotators is completed at low rank and then
aggregated by one of three rules, of which V is taken to be voting.  Here exactly one of K labels is true.  The solver
is
:mod:`consilience.factor.completion`: the unfolding along items, rank K, started from vote shares.

Annotators vote on the items of their own part of the crowd: factors of parts that share no item are not comparable.
The votes of a part are A (Σ_m B_m)ᵀ, so nothing of size N M is made.
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.factor.completion import Completed
from consilience.fitting.em import Callback
from consilience.fitting.fit import Fit
from consilience.fitting.known import start_posterior
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.base.method import Method
from consilience.methods.pg_tac import TensorAugmentation, completed_labels, fit_of_scores

__all__ = ["METHOD", "CompletedVote", "cria_v", "mean_vote", "parts_of"]


class CompletedVote(TensorAugmentation):
    """CRIA-V: labels completed at low rank, then everybody votes on everything (Li & Jiang 2018).

    The parameters are those of :class:`TensorAugmentation`.
    """

    _method = "cria-v"


def cria_v(
    annotations: Annotations,
    *,
    penalty: float = 0.05,
    max_iter: int = 100,
    tol: float = 1e-3,
    callback: Callback | None = None,
) -> Fit:
    """Fit by completing the labels and voting; see :class:`CompletedVote`."""
    found = completed_labels(annotations, start_posterior(annotations), penalty, max_iter, tol, callback)
    return fit_of_scores(annotations, mean_vote(annotations, found), found, max_iter, tol)


METHOD = Method("cria-v", cria_v, "CompletedVote", "labels completed at low rank, then everybody votes")


def mean_vote(annotations: Annotations, found: Completed) -> Floats:
    """Return the mean of the completed labels over the annotators of each item's part of the crowd, (N, K)."""
    of_item, of_annotator = parts_of(annotations)
    n_parts = int(max(of_item.max(initial=0), of_annotator.max(initial=0))) + 1
    members = np.bincount(of_annotator, minlength=n_parts)
    N, K = annotations.n_items, annotations.n_classes
    scores = np.zeros((N, K))
    for k in range(K):
        for r in range(found.items.shape[1]):
            total = np.bincount(of_annotator, found.annotators[:, k, r], n_parts) / np.maximum(members, 1)
            scores[:, k] += found.items[:, r] * total[of_item]
    return scores


def parts_of(annotations: Annotations) -> tuple[Ints, Ints]:
    """Return the connected component of each item and of each annotator."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    a = annotations
    N, M = a.n_items, a.n_annotators
    ends = a.item_of_label(), N + a.annotator.astype(np.int64)
    edges = coo_array((np.ones(a.n_labels, np.int8), ends), shape=(N + M, N + M))
    part = connected_components(edges, directed=False)[1].astype(np.int64)
    return part[:N], part[N:]
