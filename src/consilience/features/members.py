"""The classifiers that ``features=`` uses: one of scikit-learn's, and the nearest neighbours.

The opinion of the neighbours is the mean of their soft labels, q, without the item's own: like the neighbour graph of
:mod:`consilience.structured`, but as one more source whose weight is learned.

    P_n(k)  =  (Σ over the neighbours n' of n of q_n'(k) + 1 / K) / (neighbours + 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.exceptions import DataError
from consilience.features import constants
from consilience.features.cross_fitting import cross_fit
from consilience.features.inputs import is_text
from consilience.kernels._arrays import Bools, Floats, Ints

__all__ = ["FeatureMembers", "default_classifier"]


def default_classifier(X: Any) -> Any:
    """Return logistic regression: of standardised columns, of a sparse matrix as it is, or of the words of texts."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    if is_text(X):
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
        return make_pipeline(words, LogisticRegression(C=constants.TEXT_C, max_iter=300))
    if hasattr(X, "tocsr"):
        from sklearn.preprocessing import MaxAbsScaler

        return make_pipeline(MaxAbsScaler(), LogisticRegression(C=constants.TEXT_C, max_iter=300))
    return make_pipeline(*_standardised(X), LogisticRegression(C=constants.COLUMN_C, max_iter=300))


class FeatureMembers:
    """Classifiers of items by their features, fitted to soft labels by cross-fitting."""

    def __init__(self, X: Any, classifier: Any, folds: Ints, labelled: Bools) -> None:
        self.X, self.folds, self.labelled = X, folds, labelled
        self.classifier, self.near = classifier, None
        if classifier is None:
            self.classifier = default_classifier(X)
            if is_text(X):  # words know nothing of labels, so they are counted once for all folds
                *words, self.classifier = self.classifier
                self.X = _counted(words[0], X)
            self.near = _neighbours(X)

    @property
    def names(self) -> list[str]:
        """What the classifiers are called."""
        return ["classifier"] if self.near is None else ["classifier", "neighbours"]

    def __call__(self, posterior: Floats) -> Floats:
        """Return the out-of-fold probabilities of every classifier, (S, N, K)."""
        made = [cross_fit(self.classifier, self.X, posterior, self.folds, self.labelled)]
        if self.near is not None:
            counted = posterior * self.labelled[:, None]
            n = self.labelled[self.near].sum(axis=1, keepdims=True)
            made.append((counted[self.near].sum(axis=1) + 1.0 / posterior.shape[1]) / (n + 1.0))
        return np.stack(made)


def _counted(words: Any, texts: Any) -> Any:
    try:
        return words.fit_transform(texts)
    except ValueError as error:
        raise DataError(
            "no word occurs in two of the texts in features; pass numbers, or leave features out"
        ) from error


def _neighbours(X: Any) -> Ints | None:
    """Return the nearest items of every item, (N, k); None where there are too few or too many items."""
    from consilience.kernels.neighbours import nearest_rows

    N = X.shape[0]
    if not constants.NEIGHBOURS < N <= constants.MOST_FOR_NEIGHBOURS:
        return None
    if is_text(X):
        from sklearn.feature_extraction.text import TfidfVectorizer

        rows = TfidfVectorizer(sublinear_tf=True).fit_transform(X)
    elif hasattr(X, "tocsr"):
        from sklearn.preprocessing import normalize

        rows = normalize(X)
    else:
        from sklearn.pipeline import make_pipeline

        rows = make_pipeline(*_standardised(X)).fit_transform(X)
    return nearest_rows(rows, constants.NEIGHBOURS)


def _standardised(X: Floats) -> list[Any]:
    """Return the steps that fill the gaps of a matrix, if it has any, and standardise its columns."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    return [SimpleImputer(keep_empty_features=True), StandardScaler()] if np.isnan(X).any() else [StandardScaler()]
