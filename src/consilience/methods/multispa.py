"""MultiSPA: read every annotator's confusions off the blocks that they share with others.

Blocks of annotator m, side by side, are mixtures of the columns of A_m (Ibrahim et al. 2019, Section 3):

    Z_m = [R[m, j_1], …, R[m, j_T]] = A_m [D A_jᵀ …],      one column for each "j said b".

Scaled to sum to one, a column is what m says when j says b.  If for every class k somebody says some b for its items
only (a class specialist), the column of that b is A_m(:, k), and successive projection finds it: no iteration, no
start.  What remains is statistics:

* *Columns that rest on few labels.*  The most extreme column is often the one with the fewest.  Columns are taken as
  draws from Dirichlet(s_m μ_m), μ_m being how often m uses each label; s_m is found from their spread, and a column x
  of n labels becomes (x + s_m μ_m) / (n + s_m).
* *The order of the classes* is open for each annotator, and must come out the same for all.  With W_m(a, k) ∝ A_m(a, k)
  summing to one over k, ``C[m, j] = W_mᵀ (S R)[m, j] W_j``, less what independent answers would give, shows which class
  of m corresponds to which of j.  The orders together maximise Σ C[m, j](k of m, k of j) over all pairs and classes;
  then orders are changed where that brings A_m D A_jᵀ nearer to R[m, j].  Nobody needs to be right more often than not.
* *The prior* is the λ on the simplex with the smallest Σ S[m, j] ‖R[m, j] - A_m diag(λ) A_jᵀ‖².

====== ============================== ============
symbol name                           shape
====== ============================== ============
A_m    ``confusions[m]``              (M, K, K)
λ, D   ``prior``, its diagonal        (K,)
S, R   ``totals``, ``frequencies``    (P,), (P, K, K)
C      ``links``                      (P, K, K)
====== ============================== ============

S. Ibrahim, X. Fu, N. Kargas and K. Huang, "Crowdsourcing via pairwise co-occurrences: identifiability and algorithms",
NeurIPS 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.exceptions import FewLabelsWarning
from consilience.factor.spa import shrunk_counts, spa
from consilience.fitting.em import Parameters
from consilience.fitting.fit import Caution, Fit
from consilience.fitting.known import class_order, permuted, taught
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.methods.base.canonical import in_canonical_order
from consilience.methods.base.estimator import RefinableEstimator
from consilience.methods.base.method import Method
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences, pair_moments
from consilience.moments.graph import Group, groups
from consilience.published import AsPublished

__all__ = [
    "METHOD",
    "MultiSPA",
    "best_assignment",
    "common_order",
    "least_squares_prior",
    "links_of",
    "multispa",
    "pair_cautions",
    "vertex_model",
    "vertices",
]

#: Most rounds over all annotators in search of a better order; two or three are usual.
_ROUNDS = 100
#: Rounds of the least-squares correction of orders; most changes are in the first.
_CORRECTIONS = 4


class MultiSPA(AsPublished, RefinableEstimator):
    """Confusions read off the pair blocks by successive projection (Ibrahim et al. 2019): no iteration, no start.

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers (judged by the
        votes).
    shrink_columns
        Shrink what an annotator says when another says b towards their overall shares, where it rests on few labels;
        False takes the columns as they are.
    prior
        Learn the class prior by least squares, or take it to be uniform.
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every pass of the refinement; ends it by returning True.
    """

    _method = "multispa"

    shrinkage: float = 0.25
    shrink_columns: bool = True
    prior: Literal["learned", "uniform"] = "learned"


@in_canonical_order
def multispa(
    annotations: Annotations,
    *,
    shrinkage: float = 0.25,
    shrink_columns: bool = True,
    prior: Literal["learned", "uniform"] = "learned",
) -> Fit:
    """Fit by successive projection; :class:`MultiSPA` documents the parameters."""
    pairs = pair_moments(annotations)
    graph = groups(pairs)
    learn = prior == "learned"
    options: dict[str, Any] = {"shrinkage": shrinkage, "shrink_columns": shrink_columns, "learn_prior": learn}
    parameters = vertex_model(annotations, pairs, graph, **options)
    parameters = taught(annotations, permuted(parameters, class_order(annotations, parameters)))
    model = DawidSkene(*parameters, annotations.class_ids, annotations.annotator_ids)
    posterior, log_likelihood = model.posterior_and_likelihood(annotations)
    details = {"pairs_missing": pairs.missing}
    return Fit(model, posterior, log_likelihood, cautions=pair_cautions(graph), details=details)


METHOD = Method("multispa", multispa, "MultiSPA", "confusions read off the pair blocks by successive projection")


def vertex_model(
    annotations: Annotations,
    pairs: CoOccurrences,
    graph: Sequence[Group],
    *,
    shrinkage: float,
    shrink_columns: bool = True,
    learn_prior: bool,
) -> Parameters:
    """Return the prior and confusions found by successive projection, classes in one order for all annotators."""
    K = pairs.n_classes
    N = int(np.count_nonzero(annotations.labels_per_item))
    uniform = np.full(K, 1.0 / K)

    def fitted(A: Floats) -> Floats:
        if not learn_prior or not len(pairs):
            return uniform
        # one more item of every class: least squares on the simplex tends to its corners
        prior: Floats = (N * least_squares_prior(pairs, A) + 1.0) / (N + K)
        return prior

    confusions, behind = vertices(pairs, shrink=shrink_columns)
    order = common_order(pairs, confusions, graph, annotations.labels_per_annotator)
    for final in (False, True):
        confusions = np.take_along_axis(confusions, order[:, None, :], axis=2)
        behind = np.take_along_axis(behind, order, axis=1)
        prior = fitted(confusions)
        if not final:
            order = _corrected(pairs, confusions, prior)
    # a column rests on the labels of the column of Z_m that it was read off
    crowd = np.einsum("mk,mik->ik", behind, confusions) + 1e-3
    crowd /= crowd.sum(axis=0)
    more = K * shrinkage
    total = behind + more
    share = np.divide(behind, total, out=np.ones_like(total), where=total > 0)[:, None, :]
    confusions = np.maximum(share * confusions + (1.0 - share) * crowd, 1e-6)
    return Parameters(prior, confusions / confusions.sum(axis=1, keepdims=True))


def pair_cautions(graph: Sequence[Group]) -> tuple[Caution, ...]:
    """Return whose confusions the pairs do not determine, and how many groups share no item."""
    found = []
    alone = sum(group.members.size == 1 for group in graph)
    if alone:
        found.append(
            f"annotators who have no item in common with anyone: {alone}; they are taken to answer as others do"
        )
    undetermined = sum(g.members.size for g in graph if g.members.size > 1 and not g.determined)
    if undetermined:
        found.append(
            f"{undetermined} annotators share items in twos, or between two camps, only: their pairs do not determine "
            "their confusions"
        )
    apart = sum(group.members.size > 1 for group in graph)
    if apart > 1:
        found.append(
            f"{apart} groups of annotators share no item; their classes were matched by what each group calls them"
        )
    return tuple((sentence, FewLabelsWarning) for sentence in found)


# ---- the columns of each confusion matrix ---------------------------------------------------------------------


def vertices(pairs: CoOccurrences, *, shrink: bool = True) -> tuple[Floats, Floats]:
    """Return every annotator's confusions, each in its own order, and the labels behind each column, (M, K).

    Annotators who share no item have uniform columns with no labels behind them.
    """
    M, K = pairs.n_annotators, pairs.n_classes
    indptr, neighbour, pair = pairs.neighbours
    confusions, behind = np.full((M, K, K), 1.0 / K), np.zeros((M, K))
    for m in np.flatnonzero(np.diff(indptr)):
        mine = slice(indptr[m], indptr[m + 1])
        blocks = _seen_from(pairs.counts[pair[mine]], neighbour[mine] < m)
        columns = blocks.transpose(0, 2, 1).reshape(-1, K).astype(np.float64)
        columns = columns[columns.any(axis=1)]
        n = columns.sum(axis=1)
        usage = columns.sum(axis=0) / n.sum()
        # ties are broken by the order of columns: the one with more labels first, independent of names
        first = np.lexsort((*columns[:, np.argsort(usage, kind="stable")].T, -n))
        columns, n = columns[first], n[first]
        shrunk = shrunk_counts(columns.T) if shrink else columns.T / n
        found = spa(shrunk, K)
        # Who answers several classes alike has fewer columns to find; the rest are their overall shares.  These count
        # as much as what was found: who always gives one label must not seem to know that class.
        confusions[m], behind[m] = usage[:, None], n[found].mean()
        confusions[m, :, : found.size] = shrunk[:, found]
        behind[m, : found.size] = n[found]
    return confusions, behind


def _seen_from(blocks: Codes, second: Bools) -> Codes:
    """Transpose the blocks where the annotator is the ``second`` of the pair: their own labels become the rows."""
    return np.where(second[:, None, None], blocks.transpose(0, 2, 1), blocks)


# ---- one order for all --------------------------------------------------------------------------------------


def common_order(pairs: CoOccurrences, confusions: Floats, graph: Sequence[Group], n_labels: Ints) -> Ints:
    """Return the order of each annotator's columns in which they mean the same classes for all, (M, K).

    Each group of annotators keeps the better of two starts: everybody's own labels (good where most are right), and
    growth from the best-known annotator, each next one fitted to those already there (good where many are wrong).
    """
    M, K = pairs.n_annotators, pairs.n_classes
    own = np.array([best_assignment(A) for A in confusions]).reshape(M, K)
    if not len(pairs):
        return own
    links = links_of(pairs, confusions)
    sequence, grown = _grow(pairs, links)
    tried = [_improve(pairs, links, sequence, start) for start in (own, grown)]
    first, second = pairs.who.T
    at = np.arange(len(pairs))[:, None]
    agreement = np.stack([links[at, o[first], o[second]].sum(axis=1) for o in tried])
    group_of = np.empty(M, np.int64)
    for g, group in enumerate(graph):
        group_of[group.members] = g
    by_group = np.stack([np.bincount(group_of[first], a, len(graph)) for a in agreement])
    # own labels are kept unless growth is better by more than a pair or two: where K is large, quite different orders
    # come that near
    grows_better = by_group[1] - by_group[0] > 1.0 + 0.001 * np.abs(by_group[0])
    best = np.where(grows_better[group_of][:, None], tried[1], tried[0])
    for group in graph:
        # classes of the group are named by what its members call them
        who = group.members
        named = np.take_along_axis(confusions[who], best[who][:, None, :], axis=2)
        best[who] = best[who][:, best_assignment(np.tensordot(n_labels[who], named, axes=1))]
    return best


def links_of(pairs: CoOccurrences, confusions: Floats) -> Floats:
    """Return C, (P, K, K): how often each class of a pair's first and second annotator go together, beyond chance."""
    said = confusions.sum(axis=2, keepdims=True)
    opinion = confusions / np.where(said > 0, said, 1.0)  # a label that was never used has no blocks
    first, second = pairs.who.T
    C: Floats = opinion[first].transpose(0, 2, 1) @ pairs.counts @ opinion[second]
    C -= C.sum(axis=2, keepdims=True) * C.sum(axis=1, keepdims=True) / pairs.totals[:, None, None]
    return C


