"""Beliefs about annotators who answer on a scale: severity, sharpness, and what these two do not explain.

An item has a place z on the scale, level i being at i = 0 … K - 1.  Annotator m is expected to say i in proportion to

    P_m(i, z)  ∝  exp( c_m u_i  -  w_m d(i, z) ),      u_i = i - (K - 1) / 2,

    d(i, z)  =  |i - z|  with one place for each level,     (i - z)² / 2  with several,

    c_m ~ Normal(0, σ_c²),      w_m ~ Normal(μ, σ_w²).

With c > 0 an annotator says higher levels than the crowd; the larger w, the closer to the truth.  With several
places, P is a normal distribution around z + c / w with spread 1 / √w, cut into levels.  As c is zero on average,
level k is what the average annotator most often says of items at z = k.  The answers themselves are drawn around P,

    A_m(:, z)  ~  Dirichlet(α P_m(:, z) + λ),

so that the labels decide how far an annotator may depart from that form: α is learned.  The places are a grid, with one
or several places for each level.  For given expected counts n the part of the lower bound that depends on c, w and α is

    Σ_m Σ_z  log B(n_m(:, z) + α P_m(:, z) + λ)  -  log B(α P_m(:, z) + λ),        B the multivariate beta function.

Minka's inequality and the concavity of the logarithm bound it from below by a multinomial likelihood, with equality
where they are taken,

    Σ e_m(i, z) log P_m(i, z)  +  (terms of α),     e = α P · [ψ(n + α P + λ) - ψ(α P + λ)],

which is concave in c and w: Newton's method raises it.  The effective counts e are the counts n if α is large, and
count a cell once, however often it was used, if α is small.

====== ============================== =============
symbol name                           shape
====== ============================== =============
z      ``places``                     (C,)
c, w   ``tilt``                       (M, 2)
μ      ``centre[1]``                  (2,)
σ²     ``variance``                   (2,)
P      ``expected``                   (M, K, C)
α      ``strength``                   a number
n      ``Statistics.counts``          (M, K, C)
====== ============================== =============

T. Minka, "Estimating a Dirichlet distribution" (2000), section 2.
"""

from __future__ import annotations

import numpy as np

from consilience.fitting.m_steps import Parameters
from consilience.fitting.variational import LEAST, RATE, Dirichlet, Expectation
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.kernels.special import psi_and_log_gamma

__all__ = ["OrdinalBeliefs"]

#: Where the sharpness of the crowd μ begins, and the standard deviation of its prior around that.
#: origin: by design (neighbouring levels are said a seventh as often); alternatives: none; sensitivity: worth less than
#: one annotator.
_SHARPNESS, _SHARPNESS_SPREAD = 2.0, 2.0
#: Where strength and variances begin, and their limits; all are learned from there.
_STRENGTH, _MOST = 10.0, 1000.0
_VARIANCE, _LEAST_VARIANCE = 0.25, 1e-4
#: How often a Newton step is shortened before it is dropped.
_SHORTER = 6
#: Relative difference that is rounding, and no reason to shorten a step.
_SLACK = 1e-13


def _over_levels(how: np.ufunc, x: Floats) -> Floats:
    """Reduce the last axis but one, which stays: step by step, which is faster in numpy where that axis is short."""
    made = x[..., :1, :].copy()
    for i in range(1, x.shape[-2]):
        how(made, x[..., i : i + 1, :], out=made)
    return made


def _totals(x: Floats) -> Floats:
    """Return the sums over levels, (M, C)."""
    return _over_levels(np.add, x)[..., 0, :]


