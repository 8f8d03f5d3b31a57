"""The Potts field of items on a graph, and how its coupling is learned without known truths.

Labels of items on a graph (Traganitis 2019, eqs (4.12)-(4.15)) have the probability

    Pr(y)  ∝  exp( Σ_n h[y_n]  +  Σ_edges w_e δ_e c[y_n] [y_n = y_n'] ).

======= =============== ======================================================= ================
symbol  name            meaning                                                 shape
======= =============== ======================================================= ================
h       ``field``       log-odds of the classes without neighbours          (K,)
δ       ``delta``       coupling; of an edge, the mean of its two items'        number or (N,)
w       ``weight``      of the edges, as given                                  (2 E,)
c       ``scale``       weight of agreement on a class, or of pairs of classes  (K,), (K, K)
π       ``prior``       share of the classes                                    (K,)
ρ       ``correlation`` of the errors of two labels of one item                 number
======= =============== ======================================================= ================

The thesis halves its energies: its δ_n is twice ours (erratum: the halves only rescale δ), and it must be symmetric.

**Fields.**  With h = log π and c = 1 ("prior") frequent classes count twice, in h and through their many neighbours,
and rare ones die out.  The thesis has h = 0 and c = 1 ("uniform"), which ignores the prior for items with few
neighbours.  The default ("stationary") avoids both: if the other end of an edge has the same class with probability a
and is otherwise drawn from π, y_n' multiplies the odds of class k by 1 - a + a [k = y_n'] / π_k, whose logarithm is

    h = log π,      δ c[k]  =  log(1 + (e^δ - 1) / (K π_k)),      a / (1 - a) = (e^δ - 1) / K,

so on a tree every item has the class probabilities π, whatever its number of neighbours.  With equal classes c = 1.

**Pairs of classes.**  With ``potentials`` (K, K), symmetric, an edge between classes k and k' has w δ c[k, k'] instead:
negative entries on the diagonal are neighbours that tend to differ, and classes that are near each other on a scale may
share part of the weight.

**δ** maximises the pseudo-likelihood (Besag 1975) of the labelling, expected under the mean field q:

    Σ_n Σ_k q_n(k) log Pr(y_n = k | neighbours at q),

but is limited by what :func:`edge_agreement` finds in the labels of the two ends of an edge: an overconfident mean
field would otherwise reinforce its own clusters.

**Similarity of the ends of an edge.**  With p_n the posterior from the labels of n alone and p̄ the mean of p over the
ends of edges, a maximises

    mean over edges of  log( 1 - a + a Σ_k p_n(k) p_n'(k) / p̄_k ),

a lower bound of the mutual information of the two ends (Donsker & Varadhan 1975; for independent ends, the mean of the
argument of the logarithm is one).

**Correlated errors.**  n labels whose errors have correlation ρ are worth n w independent ones,
w = 1 / (1 + (n - 1) ρ) (the design effect of Kish 1965).  Neighbours are evidence besides the labels, so ρ can be
estimated from the residuals with q taken for the truth: with r = [label is k] - A_m(k, k) and its standard deviation s,

    ρ  =  Σ_n Σ_k q_n(k) Σ_pairs r r'  /  Σ_n Σ_k q_n(k) Σ_pairs s s'.

J. Besag, "Statistical analysis of non-lattice data", The Statistician 24 (1975).  M. Donsker and S. Varadhan,
"Asymptotic evaluation of certain Markov process expectations for large time", Comm. Pure Appl. Math. 28 (1975).
L. Kish, "Survey sampling" (1965), section 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.kernels import potts as kernels
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.kernels.em import FLOOR
from consilience.structured.graph import Graph
from consilience.structured.links import joined_strengths

__all__ = [
    "Field",
    "FieldKind",
    "edge_agreement",
    "error_correlation",
    "label_weights",
    "most_delta",
    "pseudo_likelihood_delta",
]

FieldKind = Literal["stationary", "prior", "uniform"]

#: Largest δ: odds of e^12 to one.
MOST_DELTA = 12.0
#: Items and edges that are enough to estimate δ and a.
_SAMPLE_ITEMS, _SAMPLE_EDGES = 50_000, 100_000
_RESOLUTION = 1e-4


@dataclass(frozen=True, eq=False)
class Field:
    """The field of one graph with given coupling and prior, as arrays for the sweeps."""

    graph: Graph
    strength: Floats  #: w δ of every edge, (2 E,)
    field: Floats
    scale: Floats

    @classmethod
    def of(
        cls,
        graph: Graph,
        delta: float | Floats,
        prior: Floats,
        kind: FieldKind,
        apart: Graph | None = None,
        kappa: float = 0.0,
        potentials: Floats | None = None,
    ) -> Field:
        """Build the field of a coupling, one number or one per item, and of cannot-link pairs of strength κ.

        ``potentials`` (K, K) are those of pairs of classes.
        """
        if isinstance(delta, np.ndarray):
            ends = np.repeat(delta, graph.degree)
            strength = graph.weight * 0.5 * (ends + delta[graph.neighbour])
            typical = float(strength.sum() / max(graph.weight.sum(), FLOOR))
        else:
            strength, typical = graph.weight * delta, float(delta)
        field, scale = field_and_scale(typical, prior, kind)
        if apart is not None:
            graph, strength = joined_strengths(graph, strength, apart, kappa)
        return cls(graph, strength, field, scale if potentials is None else potentials)

    def evidence(self, log_labels: Floats, prior: Floats, gold: Ints | None) -> Floats:
        """Return ``h + Σ log A`` (N, K); for gold items, all other classes are ruled out.

        Items without neighbours have the log-prior for h, whatever the field.
        """
        evidence = log_labels + self.field
        alone = ~self.graph.joined
        evidence[alone] = log_labels[alone] + np.log(np.maximum(prior, FLOOR))
        if gold is not None:
            known = gold >= 0
            evidence[known] = np.where(np.arange(self.field.size) == gold[known, None], evidence[known], -np.inf)
        return evidence

    def mean_field(self, evidence: Floats, q: Floats, sweeps: int, tol: float) -> None:
        """Sweep q in place until no probability changes by more than ``tol``."""
        g = self.graph
        for _ in range(sweeps):
            if kernels.mean_field_sweep(g.indptr, g.neighbour, self.strength, evidence, self.scale, q) <= tol:
                break

    def icm(self, evidence: Floats, state: Ints, sweeps: int) -> None:
        """Sweep the labelling in place until no label changes."""
        g = self.graph
        for _ in range(sweeps):
            if kernels.icm_sweep(g.indptr, g.neighbour, self.strength, evidence, self.scale, state) == 0:
                break

    def conditional(self, evidence: Floats, state: Ints) -> Floats:
        """Return ``Pr(y_n = k | labels of n, neighbours at this labelling)``, (N, K)  (4.21)."""
        g, K = self.graph, self.field.size
        said = kernels.support(g.indptr, g.neighbour, self.strength, np.eye(K)[state])
        return softmax(evidence + self._coupled(said))

    def _coupled(self, said: Floats) -> Floats:
        """Return c times what the neighbours say, (N, K)."""
        return said * self.scale if self.scale.ndim == 1 else said @ self.scale

    def log_likelihood(self, evidence: Floats, q: Floats) -> float:
        """Return ``Σ_n log Pr(labels of n | neighbours at q)``: without edges, the log-likelihood."""
        g = self.graph
        return kernels.conditional_log_likelihood(
            g.indptr, g.neighbour, self.strength, evidence, self.field, self.scale, q
        )

    def bound(self, evidence: Floats, q: Floats) -> float:
        """Return the objective of mean-field sweeps, a lower bound of log Pr(labels) + log Z.

        Σ_n Σ_k q (e - log q)  +  Σ_edges w δ Σ_k c_k q_n(k) q_n'(k)
        """
        g = self.graph
        said = kernels.support(g.indptr, g.neighbour, self.strength, q)
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(q > 0, q * (evidence - np.log(q)), 0.0)
        return float(own.sum() + 0.5 * (q * self._coupled(said)).sum())

    def energy(self, evidence: Floats, state: Ints) -> float:
        """Return log Pr(y, labels) + log Z of a labelling, the objective of ICM."""
        g = self.graph
        start = np.repeat(np.arange(g.n_items), g.degree)
        pairs = np.diag(self.scale) if self.scale.ndim == 1 else self.scale
        coupled = 0.5 * float((self.strength * pairs[state[start], state[g.neighbour]]).sum())
        return float(evidence[np.arange(g.n_items), state].sum()) + coupled


def field_and_scale(delta: float, prior: Floats, kind: FieldKind) -> tuple[Floats, Floats]:
    """Return h and c, (K,) each."""
    K = prior.size
    prior = np.maximum(prior, FLOOR)
    if kind == "uniform" and delta > 0:
        return np.zeros(K), np.ones(K)
    if kind != "stationary" or delta <= 0:
        return np.log(prior), np.ones(K)
    # δ c[k] = log(1 + (e^δ - 1) / (K π_k))
    return np.log(prior), np.log1p(np.expm1(delta) / (K * prior)) / delta


def softmax(scores: Floats) -> Floats:
    """Normalise exp(scores) over the classes."""
    scores = scores - scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def pseudo_likelihood_delta(graph: Graph, q: Floats, prior: Floats, kind: FieldKind, most: float = MOST_DELTA) -> float:
    """Return the δ up to ``most`` that maximises the pseudo-likelihood expected under q."""
    from scipy.optimize import minimize_scalar

    rows = np.flatnonzero(graph.joined)
    rows = rows[:: max(1, rows.size // _SAMPLE_ITEMS)]
    if not rows.size or most <= _RESOLUTION:
        return 0.0
    said, here = kernels.support(graph.indptr, graph.neighbour, graph.weight, q, rows), q[rows]

    def loss(delta: float) -> float:
        field, scale = field_and_scale(delta, prior, kind)
        t = field + delta * scale * said
        top = t.max(axis=1, keepdims=True)
        normaliser = top[:, 0] + np.log(np.exp(t - top).sum(axis=1))
        return float(normaliser.sum() - (here * t).sum()) / rows.size

    return float(minimize_scalar(loss, bounds=(0.0, most), method="bounded", options={"xatol": _RESOLUTION}).x)


def most_delta(share: float, n_classes: int) -> float:
    """Return the δ that corresponds to agreement a on a tree."""
    return min(float(np.log1p(n_classes * share / max(1.0 - share, FLOOR))), MOST_DELTA)


def edge_agreement(graph: Graph, log_labels: Floats, prior: Floats) -> float:
    """Estimate a, the similarity of the two ends of an edge, from the labels of the ends."""
    # a sample may contain one or both directions of an edge
    at = np.arange(0, graph.neighbour.size, max(1, graph.neighbour.size // (2 * _SAMPLE_EDGES)))
    low, high = np.searchsorted(graph.indptr, at, "right") - 1, graph.neighbour[at].astype(np.int64)
    weight = graph.weight[at] / graph.weight[at].sum()
    nodes, ends = np.unique(np.concatenate([low, high]), return_inverse=True)
    first, second = ends[: low.size], ends[low.size :]
    p = softmax(np.log(np.maximum(prior, FLOOR)) + log_labels[nodes])
    mean = np.maximum(np.bincount(ends, np.tile(weight, 2) / 2, nodes.size) @ p, FLOOR)
    likeness = np.einsum("ek,ek->e", p[first] / mean, p[second]) - 1.0
    return _best_share(likeness, weight)


def label_weights(n_labels: Ints, correlation: float, joined: Bools) -> Floats:
    """Return the weight of each item's labels, (N,): 1 without neighbours, as in the i.i.d. model."""
    # w = 1 / (1 + (n - 1) ρ)
    return np.where(joined, 1.0 / (1.0 + np.maximum(n_labels - 1, 0) * correlation), 1.0)


