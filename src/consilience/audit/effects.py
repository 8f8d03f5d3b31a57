"""How much a property of the task moves the verdicts of judges, in shares of verdicts.

Let y be 1 if a label favours an option (an answer, the first of two), and x the property: shown first, longer, written
by the judge.  Other judges' labels of the same item show how good the option is:

    y  =  a  +  β x  +  γ x̄  +  κ ȳ  +  noise,

with x̄ and ȳ the means over half of the other judges; a, γ and κ are those of the judge.  ȳ is a noisy measure of how
good the option is, and better options may well be longer; so the mean over the other half is its instrument: as in
regressions with errors in variables, β is right if judges err independently.  If x̄ is a function of x, β and γ cannot
be told apart, and x - x̄ takes the place of both, as if all judges had the same β.  If all labels of an item have the
same x (such as the length of the answer), only the difference from the other judges can be known, or, on items whose
answer t is known, the effect itself:  y = a + β x + κ t.  The effect on all judges together has one β.

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

from consilience.audit.constants import FEWEST, RELATED
from consilience.kernels._arrays import Bools, Floats, Ints

__all__ = ["ALL", "ITSELF", "KNOWN", "OTHERS", "Effect", "Property", "effects_of", "holm", "mean_effect", "trends_of"]

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
    halves = [_others(given, n_items, n_judges, half) for half in (0, 1)]
    (y_bar, x_bar, one), (instrument, _, other) = halves
    compared = one & other
    # as the length of the answer is for all judges
    same = bool((np.abs(given.x - x_bar)[one] < 1e-9).all())
    found = []
    for name in (OTHERS, KNOWN) if same and truth is not None else (OTHERS if same else ITSELF,):
        there = compared if name != KNOWN or truth is None else ~np.isnan(truth[given.item])
        parts = []
        for m, rows in enumerate(_by_judge(given.judge, n_judges)):
            rows = rows[there[rows]]
            x, constant = given.x[rows], np.ones(rows.size)
            if name == KNOWN and truth is not None:
                beside = with_instrument = np.column_stack([constant, truth[given.item[rows]]])
            else:
                x, more = _regressors(same, x, x_bar[rows])
                beside = np.column_stack([constant, *more, y_bar[rows]])
                with_instrument = np.column_stack([constant, *more, instrument[rows]])
            part = _part(m, x, given.y[rows], beside, with_instrument, given.item[rows])
            if part is not None:
                parts.append(part)
                found.append(_fit(part, name, level))
        if name != OTHERS and parts:  # where judges differ from each other, they cannot do so together
            z, x, y = (np.concatenate([part[column] for part in parts]) for column in (1, 2, 3))
            item, absorbed = np.concatenate([part.item for part in parts]), sum(part.absorbed for part in parts)
            found.append(_fit(_Part(ALL, z, x, y, item, absorbed), name, level))
    return [effect for effect in found if effect is not None]


def trends_of(given: Property, n_items: int, n_judges: int, level: float) -> list[Effect]:
    """Return how y, less its mean over the other judges' labels of the item, changes with x, for every judge."""
    halves = [_others(given, n_items, n_judges, half)[::2] for half in (0, 1)]
    compared = halves[0][1] & halves[1][1]
    y = given.y - 0.5 * (halves[0][0] + halves[1][0])
    found = []
    for m, rows in enumerate(_by_judge(given.judge, n_judges)):
        rows = rows[compared[rows]]
        one = np.ones((rows.size, 1))
        part = _part(m, given.x[rows], y[rows], one, one, given.item[rows])
        found.append(None if part is None else _fit(part, OTHERS, level))
    return [effect for effect in found if effect is not None]


class _Part(NamedTuple):
    """Labels of a judge (or all), with what other regressors explain subtracted."""

    judge: int
    z: Floats  #: x less what the regressors explain of it, orthogonal to these
    x: Floats  #: x and y less what the regressors explain by means of the instrument
    y: Floats
    item: Ints
    absorbed: int  #: number of the other regressors


