r"""The joint distribution of discrete variables, learned from a table with missing entries.

.. math:: \Pr(z_1, …, z_N) = \sum_f \lambda_f \prod_n A_n(z_n, f)

Start from pairs of variables (CNMF-SPA, Ibrahim & Fu, "Recovering joint PMF from pairwise marginals", Algorithm 1),
continue by EM (eqs (21)-(22)), and answer queries without ever forming the joint table.

====== ================ =============================
symbol name             shape
====== ================ =============================
F      ``n_components`` number of components
λ      ``weights_``     (F,)
A_n    ``factors_[n]``  (I_n, F), columns sum to one
====== ================ =============================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from consilience.engine.progress import Callback
from consilience.exceptions import ConvergenceWarning, DataError, DataWarning, ParameterError, warn
from consilience.kernels._arrays import Codes, Floats
from consilience.pmf.cnmf_spa import cnmf_spa
from consilience.pmf.columns import MISSING, decode
from consilience.pmf.cpd import CPD, split_factors
from consilience.pmf.em import Init, JointPMFFit, Split, Weights, fit_joint_pmf
from consilience.pmf.filling import fill_cells
from consilience.pmf.pairs import PairMarginals
from consilience.pmf.rank import rank_by_held_out
from consilience.pmf.table import DiscreteTable, encode_rows, frame_columns, index_of
from consilience.published import AsPublished
from consilience.validation import check_parameters, generator, number, one_of, whole

__all__ = ["JointPMF", "PMFEstimator", "fit_joint_pmf"]

#: Share of the rows that rank selection holds out.
_HELD_OUT = 0.1


@dataclass(eq=False, repr=False)
class PMFEstimator(BaseEstimator):  # type: ignore[misc]
    """Parameters that the estimators of joint distributions share, their checks, and the choice of the rank."""

    n_components: int | None = None
    _: KW_ONLY
    init: Init = "cnmf-spa"
    split: Split | Sequence[str] = "conditioning"
    weights: Weights = "simplex"
    refine: Literal["em"] | None = "em"
    softening: float = 0.1
    smoothing: float = 1.0
    n_starts: int = 1
    max_iter: int = 1000
    tol: float = 1e-8
    random_state: Any = 0
    callback: Callback | None = None

    def _check_parameters(self) -> None:
        one_of("init", self.init, ("cnmf-spa", "random", "ctd"))
        one_of("weights", self.weights, ("simplex", "pseudo-inverse"))
        split: Any = self.split
        if isinstance(split, int | np.integer) and not isinstance(split, bool):
            whole("split", split)
        elif isinstance(split, str) or not isinstance(split, Iterable):  # else the variables of S1
            one_of("split", split, ("conditioning", "random", "fixed"))
        if self.refine is not None:
            one_of("refine", self.refine, ("em",))
        if self.n_components is not None:
            whole("n_components", self.n_components)
        for name in ("n_starts", "max_iter"):
            whole(name, getattr(self, name))
        for name in ("smoothing", "softening", "tol"):
            number(name, getattr(self, name), zero=True)
        check_parameters({"callback": self.callback})

    def _fit_table(
        self,
        table: DiscreteTable,
        names: Sequence[str],
        fit: Callable[..., JointPMFFit],
        share: float,
        score: Callable[[CPD, Codes], float],
    ) -> tuple[JointPMFFit, int, dict[int, float]]:
        """Fit a table; return the fit, its F, and the scores of the held-out share of rows by F if it was chosen.

        ``names`` are the variables that ``split`` may name, and ``score`` judges a model by held-out rows.
        """
        options = self.get_params(deep=False)
        rank, scores = options.pop("n_components"), dict[int, float]()
        if not isinstance(self.split, str | int | np.integer):
            options["split"] = [index_of(variable, names) for variable in self.split]
        if rank is None:

            def held_out_score(rank: int, seen: Codes, unseen: Codes, options: dict[str, Any]) -> float:
                return score(fit(seen, table.sizes, rank, **options).model, unseen)

            rank, scores = rank_by_held_out(table.codes, share, options, held_out_score)
        return fit(table.codes, table.sizes, rank, **options), rank, scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


@dataclass(eq=False, repr=False)
class JointPMF(AsPublished, PMFEstimator):
    r"""Joint distribution of discrete variables as a mixture of products.

    .. math:: \Pr(z_1, …, z_N) = \sum_f \lambda_f \prod_n A_n(z_n, f)

    Tables may have missing entries, at the fit and afterwards.  A table is a frame (pandas, polars, pyarrow) with one
    column per variable, a matrix of whole numbers with NaN or -1 for missing entries, an array of objects, or a
    :class:`~consilience.pmf.table.DiscreteTable`.  Null, None, NaN and blank strings are missing; whether -1 is, the
    fit decides from all its rows.

    Parameters
    ----------
    n_components
        F.  None chooses it by the likelihood of a held-out tenth of the rows, or of 20,000 of them if there are more
        (:mod:`consilience.pmf.rank`).
    init
        Start of EM: ``"cnmf-spa"`` (pairs), ``"ctd"`` (triples, by coupled tensor decomposition) or
        ``"random"``.
    split
        How CNMF-SPA splits the variables: ``"fixed"`` (first and second half), ``"random"``, ``"conditioning"`` (the
        best conditioned of several splits), a number M (S1 is the first M variables), or the variables of S1, by name
        or number.
    weights
        How CNMF-SPA finds λ: on the ``"simplex"``, from all pairs; or by the ``"pseudo-inverse"`` of Algorithm 1, line
        16, with negative entries set to zero.
    refine
        ``"em"``, or None for the start alone.
    softening
        Share of the category shares in the start of EM, which cannot leave a probability of zero.
    smoothing
        Observations added to every variable and component, spread according to the category shares.  On small tables
        (the paper's Table I, UCI credit and magic) 1 gives unseen rows a higher probability than less; 3 a little more,
        but it blurs tables that follow rules, such as UCI car.
    n_starts
        The joint distributions of this many starts are averaged, all but the first of them random.  The mixture
        predicts rows better than its parts do, but has ``n_starts`` · F components.  Without EM there is one start.
    max_iter, tol
        Passes over the rows, and the relative change of the objective in one EM step that ends them (0: run all); also
        for the sweeps of CTD.
    random_state
        A whole number, None, SeedSequence, Generator or RandomState.
    callback
        Called with a :class:`~consilience.engine.progress.Progress` after every pass; returning True ends that start
        (and, in a classifier, that class).
    engine
        Where the passes of EM run: "local" (this process), "dask" (the current Dask client, or local processes), or a
        Dask client.  Its workers hold the rows.

    Attributes
    ----------
    weights_ : array (F,)
    factors_ : tuple of arrays (I_n, F)
    categories_ : tuple of arrays (I_n,)
        The value of each row of a factor.
    model_ : CPD
        Weights and factors.
    history_ : list of float
        Penalised log-likelihood after every pass of EM; without EM, the misfit of CTD or nothing.
    converged_ : bool
    n_iter_ : int
    n_features_in_, feature_names_in_
        The number of variables, and their names if a frame with text names was given.
    rank_scores_ : dict
        Held-out score of every rank that was tried, if F was chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from consilience.pmf.joint_pmf import JointPMF
    >>> rows = np.repeat([[0, 0, 0], [1, 1, 1]], 20, axis=0)
    >>> pmf = JointPMF(2).fit(rows)
    >>> pmf.predict(2, [[0, -1, -1], [1, 1, -1]]).tolist()
    [0, 1]
    """

    _: KW_ONLY
    engine: Any = "local"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the joint distribution of the columns of a table."""
        self._check_parameters()
        table = DiscreteTable.from_data(X)
        columns = frame_columns(X)
        if columns is not None and all(isinstance(name, str) for name in columns):
            self.feature_names_in_ = np.asarray(columns, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if not len(table):
            raise DataError("the table has no rows; a joint distribution needs at least one")
        never = [name for n, name in enumerate(table.names) if not (table.codes[:, n] >= 0).any()]
        if never:
            warn(f"variables without any entry are taken to be uniform: {', '.join(never[:8])}", DataWarning)
        fit, _, scores = self._fit_table(
            table, table.names, fit_joint_pmf, _HELD_OUT, lambda model, unseen: float(model.log_prob(unseen).mean())
        )
        return self._keep(table, fit, scores)

    def from_moments(self, blocks: Mapping[tuple[int, int], Any], categories: Sequence[Any] | None = None) -> Self:
        """Learn the joint distribution from pair marginals, without rows: CNMF-SPA alone (Algorithm 1).

        Parameters
        ----------
        blocks
            ``blocks[j, k]`` is the joint distribution, or the counts, of variables j and k, (I_j, I_k); see
            :meth:`~consilience.pmf.pairs.PairMarginals.from_blocks`.
        categories
            The categories of each variable; numbers from 0 by default.

        ``n_components`` must be given: there are no rows by which to choose it.
        """
        self._check_parameters()
        if self.n_components is None or self.init != "cnmf-spa":
            raise ParameterError('from_moments needs n_components and init="cnmf-spa": there are no rows to learn from')
        pairs = PairMarginals.from_blocks(blocks)
        values = [np.arange(size) for size in pairs.sizes] if categories is None else list(map(np.asarray, categories))
        if tuple(map(len, values)) != pairs.sizes:
            raise ParameterError(f"the blocks have {pairs.sizes} categories, not {tuple(map(len, values))}")
        split: Any = self.split
        found = cnmf_spa(
            pairs, self.n_components, split=split, weights=self.weights, random_state=generator(self.random_state)
        )
        model = CPD(found[0], split_factors(found[1], pairs.sizes))
        names = tuple(map(str, range(len(values))))
        nobody = DiscreteTable(np.empty((0, len(values)), np.int8), tuple(values), names)
        return self._keep(nobody, JointPMFFit(model, [], True), {})

    def _keep(self, table: DiscreteTable, fit: JointPMFFit, scores: dict[int, float]) -> Self:
        self.model_ = fit.model
        self.weights_, self.factors_ = fit.model.weights, fit.model.factors
        self.categories_, self.names_ = table.categories, table.names
        self.history_, self.converged_, self.n_iter_ = fit.history, fit.converged, len(fit.history)
        self.rank_scores_ = scores
        self.n_features_in_ = len(table.names)
        if not fit.converged and self.tol > 0 and self.n_iter_ >= self.max_iter:
            warn(
                f"the fit did not meet tol={self.tol:g} within {self.max_iter} passes; raise max_iter or tol",
                ConvergenceWarning,
            )
        return self

    def log_prob(self, X: Any) -> Floats:
        """Return the log-probability of the observed entries of every row, (S,)."""
        codes = self._codes(X)
        return self.model_.log_prob(codes)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-probability of the rows."""
        logs = self.log_prob(X)
        if not logs.size:
            raise DataError("the table has no rows, so there is no mean log-probability")
        return float(logs.mean())

    def marginal(self, variables: int | str | Sequence[int | str]) -> Floats:
        """Return the joint distribution of a few variables, one axis each, in the given order."""
        check_is_fitted(self)
        if isinstance(variables, str) or not isinstance(variables, Iterable):
            return self.model_.marginal([self._index(variables)])
        return self.model_.marginal([self._index(variable) for variable in variables])

    def conditional(self, target: int | str, X: Any) -> Floats:
        """Return Pr(target | the other entries) for every row, (S, I_target).

        The target's own column is ignored and may be left out of X.
        """
        at = self._index(target)
        return self.model_.conditional(at, self._codes(X, at))

    def expectation(self, target: int | str, X: Any) -> Floats:
        """Return E[target | the other entries] for every row, (S,); the target's categories must be numbers."""
        at = self._index(target)
        values = self.categories_[at]
        if values.dtype.kind not in "iufb":
            raise ParameterError(f"variable {target!r} has categories that are not numbers, so it has no expectation")
        return self.model_.expectation(at, self._codes(X, at), values)

    def predict(self, target: int | str, X: Any) -> Codes:
        """Return the most probable value of the target given the other entries, for every row."""
        at = self._index(target)
        values: Codes = self.categories_[at][self.conditional(at, X).argmax(axis=1)]
        return values

    def impute(self, X: Any) -> Any:
        """Fill every missing entry with its most probable value given the observed entries of its row.

        Returns a copy of the same kind, with the same index, types and other columns (a wider type if the old one
        cannot hold a filled value).  Observed entries are kept; unknown values among them are ignored as evidence.
        """
        check_is_fitted(self)
        strange, *_ = encode_rows(X, self.categories_, self.names_)
        gone = strange == MISSING
        codes = np.maximum(strange, MISSING)
        rows = np.flatnonzero(gone.any(axis=1))
        for part in np.array_split(rows, max(1, rows.size >> 16)):
            here = codes[part]
            posterior = self.model_.posterior(here)
            for n, factor in enumerate(self.factors_):
                lacking = gone[part, n]
                if lacking.any():
                    here[lacking, n] = (posterior[lacking] @ factor.T).argmax(axis=1)
            codes[part] = here
        return fill_cells(X, gone, codes, self.categories_, self.names_)

    def sample(self, n: int = 1, random_state: Any = None) -> Codes:
        """Draw n complete rows, as an array of values (n, N)."""
        check_is_fitted(self)
        codes = self.model_.sample(whole("n", n) if n != 0 else 0, random_state)
        columns = [decode(codes[:, n], values) for n, values in enumerate(self.categories_)]
        if all(column.dtype.kind in "iufb" for column in columns):
            return np.stack(columns, axis=1)
        return np.stack([column.astype(object) for column in columns], axis=1)

    def _index(self, variable: int | str) -> int:
        check_is_fitted(self)
        return index_of(variable, self.names_)

    def _codes(self, X: Any, optional: int | None = None) -> Codes:
        check_is_fitted(self)
        return DiscreteTable.from_data(X, categories=self.categories_, names=self.names_, optional=optional).codes