def error_correlation(annotations: Annotations, q: Floats, confusions: Floats) -> float:
    """Return ρ, the correlation of the errors of two labels of an item, from 0 to 1, with q taken for the truth."""
    a = annotations
    rows = np.arange(0, a.n_items, max(1, a.n_items // _SAMPLE_ITEMS))
    if rows.size < a.n_items:
        a, q = a.select_items(rows), q[rows]
    item = a.item_of_label()

    def pairs(values: Floats) -> Floats:
        # Σ_pairs r r' = ((Σ r)² - Σ r²) / 2
        return np.asarray(np.bincount(item, values, a.n_items) ** 2 - np.bincount(item, values**2, a.n_items), float)

    together = apart = 0.0
    for k in range(a.n_classes):
        right = confusions[a.annotator, k, k]
        together += float(q[:, k] @ pairs((a.label == k) - right))
        apart += float(q[:, k] @ pairs(np.sqrt(right * (1.0 - right))))
    return float(np.clip(together / apart, 0.0, 1.0)) if apart > 0 else 0.0


def _best_share(likeness: Floats, weight: Floats) -> float:
    """Maximise Σ weight log(1 + a likeness) over a in [0, 1], which is concave, by bisection of its slope."""
    low, high = 0.0, 1.0 - 1e-6
    for _ in range(30):
        a = 0.5 * (low + high)
        if (weight * likeness / (1.0 + a * likeness)).sum() > 0:
            low = a
        else:
            high = a
    return 0.5 * (low + high)
