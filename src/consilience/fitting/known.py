"""Known answers in the start of a fit: counted on items with gold, and shrunk towards what the labels alone suggest.

Labels alone give confusions B_m, by vote shares taken for the truth or by moments.  Items with gold give G_m(i, k), how
often m said i about an item of class k.  B_m is a prior of the confusions that G_m updates,

    G_m(:, k) ~ DirichletMultinomial(s B_m(:, k)),        A_m(:, k) = (G_m(:, k) + s B_m(:, k)) / (Σ_i G_m(i, k) + s),

with the one s that makes all G_m most probable: ∞ where gold agrees with B, a few labels where it contradicts.

If most annotators are consistently wrong, the classes of B are in another order.  D(c, k) is how many gold items of
class k the model without gold takes for c, in expectation.  The order with the largest Σ_k D(order(k), k) is taken if
it is more probable than the present one, a model being right about four items in five:

    log(4 (K - 1)) · (Σ_k D(order(k), k) - Σ_k D(k, k))  >  log(10 K!),

as nine times in ten the present order is right, and there are K! others.  An item counts in D by the margin of its
votes: people look up doubtful items, on which the labels are wrong half the time although their order is right.

====== ============================== ============
symbol name                           shape
====== ============================== ============
G      ``known.counts``               (M, K, K)
B      ``confusions``                 (M, K, K)
D      ``taken``                      (K, K)
s      ``strength``                   number, ∞
====== ============================== ============
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.engine.passes import Labels, Passes, passes_of
from consilience.fitting.m_steps import ConfusionStep, Parameters
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_shares
from consilience.models.dawid_skene import DawidSkene

__all__ = [
    "by_agreement",
    "by_gold",
    "class_order",
    "permuted",
    "pooled",
    "start_counts",
    "start_posterior",
    "strength_beside",
    "taught",
]

#: Values of s that are tried besides ∞.
#: origin: simulated crowds, misled and sound; alternatives: ½ or 2 as the least; sensitivity: with ½, ten known answers
#: cost multispa a point on sound crowds; none on misled ones from ten answers on.
_STRENGTHS = 2.0 ** np.arange(2, 13)
#: Share of items that a model is right about, and of data sets whose labels alone give the right order of classes.
#: origin: by design; alternatives: log-odds of the order 0 to 4.6 (here 2.3); sensitivity: with less, a few answers
#: fewer turn a simulated crowd over of which seven in ten are wrong, and wrongly one that is nearly random.
#: That items are counted, and not the probability of all their labels, was decided with adult2 and reuters_amt in view,
#: and that they count by their margin with trec: 50 to 200 truths of its most doubtful items turned its classes over.
_RIGHT, _IN_ORDER = 0.8, 0.9
#: Labels per cell, spread as the crowd answers, that vote counts are smoothed by before they are compared to gold.
_SMOOTHING = 0.25


def by_gold(passes: Passes, parameters: Parameters) -> Ints:
    """Return the order of the classes of a model found without gold in which it agrees with gold."""
    from scipy.optimize import linear_sum_assignment
    from scipy.special import gammaln

    K = passes.n_classes
    same = np.arange(K)
    if K == 1 or not passes.has_gold:
        return same
    taken = passes.gold_taken_for(*parameters)
    # a class without gold keeps its place if that is free
    order: Ints = linear_sum_assignment(-taken.T - 1e-6 * np.eye(K))[1]
    gain = taken[order, same].sum() - taken[same, same].sum()
    price = gammaln(K + 1.0) - np.log(1.0 - _IN_ORDER)
    return order if gain * np.log(_RIGHT / (1.0 - _RIGHT) * (K - 1)) > price else same


def strength_beside(known: Statistics, confusions: Floats) -> float:
    """Return s, the labels that every column of ``confusions`` counts for beside the counts of gold items."""
    from scipy.special import gammaln

    asked, of_class = np.nonzero(known.counts.any(axis=1))  # columns (m, k) with gold labels
    G, B = known.counts[asked, :, of_class], np.maximum(confusions[asked, :, of_class], 1e-9)
    n, b = G.sum(axis=1), B.sum(axis=1)
    best, log_probability = np.inf, float((G * np.log(B)).sum())
    for s in _STRENGTHS[::-1]:
        found = (gammaln(s * B + G) - gammaln(s * B)).sum() + (gammaln(s * b) - gammaln(s * b + n)).sum()
        if found > log_probability:
            best, log_probability = float(s), float(found)
    return best


def start_counts(data: Labels) -> Statistics:
    """Return the M-step sums that a fit starts from: vote shares taken for the truth, corrected by gold.

    Without gold that contradicts them these are the votes, gold items at their gold.
    """
    passes = passes_of(data)
    votes = passes.votes
    if not passes.has_gold:
        return votes
    known = passes.gold_counts
    counts, items = votes.counts - known.counts, votes.class_counts - known.class_counts
    n = counts.sum(axis=1, keepdims=True)
    more = _SMOOTHING * passes.n_classes
    blind = (counts + more * pooled(counts)) / (n + more)
    order = by_gold(passes, Parameters((items + 1.0) / (items + 1.0).sum(), blind))
    strength = strength_beside(known, blind[:, :, order])
    counts, n = counts[:, :, order], n[:, :, order]
    # the votes of a column count as s labels at most; its sum stays that of all its labels
    made = known.counts + np.minimum(1.0, strength / np.maximum(n, 1e-300)) * counts
    total, whole = made.sum(axis=1, keepdims=True), known.counts.sum(axis=1, keepdims=True) + n
    made *= np.divide(whole, total, out=np.zeros_like(total), where=total > 0)
    return Statistics(made, known.class_counts + items[order], float("nan"))


def start_posterior(annotations: Annotations) -> Floats:
    """Return vote shares, (N, K); if gold contradicts the votes, the posterior under the corrected start."""
    a = annotations
    shares = vote_shares(a.indptr, a.label, a.gold, a.n_classes)
    if a.gold is None:
        return shares
    passes = passes_of(a)
    start = start_counts(passes)
    if np.allclose(start.counts, passes.votes.counts):
        return shares
    return DawidSkene(*ConfusionStep(_SMOOTHING)(start), a.class_ids, a.annotator_ids).posterior(a)


def taught(data: Labels, parameters: Parameters) -> Parameters:
    """Return parameters that were found without gold in the order of classes that gold shows, updated by its counts."""
    passes = passes_of(data)
    if not passes.has_gold:
        return parameters
    known = passes.gold_counts
    prior, confusions = permuted(parameters, by_gold(passes, parameters))
    strength = strength_beside(known, confusions)
    if np.isfinite(strength):
        confusions = (known.counts + strength * confusions) / (known.counts.sum(axis=1, keepdims=True) + strength)
    return Parameters(prior, confusions)


def class_order(data: Labels, parameters: Parameters) -> Ints:
    """Return the order of the classes of a model found without gold: by agreement with the labels, then by gold."""
    passes = passes_of(data)
    order = by_agreement(passes.sweep(*parameters, gold=False).counts)
    return order[by_gold(passes, permuted(parameters, order))]


def permuted(parameters: Parameters, order: Ints) -> Parameters:
    """Return the same model with its classes in another order."""
    return Parameters(parameters.prior[order], np.ascontiguousarray(parameters.confusions[:, :, order]))


def by_agreement(counts: Floats) -> Ints:
    """Return the order of the truth classes in which most labels agree with the truth, over all annotators.

    The Hungarian method on the expected number of labels i given to items of class k, ``counts`` (M, K, K).  A blind
    fit leaves the classes in any order, the same for all annotators.
    """
    from scipy.optimize import linear_sum_assignment

    agreement = counts.sum(axis=0)
    same = np.arange(agreement.shape[0])
    order: Ints = linear_sum_assignment(-agreement)[1]
    # keep the present order unless another is better by more than a label or two
    gain = agreement[same, order].sum() - agreement[same, same].sum()
    return order if gain > 1.0 + 0.001 * agreement.sum() else same


def pooled(counts: Floats) -> Floats:
    """Return the confusion of the whole crowd, (K, K), with half a label added to every cell."""
    pooled: Floats = counts.sum(axis=0) + 0.5
    pooled /= pooled.sum(axis=0)
    return pooled
