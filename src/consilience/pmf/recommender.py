r"""A recommender that learns the joint distribution of the ratings of all items.

Items are variables, users are rows, and nearly all entries are missing.  The rating of an item by a user is predicted
by its mean given the user's other ratings, the predictor with the least squared error (S. Ibrahim and X. Fu,
"Recovering joint PMF from pairwise marginals", section IV-B),

.. math:: \hat r = \sum_r r \Pr(z_n = r \mid \text{the user's other ratings}).

A user has few ratings, so a component and item meet few of them.  EM (eqs (21)-(22)) therefore shrinks A_n(·, f), by β
pseudo-ratings, to what it would be if users of a component differed from others in the same way on all items:

    base_n(r, f) ∝ m_n(r) p_f(r) / m(r),        A_n(r, f) ∝ Σ_s q(s, f) [z_s(n) = r] + β base_n(r, f)

with m_n the shares of ratings of item n, p_f those of component f over all items, and m those of all.  The components
then tell mild from strict users first, and tastes where there are ratings enough.  Several random starts are averaged:
a mean of such distributions is again one, of the components of all.

====== ================ =======================================================
symbol name             shape
====== ================ =======================================================
F      ``n_components`` components of one start
β      ``shrinkage``
λ      ``weights``      (F,)
A      ``stacked``      (N R, F), factors one below the other; R rating values
====== ================ =======================================================
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from consilience.aggregation.em import Callback, Progress
from consilience.exceptions import ColumnError, ConvergenceWarning, DataError, DataWarning, ParameterError, warn
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.cpd import TablePass
from consilience.pmf.cpd import CPD, split_factors
from consilience.pmf.em import category_shares
from consilience.pmf.table import signed_dtype

__all__ = ["JointPMFRecommender", "shrunk_em"]

_COLUMNS = "user", "item", "rating"


class JointPMFRecommender(BaseEstimator):  # type: ignore[misc]
    """Ratings predicted by their mean under the joint distribution of all items' ratings.

    Parameters
    ----------
    n_components
        F, the components of each start.
    shrinkage
        β, pseudo-ratings of every component and item.
    n_starts
        Random starts that are averaged.
    max_iter, tol
        Passes of EM from a start, and the relative change of the log-likelihood that ends them (0: run all).
    random_state
        Seed of the starts.
    callback
        Called with a :class:`~consilience.aggregation.em.Progress` after every pass; returning True ends that start.

    Attributes
    ----------
    model_ : CPD
        The joint distribution of the items, of ``n_starts * n_components`` components.
    users_, items_ : arrays
        Ids, in the order of the rows and columns.
    values_ : array (R,)
        The ratings that occur.
    history_ : list of list of float
        The log-likelihood after every pass, for each start.
    converged_ : bool
        Whether all starts met the tolerance.
    n_iter_ : int
        The most passes from a start.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.pmf.recommender import JointPMFRecommender
    >>> ratings = np.array([[5, 5, 1], [5, 4, 1], [1, 2, 5], [1, 1, np.nan]] * 10)
    >>> model = JointPMFRecommender(2).fit(ratings)
    >>> bool(model.predict([(3, 2)])[0] > 3)
    True
    """

    def __init__(
        self,
        n_components: int = 15,
        *,
        shrinkage: float = 15.0,
        n_starts: int = 8,
        max_iter: int = 200,
        tol: float = 1e-5,
        random_state: Any = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from ratings: a frame with columns user, item and rating, or a users × items matrix with NaN."""
        for name in ("n_components", "n_starts", "max_iter"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise ParameterError(f"{name} must be a whole number ≥ 1, not {value!r}")
        for name in ("shrinkage", "tol"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ParameterError(f"{name} must be a number ≥ 0, not {getattr(self, name)!r}")
        self.codes_, self.users_, self.items_, self.values_ = _coded(X)
        rng = np.random.default_rng(self.random_state)
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "callback": self.callback}
        runs = [
            shrunk_em(self.codes_, len(self.values_), self.n_components, self.shrinkage, rng, **options)
            for _ in range(self.n_starts)
        ]
        weights = np.concatenate([weights for weights, *_ in runs]) / self.n_starts
        stacked = np.concatenate([stacked for _, stacked, *_ in runs], axis=1)
        self.model_ = CPD(weights / weights.sum(), split_factors(stacked, [len(self.values_)] * len(self.items_)))
        self.history_ = [history for *_, history, _ in runs]
        self.converged_ = all(converged for *_, converged in runs)
        self.n_iter_ = max(map(len, self.history_))
        self.n_features_in_ = len(self.items_)
        if not self.converged_ and self.tol > 0 and self.n_iter_ >= self.max_iter:
            warn(f"EM did not meet tol={self.tol:g} within {self.max_iter} passes; raise max_iter", ConvergenceWarning)
        return self

    def predict(self, X: Any) -> Floats:
        """Predict ratings of user-item pairs: a frame with columns user and item, or an array (P, 2).

        A user whom the fit did not see gets the item's mean; an item that it did not see gets the user's mean rating.
        A rating that the fit saw is not looked at when it is predicted itself.
        """
        check_is_fitted(self)
        given = _two_columns(X)
        user, item = _places(given[0], self.users_), _places(given[1], self.items_)
        strange = int((user < 0).sum()), int((item < 0).sum())
        if any(strange):
            warn(f"{strange[0]} pairs have a user, and {strange[1]} an item, that the fit did not see", DataWarning)
        known = np.where((user >= 0)[:, None], self.codes_[user], -1).astype(self.codes_.dtype)
        predicted = self._user_means(known)
        order = np.argsort(item, kind="stable")
        edges = np.searchsorted(item[order], np.arange(len(self.items_) + 1))
        for n in np.flatnonzero(np.diff(edges)).tolist():
            rows = order[edges[n] : edges[n + 1]]
            predicted[rows] = self.model_.expectation(n, known[rows], self.values_)
        return predicted

    def _user_means(self, known: Codes) -> Floats:
        """Give every row's mean rating, drawn to the mean of all by one rating."""
        everything = self.values_[self.codes_[self.codes_ >= 0]].mean()
        said = np.where(known >= 0, self.values_[known], 0.0).sum(axis=1)
        means: Floats = (said + everything) / ((known >= 0).sum(axis=1) + 1.0)
        return means


def shrunk_em(
    codes: Codes,
    n_values: int,
    rank: int,
    shrinkage: float,
    rng: np.random.Generator,
    *,
    max_iter: int = 200,
    tol: float = 1e-5,
    callback: Callback | None = None,
) -> tuple[Floats, Floats, list[float], bool]:
    """Run EM with shrinkage to what components do on all items, from random posteriors.

    Returns λ, the stacked factors, the log-likelihood after every pass, and whether the tolerance was met.
    """
    U, N = codes.shape
    R = n_values
    sweep = TablePass(codes, [R] * N)
    item = category_shares(codes, [R] * N).reshape(N, R)
    everything = np.bincount(codes[codes >= 0], minlength=R) + 1.0
    everything /= everything.sum()

    def step(counts: Floats, mass: Floats) -> tuple[Floats, Floats]:
        counts = counts.reshape(N, R, rank)
        # p_f, with one rating of each value; base_n
        component = counts.sum(axis=0) + R * everything[:, None]
        component /= component.sum(axis=0)
        base = item[:, :, None] * (component / everything[:, None])
        base /= base.sum(axis=1, keepdims=True)
        # never quite zero: EM cannot leave a zero
        made = counts + max(shrinkage, 1e-6) * base
        made /= made.sum(axis=1, keepdims=True)
        return (mass + 1.0) / (U + rank), made.reshape(N * R, rank)

    first = rng.dirichlet(np.ones(rank), U)
    weights, stacked = step(_counts(codes, R, first), first.sum(axis=0))
    history: list[float] = []
    while len(history) < max_iter:
        statistics = sweep(weights, stacked)
        value = float(statistics.log_likelihood)
        change = abs(value - history[-1]) / max(abs(value), 1.0) if history else float("nan")
        history.append(value)
        asked = callback(Progress(len(history), max_iter, value, change)) if callback else None
        if tol > 0 and change <= tol:
            return weights, stacked, history, True
        if asked is True:
            break
        weights, stacked = step(np.asarray(statistics.counts), np.asarray(statistics.weights))
    return weights, stacked, history, False


def _counts(codes: Codes, R: int, posterior: Floats) -> Floats:
    """Sum posteriors over the users that gave each rating of each item, (N R, F)."""
    from scipy.sparse import csr_array

    user, item = np.nonzero(codes >= 0)
    cell = item * R + codes[user, item]
    said = csr_array((np.ones(user.size), (cell, user)), shape=(codes.shape[1] * R, len(codes)))
    counts: Floats = said @ posterior
    return counts


def _coded(X: Any) -> tuple[Codes, Any, Any, Floats]:
    """Give codes (users, items) with -1, the ids of both, and the rating values."""
    columns = getattr(X, "columns", None)
    if columns is None:
        columns = getattr(X, "column_names", None)
    if columns is not None and any(name in list(columns) for name in _COLUMNS):
        user, item, rating = (_column(X, list(columns), name) for name in _COLUMNS)
        users, row = np.unique(user, return_inverse=True)
        items, column = np.unique(item, return_inverse=True)
        there = ~np.isnan(rating)
        row, column, rating = row[there], column[there], rating[there]
        if np.unique(row * len(items) + column).size != row.size:
            raise DataError("a user rated an item more than once; keep one rating of each pair (drop_duplicates)")
    else:
        matrix = np.asarray(X, np.float64)
        if matrix.ndim != 2:
            raise DataError(f"expected a users × items matrix or a frame with {_COLUMNS}; got shape {matrix.shape}")
        row, column = np.nonzero(~np.isnan(matrix))
        rating = matrix[row, column]
        users, items = np.arange(len(matrix)), np.arange(matrix.shape[1])
        if columns is not None:
            items = np.asarray(list(columns))
            users = np.asarray(X.index) if hasattr(X, "index") else users
    if not rating.size:
        raise DataError("there is not a single rating to learn from")
    if np.isinf(rating).any():
        raise DataError("a rating is infinite; a missing one is NaN")
    values, code = np.unique(rating, return_inverse=True)
    codes = np.full((len(users), len(items)), -1, signed_dtype(values.size))
    codes[row, column] = code
    return codes, users, items, values


def _column(X: Any, columns: list[Any], name: str) -> Any:
    if name not in columns:
        raise ColumnError(f"ratings need a column {name!r}; this frame has {', '.join(map(repr, columns))}")
    values = X[name]
    values = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    return np.asarray(values, np.float64) if name == "rating" else values


def _two_columns(X: Any) -> tuple[Any, Any]:
    columns = getattr(X, "columns", None)
    if columns is None:
        columns = getattr(X, "column_names", None)
    if columns is not None:
        return _column(X, list(columns), "user"), _column(X, list(columns), "item")
    pairs = list(zip(*X, strict=True)) if not isinstance(X, np.ndarray) else list(X.T)
    if len(pairs) != 2:
        raise DataError("expected user-item pairs: a frame with columns user and item, or an array (pairs, 2)")
    return np.asarray(pairs[0]), np.asarray(pairs[1])


def _places(ids: Any, known: Any) -> Ints:
    """Give the place of each id, -1 where it is not known."""
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)
    places: Ints = np.where(known[order[at]] == ids, order[at], -1)
    return places
