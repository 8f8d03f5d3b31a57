"""How far annotators agree, beyond what guessing would give: the coefficients that people report.

With n_u labels of item u, c_uk of them k; items with one label say nothing of agreement.

======================  ==================================================================================
coefficient             definition
======================  ==================================================================================
observed                P = mean over items of Σ_k c_uk (c_uk - 1) / (n_u (n_u - 1))
Krippendorff's α        1 - D_o / D_e;  D_o = Σ_u Σ_kl c_uk (c_ul - [k = l]) d_kl² / (n_u - 1) / n,
                        D_e = Σ_kl n_k n_l d_kl² / (n (n - 1)),  n_k labels k, n in all
Fleiss' κ               (P - Σ_k π_k²) / (1 - Σ_k π_k²),  π_k mean over items of c_uk / n_u
Gwet's AC1              the same with Σ_k π_k (1 - π_k) / (K - 1) in place of Σ_k π_k²
Cohen's κ               (p_o - p_e) / (1 - p_e) of two annotators on their common items; its mean over all pairs,
                        each weighted by its common items (Light 1971 where everybody labelled everything)
======================  ==================================================================================

The distance d of α is [k ≠ l] (nominal), v_k - v_l of the classes' values (interval), or the same with the mean ranks
v_k = n_1 + … + n_(k-1) + n_k / 2 (ordinal).  Then Σ_kl c_k c_l (v_k - v_l)² = 2 (n Σ c_k v_k² - (Σ c_k v_k)²), so that
no pair of labels is ever looked at: all but Cohen's κ are linear in the number of labels.  With missing labels the
definitions of Fleiss' κ and AC1 are Gwet's (2014).

Intervals are percentiles of a bootstrap over items.  Of more than ``BLOCKS`` items, blocks of items are drawn.

K. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).  J. Fleiss, "Measuring nominal scale agreement
among many raters" (1971).  J. Cohen, "A coefficient of agreement for nominal scales" (1960).  R. Light, "Measures of
response agreement for qualitative data" (1971).  K. Gwet, "Computing inter-rater reliability and its variance in the
presence of high agreement" (2008); "Handbook of inter-rater reliability" (2014), chapter 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations, Origin
from consilience.data.ids import Ids
from consilience.exceptions import DataError, ParameterError
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.agreement import AgreementSums, agreement_sums
from consilience.kernels.grouping import drop_repeats
from consilience.moments.label_pairs import label_pairs, labels_of_some

__all__ = ["Agreement", "Level", "Measure", "agreement"]

Level = Literal["nominal", "ordinal", "interval"]

_FORMAT = {"format": "consilience.Agreement", "version": 1}

#: Blocks of items that are drawn; with as many items or fewer, items are.
BLOCKS = 2000
#: Numbers that the sums of all blocks may take.
_ROOM = 1 << 24
#: Cohen's κ: annotators, pairs of labels, and cells of all tables of two annotators, that are looked at.
_PEOPLE = 100
_PAIRS, _CELLS = 1 << 18, 1 << 18
#: Pairs of labels times draws, for its interval.
_WORK = 1 << 26
_NAMES = {
    "observed": "observed agreement",
    "alpha": "Krippendorff's α",
    "fleiss": "Fleiss' κ",
    "cohen": "Cohen's κ",
    "gwet": "Gwet's AC1",
}


class Measure(NamedTuple):
    """A coefficient with its interval; None where it is not defined, as when every label is the same."""

    value: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.value is None:
            return "not defined"
        between = "" if self.low is None or self.high is None else f" ({self.low:.3f} to {self.high:.3f})"
        return f"{self.value:.3f}{between}"


@dataclass(frozen=True, eq=False)
class Agreement:
    """How far annotators agree, with intervals."""

    observed: Measure  #: share of pairs of labels on an item that are the same, mean over items
    alpha: Measure  #: Krippendorff's α
    fleiss: Measure  #: Fleiss' κ
    cohen: Measure  #: Cohen's κ, mean over pairs of annotators
    gwet: Measure  #: Gwet's AC1
    level: Level  #: the distance that α takes between classes
    confidence: float  #: of the intervals
    draws: int  #: of the bootstrap
    n_items: int  #: items with two labels or more
    n_labels: int  #: labels of these items
    n_annotators: int
    origin: Origin = field(default_factory=Origin)
    _pairs: tuple[Ids, Ints, Floats, Floats] | None = field(default=None, repr=False)

    @cached_property
    def table(self) -> Any:
        """Frame with a row for each coefficient: measure, value, low, high."""
        rows = list(self._measures())
        columns = {"measure": pa.array([_NAMES[name] for name, _ in rows])}
        columns |= {part: pa.array([getattr(m, part) for _, m in rows], pa.float64()) for part in Measure._fields}
        return _frames.make(columns, self.origin.frame)

    @cached_property
    def pairs(self) -> Any:
        """Frame with a row for each pair of annotators who share items: both, common_items, kappa (Cohen's).

        Of many annotators, those with the most labels.
        """
        ids, who, common, kappa = self._pairs or (Ids.range(0), np.empty((0, 2), np.int64), np.empty(0), np.empty(0))
        names = ids.to_arrow()
        return _frames.make(
            {
                "annotator": names.take(pa.array(who[:, 0])),
                "other": names.take(pa.array(who[:, 1])),
                "common_items": pa.array(np.rint(common).astype(np.int64)),
                "kappa": pa.array(kappa, mask=np.isnan(kappa)),
            },
            self.origin.frame,
        )

    def to_dict(self) -> dict[str, Any]:
        """Give everything but the pairs in plain values, as JSON holds them."""
        return {
            **_FORMAT,
            **{name: measure._asdict() for name, measure in self._measures()},
            "level": self.level,
            "confidence": self.confidence,
            "draws": self.draws,
            "items": self.n_items,
            "labels": self.n_labels,
            "annotators": self.n_annotators,
        }

    def _measures(self) -> Iterator[tuple[str, Measure]]:
        return ((name, getattr(self, name)) for name in _NAMES)

    def __str__(self) -> str:
        return ", ".join(f"{_NAMES[name]} {measure}" for name, measure in self._measures())

    def __repr__(self) -> str:
        return f"<Agreement: α {self.alpha}, {self.n_items} items, {self.n_annotators} annotators>"


def agreement(
    data: Any,
    *,
    level: Level = "nominal",
    values: Sequence[float] | None = None,
    bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Measure how far annotators agree beyond chance; labels may be missing.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, or the path of a file.
    level
        How far classes are apart, for Krippendorff's α: "nominal" (all alike), "ordinal" (they have an order: that of
        ``classes``) or "interval" (they are numbers).
    values
        The numbers behind the classes at the level "interval", in their order; their names by default.
    bootstrap
        How often items are drawn with replacement, for the intervals; 0 leaves these out.
    confidence
        Of the intervals.
    seed
        Decides the draws.

    Examples
    --------
    >>> import consilience as cs
    >>> print(cs.agreement([[1, 1], [2, 2], [1, 2], [2, 2]], bootstrap=0).alpha)
    0.533
    """
    annotations = as_annotations(data)
    _check(level, bootstrap, confidence)
    numbers = _values(annotations.class_ids, level, values)
    a = _once(annotations)
    K, N = a.n_classes, a.n_items
    if not (a.labels_per_item > 1).any():
        raise DataError("no item has labels of two annotators: there is no agreement to measure")
    rng = np.random.default_rng(seed)
    coincide = level == "ordinal" and 200 * K * K <= _ROOM
    n_blocks = min(N, BLOCKS, max(50, _ROOM // (K * K if coincide else K)))
    block = np.arange(N) if n_blocks == N else rng.permutation(N) % n_blocks
    if level == "ordinal" and not coincide:
        # too many classes for a table of their pairs: ranks stay those of all labels
        paired = np.repeat(a.labels_per_item > 1, a.labels_per_item)
        numbers = _mean_ranks(np.bincount(a.label[paired], minlength=K).astype(np.float64)[None])[0]
    sums = agreement_sums(a.indptr, a.label, block.astype(np.int64), n_blocks, numbers, coincide)
    found = _coefficients(_total(sums, np.ones((1, n_blocks))), level, numbers)
    drawn = [_coefficients(part, level, numbers) for part in _draws(sums, bootstrap, rng)]
    cohen = _Cohen.of(a)
    tail = (1.0 - confidence) / 2.0
    measures = {
        name: _measure(found[name][0], [part[name] for part in drawn], tail)
        for name in ("observed", "alpha", "fleiss", "gwet")
    }
    return Agreement(
        **measures,
        cohen=_measure(cohen.mean(), [cohen.drawn(bootstrap, rng)], tail),
        level=level,
        confidence=confidence,
        draws=bootstrap,
        n_items=int(sums.sums[:, 1].sum()),
        n_labels=int(sums.sums[:, 2].sum()),
        n_annotators=int((a.labels_per_annotator > 0).sum()),
        origin=annotations.origin,
        _pairs=(a.annotator_ids, cohen.who, *cohen.kappas()),
    )


def _check(level: str, bootstrap: int, confidence: float) -> None:
    if level not in get_args(Level):
        raise ParameterError(f"level must be 'nominal', 'ordinal' or 'interval', not {level!r}")
    if bootstrap < 0 or bootstrap == 1:
        raise ParameterError(f"bootstrap must be 0, or at least 2 draws, not {bootstrap!r}")
    if not 0.0 < confidence < 1.0:
        raise ParameterError(f"confidence must be a number between 0 and 1, not {confidence!r}")


def _values(classes: Ids, level: Level, values: Sequence[float] | None) -> Floats:
    """Give a number for every class, (K,): zeros where the level needs none."""
    if level != "interval":
        if values is not None:
            raise ParameterError(f"values are for level='interval', not for {level!r}")
        return np.zeros(len(classes))
    try:
        numbers = np.asarray(list(classes) if values is None else values, np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape != (len(classes),) or not np.isfinite(numbers).all():
        raise ParameterError(
            f"the level 'interval' needs a number for each of the {len(classes)} classes, which are "
            f"{', '.join(map(repr, classes[:5]))}{', …' if len(classes) > 5 else ''}; give them as values=…"
        )
    return numbers


def _once(annotations: Annotations) -> Annotations:
    """Give the last answer of everybody to every item that has one."""
    a = annotations
    indptr, by, said, repeats = drop_repeats(a.indptr, a.annotator, a.label, a.n_annotators, "last")
    if repeats:
        a = Annotations(indptr, by, said, items=a.item_ids, annotators=a.annotator_ids, classes=a.class_ids)
    some = a.labels_per_item > 0
    a = a if some.all() else a.select_items(some)
    if not 0 < a.n_items <= BLOCKS:
        return a
    # in an order that does not depend on that of the rows, nor on names: the draws are the same then
    K = a.n_classes
    cell = a.annotator.astype(np.int64) * K + a.label
    often = np.bincount(a.label, minlength=K)[a.label].astype(np.float64)
    by_whom = np.sqrt(np.bincount(cell, minlength=a.n_annotators * K))[cell]
    keys = (np.add.reduceat(value, a.indptr[:-1]) for value in (often * by_whom, by_whom, np.sqrt(often)))
    return a.select_items(np.lexsort([np.round(key, 6) for key in keys]))


# ---- all but Cohen's ----------------------------------------------------------------------------------------------


def _total(sums: AgreementSums, weights: Floats) -> AgreementSums:
    """Add blocks up, each as often as ``weights`` say, (draws, B)."""
    B, K = sums.classes.shape
    coincidences = sums.coincidences
    if coincidences.size:
        coincidences = (weights @ coincidences.reshape(B, K * K)).reshape(len(weights), K, K)
    return AgreementSums(weights @ sums.sums, weights @ sums.classes, weights @ sums.shares, coincidences)


def _draws(sums: AgreementSums, n: int, rng: np.random.Generator) -> Iterator[AgreementSums]:
    B, K = sums.classes.shape
    step = max(1, (1 << 22) // max(B, K * K if sums.coincidences.size else K))
    for first in range(0, n, step):
        yield _total(sums, _drawn(rng, B, min(step, n - first)))


def _drawn(rng: np.random.Generator, n: int, draws: int) -> Floats:
    """Draw n of n with replacement, so many times: how often each was drawn, (draws, n)."""
    places = rng.integers(0, n, (draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(places.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float64)


def _coefficients(total: AgreementSums, level: Level, values: Floats) -> dict[str, Floats]:
    """Give the coefficients, one for each row of the sums; NaN where they are not defined."""
    items, two, n, agree, same, spread = total.sums.T
    K = total.classes.shape[1]
    observed = _ratio(agree, two)
    share = _ratio(total.shares, items[:, None])
    even = (share * share).sum(axis=1)
    by_gwet = (1.0 - even) / (K - 1) if K > 1 else np.zeros_like(even)
    if level == "nominal":
        # Σ_(k ≠ l) c_k c_l / (n - 1) = n (1 - P), and Σ_(k ≠ l) n_k n_l = n² - Σ n_k²
        within = n - same
        between = n * n - (total.classes**2).sum(axis=1)
    else:
        v = _mean_ranks(total.classes) if total.coincidences.size else np.broadcast_to(values, total.classes.shape)
        if total.coincidences.size:
            S = total.coincidences
            within = 2.0 * ((S.sum(axis=2) * v * v).sum(axis=1) - np.einsum("dk,dkl,dl->d", v, S, v))
        else:
            within = spread
        between = 2.0 * (n * (total.classes * v * v).sum(axis=1) - (total.classes * v).sum(axis=1) ** 2)
    between = np.where(between > 1e-12 * n * n, between, 0.0)
    return {
        "observed": observed,
        "alpha": 1.0 - _ratio(within * (n - 1.0), between),
        "fleiss": _beyond(observed, even),
        "gwet": _beyond(observed, by_gwet),
    }


def _mean_ranks(classes: Floats) -> Floats:
    """Give the mean rank of the labels of every class, (draws, K)."""
    ranks: Floats = np.cumsum(classes, axis=1) - 0.5 * classes
    return ranks


def _beyond(observed: Floats, chance: Floats) -> Floats:
    return _ratio(observed - chance, np.where(chance < 1.0 - 1e-12, 1.0 - chance, 0.0))


def _ratio(top: Floats, bottom: Floats) -> Floats:
    ratio: Floats = np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom != 0)
    return ratio


def _measure(value: float, drawn: list[Floats], tail: float) -> Measure:
    if np.isnan(value):
        return Measure(None, None, None)
    sample = np.concatenate([np.empty(0), *drawn])
    sample = sample[~np.isnan(sample)]
    low, high = np.quantile(sample, [tail, 1.0 - tail]).tolist() if sample.size > 1 else (None, None)
    return Measure(float(value), low, high)


# ---- Cohen's κ ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Cohen:
    """The label pairs of pairs of annotators, so that their tables can be counted for any weights of the items."""

    who: Ints  #: the two annotators of each pair, (P, 2)
    cell: Ints  #: place of each label pair in all tables
    item: Ints  #: its item, among ``n_items``
    n_items: int
    n_classes: int

    @classmethod
    def of(cls, annotations: Annotations) -> _Cohen:
        M, K = annotations.n_annotators, annotations.n_classes
        most = max(2, min(_PEOPLE, int(np.sqrt(2.0 * _CELLS) / K)))
        chosen = np.arange(M)
        if most < M:
            chosen = np.sort(np.argsort(-annotations.labels_per_annotator, kind="stable")[:most])
            annotations = annotations.select_annotators(chosen)
        _, indptr, annotator, label = labels_of_some(annotations, _PAIRS)
        first, second = label_pairs(indptr)
        one, other = annotator[first], annotator[second]
        a, b = label[first], label[second]
        swap = one > other
        one, other, a, b = np.where(swap, other, one), np.where(swap, one, other), *_swapped(a, b, swap)
        pairs, pair = np.unique(one * chosen.size + other, return_inverse=True)
        who = chosen[np.stack([pairs // chosen.size, pairs % chosen.size], axis=1)]
        item = np.searchsorted(indptr, first, side="right") - 1
        return cls(who, (pair * K + a) * K + b, item, indptr.size - 1, K)

    def tables(self, weights: Floats) -> Floats:
        """Count the labels of every pair, (P, K, K, draws), each item as often as its weights say, (items, draws)."""
        from scipy.sparse import csr_array

        K, P = self.n_classes, len(self.who)
        places = csr_array((np.ones(self.cell.size), (self.cell, self.item)), shape=(P * K * K, self.n_items))
        counted: Floats = (places @ weights).reshape(P, K, K, -1)
        return counted

    def kappas(self) -> tuple[Floats, Floats]:
        """Give the common items of every pair, and Cohen's κ, NaN where it is not defined."""
        S, kappa = _kappas(self.tables(np.ones((self.n_items, 1))))
        return S[:, 0], kappa[:, 0]

    def mean(self) -> float:
        """Give the mean over the pairs, weighted by their common items."""
        S, kappa = self.kappas()
        return float(_mean(S[:, None], kappa[:, None])[0])

    def drawn(self, n: int, rng: np.random.Generator) -> Floats:
        """Give the mean for items drawn with replacement; fewer draws where there are many labels."""
        if n == 0 or not self.n_items:
            return np.empty(0)
        n = min(n, max(100, _WORK // max(self.cell.size, 1)))
        step = max(1, (1 << 22) // max(len(self.who) * self.n_classes**2, self.n_items))
        means = []
        for first in range(0, n, step):
            weights = _drawn(rng, self.n_items, min(step, n - first))
            means.append(_mean(*_kappas(self.tables(np.ascontiguousarray(weights.T)))))
        return np.concatenate(means)


def _kappas(counts: Floats) -> tuple[Floats, Floats]:
    """Give the items and Cohen's κ of tables (P, K, K, draws), both (P, draws)."""
    S = counts.sum(axis=(1, 2))
    agree = np.einsum("pkkd->pd", counts)
    chance = (counts.sum(axis=1) * counts.sum(axis=2)).sum(axis=1)
    return S, _beyond(_ratio(agree, S), _ratio(chance, S * S))


def _mean(S: Floats, kappa: Floats) -> Floats:
    """Give the mean over pairs, weighted by their items, (draws,); NaN where no pair has a κ."""
    defined = ~np.isnan(kappa)
    total = np.where(defined, S, 0.0).sum(axis=0)
    return _ratio(np.where(defined, S * kappa, 0.0).sum(axis=0), total)


def _swapped(a: Ints, b: Ints, swap: Any) -> tuple[Ints, Ints]:
    return np.where(swap, b, a), np.where(swap, a, b)
