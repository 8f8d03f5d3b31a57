r"""A classifier that learns the joint distribution of the features and the label.

The label is one more variable, and the class of a row is its most probable value given the observed features,

.. math:: \hat y = \arg\max_y \Pr(y \mid z_1, …, z_N),
    \qquad \Pr(y \mid z) \propto \sum_f \lambda_f B(y, f) \prod_{n: z_n \text{ observed}} A_n(z_n, f)

(the MAP predictor of S. Ibrahim and X. Fu, "Recovering joint PMF from pairwise marginals", section IV-C).  Missing
features need no treatment, at the fit or afterwards.

Every component belongs to one class: B(y, f) is 1 for its class and 0 for the others.  The likelihood of a table has
many features and one label, so components that mix classes would explain differences between rows, not between classes.
With B fixed, EM (eqs (21)-(22)) separates into one problem for each class k of S_k rows,

.. math:: \Pr(y = k, z) = \frac{S_k}{S} \sum_{f \text{ of } k} \lambda_{f|k} \prod_n A_n(z_n, f),

each started by CNMF-SPA on the class's own pairs of features.

====== ================ ======================================================
symbol name             shape
====== ================ ======================================================
F      ``n_components`` components per class
A_n    ``factors_[n]``  (I_n, Σ_k F), of the features
B      ``factors_[-1]`` (K, Σ_k F), of the label, zeros and ones
====== ================ ======================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience.exceptions import DataError
from consilience.kernels._arrays import Codes, Floats
from consilience.pmf.cpd import CPD, mixture
from consilience.pmf.em import JointPMFFit, fit_joint_pmf, total_history
from consilience.pmf.joint_pmf import JointPMF, PMFEstimator
from consilience.pmf.table import DiscreteTable, as_matrix, frame_columns

__all__ = ["JointPMFClassifier", "fit_by_class"]

#: Share of the rows that are held out to choose the rank.
_HELD_OUT = 0.25


def fit_by_class(codes: Codes, sizes: Sequence[int], rank: int, **options: Any) -> JointPMFFit:
    """Fit the joint distribution of features and label, the last column of the codes.

    Parameters
    ----------
    rank
        Components per class (at most as many as it has rows).
    options
        As in :func:`~consilience.pmf.em.fit_joint_pmf`.
    """
    *features, K = sizes
    counts = np.bincount(codes[:, -1], minlength=K)
    fits, models = [], []
    for k in np.flatnonzero(counts):
        rows = np.ascontiguousarray(codes[codes[:, -1] == k, :-1])
        fits.append(fit_joint_pmf(rows, features, min(rank, len(rows)), **options))
        model = fits[-1].model
        label = np.zeros((K, model.rank))
        label[k] = 1.0
        models.append(CPD(model.weights, (*model.factors, label)))
    joint = mixture(models, counts[counts > 0] / len(codes))
    return JointPMFFit(joint, total_history([fit.history for fit in fits]), all(fit.converged for fit in fits))


@dataclass(eq=False, repr=False)
class JointPMFClassifier(ClassifierMixin, PMFEstimator):  # type: ignore[misc]
    """MAP classifier on categorical features, by their joint distribution with the label.

    Features are categories: strings, whole numbers, categorical columns of a frame.  NaN, None and blank strings are
    missing, and so is -1 in a matrix of whole numbers (after the fit: unless it is a category of its feature).  A
    category that the fit did not see counts as missing, with a warning.

    Parameters
    ----------
    n_components
        F, the components per class.  None chooses it by the log-probability of the labels of a held-out quarter given
        their features, with one start for each F (:mod:`consilience.pmf.rank`).
    init, split, refine, smoothing, n_starts, max_iter, tol, random_state, callback
        As in :class:`~consilience.pmf.joint_pmf.JointPMF`; smoothing follows the category shares of the class.

    Attributes
    ----------
    classes_ : array (K,)
        The labels, sorted.
    joint_ : JointPMF
        The joint distribution; the label is its last variable.
    n_components_ : int
        F.
    rank_scores_ : dict
        Mean log-probability of held-out labels by rank, if F was chosen.
    n_features_in_, feature_names_in_, n_iter_, converged_, history_
        As in scikit-learn and :class:`~consilience.pmf.joint_pmf.JointPMF`.

    Examples
    --------
    >>> from consilience.pmf.classifier import JointPMFClassifier
    >>> rows = [["round", "red"], ["round", "green"], ["long", "yellow"], ["long", None]] * 10
    >>> model = JointPMFClassifier(2).fit(rows, ["apple", "apple", "banana", "banana"] * 10)
    >>> model.predict([["long", None], [None, "red"]]).tolist()
    ['banana', 'apple']
    """

    _: KW_ONLY
    n_starts: int = 5
    tol: float = 1e-6

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the joint distribution of the features X (a table) and the label y."""
        self._check_parameters()
        features = _features(self, X, y=y)
        labels, self.classes_ = _labels(y, len(features))
        codes = np.column_stack([features.codes, labels])
        table = DiscreteTable(codes, (*features.categories, self.classes_), (*features.names, _unused(features.names)))
        fit, self.n_components_, scores = self._fit_table(table, features.names, fit_by_class, _HELD_OUT, _label_score)
        self.joint_ = JointPMF(**self.get_params(deep=False))._keep(table, fit, scores)
        self.rank_scores_ = scores
        self.n_iter_ = max(self.joint_.n_iter_, 1)
        self.converged_, self.history_ = self.joint_.converged_, self.joint_.history_
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return Pr(class | observed features) for every row, (S, K), in the order of ``classes_``."""
        check_is_fitted(self)
        *categories, _ = self.joint_.categories_
        *names, _ = self.joint_.names_
        features = _features(self, X, categories=categories, names=names)
        codes = np.column_stack([features.codes, np.full(len(features), -1, features.codes.dtype)])
        return self.joint_.model_.conditional(codes.shape[1] - 1, codes)

    def predict(self, X: Any) -> Any:
        """Return the most probable class of every row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of :meth:`predict_proba`; -inf for impossible classes."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's checks score estimators on measurements, where every value is its own category
        tags.classifier_tags.poor_score = True
        return tags


