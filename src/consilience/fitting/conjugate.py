"""Conjugate steps of EM, one pass each: a pass in, a better one out.

Let θ be the probabilities of the model, x = √θ, and r = √θ' - √θ where θ' is the EM step from θ.  In x the information
of the complete data is that of a plane, 4 w |dx|² with w the labels behind a probability, and the Jacobian J of EM is
symmetric: near a maximum x*, r = -(I - J)(x - x*).  So two passes tell how the likelihood bends along the line between
them, and the next step need not go that way again, as with conjugate gradients:

    s = x - x₀,   y = r - r₀,   γ = ⟨s, r⟩ / ⟨s, y⟩,   x' = x + r - γ (s + y),        ⟨a, b⟩ = Σ w a b.

SQUAREM (:mod:`consilience.fitting.squarem`) needs two passes for a leap, and leaps along one line.

Steps are at most ``cap`` times as long as r; one that had to be cut and led up doubles it, one that led down halves it.
A step that leads down is dropped for the EM step from the same pass: the objective never falls.  Where ⟨s, y⟩ is not
negative the likelihood does not bend as near a maximum, and the EM step is taken, too.

The EM step raises the objective by about 2 ⟨r, r⟩ or more.  Where that is below the tolerance, the EM step is taken,
and the objective after it tells whether EM has converged.

M. Jamshidian and R. Jennrich, "Conjugate gradient acceleration of the EM algorithm", JASA 88 (1993), take EM steps for
gradients, too, but search along every line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilience.fitting.ledger import Ledger, Over, Pass
from consilience.fitting.m_steps import Parameters, steady
from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR, SMALL, Statistics

__all__ = ["Ascent", "Before", "Step"]

#: How many times as long as r the first steps may be.
_CAP = 4.0
#: How much of a root a step leaves at the least: from a probability of nearly zero EM hardly comes back.
_SHRUNK = 0.25
#: The smallest probability that a step leads to.
_LEAST = 0.1 * FLOOR

Step = Pass[Parameters, Statistics]


class Before(NamedTuple):
    """A point, and the EM step from there."""

    at: Parameters
    after: Parameters


class _Point(NamedTuple):
    """Roots and residuals of the prior and of the confusions."""

    x: Parameters
    r: Parameters


class _Products(NamedTuple):
    """⟨r, r⟩, ⟨s, r⟩, ⟨s, y⟩, ⟨r, u⟩ and ⟨u, u⟩, where u = s + y."""

    rr: float
    sr: float
    sy: float
    ru: float
    uu: float


class Ascent:
    """Conjugate steps on one objective: arrive at a pass, go on by a step to another, arrive there, and so forth.

    Parameters
    ----------
    ledger
        Runs the passes.
    before, cap
        The point before the first, if there was one, and how long steps may be.
    """

    def __init__(self, ledger: Ledger[Parameters, Statistics], before: Before | None = None, cap: float = _CAP) -> None:
        self.ledger, self.before, self.cap = ledger, before, cap
        self.promised: float  #: what the EM step raises the objective by, or more, relative to it
        self._here: Step
        self._now: _Point | None = None  # roots and residuals here, and at the point before
        self._last: _Point | None = None
        self._products: _Products
        self._small = ledger.over_all.labels < SMALL  # no loop is compiled, and parameters are rounded

    def is_near(self) -> bool:
        """Whether the EM step promises no more than the tolerance; then it is the next step."""
        return self.promised <= self.ledger.tol

    def arrive(self, here: Step) -> None:
        """Look at what a pass left behind."""
        items, labels = float(here.sums.class_counts.sum()), np.einsum("mik->mk", here.sums.counts)
        self._last = self._now
        if self._last is None and self.before is not None:  # taken up from a run that was killed
            self._last, _ = self._measured(self.before, items, labels, None)
        self._here, self.before = here, Before(here.at, here.after)
        self._now, self._products = self._measured(self.before, items, labels, self._last)
        self.promised = 2.0 * self._products.rr / max(abs(here.objective), 1.0)

    def step(self, over: Over[Parameters, Statistics] | None = None) -> Step:
        """Go on by a conjugate step, or where there is none or it leads down, by an EM step; pass ``over`` items."""
        here, (far, cut) = self._here, self._far()
        if far is not None:
            there = self.ledger(far, leap_from=here, over=over)
            if there.objective >= here.objective:
                self.cap *= 2.0 if cut else 1.0
                return there
            self.cap = max(1.0, 0.5 * self.cap)
        return self.ledger(here.after, here, over=over)

    def _far(self) -> tuple[Parameters | None, bool]:
        """Give where the conjugate step leads, None if there is none, and whether it had to be cut."""
        rr, sr, sy, ru, uu = self._products
        if self.is_near() or self._last is None or self._now is None or not sy < 0.0:
            return None, False
        # d = r - γ u, at most ``cap`` times as long as r
        gamma = sr / sy
        length = np.sqrt(max(rr - 2.0 * gamma * ru + gamma * gamma * uu, 0.0) / rr)
        share = min(1.0, self.cap / length) if length > 0.0 else 1.0
        return self._landed(self._last, self._now, share, -share * gamma), share < 1.0

    def _measured(self, of: Before, items: float, labels: Floats, before: _Point | None) -> tuple[_Point, _Products]:
        """Give roots and residuals, and their products with those of the point before."""
        (x, r), (X, R) = _roots(of.at.prior, of.after.prior), _roots(of.at.confusions, of.after.confusions)
        now = _Point(Parameters(x, X), Parameters(r, R))
        (x0, X0), (r0, R0) = before or now
        sums = _products(items, x, r, x0, r0)
        if self._small:
            sums += _products(labels[:, None, :], X, R, X0, R0)
        else:
            from consilience.kernels.leaps import products

            sums += products(labels, X, R, X0, R0)
        return now, _Products(*sums.tolist())

    def _landed(self, before: _Point, now: _Point, a: float, b: float) -> Parameters:
        """Give (x + a r + b u)², with columns that sum to one."""
        prior = _land(now.x.prior, now.r.prior, before.x.prior, before.r.prior, a, b)
        arrays = now.x.confusions, now.r.confusions, before.x.confusions, before.r.confusions
        if self._small:
            confusions = _land(*arrays, a, b)
        else:
            from consilience.kernels.leaps import land_conjugate

            confusions = land_conjugate(*arrays, a, b, _SHRUNK, _LEAST)
        return steady(Parameters(prior, confusions), self.ledger.over_all.labels)


def _roots(at: Floats, after: Floats) -> tuple[Floats, Floats]:
    x = np.sqrt(at)
    return x, np.sqrt(after) - x


def _products(weights: float | Floats, x: Floats, r: Floats, x0: Floats, r0: Floats) -> Floats:
    s, y = x - x0, r - r0
    vectors = np.stack([r, s, y, s + y])
    # all products at once; not by BLAS, whose threads would decide the last bits
    of = np.einsum("ac,bc->ab", (weights * vectors).reshape(4, -1), vectors.reshape(4, -1))
    return np.array([of[0, 0], of[1, 0], of[1, 2], of[0, 3], of[3, 3]])


def _land(x: Floats, r: Floats, x0: Floats, r0: Floats, a: float, b: float) -> Floats:
    root = x + a * r + b * ((x - x0) + (r - r0))
    made: Floats = np.maximum(np.maximum(root, _SHRUNK * x) ** 2, _LEAST)
    made /= made.sum(axis=-2, keepdims=True) if made.ndim > 1 else made.sum()
    return made
