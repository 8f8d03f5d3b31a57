"""How good labels and their probabilities are, where the truth is known: functions on arrays.

========== ==================================================== ======================
symbol     name                                                 shape
========== ==================================================== ======================
p_n(k)     ``posterior``, probability of class k for item n     (N, K)
t_n        ``truth``, class code of item n                      (N,)
l_n        ``labels``, the class that was chosen for item n     (N,)
c_n        confidence, p_n(l_n)                                 (N,)
========== ==================================================== ======================

An item whose truth is -1 is not judged.  A truth beyond the K classes is one that nobody named: its probability is
zero, and no label is right.  Where no labels are given, they are chosen as the library does
(:func:`consilience.runs.consensus.choose`, ties by the mean posterior).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.runs.consensus import choose

__all__ = [
    "FLOOR",
    "Reliability",
    "brier_score",
    "correlation_error",
    "error_rate",
    "expected_calibration_error",
    "f_score",
    "log_loss",
    "mean_confidence",
    "reliability",
]

#: The smallest probability that :func:`log_loss` takes for the truth, that of scikit-learn: one mistake made with
#: certainty costs 36 nats, not infinitely many.
FLOOR = float(np.finfo(np.float64).eps)

#: Confidences are put into bins after rounding to so many digits: 3 votes of 5 fall into one bin however computed.
_DIGITS = 12


@dataclass(frozen=True, eq=False)
class Reliability:
    """Items in bins ``(low, high]`` of confidence; a perfect forecaster's accuracy is the confidence."""

    low: Floats
    high: Floats
    count: Ints
    confidence: Floats  #: mean of the bin, NaN where it is empty
    accuracy: Floats  #: share of right labels in the bin, NaN where it is empty

    @property
    def calibration_error(self) -> float:
        """``Σ_b n_b |accuracy_b - confidence_b| / Σ_b n_b`` (Guo, Pleiss, Sun & Weinberger 2017, eq. (3))."""
        gaps = np.abs(self.accuracy - self.confidence)
        return float(np.sum(self.count * gaps, where=self.count > 0) / self.count.sum())


def error_rate(labels: Codes, truth: Codes) -> float:
    """Give the percentage of wrong labels."""
    labels, truth = np.asarray(labels), np.asarray(truth)
    if labels.shape != truth.shape:
        raise ParameterError(f"labels and truth must have the same shape, not {labels.shape} and {truth.shape}")
    judged = _judged(truth)
    return 100.0 * float(np.mean(labels[judged] != truth[judged]))


