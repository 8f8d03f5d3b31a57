"""Coefficients of agreement beyond chance, with bootstrap intervals.

Item u has n_u labels, c_uk of them k.  Items with one label carry no information on agreement.

======================  ==================================================================================
coefficient             definition
======================  ==================================================================================
observed                P = mean over items of Σ_k c_uk (c_uk - 1) / (n_u (n_u - 1))
Krippendorff's α        1 - D_o / D_e;  D_o = Σ_u Σ_kl c_uk (c_ul - [k = l]) d_kl² / (n_u - 1) / n,
                        D_e = Σ_kl n_k n_l d_kl² / (n (n - 1)),  n_k labels k, n in all
Fleiss' κ               (P - Σ_k π_k²) / (1 - Σ_k π_k²),  π_k mean over items of c_uk / n_u
Gwet's AC1              the same with Σ_k π_k (1 - π_k) / (K - 1) in place of Σ_k π_k²
Cohen's κ               (p_o - p_e) / (1 - p_e) of two annotators on their common items; its mean over all pairs,
                        weighted by common items (Light 1971 where everybody labelled everything)
======================  ==================================================================================

The distance d of α is [k ≠ l] (nominal), v_k - v_l of the classes' values (interval), or the same with the mean ranks
v_k = n_1 + … + n_(k-1) + n_k / 2 (ordinal).  Since Σ_kl c_k c_l (v_k - v_l)² = 2 (n Σ c_k v_k² - (Σ c_k v_k)²), all but
Cohen's κ take time linear in the number of labels.  With missing labels, Fleiss' κ and AC1 are as in Gwet (2014).

Intervals are percentiles of a bootstrap over items, or over ``AGREEMENT_BLOCKS`` blocks of items where there are more.

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
from consilience.diagnose.coefficients import bootstrap_totals, coefficients, mean_ranks, total
from consilience.diagnose.cohen import CohensKappa
from consilience.diagnose.constants import AGREEMENT_BLOCKS, AGREEMENT_ROOM
from consilience.diagnose.graph import single_answers
from consilience.exceptions import DataError, ParameterError
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.agreement import agreement_sums

__all__ = ["Agreement", "Level", "Measure", "agreement", "in_canonical_order", "measured"]

Level = Literal["nominal", "ordinal", "interval", "jaccard", "masi"]

_FORMAT = {"format": "consilience.Agreement", "version": 1}
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
    """Coefficients of agreement, with intervals."""

    observed: Measure  #: share of equal pairs of labels of an item, mean over items
    alpha: Measure  #: Krippendorff's α
    fleiss: Measure  #: Fleiss' κ
    cohen: Measure  #: Cohen's κ, mean over pairs of annotators
    gwet: Measure  #: Gwet's AC1
    level: Level  #: distance between classes, for α
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
        """Frame with a row for each pair of annotators who share items: annotator, other, common_items, kappa.

        With more than a hundred annotators, those with the most labels.
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
        """Return everything but the pairs in plain values, as in JSON."""
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
    """Measure agreement beyond chance; labels may be missing.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, or the path of a file.
    level
        Distance between classes, for Krippendorff's α: "nominal" (all alike), "ordinal" (they have an order: that of
        ``classes``) or "interval" (they are numbers).  Answers that name several options, joined by ``|``, have the
        distances "jaccard" or "masi"; an answer that names none counts.
    values
        Values of the classes at the level "interval", in their order; their names by default.
    bootstrap
        Bootstrap samples of the items, for the intervals; 0 for no intervals.
    confidence
        Of the intervals.
    seed
        Seed of the bootstrap.

    Examples
    --------
    >>> import consilience as cs
    >>> print(cs.agreement([[1, 1], [2, 2], [1, 2], [2, 2]], bootstrap=0).alpha)
    0.533
    """
    _check(level, bootstrap, confidence)
    if level in ("jaccard", "masi"):
        from consilience.diagnose.set_agreement import set_agreement
        from consilience.io.sets import read_sets

        if values is not None:
            raise ParameterError(f"values are for level='interval', not for {level!r}")
        return set_agreement(read_sets(data), level, bootstrap=bootstrap, confidence=confidence, seed=seed)
    annotations = as_annotations(data)
    numbers = _values(annotations.class_ids, level, values)
    a = in_canonical_order(single_answers(annotations, gold=False))
    K, N = a.n_classes, a.n_items
    if not (a.labels_per_item > 1).any():
        raise DataError("no item has labels of two annotators: there is no agreement to measure")
    rng = np.random.default_rng(seed)
    coincide = level == "ordinal" and 200 * K * K <= AGREEMENT_ROOM
    n_blocks = min(N, AGREEMENT_BLOCKS, max(50, AGREEMENT_ROOM // (K * K if coincide else K))) if bootstrap else 1
    block = np.zeros(N, np.int32)
    if n_blocks > 1:
        block[:] = np.arange(N) if n_blocks == N else rng.permutation(N) % n_blocks
    if level == "ordinal" and not coincide:
        # too many classes for a table of their pairs: the ranks are those of all labels, in every draw
        paired = np.repeat(a.labels_per_item > 1, a.labels_per_item)
        numbers = mean_ranks(np.bincount(a.label[paired], minlength=K).astype(np.float64)[None])[0]
    sums = agreement_sums(a.indptr, a.label, block, n_blocks, numbers, coincide)
    found = coefficients(total(sums, np.ones((1, n_blocks))), level, numbers)
    drawn = [coefficients(part, level, numbers) for part in bootstrap_totals(sums, bootstrap, rng)]
    cohen = CohensKappa.of(a)
    tail = (1.0 - confidence) / 2.0
    return Agreement(
        **{name: measured(value[0], [part[name] for part in drawn], tail) for name, value in found.items()},
        cohen=measured(cohen.mean(), [cohen.bootstrap(bootstrap, rng)], tail),
        level=level,
        confidence=confidence,
        draws=bootstrap,
        n_items=int(sums.sums[:, 1].sum()),
        n_labels=int(sums.sums[:, 2].sum()),
        n_annotators=int((a.labels_per_annotator > 0).sum()),
        origin=annotations.origin,
        _pairs=(annotations.annotator_ids, cohen.who, *cohen.of_pairs()),
    )


def _check(level: str, bootstrap: int, confidence: float) -> None:
    if level not in get_args(Level):
        raise ParameterError(f"level must be 'nominal', 'ordinal', 'interval', 'jaccard' or 'masi', not {level!r}")
    if bootstrap < 0 or bootstrap == 1:
        raise ParameterError(f"bootstrap must be 0, or at least 2 draws, not {bootstrap!r}")
    if not 0.0 < confidence < 1.0:
        raise ParameterError(f"confidence must be a number between 0 and 1, not {confidence!r}")


def _values(classes: Ids, level: Level, values: Sequence[float] | None) -> Floats:
    """Return a number for every class, (K,): zeros where the level needs none."""
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


def in_canonical_order(answers: Annotations) -> Annotations:
    """Drop items without labels; sort the others by content, so that draws do not depend on names or row order."""
    a, some = answers, answers.labels_per_item > 0
    a = a if some.all() else a.select_items(some)
    if not 0 < a.n_items <= AGREEMENT_BLOCKS:
        return a
    K = a.n_classes
    cell = a.annotator.astype(np.int64) * K + a.label
    of_label = np.bincount(a.label, minlength=K)[a.label].astype(np.float64)
    of_cell = np.sqrt(np.bincount(cell, minlength=a.n_annotators * K))[cell]
    keys = (np.add.reduceat(value, a.indptr[:-1]) for value in (of_label * of_cell, of_cell, np.sqrt(of_label)))
    return a.select_items(np.lexsort([np.round(key, 6) for key in keys]))


def measured(value: float, drawn: list[Floats], tail: float) -> Measure:
    """Return a coefficient with the interval of its bootstrap."""
    if np.isnan(value):
        return Measure(None, None, None)
    sample = np.concatenate([np.empty(0), *drawn])
    sample = sample[~np.isnan(sample)]
    low, high = np.quantile(sample, [tail, 1.0 - tail]).tolist() if sample.size > 1 else (None, None)
    return Measure(float(value), low, high)
