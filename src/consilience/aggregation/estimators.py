"""scikit-learn's manners for the methods: ``fit``, ``predict``, ``predict_proba``, fitted names that end in ``_``.

Each class is a thin cover over the function of the same method.  Input is a long frame, an (items × annotators) matrix
with NaN or -1 for missing, or Annotations.  On a long pandas frame the answers are what crowd-kit would give: a
series of labels indexed by item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience import _frames
from consilience.aggregation import registry
from consilience.aggregation.aggregate import cautions_of, is_long, warn_of
from consilience.aggregation.em import Callback
from consilience.aggregation.fit import vote_posterior
from consilience.annotations import Annotations
from consilience.consensus import choose
from consilience.dawid_skene import DawidSkene
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats

__all__ = [
    "CrowdEstimator",
    "DawidSkeneEM",
    "DesignatedSymNMF",
    "MajorityVote",
    "OneCoin",
    "PlainSymNMF",
    "RobustSymNMF",
]


class CrowdEstimator(BaseEstimator):  # type: ignore[misc]
    """What all estimators of the crowd family share.

    Attributes
    ----------
    model_ : DawidSkene
        The fitted parameters, with the names of classes and annotators.
    classes_, prior_, confusions_
        Classes, their probabilities (K,), and a confusion matrix for each annotator (M, K, K).
    labels_, probas_
        Labels and probabilities of the items that were fitted.
    converged_ : bool
        Whether the tolerance was met.
    history_ : list of float
        The objective after every pass.
    n_iter_ : int
        Passes over the data.
    priors_, errors_
        Prior and confusions as crowd-kit's classes have them, where a long pandas frame was fitted.
    log_likelihood_ : float
        Log-probability of all labels under the fitted parameters.
    """

    _method: ClassVar[str]

    def fit(self, X: Any, y: Any = None, *, gold: Any = None, true_labels: Any = None) -> Self:
        """Learn the annotators from their labels.

        Parameters
        ----------
        X
            A long frame, a matrix of items × annotators, or Annotations.
        y
            Not used: there for scikit-learn's pipelines.
        gold
            Known truths, held fixed; ``true_labels`` is crowd-kit's name for it.
        """
        annotations = self._annotations(X, reset=True)
        gold = true_labels if gold is None else gold
        if gold is not None:
            annotations = annotations.with_gold(gold)
        fit = registry.fit(self._name(), annotations, **self._options())
        warn_of([*cautions_of(annotations), *fit.cautions])
        self.model_ = fit.model
        self.classes_ = annotations.classes
        self.prior_, self.confusions_ = fit.model.prior, fit.model.confusions
        self.converged_, self.history_, self.n_iter_ = fit.converged, fit.history, max(fit.iterations, 1)
        self.log_likelihood_ = fit.log_likelihood
        self.probas_ = self._dress(X, annotations, fit.posterior)
        self.labels_ = self._dress(X, annotations, self.classes_[fit.choice.best])
        if annotations.origin.frame == "pandas" and _is_long_frame(X):
            self.priors_, self.errors_ = _as_crowd_kit(fit.model, annotations)
        return self

    def predict(self, X: Any) -> Any:
        """Give the most probable class of every item; see :func:`consilience.consensus.choose` for ties."""
        annotations, posterior, hint = self._posterior(X)
        return self._dress(X, annotations, self.classes_[choose(posterior, self.prior_, hint).best])

    def predict_proba(self, X: Any) -> Any:
        """Give the probability of every class for every item."""
        annotations, posterior, _ = self._posterior(X)
        return self._dress(X, annotations, posterior)

    def fit_predict(self, X: Any, y: Any = None, *, gold: Any = None, true_labels: Any = None) -> Any:
        """Fit, and give the labels of the same items."""
        return self.fit(X, y, gold=gold, true_labels=true_labels).labels_

    def fit_predict_proba(self, X: Any, y: Any = None, *, gold: Any = None, true_labels: Any = None) -> Any:
        """Fit, and give the probabilities of the same items."""
        return self.fit(X, y, gold=gold, true_labels=true_labels).probas_

    def _name(self) -> str:
        return self._method

    def _options(self) -> dict[str, Any]:
        taken = registry.resolve(self._name())[0].parameters
        options = {k: v for k, v in self.get_params(deep=False).items() if k in taken}
        if "random_state" in options:
            options["random_state"] = _seed(options["random_state"])
        return options

    def _posterior(self, X: Any) -> tuple[Annotations, Floats, Floats | None]:
        """Give the posterior of new items, and what breaks its ties."""
        check_is_fitted(self, "model_")
        annotations = self._annotations(X, reset=False)
        return annotations, self.model_.posterior(annotations), None

    def _annotations(self, X: Any, *, reset: bool) -> Annotations:
        if isinstance(X, Annotations):
            return X
        if _is_long_frame(X):
            return Annotations.from_frame(X)
        matrix = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        if reset:
            return Annotations.from_matrix(matrix)
        return Annotations.from_matrix(matrix, annotators=self.model_.annotators, classes=self.model_.classes)

    @staticmethod
    def _dress(X: Any, annotations: Annotations, values: np.ndarray[Any, Any]) -> Any:
        """Give plain arrays for matrices, and for long frames what users of that kind of frame expect."""
        if isinstance(X, Annotations) or not _is_long_frame(X):
            return values
        item, classes = annotations.origin.item, annotations.classes
        if annotations.origin.frame == "pandas":
            import pandas as pd

            index = pd.Index(annotations.items, name=item)
            if values.ndim == 1:
                return pd.Series(values, index=index, name="agg_label")
            return pd.DataFrame(values, index=index, columns=pd.Index(classes, name=annotations.origin.label))
        by_class = {str(name): k for k, name in enumerate(classes)}
        columns = {"label": values} if values.ndim == 1 else {name: values[:, k] for name, k in by_class.items()}
        return _frames.make({item: annotations.item_ids.to_arrow(), **columns}, annotations.origin.frame)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.target_tags.required = False
        return tags


def _seed(random_state: Any) -> Any:
    """Take what scikit-learn takes; None stands for fresh randomness, a RandomState gives a seed of its own."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return random_state


