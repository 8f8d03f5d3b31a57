r"""What another label would tell of an item, for numbers, several options and open answers.

*Numbers.*  With d the standard deviation of a value, v the part of its variance that labels reduce, and an annotator
with scale s and noise σ, another answer makes it

    d'² = d² - v + 1 / (1 / v + s² / σ²),       1 / v = 1 / τ² + Σ s_m² / σ_m²   over the answers so far,

where τ² is the variance of the values of all items.  The gain is d - d'.

*Options and open answers.*  The information I(truth; label | labels planned) in bits, as for classes
(:mod:`consilience.kernels.planning`); for several options, the sum over the options of the item.

========== =================================================================== =============
name       meaning                                                             shape
========== =================================================================== =============
``doubt``  largest gain of an item, to choose items to look at                 (N,)
``A``      probability of each answer given each truth, for every annotator    (M, I, K)
``v``      probability of the planned labels and the truth, by their answers   (Q, B, K)
========== =================================================================== =============
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from consilience.kernels._arrays import Floats, Ints
from consilience.runs.multi_run import MultiRun
from consilience.runs.numeric_run import NumericRun
from consilience.runs.open_run import OpenRun

__all__ = ["MOST_PLANNED", "NumberProspects", "OpenProspects", "OptionProspects", "Prospects"]

#: Most labels of one item in a plan: beyond, the combinations of their answers are too many.
MOST_PLANNED = 6
#: Decisions of the average annotator that are added to those of each.
_PSEUDO = 10.0
#: Quantile of a 90 % interval.
_Z = 1.645


class Prospects(Protocol):
    """What labels would tell."""

    doubt: Floats

    def gains(self, n: int, planned: list[int], people: Ints) -> Floats:
        """Return the gain of a label on item n by each of these people, beside those of the planned annotators."""

    def error(self, n: int, planned: list[int]) -> float:
        """Return the expected error of item n with the labels of the planned annotators."""


class NumberProspects:
    """Values of a run over numbers."""

    def __init__(self, run: NumericRun) -> None:
        a, model = run.annotations, run.model
        assert a is not None
        known = np.isfinite(run.value)
        spread = max(float(run.value[known].var()) if known.any() else 0.0, 1e-300)
        self.precision: Floats = model.scale**2 / np.maximum(model.noise, 1e-9 * np.sqrt(spread)) ** 2
        total = 1.0 / spread + np.bincount(a.item_of_label(), self.precision[a.annotator] * (run.weight > 0), a.n_items)
        # an end that is cut off where the scale ends says nothing about the deviation
        half = np.maximum(run.high - run.value, run.value - run.low) / _Z
        self.variance = np.where(half > 0.0, np.where(known, half**2, np.nan), 0.0)
        rest = np.maximum(self.variance - 1.0 / total, 0.0)
        usual = float(rest[known].mean()) if known.any() else 0.0
        self.rest = np.where(known, rest, usual)
        self.total = np.where(known & (self.variance == 0.0), np.inf, total)  # known values
        self.doubt = np.sqrt(self.rest + 1.0 / self.total) - np.sqrt(self.rest)

    def gains(self, n: int, planned: list[int], people: Ints) -> Floats:
        """Return by how much each answer reduces the standard deviation."""
        now = self.total[n] + float(self.precision[planned].sum())
        found: Floats = np.sqrt(self.rest[n] + 1.0 / now) - np.sqrt(self.rest[n] + 1.0 / (now + self.precision[people]))
        return found

    def error(self, n: int, planned: list[int]) -> float:
        """Return the standard deviation."""
        return float(np.sqrt(self.rest[n] + 1.0 / (self.total[n] + float(self.precision[planned].sum()))))


class _Answers:
    """Questions with a few answers each: q has the probabilities of the truths of an item, (Q, K)."""

    def truths(self, n: int) -> Floats:
        """Return the probability of every truth of the questions of an item, (Q, K)."""
        raise NotImplementedError

    def channels(self, n: int) -> Floats:
        """Return what annotators say given the truth, (M, I, K)."""
        raise NotImplementedError

    def gains(self, n: int, planned: list[int], people: Ints) -> Floats:
        """Return the information of each label in bits."""
        A = self.channels(n)
        v = _branches(self.truths(n), A[planned])
        p = np.einsum("qbk,mik->mqbi", v, A[people])
        before = _entropy(v.sum(axis=2)).sum()
        noise = np.einsum("qbk,mk->m", v, _entropy(A[people]).sum(axis=1))
        found: Floats = _entropy(p).sum(axis=(1, 2, 3)) - before - noise
        return np.maximum(found, 0.0)

    def error(self, n: int, planned: list[int]) -> float:
        """Return the expected number of questions with a wrong answer."""
        v = _branches(self.truths(n), self.channels(n)[planned])
        return float(v.shape[0] - v.max(axis=2).sum())


class OptionProspects(_Answers):
    """Decisions on the options of a run over several options."""

    def __init__(self, run: MultiRun) -> None:
        self.run, total = run, run.counts.sum(axis=0)
        crowd = (total + 1.0) / (total + 1.0).sum(axis=0)
        added = run.counts + _PSEUDO * crowd
        self.A: Floats = added / added.sum(axis=1, keepdims=True)
        p = run.posterior
        self.doubt = np.bincount(run._item, _entropy(p) + _entropy(1.0 - p), len(run.item_ids)).astype(float)

    def truths(self, n: int) -> Floats:
        """Return the probability that each option is false and true."""
        p = self.run.posterior[self.run.first[n] : self.run.first[n + 1]]
        return np.stack([1.0 - p, p], axis=1)

    def channels(self, n: int) -> Floats:
        """Return how often annotators tick false and true options."""
        return self.A


class OpenProspects(_Answers):
    """Candidates of a run over open answers; the last truth is an answer that nobody gave."""

    def __init__(self, run: OpenRun) -> None:
        self.run, item = run, np.repeat(np.arange(len(run.item_ids)), np.diff(run.first))
        none = 1.0 - np.bincount(item, run.posterior, len(run.item_ids))
        self.doubt = np.bincount(item, _entropy(run.posterior), none.size) + _entropy(np.clip(none, 0.0, 1.0))

    def truths(self, n: int) -> Floats:
        """Return the probability of every candidate, and of none."""
        p = self.run.posterior[self.run.first[n] : self.run.first[n + 1]]
        return np.append(p, max(1.0 - float(p.sum()), 0.0))[None, :]

    def channels(self, n: int) -> Floats:
        """Return how often annotators give each candidate, or another answer; wrong ones are spread evenly."""
        model = self.run.model
        K = int(self.run.first[n + 1] - self.run.first[n]) + 1
        wrong = (1.0 - model.accuracy) / max(1.0 / model.chance - 1.0, K - 1.0, 1.0)
        A = np.broadcast_to(wrong[:, None, None], (wrong.size, K, K)).copy()
        A[:, np.arange(K), np.arange(K)] = model.accuracy[:, None]
        rest = np.maximum(1.0 - A.sum(axis=1, keepdims=True), 0.0)
        return np.concatenate([A, rest], axis=1)


def _entropy(p: Floats) -> Floats:
    """Return -p log₂ p of every entry."""
    found: Floats = -p * np.log2(np.maximum(p, 1e-300))
    return found


def _branches(q: Floats, channels: Floats) -> Floats:
    """Return the joint probability of the truths and all answers of planned annotators, (Q, B, K)."""
    v = q[:, None, :]
    for A in channels:
        v = (v[:, :, None, :] * A[None, None]).reshape(q.shape[0], -1, q.shape[1])
    return v
