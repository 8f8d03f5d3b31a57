"""Coupled nonnegative matrix factorisation: confusions that explain every observed pair block at once.

    minimise  Σ S[m, j] KL(R[m, j] ‖ A_m diag(λ) A_jᵀ)  over A_m ≥ 0, 1ᵀ A_m = 1ᵀ, λ ≥ 0, 1ᵀ λ = 1

(Ibrahim et al. 2019, Section 4; Ibrahim & Fu 2022, eq. (4) with noise).  With n = S R the number of items of which m
said a and j said b, that is to maximise

    Σ_(m, j) Σ_(a, b) n(a, b) log Σ_k λ_k A_m(a, k) A_j(b, k),

the log-likelihood of all pairs of labels, as if each pair were a separate item.  The multiplicative updates

    A_m(a, k) ∝ A_m(a, k) Σ_j Σ_b n(a, b) / R̂(a, b) · λ_k A_j(b, k),      R̂ = A_m diag(λ) A_jᵀ,

and those for λ are the EM steps of that likelihood: it rises at every step.  The starts are :mod:`multispa
<consilience.methods.multispa>` and the votes; the better end is kept.

Dirichlet priors (``shrinkage``) and items with gold are added: their labels count for that class only.  A label is
counted once for every pair that it is in, so what is added is multiplied by the same number: shrinkage by one label is
then one label.

====== ============================== ============
symbol name                           shape
====== ============================== ============
A_m    ``confusions[m]``              (M, K, K)
λ      ``prior``                      (K,)
n      ``pairs.counts``               (P, K, K)
====== ============================== ============

S. Ibrahim, X. Fu, N. Kargas and K. Huang, "Crowdsourcing via pairwise co-occurrences: identifiability and algorithms",
NeurIPS 2019.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.exceptions import ConvergenceWarning
from consilience.fitting.em import Callback, ConfusionStep, Parameters, Progress
from consilience.fitting.fit import Caution, Fit, crowd_confusion, vote_start
from consilience.fitting.known import class_order, permuted
from consilience.kernels._arrays import Floats
from consilience.kernels.coupled import sweep_pairs
from consilience.kernels.em import FLOOR, Statistics
from consilience.kernels.votes import vote_statistics
from consilience.methods.base.canonical import in_canonical_order
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.method import Method
from consilience.methods.multispa import pair_cautions, vertex_model
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences, pair_moments
from consilience.moments.graph import groups
from consilience.published import AsPublished
from consilience.validation import one_of

__all__ = ["METHOD", "Coupled", "CoupledNMF", "cnmf", "known_counts", "run_updates"]

_log = logging.getLogger("consilience")

#: Labels added to every cell of the vote start, because a zero stays zero.
_START_SMOOTHING = 0.1
#: Shrinkage of the start by successive projection.
_START_SHRINKAGE = 0.25


class CoupledNMF(AsPublished, IterativeEstimator):
    r"""Confusions that explain all pair blocks at once, by coupled KL factors (Ibrahim et al. 2019).

    .. math:: \min \sum_{m, j} S_{mj} \, \text{KL}(R_{mj} \,\|\, A_m \, \text{diag}(\lambda) \, A_j^\top)

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers (judged by the
        votes).
    init
        "multispa" or "votes"; None runs from both and keeps the better end.
    prior
        Learn the class prior, or hold it uniform.
    max_iter, tol
        Passes over the pairs from each start, and the relative change of the objective that ends them (0: run all).
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every pass; ends the fit by returning True.
    """

    _method = "cnmf"

    shrinkage: float = 0.25
    init: Literal["multispa", "votes"] | None = None
    prior: Literal["learned", "uniform"] = "learned"
    max_iter: int = 2000


@in_canonical_order
def cnmf(
    annotations: Annotations,
    *,
    shrinkage: float = 0.25,
    init: Literal["multispa", "votes"] | None = None,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 2000,
    tol: float = 1e-7,
    callback: Callback | None = None,
) -> Fit:
    """Fit by multiplicative updates; :class:`CoupledNMF` documents the parameters."""
    if init is not None:
        one_of("init", init, ("multispa", "votes"))
    a = annotations
    blind = a if a.gold is None else a.select_items(a.gold < 0)
    pairs = pair_moments(blind)
    graph = groups(pairs)
    learn = prior == "learned"
    coupled = Coupled(pairs, *known_counts(a, blind, pairs, shrinkage), learn)
    starts = {
        "multispa": vertex_model(blind, pairs, graph, shrinkage=_START_SHRINKAGE, learn_prior=learn),
        "votes": vote_start(a, ConfusionStep(_START_SMOOTHING, learn)),
    }
    # EM keeps the order of the classes of its start, and shrinkage is towards the order of the votes
    starts["multispa"] = permuted(starts["multispa"], class_order(a, starts["multispa"]))
    best, name = None, ""
    for where, start in starts.items() if init is None else [(init, starts[init])]:
        run = run_updates(coupled, start, max_iter, tol, callback)
        _log.info("coupled factors from %s: %d passes, converged: %s", where, len(run.history), run.converged)
        if best is None or run.objective > best.objective + 1e-9 * abs(best.objective):
            best, name = run, where
        if run.stopped:
            break
    assert best is not None
    confusions = np.maximum(best.parameters.confusions, 1e-6)
    found = Parameters(best.parameters.prior, confusions / confusions.sum(axis=1, keepdims=True))
    if a.gold is None:  # gold shows which class is which
        found = permuted(found, class_order(a, found))
    model = DawidSkene(*found, a.class_ids, a.annotator_ids)
    posterior, log_likelihood = model.posterior_and_likelihood(a)
    cautions: tuple[Caution, ...] = pair_cautions(graph)
    if tol > 0 and not best.converged:
        sentence = f"the coupled factors did not converge in {len(best.history)} passes; raise max_iter"
        cautions = (*cautions, (sentence, ConvergenceWarning))
    details = {"pairs_missing": pairs.missing, "start": name}
    return Fit(model, posterior, log_likelihood, best.converged, best.history, cautions, details=details)


METHOD = Method("cnmf", cnmf, "CoupledNMF", "confusions that explain all pair blocks at once, by coupled KL factors")


@dataclass(frozen=True)
class Coupled:
    """The penalised log-likelihood of the pairs, and one step up it."""

    pairs: CoOccurrences
    known: Floats  #: labels added to the cells, (M, K, K)
    known_classes: Floats  #: pairs added to the classes, (K,)
    learn_prior: bool

    def __call__(self, at: Parameters) -> tuple[float, Parameters]:
        """Return the objective at ``at``, and the parameters after one update."""
        step = ConfusionStep(self.known, self.learn_prior)
        seen = sweep_pairs(self.pairs.who, self.pairs.counts, *at)
        objective = seen.log_likelihood + step.penalty(at)
        if self.learn_prior:
            objective += float(self.known_classes @ np.log(np.maximum(at.prior, FLOOR)))
        return objective, step(Statistics(seen.counts, seen.class_counts + self.known_classes, seen.log_likelihood))


@dataclass
class _Result:
    """The end of the updates."""

    parameters: Parameters
    objective: float = -np.inf
    history: list[float] = field(default_factory=list)
    converged: bool = False
    stopped: bool = False  #: by the callback


def run_updates(coupled: Coupled, start: Parameters, max_iter: int, tol: float, callback: Callback | None) -> _Result:
    """Update until the objective changes by less than ``tol`` of itself."""
    run = _Result(start)
    after = start
    for t in range(max_iter):
        at = after
        objective, after = coupled(at)
        change = abs(objective - run.objective) / max(abs(objective), 1.0) if t else float("nan")
        run.parameters, run.objective = at, objective
        run.history.append(objective)
        if callback is not None and callback(Progress(t + 1, max_iter, objective, change)) is True:
            run.stopped = True
        run.converged = tol > 0 and change <= tol
        if run.stopped or run.converged:
            break
    return run


def known_counts(
    annotations: Annotations, blind: Annotations, pairs: CoOccurrences, shrinkage: float
) -> tuple[Floats, Floats]:
    """Return what is added to the pairs, shrinkage and gold, counted in pairs."""
    a, M, K = annotations, annotations.n_annotators, annotations.n_classes
    known, classes = np.zeros((M, K, K)), np.zeros(K)
    if shrinkage:
        known += shrinkage * K * crowd_confusion(a)
    if a.gold is not None:
        gold = a.select_items(a.gold >= 0)
        assert gold.gold is not None
        truth = np.zeros((gold.n_items, K))
        truth[np.arange(gold.n_items), gold.gold] = 1.0
        statistics = vote_statistics(gold.indptr, gold.annotator, gold.label, truth, M)
        known += statistics.counts
        classes += statistics.class_counts
    met = blind.labels_per_item >= 2
    labels = np.bincount(blind.annotator[np.repeat(met, blind.labels_per_item)], minlength=M)
    in_pairs = np.bincount(pairs.who.ravel(), np.repeat(pairs.totals, 2), M)
    times = np.maximum(np.divide(in_pairs, labels, out=np.ones(M), where=labels > 0), 1.0)
    times_items = max(float(pairs.totals.sum()) / max(int(np.count_nonzero(met)), 1), 1.0)
    return times[:, None, None] * known, times_items * classes
