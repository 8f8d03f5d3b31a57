"""Chains of tokens that differ in ease: the states they become, the plain chain as a special case, names overlooked."""

from __future__ import annotations

import numpy as np
import pytest

import consilience as cs
from consilience import SequenceAnnotations
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Ints
from consilience.kernels.chains import ChainStatistics
from consilience.models.chain_mixture import Never
from consilience.models.ease import Ease
from consilience.models.hidden_markov import chain_sweep
from consilience.spans import span_scores
from consilience.structured.baum_welch import run_baum_welch
from consilience.structured.chain_beliefs import ChainBeliefs
from consilience.structured.chain_fit import forbidden, statistics_of
from consilience.structured.eased_beliefs import EasedBeliefs
from consilience.structured.sequence_auto import continues_span, eased_labels, fit_bayes

TAGS = ["O", "B-x", "I-x", "B-y", "I-y"]


def overlooked(n_sequences: int, spread: float, seed: int) -> tuple[SequenceAnnotations, Ints]:
    """Sentences of twenty tokens by eight annotators, who overlook some names more often than others, all of them."""
    rng = np.random.default_rng(seed)
    M, length = 8, 20
    truth = np.zeros((n_sequences, length), int)
    logit = np.zeros((n_sequences, length))  # of overlooking the token, beyond the annotator's own
    for n in range(n_sequences):
        t = 1
        while t < length - 3:
            t += int(rng.integers(1, 5))
            kind, long = 1 + 2 * int(rng.integers(2)), int(rng.integers(1, 4))
            stop = min(t + long, length)
            truth[n, t:stop] = kind + 1
            if t < length:
                truth[n, t] = kind
            logit[n, t:stop] = spread * rng.standard_normal()
            t = stop
    misses = rng.uniform(-1.5, 0.5, M)
    rows = []
    for n in range(n_sequences):
        for m in range(M):
            # a name is overlooked or seen as a whole
            miss, said = False, np.zeros(length, int)
            for t in range(length):
                k = truth[n, t]
                if k in (1, 3):
                    miss = bool(rng.random() < 1 / (1 + np.exp(-misses[m] - logit[n, t])))
                said[t] = 0 if k == 0 or miss else k
                if k == 0 and rng.random() < 0.02:
                    said[t] = 1 + 2 * int(rng.integers(2))
            rows.append(said)
    labels = np.array(rows).reshape(n_sequences, M, length)
    frame = {
        "sequence": np.repeat(np.arange(n_sequences), M * length),
        "position": np.tile(np.arange(length), n_sequences * M),
        "annotator": np.tile(np.repeat([f"a{m}" for m in range(M)], length), n_sequences),
        "label": np.array(TAGS)[labels.ravel()],
    }
    import pandas as pd

    sequences = SequenceAnnotations.from_frame(pd.DataFrame(frame))
    codes = np.array([list(sequences.tokens.class_ids).index(tag) for tag in TAGS])
    return sequences, codes[truth.ravel()]


def test_a_state_becomes_three_and_a_name_keeps_its_ease() -> None:
    rng = np.random.default_rng(0)
    M, C, K, H = 2, 1, 3, 3
    ease = Ease(0.8, np.zeros(3, int))
    lasting = np.zeros((3, 3), bool)
    lasting[2, 1] = True
    step = EasedBeliefs(np.full((C, K, H), 0.5), None, ease, lasting)
    counts = ChainStatistics(
        rng.gamma(1.0, 3.0, (M, C * K, 9)), rng.random(9), rng.random(9), rng.gamma(1.0, 3.0, (9, 9)), 0.0
    )
    step(counts)
    mean = step.means(counts)
    np.testing.assert_allclose(mean.start.sum(), 1.0)
    np.testing.assert_allclose(mean.transitions.sum(axis=0), 1.0)
    np.testing.assert_allclose(mean.emissions.reshape(M, K, 9).sum(axis=1), 1.0)
    T = mean.transitions.reshape(3, 3, 3, 3)  # [i, x', h, x]
    np.testing.assert_allclose(T[0, :, 1] / T[0, :, 1].sum(axis=0), np.repeat(ease.shares[:, None], 3, axis=1))
    np.testing.assert_allclose(T[2, :, 1] / T[2, :, 1].sum(axis=0), np.eye(3))
    # the odds of the label that ease is about change by exp(σ x), those of the others among each other do not
    E = mean.emissions.reshape(M, K, 3, 3)
    np.testing.assert_allclose(
        (E[:, 0] / E[:, 1])[..., 2] / (E[:, 0] / E[:, 1])[..., 1], np.exp(0.8 * np.sqrt(3)), rtol=1e-10
    )
    np.testing.assert_allclose((E[:, 2] / E[:, 1])[..., 2], (E[:, 2] / E[:, 1])[..., 0], rtol=1e-10)


