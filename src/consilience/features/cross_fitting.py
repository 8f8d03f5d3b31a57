"""Cross-fitting: probabilities of every item from classifiers that were not fitted to it.

Items are divided into folds; those of a fold are predicted by a classifier that was fitted to the other folds.  The
labels to fit are soft, q_n(k): an item is a row for each class of at least ``LEAST_SOFT``, with q as its sample weight.
Classifiers that take no sample weights get the most probable class.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.ids import Ids
from consilience.exceptions import DataError, ParameterError
from consilience.features import constants
from consilience.kernels._arrays import Bools, Floats, Ints

__all__ = ["check_classifier", "cross_fit", "draw_folds", "fit_soft", "predict_among", "takes_weights"]


def check_classifier(estimator: Any) -> None:
    """Raise unless the estimator is a scikit-learn classifier with probabilities."""
    from sklearn.base import is_regressor

    if isinstance(estimator, type):
        raise ParameterError(f"expected a classifier, not a class: pass {estimator.__name__}(…)")
    name = type(estimator).__name__
    if not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        raise ParameterError(f"expected a scikit-learn classifier, such as LogisticRegression(), not {estimator!r}")
    if is_regressor(estimator):
        raise ParameterError(f"{name} is a regressor; pass a classifier, such as LogisticRegression()")
    if not hasattr(estimator, "predict_proba"):
        raise ParameterError(
            f"{name} has no predict_proba; pass a classifier that predicts probabilities, such as LogisticRegression() "
            f"or CalibratedClassifierCV({name}(…))"
        )


def draw_folds(items: Ids, n_folds: int, random_state: Any) -> Ints:
    """Return the fold of every item, (N,); it depends on the ids and the seed, not on the order of the items."""
    order = np.random.default_rng(random_state).permutation(len(items))
    folds: Ints = (order % n_folds)[items.sorted()[1]]
    return folds


def cross_fit(estimator: Any, X: Any, posterior: Floats, folds: Ints, labelled: Bools) -> Floats:
    """Return out-of-fold probabilities of every item, (N, K), from classifiers fitted to ``labelled`` items."""
    from sklearn.utils import _safe_indexing

    made = np.empty_like(posterior)
    for fold in range(int(folds.max()) + 1):
        out = np.flatnonzero(folds == fold)
        rest = np.flatnonzero((folds != fold) & labelled)
        fitted = fit_soft(estimator, _safe_indexing(X, rest), posterior[rest])
        made[out] = predict_among(fitted, _safe_indexing(X, out), posterior.shape[1])
    return made


def fit_soft(estimator: Any, X: Any, posterior: Floats) -> Any:
    """Return a clone of the classifier, fitted to soft labels (N, K); its classes are codes."""
    from sklearn.base import clone
    from sklearn.utils import _safe_indexing

    best = posterior.argmax(axis=1)
    weights = takes_weights(estimator)
    item, code = np.arange(best.size), best
    options: dict[str, Any] = {}
    if weights is not None:
        soft = posterior >= constants.LEAST_SOFT
        soft[item, best] = True
        item, code = np.nonzero(soft)
        options[weights] = posterior[item, code]
        X = _safe_indexing(X, item)
    if code.size == 0 or code.min() == code.max():
        return _Always(int(code[0]) if code.size else 0)
    try:
        return clone(estimator).fit(X, code, **options)
    except (TypeError, ValueError) as error:
        if np.ndim(X) != 1 or not isinstance(next(iter(X)), str):
            raise
        name = type(estimator).__name__
        raise DataError(
            f"{name} cannot be fitted to texts: {error}. Put a vectorizer before it, as in "
            f"make_pipeline(TfidfVectorizer(), {name}(…))"
        ) from error


def predict_among(fitted: Any, X: Any, n_classes: int) -> Floats:
    """Return the probabilities of all classes, (N, K); those that the classifier has not met have none."""
    given = np.asarray(fitted.predict_proba(X), np.float64)
    if not np.isfinite(given).all():
        raise DataError(f"{type(fitted).__name__} predicts probabilities that are not finite numbers")
    made = np.zeros((len(given), n_classes))
    made[:, fitted.classes_] = given
    return made


def takes_weights(estimator: Any) -> str | None:
    """Return the name under which ``fit`` takes sample weights, or None; in a pipeline that of its last step."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    prefix = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    return f"{prefix}sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


class _Always:
    """The classifier of data with one class."""

    def __init__(self, code: int) -> None:
        self.classes_ = np.array([code])

    def predict_proba(self, X: Any) -> Floats:
        return np.ones((X.shape[0] if hasattr(X, "shape") else len(X), 1))
