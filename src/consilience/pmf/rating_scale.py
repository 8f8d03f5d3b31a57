"""A joint distribution of ratings whose components are kinds of users: they differ in level, extremity and tastes.

The model is the mixture of products of :mod:`consilience.pmf.cpd`.  With few ratings per user its factors cannot be
free: there is less than one rating per component and item.  Component f is therefore a kind of user, a point θ_f of the
standard normal distribution, that tilts the distribution of all ratings of item n:

    A_n(r, f) ∝ m_n(r) exp( t(r) (φ_n1 + φ_n3 θ_f1 + Σ_k φ_n,4+k θ_f,2+k) + e(r) (φ_n2 + φ_n4 θ_f2) ),     λ_f = 1 / F

with t(r) the rating and e(r) its squared distance from the middle of the scale, both centred and in units of the
standard deviation of all ratings.  θ_f1 separates mild from strict users, θ_f2 users of extreme ratings, and the others
are tastes.  The logarithm of the tilt is a sum of products, like r ≈ b_n + b_u + p_u · q_n (Y. Koren, R. Bell and
C. Volinsky, "Matrix factorization techniques for recommender systems", Computer 42 (2009)), but users are summed out,
not estimated.  EM (Ibrahim & Fu, "Recovering joint PMF from pairwise marginals", eqs (21)-(22)) maximises

    Σ_s log Σ_f λ_f ∏_n A_n(z_s(n), f)  −  β/2 Σ_n Σ_p (φ_np − φ̄_p)² / σ_p²,

with a Newton step for φ_n in place of (22), as the A_n are not free; φ̄ is the mean over items (zero for tastes).

====== ============== ===============================================================
symbol name           shape
====== ============== ===============================================================
θ      ``points``     (F, 2 + d)
φ      ``slopes``     (N, 4 + d), offsets of item n and its response to θ
σ      ``_SPREAD``    standard deviations of items around φ̄; the last for all tastes
β      ``shrinkage``
m_n    ``shares``     (N, R), shrunk to those of all items by max(100 β, 1) ratings
A      ``factors``    (N, R, F), R rating values
====== ============== ===============================================================

σ, the start of φ̄ and the 100 were chosen by the error on held-out ratings of movies that the benchmark does not use
(``benchmarks/movielens.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consilience.engine.progress import Callback
from consilience.fitting.ascent import Ascent, EMModel
from consilience.kernels._arrays import Codes, Floats
from consilience.kernels.cpd import TablePass
from consilience.pmf.cpd import CPD, split_factors
from consilience.validation import generator

__all__ = ["RatingScaleFit", "fit_rating_scale"]

#: σ of rating, extremity, response to level and to extremity, response to each taste.
_SPREAD = 0.3, 0.1, 0.05, 0.1, 0.3
#: φ̄ at the start.
_START = 0.0, 0.0, 0.5, 0.1
#: Ratings by which an item's shares are shrunk to those of all, per unit of β; at least one.
_PSEUDO = 100.0
#: Most halvings of a Newton step that lowers the objective.
_HALVINGS = 12


class RatingScaleFit(NamedTuple):
    """A fitted joint distribution of ratings."""

    model: CPD
    typical: Floats  #: factor (R, F) of an item without ratings
    slopes: Floats
    points: Floats
    history: list[float]  #: penalised log-likelihood after every pass
    converged: bool


def fit_rating_scale(
    codes: Codes,
    values: Any,
    n_components: int,
    n_tastes: int,
    *,
    shrinkage: float = 1.0,
    max_iter: int = 200,
    tol: float = 1e-5,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> RatingScaleFit:
    """Fit the model to coded ratings (users, items), -1 missing; code c means the rating ``values[c]``."""
    rng = generator(random_state)
    N, R, F = codes.shape[1], len(values), n_components
    scale = _Scale(codes, np.asarray(values, np.float64), _points(F, 2 + n_tastes, rng), shrinkage)
    mean = np.concatenate([_START, np.zeros(n_tastes)])
    slopes = np.tile(mean, (N, 1))
    # tastes that start at zero would stay there
    slopes[:, 4:] += scale.spread[4:] * rng.standard_normal((N, n_tastes))
    start = _Items(slopes, scale.factors(slopes), mean)
    end = Ascent(scale, start, accelerate=False).run(max_iter=max_iter, tol=tol, callback=callback)
    slopes, factors, mean = end.at
    typical = scale.factors(mean[None], scale.everything[None])[0]
    model = CPD(scale.weights, split_factors(factors.reshape(N * R, F), [R] * N))
    return RatingScaleFit(model, typical, slopes, scale.points, end.history, end.converged)


class _Items(NamedTuple):
    """The parameters of EM: the slopes of items, their factors, and the mean of the slopes."""

    slopes: Floats
    factors: Floats
    mean: Floats


class _Counts(NamedTuple):
    """Expected ratings (N, R, F), and the parameters that they were expected at."""

    at: _Items
    counts: Floats


class _Scale(EMModel[_Items, _Counts]):
    """The tilts of one set of ratings and points, as the ascent sees them."""

    def __init__(self, codes: Codes, values: Floats, points: Floats, shrinkage: float) -> None:
        N, R = codes.shape[1], len(values)
        self.points, self.sweep = points, TablePass(codes, [R] * N)
        self.weights = np.full(len(points), 1.0 / len(points))
        user, item = np.nonzero(codes >= 0)
        counts = np.bincount(item * R + codes[user, item], minlength=N * R).reshape(N, R)
        self.everything = (counts.sum(axis=0) + 1.0) / (counts.sum() + R)
        shares = counts + max(_PSEUDO * shrinkage, 1.0) * self.everything
        self.shares = shares / shares.sum(axis=1, keepdims=True)
        # t(r), e(r)
        centred = values - self.everything @ values
        unit = np.sqrt(self.everything @ centred**2) or 1.0
        extreme = ((values - (values[0] + values[-1]) / 2) / unit) ** 2
        self.tilts = np.stack([centred / unit, extreme - self.everything @ extreme])
        d = points.shape[1] - 2
        self.spread = np.concatenate([_SPREAD[:4], np.full(d, _SPREAD[4])])
        self.precision = max(shrinkage, 1e-6) / self.spread**2
        # each slope multiplies t or e, times one of these
        self.of_extreme = np.isin(np.arange(4 + d), (1, 3))
        ones = np.ones((len(points), 1))
        self.answers = np.concatenate([ones, ones, points], axis=1)

    def factors(self, slopes: Floats, shares: Floats | None = None) -> Floats:
        """Return A_n(r, f) of items with these slopes, (N, R, F)."""
        by_kind = np.stack([(slopes * keep) @ self.answers.T for keep in (~self.of_extreme, self.of_extreme)], axis=1)
        logs = self.tilts.T @ by_kind
        logs += np.log(self.shares if shares is None else shares)[:, :, None]
        logs -= logs.max(axis=1, keepdims=True)
        made: Floats = np.exp(logs)
        made /= made.sum(axis=1, keepdims=True)
        return made

    def e_step(self, at: _Items) -> tuple[_Counts, float]:
        """Return the expected ratings by item and component (21)."""
        N, R, F = at.factors.shape
        statistics = self.sweep(self.weights, at.factors.reshape(N * R, F))
        return _Counts(at, statistics.counts.reshape(N, R, F)), statistics.log_likelihood

    def penalty(self, at: _Items) -> float:
        """Return minus the penalty of the distances of items from their mean."""
        return -float(self._distance(at.slopes, at.mean).sum())

    def _distance(self, slopes: Floats, mean: Floats) -> Floats:
        return np.asarray(0.5 * ((slopes - mean) ** 2 @ self.precision), np.float64)

    def m_step(self, sums: _Counts) -> _Items:
        """Take a Newton step on the expected log-likelihood of every item, halved until it does not fall."""
        (slopes, factors, mean), counts = sums
        total = counts.sum(axis=1)
        # means of t and e in each component, and the residuals of the ratings, (N, 2, F)
        means = self.tilts @ factors
        surprise = (self.tilts @ counts - total[:, None] * means) @ self.answers
        gradient = np.where(self.of_extreme, surprise[:, 1], surprise[:, 0])
        gradient -= self.precision * (slopes - mean)
        p = slopes.shape[1]
        pairs = (self.answers[:, :, None] * self.answers[:, None, :]).reshape(-1, p * p)
        curvature = np.zeros((len(slopes), p, p))
        kind = self.of_extreme.astype(int)
        for a, b in ((0, 0), (0, 1), (1, 1)):
            # variances, and the covariance, of t and e in each component
            covariance = (self.tilts[a] * self.tilts[b]) @ factors - means[:, a] * means[:, b]
            here = np.add.outer(kind, kind) == a + b
            curvature += np.where(here, ((total * covariance) @ pairs).reshape(-1, p, p), 0.0)
        curvature += np.diag(self.precision)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]

        def worth(at: Floats, made: Floats) -> Floats:
            gained: Floats = (counts * np.log(np.maximum(made, 1e-300))).sum(axis=(1, 2)) - self._distance(at, mean)
            return gained

        before = worth(slopes, factors)
        for _ in range(_HALVINGS):
            there = slopes + step
            made = self.factors(there)
            down = worth(there, made) < before
            if not down.any():
                break
            step[down] *= 0.5
        else:
            there = np.where(down[:, None], slopes, there)
            made = self.factors(there)
        mean = np.concatenate([there[:, :4].mean(axis=0), mean[4:]])
        return _Items(there, made, mean)


def _points(F: int, d: int, rng: np.random.Generator) -> Floats:
    """Return scrambled Sobol points, transformed to the standard normal distribution, (F, d)."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    even = qmc.Sobol(d, seed=rng).random_base2(int(F - 1).bit_length())[:F]
    points: Floats = ndtri(np.clip(even, 1e-9, 1.0 - 1e-9))
    return points
