"""What every method of the crowd family returns: Dawid-Skene parameters and how they were found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.engine.passes import Labels, passes_of
from consilience.exceptions import ConvergenceWarning
from consilience.fitting.em import EMResult
from consilience.fitting.known import pooled, start_counts
from consilience.fitting.m_steps import ConfusionStep, MStep, Parameters
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.kernels.votes import vote_shares, vote_statistics
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import Choice, choose

__all__ = ["Caution", "Fit", "crowd_confusion", "unconverged", "vote_posterior", "vote_start"]

#: A sentence for the user, and its warning class.
Caution = tuple[str, type[Warning]]


def unconverged(converged: bool, what: str, passes: str, tol: float) -> tuple[Caution, ...]:
    """Return the caution about a tolerance that was not met in so many ``passes``, if there was one."""
    if converged or not tol > 0:
        return ()
    sentence = (
        f"{what} did not converge in {passes} (relative tolerance {tol:g}); "
        "raise max_iter, or take the result as preliminary"
    )
    return ((sentence, ConvergenceWarning),)


@dataclass(frozen=True)
class Fit:
    """A fitted model with its posterior."""

    model: DawidSkene
    posterior: Floats  #: (N, K); (0, K) if labels are not in memory
    log_likelihood: float
    converged: bool = True
    history: list[float] = field(default_factory=list)
    cautions: tuple[Caution, ...] = ()
    hint: Floats | None = None  #: a second opinion that breaks ties of the posterior, (N, K)
    candidates: tuple[Parameters, ...] = ()  #: other starts for ``+em``
    #: Returns probabilities and vote shares of new items, (N, K) both, if they do not follow from the model alone.
    predictor: Callable[[Annotations], tuple[Floats, Floats]] | None = None
    details: Mapping[str, Any] = field(
        default_factory=dict
    )  #: figures specific to the method, for the summary of a run

    @property
    def choice(self) -> Choice:
        """The label of every item."""
        return choose(self.posterior, self.model.prior, self.hint)

    @property
    def iterations(self) -> int:
        """Passes over the data."""
        return len(self.history)

    def reordered(self, order: Ints) -> Fit:
        """Return the same fit with its truth classes in another order."""
        return replace(self, model=self.model.permute(order), posterior=np.ascontiguousarray(self.posterior[:, order]))

    def among(self, classes: Ids, used: Bools) -> Fit:
        """Return the same fit among more ``classes``: those not ``used`` have probability zero."""
        K, here = len(classes), np.flatnonzero(used)

        def widened(values: Floats) -> Floats:
            wide = np.zeros((len(values), K))
            wide[:, here] = values
            return wide

        prior, confusions = np.zeros(K), np.full((len(self.model.annotators), K, K), 1.0 / K)
        prior[here] = self.model.prior
        confusions[:, :, here] = 0.0
        confusions[np.ix_(np.arange(len(confusions)), here, here)] = self.model.confusions
        return replace(
            self,
            model=DawidSkene(prior, confusions, classes, self.model.annotators),
            posterior=widened(self.posterior),
            hint=None if self.hint is None else widened(self.hint),
        )

    @classmethod
    def from_em(cls, data: Labels, result: EMResult, tol: float) -> Fit:
        """Return the fit that EM found."""
        model = DawidSkene(*result.parameters, data.class_ids, data.annotator_ids)
        cautions = unconverged(result.converged, "EM", f"{result.iterations} passes", tol)
        posterior = passes_of(data).posterior(model)
        return cls(model, posterior, result.log_likelihood, result.converged, result.history, cautions)

    @classmethod
    def from_posterior(cls, annotations: Annotations, posterior: Floats, **others: Any) -> Fit:
        """Return a fit with a posterior (N, K) that comes from another kind of model.

        The parameters are those of one M-step from it, with a hundredth of a label in every cell.  Gold items are set
        to their gold.  ``others`` are further fields of the fit: ``converged``, ``history``, ``cautions``, ``hint``…
        """
        a = annotations
        if a.gold is not None:
            known = a.gold >= 0
            posterior = posterior.copy()
            posterior[known] = np.arange(a.n_classes) == a.gold[known, None]
        statistics = vote_statistics(a.indptr, a.annotator, a.label, posterior, a.n_annotators)
        model = DawidSkene(*ConfusionStep(0.01)(statistics), a.class_ids, a.annotator_ids)
        return cls(model, posterior, model.posterior_and_likelihood(a)[1], **others)


def vote_posterior(annotations: Annotations) -> Floats:
    """Return the vote shares of each item; gold items at their gold, unlabelled ones uniform."""
    return vote_shares(annotations.indptr, annotations.label, annotations.gold, annotations.n_classes)


def vote_start(data: Labels, step: MStep) -> Parameters:
    """Return the parameters of one M-step from vote shares, the start of Dawid and Skene, corrected by gold."""
    return step(start_counts(data))


def crowd_confusion(data: Labels) -> Floats:
    """Return the confusion of the whole crowd, (K, K), judged by votes and gold, with half a label in every cell."""
    return pooled(start_counts(data).counts)
