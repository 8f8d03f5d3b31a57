"""The base classes of estimators: scikit-learn's protocol, what ``fit`` takes, and what ``predict`` returns.

Each estimator is a thin cover over the function of its method.  A subclass declares its parameters as annotated
fields with defaults, of which ``__init__`` is made (as by :func:`dataclasses.dataclass`, keywords only).  Importing
scikit-learn takes a second, so it is imported where it is needed and is no base class.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import numpy as np

from consilience.data import frames
from consilience.data.annotations import Annotations
from consilience.exceptions import ParameterError
from consilience.fitting.em import Callback
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats
from consilience.methods.base import registry
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.scoring import accuracy
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import choose
from consilience.validation import numpy_seed

__all__ = ["CrowdEstimator", "IterativeEstimator", "RefinableEstimator", "SeededEstimator", "is_long_frame"]


@dataclass_transform(kw_only_default=True, eq_default=False)
class CrowdEstimator:
    """Base of all estimators of the crowd family.

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
        Prior and confusions in crowd-kit's format, where a long pandas frame was fitted.
    log_likelihood_ : float
        Log-probability of all labels under the fitted parameters.
    details_ : dict
        Figures specific to the method, such as the lower bound of variational Bayes, or what ``Auto`` chose and why.

    Notes
    -----
    ``labels_`` and ``probas_`` are the method's own.  ``predict`` and ``predict_proba`` judge items, new or old, by
    ``model_``; for a method that is no Dawid-Skene model these can differ on the items that were fitted.
    """

    _method: ClassVar[str]
    _new_answers: ClassVar[bool] = False  # whether new items may have answers that were not fitted

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True, eq=False, repr=False)(cls)

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
        annotations = self._taught(X, gold, true_labels)
        fit = registry.fit(self._name(), annotations, **self._options())
        warn_of([*cautions_of(annotations, silence=fit.details.get("silence", "random")), *fit.cautions])
        self._keep(X, annotations, fit)
        if annotations.origin.frame == "pandas" and is_long_frame(X):
            self.priors_, self.errors_ = _as_crowd_kit(fit.model, annotations)
        return self

    def predict(self, X: Any) -> Any:
        """Return the most probable class of every item; see :func:`consilience.runs.consensus.choose` for ties."""
        annotations, posterior, hint = self._posterior(X)
        return self._dress(X, annotations, self.classes_[choose(posterior, self.prior_, hint).best])

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of every class for every item."""
        annotations, posterior, _ = self._posterior(X)
        return self._dress(X, annotations, posterior)

    def fit_predict(self, X: Any, y: Any = None, *, gold: Any = None, true_labels: Any = None) -> Any:
        """Fit, and return the labels of the same items."""
        return self.fit(X, y, gold=gold, true_labels=true_labels).labels_

    def fit_predict_proba(self, X: Any, y: Any = None, *, gold: Any = None, true_labels: Any = None) -> Any:
        """Fit, and return the probabilities of the same items."""
        return self.fit(X, y, gold=gold, true_labels=true_labels).probas_

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of right labels; without truths, the mean log-probability of a label under ``model_``.

        Parameters
        ----------
        X
            The labels of annotators, in any form that ``predict`` takes.
        y
            The truths: one class for each row of a matrix; for a long frame or annotations also a mapping, a series or
            a frame that names the items, or one class for each row.  Items of unknown truth (NaN, None) do not count.
        """
        if y is None:
            annotations, _, _ = self._posterior(X)
            if not isinstance(self.model_, DawidSkene):
                raise ParameterError(f"{type(self).__name__} has no likelihood of new labels; give the truths too")
            return float(self.model_.log_likelihood(annotations)) / max(annotations.n_labels, 1)
        labels = self.predict(X)
        labels = labels["label"] if frames.is_frame(labels) else np.asarray(labels)
        return accuracy(X, self._annotations(X, reset=False), labels, y, long=is_long_frame(X))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` is there for scikit-learn."""
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name."""
        known = self._defaults()
        for name, value in parameters.items():
            if name not in known:
                raise ParameterError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        known = self._defaults()
        changed = (f"{name}={value!r}" for name, value in self.get_params().items() if repr(value) != repr(known[name]))
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        takes = InputTags(categorical=True, allow_nan=True, string=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=takes)

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {name: p.default for name, p in inspect.signature(cls).parameters.items()}

    def _name(self) -> str:
        return self._method

    def _options(self) -> dict[str, Any]:
        taken = {*registry.METHODS[self._method].parameters, "callback"}
        options = {k: v for k, v in self.get_params(deep=False).items() if k in taken}
        if "random_state" in options:
            options["random_state"] = numpy_seed(options["random_state"])
        return options

    def _taught(self, X: Any, gold: Any, true_labels: Any) -> Annotations:
        """Return the labels to fit, with the known truths."""
        annotations = self._annotations(X, reset=True)
        gold = true_labels if gold is None else gold
        return annotations if gold is None else annotations.with_gold(gold)

    def _keep(self, X: Any, annotations: Annotations, fit: Fit) -> None:
        """Set the attributes of a fitted estimator."""
        self.model_ = fit.model
        self.classes_ = annotations.classes
        self.prior_, self.confusions_ = fit.model.prior, fit.model.confusions
        self.converged_, self.history_, self.n_iter_ = fit.converged, fit.history, max(fit.iterations, 1)
        self.log_likelihood_, self.details_ = fit.log_likelihood, dict(fit.details)
        self._predictor = fit.predictor
        self.probas_ = self._dress(X, annotations, fit.posterior)
        self.labels_ = self._dress(X, annotations, self.classes_[fit.choice.best])

    def _posterior(self, X: Any) -> tuple[Annotations, Floats, Floats | None]:
        """Return new items, their posterior, and a second opinion that breaks its ties."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "model_")
        annotations = self._annotations(X, reset=False)
        if self._predictor is not None:
            return annotations, *self._predictor(annotations)
        return annotations, self.model_.posterior(annotations), None

    def _annotations(self, X: Any, *, reset: bool) -> Annotations:
        if isinstance(X, Annotations):
            return X
        if is_long_frame(X):
            return Annotations.from_frame(X)
        from sklearn.utils.validation import validate_data

        matrix = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        if reset:
            return Annotations.from_matrix(matrix)
        classes = None if self._new_answers else self.model_.classes
        return Annotations.from_matrix(matrix, annotators=self.model_.annotators, classes=classes)

    @staticmethod
    def _dress(X: Any, annotations: Annotations, values: np.ndarray[Any, Any], classes: Any = None) -> Any:
        """Return plain arrays for matrices, and for long frames a frame or series of the same library."""
        if isinstance(X, Annotations) or not is_long_frame(X):
            return values
        item, classes = annotations.origin.item, annotations.classes if classes is None else classes
        if annotations.origin.frame == "pandas":
            import pandas as pd

            index = pd.Index(annotations.items, name=item)
            if values.ndim == 1:
                return pd.Series(values, index=index, name="agg_label")
            return pd.DataFrame(values, index=index, columns=pd.Index(classes, name=annotations.origin.label))
        by_class = {str(name): k for k, name in enumerate(classes)}
        columns = {"label": values} if values.ndim == 1 else {name: values[:, k] for name, k in by_class.items()}
        return frames.make({item: annotations.item_ids.to_arrow(), **columns}, annotations.origin.frame)


