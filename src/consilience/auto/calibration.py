"""Honest probabilities where annotators err together.

Dawid and Skene take annotators for independent given the truth.  People share what they find hard: on a hard item many
err, often the same way, and the posterior of the model counts that as so many witnesses.  Two steps:

*How much do they err together?*  For two labels of an item, the other labels tell what the truth may be, and
so how often the two should agree.  With q the posterior of the item without both labels,

    excess  =  Σ over pairs of labels  [the two agree] - Σ_k q_k Σ_i A_m(i, k) A_j(i, k),

which is zero on average when annotators are independent, whatever their confusions.  Divided by the sum over the same
pairs of √(g_m g_j), g = Σ_k q_k (1 - Σ_i A(i, k)²), it is the correlation of errors.

*What follows?*  n labels whose errors have correlation ρ are worth n w independent ones, w = 1 / (1 + (n - 1) ρ) (the
design effect of Kish 1965), so the posterior q is tempered: raised to the power w, which changes no label.  A model
that knows of hard items (:mod:`consilience.methods.hard_items`) allows for some of this by itself; there w is a
quarter at least.  The vote takes part, most where there is little else, and no confidence exceeds what a crowd can be
trusted with:

    p  =  (1 - ε) [ n² / (n² + 1) · q^w / Σ q^w  +  1 / (n² + 1) · votes ]  +  ε / K,      ε = ε₂ log₂ K.

That the truth may be one which the whole crowd misses shows in no agreement among annotators.  ρ and ε₂ are what public
crowds with known truth ask for (docs/decisions/0005); the measured correlation decides whether they apply.

L. Kish, "Survey sampling" (1965), section 5.4.
"""

from __future__ import annotations

import numpy as np

from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import CHANCE, CLEAR, TYPICAL
from consilience.kernels._arrays import Floats

__all__ = ["applies", "soften", "temper"]


def applies(correlation: float) -> bool:
    """Tell whether errors of this correlation lower the confidence at all."""
    return correlation > CHANCE


def temper(posterior: Floats, n_labels: Floats, least: float = 0.0) -> Floats:
    """Give the posterior (N, K) for which labels of correlated errors count as fewer; it changes no label.

    Each counts for ``least``, or more.
    """
    n = np.maximum(n_labels, 1.0)[:, None]
    w = np.maximum(1.0 / (1.0 + (n - 1.0) * TYPICAL), least)
    # q^w, of the largest, so that nothing underflows together
    p = (posterior / posterior.max(axis=1, keepdims=True)) ** w
    tempered: Floats = p / p.sum(axis=1, keepdims=True)
    return tempered


def soften(
    annotations: Annotations, posterior: Floats, mild: Floats, votes: Floats, n_labels: Floats, correlation: float
) -> Floats:
    """Give probabilities that allow for errors which go together.

    Parameters
    ----------
    annotations
        The labels; gold items and unlabelled ones stay as they are.
    posterior
        That of the model, (N, K).
    mild
        The same after :func:`temper`, or the average of models that differ, which needs none.
    votes
        Shares of the votes, (N, K).
    n_labels
        Independent labels of each item: copies of one annotator count once, (N,).
    correlation
        What :func:`error_correlation` found.  Below ``CLEAR`` the result moves towards the posterior of the model, which
        it is up to ``CHANCE``.
    """
    K = posterior.shape[1]
    share = float(np.clip((correlation - CHANCE) / (CLEAR - CHANCE), 0.0, 1.0))
    judged = annotations.labels_per_item > 0
    if annotations.gold is not None:
        judged &= annotations.gold < 0
    if share == 0.0 or K == 1 or not judged.any():
        return posterior
    q, p, v, n = posterior[judged], mild[judged], votes[judged], np.maximum(n_labels[judged], 1.0)[:, None]
    doubt = constants.DOUBT * np.log2(K)
    cautious = (1.0 - doubt) * (n**2 * p + v) / (n**2 + 1.0) + doubt / K
    softened = posterior.copy()
    softened[judged] = (1.0 - share) * q + share * cautious
    return softened