def f_score(labels: Codes, truth: Codes, *, bounds: Ints | None = None) -> float:
    """Give the mean F-score of the classes, 0 to 1 (Traganitis 2019, eqs (4.24)-(4.29)).

        F_k = 2 P_k R_k / (P_k + R_k) = 2 TP_k / (2 TP_k + FP_k + FN_k)

    FP_k counts items labelled k that are not, FN_k items of class k that are not labelled so; the page has the two
    swapped, which leaves F_k as it is.  A class that is neither among the labels nor among the truths of the items
    judged has no F-score and does not count.  With ``bounds``, where each sequence begins (S + 1,), it is the mean of
    the F-scores of the sequences (section 4.4.1).
    """
    labels, truth = np.asarray(labels), np.asarray(truth)
    if labels.shape != truth.shape:
        raise ParameterError(f"labels and truth must have the same shape, not {labels.shape} and {truth.shape}")
    judged = _judged(truth)
    group = np.zeros(truth.size, np.int64)
    if bounds is not None:
        if np.asarray(bounds)[-1] != truth.size:
            raise ParameterError(f"bounds end at {bounds[-1]}, but there are {truth.size} labels")
        group = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    group, labels, truth = group[judged], labels[judged], truth[judged]
    # a class within a sequence is one cell; a label of -1 is none
    K = int(max(labels.max(), truth.max())) + 1
    said, true = group * K + labels, group * K + truth
    cells, place = np.unique(np.concatenate([true, said[labels >= 0]]), return_inverse=True)
    both = np.bincount(place, minlength=cells.size)
    hits = np.bincount(place[: true.size][labels == truth], minlength=cells.size)
    of_group = np.unique(cells // K, return_inverse=True)[1]
    return float(np.mean(np.bincount(of_group, 2.0 * hits / both) / np.bincount(of_group)))


def log_loss(posterior: Floats, truth: Codes, *, floor: float = FLOOR) -> float:
    """Give the mean of -log p_n(t_n), in nats; probabilities below ``floor`` count as ``floor``."""
    posterior, truth, judged = _checked(posterior, truth)
    return -float(np.mean(np.log(np.maximum(_of_truth(posterior, truth)[judged], floor)))) + 0.0


def brier_score(posterior: Floats, truth: Codes) -> float:
    """Give the mean of Σ_k (p_n(k) - [t_n = k])², from 0 to 2 (Brier 1950).

    With two classes it is twice the score that looks at one of them alone.
    """
    posterior, truth, judged = _checked(posterior, truth)
    # Σ_k (p(k) - [t = k])² = Σ_k p(k)² - 2 p(t) + 1
    squares = np.einsum("nk,nk->n", posterior, posterior) - 2.0 * _of_truth(posterior, truth) + 1.0
    return max(float(np.mean(squares[judged])), 0.0)


def mean_confidence(posterior: Floats, truth: Codes, *, labels: Codes | None = None) -> float:
    """Give the mean of p_n(l_n) over the items that are judged."""
    posterior, truth, judged = _checked(posterior, truth)
    return float(np.mean(_confidence(posterior, labels)[0][judged]))


def reliability(posterior: Floats, truth: Codes, bins: int = 15, *, labels: Codes | None = None) -> Reliability:
    """Put the items that are judged into ``bins`` of equal width by confidence, and count how many labels are right."""
    if not _is_count(bins):
        raise ParameterError(f"bins must be a whole number ≥ 1, not {bins!r}")
    posterior, truth, judged = _checked(posterior, truth)
    confidence, chosen = _confidence(posterior, labels)
    confidence, right = confidence[judged], (chosen == truth)[judged]
    edges = np.linspace(0.0, 1.0, bins + 1)
    at = np.searchsorted(np.round(edges, _DIGITS), np.round(confidence, _DIGITS)) - 1
    at = np.clip(at, 0, bins - 1)
    count = np.bincount(at, minlength=bins)
    total = np.where(count > 0, count, np.nan)
    return Reliability(
        edges[:-1],
        edges[1:],
        count,
        np.bincount(at, confidence, bins) / total,
        np.bincount(at, right, bins) / total,
    )


def expected_calibration_error(
    posterior: Floats, truth: Codes, bins: int = 15, *, labels: Codes | None = None
) -> float:
    """Give how far confidence and accuracy are apart, on average over the items that are judged: 0 to 1.

    Both are means in ``bins`` of equal width by confidence; see :func:`reliability`.
    """
    return reliability(posterior, truth, bins, labels=labels).calibration_error


def correlation_error(features: Floats, truth: Floats) -> float:
    """Give how far the columns of ``features`` are from those of ``truth``, whatever their order, sign and length.

        ε = Σ_i min_σ ‖a*_i - σ a_j(i)‖²,   ‖a*_i‖ = 1

    (Li & Liang 2017, Section 7, squared, as their figures have it).  It is the sum of the squared sines of the angles
    between matched columns, from 0 to their number.  The matching j gives no column twice and makes ε smallest; a
    column of the truth that is left without a partner, or whose partner is zero, counts 1.
    """
    from scipy.optimize import linear_sum_assignment

    A, truth = np.asarray(features, np.float64), np.asarray(truth, np.float64)
    if A.ndim != 2 or truth.ndim != 2 or len(A) != len(truth):
        raise ParameterError(f"expected two matrices with as many rows, not shapes {A.shape} and {truth.shape}")
    if not (np.isfinite(A).all() and np.isfinite(truth).all() and truth.any(axis=0).all()):
        raise ParameterError("the features must be finite, and no column of the truth may be zero")
    A, truth = _unit_columns(A), _unit_columns(truth)
    cosine = truth.T @ A
    row, column = linear_sum_assignment(cosine**2, maximize=True)
    # ‖a* - (a*ᵀ a) a‖² itself: 1 - cos² would stop at rounding, 1e-16
    rest = truth[:, row] - cosine[row, column] * A[:, column]
    unmatched = int(truth.shape[1] - row.size)
    return float(np.vdot(rest, rest)) + unmatched


def _unit_columns(matrix: Floats) -> Floats:
    # the largest entry first: squares of tiny entries underflow
    scaled = matrix / np.where(matrix.any(axis=0), np.abs(matrix).max(axis=0, initial=0.0), 1.0)
    length = np.linalg.norm(scaled, axis=0)
    unit: Floats = scaled / np.where(length > 0, length, 1.0)
    return unit


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def _checked(posterior: Any, truth: Any) -> tuple[Floats, Codes, Bools]:
    posterior, truth = np.asarray(posterior, np.float64), np.asarray(truth)
    if posterior.ndim != 2 or truth.shape != posterior.shape[:1]:
        raise ParameterError(
            f"expected a posterior (items, classes) and one truth for each item, not shapes {posterior.shape} "
            f"and {truth.shape}"
        )
    return posterior, truth, _judged(truth)


def _judged(truth: Codes) -> Bools:
    judged: Bools = truth >= 0
    if not judged.any():
        raise DataError("no item has a truth: there is nothing to judge by")
    return judged


def _of_truth(posterior: Floats, truth: Codes) -> Floats:
    """Give p_n(t_n), (N,); 0 where the truth is none of the classes or unknown."""
    N, K = posterior.shape
    named = (truth >= 0) & (truth < K)
    return np.where(named, posterior[np.arange(N), np.where(named, truth, 0)], 0.0)


def _confidence(posterior: Floats, labels: Codes | None) -> tuple[Floats, Codes]:
    chosen = choose(posterior, posterior.mean(axis=0)).best if labels is None else np.asarray(labels)
    if chosen.shape != posterior.shape[:1]:
        raise ParameterError(f"labels must be one for each of the {len(posterior)} items, not of shape {chosen.shape}")
    return posterior[np.arange(len(posterior)), chosen], chosen
