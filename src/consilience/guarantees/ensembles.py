r"""The error of the labels given the annotators: Theorem 3.2 of Traganitis (2019), with its constants.

The most probable class of an item is wrong with probability at most

.. math:: P_e \le \sum_{k < k'} \min_{0 \le s \le 1} \pi_k^s \pi_{k'}^{1-s}
          \Big( \tfrac{1}{M} \sum_m \sum_i \Gamma_m(i, k)^s\, \Gamma_m(i, k')^{1-s} \Big)^{L}

for L labels from annotators drawn at random (Chernoff 1952).  Proof: all but the largest of some numbers sum to at most
the sum of their pairwise minima, and min(a, b) ≤ a^s b^(1-s); labels are independent given the truth (As1), and drawing
annotators without repetition makes the mean of products smaller still (Maclaurin).  The error falls exponentially, as
the theorem says: its β is minus the logarithm of the largest bracket.

**Known answers.**  Labels alone leave open which class is which: if most annotators collude, the fit is the same with
the classes exchanged.  A known answer tells the right order from one that exchanges k and k' if its class is one of the
two.  If labels are wrong with probability e, n known answers choose a wrong one of the K! orders with probability at
most

.. math:: K!\, \max_{k \ne k'} \big(1 - (\pi_k + \pi_{k'}) (1 - 2 \sqrt{e (1 - e)})\big)^n ,

since other orders differ in more classes.

========= ======================== ===============
symbol    name                     shape
========= ======================== ===============
Γ_m, π    ``confusions``, ``prior`` (M, K, K), (K,)
L         ``labels_per_item``      ..
β         :func:`error_exponent`   per label
========= ======================== ===============
"""

from __future__ import annotations

import numpy as np

from consilience.exceptions import ParameterError
from consilience.guarantees.bounds import Bound
from consilience.kernels._arrays import Floats
from consilience.models.dawid_skene import DawidSkene

__all__ = ["error_bound", "error_exponent", "known_answers_needed", "labels_needed"]

#: Values of s that are tried.  The bound holds for each; its logarithm is convex in s.
_GRID = np.linspace(0.0, 1.0, 41)
#: Products M K³ of a value of s beyond which only s = 1/2 is tried (Bhattacharyya), for time: 170 classes of four
#: annotators, or four classes of 300,000.
_MOST_PRODUCTS = 20_000_000
#: Labels of an item beyond which the search ends.
_MOST_LABELS = 10_000


def _overlaps(model: DawidSkene) -> tuple[Floats, Floats]:
    """Return π_k^s π_k'^(1-s) and the bracket, for each pair of classes and s, (P, S)."""
    prior = np.asarray(model.prior, np.float64)
    A = np.asarray(model.confusions, np.float64).reshape(-1, prior.size)  # row (m, i)
    grid = _GRID if A.size * prior.size <= _MOST_PRODUCTS else np.array([0.5])
    low, high = np.triu_indices(prior.size, 1)
    shares, brackets = np.empty((low.size, grid.size)), np.empty((low.size, grid.size))
    for at, s in enumerate(grid):
        # 0^0 = 0 here: a label that one class never gets is no overlap
        a, b = (np.where(values > 0, values**power, 0.0) for values, power in ((A, s), (A, 1.0 - s)))
        shares[:, at] = np.where((prior[low] > 0) & (prior[high] > 0), prior[low] ** s * prior[high] ** (1.0 - s), 0.0)
        brackets[:, at] = (a.T @ b)[low, high] * prior.size / len(A)
    return shares, np.minimum(brackets, 1.0)


def _bound(overlaps: tuple[Floats, Floats], labels: float) -> float:
    shares, brackets = overlaps
    return float((shares * brackets**labels).min(axis=1).sum())


def error_bound(model: DawidSkene, labels_per_item: float) -> Bound:
    """Return the bound of the share of wrong labels, if annotators are as in the model.

    Parameters
    ----------
    model
        Prior and confusions, such as ``consensus.model``.
    labels_per_item
        Labels of an item, from annotators drawn at random.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(500, 10, 2, labels_per_item=5, accuracy=(0.8, 0.9))
    >>> print(cs.guarantees.error_bound(crowd.model, 5))
    the share of wrong labels is at most 0.0981 (Theorem 3.2 of Traganitis (2019)).
    """
    if not labels_per_item >= 0:
        raise ParameterError(f"labels_per_item must be a number ≥ 0, not {labels_per_item!r}")
    # without labels, all but the most frequent class is wrong
    trivial = 1.0 - float(np.max(model.prior))
    value = _bound(_overlaps(model), labels_per_item)
    # what rounding leaves below the trivial bound is no guarantee
    value = trivial if value > trivial - 1e-9 else value
    return Bound("the share of wrong labels", value, trivial, 1.0, "Theorem 3.2 of Traganitis (2019)")


def error_exponent(model: DawidSkene) -> float:
    """Return β: each further label divides the error by e^β in the long run (the worst pair of classes decides)."""
    _, brackets = _overlaps(model)
    worst = float(brackets.min(axis=1).max(initial=0.0))
    return float("inf") if worst == 0 else float(-np.log(worst))


def labels_needed(model: DawidSkene, error: float) -> int | None:
    """Return the labels an item needs until the bound of the error is at most ``error``; None if no number does.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(500, 10, 2, labels_per_item=5, accuracy=(0.8, 0.9))
    >>> cs.guarantees.labels_needed(crowd.model, 0.05)
    7
    """
    if not 0 < error < 1:
        raise ParameterError(f"error must be a share between 0 and 1, not {error!r}")
    overlaps = _overlaps(model)
    if _bound(overlaps, _MOST_LABELS) > error:
        return None
    low, high = 0, _MOST_LABELS  # the bound falls with the number of labels
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _bound(overlaps, middle) <= error else (middle + 1, high)
    return low


def known_answers_needed(model: DawidSkene, labels_per_item: float, delta: float = 0.05) -> int | None:
    """Return the known answers that show which class is which with probability 1 - δ, whoever colludes.

    Items for them are drawn at random.  None if labels are wrong too often for any number to be enough.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(500, 10, 2, labels_per_item=5, accuracy=(0.8, 0.9))
    >>> cs.guarantees.known_answers_needed(crowd.model, 5)
    6
    """
    from math import lgamma

    if not 0 < delta < 1:
        raise ParameterError(f"delta must be a probability between 0 and 1, not {delta!r}")
    e, prior = error_bound(model, labels_per_item).value, np.sort(np.asarray(model.prior))
    if prior.size < 2:
        return 0
    if e >= 0.5 - 1e-6:
        return None
    share = float(prior[0] + prior[1])
    overlap = 1.0 - share * (1.0 - 2.0 * np.sqrt(e * (1.0 - e)))
    return int(np.ceil((lgamma(prior.size + 1) - np.log(delta)) / -np.log(overlap))) if overlap > 0 else 1
