"""Passes over pairwise comparisons: likelihood with its derivatives, products with the information matrix, noise.

Comparison c is between the items i and j (i < j by code) by judge m.  Its log-odds and its tie parameter are

    η = u[m, 0] (s_i - s_j) + u[m, 1] d + u[m, 2] x,        θ = u[m, 3],

and i wins with weight exp(η / 2), j with exp(-η / 2), and they tie with exp(θ) (Davidson, 1970).

========== =============================================================== ============
symbol     name                                                            shape
========== =============================================================== ============
i, j, m    ``first``, ``second``, ``judge``                                (C,) int32
d          ``side``: 1 if i was on the left, -1 if on the right            (C,) int8
y          ``outcome``: 1 if i won, -1 if j won, 0 for a tie               (C,) int8
x          ``length``: advantage of i by the length of its text            (C,) or (0,)
-          ``weight``: how much the comparison counts; empty if all count  (C,) or (0,)
           the same
s          ``scores``                                                      (N,)
u          ``judges``: reliability, position, length, ties                 (M, 4)
W          ``weights``: second derivatives of the log-normaliser by        (C, 3)
           (η, η), (η, θ) and (θ, θ); the observed and the expected
           information of a comparison are the same
========== =============================================================== ============

Scores and reliabilities are not known exactly.  With variances a_i of scores and b_m of reliabilities, η has variance

    v = u[m, 0]² (a_i + a_j) + b_m (s_i - s_j)²,

and log-likelihood and derivatives are means over η ± √v: the expectation to third order in the uncertainty.  At the
mode alone, scores would be too close to each other, and judges of few comparisons too extreme.

The cut into blocks depends on the data alone, and results are added in the order of the blocks.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from consilience.kernels import blocks
from consilience.kernels._arrays import Codes, Floats, even_parts
from consilience.kernels._compile import kernel

__all__ = ["Passes", "Sweep"]

_DATA = "int64 int64 int32[] int32[] int32[] int8[] int8[] float64[]"
#: A block of fewer comparisons than this does not pay for a thread; each block sums into arrays of its own.
_PER_BLOCK, _MOST_BLOCKS = 1 << 17, 8


class Sweep(NamedTuple):
    """Expected log-likelihood and its derivatives; the second ones with the sign of information."""

    log_likelihood: float
    by_score: Floats  #: (N,)
    information: Floats  #: of each score given everything else, (N,)
    by_judge: Floats  #: (M, 4)
    judge_information: Floats  #: of the parameters of each judge, given the scores, (M, 4, 4)
    weights: Floats  #: (C, 3)


class Passes:
    """Comparisons, and the passes over them."""

    def __init__(
        self,
        first: Codes,
        second: Codes,
        judge: Codes,
        side: Codes,
        outcome: Codes,
        length: Floats,
        weight: Floats,
        N: int,
        M: int,
    ) -> None:
        self.data = first, second, judge, side, outcome, length
        self.weight = weight
        self.N, self.M, self.C = N, M, first.size
        parts = min(_MOST_BLOCKS, self.C // max(_PER_BLOCK, 5 * (N + 14 * M)))
        self._parts = even_parts(self.C, parts)

    def sweep(
        self, scores: Floats, judges: Floats, score_variances: Floats, judge_variances: Floats, *, ties: bool
    ) -> Sweep:
        """Return the expected log-likelihood around these parameters and its derivatives."""
        weights = np.empty((self.C, 3))
        normaliser = np.exp(judges[:, 3]) * ties
        run = kernel(
            _sweep,
            f"{_DATA} float64[] float64[] float64[,] float64[] float64[] float64[] "
            "float64[,]! float64[]! float64[]! float64[,]! float64[,,]!",
            "float64",
        )

        def work(start: int, stop: int) -> tuple[Any, ...]:
            made = np.zeros(self.N), np.zeros(self.N), np.zeros((self.M, 4)), np.zeros((self.M, 4, 4))
            known = scores, judges, score_variances, judge_variances, normaliser
            return (run(start, stop, *self.data, self.weight, *known, weights, *made), *made)

        return Sweep(*reduce(blocks.add, map(_Parts._make, blocks.run(work, self._parts))), weights)

    def multiply(self, scores: Floats, judges: Floats, weights: Floats, z: Floats, d: Floats) -> tuple[Floats, Floats]:
        """Return the information matrix of scores and judges times K vectors: z (N, K) and d (M, 4, K)."""
        run = kernel(
            _multiply, f"{_DATA} float64[] float64[,] float64[,] float64[,] float64[,,] float64[,]! float64[,,]!"
        )

        def work(start: int, stop: int) -> tuple[Floats, Floats]:
            made = np.zeros(z.shape), np.zeros(d.shape)
            run(start, stop, *self.data, scores, judges, weights, z, d, *made)
            return made

        z_out, d_out = reduce(blocks.add, map(_Pair._make, blocks.run(work, self._parts)))
        return z_out, d_out

    def noise(self, scores: Floats, judges: Floats, weights: Floats, K: int, seed: int) -> tuple[Floats, Floats]:
        """Return K draws, (N, K) and (M, 4, K), whose covariance is the information matrix of the comparisons."""
        run = kernel(
            _noise, f"{_DATA} float64[] float64[,] float64[,] uint64 float64[,]! float64[,,]!", helpers=(_hash,)
        )

        def work(start: int, stop: int) -> tuple[Floats, Floats]:
            made = np.zeros((self.N, K)), np.zeros((self.M, 4, K))
            run(start, stop, *self.data, scores, judges, weights, np.uint64(seed), *made)
            return made

        z, d = reduce(blocks.add, map(_Pair._make, blocks.run(work, self._parts)))
        return z, d


class _Parts(NamedTuple):
    log_likelihood: float
    by_score: Floats
    information: Floats
    by_judge: Floats
    judge_information: Floats


class _Pair(NamedTuple):
    z: Floats
    d: Floats


def _sweep(
    start: Any,
    stop: Any,
    first: Any,
    second: Any,
    judge: Any,
    side: Any,
    outcome: Any,
    length: Any,
    weight: Any,
    scores: Any,
    judges: Any,
    score_variances: Any,
    judge_variances: Any,
    normaliser: Any,
    weights: Any,
    by_score: Any,
    information: Any,
    by_judge: Any,
    judge_information: Any,
) -> Any:
    total = 0.0
    for c in range(start, stop):
        i, j, m = first[c], second[c], judge[c]
        x = length[c] if length.size else 0.0
        d, y = np.float64(side[c]), np.float64(outcome[c])
        b, gap = judges[m, 0], scores[i] - scores[j]
        eta = b * gap + d * judges[m, 1] + x * judges[m, 2]
        of_gap, of_b = score_variances[i] + score_variances[j], judge_variances[m]
        spread = np.sqrt(b * b * of_gap + gap * gap * of_b)
        A, D, p_tie, v, cov, t, slope = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for sign in (-0.5, 0.5):
            at = eta + 2.0 * sign * spread
            # exp(|η| / 2) is taken out of the normaliser, so that nothing overflows
            small = np.exp(-0.5 * abs(at))
            tie = normaliser[m] * small
            Z = 1.0 + small * small + tie
            q = tie / Z
            E = np.sign(at) * (1.0 - small * small) / Z  # Pr(i wins) - Pr(j wins)
            A += 0.5 * (0.5 * abs(at) + np.log(Z))
            D += 0.5 * E
            p_tie += 0.5 * q
            v += 0.125 * (1.0 - q - E * E)
            cov -= 0.25 * q * E
            t += 0.5 * q * (1.0 - q)
            slope += sign * E
        # (A'(η + √v) - A'(η - √v)) / (2 √v), with A' = E / 2
        slope = 0.5 * slope / spread if spread > 1e-6 else v
        w = weight[c] if weight.size else 1.0
        total += w * (0.5 * y * eta - A)
        if y == 0.0:
            total += w * judges[m, 3]
        r_eta = 0.5 * w * (y - D)
        r_theta = w * ((1.0 if y == 0.0 else 0.0) - p_tie)
        v, cov, t, slope = w * v, w * cov, w * t, w * slope
        weights[c, 0], weights[c, 1], weights[c, 2] = v, cov, t
        r_score = b * r_eta - gap * of_b * slope
        by_score[i] += r_score
        by_score[j] -= r_score
        information[i] += b * b * v
        information[j] += b * b * v
        by_judge[m, 0] += gap * r_eta - b * of_gap * slope
        by_judge[m, 1] += d * r_eta
        by_judge[m, 2] += x * r_eta
        by_judge[m, 3] += r_theta
        H = judge_information[m]
        H[0, 0] += gap * gap * v
        H[0, 1] += gap * d * v
        H[0, 2] += gap * x * v
        H[0, 3] += gap * cov
        H[1, 1] += v
        H[1, 2] += d * x * v
        H[1, 3] += d * cov
        H[2, 2] += x * x * v
        H[2, 3] += x * cov
        H[3, 3] += t
    for m in range(judge_information.shape[0]):
        for p in range(4):
            for q in range(p):
                judge_information[m, p, q] = judge_information[m, q, p]
    return total


def _multiply(
    start: Any,
    stop: Any,
    first: Any,
    second: Any,
    judge: Any,
    side: Any,
    outcome: Any,
    length: Any,
    scores: Any,
    judges: Any,
    weights: Any,
    z: Any,
    d: Any,
    z_out: Any,
    d_out: Any,
) -> None:
    K = z.shape[1]
    for c in range(start, stop):
        i, j, m = first[c], second[c], judge[c]
        x = length[c] if length.size else 0.0
        left = np.float64(side[c])
        b, gap = judges[m, 0], scores[i] - scores[j]
        v, cov, t = weights[c, 0], weights[c, 1], weights[c, 2]
        for k in range(K):
            # (δη, δθ), times the 2 × 2 weights, back to the parameters
            eta = b * (z[i, k] - z[j, k]) + gap * d[m, 0, k] + left * d[m, 1, k] + x * d[m, 2, k]
            theta = d[m, 3, k]
            p = v * eta + cov * theta
            z_out[i, k] += b * p
            z_out[j, k] -= b * p
            d_out[m, 0, k] += gap * p
            d_out[m, 1, k] += left * p
            d_out[m, 2, k] += x * p
            d_out[m, 3, k] += cov * eta + t * theta


def _hash(value: Any) -> Any:
    """Return 64 bits that look random (SplitMix64)."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _noise(
    start: Any,
    stop: Any,
    first: Any,
    second: Any,
    judge: Any,
    side: Any,
    outcome: Any,
    length: Any,
    scores: Any,
    judges: Any,
    weights: Any,
    seed: Any,
    z_out: Any,
    d_out: Any,
) -> None:
    K = z_out.shape[1]
    for c in range(start, stop):
        i, j, m = first[c], second[c], judge[c]
        x = length[c] if length.size else 0.0
        left = np.float64(side[c])
        b, gap = judges[m, 0], scores[i] - scores[j]
        v, cov, t = weights[c, 0], weights[c, 1], weights[c, 2]
        root = np.sqrt(max(v, 1e-300))
        along = cov / root
        rest = np.sqrt(max(t - along * along, 0.0))
        bits = _hash(seed + np.uint64(c))
        for k in range(K):  # random signs: their covariance is all that is used
            e1 = 1.0 if (bits >> np.uint64(2 * k)) & np.uint64(1) else -1.0
            e2 = 1.0 if (bits >> np.uint64(2 * k + 1)) & np.uint64(1) else -1.0
            p = root * e1
            z_out[i, k] += b * p
            z_out[j, k] -= b * p
            d_out[m, 0, k] += gap * p
            d_out[m, 1, k] += left * p
            d_out[m, 2, k] += x * p
            d_out[m, 3, k] += along * e1 + rest * e2
