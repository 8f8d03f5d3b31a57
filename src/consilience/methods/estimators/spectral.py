"""Estimators that weigh votes by a leading vector of the labels or of agreements."""

from __future__ import annotations

from typing import Any, Literal

from consilience.fitting.em import Callback
from consilience.methods.base.estimator import IterativeEstimator, RefinableEstimator

__all__ = ["KOS", "EigenRatio", "GhoshSVD", "SpectralMetaLearner", "TriangularEstimation"]


class KOS(IterativeEstimator):
    """Messages between items and annotators (Karger, Oh & Shah 2011); each class against the rest.

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    center
        Count what an annotator says against their habits.
    normalize
        Let an annotator's message be a mean over their labels instead of a sum.
    prior
        Learn the class prior with the scale of the weights, or hold it uniform: the vote as it is.
    max_iter, tol
        Iterations of each problem, and the relative change of the weights that ends them.
    random_state
        Decides everything that is random.
    callback
        Told of every iteration; ends the fit by returning True.
    """

    _method = "kos"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        center: bool = True,
        normalize: bool = True,
        prior: Literal["learned", "uniform"] = "learned",
        max_iter: int = 1000,
        tol: float = 1e-4,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.center = center
        self.normalize = normalize
        self.prior = prior


class GhoshSVD(RefinableEstimator):
    """Votes weighted by the leading singular vector of the labels (Ghosh, Kale & McAfee 2011); two classes.

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    normalize
        Take labels relative to how many each item and each annotator has.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told once, of the leading singular value, and of every pass of the refinement.
    """

    _method = "ghosh-svd"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        normalize: bool = True,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, random_state=random_state, callback=callback)
        self.normalize = normalize


class EigenRatio(RefinableEstimator):
    """Votes weighted by how far annotators agree beside how often they meet (Dalvi et al. 2013); two classes.

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    count_weights
        Let pairs of annotators weigh as many as the items they have in common.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told once, of the leading eigenvalue, and of every pass of the refinement.
    """

    _method = "eigenratio"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        count_weights: bool = False,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, random_state=random_state, callback=callback)
        self.count_weights = count_weights


class SpectralMetaLearner(IterativeEstimator):
    """Sensitivity and specificity from the covariances of pairs (Parisi et al. 2014; Jaffe et al. 2015); two classes.

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    imbalance
        How the class imbalance is found: by the "likelihood", or by the third moments ("tensor").
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    max_iter, tol
        Rounds of the fit, and the relative change of what is fitted that ends them.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every round; ends the fit by returning True.
    """

    _method = "sml"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        imbalance: Literal["likelihood", "tensor"] = "likelihood",
        shrinkage: float = 0.25,
        max_iter: int = 1000,
        tol: float = 1e-5,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.imbalance = imbalance
        self.shrinkage = shrinkage


class TriangularEstimation(RefinableEstimator):
    """An annotator's reliability from two others who agree well (Bonald & Combes 2017); two classes.

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    center
        Take covariances for correlations: two who always give the same answer agree, and mean nothing by it.
    smoothing
        Common items added to every pair, half of them agreements.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told once, of the mean reliability, and of every pass of the refinement.
    """

    _method = "te"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        center: bool = True,
        smoothing: float = 3.0,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, random_state=random_state, callback=callback)
        self.center = center
        self.smoothing = smoothing
