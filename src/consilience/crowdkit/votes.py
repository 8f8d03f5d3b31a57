"""Votes weighted by skill: majority voting, Wawa, skills by gold, and zero-based skill.

A skill s_m is the share of a worker's answers that are right, by the votes or by known truths.  The probability of a
label k of task n is the weight of those who gave it:

    p_nk  =  Σ_m s_m [m said k of n]  /  Σ_m s_m [m labelled n].

If all skills behind a task are zero, every vote counts the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from consilience.crowdkit.tables import Aggregator, by_worker, read
from consilience.data.annotations import Annotations
from consilience.exceptions import DataError, MethodError, ParameterError
from consilience.kernels._arrays import Bools, Floats

__all__ = ["GoldMajorityVote", "MajorityVote", "Wawa", "ZeroBasedSkill"]


@dataclass(eq=False)
class MajorityVote(Aggregator):
    """Majority voting, weighted by ``skills`` if they are given to ``fit``.

    Parameters
    ----------
    default_skill
        Weight of a worker without a skill, with ``on_missing_skill="value"``.
    on_missing_skill
        What to do with the answers of such workers: "error", "ignore" (leave them out) or "value".
    """

    default_skill: float | None = None
    on_missing_skill: Literal["error", "ignore", "value"] = "error"

    def fit(self, data: Any, skills: Any = None) -> Self:
        """Count the votes; ``skills_`` is each worker's agreement with the result."""
        a = read(data)
        if a is None:
            self._keep(None, None)
            self.skills_ = _no_skills()
            return self
        weight = np.ones(a.n_annotators) if skills is None else self._weights(a, skills)
        posterior = weighted_shares(a, np.nan_to_num(weight))
        self._keep(a, posterior)
        agreement = accuracy(a, truth_table(posterior))
        self.skills_ = by_worker(a, np.where(np.isnan(weight), np.nan, agreement), "skill")
        return self

    def _weights(self, a: Annotations, skills: Any) -> Floats:
        """Return the skill of each annotator, NaN for those to be ignored."""
        if self.default_skill is not None and self.on_missing_skill != "value":
            raise ParameterError("default_skill is for on_missing_skill='value'")
        weight: Floats = skills.reindex(a.annotators).to_numpy(float)
        missing = np.isnan(weight)
        if self.on_missing_skill == "value":
            if self.default_skill is None:
                raise ParameterError("on_missing_skill='value' needs a default_skill")
            weight = np.where(missing, self.default_skill, weight)
        elif self.on_missing_skill == "error":
            if missing.any():
                names = ", ".join(repr(name) for name in a.annotators[missing][:5])
                raise DataError(
                    f"{int(missing.sum())} workers have no skill, such as {names}; give all skills, or say "
                    "on_missing_skill='ignore' or 'value'"
                )
        elif self.on_missing_skill == "ignore":
            known = np.bincount(a.item_of_label(), ~missing[a.annotator], a.n_items)
            if (lost := int((known == 0).sum())) > 0:
                raise DataError(f"{lost} tasks have no answer of a worker with a known skill")
        else:
            raise ParameterError(
                f"on_missing_skill must be 'error', 'ignore' or 'value', not {self.on_missing_skill!r}"
            )
        return weight


class _BySkill(Aggregator):
    """Base of classes whose ``predict`` is a vote weighted by the skills that ``fit`` found."""

    skills_: Any  #: series of skills by worker

    def predict(self, data: Any) -> Any:
        """Return the labels of tasks by workers whose skills are known."""
        return self._apply(data).labels_

    def predict_proba(self, data: Any) -> Any:
        """Return the probability of each label, for tasks by workers whose skills are known."""
        return self._apply(data).probas_

    def fit_predict(self, data: Any, *known: Any, **more: Any) -> Any:
        """Fit, and return the labels by task."""
        return self.fit(data, *known, **more).predict(data)

    def fit_predict_proba(self, data: Any, *known: Any, **more: Any) -> Any:
        """Fit, and return the probability of each label by task."""
        return self.fit(data, *known, **more).predict_proba(data)

    def _apply(self, data: Any) -> Self:
        if not hasattr(self, "skills_"):
            raise MethodError(f"this {type(self).__name__} is not fitted yet: call fit first")
        vote = MajorityVote().fit(data, self.skills_)
        self.labels_, self.probas_ = vote.labels_, vote.probas_
        return self


