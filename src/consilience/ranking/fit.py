"""Fit the model: Gauss-Newton steps for the parameters, and fixed-point updates of the spreads of their priors.

Parameters x = (s, deviations of judges, average judge) maximise the log-posterior.  A step solves H δ = g, where g is
the gradient and H the information matrix, which leaves out the second derivative of β_m s_i: it is zero on average, and
without it H is positive definite.  Between steps the spread of each kind of parameter follows from the values and from
what the data determine of them (MacKay, 1992):

    σ²  =  Σ x²  /  Σ (1 - Var(x) / σ²).

The trace of the scores' covariance is estimated with random signs (Hutchinson), solved for together with the step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.comparisons import Sweep
from consilience.ranking.comparisons import Comparisons
from consilience.ranking.constants import COMMON_SPREAD, JUDGE_SPREADS, PROBES, PSEUDO, SEPARATE, SPREAD
from consilience.ranking.information import Information, Spreads, centred
from consilience.ranking.model import BradleyTerry, Effects

__all__ = ["RankFit", "fit"]

_log = logging.getLogger("consilience")

#: A step is halved at most this often.
_HALVINGS = 20
#: Probes are all unit vectors up to this many items: the trace is then exact.
_FEW = 64


@dataclass(frozen=True, eq=False)
class RankFit:
    """A fitted model and how the fit went."""

    model: BradleyTerry
    information: Information  #: at the solution, before scores were scaled
    scale: float  #: what scores were multiplied by
    history: tuple[float, ...]  #: log-posterior after each round
    converged: bool
    notes: tuple[str, ...]  #: effects that were left out, in sentences


def fit(
    data: Comparisons,
    *,
    judges: bool = True,
    position: bool = True,
    length: bool = True,
    spread: float | None = None,
    max_iter: int = 100,
    tol: float = 1e-4,
    callback: Callable[[int, float], object] | None = None,
) -> RankFit:
    """Fit the model to comparisons.

    Parameters
    ----------
    data
        The comparisons.
    judges
        Whether judges differ; otherwise all are like the average one.
    position, length
        Whether the side, and the length of the texts if it is given, may influence judges.
    spread
        Standard deviation of the prior of scores; learned if it is None.
    max_iter, tol
        Rounds, and the size of a step, relative to the spread of scores, that ends them.
    callback
        Called after each round with its number and the log-posterior.
    """
    effects, notes = _identified(data, judges, position, length)
    n_groups, group = data.groups
    covariate = centred(data.item_lengths[:, None], group, n_groups)[:, 0] if effects.own[2] or effects.common[2] else None
    state = _State(
        np.zeros(data.n_items),
        np.zeros((data.n_judges, 4)),
        np.array([1.0, 0.0, 0.0, _tie_start(data)]),
        Spreads(SPREAD if spread is None else float(spread), np.array(JUDGE_SPREADS) * effects.own),
        0.0,
    )
    objective = _Objective(data, effects, covariate)
    sweep = objective.sweep(state)
    history: list[float] = []
    converged = False
    for number in range(1, max_iter + 1):
        information = objective.information(state, sweep)
        probes = _probes(state.scores, group, n_groups)
        gradient = objective.gradient(state, sweep, information)
        padded = np.zeros((gradient.size, 1 + probes.shape[1]))
        padded[:, 0] = gradient
        padded[: data.n_items, 1:] = probes
        solved = information.solve(padded)
        trace = _trace(probes, solved[: data.n_items, 1:])
        before = state
        state, sweep, value = objective.ascend(state, sweep, information.split(solved[:, :1]))
        history.append(value)
        if callback is not None:
            callback(number, value)
        moved = float(np.sqrt(np.mean((state.scores - before.scores) ** 2))) / before.spreads.scores
        updated = _updated(state, information, trace, n_groups, covariate, fixed=spread is not None)
        change = max(
            abs(np.log(updated.spreads.scores / before.spreads.scores)),
            *np.abs(np.log(updated.spreads.judges[effects.own] / before.spreads.judges[effects.own])),
            0.0,
        )
        _log.debug("round %d: log-posterior %.3f, step %.1e, spreads %.1e", number, value, moved, change)
        if moved < tol and change < 10 * tol:
            converged = True
            break
        state = updated
    information = objective.information(state, sweep)
    return _finished(data, effects, state, information, history, converged, notes)


@dataclass(frozen=True)
class _State:
    """Parameters on the way."""

    scores: Floats
    own: Floats  #: deviations of judges, (M, 4)
    average: Floats  #: (4,)
    spreads: Spreads
    slope: float

    @property
    def judges(self) -> Floats:
        return self.average + self.own


@dataclass(frozen=True)
class _Objective:
    """The log-posterior and its derivatives."""

    data: Comparisons
    effects: Effects
    covariate: Floats | None

    def sweep(self, state: _State) -> Sweep:
        return self.data.passes.sweep(state.scores, state.judges, ties=self.effects.ties)

    def information(self, state: _State, sweep: Sweep) -> Information:
        return Information(self.data.passes, state.scores, state.judges, sweep, state.spreads, self.effects)

    def residual(self, state: _State) -> Floats:
        return state.scores if self.covariate is None else state.scores - state.slope * self.covariate

    def value(self, state: _State, sweep: Sweep) -> float:
        own = self.effects.own
        penalty = np.sum(self.residual(state) ** 2) / state.spreads.scores**2
        penalty += np.sum(state.own[:, own] ** 2 / state.spreads.judges[own] ** 2)
        return sweep.log_likelihood - 0.5 * float(penalty + np.sum(self._average(state) ** 2) / COMMON_SPREAD**2)

    def _average(self, state: _State) -> Floats:
        return state.average * self.effects.common

    def gradient(self, state: _State, sweep: Sweep, information: Information) -> Floats:
        own = self.effects.own
        z = sweep.by_score - self.residual(state) / state.spreads.scores**2
        d = sweep.by_judge * own
        d[:, own] -= state.own[:, own] / state.spreads.judges[own] ** 2
        mean = sweep.by_judge.sum(axis=0) * self.effects.common - self._average(state) / COMMON_SPREAD**2
        return information.joined(z[:, None], d[:, :, None], mean[:, None])[:, 0]

    def ascend(self, state: _State, sweep: Sweep, step: tuple[Floats, ...]) -> tuple[_State, Sweep, float]:
        """Take the step, halved until the log-posterior does not fall."""
        value = self.value(state, sweep)
        z, d, mean = (part[..., 0] for part in step)
        size = 1.0
        for _ in range(_HALVINGS):
            tried = replace(
                state, scores=state.scores + size * z, own=state.own + size * d, average=state.average + size * mean
            )
            found = self.sweep(tried)
            reached = self.value(tried, found)
            if reached >= value - 1e-9 * abs(value):
                return tried, found, reached
            size *= 0.5
        return state, sweep, value


def _identified(data: Comparisons, judges: bool, position: bool, length: bool) -> tuple[Effects, tuple[str, ...]]:
    """Return the parameters that the comparisons can determine, and a sentence for each effect that is left out."""
    notes = []
    length = length and data.length.size > 0
    wanted = np.array([False, position, length, bool(np.any(data.outcome == 0))])
    own = np.array([True, *wanted[1:]]) & (judges and data.n_judges > 1)
    sides = [data.side.astype(np.float64), *([data.length] if length else [])]
    shares = _unexplained(data, np.stack(sides, axis=1))
    if position and shares[0] < SEPARATE:
        wanted[1] = own[1] = False
        notes.append(
            "an effect of the position cannot be told from the scores, because items hardly change sides: show each "
            "pair in both orders"
        )
    if length and shares[-1] < SEPARATE:
        wanted[2] = False
        notes.append(
            "the texts of an item always have the same length, so a preference for long texts cannot be told from "
            "the scores; only differences between judges are estimated"
        )
    return Effects(wanted, own), tuple(notes)


def _unexplained(data: Comparisons, values: Floats) -> Floats:
    """Return the share of the variation of ``values``, (C, K), that differences between items do not explain.

    That is the residual of least squares, by conjugate gradients on the normal equations.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import lsqr

    C, N = data.n_comparisons, data.n_items
    columns = np.stack([data.first, data.second], axis=1).ravel()
    signs = np.tile([1.0, -1.0], C)
    design = csr_array((signs, columns, np.arange(0, 2 * C + 1, 2)), shape=(C, N))
    shares = []
    for column in values.T:
        residual = lsqr(design, column, atol=1e-4, btol=1e-4, iter_lim=200)[3]
        shares.append(residual**2 / max(float(column @ column), 1e-300))
    return np.array(shares)


