"""Dawid-Skene from the spectrum: three groups of annotators, and the moments of what each group says on average.

Annotators are split into three groups.  Z_g(n) is the mean label of group g on item n; given the truth, those of
different groups are independent, with means C_g (the groups' confusions, in columns).  From pairs of groups

    P_ab = E[Z_a Z_bᵀ] = C_a W C_bᵀ,     Z'_a = P_cb P_ab⁻¹ Z_a,     Z'_b = P_ca P_ba⁻¹ Z_b,

so that Z'_a and Z'_b have the means of group c, and (Zhang et al. 2016, eqs (3)-(5))

    M2 = E[Z'_a Z'_bᵀ] = C_c W C_cᵀ,     M3 = E[Z'_a ⊗ Z'_b ⊗ Z_c] = Σ_k w_k c_k ⊗ c_k ⊗ c_k

give W and C_c by whitening and the tensor power method (:mod:`consilience.factor.tensor_power`).  The other groups'
follow from P, and the confusion of an annotator from what the other groups say about their items,

    E[z_m Z_gᵀ] = C_m W C_gᵀ,      g any group but m's own,

by least squares with columns on the simplex, where the paper solves for one group, and normalises.  All come out in one
order of the classes.  This is the first stage of their Algorithm 1; the second is ``+em``.

Where labels are missing, Z_g(n) is the mean of those there are, and expectations are over items on which the groups
concerned have labels.  (The paper counts missing labels as zeros.  Where all items have as many labels, the numbers of
labels of the groups are not independent, and the moments are not those of the model.)

The mean label of many different annotators has little information.  But any function of a group's labels is independent
of the other groups given the truth.  So Z_g(n) may be the posterior of item n by group g's labels under a first model,
and the same equations give a better model.  This is repeated for some rounds in each split; the paper has one round of
one split.  The mean over good splits is a candidate as well.

======  ============  ==============================================================
symbol  name          shape
======  ============  ==============================================================
Z_g     ``views[g]``  (N, K); zero where the group has no label
P_ab    ``cross``     (3, 3, K, K)
C_g     ``means``     (3, K, K), columns sum to one
W       ``prior``     (K,), its diagonal
======  ============  ==============================================================

Y. Zhang, X. Chen, D. Zhou and M. I. Jordan, "Spectral methods meet EM: a provably optimal algorithm for crowdsourcing",
Journal of Machine Learning Research 17 (2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.factor.alternating import simplex_least_squares
from consilience.factor.simplex import project_to_simplex
from consilience.factor.tensor_power import mixture_of_moments
from consilience.fitting.em import Callback, ConfusionStep, Parameters, Progress, sweep_of
from consilience.fitting.fit import Fit, vote_start
from consilience.fitting.known import by_agreement, permuted, taught
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.votes import vote_counts, vote_statistics
from consilience.methods.base.canonical import in_canonical_order
from consilience.methods.base.estimator import RefinableEstimator
from consilience.methods.base.factor_model import model_of_factor
from consilience.methods.base.method import THREE_ANNOTATORS, Method
from consilience.models.dawid_skene import DawidSkene

__all__ = ["METHOD", "SpectralDawidSkene", "group_confusions", "spectral_ds"]

#: Singular values of a pair of groups below this share of the largest are noise.
_RANK = 1e-3
#: Relative rise of the likelihood that is worth another round.
_RISE = 1e-5
#: Candidate models for ``+em``.
_KEPT = 3
#: The least share of a class.
_LEAST = 1e-3


class SpectralDawidSkene(RefinableEstimator):
    """Three groups of annotators, their moments, and the tensor power method (Zhang et al. 2016).

    It needs three annotators.

    Parameters
    ----------
    refine
        "em" to continue by EM from the model found, or None.
    partitions
        Random splits of the annotators into three groups.  Each gives three models, one from the moments of each group.
        Of these and the means of the best of them, the one with the largest likelihood is the result.
    rounds
        Most rounds of a split: the first from mean labels, the others from posteriors under the best model of the round
        before.  A split ends when its likelihood does not rise.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers (judged by the
        votes).
    random_state
        Decides everything that is random.
    callback
        Called after every round with the best log-likelihood; ends the fit by returning True.
    """

    _method = "spectral-ds"

    partitions: int = 8
    rounds: int = 8
    shrinkage: float = 0.25


@in_canonical_order
def spectral_ds(
    annotations: Annotations,
    *,
    partitions: int = 8,
    rounds: int = 8,
    shrinkage: float = 0.25,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by the spectral method; :class:`SpectralDawidSkene` documents the parameters."""
    a, rng = annotations, np.random.default_rng(random_state)
    sweep = sweep_of(a.with_gold(None))
    votes = vote_start(a, ConfusionStep(0.1))
    found: list[tuple[float, Parameters]] = []
    history: list[float] = []

    def one_round(group: Ints, views: Floats) -> list[tuple[float, Parameters]]:
        made = []
        for rough in _models(a, group, views, rng):
            factor = rough.confusions * np.sqrt(rough.prior)
            prior, confusions = model_of_factor(factor, a.labels_per_annotator, shrinkage)
            statistics = sweep(prior, confusions)
            ordered = permuted(Parameters(prior, confusions), by_agreement(statistics.counts))
            made.append((statistics.log_likelihood, ordered))
        return made

    asked: Any = False
    for _ in range(partitions):
        group, here = _partition(rng, a.n_annotators), None
        for _ in range(rounds):
            made = max(one_round(group, _views(a, group, here and here[1])), key=lambda one: one[0], default=None)
            risen = made is not None and (here is None or made[0] > here[0] + _RISE * abs(here[0]))
            here = made if here is None or risen else here
            history.append(max([one[0] for one in [*found, here] if one], default=float("nan")))
            asked = callback and callback(Progress(len(history), partitions * rounds, history[-1], float("nan")))
            if not risen or asked:
                break
        found += [here] if here else []
        if asked:
            break
    found.sort(key=lambda one: -one[0])
    # errors of different splits differ, so the mean of good ones may be better than any
    for n in range(2, len(found) + 1):
        mean = Parameters(*(np.mean([one[1][i] for one in found[:n]], axis=0) for i in range(2)))
        found.append((sweep(*mean).log_likelihood, mean))
    found.sort(key=lambda one: -one[0])
    history += [found[0][0]] if found else []
    models = [taught(a, parameters) for _, parameters in found[:_KEPT]] or [votes]
    model = DawidSkene(*models[0], a.class_ids, a.annotator_ids)
    posterior, log_likelihood = model.posterior_and_likelihood(a)
    return Fit(model, posterior, log_likelihood, history=history, candidates=tuple(models[1:]))


