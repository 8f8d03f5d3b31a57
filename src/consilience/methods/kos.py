"""Karger, Oh and Shah's message passing between items and annotators: scores one way, reliabilities the other.

    x_(n→m)  =  Σ_(m' ≠ m) a_(n m') y_(m'→n),        y_(m→n)  =  Σ_(n' ≠ n) a_(n' m) x_(n'→m)

along the labels, from y ~ N(1, 1); the label of n is the sign of Σ_m a_(n m) y_(m→n) (Karger, Oh & Shah 2011).  This
is power iteration without backtracking: a label is never evidence for itself.  With more than two classes there is one
problem for each class against the rest, and the class with the largest score wins (after Karger, Oh & Shah 2013).

========= ========================================== ==============
symbol    meaning                                    name
========= ========================================== ==============
a_(n m)   [m said k of n] - c_m(k)                   ``center``
c_m(k)    share of k in m's labels, or 1/2           ``center``
y         weight of a label of m                     ``weights``
========= ========================================== ==============

The algorithm assumes regular random graphs and annotators who prefer no class.  On RTE four annotators with many labels
get all the weight, and half of the labels are wrong.  Two changes help: labels are centred by each annotator's shares
(as in 2013), and y is a mean over the annotator's labels, not a sum.  The algorithm of 2011 is ``center=False,
normalize=False, prior="uniform"``.  (Tables often list as KOS the leading singular vector of the matrix of labels with
zeros for missing ones, its columns centred: 11.11 % errors on Bluebird, 39.75 % on RTE, 51.95 % on TREC.)  A weakness
remains: of two crowds that meet only through spammers, the leading vector covers one.

D. R. Karger, S. Oh and D. Shah, "Iterative learning for reliable crowdsourcing systems", NIPS 2011; "Efficient
crowdsourcing for multi-class labeling", SIGMETRICS 2013.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.exceptions import ConvergenceWarning
from consilience.fitting.em import Callback, Progress
from consilience.fitting.fit import Caution, Fit
from consilience.kernels._arrays import Floats
from consilience.kernels.messages import pass_messages, structural_noise
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method
from consilience.methods.base.weighted_votes import label_shares, oriented, steadied, weighted_vote

__all__ = ["KOS", "METHOD", "kos"]


class KOS(IterativeEstimator):
    """Messages between items and annotators (Karger, Oh & Shah 2011); each class against the rest.

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    center
        Subtract the shares of an annotator's labels, in the messages and in the model.
    normalize
        Let an annotator's message be a mean over their labels instead of a sum.
    prior
        Learn the class prior with the scale of the weights, or hold it uniform: the plain weighted vote.
    max_iter, tol
        Iterations of each problem, and the relative change of the weights that ends them (0: run all).
    random_state
        Decides everything that is random.
    callback
        Called after every iteration; ends the fit by returning True.
    """

    _method = "kos"

    center: bool = True
    normalize: bool = True
    prior: Literal["learned", "uniform"] = "learned"
    tol: float = 1e-4


def kos(
    annotations: Annotations,
    *,
    center: bool = True,
    normalize: bool = True,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-4,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by message passing; :class:`KOS` documents the parameters."""
    a = annotations
    M, K = a.n_annotators, a.n_classes
    n = a.labels_per_annotator
    seed = int(np.random.default_rng(random_state).integers(2**63))
    start = 1.0 + structural_noise(a.indptr, a.annotator, a.label, M, K, seed)
    shares = label_shares(a) if center else np.full((M, K), 0.5)
    factor = 1.0 / steadied(np.maximum(n - 1, 0)) if normalize else np.ones(M)
    run = _MessagePassing(max_iter, tol, callback)
    # with two classes, the second problem is the first one reversed
    problems = range(K) if K > 2 else range(K - 1)
    found = [run(a, k, np.ascontiguousarray(shares[:, k]), factor, start) for k in problems]
    weights = np.stack(found, axis=1) if found else np.zeros((M, K))
    others = np.repeat(a.labels_per_item - 1, a.labels_per_item)
    weights[np.bincount(a.annotator, others, M) == 0] = np.nan  # nobody to compare them to
    cautions: tuple[Caution, ...] = ()
    if tol > 0 and not run.converged:
        cautions = (
            (f"the messages did not settle in {max_iter} iterations; raise max_iter or tol", ConvergenceWarning),
        )
    return weighted_vote(
        a,
        weights,
        habits=shares if center else None,
        prior=prior,
        converged=run.converged,
        history=run.history,
        cautions=cautions,
    )


METHOD = Method("kos", kos, "KOS", "messages between items and annotators")


class _MessagePassing:
    """Iterations for one class after another, with their common history."""

    def __init__(self, max_iter: int, tol: float, callback: Callback | None) -> None:
        self.max_iter, self.tol, self.callback = max_iter, tol, callback
        self.history: list[float] = []  #: growth of the messages in each iteration: the leading eigenvalue, in the end
        self.converged = True
        self.stopped = False

    def __call__(self, a: Annotations, k: int, center: Floats, factor: Floats, start: Floats) -> Floats:
        """Return the weights of the annotators in the problem of class k against the rest."""
        n = a.labels_per_annotator
        message, total, scaled = -start, np.zeros(a.n_annotators), np.ones(a.n_annotators)
        before = weights = np.zeros(a.n_annotators)
        settled = False
        for _ in range(self.max_iter):
            if self.stopped:
                break
            total = pass_messages(a.indptr, a.annotator, a.label, k, center, total, scaled, message)
            latest = total * factor
            growth = float(np.sqrt(n @ latest**2 / max(n.sum(), 1)))
            self.history.append(growth)
            if growth == 0.0:
                settled = True
                break
            latest /= growth
            scaled = factor / growth
            # With an eigenvalue -λ, alone or beside λ, messages alternate for ever: the mean of two in a row converges.
            mean = latest + before if latest @ (n * before) >= 0 else latest - before
            mean = mean if mean @ (n * weights) >= 0 else -mean
            change = float(np.sqrt(n @ (mean - weights) ** 2 / (n @ mean**2)))
            before, weights = latest, mean
            if self.callback and self.callback(Progress(len(self.history), self.max_iter, growth, change)):
                self.stopped = True
            if self.tol > 0 and change <= self.tol:
                settled = True
                break
        self.converged = self.converged and settled
        return oriented(a, weights)
