"""The spectral meta-learner: sensitivity and specificity of every annotator from the covariances of pairs.

With labels ±1, means μ, class imbalance b = Pr(1) - Pr(-1) and annotators that err independently, all covariances of
two are the products of one vector (Parisi et al. 2014; Jaffe, Nadler & Kluger 2015)

    R(i, j) = v(i) v(j),     v(i) = sqrt(1 - b²) (ψ(i) + η(i) - 1),     i ≠ j,

and v with b gives Pr(says 1 | 1) = ψ and Pr(says -1 | -1) = η:

    ψ = (1 + μ + v sqrt((1 - b) / (1 + b))) / 2,        η = (1 - μ + v sqrt((1 + b) / (1 - b))) / 2.

v is fitted to the covariances of observed pairs, weighted by their common items.  Then b maximises the likelihood of
the labels (the restricted likelihood), or comes from the third moments, T(i, j, k) = -2 b / sqrt(1 - b²) · v(i) v(j)
v(k).

====== ========================================== ===========
symbol meaning                                    shape
====== ========================================== ===========
μ      ``mean`` label                             (M,)
R      ``covariance`` of observed pairs           (P,)
v      ``skill``                                  (M,)
b      ``imbalance``                              number
====== ========================================== ===========

F. Parisi, F. Strino, B. Nadler and Y. Kluger, "Ranking and combining multiple predictors without labeled data", PNAS
111 (2014).  A. Jaffe, B. Nadler and Y. Kluger, "Estimating the accuracies of multiple classifiers without labeled
data", AISTATS 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from consilience.data.annotations import Annotations
from consilience.exceptions import ConvergenceWarning
from consilience.fitting.em import Callback, Parameters, Progress, sweep_of
from consilience.fitting.fit import Caution, Fit, vote_posterior
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.factor_model import model_of_factor
from consilience.methods.base.method import TWO_CLASSES, Method
from consilience.methods.base.weighted_votes import oriented, signed_means, signed_products
from consilience.models.dawid_skene import DawidSkene
from consilience.moments.cooccurrence import CoOccurrences, pair_moments

__all__ = ["METHOD", "SpectralMetaLearner", "rank_one", "sml", "third_moment", "two_coins"]

#: The largest imbalance, and how many are tried before the best is refined.
_LARGEST, _TRIED = 0.98, 15


class SpectralMetaLearner(IterativeEstimator):
    """Sensitivity and specificity from the covariances of pairs (Parisi et al. 2014; Jaffe et al. 2015); two classes.

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    imbalance
        How the class imbalance is estimated: by the "likelihood", or by the third moments ("tensor").
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers (judged by the
        votes).
    max_iter, tol
        Rounds of the fit of v, and its relative change that ends them (0: run all).
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every round; ends the fit by returning True.
    """

    _method = "sml"

    imbalance: Literal["likelihood", "tensor"] = "likelihood"
    shrinkage: float = 0.25
    tol: float = 1e-5


def sml(
    annotations: Annotations,
    *,
    imbalance: Literal["likelihood", "tensor"] = "likelihood",
    shrinkage: float = 0.25,
    max_iter: int = 1000,
    tol: float = 1e-5,
    callback: Callback | None = None,
) -> Fit:
    """Fit by the spectral meta-learner; :class:`SpectralMetaLearner` documents the parameters."""
    a = annotations
    M, K = a.n_annotators, a.n_classes
    n = a.labels_per_annotator
    if K == 1:
        model = DawidSkene(np.ones(1), np.ones((M, 1, 1)), a.class_ids, a.annotator_ids)
        posterior, log_likelihood = model.posterior_and_likelihood(a)
        return Fit(model, posterior, log_likelihood)
    mean = signed_means(a)
    pairs = pair_moments(a)
    skill, history, converged = rank_one(pairs, mean, max_iter, tol, callback)
    alone = np.bincount(pairs.who.ravel(), minlength=M) == 0
    skill = oriented(a, np.where(alone, np.nan, skill))
    average = n[~alone] @ skill[~alone] / n[~alone].sum() if n[~alone].any() else 0.5
    # annotators without common items are taken to be average
    skill = np.where(alone, np.minimum(average, np.sqrt(1.0 - mean**2)), skill)
    sweep = sweep_of(a)
    ends = []
    # all skills reversed explain the labels as well; gold decides
    for sign in (1.0, -1.0) if a.gold is not None else (1.0,):

        def at(b: float, sign: float = sign) -> Parameters:
            return model_of_factor(two_coins(sign * skill, mean, b), n, shrinkage)

        def likelihood(b: float, at: Callable[[float], Parameters] = at) -> float:
            return sweep(*at(b)).log_likelihood

        b = third_moment(a, mean, sign * skill) if imbalance == "tensor" else _likeliest(likelihood)
        ends.append((likelihood(b), b, at(b)))
    _, b, parameters = max(ends, key=lambda end: end[0])
    cautions: tuple[Caution, ...] = ()
    if tol > 0 and not converged:
        cautions = ((f"the skills did not settle in {max_iter} rounds; raise max_iter or tol", ConvergenceWarning),)
    model = DawidSkene(*parameters, a.class_ids, a.annotator_ids)
    posterior, log_likelihood = model.posterior_and_likelihood(a)
    return Fit(
        model,
        posterior,
        log_likelihood,
        converged,
        history,
        cautions,
        hint=vote_posterior(a),
        details={"imbalance": b},
    )


METHOD = Method("sml", sml, "SpectralMetaLearner", "two-coin model from covariances of pairs", needs=(TWO_CLASSES,))


def rank_one(
    pairs: CoOccurrences, mean: Floats, max_iter: int, tol: float, callback: Callback | None
) -> tuple[Floats, list[float], bool]:
    """Fit v to the covariances by least squares, pairs weighted by their common items.

    Each round goes halfway to the v(i) that is best given the others; half steps keep the objective from rising.
    """
    from scipy.sparse import csr_array

    M = pairs.n_annotators
    i, j = pairs.who.T
    S = pairs.totals
    # R(i, j) = mean of (f_i - μ_i)(f_j - μ_j) over the common items
    covariance = signed_products(pairs, mean) / S
    here, there = np.concatenate([pairs.who.T, pairs.who.T[::-1]], axis=1)
    weight = csr_array((np.tile(S, 2), (here, there)), shape=(M, M))
    target = csr_array((np.tile(S * covariance, 2), (here, there)), shape=(M, M))
    # the variance between the classes is at most the whole: v² ≤ 1 - μ²
    most = np.sqrt(np.maximum(1.0 - mean**2, 0.0))
    crowd = np.sqrt(max(float(S @ covariance) / max(S.sum(), 1.0), 0.01))
    v = np.minimum(crowd, most)
    history: list[float] = []
    for iteration in range(1, max_iter + 1):
        # v(i) = Σ_j S R(i, j) v(j) / Σ_j S v(j)²
        squares = weight @ (v * v)
        best = np.divide(target @ v, squares, out=np.zeros(M), where=squares > 0)
        new = 0.5 * (v + np.clip(best, -most, most))
        history.append(float(S @ (covariance - new[i] * new[j]) ** 2) / max(float(S.sum()), 1.0))
        change = float(np.abs(new - v).max(initial=0.0) / max(np.abs(new).max(initial=0.0), 1e-300))
        v = new
        if callback and callback(Progress(iteration, max_iter, history[-1], change)):
            break
        if tol > 0 and change <= tol:
            return v, history, True
    return v, history, False


def two_coins(skill: Floats, mean: Floats, b: float) -> Floats:
    """Return the confusions for skills and imbalance, each column times the square root of the prior, (M, 2, 2)."""
    psi = 0.5 * (1.0 + mean + skill * np.sqrt((1.0 - b) / (1.0 + b)))
    eta = 0.5 * (1.0 - mean + skill * np.sqrt((1.0 + b) / (1.0 - b)))
    psi, eta = np.clip(psi, 0.0, 1.0), np.clip(eta, 0.0, 1.0)
    confusions = np.stack([np.stack([eta, 1.0 - psi], axis=1), np.stack([1.0 - eta, psi], axis=1)], axis=1)
    return np.asarray(confusions * np.sqrt([0.5 - 0.5 * b, 0.5 + 0.5 * b]))


def _likeliest(likelihood: Callable[[float], float]) -> float:
    """Return the imbalance with the largest likelihood: the best on a grid, refined between its neighbours."""
    from scipy.optimize import minimize_scalar

    tried = _LARGEST * np.sin(np.linspace(-0.5, 0.5, _TRIED) * np.pi)
    best = int(np.argmax([likelihood(float(b)) for b in tried]))
    low, high = tried[max(best - 1, 0)], tried[min(best + 1, _TRIED - 1)]
    found = minimize_scalar(lambda b: -likelihood(b), bounds=(low, high), method="bounded", options={"xatol": 1e-3})
    return float(found.x)


def third_moment(annotations: Annotations, mean: Floats, skill: Floats) -> float:
    """Return the imbalance from the third moments of all triples with common items, weighted by their number.

    α = -2 b / sqrt(1 - b²) minimises Σ S(i, j, k) (T(i, j, k) - α v(i) v(j) v(k))².  Its numerator and denominator are
    sums over items of the elementary symmetric polynomial e3 of values of an item's labels: no triple is formed.
    """
    a = annotations
    worth = ((2.0 * a.label - 1.0) - mean[a.annotator]) * skill[a.annotator]
    most = _e3(a, skill[a.annotator] ** 2)
    alpha = _e3(a, worth) / most if most > 0 else 0.0
    return float(np.clip(-alpha / np.sqrt(4.0 + alpha**2), -_LARGEST, _LARGEST))


def _e3(annotations: Annotations, values: Floats) -> float:
    """Sum Σ_(i<j<k) x_i x_j x_k over the items, x being the values of an item's labels."""
    starts = annotations.indptr[:-1][annotations.labels_per_item > 0]
    power = [np.add.reduceat(values**p, starts) for p in (1, 2, 3)]
    # Newton: e3 = (p1³ - 3 p1 p2 + 2 p3) / 6
    return float((power[0] ** 3 - 3.0 * power[0] * power[1] + 2.0 * power[2]).sum() / 6.0)