def _is_long_frame(X: Any) -> bool:
    return not isinstance(X, np.ndarray) and _frames.is_frame(X) and is_long(_frames.columns_of(X))


def _as_crowd_kit(model: DawidSkene, annotations: Annotations) -> tuple[Any, Any]:
    """Give prior and confusions as crowd-kit names and shapes them, for pandas."""
    import pandas as pd

    classes = pd.Index(annotations.classes, name=annotations.origin.label)
    rows = pd.MultiIndex.from_product(
        [annotations.annotators, annotations.classes], names=[annotations.origin.annotator, annotations.origin.label]
    )
    errors = pd.DataFrame(model.confusions.reshape(-1, len(classes)), index=rows, columns=classes)
    return pd.Series(model.prior, index=classes, name="prior"), errors


class MajorityVote(CrowdEstimator):
    """Majority voting: the share of votes is the probability.

    Examples
    --------
    >>> from consilience import MajorityVote
    >>> MajorityVote().fit_predict([[0, 0, 1], [1, 1, -1]])
    array([0, 1])
    """

    _method = "majority"

    def _posterior(self, X: Any) -> tuple[Annotations, Floats, Floats | None]:
        # Votes need no model: new items are counted like old ones.
        annotations, hint, _ = super()._posterior(X)
        return annotations, vote_posterior(self.model_.recoded(annotations)), hint


