"""Calibrated probabilities where errors of annotators correlate.

Dawid and Skene assume that annotators are independent given the truth.  But many err on the same hard items, often in
the same way, and the posterior counts each of them as independent evidence.

n labels whose errors have correlation ρ are worth n w independent ones, w = 1 / (1 + (n - 1) ρ) (the design effect of
Kish 1965).  So the posterior q is tempered: raised to the power w, which changes no label.  A model with hard items
(:mod:`consilience.methods.hard_items`) allows for some of this itself; there w is at least a quarter.  The vote shares
are mixed in, most where there are few labels, and confidence is bounded:

    p  =  (1 - ε) [ n² / (n² + 1) · q^w / Σ q^w  +  1 / (n² + 1) · votes ]  +  ε / K,      ε = ε₂ log₂ K.

No agreement among annotators shows how often the whole crowd is wrong.  So ρ and ε₂ are constants chosen on public
crowds with known truth (docs/decisions/0005); the measured correlation of errors
(:mod:`consilience.diagnose.error_correlation`) decides whether they apply.

L. Kish, "Survey sampling" (1965), section 5.4.
"""

from __future__ import annotations

import numpy as np

from consilience.auto import constants
from consilience.data.annotations import Annotations
from consilience.diagnose import constants as thresholds
from consilience.kernels._arrays import Floats

__all__ = ["applies", "soften", "temper"]


def applies(correlation: float) -> bool:
    """Whether errors of this correlation lower the confidence at all."""
    return correlation > thresholds.CHANCE


def temper(posterior: Floats, n_labels: Floats, least: float = 0.0) -> Floats:
    """Return the posterior (N, K) with labels of correlated errors counted as fewer; no label changes.

    Each label counts for at least ``least``.
    """
    n = np.maximum(n_labels, 1.0)[:, None]
    w = np.maximum(1.0 / (1.0 + (n - 1.0) * thresholds.TYPICAL), least)
    # q^w relative to the largest, against underflow
    p = (posterior / posterior.max(axis=1, keepdims=True)) ** w
    tempered: Floats = p / p.sum(axis=1, keepdims=True)
    return tempered


def soften(
    annotations: Annotations, posterior: Floats, mild: Floats, votes: Floats, n_labels: Floats, correlation: float
) -> Floats:
    """Return probabilities that allow for correlated errors.

    Parameters
    ----------
    annotations
        The labels; items with gold or without labels are not changed.
    posterior
        That of the model, (N, K).
    mild
        The same after :func:`temper`, or the average of models that differ, which needs no tempering.
    votes
        Shares of the votes, (N, K).
    n_labels
        Independent labels of each item, copies counted once, (N,).
    correlation
        The measured correlation of errors.  Up to ``CHANCE`` the result is the posterior of the model, from ``CLEAR``
        on the full correction, in between a mixture.
    """
    K = posterior.shape[1]
    share = float(np.clip((correlation - thresholds.CHANCE) / (thresholds.CLEAR - thresholds.CHANCE), 0.0, 1.0))
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
