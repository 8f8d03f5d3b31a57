"""How much a property of the task moves the verdicts of judges, in shares of verdicts.

Let y be 1 if a label favours an option (an answer, the first of two), and x the property: shown first, longer, written
by the judge.  The other judges' labels of the same item show how good the option is:

    y  =  a  +  β x  +  γ x̄  +  κ ȳ  +  noise,

with x̄ and ȳ the means over the labels of the other judges; a, γ and κ are those of the judge.  If x̄ is a function of x,
β and γ cannot be told apart, and x - x̄ takes the place of both, as if all judges had the same β.  If all labels of an
item have the same x (such as the length of the answer), only the difference from the other judges can be known, or, on
items whose answer t is known, the effect itself:  y = a + β x + κ t.  The effect on all judges together has one β.

Standard errors are robust to anything that labels of one item share (Liang & Zeger 1986), with the factor
G / (G - 1) · (n - 1) / (n - p) and Student's t with G - 1 degrees of freedom for G items.  P-values are corrected for
the tests of one kind (Holm 1979, with weights): the effect on all judges together weighs as much as those on every
judge by itself.

S. Holm, "A simple sequentially rejective multiple test procedure" (1979).
K.-Y. Liang and S. L. Zeger, "Longitudinal data analysis using generalized linear models" (1986).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consilience.audit.constants import FEWEST
from consilience.kernels._arrays import Bools, Floats, Ints

__all__ = ["ALL", "ITSELF", "KNOWN", "OTHERS", "Effect", "Property", "effects_of", "holm", "mean_effect"]

#: The judge of an effect that all judges share.
ALL = -1
#: What an effect is measured against.
OTHERS, KNOWN, ITSELF = "the other judges", "known answers", "the same judge"
#: Share of the variance of x below which it counts as explained by x̄.
_COLLINEAR = 1e-6


class Effect(NamedTuple):
    """One effect, in shares of verdicts."""

    judge: int
    against: str
    size: float
    low: float
    high: float
    p: float  #: before correction
    labels: int


@dataclass(frozen=True, eq=False)
class Property:
    """What is explained by what: one entry for each label of which both are known."""

    item: Ints
    judge: Ints
    y: Floats
    x: Floats


def effects_of(given: Property, n_items: int, n_judges: int, truth: Floats | None, level: float) -> list[Effect]:
    """Return the effect on every judge and on all of them, as far as the data can show it.

    Parameters
    ----------
    given
        The labels.
    n_items, n_judges
        Numbers of items and judges.
    truth
        What y would be if the verdict were right, NaN where unknown, (N,).
    level
        Level of the intervals.
    """
    y_bar, x_bar, compared = _others(given, n_items, n_judges)
    same = bool((np.abs(given.x - x_bar)[compared] < 1e-9).all())  # as the length of the answer is for all judges
    by_judge = np.argsort(given.judge, kind="stable")
    ends = np.cumsum(np.bincount(given.judge, minlength=n_judges))[:-1]
    of_judge = np.split(by_judge, ends)
    found = []
    against = [(OTHERS if same else ITSELF, compared)]
    if same and truth is not None:
        against.append((KNOWN, ~np.isnan(truth[given.item])))
    for name, there in against:
        parts = []
        for m, rows in enumerate(of_judge):
            rows = rows[there[rows]]
            if name == KNOWN:
                assert truth is not None
                own, beside = given.x[rows], np.column_stack([np.ones(rows.size), truth[given.item[rows]]])
            else:
                own, beside = _regressors(same, given.x[rows], x_bar[rows], y_bar[rows])
            x, y = (_residual(beside, column) for column in (own, given.y[rows]))
            part = _Part(m, x, y, given.item[rows], beside.shape[1])
            parts.append(part)
            found.append(_fit(part, name, level))
        if name != OTHERS:  # where judges differ from each other, they cannot do so together
            x, y, item = (np.concatenate(of) for of in zip(*(part[1:4] for part in parts), strict=True))
            found.append(_fit(_Part(ALL, x, y, item, sum(part.absorbed for part in parts)), name, level))
    return [effect for effect in found if effect is not None]


class _Part(NamedTuple):
    """Labels of a judge (or all), with what other regressors explain subtracted."""

    judge: int
    x: Floats
    y: Floats
    item: Ints
    absorbed: int  #: number of the other regressors


def _others(given: Property, n_items: int, n_judges: int) -> tuple[Floats, Floats, Bools]:
    """Return the means of y and x over other judges' labels of the item, and where there are any."""
    cell, place = np.unique(given.item * n_judges + given.judge, return_inverse=True)
    means = []
    others = np.bincount(given.item, minlength=n_items)[given.item] - np.bincount(place, minlength=cell.size)[place]
    for of in (given.y, given.x):
        rest = np.bincount(given.item, of, n_items)[given.item] - np.bincount(place, of, cell.size)[place]
        means.append(rest / np.maximum(others, 1))
    return means[0], means[1], others > 0


