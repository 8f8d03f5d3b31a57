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

import numpy as np

from consilience.kernels._arrays import Floats
from consilience.kernels.comparisons import Sweep
from consilience.ranking.comparisons import Comparisons
from consilience.ranking.constants import COMMON_SPREAD, JUDGE_SPREADS, PROBES, PSEUDO, SEPARATE, SPREAD
from consilience.ranking.information import Information, Spreads, centred
from consilience.ranking.model import BradleyTerry, Effects

__all__ = ["RankFit", "fit"]

_log = logging.getLogger("consilience")

#: A step is halved at most this often.
_HALVINGS = 20
#: Relative accuracy of a step, and of the traces.
_ACCURACY = 1e-3
#: The random vectors go by the order of scores, and are kept from this round on: or near ties would change places.
_SETTLED = 3


@dataclass(frozen=True, eq=False)
class RankFit:
    """A fitted model and how the fit went."""

    model: BradleyTerry
    information: Information  #: at the solution
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
    tol: float = 1e-3,
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
        Rounds, and the size of a step, relative to the spread of scores, that ends them; spreads must then change by
        less than twice as much.
    callback
        Called after each round with its number and the log-posterior.
    """
    effects, notes = _identified(data, judges, position, length)
    n_groups, group = data.groups
    covariate = (
        centred(data.item_lengths[:, None], group, n_groups)[:, 0] if effects.own[2] or effects.common[2] else None
    )
    state = _State(
        np.zeros(data.n_items),
        np.zeros((data.n_judges, 4)),
        np.array([1.0, 0.0, 0.0, _tie_start(data)]),
        Spreads(SPREAD if spread is None else float(spread), np.array(JUDGE_SPREADS) * effects.own),
        0.0,
        np.zeros(data.n_items),
        np.zeros(data.n_judges),
    )
    objective = _Objective(data, effects, covariate)
    sweep = objective.sweep(state)
    history: list[float] = []
    converged = False
    for number in range(1, max_iter + 1):
        information = objective.information(state, sweep)
        gradient = objective.gradient(state, sweep, information)
        if number <= _SETTLED:
            probes = centred(_probes(state.scores), group, n_groups)
            of_judges = _probes(state.own[:, 0]) if effects.own[0] else np.empty((data.n_judges, 0))
        one, two = probes.shape[1], of_judges.shape[1]
        right = np.zeros((gradient.size, 1 + one + two))
        right[:, 0] = gradient
        z, d, _ = information.split(right)
        z[:, 1 : 1 + one], d[:, 0, 1 + one :] = probes, of_judges
        solved = information.solve(right, tol=_ACCURACY)
        z, d, _ = information.split(solved)
        traces = _trace(probes, z[:, 1 : 1 + one]), _trace(of_judges, d[:, 0, 1 + one :])
        before = state
        state, sweep, value = objective.ascend(state, sweep, information.split(solved[:, :1]))
        history.append(value)
        if callback is not None:
            callback(number, value)
        moved = float(np.sqrt(np.mean((state.scores - before.scores) ** 2))) / before.spreads.scores
        updated = _updated(state, information, traces, n_groups, covariate, fixed=spread is not None)
        change = max(
            abs(np.log(updated.spreads.scores / before.spreads.scores)),
            *np.abs(np.log(updated.spreads.judges[effects.own] / before.spreads.judges[effects.own])),
            0.0,
        )
        _log.debug("round %d: log-posterior %.3f, step %.1e, spreads %.1e", number, value, moved, change)
        if moved < tol and change < 2 * tol:
            converged = True
            break
        state = updated
        sweep = objective.sweep(state)  # at the new variances
    places = state.scores, state.judges, state.average, state.spreads.scores, state.spreads.judges, state.slope
    model = BradleyTerry(*places, effects)
    return RankFit(model, objective.information(state, sweep), tuple(history), converged, notes)


@dataclass(frozen=True)
class _State:
    """Parameters on the way."""

    scores: Floats
    own: Floats  #: deviations of judges, (M, 4)
    average: Floats  #: (4,)
    spreads: Spreads
    slope: float
    score_variances: Floats  #: (N,)
    judge_variances: Floats  #: of reliabilities, (M,)

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
        known = state.scores, state.judges, state.score_variances, state.judge_variances
        return self.data.passes.sweep(*known, ties=self.effects.ties)

    def information(self, state: _State, sweep: Sweep) -> Information:
        places = self.data.passes, state.scores, state.judges, sweep, state.spreads, self.effects
        return Information(*places, self.data.judge_shares)

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
        residual = lsqr(design, column, atol=1e-3, btol=1e-3, iter_lim=50)[3]
        shares.append(residual**2 / max(float(column @ column), 1e-300))
    return np.array(shares)


def _tie_start(data: Comparisons) -> float:
    """Return the tie parameter that fits the share of ties between equal items: exp(θ) / (2 + exp(θ))."""
    share = float(np.mean(data.outcome == 0))
    return float(np.log(2.0 * share / (1.0 - share))) if 0.0 < share < 1.0 else 0.0


def _probes(values: Floats) -> Floats:
    """Return vectors for the trace of a covariance: unit vectors if there are few, else random signs, (n, probes).

    Signs go by the order of the values, so that the names of items and judges do not matter.
    """
    n = values.size
    if n <= PROBES:
        return np.eye(n)
    count = max(1, min(PROBES, (1 << 14) // n))
    signs = np.empty((n, count))
    signs[np.argsort(values, kind="stable")] = np.random.default_rng(0).choice([-1.0, 1.0], (n, count))
    return signs


def _trace(probes: Floats, solved: Floats) -> float:
    """Return the trace of the inverse, from its products with the probes."""
    total = float(np.sum(probes * solved))
    return total if probes.shape[0] <= PROBES else total / max(probes.shape[1], 1)


def _updated(
    state: _State,
    information: Information,
    traces: tuple[float, float],
    n_groups: int,
    covariate: Floats | None,
    *,
    fixed: bool,
) -> _State:
    """Return the state with new spreads, and a new slope of scores over lengths.

    ``traces`` are the sums of the variances of scores and of reliabilities.  Those of other parameters of judges hardly
    depend on the scores, and are taken as given them.
    """
    slope = 0.0
    if covariate is not None and (scale := float(covariate @ covariate)) > 1e-12:
        slope = float(covariate @ state.scores) / scale
    residual = state.scores if covariate is None else state.scores - slope * covariate
    sigma, tau, own = state.spreads.scores, state.spreads.judges.copy(), information.effects.own
    if not fixed:
        determined = max(state.scores.size - n_groups - traces[0] / sigma**2, 0.0)
        sigma = _fixed_point(float(residual @ residual), determined, SPREAD)
    M = state.own.shape[0]
    unknown = information.own_variances.sum(axis=0)
    for p in np.flatnonzero(own):
        # the mean reliability is fixed, which takes one away
        determined = max((M - 1 - traces[1] / tau[0] ** 2) if p == 0 else (M - unknown[p] / tau[p] ** 2), 0.0)
        tau[p] = _fixed_point(float(state.own[:, p] @ state.own[:, p]), determined, JUDGE_SPREADS[p])
    return replace(
        state,
        spreads=Spreads(sigma, tau),
        slope=slope,
        score_variances=_scaled(information.score_variances, traces[0]),
        judge_variances=_scaled(information.own_variances[:, 0], traces[1]),
    )


def _scaled(given_rest: Floats, total: float) -> Floats:
    """Return variances given all other parameters, scaled to the sum of the real ones."""
    known = float(given_rest.sum())
    return np.asarray(given_rest * (total / known if known > 0 else 0.0))


def _fixed_point(squares: float, determined: float, start: float) -> float:
    return float(np.sqrt((squares + PSEUDO * start**2) / (determined + PSEUDO)))