def _features(
    estimator: JointPMFClassifier, X: Any, *, y: Any = "no_validation", categories: Any = None, names: Any = None
) -> DiscreteTable:
    """Encode a table of features, at the fit or (with categories) afterwards."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None: a classifier needs labels to learn from")
    if isinstance(X, DiscreteTable):
        estimator.n_features_in_ = len(X.names)
        return DiscreteTable.from_data(X, categories=categories, names=names)
    if frame_columns(X) is None:
        X = as_matrix(X)
    validate_data(estimator, X, reset=categories is None, skip_check_array=True)
    table = DiscreteTable.from_data(X, categories=categories, names=names)
    if not len(table):
        raise DataError("Found array with 0 sample(s): the table has no rows, and at least one is required")
    return table


def _labels(y: Any, n_rows: int) -> tuple[Codes, Any]:
    """Return codes and classes of the labels, none of which may be missing."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    from consilience.data.ids import to_column

    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DataError("Input y contains NaN or infinity: every row of a fit needs a label; leave out rows without")
    if y.dtype.kind == "O" and to_column(y, "y").null_count:
        raise DataError("Input y contains None or NaN: every row of a fit needs a label; leave out rows without")
    check_classification_targets(y)
    if y.size != n_rows:
        raise DataError(f"X has {n_rows} rows and y has {y.size} labels (inconsistent numbers of samples)")
    classes, codes = np.unique(y, return_inverse=True)
    return codes, classes


def _unused(names: tuple[str, ...]) -> str:
    name = "label"
    while name in names:
        name += "_"
    return name


def _label_score(model: CPD, unseen: Codes) -> float:
    """Return the mean log-probability of held-out labels given their features."""
    true = model.conditional(-1, unseen)[np.arange(len(unseen)), unseen[:, -1]]
    return float(np.log(np.maximum(true, 1e-12)).mean())