def best_assignment(score: Floats) -> Ints:
    """Return the column for every row, each once, with the largest sum."""
    from scipy.optimize import linear_sum_assignment

    order: Ints = linear_sum_assignment(score, maximize=True)[1]
    return order


def _add_wishes(pairs: CoOccurrences, links: Floats, m: int, order: Ints, wanted: Floats, sign: float = 1.0) -> None:
    """Add to ``wanted[j, k, c]``, for all j who share items with m, how well their column c fits class k of m."""
    indptr, neighbour, pair = pairs.neighbours
    mine = slice(indptr[m], indptr[m + 1])
    others = neighbour[mine]
    wanted[others] += sign * _seen_from(links[pair[mine]], others > m)[:, :, order].transpose(0, 2, 1)


def _grow(pairs: CoOccurrences, links: Floats) -> tuple[Ints, Ints]:
    """Add annotators one by one, next the one with the strongest links to those added, in the order that fits.

    Returns the sequence, (M,), and the orders, (M, K).
    """
    M, K = pairs.n_annotators, pairs.n_classes
    indptr, neighbour, pair = pairs.neighbours
    strength = np.sqrt(np.einsum("pab,pab->p", links, links))
    left = np.bincount(pairs.who.ravel(), np.repeat(strength, 2), M)
    order, wanted = np.tile(np.arange(K), (M, 1)), np.zeros((M, K, K))
    pull, sequence = np.zeros(M), np.empty(M, np.int64)
    for i in range(M):
        m = int(pull.argmax())
        if pull[m] > 0:
            order[m] = best_assignment(wanted[m])
        else:  # nobody left has links to those added: another group begins
            m = int(left.argmax())
        sequence[i], pull[m], left[m] = m, -np.inf, -np.inf
        mine = slice(indptr[m], indptr[m + 1])
        pull[neighbour[mine]] += strength[pair[mine]]
        _add_wishes(pairs, links, m, order[m], wanted)
    return sequence, order


