"""Matrices that are mixtures of known features: the semi-synthetic data of Li & Liang (2017), Section 7.

    Y = A* X + N,        one sample (document) a column

====== ===================== ================================================ =====================================
kind   columns of A*         columns of X                                     N
====== ===================== ================================================ =====================================
DIR    topics                Dirichlet(0.05, …, 0.05)                         0
CTM    topics                softmax of N(0, Σ): correlated weights           0
NEG    uniform on [-½, ½)    as CTM                                           0
NOISE  topics                as CTM                                           columns from γ N(0, I / W)
====== ===================== ================================================ =====================================

The paper learned the topics from 1500 NIPS papers and does not state Σ.  Here topics are drawn from a Dirichlet
distribution whose mean falls as 1 / rank, as word frequencies do (pass ``features`` for topics of your own), and
Σ = s² C Cᵀ / D with standard normal C: the logits have deviation s, and any two of them are correlated.

====== ============================== ============
symbol name                           shape
====== ============================== ============
A*     ``features``                   (W, D)
X      ``weights``                    (D, n)
Y      ``data``                       (W, n)
s, γ   ``spread``, ``noise``          scalars
====== ============================== ============
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats
from consilience.validation import one_of, whole

__all__ = ["TopicSimulation", "perturbed", "simulate_topics"]


@dataclass(frozen=True, eq=False, slots=True)
class TopicSimulation:
    """Mixtures of features, the features and the weights."""

    data: Floats  #: Y, (W, n)
    features: Floats  #: A*, (W, D)
    weights: Floats  #: X, (D, n); columns sum to one


def simulate_topics(
    kind: Literal["DIR", "CTM", "NEG", "NOISE"] = "DIR",
    n_samples: int = 5000,
    n_components: int = 100,
    n_words: int = 1000,
    *,
    concentration: float = 0.05,
    spread: float = 5.0,
    noise: float = 0.05,
    features: Floats | None = None,
    seed: int = 0,
) -> TopicSimulation:
    """Draw a matrix of one of the four kinds.

    Parameters
    ----------
    kind
        ``"DIR"``, ``"CTM"``, ``"NEG"`` or ``"NOISE"``.
    n_samples, n_components, n_words
        n, D and W.
    concentration
        The Dirichlet parameter of each weight of DIR; small values make samples of few features.
    spread
        s, deviation of the logits of CTM, NEG and NOISE; large values make samples of few features.
    noise
        γ of NOISE, the length of a column of N; those of topics are 0.1 to 0.3.
    features
        A* to use instead of drawn topics, (W, D).
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> drawn = simulate_topics("NEG", 50, 3, 20)
    >>> drawn.data.shape, bool((drawn.weights >= 0).all()), bool((drawn.features < 0).any())
    ((20, 50), True, True)
    """
    one_of("kind", kind, ("DIR", "CTM", "NEG", "NOISE"))
    for name, value in (("n_samples", n_samples), ("n_components", n_components), ("n_words", n_words)):
        whole(name, value)
    if not (concentration > 0 and spread > 0 and noise >= 0):
        raise ParameterError("concentration and spread must be above 0, and noise not below it")
    rng = np.random.default_rng(seed)
    if features is not None:
        A = np.array(features, np.float64)
        if A.ndim != 2 or not np.isfinite(A).all():
            raise ParameterError(f"features must be finite, (words, features), not of shape {A.shape}")
        n_words, n_components = A.shape
    elif kind == "NEG":
        A = rng.uniform(-0.5, 0.5, (n_words, n_components))
    else:
        A = _topics(rng, n_words, n_components)
    if kind == "DIR":
        X = _columns(rng.standard_gamma(concentration, (n_components, n_samples)), rng)
    else:
        C = rng.standard_normal((n_components, n_components)) * (spread / np.sqrt(n_components))
        logits = C @ rng.standard_normal((n_components, n_samples))
        X = np.exp(logits - logits.max(axis=0))
        X /= X.sum(axis=0)
    Y = A @ X
    if kind == "NOISE":
        Y += rng.standard_normal(Y.shape) * (noise / np.sqrt(n_words))
    return TopicSimulation(Y, A, X)


def perturbed(features: Floats, *, in_span: float = 1.0, out_of_span: float = 0.0, seed: int = 0) -> Floats:
    """Return the start A* (I + U) + N of Appendix B.1: entries uniform on ±0.05 r_l in U and ±0.05 r_n in N.

    ``in_span`` is r_l and ``out_of_span`` r_n; the experiments of the main text have 1 and 0.
    """
    rng = np.random.default_rng(seed)
    W, D = features.shape
    U = rng.uniform(-0.05, 0.05, (D, D)) * in_span
    N = rng.uniform(-0.05, 0.05, (W, D)) * out_of_span
    start: Floats = features + features @ U + N
    return start


def _topics(rng: np.random.Generator, W: int, D: int) -> Floats:
    """Draw topics from a Dirichlet distribution with parameters 0.05 W / (rank log W …): few words each."""
    frequency = 1.0 / np.arange(1.0, W + 1.0)
    return _columns(rng.standard_gamma((0.05 * W * frequency / frequency.sum())[:, None], (W, D)), rng)


def _columns(gammas: Floats, rng: np.random.Generator) -> Floats:
    """Scale columns to sum to one; a column of zeros (underflow) gets a single entry."""
    empty = np.flatnonzero(~(gammas.sum(axis=0) > 0))
    gammas[rng.integers(0, len(gammas), empty.size), empty] = 1.0
    scaled: Floats = gammas / gammas.sum(axis=0)
    return scaled
