"""The fit of answers that name several options: the model of :mod:`consilience.models.multi`, by EM.

For given spreads τ and crowd-wide shares of levels, EM maximises the log-probability of all ticks plus the log-density
of λ, a, e and w.  The E-step weighs the levels of every candidate.  In the M-step, λ_m and a_m take Newton steps of a
concave function in two variables, e_mo in one, and w_o are smoothed frequencies.  Spreads and crowd-wide shares are
learned between rounds of EM (empirical Bayes, with the curvature as precision):

    τ_a²  ←  ( Σ_m (a_m² + var a_m) + ν τ_0² ) / ( M + ν ).

After the last round come the cuts, the spread σ, and the weights B of options that depend on each other: ridge
regressions, logistic, of each option on the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.option_sets import option_sets
from consilience.engine.progress import Progress
from consilience.exceptions import DataError
from consilience.fitting.ascent import Ascent, EMModel
from consilience.fitting.em import Callback
from consilience.fitting.fit import Caution, unconverged
from consilience.kernels._arrays import Bools, Floats
from consilience.kernels.multi import LevelSums, Ticks, level_pass, ticks_of
from consilience.memory import available_bytes
from consilience.models.multi import LEVELS, MultiModel, MultiPosterior, crowd_cut, levels_above

__all__ = ["MultiFit", "calibrated", "fit_multi", "options_recur"]

#: Share of all pairs of item and option that must have a tick for options to count as those of every item.
#: origin: by design; alternatives: none; sensitivity: 0.20 on opendomain_relations_multilabel, 0.008 on
#: time_expressions_multilabel, where an option belongs to one sentence.
RECUR = 0.02

#: Spreads of a, λ and e to start from, and how many annotators this start counts for.
#: origin: by design; alternatives: none; sensitivity: none where there are more than a few annotators.
SPREADS, SPREAD_ANNOTATORS = (0.5, 0.3, 0.3), 2.0

#: Candidates, distributed as those of all options, that are added to the levels of each option.
#: origin: by design; alternatives: 50; sensitivity: F1 on opendomain_relations_multilabel changes by 0.004 at most.
SHARE_ITEMS = 5.0

#: Rounds of EM, and passes in each round but the last.
#: origin: by design; alternatives: 2 and 10 rounds; sensitivity: F1 0.696 and 0.694 instead of 0.692 on
#: time_expressions_multilabel.  A tolerance of 1e-6 instead of 1e-5 takes four times as many passes, and F1 on
#: opendomain_relations_multilabel falls by 0.006.
ROUNDS, PASSES = 5, 20

#: Ridge of the regressions of options on each other, and the largest number of options that have one.
#: origin: held-out majorities of opendomain_relations_multilabel; alternatives: 1, 3, no dependence; sensitivity: with
#: four annotators a sentence F1 0.794, 0.794 and 0.780 instead of 0.787, log-loss 0.0462, 0.0459 and 0.0466 instead of
#: 0.0459; with seven annotators all are within 0.005 and 0.0005.  The limit is for time, which grows with its cube.
RIDGE, MOST_DEPENDENT = 10.0, 40

#: Known items from which on probabilities are calibrated, and the precisions of the priors of α and β.
#: origin: as in auto; alternatives: none; sensitivity: not measured.
LEAST_KNOWN, PRECISION = 5, (1.0, 1.0)

_NEWTON_STEPS = 2
_LOGISTIC_STEPS = 8


@dataclass(frozen=True)
class MultiFit:
    """A fitted model with the candidates of every item and their probabilities."""

    model: MultiModel
    posterior: MultiPosterior
    log_likelihood: float
    converged: bool
    history: list[float]  #: of all rounds; spreads change between them
    cautions: tuple[Caution, ...]
    details: dict[str, Any]


def options_recur(annotations: Annotations) -> bool:
    """Return whether options are those of every item, not of single ones."""
    sets = option_sets(annotations.class_ids)
    a, O = annotations, len(sets.options)  # noqa: E741 - the symbol
    ticks = ticks_of(a.indptr, a.annotator, a.label, sets[1:], O, shared=False)
    return ticks.option.size >= RECUR * a.n_items * O


def fit_multi(
    annotations: Annotations,
    *,
    shared: bool | None = None,
    max_iter: int = 1000,
    tol: float = 1e-5,
    callback: Callback | None = None,
) -> MultiFit:
    """Fit the model; ``shared`` says whether options are those of every item, which the data decide by default."""
    a = annotations
    sets = option_sets(a.class_ids)
    if not len(sets.options):
        raise DataError("nobody ticked any option: there is nothing to aggregate")
    shared = options_recur(a) if shared is None else shared
    _check_memory(a, len(sets.options) if shared else 1)
    ticks = ticks_of(a.indptr, a.annotator, a.label, sets[1:], len(sets.options), shared=shared)
    em, at, history, converged, log_likelihood = _ascend(ticks, a.n_annotators, max_iter, tol, callback)
    G = em.G
    if shared:
        above = levels_above(crowd_cut(at.slope, at.shift, at.deviation, em.active.astype(float)))
    else:
        # the share of annotators, each counted once, who would tick a candidate of this level
        odds = at.slope[:, None] * LEVELS + at.shift[:, None]
        above = np.mean(1.0 / (1.0 + np.exp(-odds[em.active[:, 0]])), axis=0)[None, :]
    model = MultiModel(
        *at,
        above=above,
        pull=np.zeros((G, G)),
        usual=np.zeros(G),
        spread=0.0,
        calibration=(0.0, 1.0),
        shared=shared,
        options=sets.options,
        annotators=a.annotator_ids,
        classes=a.class_ids,
    )
    model = replace(model, spread=_spread(model, ticks))
    if shared and 1 < G <= MOST_DEPENDENT:
        model = _dependent(model, ticks)
    cautions = unconverged(converged, "EM", f"{len(history)} passes", tol)
    s = em.spreads
    details = {
        "options": len(sets.options),
        "options_recur": shared,
        "spread_of_readiness": s.shift**0.5,
        "spread_of_skill": s.slope**0.5,
        "crowd_error_spread": model.spread,
    }
    found = model.weigh(ticks, model.log_odds())
    return MultiFit(model, found, log_likelihood, converged, history, cautions, details)


def _check_memory(annotations: Annotations, kinds: int) -> None:
    needed = 8.0 * 5 * annotations.n_annotators * kinds * LEVELS.size
    if needed > 0.8 * available_bytes():
        raise DataError(
            f"{kinds} options for {annotations.n_annotators} annotators would need {needed / 1e9:.0f} GB of memory; "
            "merge rare options first"
        )


# ---- EM --------------------------------------------------------------------------------------------------------------


class MultiPoint(NamedTuple):
    """λ (M,), a (M,), e (M, G), and the shares w of the levels (G, J)."""

    slope: Floats
    shift: Floats
    deviation: Floats
    shares: Floats


class _Spreads(NamedTuple):
    """Variances of a, λ and e, and the crowd-wide shares of levels, (J,)."""

    shift: float
    slope: float
    deviation: float
    levels: Floats


class _Sums(NamedTuple):
    at: MultiPoint
    of_ticks: LevelSums


class _Model(EMModel[MultiPoint, _Sums]):
    """The ticks as the ascent sees them, for given spreads."""

    def __init__(self, ticks: Ticks, n_annotators: int) -> None:
        self.ticks, self.G = ticks, int(ticks.kind.max(initial=0)) + 1
        self.active: Bools = np.zeros((n_annotators, self.G), np.bool_)
        item = np.repeat(np.arange(ticks.indptr.size - 1), np.diff(ticks.indptr))
        self.active[ticks.annotator[np.diff(ticks.first)[item] > 0]] = True
        a, slope, e = SPREADS
        self.spreads = _Spreads(a * a, slope * slope, e * e, np.full(LEVELS.size, 1.0 / LEVELS.size))

    @property
    def start(self) -> MultiPoint:
        """All annotators alike, all levels equally frequent."""
        M, J = len(self.active), LEVELS.size
        return MultiPoint(np.ones(M), np.zeros(M), np.zeros((M, self.G)), np.full((self.G, J), 1.0 / J))

    def e_step(self, at: MultiPoint) -> tuple[_Sums, float]:
        odds = at.slope[:, None, None] * LEVELS + at.shift[:, None, None] + at.deviation[:, :, None]
        levels, sums = level_pass(self.ticks, odds, np.log(at.shares), np.zeros_like(at.shares))
        counts = np.zeros((self.G, LEVELS.size))
        np.add.at(counts, self.ticks.kind, levels)
        self.counts = counts
        return _Sums(at, sums), sums.log_likelihood

    def m_step(self, sums: _Sums) -> MultiPoint:
        slope, shift, deviation, _ = sums.at
        s = self.spreads
        for _ in range(_NEWTON_STEPS):
            # d/d(a, λ)  Σ_j said_j log p_j + (asked_j - said_j) log(1 - p_j) - a² / 2τ_a² - (λ - 1)² / 2τ_λ²
            residual, (bend, mixed, curved) = self._curvature(sums.of_ticks, slope, shift, deviation)
            of_shift = residual.sum(axis=(1, 2)) - shift / s.shift
            of_slope = (residual * LEVELS).sum(axis=(1, 2)) - (slope - 1.0) / s.slope
            determinant = bend * curved - mixed * mixed
            shift = shift + np.clip((curved * of_shift - mixed * of_slope) / determinant, -1.0, 1.0)
            slope = slope + np.clip((bend * of_slope - mixed * of_shift) / determinant, -0.5, 0.5)
            if self.G > 1:
                p = _ticking(slope, shift, deviation)
                of_e = (sums.of_ticks.said - sums.of_ticks.asked * p).sum(axis=2) - deviation / s.deviation
                within = (sums.of_ticks.asked * p * (1.0 - p)).sum(axis=2) + 1.0 / s.deviation
                deviation = deviation + np.clip(of_e / within, -1.0, 1.0)
        shares = self.counts + SHARE_ITEMS * s.levels + 1e-3
        return MultiPoint(slope, shift, deviation, shares / shares.sum(axis=1, keepdims=True))

    def _curvature(
        self, sums: LevelSums, slope: Floats, shift: Floats, deviation: Floats
    ) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
        """Return said less expected ticks, (M, G, J), and the negative second derivatives in a and λ, (M,) each."""
        p = _ticking(slope, shift, deviation)
        h = (sums.asked * p * (1.0 - p)).sum(axis=1)
        bend = h.sum(axis=1) + 1.0 / self.spreads.shift
        curved = (h * LEVELS**2).sum(axis=1) + 1.0 / self.spreads.slope
        return sums.said - sums.asked * p, (bend, (h * LEVELS).sum(axis=1), curved)

    def penalty(self, at: MultiPoint) -> float:
        s, active = self.spreads, self.active
        people = active.any(axis=1)
        squares = (
            np.sum(at.shift[people] ** 2) / s.shift
            + np.sum((at.slope[people] - 1.0) ** 2) / s.slope
            + np.sum(at.deviation[active] ** 2) / s.deviation
        )
        return -0.5 * float(squares) + float(((SHARE_ITEMS * s.levels + 1e-3) * np.log(at.shares)).sum())

    def learn_spreads(self, at: MultiPoint) -> None:
        """Set the spreads and the crowd-wide shares to what this point suggests."""
        sums = self.e_step(at)[0].of_ticks
        _, (bend, mixed, curved) = self._curvature(sums, at.slope, at.shift, at.deviation)
        determinant, people = bend * curved - mixed * mixed, self.active.any(axis=1)
        p = _ticking(at.slope, at.shift, at.deviation)
        within = (sums.asked * p * (1.0 - p)).sum(axis=2) + 1.0 / self.spreads.deviation
        squares = (
            (at.shift**2 + curved / determinant)[people],
            ((at.slope - 1.0) ** 2 + bend / determinant)[people],
            (at.deviation**2 + 1.0 / within)[self.active] if self.G > 1 else np.empty(0),
        )
        a, slope, e = (
            (float(of.sum()) + SPREAD_ANNOTATORS * start**2) / (of.size + SPREAD_ANNOTATORS)
            for of, start in zip(squares, SPREADS, strict=True)
        )
        self.spreads = _Spreads(a, slope, e, self.counts.sum(axis=0) / max(self.counts.sum(), 1e-300))


def _ticking(slope: Floats, shift: Floats, deviation: Floats) -> Floats:
    """Return the probability that an annotator ticks a candidate of each kind and level, (M, G, J)."""
    odds = slope[:, None, None] * LEVELS + shift[:, None, None] + deviation[:, :, None]
    p: Floats = 1.0 / (1.0 + np.exp(-odds))
    return p


def _ascend(
    ticks: Ticks, n_annotators: int, max_iter: int, tol: float, callback: Callback | None
) -> tuple[_Model, MultiPoint, list[float], bool, float]:
    """Run the rounds of EM; return the model, where it ended, the history, whether it converged, the likelihood."""
    em = _Model(ticks, n_annotators)
    at, history, stopped = em.start, list[float](), False

    def report(progress: Progress) -> bool | None:
        nonlocal stopped
        stopped = callback is not None and callback(progress) is True
        return stopped

    for left in range(ROUNDS - 1, -1, -1):
        most = max_iter - len(history)
        end = Ascent(em, at, labels=ticks.annotator.size)
        end.run(max_iter=min(PASSES, most) if left else most, tol=tol, callback=report)
        at = end.at
        history += end.history
        if stopped or len(history) >= max_iter:
            return em, at, history, end.converged and not left, end.log_likelihood
        if left:
            em.learn_spreads(at)
    return em, at, history, end.converged, end.log_likelihood


# ---- after EM --------------------------------------------------------------------------------------------------------


def _spread(model: MultiModel, ticks: Ticks) -> float:
    """Return σ, the standard deviation of the level of true candidates around the mean of their option."""
    levels, _ = level_pass(ticks, model.log_odds(), np.log(model.shares), model.above)
    mass = np.zeros_like(model.shares)
    np.add.at(mass, ticks.kind, levels)
    mass *= model.above
    total = np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
    mean = (mass * LEVELS).sum(axis=1, keepdims=True) / total
    return float(np.sqrt((mass * (LEVELS - mean) ** 2).sum() / max(float(mass.sum()), 1e-300)))


def _dependent(model: MultiModel, ticks: Ticks) -> MultiModel:
    """Return the model with the weights of options that depend on each other."""
    # fitted once: a second fit would see its own effect on the probabilities
    levels = model.weigh(ticks, model.log_odds()).levels
    p = (levels * model.above[ticks.kind]).sum(axis=1).reshape(-1, len(model.shares))[np.diff(ticks.indptr) > 0]
    usual = p.mean(axis=0)
    return replace(model, pull=_regressions(p, p - usual), usual=usual)


def _regressions(p: Floats, centred: Floats) -> Floats:
    """Return ridge-regression weights of the log-odds of each option on the probabilities of the others, (G, G)."""
    G = p.shape[1]
    weights = np.zeros((G, G))
    for o in range(G):
        others = np.flatnonzero(np.arange(G) != o)
        X = np.column_stack([np.ones(len(p)), centred[:, others]])
        start = np.clip(p[:, o].mean(), 1e-4, 1.0 - 1e-4)
        weights[o, others] = _logistic(X, p[:, o], np.append(1e-6, np.full(G - 1, RIDGE)), np.log(start / (1 - start)))
    return weights


def _logistic(X: Floats, y: Floats, precision: Floats, intercept: float) -> Floats:
    """Return the coefficients of a logistic regression but the first, by Newton's method; y may be probabilities."""
    w = np.zeros(X.shape[1])
    w[0] = intercept
    for _ in range(_LOGISTIC_STEPS):
        f = 1.0 / (1.0 + np.exp(-X @ w))
        curvature = (X * (f * (1.0 - f))[:, None]).T @ X + np.diag(precision)
        w = w + np.clip(np.linalg.solve(curvature, X.T @ (y - f) - precision * w), -2.0, 2.0)
    rest: Floats = w[1:]
    return rest


def calibrated(model: MultiModel, probability: Floats, truth: Floats) -> MultiModel:
    """Return the model with probabilities calibrated on candidates of known truth (0 or 1)."""
    p = np.clip(probability, 1e-9, 1.0 - 1e-9)
    X = np.column_stack([np.ones(p.size), np.log(p / (1.0 - p))])
    w, prior, precision = np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array(PRECISION)
    for _ in range(50):
        f = 1.0 / (1.0 + np.exp(-X @ w))
        curvature = (X * (f * (1.0 - f))[:, None]).T @ X + np.diag(precision)
        w = w + np.clip(np.linalg.solve(curvature, X.T @ (truth - f) - precision * (w - prior)), -1.0, 1.0)
    return replace(model, calibration=(float(w[0]), float(max(w[1], 0.0))))
