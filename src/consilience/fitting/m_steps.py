"""M-steps: the sums of a sweep in, parameters out.  Methods fitted by EM differ only in their M-step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from consilience.kernels._arrays import Floats
from consilience.kernels.em import FLOOR, Statistics

__all__ = ["ClassOneCoinStep", "ConfusionStep", "MStep", "OneCoinStep", "Parameters", "rounded"]


class Parameters(NamedTuple):
    """A class prior (K,) and confusions (M, K, K)."""

    prior: Floats
    confusions: Floats


class MStep(Protocol):
    """Turns the sums of a sweep into parameters; its penalty is the log-prior that it assumes."""

    def __call__(self, statistics: Statistics) -> Parameters:
        """Maximise the expected complete log-likelihood plus penalty."""

    def penalty(self, parameters: Parameters) -> float:
        """Return the log-density of the parameters' prior, up to a constant."""


@dataclass(frozen=True)
class ConfusionStep:
    """A free confusion matrix for every annotator (Dawid & Skene 1979, eqs 2.3 and 2.4).

    ``pseudo`` labels are added to every cell, a number or one for each cell (K, K): the mode under a
    Dirichlet(1 + pseudo) prior.  A class that an annotator never met gets a
    uniform column.  Probabilities are raised to ``floor`` if they are below, and normalised again.
    """

    pseudo: float | Floats = 0.0
    learn_prior: bool = True
    floor: float = 0.0

    @property
    def penalised(self) -> bool:
        """Whether there is a prior on the confusions."""
        return isinstance(self.pseudo, np.ndarray) or self.pseudo != 0

    def __call__(self, statistics: Statistics) -> Parameters:
        """Normalise the counts."""
        # A_m(i, k) = (counts + pseudo) / Σ_i (counts + pseudo)
        counts = statistics.counts + self.pseudo if self.penalised else statistics.counts
        total = np.einsum("mik->mk", counts)
        if total.min(initial=1.0) > 0:
            confusions = counts / total[:, None, :]
        else:
            empty = total <= 0
            confusions = counts / np.where(empty, 1.0, total)[:, None, :]
            confusions += np.where(empty, 1.0 / counts.shape[1], 0.0)[:, None, :]
        if self.floor:
            confusions = np.maximum(confusions, self.floor)
            confusions /= confusions.sum(axis=1, keepdims=True)
        return Parameters(_prior(statistics, self.learn_prior), confusions)

    def penalty(self, parameters: Parameters) -> float:
        """Return Σ ``pseudo`` · log of every probability."""
        if not self.penalised:
            return 0.0
        return float((self.pseudo * np.log(np.maximum(parameters.confusions, FLOOR))).sum())


@dataclass(frozen=True)
class OneCoinStep:
    """One accuracy for each annotator; errors fall evenly on the other classes.

    ``smoothing`` is the number of labels added to the right and to the wrong answers each.
    """

    smoothing: float = 0.0
    learn_prior: bool = True

    def __call__(self, statistics: Statistics) -> Parameters:
        """Return the share of right answers, by annotator."""
        M, K, _ = statistics.counts.shape
        right = np.einsum("mkk->m", statistics.counts) + self.smoothing
        total = statistics.counts.sum(axis=(1, 2)) + 2 * self.smoothing
        # a_m = right / all;  A_m(i, k) = a_m if i = k else (1 - a_m) / (K - 1)
        accuracy = np.divide(right, total, out=np.full(M, 1.0 / K), where=total > 0)
        return Parameters(_prior(statistics, self.learn_prior), _even_errors(np.repeat(accuracy, K).reshape(M, K)))

    def penalty(self, parameters: Parameters) -> float:
        """Return ``smoothing`` · Σ log of every smoothed probability."""
        return _coin_penalty(parameters.confusions[:, 0, 0], self.smoothing)


@dataclass(frozen=True)
class ClassOneCoinStep:
    """One accuracy for each annotator and class; errors fall evenly on the other classes.

    ``smoothing`` is the number of labels added to the right and to the wrong answers each, in every class.
    """

    smoothing: float = 0.0
    learn_prior: bool = True

    def __call__(self, statistics: Statistics) -> Parameters:
        """Return the share of right answers, by annotator and class."""
        M, K, _ = statistics.counts.shape
        right = np.einsum("mkk->mk", statistics.counts) + self.smoothing
        total = statistics.counts.sum(axis=1) + 2 * self.smoothing
        # p_mk = right / all;  A_m(i, k) = p_mk if i = k else (1 - p_mk) / (K - 1)
        accuracy = np.divide(right, total, out=np.full((M, K), 1.0 / K), where=total > 0)
        return Parameters(_prior(statistics, self.learn_prior), _even_errors(accuracy))

    def penalty(self, parameters: Parameters) -> float:
        """Return ``smoothing`` · Σ log of every smoothed probability."""
        return _coin_penalty(np.einsum("mkk->mk", parameters.confusions), self.smoothing)


def _coin_penalty(accuracy: Floats, smoothing: float) -> float:
    """Return ``smoothing`` · Σ (log a + log (1 - a))."""
    if not smoothing:
        return 0.0
    right, wrong = np.clip(accuracy, FLOOR, 1.0), np.maximum(1.0 - accuracy, FLOOR)
    return smoothing * float((np.log(right) + np.log(wrong)).sum())


def _even_errors(accuracy: Floats) -> Floats:
    """Return the confusions (M, K, K) of annotators with these accuracies (M, K) who err evenly."""
    M, K = accuracy.shape
    confusions = np.repeat((1.0 - accuracy) / max(K - 1, 1), K, axis=0).reshape(M, K, K)
    diagonal = np.arange(K)
    confusions[:, diagonal, diagonal] = accuracy if K > 1 else 1.0
    return confusions


def _prior(statistics: Statistics, learn: bool) -> Floats:
    # π_k = Σ_n posterior[n, k] / N
    K = statistics.class_counts.size
    total = statistics.class_counts.sum()
    return statistics.class_counts / total if learn and total > 0 else np.full(K, 1.0 / K)


def rounded(parameters: Parameters) -> Parameters:
    """Round parameters to forty bits behind the point, in place.

    Two annotators who mirror each other put EM on a saddle; there the order of a sum, in its last bit, would decide
    whom to believe.  Rounded, what is symmetric stays so, and the tie is seen as one.
    """
    for x in parameters:
        x *= 2.0**40
        np.rint(x, out=x)
        x *= 2.0**-40
    return parameters
