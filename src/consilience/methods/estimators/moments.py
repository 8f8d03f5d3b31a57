"""Estimators from what pairs and triples of annotators say of common items."""

from __future__ import annotations

from typing import Any, Literal

from consilience.fitting.em import Callback
from consilience.methods.base.estimator import IterativeEstimator, RefinableEstimator

__all__ = ["CoupledNMF", "MultiSPA", "SpectralDawidSkene", "TensorADMM"]


class MultiSPA(RefinableEstimator):
    """Confusions read off the pair blocks by successive projection (Ibrahim et al. 2019): no iteration, no start.

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    prior
        Learn the class prior by least squares, or take it to be uniform.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every pass of the refinement; ends it by returning True.
    """

    _method = "multispa"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        shrinkage: float = 0.25,
        prior: Literal["learned", "uniform"] = "learned",
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, random_state=random_state, callback=callback)
        self.shrinkage = shrinkage
        self.prior = prior


class CoupledNMF(IterativeEstimator):
    r"""Confusions that explain all pair blocks at once, by coupled KL factors (Ibrahim et al. 2019).

    .. math:: \min \sum_{m, j} S_{mj} \, \text{KL}(R_{mj} \,\|\, A_m \, \text{diag}(\lambda) \, A_j^\top)

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    prior
        Learn the class prior, or hold it uniform.
    max_iter, tol
        Passes over the pairs from each start, and the relative change of the objective that ends them.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every pass; ends the fit by returning True.
    """

    _method = "cnmf"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        shrinkage: float = 0.25,
        prior: Literal["learned", "uniform"] = "learned",
        max_iter: int = 2000,
        tol: float = 1e-7,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.shrinkage = shrinkage
        self.prior = prior


class TensorADMM(IterativeEstimator):
    """Confusions that match single, pairwise and triple statistics, by AO-ADMM (Traganitis et al. 2018).

    It needs three annotators.

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    groups
        Groups of annotators within which triples are taken; by default as few as can be counted.
    rule
        Labels by the largest posterior ("map"), or by the largest likelihood ("ml").
    count_weights
        Weigh a statistic by the items behind it.
    starts
        Starts of the matching: the votes first, then random ones.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    max_iter, tol
        Sweeps over the annotators, and the relative change of the objective that ends them.
    random_state
        Decides everything that is random.
    callback
        Told of every sweep; ends the fit by returning True.
    """

    _method = "tensor-admm"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        groups: int | None = None,
        rule: Literal["map", "ml"] = "map",
        count_weights: bool = True,
        starts: int = 1,
        shrinkage: float = 0.25,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.groups = groups
        self.rule = rule
        self.count_weights = count_weights
        self.starts = starts
        self.shrinkage = shrinkage


class SpectralDawidSkene(RefinableEstimator):
    """Three groups of annotators, their moments, and the tensor power method (Zhang et al. 2016).

    It needs three annotators.

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    partitions
        Random splits of the annotators into three groups; the model with the largest likelihood is kept.
    rounds
        Rounds at most for each split: the first from mean labels, the others from posteriors.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    random_state
        Decides everything that is random.
    callback
        Told of every split; ends the fit by returning True.
    """

    _method = "spectral-ds"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        partitions: int = 8,
        rounds: int = 8,
        shrinkage: float = 0.25,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, random_state=random_state, callback=callback)
        self.partitions = partitions
        self.rounds = rounds
        self.shrinkage = shrinkage
