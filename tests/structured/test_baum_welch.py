"""The M-steps against plain loops and closed forms, and objectives that never fall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, psi

import consilience as cs
from consilience.kernels.chains import ChainStatistics
from consilience.models.chain_mixture import Never
from consilience.models.hidden_markov import chain_sweep
from consilience.structured.baum_welch import ChainMStep, ModeStep, run_baum_welch
from consilience.structured.chain_beliefs import ChainBeliefs
from consilience.structured.chain_fit import statistics_of


def counted(M: int = 3, C: int = 1, K: int = 3, H: int = 3, seed: int = 0) -> ChainStatistics:
    rng = np.random.default_rng(seed)
    return ChainStatistics(
        rng.gamma(1.0, 5.0, (M, C * K, H)),
        rng.gamma(1.0, 5.0, H),
        rng.gamma(1.0, 5.0, H),
        rng.gamma(1.0, 5.0, (H, H)),
        -1.0,
    )


def test_without_a_prior_the_mode_is_the_share_of_the_counts() -> None:
    statistics = counted()
    (start, transitions, emissions), extra = ModeStep(3)(statistics)
    for k in range(3):
        np.testing.assert_allclose(transitions[:, k], statistics.pairs[:, k] / statistics.pairs[:, k].sum())
        for m in range(3):
            np.testing.assert_allclose(
                emissions[m, :, k], statistics.counts[m, :, k] / statistics.counts[m, :, k].sum()
            )
    np.testing.assert_allclose(start, statistics.starts / statistics.starts.sum())
    assert extra == 0.0


@pytest.mark.parametrize("bayes", [False, True])
def test_what_is_forbidden_stays_at_zero(bayes: bool) -> None:
    never = Never(np.array([False, True, False]), np.eye(3, dtype=bool)[::-1])
    step: ChainMStep = ChainBeliefs(np.ones((1, 3, 3)), never) if bayes else ModeStep(3, 1.0, 1.0, never)
    statistics = counted()
    tables, means = step(statistics)[0], step.means(statistics)
    for parameters in (tables, means):
        assert (parameters.transitions[never.pair] == 0).all()
        assert (parameters.start[never.start] == 0).all()
        assert (parameters.transitions[~never.pair] > 0).all()
    np.testing.assert_allclose(means.transitions.sum(axis=0), 1.0)


def test_a_class_that_was_never_counted_is_spread_evenly() -> None:
    statistics = counted()
    statistics.pairs[:, 1] = 0.0
    (_, transitions, _), _ = ModeStep(3)(statistics)
    np.testing.assert_allclose(transitions[:, 1], 1 / 3)


def kl_of_dirichlets(a: Any, b: Any) -> float:
    """The textbook form, for one pair of parameter vectors."""
    both = gammaln(a.sum()) - gammaln(a).sum() - gammaln(b.sum()) + gammaln(b).sum()
    return float(both + ((a - b) * (psi(a) - psi(a.sum()))).sum())


def test_the_divergence_is_that_of_dirichlets() -> None:
    statistics = counted(C=2, K=2, H=2, seed=3)
    pseudo = np.random.default_rng(1).gamma(2.0, 1.0, (2, 2, 2))
    _, extra = ChainBeliefs(pseudo)(statistics)
    counts = statistics.counts.reshape(3, 2, 2, 2)
    expected = kl_of_dirichlets(1 + statistics.starts, np.ones(2))
    expected += sum(kl_of_dirichlets(1 + statistics.pairs[:, k], np.ones(2)) for k in range(2))
    for m in range(3):
        for c in range(2):
            for h in range(2):
                expected += kl_of_dirichlets(pseudo[c, :, h] + counts[m, c, :, h], pseudo[c, :, h])
    assert extra == pytest.approx(-expected, rel=1e-10)


@pytest.mark.parametrize("bayes", [False, True])
@pytest.mark.parametrize(("context", "states"), [(False, 1), (True, 1), (True, 2)])
@pytest.mark.parametrize("gold", [False, True])
def test_the_objective_never_falls(bayes: bool, context: bool, states: int, gold: bool) -> None:
    crowd = cs.datasets.simulate_sequences(60, (1, 20), 5, 3, stickiness=0.4, label_probability=0.6, seed=1)
    sequences = crowd.annotations
    if gold:
        known = np.full(sequences.n_tokens, -1)
        known[::7] = crowd.truth[::7]
        sequences = sequences.with_gold(known)
    sweep = chain_sweep(sequences, context=context, states=states)
    C, H = sweep.shape[1] // 3, sweep.shape[2]
    begin = statistics_of(sequences, sweep, np.random.default_rng(0).dirichlet(np.ones(H), sequences.n_tokens))
    never = Never(np.zeros(H, bool), np.zeros((H, H), bool))
    never.pair[0, H - 1] = not gold  # gold may contradict it
    pseudo = np.random.default_rng(1).gamma(2.0, 0.3, (C, 3, H)) + 0.1
    step: ChainMStep = ChainBeliefs(pseudo, never) if bayes else ModeStep(3, pseudo, 0.5, never)
    result = run_baum_welch(sweep, begin, step, max_iter=60, tol=0)
    assert len(result.history) == 60
    assert np.diff(result.history).min() > -1e-8 * abs(result.history[-1])
    assert result.history[-1] > result.history[0] + 1.0


def test_it_stops_when_the_tolerance_is_met_or_somebody_asks() -> None:
    crowd = cs.datasets.simulate_sequences(30, 10, 4, 2, stickiness=0.6, seed=2)
    sweep = chain_sweep(crowd.annotations, context=False, states=1)
    begin = statistics_of(crowd.annotations, sweep, np.random.default_rng(0).dirichlet(np.ones(2), 300))
    met = run_baum_welch(sweep, begin, ModeStep(2, 0.1, 0.1), max_iter=500, tol=1e-6)
    assert met.converged
    assert len(met.history) < 500
    ran_out = run_baum_welch(sweep, begin, ModeStep(2, 0.1, 0.1), max_iter=2, tol=1e-12)
    assert not ran_out.converged
    assert len(ran_out.history) == 2
    asked = run_baum_welch(sweep, begin, ModeStep(2), max_iter=500, tol=0, callback=lambda state: state.iteration == 3)
    assert not asked.converged
    assert len(asked.history) == 3
