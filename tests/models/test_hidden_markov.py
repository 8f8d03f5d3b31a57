"""The chain's probabilities against enumeration, the crowd model, and itself read backwards."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import consilience as cs
from consilience import DawidSkene, HiddenMarkov, SequenceAnnotations
from consilience.exceptions import ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.models.hidden_markov import labels_in_context


def crowd(
    seed: int = 0, n_sequences: int = 4, length: tuple[int, int] = (1, 4), M: int = 3, K: int = 2
) -> SequenceAnnotations:
    return cs.datasets.simulate_sequences(
        n_sequences, length, M, K, label_probability=0.7, by_token=True, seed=seed
    ).annotations


def chain(
    sequences: SequenceAnnotations, *, context: bool, states: int, seed: int = 0, backward: bool = False
) -> HiddenMarkov:
    a = sequences.tokens
    rng = np.random.default_rng(seed)
    K, H, C = a.n_classes, a.n_classes * states, a.n_classes + 1 if context else 1
    emissions = rng.dirichlet(np.ones(K), (a.n_annotators, C, H)).swapaxes(2, 3)
    transitions = rng.dirichlet(np.ones(H), H).T
    return HiddenMarkov(rng.dirichlet(np.ones(H)), transitions, emissions, a.class_ids, a.annotator_ids, backward)


def context_by_loop(sequences: SequenceAnnotations) -> Ints:
    a = sequences.tokens
    said: dict[tuple[int, int], int] = {}
    codes = []
    for s in range(sequences.n_sequences):
        for n in range(sequences.indptr[s], sequences.indptr[s + 1]):
            for i in range(a.indptr[n], a.indptr[n + 1]):
                m, label = int(a.annotator[i]), int(a.label[i])
                first = n == sequences.indptr[s]
                before = a.n_classes if first else said.get((n - 1, m), a.n_classes)
                codes.append(before * a.n_classes + label)
                said[n, m] = label
    return np.array(codes)


@pytest.mark.parametrize("seed", range(4))
def test_contexts_are_what_the_same_annotator_said_before(seed: int) -> None:
    sequences = crowd(seed, n_sequences=20, length=(1, 9), M=5, K=3)
    np.testing.assert_array_equal(labels_in_context(sequences), context_by_loop(sequences))


def enumerate_paths(model: HiddenMarkov, sequences: SequenceAnnotations) -> tuple[Floats, float]:
    """Sum over every path of hidden states, sequence by sequence."""
    a = sequences.tokens
    K, H, Z = len(model.classes), model.start.size, model.states
    symbol = context_by_loop(sequences) if model.context else np.asarray(a.label)
    posterior, log_likelihood = np.zeros((a.n_items, K)), 0.0
    for s in range(sequences.n_sequences):
        first, stop = sequences.indptr[s : s + 2]
        total, mass = 0.0, np.zeros((stop - first, K))
        for path in product(range(H), repeat=stop - first):
            p = model.start[path[0]]
            for step, state in enumerate(path):
                n = first + step
                if step:
                    p *= model.transitions[state, path[step - 1]]
                for i in range(a.indptr[n], a.indptr[n + 1]):
                    context, label = divmod(int(symbol[i]), K)
                    p *= model.emissions[a.annotator[i], context, label, state]
                if a.gold is not None and a.gold[n] >= 0 and a.gold[n] != state // Z:
                    p = 0.0
            total += p
            for step, state in enumerate(path):
                mass[step, state // Z] += p
        posterior[first:stop] = mass / total
        log_likelihood += np.log(total)
    return posterior, log_likelihood


@pytest.mark.parametrize("states", [1, 2])
@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_posterior_and_likelihood_are_sums_over_all_paths(context: bool, states: int, known: bool) -> None:
    sequences = crowd()
    if known:
        gold = np.full(sequences.n_tokens, -1)
        gold[::3] = 1
        sequences = sequences.with_gold(gold)
    model = chain(sequences, context=context, states=states)
    posterior, log_likelihood = model.posterior_and_likelihood(sequences)
    expected, expected_likelihood = enumerate_paths(model, sequences)
    np.testing.assert_allclose(posterior, expected, atol=1e-12)
    assert log_likelihood == pytest.approx(expected_likelihood, rel=1e-12)
    if known:
        np.testing.assert_array_equal(posterior[::3], np.tile([0.0, 1.0], (len(posterior[::3]), 1)))


def test_where_every_truth_is_drawn_anew_the_chain_is_the_crowd_model() -> None:
    sequences = crowd(3, n_sequences=60, length=(1, 30), M=6, K=4)
    rng = np.random.default_rng(0)
    prior = rng.dirichlet(np.ones(4))
    confusions = rng.dirichlet(np.ones(4), (6, 4)).swapaxes(1, 2)
    a = sequences.tokens
    alone = DawidSkene(prior, confusions, a.class_ids, a.annotator_ids)
    same = HiddenMarkov(prior, np.repeat(prior[:, None], 4, axis=1), confusions[:, None], a.class_ids, a.annotator_ids)
    posterior, log_likelihood = same.posterior_and_likelihood(sequences)
    expected, expected_likelihood = alone.posterior_and_likelihood(a)
    np.testing.assert_allclose(posterior, expected, atol=1e-10)
    assert log_likelihood == pytest.approx(expected_likelihood, rel=1e-10)


def test_a_chain_read_backwards_is_the_chain_of_turned_sequences() -> None:
    sequences = crowd(5, n_sequences=10, length=(1, 8), M=4, K=3)
    forward = chain(sequences, context=True, states=2)
    backward = chain(sequences, context=True, states=2, backward=True)
    turned = sequences.turned()
    np.testing.assert_array_equal(turned[turned], np.arange(sequences.n_tokens))
    np.testing.assert_allclose(backward.posterior(sequences)[turned], forward.posterior(sequences.backwards()))
    np.testing.assert_array_equal(backward.decode(sequences)[turned], forward.decode(sequences.backwards()))


def test_decoding_keeps_out_what_is_forbidden() -> None:
    sequences = crowd(7, n_sequences=200, length=(2, 12), M=4, K=3)
    model = chain(sequences, context=False, states=2)
    never_start, never_pair = np.array([False, True, False]), np.zeros((3, 3), bool)
    never_pair[1, 0] = True
    free, held = model.decode(sequences), model.decode(sequences, (never_start, never_pair))
    later = np.setdiff1d(np.arange(sequences.n_tokens), sequences.indptr[:-1])

    def broken(path: Ints) -> int:
        return int((path[sequences.indptr[:-1]] == 1).sum() + ((path[later] == 1) & (path[later - 1] == 0)).sum())

    assert broken(free) > 0
    assert broken(held) == 0


def test_an_unknown_annotator_is_the_average_one() -> None:
    sequences = crowd(9, n_sequences=5, length=(2, 5), M=3, K=2)
    a = sequences.tokens
    model = chain(sequences, context=False, states=1)
    average = HiddenMarkov(
        model.start,
        model.transitions,
        np.repeat(model.emissions.mean(axis=0, keepdims=True), 3, axis=0),
        a.class_ids,
        ["x", "y", "z"],  # type: ignore[arg-type]
    )
    frame = sequences.to_frame("pandas")
    frame["annotator"] = frame["annotator"].map(dict(zip(a.annotators, "xyz", strict=True)))
    strangers = SequenceAnnotations.from_frame(frame)
    np.testing.assert_allclose(model.posterior(strangers), average.posterior(strangers), atol=1e-12)


def test_classes_follow_each_other_as_their_states_do() -> None:
    sequences = crowd(M=2, K=3)
    model = chain(sequences, context=False, states=2, seed=4)
    rng = np.random.default_rng(0)
    state, seen = 0, np.zeros((3, 3))
    cumulative = np.cumsum(model.transitions, axis=0)
    for _ in range(100_000):
        after = int(np.searchsorted(cumulative[:, state], rng.random()))
        seen[after // 2, state // 2] += 1
        state = after
    np.testing.assert_allclose(model.class_transitions, seen / seen.sum(axis=0), atol=0.01)


def test_parameters_must_belong_together() -> None:
    model = chain(crowd(), context=False, states=1)
    with pytest.raises(ParameterError, match="need transitions of shape"):
        HiddenMarkov(model.start, model.transitions[:1], model.emissions, model.classes, model.annotators)
    with pytest.raises(ParameterError, match="sum to one"):
        HiddenMarkov(model.start, model.transitions * 2, model.emissions, model.classes, model.annotators)
