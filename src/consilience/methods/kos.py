"""Karger, Oh and Shah's message passing: items say what they are, annotators how far they are to be trusted.

    x_(n→m)  =  Σ_(m' ≠ m) a_(n m') y_(m'→n),        y_(m→n)  =  Σ_(n' ≠ n) a_(n' m) x_(n'→m)

along the labels, from y ~ N(1, 1); the label of n is the sign of Σ_m a_(n m) y_(m→n) (Karger, Oh & Shah 2011).  This
is power iteration without backtracking: a label never testifies in its own favour.  More than two classes make one
problem for each class against the rest, and the class with the largest score wins (after Karger, Oh & Shah 2013).

========= ========================================== ==============
symbol    meaning                                    name
========= ========================================== ==============
a_(n m)   [m said k of n] - c_m(k)                   ``center``
c_m(k)    share of k in m's labels, or 1/2           ``center``
y         what m's word is worth                     ``weights``
========= ========================================== ==============

The algorithm is meant for regular random graphs and annotators without habits, and fails on others: on RTE its weights
sit on four annotators who labelled much, and half of the labels are wrong.  Two changes mend that.  Labels are centred
by each annotator's habits (as in 2013), and y is a mean over the annotator's labels, not a sum.  The algorithm of 2011
is ``center=False, normalize=False, prior="uniform"``.  (What tables call KOS is often the leading singular vector of
the matrix of labels with zeros for missing ones, its columns centred: 11.11 % errors on Bluebird, 39.75 % on RTE,
51.95 % on TREC.)  A weakness stays: of two crowds that meet only through spammers, the leading vector sees one.

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
        "em" to go on by EM from the model found, or None.
    center
        Count what an annotator says against their habits.
    normalize
        Let an annotator's message be a mean over their labels instead of a sum.
    prior
        Learn the class prior with the scale of the weights, or hold it uniform: the vote as it is.
    max_iter, tol
        Iterations of each problem, and the relative change of the weights that ends them.
    random_state
        Decides everything that is random.
    callback
        Told of every iteration; ends the fit by returning True.
    """

    _method = "kos"

    center: bool = True
    normalize: bool = True
    prior: Literal["learned", "uniform"] = "learned"
    tol: float = 0.0001


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
    """Fit by message passing.

    Parameters
    ----------
    annotations
        The labels.
    center
        Count what an annotator says against their habits, in the messages and in the model.
    normalize
        Let an annotator's message be a mean over their labels instead of a sum.
    prior
        Learn the class prior with the scale of the weights, or hold it uniform: the vote as it is.
    max_iter, tol
        Iterations of each problem, and the relative change of the weights that ends them (0: run all).
    random_state
        Decides the first messages.
    callback
        Told of every iteration; ends the fit by returning True.
    """
    a = annotations
    M, K = a.n_annotators, a.n_classes
    n = a.labels_per_annotator
    seed = int(np.random.default_rng(random_state).integers(2**63))
    start = 1.0 + structural_noise(a.indptr, a.annotator, a.label, M, K, seed)
    shares = label_shares(a) if center else np.full((M, K), 0.5)
    factor = 1.0 / steadied(np.maximum(n - 1, 0)) if normalize else np.ones(M)
    run = _Run(max_iter, tol, callback)
    # of two classes, one against the rest is the other one reversed
    problems = range(K) if K > 2 else range(K - 1)
    found = [run(a, k, np.ascontiguousarray(shares[:, k]), factor, start) for k in problems]
    weights = np.stack(found, axis=1) if found else np.zeros((M, K))
    others = np.repeat(a.labels_per_item - 1, a.labels_per_item)
    weights[np.bincount(a.annotator, others, M) == 0] = np.nan  # nobody to compare them with
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


class _Run:
    """Passes messages for one class after another; keeps the history of all."""

    def __init__(self, max_iter: int, tol: float, callback: Callback | None) -> None:
        self.max_iter, self.tol, self.callback = max_iter, tol, callback
        self.history: list[float] = []  #: growth of the messages in each iteration: the leading eigenvalue, in the end
        self.converged = True
        self.stopped = False

    def __call__(self, a: Annotations, k: int, center: Floats, factor: Floats, start: Floats) -> Floats:
        """Give the weights of the annotators in the problem of class k against the rest."""
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
            # An eigenvalue -λ, alone or beside λ, makes messages alternate for ever.  Two in a row, of one sign, show
            # what they have in common.
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
