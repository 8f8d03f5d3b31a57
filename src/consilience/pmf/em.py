"""Expectation maximisation of the CPD model from rows with missing entries, and its starts.

The objective is the penalised log-likelihood

    L = Σ_s log Σ_f λ_f ∏_n A_n(z_s(n), f)  +  c Σ_n Σ_f Σ_i m_n(i) log A_n(i, f),

with products over the observed entries, m_n the share of each category of variable n, and c the smoothing.  The step
(Ibrahim & Fu, "Recovering joint PMF from pairwise marginals", eqs (21)-(22); A. Yeredor and M. Haardt, IEEE Signal
Processing Letters 26 (2019)):

    q(s, f)   ∝  λ_f ∏_n A_n(z_s(n), f)
    A_n(i, f) =  (Σ_s q(s, f) [z_s(n) = i] + c m_n(i)) / (Σ_i … ),      λ_f = Σ_s q(s, f) / S.

It is accelerated by SQUAREM (:mod:`consilience.fitting.ascent`).  :func:`fit_joint_pmf` starts it from pairs of
variables (CNMF-SPA, Algorithm 1 there), from triples (CTD) or at random.

====== ============== ============================
symbol name           shape
====== ============== ============================
λ      ``weights``    (F,)
A_n    ``stacked``    (Σ I_n, F), factors stacked
c, m   ``smoothing``, ``shares``  a number, (Σ I_n,)
====== ============== ============================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from consilience.engine.dask import Cluster, placed
from consilience.engine.progress import Callback
from consilience.exceptions import ConvergenceWarning, warn
from consilience.fitting.ascent import Ascent, EMModel, Pass, extrapolate
from consilience.kernels._arrays import Codes, Floats, Ints
from consilience.kernels.cpd import FLOOR, TablePass, TableStatistics
from consilience.pmf.cpd import CPD, mixture, split_factors
from consilience.pmf.pairs import category_shares, pair_marginals
from consilience.validation import generator

__all__ = ["JointPMFFit", "Parameters", "fit_joint_pmf", "run_cpd_em", "total_history"]

Init = Literal["cnmf-spa", "random", "ctd"]
Split = Literal["conditioning", "random", "fixed"] | int | Sequence[int]
Weights = Literal["simplex", "pseudo-inverse"]


class Parameters(NamedTuple):
    """Weights (F,) and stacked factors (Σ I_n, F)."""

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
) -> Ascent[Parameters, TableStatistics]:
    """Run EM from these parameters until an EM step changes the objective by at most ``tol`` (relative).

    With ``tol=0`` all ``max_iter`` passes are run.  With a ``cluster``, its workers hold the rows and run the passes.
    """
    start = Parameters(np.asarray(weights, np.float64), np.asarray(stacked, np.float64))
    sweep, F = TablePass(codes, sizes), start.weights.size
    run = sweep if cluster is None else cluster.distribute(TablePass, partial(sweep.portion, F), sweep.share(F).n)
    model = _TableModel(run, sweep.offsets, category_shares(codes, sizes), smoothing)
    ascent = Ascent(model, start, accelerate=accelerate, labels=codes.size)
    return ascent.run(max_iter=max_iter, tol=tol, callback=callback)


class _TableModel(EMModel[Parameters, TableStatistics]):
    """The rows of a table, as the ascent sees them."""

    def __init__(
        self, sweep: Callable[[Floats, Floats], TableStatistics], offsets: Ints, shares: Floats, smoothing: float
    ) -> None:
        self.sweep, self.shares, self.pseudo = sweep, shares[:, None], smoothing * shares[:, None]
        self.first, self.variable = offsets[:-1], np.repeat(np.arange(offsets.size - 1), np.diff(offsets))

    def e_step(self, at: Parameters) -> tuple[TableStatistics, float]:
        """Sweep over the rows."""
        statistics = self.sweep(*at)
        return statistics, statistics.log_likelihood

    def m_step(self, sums: TableStatistics) -> Parameters:
        """Normalise the counts (22); a component without entries of a variable gets the category shares."""
        counts = sums.counts + self.pseudo
        total = np.add.reduceat(counts, self.first, axis=0)
        empty = (total <= 0)[self.variable]
        stacked = np.where(empty, self.shares, counts / np.where(total > 0, total, 1.0)[self.variable])
        rows = sums.weights.sum()
        F = sums.weights.size
        return Parameters(sums.weights / rows if rows > 0 else np.full(F, 1.0 / F), stacked)

    def penalty(self, at: Parameters) -> float:
        """Return c Σ m log A."""
        return float((self.pseudo * np.log(np.maximum(at.stacked, FLOOR))).sum()) if self.pseudo.any() else 0.0

    def leap(self, one: Pass[Parameters, TableStatistics], two: Pass[Parameters, TableStatistics]) -> Parameters | None:
        """Extrapolate, and put the columns back on the simplex."""
        behind = np.add.reduceat(two.sums.counts, self.first, axis=0)[self.variable]
        far = extrapolate(one.at, two.at, two.after, (two.sums.weights.sum(), behind), 0.1 * FLOOR)
        if far is None:
            return None
        weights, stacked = far
        return Parameters(
            weights / weights.sum(), stacked / np.add.reduceat(stacked, self.first, axis=0)[self.variable]
        )


# ---- start and EM -------------------------------------------------------------------------------------------


class JointPMFFit(NamedTuple):
    """A fitted joint distribution."""

    model: CPD
    history: list[float]  #: penalised log-likelihood after every pass of EM; without EM, the misfit of CTD or nothing
    converged: bool


def fit_joint_pmf(
    codes: Codes,
    sizes: Sequence[int],
    rank: int,
    *,
    init: Init = "cnmf-spa",
    split: Split = "conditioning",
    weights: Weights = "simplex",
    refine: Literal["em"] | None = "em",
    softening: float = 0.1,
    smoothing: float = 1.0,
    n_starts: int = 1,
    max_iter: int = 1000,
    tol: float = 1e-8,
    random_state: Any = 0,
    callback: Callback | None = None,
    engine: Any = "local",
) -> JointPMFFit:
    """Fit a CPD of this rank to coded rows; parameters as in :class:`~consilience.pmf.joint_pmf.JointPMF`."""
    rng, fits = generator(random_state), []
    passes: dict[str, Any] = {"smoothing": smoothing, "max_iter": max_iter, "tol": tol, "callback": callback}
    with placed(engine if refine else "local") as cluster:
        for start in range(n_starts):
            way: Init = "random" if start else init
            lam, stacked, history, converged = _start(codes, sizes, rank, way, split, weights, rng, max_iter, tol)
            if refine is None:
                return JointPMFFit(CPD(lam, split_factors(stacked, sizes)), history, converged)
            if not converged and tol > 0:
                warn(
                    f"the start of EM, CTD, did not meet tol={tol:g} within {max_iter} sweeps; EM continues from there",
                    ConvergenceWarning,
                )
            if init != "random" and not start:
                # EM cannot leave a probability of zero
                lam = (1.0 - softening) * lam + softening / rank
                stacked = (1.0 - softening) * stacked + softening * category_shares(codes, sizes)[:, None]
            end = run_cpd_em(codes, sizes, lam, stacked, cluster=cluster, **passes)
            model = CPD(end.at.weights, split_factors(end.at.stacked, sizes))
            fits.append(JointPMFFit(model, end.history, end.converged))
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
    weights: Weights,
    rng: np.random.Generator,
    max_iter: int,
    tol: float,
) -> tuple[Floats, Floats, list[float], bool]:
    """Return the initial weights and stacked factors, the history of CTD, and whether it converged."""
    if init == "random":
        columns = [rng.dirichlet(np.ones(size), rank).T for size in sizes]  # uniform on the simplex
        return np.full(rank, 1.0 / rank), np.concatenate(columns), [], True
    if init == "ctd":
        from consilience.factor.coupled_tensors import coupled_tensor_decomposition

        lam, factors, history, converged = coupled_tensor_decomposition(
            codes, sizes, rank, max_iter=max_iter, tol=tol, random_state=rng, callback=None
        )
        return lam, np.concatenate(factors), list(history), converged
    from consilience.pmf.cnmf_spa import cnmf_spa

    pairs = pair_marginals(codes, sizes)
    return *cnmf_spa(pairs, rank, split=split, weights=weights, random_state=rng), [], True


def total_history(histories: Sequence[list[float]]) -> list[float]:
    """Return the sum of several histories after every pass; a shorter one is extended by its last value."""
    longest = max(map(len, histories))
    if not all(histories):
        return []
    padded = [each + each[-1:] * (longest - len(each)) for each in histories]
    return [float(value) for value in np.sum(padded, axis=0)]
