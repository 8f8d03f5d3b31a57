"""The estimator that chooses the model itself."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from consilience.data.annotations import Annotations
from consilience.fitting.em import Callback
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import CrowdEstimator

__all__ = ["Auto"]


class Auto(CrowdEstimator):
    """The model that the labels themselves ask for, chosen by evidence, with confidence that allows for common errors.

    Parameters
    ----------
    max_iter, tol
        Passes over the data for one model, and the relative change of its lower bound that ends them.
    random_state
        Decides everything that is random.
    callback
        Told of every pass; ends the fit of one model by returning True.

    Examples
    --------
    >>> from consilience import Auto, simulate
    >>> crowd = simulate(500, 12, 3, experts=0.3, seed=1)
    >>> model = Auto(random_state=0).fit(crowd.annotations)
    >>> float((model.labels_ == crowd.truth).mean()) > 0.9
    True
    """

    _method = "auto"

    def __init__(
        self,
        *,
        max_iter: int = 1000,
        tol: float = 1e-5,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback

    def _keep(self, X: Any, annotations: Annotations, fit: Fit) -> None:
        super()._keep(X, annotations, fit)
        self._predictor = fit.predictor

    def _posterior(self, X: Any) -> tuple[Annotations, Floats, Floats | None]:
        # models are averaged and copies share one vote on new items too, and confidence allows for common errors
        check_is_fitted(self, "model_")
        annotations = self._annotations(X, reset=False)
        assert self._predictor is not None
        return annotations, *self._predictor(annotations)
