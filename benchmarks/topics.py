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

The paper learned the topics from 1500 NIPS papers; the matrix is public with its code (github.com/PrincetonML/AND4NMF,
``data/demo_L2_out.nips.100.A``).  Download it and name it in ``BENCH_TOPICS`` to use it here; without it, topics are
drawn from a Dirichlet distribution whose mean falls as 1 / rank, as word frequencies do.

The paper does not state the distribution of the logits.  Here Σ = s² C Cᵀ / D with standard normal C, one for all
samples: the logits have deviation s, and any two of them are correlated.  ``released=True`` draws as the paper's code:
logits C C z with a new C for every sample, which have deviation D, so that nearly all samples are pure; and noise of
deviation γ / W, not γ / √W.

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

__all__ = ["TopicSimulation", "perturbed", "simulate_topics", "topics_of"]


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
    released: bool = False,
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
    released
        Draw weights of CTM, NEG and NOISE, and noise, as in the paper's code.
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
        if released:
            logits = np.stack([_released_logits(rng, n_components) for _ in range(n_samples)], axis=1)
        else:
            C = rng.standard_normal((n_components, n_components)) * (spread / np.sqrt(n_components))
            logits = C @ rng.standard_normal((n_components, n_samples))
        X = np.exp(logits - logits.max(axis=0))
        X /= X.sum(axis=0)
    Y = A @ X
    if kind == "NOISE":
        Y += rng.standard_normal(Y.shape) * (noise / (n_words if released else np.sqrt(n_words)))
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


def topics_of(file: str) -> Floats:
    """Return a topic matrix, (W, D), from a text file with a row for each word."""
    topics: Floats = np.loadtxt(file)
    return topics


def _released_logits(rng: np.random.Generator, D: int) -> Floats:
    """Draw the logits of one sample as in the paper's code: C C z."""
    C = rng.standard_normal((D, D))
    logits: Floats = C @ (C @ rng.standard_normal(D))
    return logits


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