def test_without_spread_it_is_the_plain_chain() -> None:
    sequences, _ = overlooked(40, 0.0, seed=1)
    K = sequences.tokens.n_classes
    never = forbidden(sequences)
    sweep = chain_sweep(sequences, context=True, states=1)
    begin = statistics_of(sequences, sweep, vote_posterior(sequences.tokens))
    pseudo = np.full((K + 1, K, K), 0.4)
    plain = run_baum_welch(sweep, begin, ChainBeliefs(pseudo, never), max_iter=10, tol=0)
    none = Ease(0.0, np.arange(K))
    eased = EasedBeliefs(pseudo, never, none, np.zeros((K, K), bool))
    same = run_baum_welch(sweep, begin, eased, max_iter=10, tol=0)
    np.testing.assert_allclose(same.history, plain.history, rtol=1e-10)
    for ours, theirs in zip(same.parameters, plain.parameters, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def f1(sequences: SequenceAnnotations, truth: Ints, spread: float) -> tuple[float, float, list[float]]:
    """Span F1 and the objective of one chain."""
    never, votes = forbidden(sequences), vote_posterior(sequences.tokens)
    fit = fit_bayes(sequences, votes, never, context=True, states=1, spread=spread, max_iter=200, tol=1e-6)
    labels = fit.model.decode(sequences, fit.model.posterior(sequences), never)
    scores = span_scores(labels, truth, sequences.indptr, sequences.tokens.class_ids)
    return 100 * scores.f1, fit.history[-1], fit.history


def test_names_that_all_overlook_are_found_more_often() -> None:
    sequences, truth = overlooked(200, 2.5, seed=2)
    plain, bound, _ = f1(sequences, truth, 0.0)
    eased, objective, history = f1(sequences, truth, 1.3)
    assert objective > bound + 50
    assert eased > plain + 1.0
    # it is a bound nearly, not exactly: from its top it falls by a thousandth, and comes to rest
    assert np.diff(history).min() > -5e-4 * abs(history[-1])
    assert max(history) - history[-1] < 1e-3 * abs(history[-1])


def test_auto_sees_whether_names_differ() -> None:
    found = {}
    for spread in (0.0, 2.5):
        sequences, _ = overlooked(100, spread, seed=3)
        told = cs.aggregate(sequences).run
        assert "four chains averaged" in told["chosen"]
        found[spread] = told["gain_of_hard_tokens"]
        assert ("harder than others" in told["why"]) == (spread > 0)
    assert found[0.0] < 0 < found[2.5]


def test_ease_is_about_what_is_outside_of_spans_else_about_the_right_label() -> None:
    sequences, _ = overlooked(3, 0.0, seed=4)
    classes = list(sequences.tokens.class_ids)
    assert set(eased_labels(sequences)) == {classes.index("O")}
    on = continues_span(sequences, backward=False)
    pairs = {(str(classes[i]), str(classes[k])) for i, k in zip(*np.nonzero(on), strict=True)}
    assert pairs == {("I-x", "B-x"), ("I-x", "I-x"), ("I-y", "B-y"), ("I-y", "I-y")}
    np.testing.assert_array_equal(continues_span(sequences, backward=True), on.T)
    frames = cs.datasets.simulate_sequences(5, 10, 4, 3, seed=1).annotations
    np.testing.assert_array_equal(eased_labels(frames), [0, 1, 2])
    assert not continues_span(frames, backward=False).any()


@pytest.mark.parametrize("states", [1, 2])
def test_what_cannot_be_stays_so(states: int) -> None:
    sequences, _ = overlooked(20, 1.0, seed=5)
    never, votes = forbidden(sequences), vote_posterior(sequences.tokens)
    fit = fit_bayes(sequences, votes, never, context=True, states=states, spread=1.3, max_iter=5, tol=0.0)
    chain = fit.model.chains[0]
    assert chain.states == 3 * states
    assert isinstance(never, Never)
    assert (chain.class_transitions[never.pair] == 0).all()
    assert (chain.start.reshape(-1, 3 * states)[never.start] == 0).all()
