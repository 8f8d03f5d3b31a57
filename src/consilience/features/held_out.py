"""Do classifiers help?  Labels of items that were left out are predicted with and without them.

The items are divided into folds, as for cross-fitting.  For a label i of annotator m on item n of fold f, with A the
confusions learned without the labels of f (expected counts add up, so those of f are subtracted), and g_n from
classifiers, weights and a confusion of classifiers that were learned without f,

    Pr(i | other labels of n)  =  Σ_k q'_n(k) A_m(i, k)  =  1 / Σ_k q_n(k) / A_m(i, k),

where q_n ∝ g_n Π A is the posterior given all labels of n, and q'_n that without the label.  Without classifiers, g_n
is the share of every class.  The gain is the mean difference of the logarithms.

Where items have many labels, one more opinion adds little to the others, however good it is.  So the test is whether
the labels of an item are more probable given g_n than given its mean π, all of them being left out,

    log Σ_k g_n(k) Π A_m(i, k)  -  log Σ_k π(k) Π A_m(i, k),

and whether the gain beside other labels is not clearly below zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from consilience.data.annotations import Annotations
from consilience.features import constants
from consilience.features.joint import Joint, confusion_step, expected_counts, likelihood_of
from consilience.features.source import Source, fit_source
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.kernels.em import Statistics
from consilience.models.dawid_skene import DawidSkene

__all__ = ["Gain", "fold_likelihoods", "held_out_gain", "labels_alone"]

#: Most entries (labels × K²) of a block.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Gain:
    """How much better labels of left-out items are predicted with classifiers."""

    nats: float  #: mean gain of the log-probability of a label
    error: float  #: its standard error, items being independent
    hits: float  #: share of labels that are predicted right with classifiers
    hits_without: float  #: and without
    by_itself: float  #: mean gain of the log-probability of all labels of an item, by the classifiers alone
    by_itself_error: float  #: its standard error

    @property
    def clear(self) -> bool:
        """Whether the classifiers clearly say something about the labels, and nothing that misleads."""
        misleads = self.nats < -constants.CLEAR_GAIN * self.error
        return self.by_itself > constants.CLEAR_GAIN * self.by_itself_error and not misleads


def held_out_gain(annotations: Annotations, folds: Ints, joint: Joint, alone: Floats) -> Gain:
    """Compare annotators and classifiers that were fitted together with a posterior of labels ``alone``, (N, K)."""
    blind, q, members = annotations.with_gold(None), joint.posterior, joint.members
    if (step := -(-blind.n_items // constants.MOST_HELD_OUT)) > 1:
        blind, folds, alone = blind.select_items(np.arange(0, blind.n_items, step)), folds[::step], alone[::step]
        q, members = q[::step], members[:, ::step]
    opinion = _left_out_opinions(blind, joint, members, folds)
    shares, mean = alone.mean(axis=0), opinion.mean(axis=0)
    nats, hits = np.zeros(2), np.zeros(2)
    gained, alone_gained = [], []
    with_, without = (fold_likelihoods(blind, each, folds) for each in (q, alone))
    for (items, model, likelihood), (_, other, other_likelihood) in zip(with_, without, strict=True):
        some = blind.select_items(items)
        one, right = _predicted(some, opinion[items] * likelihood, model)
        two, right_without = _predicted(some, shares * other_likelihood, other)
        by_itself = np.log((opinion[items] * likelihood).sum(axis=1) / (likelihood @ mean))
        alone_gained.append(by_itself[some.labels_per_item > 0])
        gained.append(np.bincount(some.item_of_label(), one - two, some.n_items))
        nats += one.sum(), two.sum()
        hits += right.sum(), right_without.sum()
    n = max(blind.n_labels, 1)
    by_item, itself = np.concatenate(gained), np.concatenate(alone_gained)
    return Gain(
        nats=float(nats[0] - nats[1]) / n,
        error=float(by_item.std() * np.sqrt(by_item.size)) / n,
        hits=float(hits[0]) / n,
        hits_without=float(hits[1]) / n,
        by_itself=float(itself.mean()) if itself.size else 0.0,
        by_itself_error=float(itself.std() / np.sqrt(max(itself.size, 1))),
    )


def _left_out_opinions(annotations: Annotations, joint: Joint, members: Floats, folds: Ints) -> Floats:
    """Return the opinion of the classifiers, (N, K), with weights and confusion learned from the other folds."""
    likelihood = likelihood_of(annotations, joint.model, None)[0]
    start = Source.at_its_word(len(members), annotations.n_classes)
    made = np.empty_like(likelihood)
    for fold in range(int(folds.max()) + 1):
        out = folds == fold
        source = fit_source(members[:, ~out], likelihood[~out], start, rounds=constants.HELD_OUT_STEPS)
        made[out] = source(members[:, out])
    return made


def fold_likelihoods(
    annotations: Annotations, posterior: Floats, folds: Ints
) -> Iterator[tuple[Ints, DawidSkene, Floats]]:
    """Yield for every fold its items, the annotators as learned from the other folds, and the items' likelihoods."""
    a, K = annotations, annotations.n_classes
    step = confusion_step(K)
    parts = [np.flatnonzero(folds == fold) for fold in range(int(folds.max()) + 1)]
    counts = [expected_counts(a.select_items(part), posterior[part]) for part in parts]
    total = np.sum(counts, axis=0)
    for part, own in zip(parts, counts, strict=True):
        fitted = step(Statistics(np.maximum(total - own, 0.0), np.ones(K), np.nan))
        model = DawidSkene(np.full(K, 1.0 / K), fitted.confusions, a.class_ids, a.annotator_ids)
        yield part, model, likelihood_of(a.select_items(part), model, None)[0]


def labels_alone(annotations: Annotations, start: Floats, passes: int) -> Floats:
    """Return the posterior of the same annotators without classifiers, by EM from a posterior."""
    a, q = annotations, start
    step = confusion_step(a.n_classes)
    for _ in range(passes):
        counts = expected_counts(a, q)
        fitted = step(Statistics(counts, np.ones(a.n_classes), np.nan))
        prior = q.mean(axis=0)
        q = DawidSkene(prior / prior.sum(), fitted.confusions, a.class_ids, a.annotator_ids).posterior(a)
    return q


def _predicted(annotations: Annotations, weights: Floats, model: DawidSkene) -> tuple[Floats, Bools]:
    """Return the log-probability of every label given the others of its item, and whether it is the most probable."""
    a, K = annotations, annotations.n_classes
    item = a.item_of_label()
    log, right = np.empty(a.n_labels), np.empty(a.n_labels, bool)
    rows = max(1, _BLOCK // K**2)
    for first in range(0, a.n_labels, rows):
        block = slice(first, first + rows)
        said = model.confusions[a.annotator[block]]  # (labels, K, K)
        own = np.maximum(np.take_along_axis(said, a.label[block][:, None, None].astype(np.int64), 1)[:, 0], 1e-9)
        others = weights[item[block]] / own
        others /= others.sum(axis=1, keepdims=True)
        log[block] = np.log((others * own).sum(axis=1))
        right[block] = np.einsum("lik,lk->li", said, others).argmax(axis=1) == a.label[block]
    return log, right
