"""The one rule by which ``auto`` combines votes and model: a tempered product.

A model of independent annotators is far too sure of itself, and where it is wrong it is wrong on many items at once.
The votes know less, but no assumption can mislead them.  With v the vote shares of an item with n labels and q the
posterior of the model,

    p(k)  ∝  v(k)^a · q(k)^(b / (1 + (n - 1) ρ)),      then  (1 - ε) p + ε r,      r = 1 / K.

n labels whose errors have correlation ρ are worth n / (1 + (n - 1) ρ) independent ones (the design effect of Kish
1965).  ρ is the same for all data.  a, b and the doubt ε, the share of items of which the labels say nothing, have two
values: where annotators err together or speak by choice, votes count more beside the model, and the doubt is larger
(:mod:`consilience.auto.constants`).  Nothing else in a set of labels was found to show how far its own model can be
trusted, with one exception: as far as they show that errors are independent, given the model, the model is taken at its
word.  Between the two, the exponents are interpolated (:mod:`consilience.auto.dependent`).  On a scale, r are the
shares of the levels: with r uniform, the lowest and the highest level would be within every interval.

With known answers, the logarithms of both factors are features of a logistic regression
(:mod:`consilience.auto.known_answers`), whose coefficients are the ``shares``, with an ``offset`` for every class and a
``weight`` for every annotator.

====== ============================== ============
symbol name                           shape
====== ============================== ============
v      ``votes``                      (N, K)
q      ``posterior``                  (N, K)
n      ``n_labels``                   (N,)
====== ============================== ============

L. Kish, "Survey sampling" (1965), section 5.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats

__all__ = ["Pool", "features", "label_sums", "normalised", "votes_of"]

#: Items per block.
_BLOCK = 1 << 16


def votes_of(annotations: Annotations, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return weighted vote shares, (N, K), and the sum of the weights on each item, (N,)."""
    if weights is None:
        return vote_posterior(annotations), annotations.labels_per_item.astype(float)
    N, K = annotations.n_items, annotations.n_classes
    votes = label_sums(annotations, weights[annotations.annotator])
    total = votes.sum(axis=1)
    shares = np.divide(votes, total[:, None], out=np.full((N, K), 1.0 / K), where=total[:, None] > 0)
    return held(annotations, shares), total


def label_sums(annotations: Annotations, weights: Floats) -> Floats:
    """Return the sum of the ``weights`` of the labels for each class, (N, K)."""
    N, K = annotations.n_items, annotations.n_classes
    cell = annotations.item_of_label() * K + annotations.label
    sums: Floats = np.bincount(cell, weights, N * K).astype(np.float64).reshape(N, K)
    return sums


def held(annotations: Annotations, posterior: Floats) -> Floats:
    """Return probabilities with items of known truth at their truth."""
    if annotations.gold is not None:
        known = annotations.gold >= 0
        posterior[known] = np.arange(posterior.shape[1]) == annotations.gold[known, None]
    return posterior


def features(
    votes: Floats, posterior: Floats, n_labels: Floats, exponents: tuple[float, float], dependent: float = 1.0
) -> tuple[Floats, Floats]:
    """Return the logarithms of both factors of the product, (N, K) each.

    ``dependent`` is the probability that annotators err together: 0 where errors are surely independent.
    """
    (a, b), K = exponents, votes.shape[1]
    n = np.maximum(n_labels, 1.0)[:, None]
    of_votes = dependent * a * np.log((1.0 - constants.FLOOR) * votes + constants.FLOOR / K)
    exponent = 1.0 - dependent + dependent * b / (1.0 + (n - 1.0) * constants.CORRELATION)
    of_model = exponent * np.log(np.maximum(posterior, 1e-12) / posterior.max(axis=1, keepdims=True))
    return of_votes, of_model


def normalised(logarithms: Floats, doubt: float, rest: Floats | None = None) -> Floats:
    """Return the probabilities, with a share of ``doubt`` that is spread as ``rest``, or evenly."""
    p = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    made: Floats = (1.0 - doubt) * p / p.sum(axis=1, keepdims=True)
    made += doubt / p.shape[1] if rest is None else doubt * rest
    return made


@dataclass(frozen=True)
class Pool:
    """Votes and a model of the same annotators, combined."""

    model: Callable[[Annotations], Floats]  #: posterior of any items, (N, K)
    annotators: Ids
    counted: Floats | None = None  #: how many times the labels of each annotator count, (M,); once if None
    exponents: tuple[float, float] = constants.EXPONENTS["assigned"]
    dependent: float = 1.0
    doubt: float = constants.DOUBT["assigned"]
    rest: Floats | None = None  #: probabilities of the classes where labels say nothing, (K,); uniform if None
    shares: tuple[float, float] = (1.0, 1.0)  #: of the votes and the model
    offsets: Floats | None = None  #: of the classes, (K,)
    weights: Floats | None = None  #: by which a label counts beside votes and model, (M,)

    def __call__(self, annotations: Annotations) -> tuple[Floats, Floats]:
        """Return probabilities and vote shares of any items, both (N, K)."""
        N = annotations.n_items
        if N <= _BLOCK:
            return self._of_block(annotations)
        probabilities, votes = np.empty((N, annotations.n_classes)), np.empty((N, annotations.n_classes))
        for first in range(0, N, _BLOCK):
            block = slice(first, min(first + _BLOCK, N))
            probabilities[block], votes[block] = self._of_block(annotations.select_items(block))
        return probabilities, votes

    def _of_block(self, annotations: Annotations) -> tuple[Floats, Floats]:
        codes = self.annotators.codes_of(annotations.annotator_ids.to_arrow())
        counted = None
        if self.counted is not None:
            counted = np.where(codes >= 0, self.counted[codes], 1.0)
        votes, n_labels = votes_of(annotations, counted)
        posterior = self.model(annotations)
        one, other = features(votes, posterior, n_labels, self.exponents, self.dependent)
        logarithms = self.shares[0] * one + self.shares[1] * other
        if self.offsets is not None:
            logarithms += self.offsets
        if self.weights is not None:
            weights = np.where(codes >= 0, self.weights[codes], 0.0)
            logarithms += label_sums(annotations, weights[annotations.annotator])
        silent = annotations.labels_per_item == 0  # nothing to combine
        pooled = normalised(logarithms, self.doubt, self.rest)
        return held(annotations, np.where(silent[:, None], posterior, pooled)), votes
