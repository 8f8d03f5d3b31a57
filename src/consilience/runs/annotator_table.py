"""Accuracy, information, bias and flags of each annotator.

T. Louis, "Finding the observed information matrix when using the EM algorithm" (1982).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene

__all__ = [
    "FEW",
    "Change",
    "Health",
    "accuracy_columns",
    "annotator_columns",
    "annotator_table",
    "information",
]

#: With fewer labels than this, the figures of an annotator are mostly noise.
FEW = 10
#: An annotator whose labels carry less than this share of the class entropy is a spammer.
_SPAM = 0.02
#: Significance level of the test for bias.
_CHANCE = 0.01
#: A label of uncertain truth counts at least this much of one whose truth is known.
_LEAST_WORTH = 0.1
#: Least recall and precision of a specialist, and least difference to their accuracy on other classes.
_KNOWS, _BETTER = 0.85, 0.1


def information(prior: Floats, confusions: Floats) -> Floats:
    """Return the mutual information of the truth and one label of each annotator, in bits, (M,)."""
    # I = Σ_k π_k Σ_i A(i, k) log2( A(i, k) / Σ_k' π_k' A(i, k') )
    marginal = confusions @ prior
    ratio = np.divide(
        confusions,
        marginal[:, :, None],
        out=np.ones_like(confusions),
        where=(confusions > 0) & (marginal[:, :, None] > 0),
    )
    bits: Floats = np.einsum("k,mik,mik->m", prior, confusions, np.log2(ratio))
    return np.maximum(bits, 0.0)


class Change(NamedTuple):
    """An annotator whose quality changes over time."""

    annotator: int  #: code
    when: str  #: time of the change
    before: float  #: share of right labels before the change
    after: float  #: and after it
    chance: float  #: probability of such a change if the annotator is steady


@dataclass(frozen=True)
class Health:
    """What the labels show about annotators beyond their confusions."""

    effective: float | None = None  #: effective number of independent annotators
    by_gold: bool = False  #: whether it comes from known answers; without them, errors shared by all are not seen
    copies: tuple[tuple[int, ...], ...] = ()  #: codes of annotators who copy each other
    changes: tuple[Change, ...] = ()  #: annotators who change over time

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        changes = [change._asdict() for change in self.changes]
        return {"by_gold": self.by_gold, "copies": [list(group) for group in self.copies], "changes": changes}

    @classmethod
    def from_dict(cls, effective: float | None, content: Mapping[str, Any] | None) -> Health:
        """Return what :meth:`to_dict` described."""
        content = content or {}
        return cls(
            effective,
            bool(content.get("by_gold", False)),
            tuple(tuple(group) for group in content.get("copies", ())),
            tuple(Change(**change) for change in content.get("changes", ())),
        )


def annotator_columns(
    model: DawidSkene,
    counts: Floats,
    doubt: Floats | None = None,
    health: Health | None = None,
    *,
    choose: bool = False,
) -> dict[str, Any]:
    """Return the columns n_labels, accuracy, information, bias, flags, low and high (95 % interval of the accuracy).

    The accuracy is the expected share of an annotator's labels that are right.  If the truths were known, its interval
    would be Jeffreys' for n labels.  They are only known with probabilities r, so the information about p is that of
    known truths, less the missing information (Louis 1982):

        n / (p (1 - p))  -  Σ r (1 - r) / (p (1 - p))²   =   n (1 - f) / (p (1 - p)),   f = Σ r (1 - r) / (n p (1 - p)),

    so the interval is Jeffreys' for n (1 - f) labels.  The other annotators' confusions are taken as known.

    Parameters
    ----------
    model
        Prior and confusions.
    counts
        Expected number of times that m said i of truth k, (M, K, K).
    doubt
        Σ r (1 - r) over the labels of each annotator, (M,); zero by default.
    health
        Copies and changes over time.
    choose
        Whether annotators choose when to speak: then one who always says the same is no spammer, and not biased.
    """
    accuracy = accuracy_columns(np.einsum("mkk->m", counts), counts.sum(axis=(1, 2)), doubt)
    bits = information(model.prior, model.confusions)
    flags = _flags(model, counts, bits, np.asarray(accuracy["high"]), health or Health(), choose)
    return annotator_table(accuracy, bits, _biases(model), flags)


def accuracy_columns(right: Floats, n_labels: Floats, doubt: Floats | None = None) -> dict[str, pa.Array]:
    """Return the columns n_labels, accuracy, low and high from expected right labels; see :func:`annotator_columns`."""
    nobody = n_labels < 0.5
    accuracy = np.divide(right, n_labels, out=np.zeros(n_labels.size), where=~nobody)
    worth = np.ones(n_labels.size) if doubt is None else _worth(right, n_labels, doubt)
    low, high = _interval(right * worth, n_labels * worth)
    # Jeffreys' interval may leave out an observed accuracy of exactly 0 or 1.
    low, high = np.minimum(low, accuracy), np.maximum(high, accuracy)
    return {
        "n_labels": pa.array(np.rint(n_labels).astype(np.int64)),
        "accuracy": pa.array(accuracy, mask=nobody),
        "low": pa.array(low),
        "high": pa.array(high),
    }


def annotator_table(
    accuracy: Mapping[str, pa.Array], bits: Floats, biases: list[str], flags: list[str]
) -> dict[str, pa.Array]:
    """Return the columns of an annotator table in their order."""
    others = {
        "information": pa.array(bits),
        "bias": pa.array(biases, pa.string()),
        "flags": pa.array(flags, pa.string()),
    }
    columns = {**accuracy, **others}
    return {name: columns[name] for name in ("n_labels", "accuracy", *others, "low", "high")}


def _worth(right: Floats, n: Floats, doubt: Floats) -> Floats:
    """Return 1 - f: the information of a label relative to one of known truth, (M,)."""
    p = (right + 0.5) / (n + 1.0)
    share: Floats = np.maximum(1.0 - doubt / (np.maximum(n, 1.0) * p * (1.0 - p)), _LEAST_WORTH)
    return share


def _interval(right: Floats, n: Floats, tail: float = 0.025) -> tuple[Floats, Floats]:
    """Return Jeffreys' interval of a proportion."""
    from scipy.special import betaincinv

    a, b = right + 0.5, np.maximum(n - right, 0.0) + 0.5
    return betaincinv(a, b, tail), betaincinv(a, b, 1.0 - tail)


