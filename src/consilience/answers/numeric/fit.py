r"""Annotators with bias, scale and heavy-tailed noise, items with ease: a mean-field fit, linear in the answers.

    y  =  μ + b_m + s_m (t_n - μ) + e,      e ~ Student's t with ν degrees of freedom and variance 1 / (λ_m η_n),
    t_n ~ N(μ, τ²),   b_m ~ N(0, σ_b²),   s_m ~ N(1, σ_s²),   λ_m ~ Gamma(a, a / λ̄),   η_n ~ Gamma(g, g).

τ² comes from the covariance of two answers to an item, which does not depend on the noise.  σ_b, σ_s, a, λ̄, g and ν are
estimated with the rest (empirical Bayes), so that an annotator with few answers is near the crowd.  Everything is in
standard units, so that an affine map of the answers maps the values.

====== ======================================== ======
symbol name                                     shape
====== ======================================== ======
t, v   ``value``, ``variance``                  (N,)
b, s   ``bias``, ``scale``                      (M,)
λ      ``precision``                            (M,)
η      ``ease``                                 (N,)
w      ``weight``                               (labels,)
====== ======================================== ======

V. Raykar et al., "Learning from crowds", JMLR 11 (2010), section 4, has b, s fixed and no heavy tails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilience.answers.numeric.constants import LEAST_SPREAD, MOST, Shape
from consilience.engine.progress import Callback, Progress
from consilience.kernels._arrays import Bools, Codes, Floats, Ints
from consilience.kernels.numeric import AnnotatorSums, Items, Numbers, numeric_pass

__all__ = ["NumericFit", "Table", "fit_numeric"]

#: Pseudo-annotators of the priors of σ_b and σ_s, and their variances (of σ_b in units of the pooled noise).
_PEOPLE, _VARIANCE = 2.0, 0.05
#: Where σ_b², σ_s², a and ν start.
_START, _START_SHAPE, _START_FREEDOM = 0.1, 3.0, 10.0
#: Variance of scales where they do not differ.
_NONE = 1e-8


@dataclass(frozen=True, eq=False)
class Table:
    """Answers by item."""

    indptr: Ints  #: (N + 1,)
    annotator: Codes  #: (labels,)
    y: Floats  #: (labels,)
    n_annotators: int

    @property
    def per_item(self) -> Ints:
        """Number of answers to each item, (N,)."""
        return np.diff(self.indptr)

    @property
    def item(self) -> Ints:
        """The item of every answer, (labels,)."""
        return np.repeat(np.arange(self.indptr.size - 1), self.per_item)

    def total(self, values: Floats) -> Floats:
        """Return the sum over the answers of each item, (N,)."""
        return np.bincount(self.item, values, self.indptr.size - 1).astype(float)

    def mean(self) -> Floats:
        """Return the mean answer to each item, NaN without answers, (N,)."""
        n = self.per_item
        return np.where(n > 0, self.total(self.y) / np.maximum(n, 1), np.nan)

    def noise(self) -> float:
        """Return the variance of answers to the same item."""
        n = self.per_item
        residual = self.y - np.repeat(self.mean(), n)
        return float((residual**2).sum()) / max(self.y.size - int((n > 0).sum()), 1)

    def select(self, kept: Bools) -> Table:
        """Return the answers that are kept."""
        before = np.concatenate([[0], np.cumsum(kept)])
        return Table(before[self.indptr], self.annotator[kept], self.y[kept], self.n_annotators)


@dataclass(frozen=True, eq=False)
class NumericFit:
    """A fitted model, in the units of the answers."""

    value: Floats  #: t, (N,)
    variance: Floats  #: v, (N,)
    ease: Floats  #: η, (N,)
    weight: Floats  #: λ η w E[s²]: how much each answer counts towards t, (labels,)
    left_out: Floats  #: t without the answer itself, (labels,)
    bias: Floats
    scale: Floats
    precision: Floats
    log_density: float  #: of the answers, up to a constant
    history: list[float]
    converged: bool


def fit_numeric(
    table: Table,
    shape: Shape,
    *,
    known: Floats | None = None,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> NumericFit:
    """Fit the model.

    Parameters
    ----------
    table
        The answers.
    shape
        Which parts the model has.
    known
        Values that are known, NaN elsewhere, (N,).
    max_iter, tol
        Passes over the answers, and the largest change of a value, in standard deviations of all answers, that ends
        them.
    callback
        Called after every pass; ends the fit by returning True.
    """
    centre, unit = float(np.median(table.y)), float(table.y.std()) or 1.0
    standard = Table(table.indptr, table.annotator.astype(np.uint32), (table.y - centre) / unit, table.n_annotators)
    is_known = np.zeros(table.per_item.size, bool) if known is None else np.isfinite(known)
    fixed = None if known is None else (known - centre) / unit
    state = _State(standard, shape, is_known, fixed)
    history: list[float] = []
    converged = False
    while len(history) < max_iter and not converged:
        change = state.step()
        history.append(state.objective)
        converged = change <= tol
        told = Progress(len(history), max_iter, history[-1], change, labels=table.y.size)
        if callback is not None and callback(told):
            break
    return state.result(centre, unit, history, converged)


class _State:
    """All parameters in standard units, and one update of them."""

    def __init__(self, table: Table, shape: Shape, known: Bools, fixed: Floats | None) -> None:
        self.table, self.shape, self.known = table, shape, known
        n, M = table.per_item, table.n_annotators
        self.labels_of = np.bincount(table.annotator, minlength=M)
        noise = self.noise = table.noise() or 1.0
        mu = float(table.y.mean())
        # τ² = mean of (y - μ)(y' - μ) over pairs of answers to an item
        z = table.y - mu
        pairs = float((n * (n - 1.0)).sum())
        spread = float((table.total(z) ** 2 - table.total(z * z)).sum()) / max(pairs, 1.0)
        spread = max(spread, LEAST_SPREAD)
        inverse = 1.0 / spread + n / noise
        value = mu + table.total(z) / noise / inverse
        variance = 1.0 / inverse
        if fixed is not None:
            value, variance = np.where(known, fixed, value), np.where(known, 0.0, variance)
        self.items = Items(value, variance, np.ones(n.size), np.ones(table.y.size))
        self.numbers = Numbers(
            mu,
            spread,
            shape.rounding * noise,
            max(shape.freedom, _START_FREEDOM),
            max(shape.ease, _START_SHAPE) if shape.ease else 0.0,
        )
        self.bias, self.scale, self.covariance = np.zeros(M), np.ones(M), np.zeros((M, 3))
        self.precision = np.full(M, 1.0 / noise)
        self.prior = [_START * noise, _START if shape.scales else _NONE, max(shape.precision, _START_SHAPE), noise]
        sums = self._pass()
        self.objective = sums.log_density
        self._update(sums)

    def _pass(self) -> AnnotatorSums:
        annotators = self.bias, self.scale, self.covariance, self.precision
        t = self.table
        return numeric_pass(t.indptr, t.annotator, t.y, self.known, annotators, self.numbers, self.items)

    def step(self) -> float:
        """Update everything once, and return the largest change of a value."""
        sums = self._pass()
        self.objective = sums.log_density
        self._update(sums)
        return sums.change

    def _update(self, sums: AnnotatorSums) -> None:
        from scipy.special import digamma

        s, shape = sums.by_annotator, self.shape
        of_bias, of_scale, a, variance = self.prior
        active = self.labels_of > 0
        # q(λ_m) = Gamma(a + L_m / 2, aλ̄⁻¹ + Σ η w e² / 2)
        counts, rates = a + 0.5 * self.labels_of, a * variance + 0.5 * s[:, 5]
        self.precision = counts / rates
        # q(b, s): weighted least squares of y - μ on (1, t - μ), with the priors N(0, σ_b²) and N(1, σ_s²)
        p = self.precision[:, None] * s
        A00, A01, A11 = p[:, 0] + 1.0 / of_bias, p[:, 1], p[:, 2] + 1.0 / of_scale
        h0, h1 = p[:, 3], p[:, 4] + 1.0 / of_scale
        determinant = A00 * A11 - A01**2
        bb, ss, bs = A11 / determinant, A00 / determinant, -A01 / determinant
        self.bias, self.scale = bb * h0 + bs * h1, bs * h0 + ss * h1
        self.covariance = np.stack([bb, ss, bs], axis=1)
        people = int(active.sum()) + _PEOPLE
        of_bias = float((self.bias**2 + bb)[active].sum() + _PEOPLE * _VARIANCE * self.noise) / people
        if shape.scales:
            of_scale = float(((self.scale - 1.0) ** 2 + ss)[active].sum() + _PEOPLE * _VARIANCE) / people
        mean = float(self.precision[active].mean())
        log_mean = float((digamma(counts) - np.log(rates))[active].mean())
        a = float(np.clip(_gamma_shape(np.log(mean) - log_mean), shape.precision, MOST))
        self.prior = [of_bias, of_scale, a, 1.0 / mean]
        # Gamma(g, g) has its maximum where log g + 1 - ψ(g) = mean of η - mean of log η; the same for w, with ν/2
        n, L = self.table.per_item, max(self.table.y.size, 1)
        half = 0.5 * (self.numbers.freedom + 1.0)
        gap = sums.weight / L - (float(digamma(half)) - sums.log_rate / L) - 1.0
        freedom, ease = float(np.clip(2.0 * _gamma_shape(gap), shape.freedom, MOST)), self.numbers.ease
        if ease:
            there = n[n > 0]
            logs = float(digamma(ease + 0.5 * there).sum()) - sums.log_ease_rate
            gap = (sums.ease - logs) / max(there.size, 1) - 1.0
            ease = float(np.clip(_gamma_shape(gap), shape.ease, MOST))
        self.numbers = self.numbers._replace(freedom=freedom, ease=ease)

    def result(self, centre: float, unit: float, history: list[float], converged: bool) -> NumericFit:
        """Return the fit in the units of the answers."""
        t, items, mu, spread = self.table, self.items, self.numbers.centre, self.numbers.spread
        who, item = t.annotator, t.item
        p = self.precision[who] * items.ease[item] * items.weight
        counts = p * (self.scale**2 + self.covariance[:, 1])[who]
        linear = p * (self.scale[who] * (t.y - mu - self.bias[who]) - self.covariance[who, 2])
        inverse, total = 1.0 / spread + t.total(counts), t.total(linear)
        left_out = mu + (total[item] - linear) / (inverse[item] - counts)
        return NumericFit(
            centre + unit * items.value,
            unit**2 * items.variance,
            items.ease,
            counts / unit**2,
            centre + unit * left_out,
            unit * self.bias,
            self.scale,
            self.precision / unit**2,
            self.objective,
            history,
            converged,
        )


def _gamma_shape(gap: float) -> float:
    """Solve log a - ψ(a) = gap for a, by Newton's method from Minka's start."""
    from scipy.special import digamma, polygamma

    gap = max(float(gap), 1e-4)
    a = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    for _ in range(5):
        a = max(a - (np.log(a) - digamma(a) - gap) / (1.0 / a - polygamma(1, a)), 1e-3)
    return float(a)