def _improve(pairs: CoOccurrences, links: Floats, sequence: Ints, start: Ints) -> Ints:
    """Set each annotator in turn to the order that fits the others best, until nothing changes."""
    M, K = start.shape
    order, wanted = start.copy(), np.zeros((M, K, K))
    indptr, neighbour, _ = pairs.neighbours
    for m in range(M):
        _add_wishes(pairs, links, m, order[m], wanted)
    classes = np.arange(K)
    stale = np.diff(indptr) > 0  # somebody who shares items with them has changed
    for _ in range(_ROUNDS):
        if not stale.any():
            break
        for m in sequence[stale[sequence]].tolist():
            stale[m] = False
            better = best_assignment(wanted[m])
            gain = wanted[m, classes, better].sum() - wanted[m, classes, order[m]].sum()
            if gain > 1e-9 * np.abs(wanted[m]).sum():
                _add_wishes(pairs, links, m, order[m], wanted, -1.0)
                _add_wishes(pairs, links, m, better, wanted)
                order[m] = better
                stale[neighbour[indptr[m] : indptr[m + 1]]] = True
    return order


def _corrected(pairs: CoOccurrences, confusions: Floats, prior: Floats) -> Ints:
    """Return the changes of order, (M, K), that bring the blocks A_m D A_jᵀ nearer to those observed, in least squares.

    Agreement beyond chance need not separate similar classes of an annotator; the blocks themselves do.
    Given the others, those of m have the least-squares solution A_m D ≈ X Y⁻¹ with X = Σ S R A_j and Y = Σ S A_jᵀ A_j
    over j.  Columns are matched to it, and the match is kept if it lowers

        Σ S ‖R - A_m D A_jᵀ‖² = const - 2 tr(Xᵀ A_m D) + tr(D A_mᵀ A_m D Y).
    """
    M, K = pairs.n_annotators, pairs.n_classes
    indptr, neighbour, pair = pairs.neighbours
    A, order = confusions.copy(), np.tile(np.arange(K), (M, 1))
    gram = A.transpose(0, 2, 1) @ A
    X, Y = np.zeros((M, K, K)), np.zeros((M, K, K))

    def add(m: int, columns: Floats, products: Floats) -> None:
        mine = slice(indptr[m], indptr[m + 1])
        others = neighbour[mine]
        X[others] += _seen_from(pairs.counts[pair[mine]], others > m) @ columns
        Y[others] += pairs.totals[pair[mine], None, None] * products

    def misfit(m: int, AD: Floats) -> float:
        return float(np.vdot(AD @ Y[m] - 2.0 * X[m], AD))

    for m in range(M):
        add(m, A[m], gram[m])
    ridge = 1e-9 * np.eye(K)
    shared = np.bincount(pairs.who.ravel(), np.repeat(pairs.totals, 2), M)
    sequence = np.argsort(-shared, kind="stable")  # independent of their numbers
    stale = np.diff(indptr) > 0
    for _ in range(_CORRECTIONS):
        for m in sequence[stale[sequence]].tolist():
            stale[m] = False
            AD = np.linalg.solve(Y[m] + shared[m] * ridge, X[m].T).T
            # ‖X Y⁻¹(:, k) - λ_k A_m(:, c)‖² for class k and column c
            distance = ((AD.T[:, None, :] - prior[:, None, None] * A[m].T) ** 2).sum(axis=2)
            better = best_assignment(-distance)
            moved = A[m][:, better]
            now = misfit(m, A[m] * prior)
            if misfit(m, moved * prior) < now - 1e-9 * abs(now):
                add(m, moved - A[m], moved.T @ moved - gram[m])
                order[m] = order[m][better]
                A[m], gram[m] = moved, moved.T @ moved
                stale[neighbour[indptr[m] : indptr[m + 1]]] = True
    return order