@dataclass(eq=False)
class Wawa(_BySkill):
    """Worker agreement with aggregate: a vote weighted by each worker's agreement with the plain vote."""

    def fit(self, data: Any) -> Self:
        """Find the skills."""
        self.skills_ = MajorityVote().fit(data).skills_
        return self


@dataclass(eq=False)
class GoldMajorityVote(_BySkill):
    """A vote weighted by each worker's share of right answers to tasks of known truth."""

    def fit(self, data: Any, true_labels: Any) -> Self:  # type: ignore[override]
        """Find the skills; ``true_labels`` is a series by task, in which a task may have several right labels."""
        a = read(data)
        if a is None:
            self.skills_ = _no_skills()
            return self
        n, k = a.item_ids.codes_of(true_labels.index.to_numpy()), a.class_ids.codes_of(true_labels.to_numpy())
        right = np.zeros((a.n_items, a.n_classes), np.bool_)
        right[n[(n >= 0) & (k >= 0)], k[(n >= 0) & (k >= 0)]] = True
        known = np.zeros(a.n_items, np.bool_)
        known[n[n >= 0]] = True
        self.skills_ = by_worker(a, accuracy(a, right, known), "skill")
        return self


@dataclass(eq=False)
class ZeroBasedSkill(_BySkill):
    """Skills that start as those of a random worker and approach the agreement with the weighted vote.

    Parameters
    ----------
    n_iter
        Number of steps.
    lr_init, lr_steps_to_reduce, lr_reduce_factor
        How much of the way a step goes, after how many steps that is reduced, and by which factor.
    eps
        How much better than chance workers are at the start.
    """

    n_iter: int = 100
    lr_init: float = 1.0
    lr_steps_to_reduce: int = 20
    lr_reduce_factor: float = 0.5
    eps: float = 1e-5

    def fit(self, data: Any) -> Self:
        """Find the skills."""
        a = read(data)
        if a is None:
            self.skills_ = _no_skills()
            return self
        skill = np.full(a.n_annotators, 1.0 / a.n_classes + self.eps)
        for step in range(1, self.n_iter + 1):
            # s  ←  s + rate (agreement with the vote - s)
            rate = self.lr_init * self.lr_reduce_factor ** (step // self.lr_steps_to_reduce)
            skill += rate * (accuracy(a, truth_table(weighted_shares(a, skill))) - skill)
        self.skills_ = by_worker(a, skill, "skill")
        return self


def weighted_shares(a: Annotations, weight: Floats) -> Floats:
    """Return the share of the weights behind each label of each item, (N, K)."""
    cell = a.item_of_label() * a.n_classes + a.label
    size = a.n_items * a.n_classes
    shares = np.bincount(cell, weight[a.annotator].astype(np.float64), size).reshape(a.n_items, a.n_classes)
    total = shares.sum(axis=1)
    if (weightless := total <= 0).any():
        shares[weightless] = np.bincount(cell, minlength=size).reshape(shares.shape)[weightless]
        total = shares.sum(axis=1)
    normalised: Floats = shares / total[:, None]
    return normalised


def truth_table(posterior: Floats) -> Bools:
    """Return which label of each item is the most probable, (N, K)."""
    best: Bools = posterior.argmax(axis=1)[:, None] == np.arange(posterior.shape[1])
    return best


def accuracy(a: Annotations, right: Bools, known: Bools | None = None) -> Floats:
    """Return the share of each annotator's answers that are right, (M,); NaN without answers.

    ``right`` (N, K) says which labels are right, ``known`` (N,) which items count; repeated answers count once.
    """
    item = a.item_of_label()
    answers = np.unique((item * a.n_annotators + a.annotator) * a.n_classes + a.label)
    pair, label = np.divmod(answers, a.n_classes)
    item, annotator = np.divmod(pair, a.n_annotators)
    counts = np.ones(item.size, np.bool_) if known is None else known[item]
    total = np.bincount(annotator, counts, a.n_annotators)
    found = np.bincount(annotator, counts & right[item, label], a.n_annotators)
    shares = np.full(a.n_annotators, np.nan)
    np.divide(found, total, out=shares, where=total > 0)
    return shares


def _no_skills() -> Any:
    import pandas as pd

    return pd.Series(dtype=float, name="skill")
