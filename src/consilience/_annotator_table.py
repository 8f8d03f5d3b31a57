"""How good each annotator is, in numbers and words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from consilience.dawid_skene import DawidSkene
from consilience.kernels._arrays import Floats

__all__ = ["annotator_columns", "information"]

#: With fewer labels than this, what we say of an annotator is mostly noise.
FEW = 10
#: An annotator whose labels carry less than this share of the class entropy tells nearly nothing.
_SPAM = 0.02


def information(prior: Floats, confusions: Floats) -> Floats:
    """Give the bits that one label of each annotator tells about the truth: I(truth; label), (M,)."""
    # I = Σ_k π_k Σ_i A(i, k) log2( A(i, k) / Σ_k' π_k' A(i, k') )
    marginal = confusions @ prior
    ratio = np.divide(
        confusions,
        marginal[:, :, None],
        out=np.ones_like(confusions),
        where=(confusions > 0) & (marginal[:, :, None] > 0),
    )
    bits: Floats = np.einsum("k,mik,mik->m", prior, confusions, np.log2(ratio))
    return np.maximum(bits, 0.0)


def annotator_columns(model: DawidSkene, counts: Floats) -> dict[str, Any]:
    """Give n_labels, accuracy, information, bias, flags and the 95 % interval of the accuracy, by column.

    The accuracy is the expected share of an annotator's labels that are right, over the items that they labelled; its
    interval is Jeffreys' for that many labels.  It does not include doubt about the model itself.
    """
    from scipy.special import betaincinv

    M, K, _ = counts.shape
    n_labels = counts.sum(axis=(1, 2))
    right = np.einsum("mkk->m", counts)
    nobody = n_labels < 0.5
    accuracy = np.divide(right, n_labels, out=np.zeros(M), where=~nobody)
    wrong = np.maximum(n_labels - right, 0.0)
    low, high = (betaincinv(right + 0.5, wrong + 0.5, tail) for tail in (0.025, 0.975))
    # Jeffreys' interval may leave out an accuracy of exactly 0 or 1; what was observed belongs to it.
    low, high = np.minimum(low, accuracy), np.maximum(high, accuracy)
    bits = information(model.prior, model.confusions)
    entropy = -float(np.sum(model.prior * np.log2(np.maximum(model.prior, 1e-300))))
    few = n_labels < FEW
    spam = ~few & (bits < _SPAM * entropy)
    flags = [("few labels", few), ("spammer", spam), ("adversary", ~few & ~spam & (high < 1.0 / K))]
    return {
        "n_labels": pa.array(np.rint(n_labels).astype(np.int64)),
        "accuracy": pa.array(accuracy, mask=nobody),
        "information": pa.array(bits),
        "bias": pa.array(_biases(model)),
        "flags": pa.array(["; ".join(name for name, holds in flags if holds[m]) for m in range(M)]),
        "low": pa.array(low),
        "high": pa.array(high),
    }


def _biases(model: DawidSkene) -> list[str]:
    """Put the most frequent mistake of each annotator into words."""
    K = model.prior.size
    if K == 1:
        return [""] * len(model.annotators)
    mistakes = model.confusions * model.prior
    mistakes[:, np.arange(K), np.arange(K)] = -1.0
    worst = mistakes.reshape(len(mistakes), -1).argmax(axis=1)
    said, truth = np.unravel_index(worst, (K, K))
    share = model.confusions[np.arange(len(worst)), said, truth]
    names = [str(name) for name in model.classes]
    return [
        f"says {names[i]} for {names[k]} ({100 * p:.0f} %)" if p >= 0.005 else ""
        for i, k, p in zip(said, truth, share, strict=True)
    ]
