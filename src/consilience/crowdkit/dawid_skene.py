"""Dawid and Skene's EM with crowd-kit's parameters: plain steps from vote shares, at most ``n_iter`` of them.

In the end, ``probas_`` is the posterior of the last E-step; ``priors_`` and ``errors_`` are of the M-step after it.
:class:`consilience.DawidSkeneEM` takes fewer passes to converge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from consilience.crowdkit.tables import Aggregator, by_worker, read
from consilience.data.annotations import Annotations
from consilience.exceptions import DataError, ParameterError
from consilience.fitting.em import ConfusionStep, MStep, OneCoinStep, Parameters, sweep_of
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.kernels.votes import vote_statistics

__all__ = ["DawidSkene", "OneCoinDawidSkene"]


@dataclass(eq=False)
class DawidSkene(Aggregator):
    """A confusion matrix for every worker, by EM.

    Parameters
    ----------
    n_iter
        Largest number of EM steps.
    tol
        EM ends when a step raises the log-likelihood per answer by less than this.
    initial_error_strategy
        How ``fit`` uses ``initial_error``: "assign" starts from these errors, "addition" adds them, as counts, to those
        judged by the votes; None ignores them.

    Attributes
    ----------
    labels_, probas_
        Labels and probabilities by task.
    priors_
        Series of the probability of each label.
    errors_
        Frame by worker and label given, with a column for each true label; each column of a worker sums to one.
    loss_history_
        Log-likelihood per answer before each step.
    """

    n_iter: int = 100
    tol: float = 1e-5
    initial_error_strategy: Literal["assign", "addition"] | None = None

    _step: ClassVar[MStep] = ConfusionStep()
    #: Least count of a label that a worker gave; it decides items where every true label would be impossible.
    _least: ClassVar[float] = 1e-10

    def fit(self, data: Any, true_labels: Any = None, initial_error: Any = None) -> Self:
        """Fit by EM; ``true_labels``, a series by task, are kept fixed."""
        import pandas as pd

        a = read(data)
        self.loss_history_: list[float] = []
        if a is None:
            self._keep(None, None)
            self.priors_, self.errors_ = pd.Series(dtype=float, name="prior"), pd.DataFrame()
            return self
        if true_labels is not None and (known := true_labels.index.isin(a.items)).any():
            a = a.with_gold(true_labels[known])
        posterior = vote_posterior(a)
        votes = vote_statistics(a.indptr, a.annotator, a.label, posterior, a.n_annotators)
        if self.initial_error_strategy is not None and initial_error is not None:
            votes = votes._replace(counts=self._started(a, votes.counts, initial_error))
        at, sweep, before = self._m_step(votes), sweep_of(a), None
        for _ in range(self.n_iter):
            before, sums = at, sweep(*at)
            at = self._m_step(sums)
            self.loss_history_.append(sums.log_likelihood / a.n_labels)
            if len(self.loss_history_) > 1 and self.loss_history_[-1] - self.loss_history_[-2] < self.tol:
                break
        self._keep(a, posterior if before is None else sweep.posterior(*before)[0])
        self._describe(a, at)
        if self.initial_error_strategy == "assign" and initial_error is not None:
            self.errors_ = self.errors_.reindex(initial_error.index)
        return self

    def _m_step(self, sums: Statistics) -> Parameters:
        given = sums.counts.sum(axis=2, keepdims=True) > 0
        return self._step(sums._replace(counts=np.maximum(sums.counts, self._least * given)))

    def _started(self, a: Annotations, counts: Floats, initial_error: Any) -> Floats:
        """Return the counts to start from, (M, K, K)."""
        if list(initial_error.index.names) != ["worker", "label"]:
            raise DataError(
                f"the index of initial_error must be worker and label, not {list(initial_error.index.names)}"
            )
        given = initial_error.reindex(index=_rows(a), columns=a.classes)
        if self.initial_error_strategy == "addition":
            added: Floats = given.fillna(0.0).to_numpy(float).reshape(counts.shape)
            return counts + added
        if self.initial_error_strategy != "assign":
            raise ParameterError(
                f"initial_error_strategy must be 'assign', 'addition' or None, not {self.initial_error_strategy!r}"
            )
        errors: Floats = given.to_numpy(float).reshape(counts.shape)
        if (lost := np.isnan(errors).any(axis=(1, 2))).any():
            raise DataError(f"initial_error must have all workers: {int(lost.sum())} are missing or incomplete")
        if (errors <= 1.0).all() and not np.allclose(errors.sum(axis=1), 1.0):
            raise DataError("The sum of each worker's error matrix in initial_error should be 1.0 for every true label")
        return errors

    def _describe(self, a: Annotations, at: Parameters) -> None:
        import pandas as pd

        self.priors_ = pd.Series(at.prior, index=pd.Index(a.classes, name="label"), name="prior")
        self.errors_ = pd.DataFrame(at.confusions.reshape(-1, a.n_classes), index=_rows(a), columns=pd.Index(a.classes))


@dataclass(eq=False)
class OneCoinDawidSkene(DawidSkene):
    """One accuracy for every worker, ``skills_``, by EM; the parameters are those of :class:`DawidSkene`."""

    _step: ClassVar[MStep] = OneCoinStep()
    _least: ClassVar[float] = 0.0

    def _describe(self, a: Annotations, at: Parameters) -> None:
        super()._describe(a, at)
        self.skills_ = by_worker(a, at.confusions[:, 0, 0].copy(), "skill")


def _rows(a: Annotations) -> Any:
    """Return the index of worker and label given."""
    import pandas as pd

    return pd.MultiIndex.from_product([a.annotators, a.classes], names=["worker", "label"])
