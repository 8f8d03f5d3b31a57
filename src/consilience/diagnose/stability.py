"""Standard errors of a fitted model by a bootstrap over items.

Items are drawn with replacement, and the model is fitted to them again by EM, starting from the fitted model.  The
standard deviation over the draws is the standard error of every confusion.

With many labels, each draw has only n of the N items.  Its fit then deviates √(N/n) times as far, so deviations are
scaled back (the m-out-of-n bootstrap):

    θ* = θ + √(n/N) (θ_draw - θ),

which stays a model: a mixture of two of them.

This shows how sharp the maximum is that was found, not whether there is another.

====== =================== =============
symbol name                shape
====== =================== =============
B      ``draws``
..     ``confusions``      (M, K, K)
====== =================== =============
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.data.annotations import Annotations
from consilience.diagnose.constants import DRAW_LABELS, DRAW_LABELS_PER_CLASS, DRAW_PASSES, DRAW_TOLERANCE
from consilience.engine.passes import passes_of
from consilience.exceptions import ParameterError
from consilience.fitting.em import ConfusionStep, Parameters, run_em
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene

__all__ = ["Stability", "bootstrap"]

#: Items whose sort keys are computed at a time.
_ITEMS = 1 << 16


@dataclass(frozen=True, eq=False)
class Stability:
    """Standard errors under a bootstrap over items."""

    confusions: Floats  #: standard error of every confusion, (M, K, K)
    prior: Floats  #: standard error of the class prior, (K,)
    annotators: Floats  #: mean over an annotator's cells, weighted by the frequency of classes in their items, (M,)
    classes: Floats  #: standard error of the crowd's mean column of each class: √Σ_i se², (K,)
    changed: float  #: share of the items whose label changes, mean over the draws
    draws: int  #: B
    items: int  #: items in each draw


def bootstrap(annotations: Annotations, model: DawidSkene, *, draws: int = 20, seed: int = 0) -> Stability:
    """Fit the model again to items drawn with replacement, and measure how much it changes.

    Parameters
    ----------
    annotations
        The labels; gold stays with its items.
    model
        The fitted model, in the codes of the annotations.
    draws
        Number of draws; with 0, all errors are 0.
    seed
        Seed of the draws, which do not depend on names or the order of rows.
    """
    if draws < 0 or draws == 1:
        raise ParameterError(f"bootstrap must be 0, or at least 2 draws, not {draws}")
    if draws == 0:
        M, K = model.confusions.shape[:2]
        return Stability(np.zeros((M, K, K)), np.zeros(K), np.zeros(M), np.zeros(K), changed=0.0, draws=0, items=0)
    labelled = np.flatnonzero(annotations.labels_per_item > 0)
    base = _fit(annotations, model)
    counts = passes_of(annotations).sweep(base.prior, base.confusions).counts
    met = counts.sum(axis=1)
    order = labelled[np.argsort(_content(annotations, labelled, counts), kind="stable")]
    N = order.size
    room = max(DRAW_LABELS, DRAW_LABELS_PER_CLASS * annotations.n_annotators * annotations.n_classes)
    n = max(1, min(N, int(N * room / annotations.n_labels)))
    scale = np.sqrt(n / N)
    rng = np.random.default_rng(seed)
    judged = annotations.select_items(order if n == N else np.sort(order[rng.choice(N, n, replace=False)]))
    labels = base.posterior(judged).argmax(axis=1)

    # Ā(i, k) = Σ_m w_mk A_m(i, k), where w_mk is m's share of the labels of class k
    shares = met / np.maximum(met.sum(axis=0), 1e-300)
    sums = [np.zeros((2, *shape)) for shape in (base.confusions.shape, base.prior.shape, base.confusions.shape[1:])]
    changed = 0.0
    for _ in range(draws):
        drawn = annotations.select_items(order[rng.integers(0, N, n)])
        fitted = _fit(drawn, base).align(base)
        prior, confusions = scale * (fitted.prior - base.prior), scale * (fitted.confusions - base.confusions)
        again = DawidSkene(base.prior + prior, base.confusions + confusions, base.classes, base.annotators)
        for total, part in zip(sums, (confusions, prior, np.einsum("mk,mik->ik", shares, confusions)), strict=True):
            total += part, part**2
        changed += float(np.mean(again.posterior(judged).argmax(axis=1) != labels))
    confusions, prior, columns = (
        np.sqrt(np.maximum(squares - total * total / draws, 0.0) / (draws - 1)) for total, squares in sums
    )
    weights = met / np.maximum(met.sum(axis=1, keepdims=True), 1e-300)
    return Stability(
        confusions=confusions,
        prior=prior,
        annotators=np.einsum("mk,mk->m", weights, confusions.mean(axis=1)),
        classes=np.sqrt((columns**2).sum(axis=0)),
        changed=changed / draws,
        draws=draws,
        items=n,
    )


def _fit(annotations: Annotations, start: DawidSkene) -> DawidSkene:
    begin = Parameters(start.prior, start.confusions)
    found = run_em(annotations, begin, ConfusionStep(), max_iter=DRAW_PASSES, tol=DRAW_TOLERANCE)
    return DawidSkene(*found.parameters, annotations.class_ids, annotations.annotator_ids)


def _content(annotations: Annotations, labelled: Ints, counts: Floats) -> Floats:
    """Return a sort key for each of these items that depends on its labels alone, not on names or the order of rows."""
    a = annotations
    # Σ over the item's labels (m, i) of √Σ_k counts[m, i, k]²: the same whatever anything is called
    value = np.sqrt((counts * counts).sum(axis=2))
    content = np.empty(labelled.size)
    for first in range(0, labelled.size, _ITEMS):
        some = labelled[first : first + _ITEMS]
        begin, end = a.indptr[some[0]], a.indptr[some[-1] + 1]
        of_label = value[a.annotator[begin:end], a.label[begin:end]]
        content[first : first + _ITEMS] = np.add.reduceat(of_label, a.indptr[some] - begin)
    return content