# ---- the prior ----------------------------------------------------------------------------------------------


def least_squares_prior(pairs: CoOccurrences, confusions: Floats) -> Floats:
    """Return the λ on the simplex with the smallest f(λ) = Σ S ‖R - A_m diag(λ) A_jᵀ‖² / Σ S.

    On the simplex f(λ) = λᵀ G λ with G = Q - b 1ᵀ - 1 bᵀ + c.  Nonnegative least squares of G^(1/2) x ≈ 0, 1ᵀ x ≈ 1 has
    the same direction: along x = t λ its objective t² f + (t - 1)² has the minimum f / (1 + f), which rises with f.
    """
    from scipy.optimize import nnls

    first, second = pairs.who.T
    S, R = pairs.totals, pairs.frequencies
    gram = confusions.transpose(0, 2, 1) @ confusions
    Q = np.einsum("p,pkl,pkl->kl", S, gram[first], gram[second])
    b = np.einsum("p,pak,pak->k", S, confusions[first], R @ confusions[second])
    c = float(S @ np.einsum("pab,pab->p", R, R))
    values, vectors = np.linalg.eigh((Q - b[:, None] - b + c) / S.sum())
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    x: Floats = nnls(np.vstack([root, np.ones(b.size)]), np.append(np.zeros(b.size), 1.0))[0]
    prior: Floats = x / x.sum()
    return prior
