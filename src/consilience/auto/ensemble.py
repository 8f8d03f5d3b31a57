"""The average of several models of one crowd.

Nothing shows which model errs, so the mean of the others stands for the truth, and models are weighted like
measurements of different variance:

    w_j  ∝  1 / mean of ‖q_j - q̄_j‖² over the items,      q̄_j the mean of all but the j-th.

Posteriors are tempered before they are averaged (:mod:`consilience.auto.calibration`): models that differ on an item
then leave it open, and models that agree are together no more confident than one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from consilience.auto.calibration import applies, soften, temper
from consilience.auto.constants import HARD_ITEMS_WEIGHT
from consilience.data.annotations import Annotations
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats
from consilience.methods.hard_items import HardItemsModel

__all__ = ["Ensemble", "Member", "mean_opinion", "votes_of", "weights_by_distance"]

#: Items per block.
_BLOCK = 1 << 16


def weights_by_distance(opinions: Sequence[Floats]) -> Floats:
    """Return the weights of J posteriors, (N, K) each, by their distance from the mean of the others, (J,)."""
    total, n = np.sum(opinions, axis=0), len(opinions)
    apart = [float(np.square(q - (total - q) / (n - 1)).sum(axis=1).mean()) for q in opinions]
    weights = np.reciprocal(np.maximum(apart, 1e-12))
    return np.asarray(weights / weights.sum())


def mean_opinion(opinions: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the average of posteriors by these weights, (N, K), and the weights, (J,)."""
    weights = weights_by_distance(opinions)
    averaged: Floats = np.einsum("j,jnk->nk", weights, np.asarray(opinions))
    return averaged, weights


class Member(Protocol):
    """A model that can judge any items of its annotators."""

    def posterior(self, annotations: Annotations, weights: Floats | None = None, /) -> Floats:
        """Return probabilities, (N, K); ``weights`` is how many times each annotator's labels count, (M,)."""

    def recoded(self, annotations: Annotations, /) -> Annotations:
        """Return the same labels in the codes of the model, unknown annotators last."""


@dataclass(frozen=True)
class Ensemble:
    """Models of the same annotators and classes, and their weights."""

    models: tuple[Member, ...]
    weights: Floats  #: of the models, (J,); their sum is one
    votes: Floats  #: how many times the labels of each annotator count, (M,)
    correlation: float  #: of errors

    @classmethod
    def of(cls, models: Sequence[Member], annotations: Annotations, votes: Floats, correlation: float) -> Ensemble:
        """Weight models by their posteriors of these items."""
        weights = np.ones(1)
        if len(models) > 1:
            weights = weights_by_distance([model.posterior(annotations, _unequal(votes)) for model in models])
        return cls(tuple(models), weights, votes, correlation)

    def __call__(self, annotations: Annotations) -> tuple[Floats, Floats]:
        """Return probabilities and vote shares for any items of these annotators, both (N, K)."""
        coded = self.models[0].recoded(annotations)
        strangers = coded.n_annotators - self.votes.size
        counted = np.append(self.votes, np.ones(strangers)) if strangers else self.votes
        N = coded.n_items
        if N <= _BLOCK:
            return self._of_block(coded, counted)
        probabilities, votes = np.empty((N, coded.n_classes)), np.empty((N, coded.n_classes))
        for first in range(0, N, _BLOCK):  # posteriors of all items at once would take memory for each model
            block = slice(first, min(first + _BLOCK, N))
            probabilities[block], votes[block] = self._of_block(coded.select_items(block), counted)
        return probabilities, votes

    def _of_block(self, annotations: Annotations, counted: Floats) -> tuple[Floats, Floats]:
        votes, n_labels = votes_of(annotations, counted)
        posterior, mild = np.zeros_like(votes), np.zeros_like(votes)
        tempered = applies(self.correlation)
        for weight, model in zip(self.weights, self.models, strict=True):
            own = model.posterior(annotations, _unequal(self.votes))
            posterior += weight * own
            if tempered:
                least = HARD_ITEMS_WEIGHT if isinstance(model, HardItemsModel) else 0.0
                mild += weight * temper(own, n_labels, least)
        if annotations.gold is not None:  # exactly: the weights need not sum to one in the last bit
            known = annotations.gold >= 0
            posterior[known] = votes[known]
        return soften(annotations, posterior, mild, votes, n_labels, self.correlation), votes


def _unequal(votes: Floats) -> Floats | None:
    """Return how many times labels count, or None if each counts once."""
    return None if (votes == 1.0).all() else votes


def votes_of(annotations: Annotations, weights: Floats) -> tuple[Floats, Floats]:
    """Return weighted vote shares, (N, K), and the sum of the weights on each item, (N,)."""
    N, K = annotations.n_items, annotations.n_classes
    if (weights == 1.0).all():
        return vote_posterior(annotations), annotations.labels_per_item.astype(float)
    cell = np.repeat(np.arange(N), annotations.labels_per_item) * K + annotations.label
    votes = np.bincount(cell, weights[annotations.annotator], N * K).reshape(N, K)
    total = votes.sum(axis=1)
    shares = np.divide(votes, total[:, None], out=np.full((N, K), 1.0 / K), where=total[:, None] > 0)
    if annotations.gold is not None:
        known = annotations.gold >= 0
        shares[known] = np.arange(K) == annotations.gold[known, None]
    return shares, total