METHOD = Method(
    "spectral-ds",
    spectral_ds,
    "SpectralDawidSkene",
    "three groups of annotators, by the tensor power method",
    needs=(THREE_ANNOTATORS,),
)


def _partition(rng: np.random.Generator, n_annotators: int) -> Ints:
    """Assign annotators to three groups at random, three with about as many labels at a time."""
    return np.argsort(rng.random((-(-n_annotators // 3), 3)), axis=1).ravel()[:n_annotators]


def _views(annotations: Annotations, group: Ints, model: Parameters | None) -> Floats:
    """Return the view of each group on each item, (3, N, K): mean labels, or posteriors under a model.

    Zero where the group has no label.
    """
    a, K = annotations.with_gold(None), annotations.n_classes
    views = np.zeros((3, a.n_items, K))
    for g in range(3):
        part = a.select_annotators(group == g)
        total = part.labels_per_item[:, None]
        if model is None:
            views[g] = vote_counts(part.indptr, part.label, K) / np.maximum(total, 1)
        else:
            flat, own = np.full(K, 1.0 / K), np.ascontiguousarray(model.confusions[group == g])
            views[g] = sweep_of(part).posterior(flat, own)[0] * (total > 0)
    return views


def _models(annotations: Annotations, group: Ints, views: Floats, rng: np.random.Generator) -> list[Parameters]:
    """Return the models of one split, one from the moments of each group."""
    a, K = annotations, annotations.n_classes
    present = np.asarray(views.any(axis=2))
    together = present.all(axis=0)
    if not together.any():
        return []
    cross = np.zeros((3, 3, K, K))
    for g in range(3):
        for h in range(3):
            if g != h:
                cross[g, h] = views[g].T @ views[h] / max(int((present[g] & present[h]).sum()), 1)
    # third moment over the items that all groups labelled, (K, K, K): one slice at a time
    full = views[:, together]
    triple = np.stack([(full[0][:, [i]] * full[1]).T @ full[2] for i in range(K)]) / full.shape[1]
    said = [vote_statistics(a.indptr, a.annotator, a.label, view, a.n_annotators).counts for view in views]
    models = []
    for c in range(3):
        prior, means = group_confusions(cross, np.moveaxis(triple, c, 2), c, rng)
        models.append(Parameters(prior, _annotators(said, group, prior, means)))
    return models


def group_confusions(cross: Floats, triple: Floats, c: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the prior and the confusions of the three groups, (3, K, K), from the moments of group c."""
    a, b = (g for g in range(3) if g != c)
    to_a = cross[c, b] @ np.linalg.pinv(cross[a, b], rcond=_RANK)
    to_b = cross[c, a] @ np.linalg.pinv(cross[b, a], rcond=_RANK)
    second = to_a @ cross[a, b] @ to_b.T
    third = np.einsum("xyz,ix,jy->ijz", triple, to_a, to_b, optimize=True)
    prior, columns = mixture_of_moments(second, third, rng)
    # the sign of a term is lost where its value is noise
    columns = columns * np.where(columns.sum(axis=0) < 0, -1.0, 1.0)
    prior = np.maximum(prior * np.abs(columns.sum(axis=0)), _LEAST)
    prior /= prior.sum()
    means = np.empty((3, *columns.shape))
    means[c] = project_to_simplex(columns / np.maximum(columns.sum(axis=0), 1e-9), axis=0)
    inverse = np.linalg.pinv(prior[:, None] * means[c].T, rcond=_RANK)
    for g in (a, b):
        means[g] = project_to_simplex(cross[g, c] @ inverse, axis=0)
    return prior, means


def _annotators(said: list[Floats], group: Ints, prior: Floats, means: Floats) -> Floats:
    """Return the annotators' confusions, (M, K, K), from the views of the two other groups on their items.

    min Σ_g n_mg ‖R_mg - C_m W C_gᵀ‖²,  R_mg the mean of z_m Z_gᵀ over the n_mg items that m and g labelled.
    """
    factors = prior[:, None] * means.transpose(0, 2, 1)  # W C_gᵀ
    quadratic, linear = np.zeros((2, *said[0].shape))
    for g in range(3):
        other = (group != g)[:, None, None]
        counts = np.where(other, said[g], 0.0)
        quadratic += counts.sum(axis=(1, 2), keepdims=True) * (factors[g] @ factors[g].T)
        linear += counts @ factors[g].T
    behind = quadratic.any(axis=(1, 2))
    start = np.where(behind[:, None, None], means.mean(axis=0), means[group])
    made, _ = simplex_least_squares(quadratic, linear, start, np.zeros_like(start), axis=1, iterations=200)
    return np.where(behind[:, None, None], made, start)