# ---- flags --------------------------------------------------------------------------------------------------------


def _flags(model: DawidSkene, counts: Floats, bits: Floats, high: Floats, health: Health, choose: bool) -> list[str]:
    """Return what stands out about each annotator, in words."""
    M, K, _ = counts.shape
    entropy = -float(np.sum(model.prior * np.log2(np.maximum(model.prior, 1e-300))))
    few = counts.sum(axis=(1, 2)) < FEW
    spam = ~few & (bits < _SPAM * entropy) & (not choose)
    adversary = ~few & ~spam & (high < 1.0 / K)
    ordinary = ~(few | spam | adversary) & (not choose)
    said: list[list[str]] = [[] for _ in range(M)]
    for name, holds in (("few labels", few), ("spammer", spam), ("adversary", adversary)):
        for m in np.flatnonzero(holds).tolist():
            said[m].append(name)
    for what, (who, k) in (("biased towards", _biased(counts)), ("specialist of", _specialists(counts))):
        for m, code in zip(who.tolist(), k.tolist(), strict=True):
            if ordinary[m]:
                said[m].append(f"{what} {model.classes[code]}")
    for change in health.changes:
        said[change.annotator].append("changes over time")
    for group in health.copies:
        for m in group:
            said[m].append(f"copies {_listed([str(model.annotators[j]) for j in group if j != m])}")
    return ["; ".join(words) for words in said]


def _biased(counts: Floats) -> tuple[Ints, Ints]:
    """Return annotators who label a class k as i more often than as k, and i.

    It is a one-sided binomial test: if k and i were equally likely, n_ik or more of the n labels of class k that are k
    or i would be i with a probability below ``_CHANCE`` / K.
    """
    from scipy.special import betainc

    K = counts.shape[1]
    if K < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    right = np.einsum("mkk->mk", counts)
    wrong = counts.copy()
    wrong[:, np.arange(K), np.arange(K)] = -1.0
    instead = wrong.argmax(axis=1)
    most = np.maximum(np.take_along_axis(wrong, instead[:, None, :], 1)[:, 0, :], 0.0)
    # Pr(X ≥ a) in a + b tosses of a coin, for real a and b: I_½(a, b + 1)
    chance = np.where(most > right, betainc(np.maximum(most, 1e-9), right + 1.0, 0.5), 1.0)
    clear = chance < _CHANCE / K
    who = np.flatnonzero(clear.any(axis=1))
    worst = np.where(clear[who], most[who], -1.0).argmax(axis=1)
    return who, instead[who, worst]


def _specialists(counts: Floats) -> tuple[Ints, Ints]:
    """Return annotators who know one class far better than the others, and the class.

    The lower bounds of recall and precision are at least ``_KNOWS``, and the upper bound of the accuracy on other
    classes is lower than the recall by at least ``_BETTER``.
    """
    K = counts.shape[1]
    if K < 3:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    right, met, used = np.einsum("mkk->mk", counts), counts.sum(axis=1), counts.sum(axis=2)
    recall, precision = _interval(right, met)[0], _interval(right, used)[0]
    elsewhere = right.sum(axis=1, keepdims=True) - right, met.sum(axis=1, keepdims=True) - met
    others = _interval(*elsewhere)[1]
    share = np.divide(right, met, out=np.zeros_like(right), where=met > 0)
    known = (recall >= _KNOWS) & (precision >= _KNOWS) & (others <= share - _BETTER)
    who = np.flatnonzero(known.any(axis=1))
    return who, np.where(known[who], share[who], -1.0).argmax(axis=1)


def _listed(names: list[str], most: int = 3) -> str:
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"


def _biases(model: DawidSkene) -> list[str]:
    """Return the most frequent mistake of each annotator, in words."""
    K = model.prior.size
    if K == 1:
        return [""] * len(model.annotators)
    mistakes = model.confusions * model.prior
    mistakes[:, np.arange(K), np.arange(K)] = -1.0
    worst = mistakes.reshape(len(mistakes), -1).argmax(axis=1)
    said, truth = np.unravel_index(worst, (K, K))
    share = model.confusions[np.arange(len(worst)), said, truth]
    names = [str(name) for name in model.classes]
    return [
        f"says {names[i]} for {names[k]} ({100 * p:.0f}%)" if p >= 0.005 else ""
        for i, k, p in zip(said, truth, share, strict=True)
    ]