class SeededEstimator(CrowdEstimator):
    """Base of estimators that have a seed and call back while they fit."""

    random_state: Any = None
    callback: Callback | None = None


class RefinableEstimator(SeededEstimator):
    """Base of estimators that EM can refine: ``refine="em"`` continues by EM from the model that was found.

    ``refine="plain-em"`` is EM from that model and nothing else: ``em_rounds`` steps (None: until ``tol``), with
    probabilities of at least ``em_floor``.
    """

    refine: Literal["em", "plain-em"] | None = None
    em_rounds: int | None = None
    em_floor: float = 0.0

    def _name(self) -> str:
        if self.refine not in (None, "em", "plain-em"):
            raise ParameterError(f"refine must be 'em', 'plain-em' or None, not {self.refine!r}")
        return f"{self._method}+{self.refine}" if self.refine else self._method

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        if not self.refine:
            return options
        # EM has defaults of its own: only what the user changed goes to both
        defaults = self._defaults()
        for name in {*registry.refinement_parameters(f"+{self.refine}")} - {"random_state"}:
            if name in options and options[name] == defaults[name]:
                del options[name]
        return options | ({"em_rounds": self.em_rounds, "em_floor": self.em_floor} if self.refine == "plain-em" else {})


class IterativeEstimator(RefinableEstimator):
    """Base of refinable estimators that pass over the data until a tolerance is met."""

    max_iter: int = 1000
    tol: float = 1e-7


def is_long_frame(X: Any) -> bool:
    """Return whether this is a frame with a row for each label."""
    return not isinstance(X, np.ndarray) and frames.is_frame(X) and frames.is_long(frames.columns_of(X))


def _as_crowd_kit(model: DawidSkene, annotations: Annotations) -> tuple[Any, Any]:
    """Return prior and confusions as crowd-kit names and shapes them, for pandas."""
    import pandas as pd

    classes = pd.Index(annotations.classes, name=annotations.origin.label)
    rows = pd.MultiIndex.from_product(
        [annotations.annotators, annotations.classes], names=[annotations.origin.annotator, annotations.origin.label]
    )
    errors = pd.DataFrame(model.confusions.reshape(-1, len(classes)), index=rows, columns=classes)
    return pd.Series(model.prior, index=classes, name="prior"), errors