def _tie_start(data: Comparisons) -> float:
    """Return the tie parameter that fits the share of ties between equal items: exp(θ) / (2 + exp(θ))."""
    share = float(np.mean(data.outcome == 0))
    return float(np.log(2.0 * share / (1.0 - share))) if 0.0 < share < 1.0 else 0.0


def _probes(scores: Floats, group: Ints, n_groups: int) -> Floats:
    """Return vectors for the trace of the scores' covariance: unit vectors, or random signs in the order of scores.

    Signs go by the order of the scores, so that the names of items do not matter.
    """
    N = scores.size
    if N <= _FEW:
        return centred(np.eye(N), group, n_groups)
    count = max(1, min(PROBES, (1 << 17) // N))
    signs = np.empty((N, count))
    signs[np.argsort(scores, kind="stable")] = np.random.default_rng(0).choice([-1.0, 1.0], (N, count))
    return centred(signs, group, n_groups)


def _trace(probes: Floats, solved: Floats) -> float:
    """Return Σ Var(s_i - mean of its group)."""
    total = float(np.sum(probes * solved))
    return total if probes.shape[0] <= _FEW else total / probes.shape[1]


def _updated(
    state: _State, information: Information, trace: float, n_groups: int, covariate: Floats | None, *, fixed: bool
) -> _State:
    """Return the state with new spreads, and a new slope of scores over lengths."""
    slope = 0.0
    if covariate is not None and (scale := float(covariate @ covariate)) > 1e-12:
        slope = float(covariate @ state.scores) / scale
    residual = state.scores if covariate is None else state.scores - slope * covariate
    sigma, tau, own = state.spreads.scores, state.spreads.judges.copy(), information.effects.own
    if not fixed:
        determined = max(state.scores.size - n_groups - trace / sigma**2, 0.0)
        sigma = _fixed_point(float(residual @ residual), determined, SPREAD)
    M = state.own.shape[0]
    unknown = information.own_variances.sum(axis=0)
    for p in np.flatnonzero(own):
        determined = max(M - unknown[p] / tau[p] ** 2, 0.0)
        tau[p] = _fixed_point(float(state.own[:, p] @ state.own[:, p]), determined, JUDGE_SPREADS[p])
    return replace(state, spreads=Spreads(sigma, tau), slope=slope)


def _fixed_point(squares: float, determined: float, start: float) -> float:
    return float(np.sqrt((squares + PSEUDO * start**2) / (determined + PSEUDO)))


def _finished(
    data: Comparisons,
    effects: Effects,
    state: _State,
    information: Information,
    history: list[float],
    converged: bool,
    notes: tuple[str, ...],
) -> RankFit:
    """Scale the scores so that the mean reliability over comparisons is 1."""
    share: Any = np.bincount(data.judge, minlength=data.n_judges) / data.n_comparisons
    scale = float(share @ state.judges[:, 0])
    scale = scale if scale > 0 else 1.0
    by = np.array([1.0 / scale, 1.0, 1.0, 1.0])
    model = BradleyTerry(
        state.scores * scale,
        state.judges * by,
        state.average * [1.0, 1.0, 1.0, 1.0],
        state.spreads.scores * scale,
        state.spreads.judges * by,
        state.slope * scale,
        effects,
    )
    return RankFit(model, information, scale, tuple(history), converged, notes)
