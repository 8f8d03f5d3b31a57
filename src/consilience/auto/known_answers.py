"""Known answers: how far to trust votes, model and annotators' records, and how common the classes are.

A vote in which every annotator counts by their record on the known answers joins the pool,

    s_n(k) = Σ over labels k of item n of  max(0, log a_m / (1 - a_m)),      a_m = (hits + r ā) / (known + r),

where ā is the mean probability of a label in the pool: who answered no item of known truth counts as average.  With f_v
and f_q the logarithms of the two factors of :mod:`consilience.auto.pool`, the probabilities are those of a logistic
regression with three nonnegative coefficients and an offset for every class,

    p_n(k)  ∝  exp(c_v f_v(n, k) + c_q f_q(n, k) + c_s s_n(k) + b_k),

fitted to the known answers under a normal prior around c = (1, 1, 0) and b = 0: a handful of answers changes little.
The offsets correct what the labels say of a class too often or too rarely.  No known answer predicts itself: the model
of a fifth of them is fitted without that fifth, and the records leave out the item that is predicted.

====== ================================ =============
symbol name                             shape
====== ================================ =============
f, s   ``features``                     (3, known, K)
c      ``shares``                       (3,)
b      ``offsets``                      (K,)
====== ================================ =============
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from consilience.auto import constants
from consilience.auto.pool import Pool, features, label_sums, normalised, votes_of
from consilience.data.annotations import Annotations
from consilience.diagnose.left_out import known_items, parts_of_known
from consilience.kernels._arrays import Codes, Floats

__all__ = ["Lessons", "learn_from_known", "learned_from", "records", "regression"]


class Lessons(NamedTuple):
    """What the known answers are compared with."""

    some: Annotations  #: the items with a known answer and a label
    posterior: Floats  #: of the model, without an item's own answer, (known, K)
    average: float  #: mean probability of a label


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
    for part in parts_of_known(annotations, items):
        posterior[part] = refit(annotations.forgetting(items[part])).model(blind.select_items(part))
    learned, judged = learned_from(Lessons(some, posterior, _average_accuracy(annotations, pool)), pool)
    alone, _ = refit(annotations.forgetting(items))(blind)
    return learned, judged, alone


def learned_from(lessons: Lessons, pool: Pool) -> tuple[Pool, Floats]:
    """Return the pool with coefficients, offsets and records, and what it says of the known items, (known, K)."""
    some, posterior, average = lessons
    assert some.gold is not None
    truth = some.gold
    hits, known = records(some)
    who, right = some.annotator, some.label == truth[some.item_of_label()]
    own = label_sums(some, _weights(hits[who] - right, known[who] - 1.0, average))
    votes, n_labels = votes_of(some.with_gold(None), pool.counted)
    three = np.stack([*features(votes, posterior, n_labels, pool.exponents, pool.dependent), own])
    # known answers show how far the labels can be trusted: no more doubt than where nothing is wrong with them
    doubt = min(pool.doubt, constants.DOUBT["assigned"])
    shares, offsets = regression(
        three, truth, doubt, centre=(1.0, 1.0, 0.0), least=(constants.LEAST_SHARE,) * 2 + (0.0,)
    )
    judged = normalised(np.tensordot(shares, three, 1) + offsets, doubt)
    of_votes, of_model, of_record = shares.tolist()
    # the last entry is for annotators who are not known at all
    record = _weights(np.append(hits, 0.0), np.append(known, 0.0), average)
    learned = replace(pool, shares=(of_votes, of_model, of_record), offsets=offsets, record=record, doubt=doubt)
    return learned, judged


def records(some: Annotations) -> tuple[Floats, Floats]:
    """Return the number of right answers and of all answers about items of known truth, by annotator, (M,) both."""
    assert some.gold is not None
    right = (some.label == some.gold[some.item_of_label()]).astype(float)
    counts = (np.bincount(some.annotator, each, some.n_annotators) for each in (right, np.ones_like(right)))
    hits, known = (count.astype(np.float64) for count in counts)
    return hits, known


def _average_accuracy(annotations: Annotations, pool: Pool) -> float:
    """Return the mean probability of a label."""
    probabilities, _ = pool(annotations)
    mean = float(probabilities[annotations.item_of_label(), annotations.label].mean())
    return min(max(mean, 0.01), 0.99)


def _weights(hits: Floats, known: Floats, average: float) -> Floats:
    """Return the weights of annotators' votes by their record, never negative."""
    pseudo = constants.RECORD_ANSWERS
    made: Floats = np.log((hits + pseudo * average) / (known - hits + pseudo * (1.0 - average)))
    return np.maximum(made, 0.0)


def regression(
    features: Floats, truth: Codes, doubt: float, *, centre: Sequence[float], least: Sequence[float]
) -> tuple[Floats, Floats]:
    """Return the coefficients of the logistic regression, (F,), and the offsets of the classes, (K,).

    ``features`` are (F, known, K); the coefficients have a normal prior around ``centre`` and lower bounds ``least``.
    """
    from scipy.optimize import minimize

    F, _, K = features.shape
    rows = np.arange(truth.size)
    middle = np.concatenate([centre, np.zeros(K)])
    precision = np.repeat([constants.SHARE_PRECISION, constants.OFFSET_PRECISION], [F, K])

    def loss(x: Floats) -> tuple[float, Floats]:
        q = normalised(np.tensordot(x[:F], features, 1) + x[F:], 0.0)
        right = (1.0 - doubt) * q[rows, truth]
        p = right + doubt / K
        # d log p / d logarithms  =  right / p · ([k is true] - q)
        slope = -q
        slope[rows, truth] += 1.0
        slope *= (right / p)[:, None]
        slopes = np.concatenate([np.tensordot(features, slope, 2), slope.sum(axis=0)])
        away = precision * (x - middle)
        return 0.5 * float(away @ (x - middle)) - float(np.log(p).sum()), away - slopes

    bounds = [(bound, None) for bound in least] + [(None, None)] * K
    found = minimize(loss, middle, jac=True, method="L-BFGS-B", bounds=bounds).x
    return np.asarray(found[:F]), np.asarray(found[F:])