def _by_judge(judge: Ints, n_judges: int) -> list[Ints]:
    """Return the rows of every judge."""
    ends = np.cumsum(np.bincount(judge, minlength=n_judges))[:-1]
    return np.split(np.argsort(judge, kind="stable"), ends)


def _others(given: Property, n_items: int, n_judges: int, half: int) -> tuple[Floats, Floats, Bools]:
    """Return the means of y and x over other judges' labels of the item, and where there are any.

    Judges with even numbers are one ``half``, the others the second.
    """
    counts = (given.judge % 2 == half).astype(np.float64)
    cell, place = np.unique(given.item * n_judges + given.judge, return_inverse=True)
    sums = [
        np.bincount(given.item, of * counts, n_items)[given.item] - np.bincount(place, of * counts, cell.size)[place]
        for of in (np.ones(counts.size), given.y, given.x)
    ]
    number = np.maximum(sums[0], 1.0)
    return sums[1] / number, sums[2] / number, sums[0] > 0.5


def _regressors(same: bool, x: Floats, x_bar: Floats) -> tuple[Floats, tuple[Floats, ...]]:
    """Return the regressor whose coefficient is the effect, and x̄ if it is one of the others."""
    if same or not x.size:
        return x, ()
    own, others = x - x.mean(), x_bar - x_bar.mean()
    total, shared, cross = own @ own, others @ others, own @ others
    return (x, (x_bar,)) if total * shared - cross**2 > _COLLINEAR * total * shared else (x - x_bar, ())


def _part(judge: int, x: Floats, y: Floats, beside: Floats, instruments: Floats, item: Ints) -> _Part | None:
    """Subtract what the other regressors explain; None if their instruments do not determine that.

    With regressors N and instruments Z:   x - N (Z'N)⁻¹ Z'x,   y - N (Z'N)⁻¹ Z'y,   z = x - Z (N'Z)⁻¹ N'x.
    """
    n, q = beside.shape
    if n <= q + 2:
        return None
    if beside is not instruments and not _related(beside, instruments):
        return None
    cross = instruments.T @ beside
    if np.linalg.matrix_rank(cross) < q:
        beside = instruments = np.ones((n, 1))  # all known answers are the same
        cross = beside.T @ beside
    left_x, left_y = (of - beside @ np.linalg.solve(cross, instruments.T @ of) for of in (x, y))
    z = x - instruments @ np.linalg.solve(cross.T, beside.T @ x)
    return _Part(judge, z, left_x, left_y, item, beside.shape[1])


def _related(beside: Floats, instruments: Floats) -> bool:
    """Whether the two halves of the other judges agree clearly, beside the regressors that they share."""
    shared, a, b = beside[:, :-1], beside[:, -1], instruments[:, -1]
    a, b = (of - shared @ np.linalg.lstsq(shared, of, rcond=None)[0] for of in (a, b))
    size = float(np.sqrt((a @ a) * (b @ b)))
    return size > 0 and float(a @ b) / size * np.sqrt(a.size) >= RELATED


def _fit(part: _Part, against: str, level: float) -> Effect | None:
    """Return the coefficient of x with errors clustered by item; None if it is not determined."""
    judge, z, x, y, item, absorbed = part
    n, p = x.size, 1 + absorbed
    zx = float(z @ x)
    if n <= p + 1 or abs(zx) <= 1e-9 * n:
        return None
    _, cluster = np.unique(item, return_inverse=True)
    G = int(cluster.max()) + 1
    if G < FEWEST:
        return None
    beta = float(z @ y) / zx
    sums = np.bincount(cluster, z * (y - beta * x))
    # Var β = Σ_g (Σ z e over the labels of item g)² / (Σ z x)²
    variance = float(sums @ sums) / zx**2 * (G / (G - 1)) * ((n - 1) / (n - p))
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
