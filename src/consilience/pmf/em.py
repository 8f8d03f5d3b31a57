r"""Expectation maximisation of the CPD model from rows with missing entries, and what it starts from.

What rises at every step is the penalised log-likelihood

    L = Σ_s log Σ_f λ_f ∏_n A_n(z_s(n), f)  +  c Σ_n Σ_f Σ_i m_n(i) log A_n(i, f),

products over the entries that are there, m_n being how often variable n has each category and c the smoothing.  The
step (Ibrahim & Fu, "Recovering joint PMF from pairwise marginals", eqs (21)-(22); A. Yeredor and M. Haardt, IEEE Signal
Processing Letters 26 (2019)):

    q(s, f)   ∝  λ_f ∏_n A_n(z_s(n), f)
    A_n(i, f) =  (Σ_s q(s, f) [z_s(n) = i] + c m_n(i)) / (Σ_i … ),      λ_f = Σ_s q(s, f) / S.

It is accelerated by leaps (:mod:`consilience.fitting.squarem`); one that lowers L is dropped.

:func:`fit_joint_pmf` starts it: from pairs of variables (CNMF-SPA, Algorithm 1 there), from triples (CTD) or at random.

====== ============== ============================
symbol name           shape
====== ============== ============================
λ      ``weights``    (F,)
A_n    ``stacked``    (Σ I_n, F), factors one below the other
c, m   ``smoothing``, ``shares``  a number, (Σ I_n,)
====== ============== ============================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from consilience.engine.dask import Cluster, placed
from consilience.exceptions import ConvergenceWarning, warn
from consilience.fitting.squarem import Callback, leap, run_squarem
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.cpd import FLOOR, TablePass, TableStatistics
from consilience.pmf.cpd import CPD, mixture, split_factors
from consilience.pmf.pairs import category_shares, pair_marginals
from consilience.validation import generator

__all__ = ["CPDFit", "JointPMFFit", "fit_joint_pmf", "run_cpd_em", "total_history"]

Init = Literal["cnmf-spa", "random", "ctd"]
Split = Literal["conditioning", "random", "fixed"] | Sequence[int]

#: Part of a start that comes from the plain shares of the categories: EM cannot leave a probability of zero.
_SOFTENING = 0.1


@dataclass
class CPDFit:
    """Where EM ended, and how it got there."""

    weights: Floats
    stacked: Floats
    log_likelihood: float
    converged: bool
    history: list[float] = field(default_factory=list)  #: penalised log-likelihood after every pass


class _Point(NamedTuple):
    weights: Floats
    stacked: Floats


def run_cpd_em(
    codes: Codes,
    sizes: Sequence[int],
    weights: Floats,
    stacked: Floats,
    *,
    smoothing: float = 0.0,
    max_iter: int = 1000,
    tol: float = 1e-8,
    accelerate: bool = True,
    callback: Callback | None = None,
    cluster: Cluster | None = None,
) -> CPDFit:
    """Run EM from these parameters until an EM step changes the objective by less than ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  The parameters given back are the best that were met.  Passes run
    on the ``cluster``, if one is given: its workers hold the rows.
    """
    start = _Point(np.asarray(weights, np.float64), np.asarray(stacked, np.float64))
    model = _Model(TablePass(codes, sizes), category_shares(codes, sizes), smoothing)
    if cluster is not None:
        F, here = start.weights.size, model.sweep
        model.sums = cluster.spread(TablePass, partial(here.portion, F), here.share(F).n)
    end = run_squarem(
        model, start, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback, labels=codes.size
    )
    return CPDFit(*end.best, end.log_likelihood, end.converged, end.history)


class _Model:
    """The rows of a table as EM sees them."""

    def __init__(self, sweep: TablePass, shares: Floats, smoothing: float) -> None:
        self.sweep, self.shares, self.pseudo = sweep, shares[:, None], smoothing * shares[:, None]
        self.sums: Callable[[Floats, Floats], TableStatistics] = sweep
        self.first: Ints = sweep.offsets[:-1]
        self.variable = np.repeat(np.arange(len(sweep.sizes)), sweep.sizes)

    def e_step(self, at: _Point) -> tuple[TableStatistics, float]:
        statistics = self.sums(*at)
        return statistics, statistics.log_likelihood

    def m_step(self, statistics: TableStatistics) -> _Point:
        """Normalise the counts (22); a component that met no entry of a variable answers as all rows do."""
        counts = statistics.counts + self.pseudo
        total = np.add.reduceat(counts, self.first, axis=0)
        empty = (total <= 0)[self.variable]
        stacked = np.where(empty, self.shares, counts / np.where(total > 0, total, 1.0)[self.variable])
        rows = statistics.weights.sum()
        F = statistics.weights.size
        return _Point(statistics.weights / rows if rows > 0 else np.full(F, 1.0 / F), stacked)

    def penalty(self, at: _Point) -> float:
        """Give c Σ m log A."""
        if not self.pseudo.any():
            return 0.0
        return float((self.pseudo * np.log(np.maximum(at.stacked, FLOOR))).sum())

    def leap(self, one: _Point, two: _Point, three: _Point, statistics: TableStatistics) -> _Point | None:
        behind = np.add.reduceat(statistics.counts, self.first, axis=0)[self.variable]
        far = leap(one, two, three, (np.asarray(statistics.weights.sum()), behind))
        if far is None:
            return None
        weights, stacked = far
        return _Point(weights / weights.sum(), stacked / np.add.reduceat(stacked, self.first, axis=0)[self.variable])


# ---- start and EM -------------------------------------------------------------------------------------------


class JointPMFFit(NamedTuple):
    """What :func:`fit_joint_pmf` gives."""

    model: CPD
    history: list[float]  #: penalised log-likelihood after every pass of EM; without EM the misfit of CTD, or nothing
    converged: bool


def fit_joint_pmf(
    codes: Codes,
    sizes: Sequence[int],
    rank: int,
    *,
    init: Init = "cnmf-spa",
    split: Split = "conditioning",
    refine: Literal["em"] | None = "em",
    smoothing: float = 1.0,
    n_starts: int = 1,
    max_iter: int = 1000,
    tol: float = 1e-8,
    random_state: Any = 0,
    callback: Callback | None = None,
    engine: Any = "local",
) -> JointPMFFit:
    """Fit a CPD of this rank to coded rows; parameters as in :class:`~consilience.pmf.joint_pmf.JointPMF`."""
    rng = generator(random_state)
    fits = []
    with placed(engine if refine else "local") as cluster:
        for start in range(n_starts):
            weights, stacked, history, converged = _start(
                codes, sizes, rank, "random" if start else init, split, rng, max_iter, tol
            )
            if refine is None:
                return JointPMFFit(CPD(weights, split_factors(stacked, sizes)), history, converged)
            if not converged and tol > 0:
                warn(
                    f"CTD, where EM starts, did not meet tol={tol:g} within {max_iter} sweeps; EM goes on from there",
                    ConvergenceWarning,
                )
            if init != "random" and not start:
                weights = (1.0 - _SOFTENING) * weights + _SOFTENING / rank
                stacked = (1.0 - _SOFTENING) * stacked + _SOFTENING * category_shares(codes, sizes)[:, None]
            end = run_cpd_em(
                codes,
                sizes,
                weights,
                stacked,
                smoothing=smoothing,
                max_iter=max_iter,
                tol=tol,
                callback=callback,
                cluster=cluster,
            )
            fits.append(JointPMFFit(CPD(end.weights, split_factors(end.stacked, sizes)), end.history, end.converged))
    if n_starts == 1:
        return fits[0]
    history = [value / n_starts for value in total_history([fit.history for fit in fits])]
    return JointPMFFit(mixture([fit.model for fit in fits]), history, all(fit.converged for fit in fits))


def _start(
    codes: Codes,
    sizes: Sequence[int],
    rank: int,
    init: Init,
    split: Split,
    rng: np.random.Generator,
    max_iter: int,
    tol: float,
) -> tuple[Floats, Floats, list[float], bool]:
    """Give weights and stacked factors to begin with, and the history of what led there."""
    if init == "random":
        columns = [rng.dirichlet(np.ones(size), rank).T for size in sizes]  # uniform on the simplex
        return np.full(rank, 1.0 / rank), np.concatenate(columns), [], True
    if init == "ctd":
        from consilience.factor.coupled_tensors import coupled_tensor_decomposition

        weights, factors, history, converged = coupled_tensor_decomposition(
            codes, sizes, rank, max_iter=max_iter, tol=tol, random_state=rng, callback=None
        )
        return weights, np.concatenate(factors), list(history), converged
    from consilience.pmf.cnmf_spa import cnmf_spa

    return *cnmf_spa(pair_marginals(codes, sizes), rank, split=split, random_state=rng), [], True


def total_history(histories: Sequence[list[float]]) -> list[float]:
    """Give the sum of several histories after every pass; those that have ended stay where they ended."""
    longest = max(map(len, histories))
    if not all(histories):
        return []
    padded = [each + each[-1:] * (longest - len(each)) for each in histories]
    return [float(value) for value in np.sum(padded, axis=0)]
