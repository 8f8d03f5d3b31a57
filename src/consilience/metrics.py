"""Quality of labels and of their probabilities when the truth is known: functions on arrays.

========== ==================================================== ======================
symbol     name                                                 shape
========== ==================================================== ======================
p_n(k)     ``posterior``, probability of class k for item n     (N, K)
t_n        ``truth``, class code of item n                      (N,)
l_n        ``labels``, the class chosen for item n              (N,)
c_n        confidence, p_n(l_n)                                 (N,)
========== ==================================================== ======================

An item whose truth is -1 is left out.  A truth beyond the K classes is one that nobody used: its probability is zero,
and no label is right.  If no labels are given, they are chosen by :func:`consilience.runs.consensus.choose`, with ties
broken by the mean posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from consilience.exceptions import DataError, ParameterError
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.runs.consensus import choose
from consilience.validation import one_of, whole

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
    "mean_relative_error",
    "mean_squared_error",
    "reliability",
]

#: The smallest probability that :func:`log_loss` uses, as in scikit-learn: a certain mistake costs 36 nats.
FLOOR = float(np.finfo(np.float64).eps)

#: Confidences are rounded to this many digits before binning, so that 3 votes of 5 always fall into the same bin.
_DIGITS = 12


@dataclass(frozen=True, eq=False)
class Reliability:
    """Items in bins ``(low, high]`` of confidence; perfect calibration means accuracy equal to confidence."""

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
    """Return the percentage of wrong labels."""
    labels, truth, judged = _same_shape(labels, truth)
    return 100.0 * float(np.mean(labels[judged] != truth[judged]))


def f_score(labels: Codes, truth: Codes, *, bounds: Ints | None = None) -> float:
    """Return the mean F-score of the classes, 0 to 1 (Traganitis 2019, eqs (4.24)-(4.29)).

        F_k = 2 P_k R_k / (P_k + R_k) = 2 TP_k / (2 TP_k + FP_k + FN_k)

    FP_k counts items labelled k that are not k, FN_k items of class k with another label; the thesis swaps the two,
    which leaves F_k unchanged.  A class that neither occurs among the labels nor among the truths has no F-score and
    does not count.  With ``bounds``, where each sequence begins (S + 1,), it is the mean over the sequences
    (section 4.4.1).
    """
    labels, truth, judged = _same_shape(labels, truth)
    group = np.zeros(truth.size, np.int64)
    if bounds is not None:
        if np.asarray(bounds)[-1] != truth.size:
            raise ParameterError(f"bounds end at {bounds[-1]}, but there are {truth.size} labels")
        group = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    group, labels, truth = group[judged], labels[judged], truth[judged]
    # a class within a sequence is one cell; -1 means no label
    K = int(max(labels.max(), truth.max())) + 1
    said, true = group * K + labels, group * K + truth
    cells, place = np.unique(np.concatenate([true, said[labels >= 0]]), return_inverse=True)
    both = np.bincount(place, minlength=cells.size)
    hits = np.bincount(place[: true.size][labels == truth], minlength=cells.size)
    of_group = np.unique(cells // K, return_inverse=True)[1]
    return float(np.mean(np.bincount(of_group, 2.0 * hits / both) / np.bincount(of_group)))


def log_loss(posterior: Floats, truth: Codes, *, floor: float = FLOOR) -> float:
    """Return the mean of -log p_n(t_n), in nats; probabilities below ``floor`` count as ``floor``."""
    posterior, truth, judged = _checked(posterior, truth)
    return -float(np.mean(np.log(np.maximum(_of_truth(posterior, truth)[judged], floor)))) + 0.0


def brier_score(posterior: Floats, truth: Codes) -> float:
    """Return the mean of Σ_k (p_n(k) - [t_n = k])², from 0 to 2 (Brier 1950).

    With two classes it is twice the score of one class.
    """
    posterior, truth, judged = _checked(posterior, truth)
    # Σ_k (p(k) - [t = k])² = Σ_k p(k)² - 2 p(t) + 1
    squares = np.einsum("nk,nk->n", posterior, posterior) - 2.0 * _of_truth(posterior, truth) + 1.0
    return max(float(np.mean(squares[judged])), 0.0)


def mean_confidence(posterior: Floats, truth: Codes, *, labels: Codes | None = None) -> float:
    """Return the mean of p_n(l_n)."""
    posterior, truth, judged = _checked(posterior, truth)
    return float(np.mean(_confidence(posterior, labels)[0][judged]))


def reliability(posterior: Floats, truth: Codes, bins: int = 15, *, labels: Codes | None = None) -> Reliability:
    """Return accuracy and confidence of the items in ``bins`` of equal width by confidence."""
    bins = whole("bins", bins)
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
    """Return the mean absolute difference of confidence and accuracy, 0 to 1.

    Both are means in ``bins`` of equal width by confidence; see :func:`reliability`.
    """
    return reliability(posterior, truth, bins, labels=labels).calibration_error


class _Mixture(Protocol):
    """Class probabilities and a confusion matrix for each annotator, such as a DawidSkene."""

    @property
    def prior(self) -> Floats:
        """(K,)."""

    @property
    def confusions(self) -> Floats:
        """(M, K, K)."""


class _Products(Protocol):
    """A mixture of products of distributions, such as ``JointPMF.model_``."""

    @property
    def weights(self) -> Floats:
        """(F,)."""

    @property
    def factors(self) -> Sequence[Floats]:
        """(I_n, F) each."""


def mean_squared_error(model: _Mixture, truth: _Mixture) -> float:
    """Return the mean squared error of prior and confusions, with classes in the best common order for all annotators.

        min over Π of (‖Πᵀ λ - λ'‖² + Σ_m ‖A_m Π - A'_m‖²) / (M K + 1)

    (Ibrahim & Fu 2022, eq. (19)).
    """
    from scipy.optimize import linear_sum_assignment

    A, B = np.asarray(truth.confusions, np.float64), np.asarray(model.confusions, np.float64)
    if A.shape != B.shape:
        raise ParameterError(f"the models must have the same annotators and classes, not shapes {B.shape}, {A.shape}")
    M, K, _ = A.shape
    cost = (np.asarray(truth.prior)[:, None] - model.prior) ** 2
    cost = cost + ((A[:, :, :, None] - B[:, :, None, :]) ** 2).sum(axis=(0, 1))
    return float(cost[linear_sum_assignment(cost)].sum() / (M * K + 1))


def mean_relative_error(model: _Products, truth: _Products, *, over: Literal["truth", "estimate"] = "truth") -> float:
    """Return ‖X̂ - X‖ / ‖X‖ (Frobenius) of two joint distributions, without forming their tables.

    ``over="estimate"`` divides by ‖X̂‖ instead, as the authors of Ibrahim & Fu (2021) do in their code.  The inner
    product of two mixtures is λᵀ (∏_n A_nᵀ B_n) μ, entry by entry; differences below 1e-8 are lost in rounding.
    """

    def inner(one: _Products, other: _Products) -> float:
        gram = np.outer(one.weights, other.weights)
        for A, B in zip(one.factors, other.factors, strict=True):
            gram = gram * (A.T @ B)
        return float(gram.sum())

    one_of("over", over, ("truth", "estimate"))
    true, found, both = inner(truth, truth), inner(model, model), inner(model, truth)
    return float(np.sqrt(max(true + found - 2.0 * both, 0.0) / (true if over == "truth" else found)))


def correlation_error(features: Floats, truth: Floats, *, squared: bool = True, one_to_one: bool = True) -> float:
    """Return the distance of the columns of ``features`` from those of ``truth``, up to order, sign and length.

        ε = Σ_i min_σ ‖a*_i - σ a_j(i)‖²,   ‖a*_i‖ = 1

    (Li & Liang 2017, Section 7, squared, as in their figures).  It is the sum of the squared sines of the angles
    between matched columns, from 0 to their number.  The one-to-one matching j minimises ε; a column of the truth
    without a match, or matched to a zero column, counts 1.  ``one_to_one=False`` takes the nearest column, which may
    serve several, as in their code; ``squared=False`` sums the distances themselves, as the paper prints it.
    """
    from scipy.optimize import linear_sum_assignment

    A, truth = np.asarray(features, np.float64), np.asarray(truth, np.float64)
    if A.ndim != 2 or truth.ndim != 2 or len(A) != len(truth):
        raise ParameterError(f"expected two matrices with as many rows, not shapes {A.shape} and {truth.shape}")
    if not (np.isfinite(A).all() and np.isfinite(truth).all() and truth.any(axis=0).all()):
        raise ParameterError("the features must be finite, and no column of the truth may be zero")
    A, truth = _unit_columns(A), _unit_columns(truth)
    cosine = truth.T @ A
    if one_to_one:
        row, column = linear_sum_assignment(cosine**2, maximize=True)
    else:
        row, column = np.arange(truth.shape[1]), np.argmax(cosine**2, axis=1)
    # ‖a* - (a*ᵀ a) a‖² directly: 1 - cos² is only exact to 1e-16
    rest = truth[:, row] - cosine[row, column] * A[:, column]
    unmatched = int(truth.shape[1] - row.size)
    squares = np.einsum("ij,ij->j", rest, rest)
    return float((squares if squared else np.sqrt(squares)).sum()) + unmatched


def _unit_columns(matrix: Floats) -> Floats:
    # divide by the largest entry first: squares of tiny entries underflow
    scaled = matrix / np.where(matrix.any(axis=0), np.abs(matrix).max(axis=0, initial=0.0), 1.0)
    length = np.linalg.norm(scaled, axis=0)
    unit: Floats = scaled / np.where(length > 0, length, 1.0)
    return unit


def _checked(posterior: Any, truth: Any) -> tuple[Floats, Codes, Bools]:
    posterior, truth = np.asarray(posterior, np.float64), np.asarray(truth)
    if posterior.ndim != 2 or truth.shape != posterior.shape[:1]:
        raise ParameterError(
            f"expected a posterior (items, classes) and one truth for each item, not shapes {posterior.shape} "
            f"and {truth.shape}"
        )
    return posterior, truth, _judged(truth)


def _same_shape(labels: Any, truth: Any) -> tuple[Codes, Codes, Bools]:
    labels, truth = np.asarray(labels), np.asarray(truth)
    if labels.shape != truth.shape:
        raise ParameterError(f"labels and truth must have the same shape, not {labels.shape} and {truth.shape}")
    return labels, truth, _judged(truth)


def _judged(truth: Codes) -> Bools:
    judged: Bools = truth >= 0
    if not judged.any():
        raise DataError("no item has a truth: there is nothing to judge by")
    return judged


def _of_truth(posterior: Floats, truth: Codes) -> Floats:
    """Return p_n(t_n), (N,); 0 if the truth is unknown or none of the classes."""
    N, K = posterior.shape
    named = (truth >= 0) & (truth < K)
    return np.where(named, posterior[np.arange(N), np.where(named, truth, 0)], 0.0)


def _confidence(posterior: Floats, labels: Codes | None) -> tuple[Floats, Codes]:
    chosen = choose(posterior, posterior.mean(axis=0)).best if labels is None else np.asarray(labels)
    if chosen.shape != posterior.shape[:1]:
        raise ParameterError(f"labels must be one for each of the {len(posterior)} items, not of shape {chosen.shape}")
    return posterior[np.arange(len(posterior)), chosen], chosen