class OrdinalBeliefs:
    """What counts say about annotators who answer on a scale; levels are in their order.

    Parameters
    ----------
    proportions
        Prior of the shares of the places, (C,); None holds them uniform.
    n_annotators, n_levels
        M and K.
    places
        Places for each level: (K · ``places``) in all.
    """

    def __init__(
        self,
        proportions: Dirichlet | None,
        n_annotators: int,
        n_levels: int,
        places: int = 1,
    ) -> None:
        K, C = n_levels, n_levels * places
        self.proportions = proportions
        level = np.arange(K, dtype=float)[:, None]
        self.places = (np.arange(C) + 0.5) / places - 0.5
        apart = np.abs(level - self.places)
        distance = apart if places == 1 else 0.5 * apart**2
        height = np.broadcast_to(level - (K - 1) / 2.0, (K, C))
        self._directions = np.stack([height, -distance])
        self._lapse = LEAST / places
        self.centre = np.array([0.0, _SHARPNESS])
        self.tilt = np.tile(self.centre, (n_annotators, 1))
        self.variance = np.full(2, _VARIANCE)
        self.strength = _STRENGTH

    @property
    def expected(self) -> Floats:
        """P, what severity and sharpness suggest, (M, K, C)."""
        return self._expected(self.tilt)[0]

    def settle(self, statistics: Statistics, steps: int) -> None:
        """Learn from counts before the first pass, variances too."""
        for _ in range(steps):
            self._learn(statistics.counts)
            self.learn_variance(statistics)

    def learn_variance(self, statistics: Statistics) -> None:
        """Take a step towards the variances that make the counts most probable (Laplace's approximation).

        σ² is the mean, over annotators, of the squared distance from the centre plus the posterior variance.
        """
        expected = self.expected
        total = _totals(self._effective(statistics.counts, expected))
        spread = np.linalg.inv(self._information(total, expected))[:, [0, 1], [0, 1]]
        squares = (self.tilt - self.centre) ** 2
        self.variance = np.maximum((squares + spread).mean(axis=0), _LEAST_VARIANCE)

    def __call__(self, statistics: Statistics) -> Expectation:
        """Learn what suits these counts, then return the expected logarithms."""
        self._learn(statistics.counts)
        log_answers, divergence = self._answers.expected_log(statistics.counts)
        divergence += self._penalty()
        tables = np.exp(log_answers)
        if self.proportions is None:
            C = statistics.class_counts.size
            return Expectation(Parameters(np.full(C, 1.0 / C), tables), divergence)
        log_shares, further = self.proportions.expected_log(statistics.class_counts)
        return Expectation(Parameters(np.exp(log_shares), tables), divergence + further)

    def places_means(self, statistics: Statistics) -> Parameters:
        """Return the expected shares of the places, (C,), and answers about them, (M, K, C)."""
        C = statistics.class_counts.size
        shares = np.full(C, 1.0 / C) if self.proportions is None else self.proportions.mean(statistics.class_counts)
        return Parameters(shares, self._answers.mean(statistics.counts))

    def means(self, statistics: Statistics) -> Parameters:
        """Return the expected prior and confusions, the places of a level taken together."""
        shares, answers = self.places_means(statistics)
        M, K, C = answers.shape
        prior = shares.reshape(K, -1).sum(axis=1)
        together = (answers * shares).reshape(M, K, K, C // K).sum(axis=-1)
        return Parameters(prior, together / together.sum(axis=1, keepdims=True))

    # ---- what is learned ------------------------------------------------------------------------------------

    @property
    def _answers(self) -> Dirichlet:
        return Dirichlet(self.strength * self.expected + self._lapse, axis=-2)

    @property
    def _rate(self) -> float:
        return RATE * float(self._directions.shape[-1])

    def _expected(self, tilt: Floats) -> tuple[Floats, Floats]:
        """Return P and its logarithm, (M, K, C) both."""
        logarithm = np.tensordot(tilt, self._directions, 1)
        logarithm -= _over_levels(np.maximum, logarithm)
        expected = np.exp(logarithm)
        total = _over_levels(np.add, expected)
        expected /= total
        logarithm -= np.log(total)
        return expected, logarithm

    def _penalty(self) -> float:
        """Return minus the log-density of severity, sharpness and strength."""
        squares = (self.tilt - self.centre) ** 2
        of_tilts = 0.5 * float((squares / self.variance + np.log(self.variance)).sum())
        off = float(self.centre[1] - _SHARPNESS) / _SHARPNESS_SPREAD
        return of_tilts + 0.5 * off * off + self._rate * self.strength

    def _effective(self, counts: Floats, expected: Floats) -> Floats:
        """Return e, (M, K, C)."""
        a = self.strength * expected
        made: Floats = a * (psi_and_log_gamma(counts + a + self._lapse)[0] - psi_and_log_gamma(a + self._lapse)[0])
        return made

    def _learn(self, counts: Floats) -> None:
        effective = self._effective(counts, self.expected)
        self._move_tilts(effective)
        self._move_centre(effective)
        # α maximises  Σ e log α - α (rate + Σ [ψ(Σ n + α + Kλ) - ψ(α + Kλ)])
        gained = float(self._effective(counts, self.expected).sum())
        total, least = _totals(counts), np.full((1, 1), self.strength + counts.shape[-2] * self._lapse)
        cost = float(psi_and_log_gamma(total + least)[0].sum()) - total.size * float(psi_and_log_gamma(least)[0][0, 0])
        self.strength = float(np.clip(gained / (self._rate + cost), LEAST, _MOST))

    def _slope(self, effective: Floats, total: Floats, expected: Floats) -> Floats:
        """Return the slope of the multinomial likelihood in c and w, (M, 2)."""
        off = effective - total[:, None] * expected
        return np.asarray(off.reshape(len(off), -1) @ self._directions.reshape(2, -1).T)

    def _curvature(self, total: Floats, expected: Floats) -> Floats:
        """Return the information about c and w from ``total`` effective counts at each place, (M, C): (M, 2, 2)."""
        x = self._directions
        mean = np.einsum("dic,mic->mdc", x, expected)
        weighted = total[:, None] * expected
        K, C = x.shape[1:]
        squares = weighted.reshape(-1, K * C) @ (x[:, None] * x[None]).reshape(4, K * C).T
        return np.asarray(squares.reshape(-1, 2, 2) - np.einsum("mdc,mec,mc->mde", mean, mean, total))

    def _information(self, total: Floats, expected: Floats) -> Floats:
        return np.asarray(self._curvature(total, expected) + np.diag(1.0 / self.variance))

    def _value(self, effective: Floats, tilt: Floats) -> Floats:
        """Return the multinomial likelihood of every annotator, (M,)."""
        return np.asarray(np.einsum("mic,mic->m", effective, self._expected(tilt)[1]))

    def _move_tilts(self, effective: Floats) -> None:
        """Take a Newton step in c and w of every annotator, shortened where it would not help."""
        total, expected = _totals(effective), self.expected

        def value(tilt: Floats) -> Floats:
            made: Floats = self._value(effective, tilt) - 0.5 * ((tilt - self.centre) ** 2 / self.variance).sum(axis=1)
            return made

        slope = self._slope(effective, total, expected) - (self.tilt - self.centre) / self.variance
        step = np.linalg.solve(self._information(total, expected), slope[:, :, None])[:, :, 0]
        now = value(self.tilt)
        for _ in range(_SHORTER):
            worse = value(self.tilt + step) < now - _SLACK * np.abs(now)
            if not worse.any():
                break
            step[worse] *= 0.25
        else:
            step[worse] = 0.0
        self.tilt = self.tilt + step

    def _move_centre(self, effective: Floats) -> None:
        """Take a Newton step in the sharpness of all annotators and of the crowd at once."""
        total, expected = _totals(effective), self.expected
        off = (self.centre[1] - _SHARPNESS) / _SHARPNESS_SPREAD**2
        slope = float(self._slope(effective, total, expected)[:, 1].sum()) - off
        step = slope / (float(self._curvature(total, expected)[:, 1, 1].sum()) + _SHARPNESS_SPREAD**-2)

        sharper = np.array([0.0, 1.0])

        def value(by: float) -> float:
            off = (float(self.centre[1]) + by - _SHARPNESS) / _SHARPNESS_SPREAD
            return float(self._value(effective, self.tilt + by * sharper).sum()) - 0.5 * off * off

        now = value(0.0)
        for _ in range(_SHORTER):
            if value(step) >= now - _SLACK * abs(now):
                self.tilt, self.centre = self.tilt + step * sharper, self.centre + step * sharper
                break
            step *= 0.25
        # given the annotators, the best centre is their mean, drawn a little towards the start
        precision = len(self.tilt) / self.variance[1]
        drawn = precision * self.tilt[:, 1].mean() + _SHARPNESS / _SHARPNESS_SPREAD**2
        self.centre = np.array([0.0, drawn / (precision + _SHARPNESS_SPREAD**-2)])
