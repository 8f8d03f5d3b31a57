"""Known answers: how far to trust votes, model and every annotator, and how common the classes are.

With f_v and f_q the logarithms of the two factors of :mod:`consilience.auto.pool`, the probabilities are those of a
logistic regression,

    p_n(k)  ∝  exp(c_v f_v(n, k) + c_q f_q(n, k) + Σ over labels k of item n of w_m + b_k),

fitted to the known answers under a normal prior around c = (1, 1), w = 0 and b = 0: a handful of answers changes
little.  c is not negative.  The weights w correct what votes and model make of single annotators: all of them are
fitted together, so that annotators who err together do not count twice.  Their prior is weaker if known answers that
are left out are then clearly more probable.  The offsets b correct what the labels say of
a class too often or too rarely.  No known answer predicts itself: the model of a fifth of them is fitted without that
fifth, and so is the regression, where its errors are reported.

====== ================================ =============
symbol name                             shape
====== ================================ =============
f      ``features``                     (F, known, K)
c      ``shares``                       (F,)
b      ``offsets``                      (K,)
w      ``weights``                      (M,)
====== ================================ =============
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from consilience.auto import constants
from consilience.auto.pool import Pool, features, label_sums, normalised, votes_of
from consilience.data.annotations import Annotations
from consilience.diagnose.left_out import known_items, parts_of_known
from consilience.kernels._arrays import Codes, Floats, Ints

__all__ = ["Lessons", "Regression", "learn_from_known", "learned_from", "regression"]


class Lessons(NamedTuple):
    """What the known answers are compared with."""

    some: Annotations  #: the items with a known answer and a label
    posterior: Floats  #: of the model, without an item's own answer, (known, K)
    parts: Sequence[Ints]  #: the known items divided


class Regression(NamedTuple):
    """Coefficients of the logistic regression."""

    shares: Floats  #: of the features, (F,)
    offsets: Floats  #: of the classes, (K,)
    weights: Floats | None = None  #: of the annotators, (M,)

    def probabilities(self, features: Floats, said: Annotations, doubt: float) -> Floats:
        """Return the probabilities of items with these features and labels, (N, K)."""
        logarithms = np.tensordot(self.shares, features, 1) + self.offsets
        if self.weights is not None:
            logarithms += label_sums(said, self.weights[said.annotator])
        return normalised(logarithms, doubt)


def learn_from_known(
    annotations: Annotations, pool: Pool, refit: Callable[[Annotations], Pool]
) -> tuple[Pool, Floats, Floats]:
    """Return the pool that the known answers make most probable, what it says of them, and what the labels alone say.

    The latter two, (known, K), leave out every item's own answer, and all known answers.  ``refit`` returns the pool of
    labels with some of the known answers or none.
    """
    items = known_items(annotations)
    some = annotations.select_items(items)
    assert some.gold is not None
    blind, posterior = some.with_gold(None), np.empty((items.size, annotations.n_classes))
    parts = parts_of_known(annotations, items)
    for part in parts:
        posterior[part] = refit(annotations.forgetting(items[part])).model(blind.select_items(part))
    learned, judged = learned_from(Lessons(some, posterior, parts), pool)
    alone, _ = refit(annotations.forgetting(items))(blind)
    return learned, judged, alone


def learned_from(lessons: Lessons, pool: Pool) -> tuple[Pool, Floats]:
    """Return the pool with what the known answers teach, and what it says of each without it, (known, K)."""
    some, posterior, parts = lessons
    assert some.gold is not None
    blind, truth = some.with_gold(None), some.gold
    votes, n_labels = votes_of(blind, pool.counted)
    both = np.stack(features(votes, posterior, n_labels, pool.exponents, pool.dependent))
    # known answers show how far the labels can be trusted: no more doubt than where nothing is wrong with them
    doubt = min(pool.doubt, constants.DOUBT["assigned"])

    def fitted(items: Ints, precision: float) -> Regression:
        least = (constants.LEAST_SHARE, constants.LEAST_SHARE)
        # on a scale a label beside the truth is not simply wrong: with 30 answers weights cost 0.7 to 2.1 points there
        said = blind.select_items(items) if pool.rest is None else None
        options: dict[str, Any] = {"centre": (1.0, 1.0), "least": least, "said": said, "precision": precision}
        return regression(both[:, items], truth[items], doubt, **options)

    everything = np.arange(truth.size)

    def left_out(precision: float) -> tuple[Floats, float]:
        """Return what the pool says of each known item without its answer, and the log-probability of the answers."""
        judged = np.empty_like(posterior)
        for part in parts:
            without = fitted(np.setdiff1d(everything, part), precision)
            judged[part] = without.probabilities(both[:, part], blind.select_items(part), doubt)
        return judged, float(np.log(np.maximum(judged[everything, truth], 1e-12)).sum())

    precision, loose = constants.WEIGHT_PRECISION, constants.LOOSE_WEIGHT_PRECISION
    (judged, careful), (other, bold) = left_out(precision), left_out(loose)
    if bold > careful + constants.LOOSE_GAIN:
        precision, judged = loose, other
    found = fitted(everything, precision)
    of_votes, of_model = found.shares.tolist()
    learned = replace(pool, shares=(of_votes, of_model), offsets=found.offsets, weights=found.weights, doubt=doubt)
    return learned, judged


def regression(
    features: Floats,
    truth: Codes,
    doubt: float,
    *,
    centre: Sequence[float],
    least: Sequence[float],
    said: Annotations | None = None,
    precision: float = 0.0,
) -> Regression:
    """Fit the logistic regression to items of known ``truth`` with these ``features``.

    The shares of the features have a normal prior around ``centre`` and the lower bounds ``least``.  Annotators have
    weights if ``said`` has the labels of the items; ``precision`` is that of their prior where an item has one label.
    """
    from scipy.optimize import minimize

    F, N, K = features.shape
    rows, cells, present, who = np.arange(N), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    per_item = 0.0
    if said is not None:
        cells, per_item = said.item_of_label() * K + said.label, said.n_labels / max(N, 1)
        present, who = np.unique(said.annotator, return_inverse=True)
    middle = np.concatenate([centre, np.zeros(K + present.size)])
    # the more labels an item has, the less a single one can say beside the others
    of_weights = precision * np.sqrt(per_item)
    precisions = np.repeat([constants.SHARE_PRECISION, constants.OFFSET_PRECISION, of_weights], [F, K, present.size])

    def loss(x: Floats) -> tuple[float, Floats]:
        shares, offsets, weights = np.split(x, [F, F + K])
        sums = np.bincount(cells, weights[who], N * K).reshape(N, K)
        q = normalised(np.tensordot(shares, features, 1) + sums + offsets, 0.0)
        right = (1.0 - doubt) * q[rows, truth]
        p = right + doubt / K
        # d log p / d logarithms  =  right / p · ([k is true] - q)
        slope = -q
        slope[rows, truth] += 1.0
        slope *= (right / p)[:, None]
        of_annotators = np.bincount(who, slope.ravel()[cells], present.size)
        slopes = np.concatenate([np.tensordot(features, slope, 2), slope.sum(axis=0), of_annotators])
        away = precisions * (x - middle)
        return 0.5 * float(away @ (x - middle)) - float(np.log(p).sum()), away - slopes

    bounds = [(bound, None) for bound in least] + [(None, None)] * (K + present.size)
    shares, offsets, found = np.split(minimize(loss, middle, jac=True, method="L-BFGS-B", bounds=bounds).x, [F, F + K])
    if said is None:
        return Regression(shares, offsets)
    # known items on which most are wrong, such as the hardest ones, do not make every label evidence against itself
    found -= min(float(np.average(found, weights=np.bincount(who))), 0.0) if present.size else 0.0
    weights = np.zeros(said.n_annotators)
    weights[present] = found
    return Regression(shares, offsets, weights)
