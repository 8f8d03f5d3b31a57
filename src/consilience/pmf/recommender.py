r"""A recommender that learns the joint distribution of the ratings of all items.

Items are variables, users are rows, and nearly all entries are missing.  The rating of an item by a user is predicted
by its mean given the user's other ratings, the predictor of least squared error (S. Ibrahim and X. Fu, "Recovering
joint PMF from pairwise marginals", section IV-B), or by the median, that of least absolute error:

.. math:: \hat r = \sum_r r \Pr(z_n = r \mid \text{the user's other ratings}).

The joint distribution is fitted by :mod:`consilience.pmf.rating_scale`, whose components are kinds of users.

====== ================ =======================================================
symbol name             shape
====== ================ =======================================================
F      ``n_components`` components of one start
d      ``n_tastes``     tastes
β      ``shrinkage``
R      ``values_``      rating values that occur
====== ================ =======================================================
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from consilience.exceptions import (
    ConvergenceWarning,
    DataError,
    DataWarning,
    ParameterError,
    warn,
)
from consilience.fitting.em import Callback
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
from consilience.validation import generator

__all__ = ["JointPMFRecommender"]

_COLUMNS = "user", "item", "rating"
#: Users whose posteriors are held at a time, and numbers of all distributions of a part of a matrix.
_USERS, _RATINGS = 1 << 12, 1 << 22


class JointPMFRecommender(BaseEstimator):  # type: ignore[misc]
    """Ratings predicted by their mean, or median, under the joint distribution of all items' ratings.

    Parameters
    ----------
    n_components
        F, the kinds of users of each start; more cost more and follow the users' differences more finely.
    n_tastes
        d, in how many ways users may differ other than in level and extremity.
    shrinkage
        β, how strongly items are drawn to each other; less for more ratings of each item.
    n_starts
        Random points and starts whose distributions are averaged.
    max_iter, tol
        Passes of EM from a start, and the relative change of the penalised log-likelihood that ends them (0: run all).
    random_state
        Of the points and starts: a whole number, None, SeedSequence, Generator or RandomState.
    callback
        Called with a :class:`~consilience.fitting.em.Progress` after every pass; returning True ends that start.

    Attributes
    ----------
    model_ : CPD
        The joint distribution of the items, of ``n_starts * n_components`` components.
    typical_ : array (R, n_starts * n_components)
        The factor of an item of which nothing is known.
    users_, items_ : arrays
        Ids, in the order of the rows and columns.
    values_ : array (R,)
        The ratings that occur.
    history_ : list of list of float
        The penalised log-likelihood after every pass, for each start.
    converged_ : bool
        Whether all starts met the tolerance.
    n_iter_ : int
        The most passes from a start.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.pmf.recommender import JointPMFRecommender
    >>> ratings = np.array([[5, 5, 1], [5, 4, 1], [1, 2, 5], [1, 1, np.nan]] * 10)
    >>> model = JointPMFRecommender(64, n_tastes=1, shrinkage=0.1).fit(ratings)
    >>> bool(model.predict([(3, 2)])[0] > 3)
    True
    """

    def __init__(
        self,
        n_components: int = 128,
        *,
        n_tastes: int = 4,
        shrinkage: float = 1.0,
        n_starts: int = 8,
        max_iter: int = 200,
        tol: float = 1e-5,
        random_state: Any = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_tastes = n_tastes
        self.shrinkage = shrinkage
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from ratings: a frame with columns user, item and rating, or a users × items matrix with NaN.

        A frame without these columns is a matrix: its columns are the items, and the index of a pandas frame the users.
        """
        for name, least in (("n_components", 1), ("n_tastes", 0), ("n_starts", 1), ("max_iter", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
                raise ParameterError(f"{name} must be a whole number ≥ {least}, not {value!r}")
        for name in ("shrinkage", "tol"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
                raise ParameterError(f"{name} must be a number ≥ 0, not {value!r}")
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
        """Predict ratings of user-item pairs, or all ratings of users, also new ones, from those that they gave.

        Pairs are a frame with columns user and item, or an array (P, 2), and give (P,).  A user whom the fit did not
        see gets what all users give; an item that it did not see is taken to be like the others.

        Ratings are a matrix (users, items) with NaN, as the fit takes one, or a frame of it, and give a matrix of the
        same shape; a value that the fit did not see is taken as missing, with a warning.  An array of two columns is
        pairs, also where the fit had two items: give their ratings as a frame.

        The mean has the least squared error, the median the least absolute error.  A rating that is known is not looked
        at when it is predicted itself.
        """
        check_is_fitted(self, "model_")
        if statistic not in ("mean", "median"):
            raise ParameterError(f"statistic must be 'mean' or 'median', not {statistic!r}")
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
            predicted[pairs] = self._told(codes, place[pairs] - first, item[pairs], statistic)
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
            predicted[first : first + rows] = self._told(here, place, item, statistic).reshape(here.shape)
        return predicted

    def _told(self, codes: Codes, place: Ints, item: Ints, statistic: str) -> Floats:
        """Give the mean or median of each pair's rating, (P,)."""
        shares = self._shares(codes, place, item)
        if statistic == "mean":
            return shares @ self.values_
        below = (shares.cumsum(axis=1) < 0.5 - 1e-12).sum(axis=1)
        medians: Floats = self.values_[np.minimum(below, self.values_.size - 1)]
        return medians

    def _shares(self, codes: Codes, place: Ints, item: Ints) -> Floats:
        """Give the distribution of each pair's rating, (P, R); what the user of pair p rated is ``codes[place[p]]``.

        All items that a user did not rate share the posterior q of the user's component.  For one that the user rated
        z, its factor is divided out: q(f) / A_n(z, f), scaled to sum to one.
        """
        posterior = self.model_.posterior(codes)
        shares = np.empty((item.size, self.values_.size))
        order = np.argsort(item, kind="stable")
        at, begins = np.unique(item[order], return_index=True)
        for n, pairs in zip(at.tolist(), np.split(order, begins[1:]), strict=True):
            q = posterior[place[pairs]]
            # item -1 is the one of which nothing is known
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
        """Give codes (users, items) with -1, the ids of both, and the rating values."""
        columns = frame_columns(X)
        if columns is not None and sum(name in columns for name in _COLUMNS) > 1:
            row, users = sorted_ids(rating_column(X, columns, "user"), "user")
            column, items = sorted_ids(rating_column(X, columns, "item"), "item")
            rating = rating_numbers(rating_column(X, columns, "rating"))
            there = ~np.isnan(rating)
            row, column, rating = row[there], column[there], rating[there]
            if np.unique(row * len(items) + column).size != row.size:
                raise DataError("a user rated an item more than once; keep one rating of each pair (drop_duplicates)")
            if np.isinf(rating).any():
                raise DataError("a rating is infinite; a missing one is NaN")
            # as if it had been a wide frame
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
            raise DataError("there is not a single rating to learn from")
        values, code = np.unique(rating, return_inverse=True)
        codes = np.full((len(users), len(items)), -1, signed_dtype(values.size))
        codes[row, column] = code
        return codes, users, items, values
