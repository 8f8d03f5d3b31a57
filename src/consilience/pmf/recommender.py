r"""A recommender that learns the joint distribution of the ratings of all items.

Items are variables, users are rows, and nearly all entries are missing.  A rating is predicted by its mean given the
user's other ratings, which has the least squared error (S. Ibrahim and X. Fu, "Recovering joint PMF from pairwise
marginals", section IV-B), or by the median, which has the least absolute error:

.. math:: \hat r = \sum_r r \Pr(z_n = r \mid \text{the user's other ratings}).

The joint distribution is fitted by :mod:`consilience.pmf.rating_scale`, whose components are kinds of users.

====== ================ =======================================================
symbol name             shape
====== ================ =======================================================
F      ``n_components`` components per start
d      ``n_tastes``     tastes
β      ``shrinkage``
R      ``values_``      rating values that occur
====== ================ =======================================================
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience.engine.progress import Callback
from consilience.exceptions import ConvergenceWarning, DataError, DataWarning, warn
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.cpd import FLOOR
from consilience.pmf.cpd import mixture
from consilience.pmf.rating_input import (
    encode_ratings,
    id_names,
    is_matrix,
    places_of,
    rating_column,
    rating_numbers,
    sorted_ids,
    two_columns,
)
from consilience.pmf.rating_scale import fit_rating_scale
from consilience.pmf.table import frame_columns, signed_dtype
from consilience.validation import generator, number, one_of, whole

__all__ = ["JointPMFRecommender"]

_COLUMNS = "user", "item", "rating"
#: Users whose posteriors are in memory at a time, and probabilities predicted at a time.
_USERS, _RATINGS = 1 << 12, 1 << 22


@dataclass(eq=False, repr=False)
class JointPMFRecommender(BaseEstimator):  # type: ignore[misc]
    """Predict ratings by their mean or median under the joint distribution of all items' ratings.

    Parameters
    ----------
    n_components
        F, the kinds of users per start; more take longer and resolve differences between users better.
    n_tastes
        d, the number of ways in which users differ besides level and extremity.
    shrinkage
        β, how strongly items are shrunk to their mean; use less with more ratings per item.
    n_starts
        Random starts whose distributions are averaged.
    max_iter, tol
        Passes of EM per start, and the relative change of the penalised log-likelihood that ends them (0: run all).
    random_state
        Seed of the starts: a whole number, None, SeedSequence, Generator or RandomState.
    callback
        Called with a :class:`~consilience.engine.progress.Progress` after every pass; returning True ends that start.

    Attributes
    ----------
    model_ : CPD
        The joint distribution of the items, with ``n_starts * n_components`` components.
    typical_ : array (R, n_starts * n_components)
        The factor of an item without ratings.
    users_, items_ : arrays
        Ids, in the order of the rows and columns.
    values_ : array (R,)
        The ratings that occur.
    history_ : list of list of float
        The penalised log-likelihood after every pass, for each start.
    converged_ : bool
        Whether all starts met the tolerance.
    n_iter_ : int
        The largest number of passes of a start.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.pmf.recommender import JointPMFRecommender
    >>> ratings = np.array([[5, 5, 1], [5, 4, 1], [1, 2, 5], [1, 1, np.nan]] * 10)
    >>> model = JointPMFRecommender(64, n_tastes=1, shrinkage=0.1).fit(ratings)
    >>> bool(model.predict([(3, 2)])[0] > 3)
    True
    """

    n_components: int = 128
    _: KW_ONLY
    n_tastes: int = 4
    shrinkage: float = 1.0
    n_starts: int = 8
    max_iter: int = 200
    tol: float = 1e-5
    random_state: Any = 0
    callback: Callback | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from ratings: a frame with columns user, item and rating, or a users × items matrix with NaN.

        A frame without these columns is a matrix: its columns are items, and a pandas index holds the users.
        """
        for name, least in (("n_components", 1), ("n_tastes", 0), ("n_starts", 1), ("max_iter", 1)):
            whole(name, getattr(self, name), least=least)
        for name in ("shrinkage", "tol"):
            number(name, getattr(self, name), zero=True)
        self.codes_, self.users_, self.items_, self.values_ = self._coded(X)
        rng = generator(self.random_state)
        names = "shrinkage", "max_iter", "tol", "callback"
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        fits = [
            fit_rating_scale(self.codes_, self.values_, self.n_components, self.n_tastes, random_state=rng, **options)
            for _ in range(self.n_starts)
        ]
        self.model_ = mixture([fit.model for fit in fits])
        self.typical_ = np.concatenate([fit.typical for fit in fits], axis=1)
        self.history_ = [fit.history for fit in fits]
        self.converged_ = all(fit.converged for fit in fits)
        self.n_iter_ = max(map(len, self.history_))
        self.n_features_in_ = len(self.items_)
        if not self.converged_ and self.tol > 0 and self.n_iter_ >= self.max_iter:
            warn(f"EM did not meet tol={self.tol:g} within {self.max_iter} passes; raise max_iter", ConvergenceWarning)
        return self

    def predict(self, X: Any, statistic: Literal["mean", "median"] = "mean") -> Floats:
        """Predict ratings of user-item pairs, or all ratings of (also new) users from the ratings they gave.

        Pairs are a frame with columns user and item, or an array (P, 2); the result is (P,).  An unknown user is
        predicted without ratings of their own, an unknown item as the average item.

        Ratings are a matrix (users, items) with NaN, or a frame of it; the result has the same shape.  A value that the
        fit did not see counts as missing, with a warning.  An array with two columns is always pairs: if the fit had
        two items, pass their ratings as a frame.

        The mean has the least squared error, the median the least absolute error.  A known rating is ignored when it is
        itself predicted.
        """
        check_is_fitted(self, "model_")
        one_of("statistic", statistic, ("mean", "median"))
        if is_matrix(X, len(self.items_), type(self).__name__):
            return self._of_ratings(X, statistic)
        given = two_columns(X)
        user, item = places_of(given[0], self.users_, "user"), places_of(given[1], self.items_, "item")
        strange = int((user < 0).sum()), int((item < 0).sum())
        if any(strange):
            warn(f"{strange[0]} pairs have a user, and {strange[1]} an item, that the fit did not see", DataWarning)
        predicted = np.empty(user.size)
        users, place = np.unique(user, return_inverse=True)
        order = np.argsort(place, kind="stable")
        edges = np.searchsorted(place[order], np.arange(0, users.size + _USERS, _USERS))
        for first, (start, stop) in zip(range(0, users.size, _USERS), pairwise(edges.tolist()), strict=True):
            pairs, here = order[start:stop], users[first : first + _USERS]
            codes = np.where((here >= 0)[:, None], self.codes_[here], self.codes_.dtype.type(-1))
            predicted[pairs] = self._statistic(codes, place[pairs] - first, item[pairs], statistic)
        return predicted

    def _of_ratings(self, X: Any, statistic: str) -> Floats:
        """Predict every rating of a matrix from the others of its row."""
        matrix = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        codes = encode_ratings(matrix, self.values_).astype(self.codes_.dtype)
        predicted, N = np.empty(matrix.shape), matrix.shape[1]
        rows = max(1, _RATINGS // (N * self.values_.size))
        for first in range(0, len(matrix), rows):
            here = codes[first : first + rows]
            place, item = np.divmod(np.arange(here.size), N)
            predicted[first : first + rows] = self._statistic(here, place, item, statistic).reshape(here.shape)
        return predicted

    def _statistic(self, codes: Codes, place: Ints, item: Ints, statistic: str) -> Floats:
        """Return the mean or median of each pair's rating, (P,)."""
        shares = self._shares(codes, place, item)
        if statistic == "mean":
            return shares @ self.values_
        below = (shares.cumsum(axis=1) < 0.5 - 1e-12).sum(axis=1)
        medians: Floats = self.values_[np.minimum(below, self.values_.size - 1)]
        return medians

    def _shares(self, codes: Codes, place: Ints, item: Ints) -> Floats:
        """Return the distribution of each pair's rating, (P, R), given the user's ratings ``codes[place[p]]``.

        Items that a user did not rate share the posterior q of the user's component.  For an item with rating z, its
        factor is divided out: q(f) / A_n(z, f), normalised.
        """
        posterior = self.model_.posterior(codes)
        shares = np.empty((item.size, self.values_.size))
        order = np.argsort(item, kind="stable")
        at, begins = np.unique(item[order], return_index=True)
        for n, pairs in zip(at.tolist(), np.split(order, begins[1:]), strict=True):
            q = posterior[place[pairs]]
            # item -1 is unknown
            factor = self.typical_ if n < 0 else self.model_.factors[n]
            own = codes[place[pairs], n] if n >= 0 else np.full(pairs.size, -1)
            rated = np.flatnonzero(own >= 0)
            if rated.size:
                q[rated] /= np.maximum(factor[own[rated]], FLOOR)
                q[rated] /= q[rated].sum(axis=1, keepdims=True)
            shares[pairs] = q @ factor.T
        return shares

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _coded(self, X: Any) -> tuple[Codes, Any, Any, Floats]:
        """Return codes (users, items) with -1 for missing, the ids of both, and the rating values."""
        columns = frame_columns(X)
        if columns is not None and sum(name in columns for name in _COLUMNS) > 1:
            row, users = sorted_ids(rating_column(X, columns, "user"), "user")
            column, items = sorted_ids(rating_column(X, columns, "item"), "item")
            rating = rating_numbers(rating_column(X, columns, "rating"))
            there = ~np.isnan(rating)
            row, column, rating = row[there], column[there], rating[there]
            if np.unique(row * len(items) + column).size != row.size:
                raise DataError("a user rated an item more than once; keep one rating per pair (drop_duplicates)")
            if np.isinf(rating).any():
                raise DataError("a rating is infinite; a missing one is NaN")
            # as for a wide frame
            if all(isinstance(each, str) for each in items):
                self.feature_names_in_ = np.asarray(items, object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        else:
            items = None if columns is None else id_names(columns, "item")
            users = id_names(X.index, "user") if items is not None and hasattr(X, "index") else None
            if users is not None and len(set(users.tolist())) != len(users):
                raise DataError("a user has more than one row; give every user one row of ratings")
            matrix = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
            row, column = np.nonzero(~np.isnan(matrix))
            rating = matrix[row, column]
            users = np.arange(len(matrix)) if users is None else users
            items = np.arange(matrix.shape[1]) if items is None else items
        if not rating.size:
            raise DataError("there is no single rating to learn from")
        values, code = np.unique(rating, return_inverse=True)
        codes = np.full((len(users), len(items)), -1, signed_dtype(values.size))
        codes[row, column] = code
        return codes, users, items, values