class EMEstimator(CrowdEstimator):
    """What the estimators by EM share."""

    def __init__(
        self,
        *,
        smoothing: float = 0.0,
        prior: Literal["learned", "uniform"] = "learned",
        max_iter: int = 1000,
        tol: float = 1e-7,
        accelerate: bool = True,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.smoothing = smoothing
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.random_state = random_state
        self.callback = callback


class DawidSkeneEM(EMEstimator):
    r"""Dawid and Skene's model by EM.

    .. math:: \Pr(\text{labels of } n) = \sum_k \pi_k \prod_{(m, i)} A_m(i, k)

    Parameters
    ----------
    smoothing
        Labels added to every cell of every confusion matrix (a Dirichlet prior).
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the whole crowd answers.
    prior
        "learned", or "uniform" to hold all classes equally likely.
    max_iter, tol
        Passes over the data, and the relative change of the objective in one EM step that ends them.
    accelerate
        Leap along EM steps (SQUAREM) where the likelihood allows it.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every pass; ends the fit by returning True.

    Examples
    --------
    >>> from consilience import DawidSkeneEM
    >>> votes = [[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0], [0, 0, 1]]
    >>> DawidSkeneEM(smoothing=0.1).fit_predict(votes)
    array([0, 1, 0, 1, 0])
    """

    _method = "ds-em"

    def __init__(
        self,
        *,
        smoothing: float = 0.0,
        shrinkage: float = 0.0,
        prior: Literal["learned", "uniform"] = "learned",
        max_iter: int = 1000,
        tol: float = 1e-7,
        accelerate: bool = True,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(
            smoothing=smoothing,
            prior=prior,
            max_iter=max_iter,
            tol=tol,
            accelerate=accelerate,
            random_state=random_state,
            callback=callback,
        )
        self.shrinkage = shrinkage


class OneCoin(EMEstimator):
    """The one-coin model by EM: each annotator is right with one probability, whatever the class.

    Its parameters are those of :class:`DawidSkeneEM`, without shrinkage.
    """

    _method = "one-coin"


class PairwiseEstimator(CrowdEstimator):
    """What the estimators from pairs of annotators share: ``refine="em"`` goes on by EM from what was found."""

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        rotations: int = 20,
        alpha: float = 1e-6,
        decay: float | None = None,
        shrinkage: float = 0.25,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.refine = refine
        self.rotations = rotations
        self.alpha = alpha
        self.decay = decay
        self.shrinkage = shrinkage
        self.random_state = random_state
        self.callback = callback

    def _name(self) -> str:
        if self.refine not in (None, "em"):
            raise ParameterError(f"refine must be 'em' or None, not {self.refine!r}")
        return f"{self._method}+em" if self.refine else self._method


class RobustSymNMF(PairwiseEstimator):
    r"""Dawid-Skene from pairwise co-occurrences: robust imputation, then shifted-ReLU SymNMF (Ibrahim & Fu 2022).

    .. math:: R_{mj} = A_m D A_j^\top, \qquad X = H H^\top, \quad H = [A_1; \dots; A_M] D^{1/2}

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    starts, rotations
        Starts of the imputation (the votes, then random ones) and of the rotation.
    reweigh, count_weights
        Doubt pairs that fit badly; trust pairs by their number of common items.
    alpha, decay
        Threshold of the shifted ReLU, relative to the largest entry, and its decay; constant by default.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    max_iter, tol
        Sweeps of the imputation, and the relative change of its objective that ends them.
    random_state
        Decides everything that is random.
    callback
        Told of every sweep.

    Examples
    --------
    >>> from consilience import RobustSymNMF, simulate
    >>> crowd = simulate(500, 12, 3, experts=0.3, seed=1)
    >>> model = RobustSymNMF(refine="em", random_state=0).fit(crowd.annotations)
    >>> float((model.labels_ == crowd.truth).mean()) > 0.9
    True
    """

    _method = "rob-symnmf"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        starts: int = 4,
        rotations: int = 10,
        reweigh: bool = True,
        count_weights: bool = True,
        alpha: float = 1e-6,
        decay: float | None = None,
        shrinkage: float = 0.25,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(
            refine=refine,
            rotations=rotations,
            alpha=alpha,
            decay=decay,
            shrinkage=shrinkage,
            random_state=random_state,
            callback=callback,
        )
        self.starts = starts
        self.reweigh = reweigh
        self.count_weights = count_weights
        self.max_iter = max_iter
        self.tol = tol


class PlainSymNMF(PairwiseEstimator):
    """SymNMF of the observed pairs alone: no imputation, biased unless everybody met everybody.

    The parameters are those of :class:`RobustSymNMF`.
    """

    _method = "symnmf"


class DesignatedSymNMF(PairwiseEstimator):
    """Dawid-Skene from pairs of annotators, missing ones imputed through designated annotators (Ibrahim & Fu 2022).

    Parameters
    ----------
    through
        Names of the designated annotators, who have items in common with everybody; all that qualify by default.
    refine, rotations, alpha, decay, shrinkage, random_state, callback
        As for :class:`RobustSymNMF`.
    """

    _method = "des-symnmf"

    def __init__(
        self,
        *,
        through: Sequence[Any] | None = None,
        refine: Literal["em"] | None = None,
        rotations: int = 20,
        alpha: float = 1e-6,
        decay: float | None = None,
        shrinkage: float = 0.25,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.through = through
        super().__init__(
            refine=refine,
            rotations=rotations,
            alpha=alpha,
            decay=decay,
            shrinkage=shrinkage,
            random_state=random_state,
            callback=callback,
        )
