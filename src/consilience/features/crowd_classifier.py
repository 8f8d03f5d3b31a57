"""A classifier trained with labels of several annotators: the estimator of :mod:`consilience.features.joint`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from consilience.data import frames
from consilience.data.annotations import Annotations
from consilience.data.truth import item_column
from consilience.engine.progress import Callback
from consilience.exceptions import ConvergenceWarning, DataError, IdError, ParameterError, warn
from consilience.features import constants
from consilience.features.cross_fitting import check_classifier, cross_fit, draw_folds, fit_soft, predict_among
from consilience.features.held_out import held_out_gain, labels_alone
from consilience.features.inputs import joined
from consilience.features.joint import Joint, doubted_votes, fit_joint
from consilience.models.dawid_skene import DawidSkene
from consilience.validation import numpy_seed, whole

__all__ = ["CrowdClassifier"]


class CrowdClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Any scikit-learn classifier, trained with labels of several annotators (Raykar et al. 2010).

    .. math:: q_n(k) \propto g_n(k) \prod_{(m, i)} A_m(i, k)

    EM: the truth of an item is judged by the classifier, which has not seen its labels (cross-fitting), and by the
    annotators, each with a confusion matrix; then classifier and confusions are refitted to these probabilities.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``; a pipeline for texts.  If its ``fit`` takes ``sample_weight``, it learns
        from probabilities of the classes, else from the most probable class.
    folds
        Parts of the items for cross-fitting.
    max_iter
        How often the classifier is refitted, at most: less often if the labels hardly change.
    random_state
        Decides the folds.
    callback
        Called after every pass over the labels; ends the fit by returning True.

    Attributes
    ----------
    estimator_
        The classifier, fitted to all items; its classes are codes of ``classes_``.
    classes_, confusions_, model_
        Classes, the confusion matrices of the annotators (M, K, K), and both with their names.
    labels_, probas_
        Labels and probabilities of the fitted items, from features and labels together.
    weight_
        What was learned of the classifier: the inverse of its temperature.
    gain_
        By how much held-out labels are predicted better with the classifier; see
        :class:`consilience.features.held_out.Gain`.
    history_, n_iter_, converged_
        The objective after every pass, their number, and whether the last passes met the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from consilience import CrowdClassifier
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=300)
    >>> X = rng.normal(size=(300, 2)) + 2 * truth[:, None]
    >>> wrong = rng.random((300, 3)) < [0.1, 0.3, 0.45]
    >>> model = CrowdClassifier(LogisticRegression()).fit(X, np.where(wrong, 1 - truth[:, None], truth[:, None]))
    >>> bool((model.labels_ == truth).mean() > 0.95)
    True
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]])
    array([0, 1])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        folds: int = constants.FOLDS,
        max_iter: int = constants.ROUNDS,
        random_state: Any = 0,
        callback: Callback | None = None,
    ) -> None:
        self.estimator = estimator
        self.folds = folds
        self.max_iter = max_iter
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any, *, gold: Any = None, items: Any = None) -> Self:
        """Learn classifier and annotators together.

        Parameters
        ----------
        X
            Features: a matrix, sparse or dense, a frame, or a sequence of whatever the estimator takes, such as texts.
        y
            The labels: a matrix of items × annotators (NaN or -1 where there is none), one label for each item by a
            single annotator, a long frame, or Annotations.
        gold
            Known truths, held fixed.
        items
            Names of the rows of X, to match those of a long frame or Annotations; without them, the rows are in the
            order of ``annotations.items``.  Rows without labels are predicted.
        """
        whole("max_iter", self.max_iter)
        check_classifier(self.estimator)
        if y is None:
            raise ParameterError("CrowdClassifier requires y to be passed, but the target y is None")
        X = X.tocsr() if hasattr(X, "tocsr") else X
        N = _n_rows(X)
        if N < 2:
            raise DataError(f"cross-fitting needs two items or more, but n_samples = {N}")
        annotations = _annotations(y, N, items)
        if gold is not None:
            annotations = annotations.with_gold(gold)
        n_folds = whole("folds", self.folds, max(N, 2), least=2)
        folds = draw_folds(annotations.item_ids, n_folds, numpy_seed(self.random_state))
        labelled = annotations.labels_per_item > 0
        if annotations.gold is not None:
            labelled |= annotations.gold >= 0
        joint = fit_joint(
            annotations,
            lambda q: cross_fit(self.estimator, X, q, folds, labelled)[None],
            doubted_votes(annotations),
            rounds=self.max_iter,
            callback=self.callback,
        )
        if not joint.converged:
            passes = len(joint.history)
            warn(f"EM did not converge in {passes} passes; take the result as preliminary", ConvergenceWarning)
        self._keep(X, annotations, joint, labelled)
        alone = labels_alone(annotations, doubted_votes(annotations), constants.PASSES)
        self.gain_ = held_out_gain(annotations, folds, joint, alone)
        return self

    def predict(self, X: Any, labels: Any = None) -> Any:
        """Return the most probable class of every item; see :meth:`predict_proba`."""
        check_is_fitted(self, "model_")
        return self.classes_[self.predict_proba(X, labels).argmax(axis=1)]

    def predict_proba(self, X: Any, labels: Any = None) -> Any:
        """Return the probabilities of the classes, by the features alone or, if there are some, with labels.

        ``labels`` has the forms of ``y`` in :meth:`fit`; unknown annotators are taken for average ones.
        """
        check_is_fitted(self, "model_")
        K = len(self.classes_)
        opinion = self._source(predict_among(self.estimator_, X, K)[None])
        if labels is None:
            return opinion
        annotations = _annotations(labels, len(opinion), None, self.model_)
        even = DawidSkene(np.full(K, 1.0 / K), self.model_.confusions, self.model_.classes, self.model_.annotators)
        joint = opinion * even.posterior(annotations)
        return joint / joint.sum(axis=1, keepdims=True)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _keep(self, X: Any, annotations: Annotations, joint: Joint, labelled: Any) -> None:
        from sklearn.utils import _safe_indexing

        rows = np.flatnonzero(labelled)
        self.estimator_ = fit_soft(self.estimator, _safe_indexing(X, rows), joint.posterior[rows])
        self._source = joint.source
        self.weight_ = float(joint.source.weights[0])
        names = annotations.class_ids, annotations.annotator_ids
        self.model_ = DawidSkene(joint.posterior.mean(axis=0), joint.model.confusions, *names)
        self.classes_, self.confusions_ = annotations.classes, joint.model.confusions
        self.probas_ = joint.posterior
        self.labels_ = self.classes_[joint.posterior.argmax(axis=1)]
        self.history_, self.converged_, self.n_iter_ = joint.history, joint.converged, len(joint.history)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _annotations(labels: Any, N: int, items: Any, model: DawidSkene | None = None) -> Annotations:
    """Return labels whose items are the rows of X, in their order."""
    names: dict[str, Any] = {} if model is None else {"classes": list(model.classes)}
    if isinstance(labels, Annotations):
        made = labels
    elif frames.is_frame(labels) and frames.is_long(frames.columns_of(labels)):
        made = Annotations.from_frame(labels, **names)
    else:
        matrix = np.asarray(labels)
        if items is not None:
            raise ParameterError("items=… are for a long frame or Annotations; the rows of a matrix are those of X")
        if matrix.ndim == 1:
            matrix = matrix[:, None]
        if model is not None and matrix.shape[1] == len(model.annotators):
            names["annotators"] = list(model.annotators)
        made = Annotations.from_matrix(matrix, **names)
    if items is not None:
        return _in_order(made, item_column(items, made.origin.item), N)
    if made.n_items != N:
        raise DataError(
            f"X has {N} rows, but the labels are of {made.n_items} items. Name the rows with items=…, those without "
            "labels too"
        )
    return made


def _in_order(annotations: Annotations, wanted: Any, N: int) -> Annotations:
    """Return labels of the wanted items, one for each row of X, in their order."""
    if len(wanted) != N:
        raise DataError(f"X has {N} rows, but items=… has {len(wanted)} names; give one for each row")
    both, rows = joined(annotations, wanted, "items=…")
    if (absent := np.flatnonzero(rows < 0)).size:
        raise IdError(
            f"X has no row for {absent.size} labelled items, such as {both.items[absent[0]]!r}. Add their rows, or "
            "leave out the labels of these items"
        )
    return both.select_items(both.item_ids.codes_of(wanted))
