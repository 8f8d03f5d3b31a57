r"""A classifier that learns the joint distribution of the features and the label.

The label is one more variable, and the class of a row is its most probable value given the features that are there,

.. math:: \hat y = \arg\max_y \Pr(y \mid z_1, …, z_N),
    \qquad \Pr(y \mid z) \propto \sum_f \lambda_f B(y, f) \prod_{n: z_n \text{ there}} A_n(z_n, f)

(the MAP predictor of S. Ibrahim and X. Fu, "Recovering joint PMF from pairwise marginals", section IV-C).  Missing
features need no treatment, at the fit or afterwards.

====== ================ ======================================================
symbol name             shape
====== ================ ======================================================
F      ``n_components`` components
A_n    ``factors_[n]``  (I_n, F), of the features
B      ``factors_[-1]`` (K, F), of the label
====== ================ ======================================================
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience.aggregation.em import Callback
from consilience.exceptions import DataError
from consilience.kernels._arrays import Codes, Floats
from consilience.pmf.joint_pmf import Init, JointPMF, Split, fit_joint_pmf
from consilience.pmf.table import DiscreteTable

__all__ = ["JointPMFClassifier"]

#: Ranks that are tried where none is given, and the share of the rows that judges them.
_RANKS = 2, 5, 10, 15, 20, 25
_HELD_OUT = 0.25


class JointPMFClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """MAP classifier on categorical features, by their joint distribution with the label.

    Features are categories: strings, whole numbers, categorical columns of a frame.  NaN and None are missing, as is
    -1 in a matrix of whole numbers.  A category that the fit did not see is taken as missing, with a warning.

    Parameters
    ----------
    n_components
        F.  None takes that of 2, 5, 10, …, 25 under which the labels of a held-out quarter are most probable given
        their features.
    init, split, refine, smoothing, max_iter, tol, random_state, callback
        As in :class:`~consilience.pmf.joint_pmf.JointPMF`.

    Attributes
    ----------
    classes_ : array (K,)
        The labels, sorted.
    joint_ : JointPMF
        The joint distribution; the label is its last variable.
    n_components_ : int
        F.
    rank_scores_ : dict
        The mean log-probability of held-out labels by rank, where F was chosen.
    n_features_in_, feature_names_in_, n_iter_, converged_, history_
        As usual.

    Examples
    --------
    >>> from consilience.pmf.classifier import JointPMFClassifier
    >>> rows = [["round", "red"], ["round", "green"], ["long", "yellow"], ["long", None]] * 10
    >>> model = JointPMFClassifier(2).fit(rows, ["apple", "apple", "banana", "banana"] * 10)
    >>> model.predict([["long", None], [None, "red"]]).tolist()
    ['banana', 'apple']
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: Init = "cnmf-spa",
        split: Split = "conditioning",
        refine: Literal["em"] | None = "em",
        smoothing: float = 0.1,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: Any = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.split = split
        self.refine = refine
        self.smoothing = smoothing
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the joint distribution of the features X (a table) and the label y."""
        features = _features(self, X, y=y)
        labels, self.classes_ = _labels(y, len(features))
        codes = np.column_stack([features.codes, labels])
        table = DiscreteTable(codes, (*features.categories, self.classes_), (*features.names, _unused(features.names)))
        options = {name: value for name, value in self.get_params(deep=False).items() if name != "n_components"}
        rank, self.rank_scores_ = self.n_components, dict[int, float]()
        if rank is None:
            rank, self.rank_scores_ = _choose_rank(table, options)
        self.joint_ = JointPMF(rank, **options).fit(table)
        self.n_components_ = rank
        self.n_iter_ = max(self.joint_.n_iter_, 1)
        self.converged_, self.history_ = self.joint_.converged_, self.joint_.history_
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Give Pr(class | features that are there) for every row, (S, K), in the order of ``classes_``."""
        check_is_fitted(self)
        *categories, _ = self.joint_.categories_
        *names, _ = self.joint_.names_
        features = _features(self, X, categories=categories, names=names)
        codes = np.column_stack([features.codes, np.full(len(features), -1, features.codes.dtype)])
        return self.joint_.model_.conditional(codes.shape[1] - 1, codes)

    def predict(self, X: Any) -> Any:
        """Give the most probable class of every row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        # scikit-learn scores estimators on measurements, each a category of its own here
        tags.classifier_tags.poor_score = True
        return tags


def _features(
    estimator: JointPMFClassifier, X: Any, *, y: Any = "no_validation", categories: Any = None, names: Any = None
) -> DiscreteTable:
    """Code a table of features, at the fit or (with categories) afterwards."""
    from scipy.sparse import issparse

    if issparse(X):
        raise TypeError("sparse matrices have no categories; pass a dense table (X.toarray())")
    if y is None:
        raise DataError("requires y to be passed, but the target y is None: a classifier needs labels to learn from")
    if isinstance(X, DiscreteTable):
        estimator.n_features_in_ = len(X.names)
        return DiscreteTable.from_data(X, categories=categories, names=names)
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        X = _matrix(X)
    validate_data(estimator, X, reset=categories is None, skip_check_array=True)
    table = DiscreteTable.from_data(X, categories=categories, names=names)
    if not len(table):
        raise DataError("Found array with 0 sample(s): the table has no rows, and at least one is required")
    return table


def _matrix(X: Any) -> Any:
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.dtype.kind in "US" and not isinstance(X, np.ndarray):
        array = np.array(X, dtype=object)  # a list of strings and None keeps its None
    if array.ndim != 2:
        hint = "Reshape your data: X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one row"
        raise DataError(f"expected a table of rows and features, got an array of shape {array.shape}. {hint}")
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: features are categories")
    if array.shape[1] == 0:
        raise DataError(f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    return array


def _labels(y: Any, n_rows: int) -> tuple[Codes, Any]:
    """Give codes and classes of the labels, all of which must be there."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DataError("Input y contains NaN or infinity: every row of a fit needs a label; leave out those without")
    if y.dtype.kind == "O" and any(value is None or value != value for value in y.tolist()):
        raise DataError("Input y contains None or NaN: every row of a fit needs a label; leave out those without")
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


def _choose_rank(table: DiscreteTable, options: dict[str, Any]) -> tuple[int, dict[int, float]]:
    """Choose F by the log-probability of held-out labels given their features."""
    S, label = len(table), len(table.names) - 1
    order = np.random.default_rng(options["random_state"]).permutation(S)
    held_out = max(int(_HELD_OUT * S), 1)
    if S - held_out < 1:
        return 1, {}
    seen, unseen = (np.ascontiguousarray(table.codes[part]) for part in (order[held_out:], order[:held_out]))
    # zeros among the factors would let one unlucky row decide
    options = {**options, "smoothing": max(options["smoothing"], 0.1), "callback": None}
    scores = {}
    for rank in _RANKS:
        model = fit_joint_pmf(seen, table.sizes, rank, **options).model
        true = model.conditional(label, unseen)[np.arange(held_out), unseen[:, label]]
        scores[rank] = float(np.log(np.maximum(true, 1e-12)).mean())
    return max(scores, key=lambda rank: (scores[rank], -rank)), scores