def _regressors(same: bool, x: Floats, x_bar: Floats, y_bar: Floats) -> tuple[Floats, Floats]:
    """Return the regressor whose coefficient is the effect, and the others."""
    beside = np.column_stack([np.ones(x.size), y_bar])
    if same:
        return x, beside
    total, shared = ((of - of.mean()) @ (of - of.mean()) if of.size else 0.0 for of in (x, x_bar))
    cross = (x - x.mean()) @ (x_bar - x_bar.mean()) if x.size else 0.0
    if total * shared - cross**2 > _COLLINEAR * total * shared:
        return x, np.column_stack([beside, x_bar])
    return x - x_bar, beside


def _residual(beside: Floats, column: Floats) -> Floats:
    """Return what the other regressors leave of a column."""
    left: Floats = column - beside @ np.linalg.lstsq(beside, column, rcond=None)[0]
    return left


def _fit(part: _Part, against: str, level: float) -> Effect | None:
    """Return the coefficient of x with errors clustered by item; None if it is not determined."""
    judge, x, y, item, absorbed = part
    n, p = x.size, 1 + absorbed
    xx = float(x @ x)
    if n <= p + 1 or xx <= 1e-9 * n:
        return None
    _, cluster = np.unique(item, return_inverse=True)
    G = int(cluster.max()) + 1
    if G < FEWEST:
        return None
    beta = float(x @ y) / xx
    sums = np.bincount(cluster, x * (y - beta * x))
    # Var β = Σ_g (Σ x e over the labels of item g)² / (Σ x²)²
    variance = float(sums @ sums) / xx**2 * (G / (G - 1)) * ((n - 1) / (n - p))
    return _effect(judge, against, beta, float(np.sqrt(variance)), G, n, level)


def _effect(judge: int, against: str, size: float, error: float, G: int, n: int, level: float) -> Effect:
    from scipy.stats import t

    if error <= 1e-12:  # not a single verdict differs
        return Effect(judge, against, size, size, size, float(abs(size) <= 1e-12), n)
    step = float(t.ppf(0.5 + level / 2, G - 1)) * error
    return Effect(judge, against, size, size - step, size + step, float(2.0 * t.sf(abs(size) / error, G - 1)), n)


def mean_effect(judge: int, against: str, difference: Floats, level: float) -> Effect | None:
    """Return the mean of differences, one for each item, as an effect."""
    n = difference.size
    if n < FEWEST:
        return None
    error = float(difference.std(ddof=1) / np.sqrt(n))
    return _effect(judge, against, float(difference.mean()), error, n, n, level)


def holm(p: Floats, weights: Floats) -> Floats:
    """Return p-values that bound the chance of any false positive among all tests by Holm's weighted procedure.

    With tests in ascending order of p / w,   p'_i = max over j ≤ i of  (p_j / w_j) Σ_{k ≥ j} w_k.
    """
    order = np.argsort(p / weights, kind="stable")
    p, w = p[order], weights[order]
    made = np.empty(p.size)
    made[order] = np.minimum(np.maximum.accumulate(p / w * w[::-1].cumsum()[::-1]), 1.0)
    return made
