"""Known answers: how far to trust votes, model and annotators' records.

A vote in which every annotator counts by their record on the known answers joins the pool,

    s_n(k) = Σ over labels k of item n of  max(0, log a_m / (1 - a_m)),      a_m = (hits + 1) / (known + 2).

With f_v and f_q the logarithms of the two factors of :mod:`consilience.auto.pool`, the probabilities are those of a
logistic regression with three nonnegative coefficients,

    p_n(k)  ∝  exp(c_v f_v(n, k) + c_q f_q(n, k) + c_s s_n(k)),

fitted to the known answers under a normal prior around (1, 1, 0): a handful of answers changes little.  No known answer
predicts itself: the model of a fifth of them is fitted without that fifth, and the records leave out the item that is
predicted.

====== ================================ =============
symbol name                             shape
====== ================================ =============
f, s   ``features``                     (3, known, K)
c      ``shares``                       (3,)
====== ================================ =============
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from consilience.auto import constants
from consilience.auto.pool import Pool, features, label_sums, normalised, votes_of
from consilience.data.annotations import Annotations
from consilience.diagnose.rules import surprising
from consilience.exceptions import DataWarning
from consilience.fitting.fit import Caution
from consilience.kernels._arrays import Codes, Floats, Ints

__all__ = ["contradiction", "known_items", "learn_from_known", "log_odds", "records"]


def known_items(annotations: Annotations) -> Ints:
    """Return the items with a known answer and a label."""
    if annotations.gold is None:
        return np.empty(0, np.int64)
    return np.flatnonzero((annotations.gold >= 0) & (annotations.labels_per_item > 0))


def learn_from_known(
    annotations: Annotations, pool: Pool, refit: Callable[[Annotations], Pool]
) -> tuple[Pool, Floats, Floats]:
    """Return the pool that the known answers make most probable, what it says of them, and what the labels alone say.

    The latter two, (known, K), leave out every item's own answer, and all known answers.  ``refit`` returns the pool of
    labels with some of the known answers or none.
    """
    items = known_items(annotations)
    assert annotations.gold is not None
    some = annotations.select_items(items)
    assert some.gold is not None
    truth, blind = some.gold, some.with_gold(None)
    posterior = np.empty((items.size, annotations.n_classes))
    for part in _parts(blind, truth):
        posterior[part] = refit(annotations.forgetting(items[part])).model(blind.select_items(part))
    hits, known = records(some)
    who, right = some.annotator, some.label == truth[some.item_of_label()]
    own = np.maximum(log_odds(hits[who] - right, known[who] - 1.0), 0.0)
    votes, n_labels = votes_of(blind, pool.counted)
    three = np.stack([*features(votes, posterior, n_labels, pool.dependent), label_sums(some, own)])
    shares = _shares(three, truth, pool.dependent)
    judged = normalised(np.tensordot(shares, three, 1), pool.dependent)
    alone, _ = refit(annotations.forgetting(items))(blind)
    of_votes, of_model, of_record = shares.tolist()
    return pool.learned((of_votes, of_model, of_record), np.maximum(log_odds(hits, known), 0.0)), judged, alone


def _parts(some: Annotations, truth: Codes) -> list[Ints]:
    """Divide known items into parts of about the same classes and votes, whatever the order of the rows."""
    votes = votes_of(some, None)[0]
    order = np.lexsort((votes[np.arange(truth.size), np.minimum(truth, votes.shape[1] - 1)], truth))
    n = min(constants.FOLDS, truth.size)
    return [np.sort(order[first::n]) for first in range(n)]


def records(some: Annotations) -> tuple[Floats, Floats]:
    """Return the number of right answers and of all answers about items of known truth, by annotator, (M,) both."""
    assert some.gold is not None
    right = (some.label == some.gold[some.item_of_label()]).astype(float)
    counts = (np.bincount(some.annotator, each, some.n_annotators) for each in (right, np.ones_like(right)))
    hits, known = (count.astype(np.float64) for count in counts)
    return hits, known


def log_odds(hits: Floats, known: Floats) -> Floats:
    """Return the log-odds of being right, with one right and one wrong answer added."""
    made: Floats = np.log((hits + 1.0) / (known - hits + 1.0))
    return made


def _shares(features: Floats, truth: Codes, dependent: float) -> Floats:
    """Return the coefficients of the logistic regression, (3,)."""
    from scipy.optimize import minimize

    centre, precision = np.array([1.0, 1.0, 0.0]), np.array(constants.PRECISION)
    rows = np.arange(truth.size)

    def loss(c: Floats) -> float:
        p = normalised(np.tensordot(c, features, 1), dependent)
        return float(0.5 * (precision * (c - centre) ** 2).sum() - np.log(p[rows, truth]).sum())

    found = minimize(loss, centre, method="L-BFGS-B", bounds=[(constants.LEAST_SHARE, None)] * 2 + [(0.0, None)])
    return np.asarray(found.x)


def contradiction(n: int, found: float, expected: float) -> tuple[Caution, ...]:
    """Return the caution where known answers contradict the labels' own estimate, by more than chance."""
    if not surprising(n, found, expected):
        return ()
    sentence = (
        f"on your {n} known answers, the consensus of the labels alone is {found:.0%} wrong; it expected "
        f"{expected:.0%}. Known answers are used as far as they help; collect more, or find out what the annotators "
        "misunderstand"
    )
    return ((sentence, DataWarning),)
