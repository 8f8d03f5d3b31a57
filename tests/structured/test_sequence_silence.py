"""Sequences where silence is a label: the same as listing every silence, and better than votes on functions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.span_functions import draw, f1

import consilience as cs
from consilience import SequenceAnnotations, SequenceConsensus, SequenceRun
from consilience.data.silence import filled
from consilience.exceptions import DataError, ParameterError
from consilience.models.chain_mixture import ChainMixture
from consilience.models.hidden_markov import HiddenMarkov, SilentChains, chain_sweep
from consilience.structured.baum_welch import ModeStep
from consilience.structured.chain_fit import fit_chain, forbidden, statistics_of

ROWS = [("s", 3, "f", "B-x"), ("s", 4, "f", "I-x"), ("s", 4, "g", "B-x"), ("t", 1, "g", "B-x"), ("t", 6, "g", "B-x")]


def table(rows: Any = ROWS) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["sequence", "position", "worker", "label"])


def listed(sequences: SequenceAnnotations) -> SequenceAnnotations:
    """The same labels, every silence a label of its own."""
    assert sequences.silence is not None
    label = sequences.tokens.class_ids[sequences.silence]
    return replace(sequences, tokens=filled(sequences.tokens, label), silence=None)


def few(seed: int, *, gold: bool = False, explicit: bool = False) -> SequenceAnnotations:
    """Labels of a few short sequences, some of which say O; class 0 is silence."""
    rng = np.random.default_rng(seed)
    said = np.where(rng.random((40, 5)) < 0.3, rng.integers(0 if explicit else 1, 3, (40, 5)), -1)
    tokens = cs.Annotations.from_matrix(said).with_class(0)
    if gold:
        tokens = tokens.with_gold(np.where(rng.random(40) < 0.2, rng.integers(0, 3, 40), -1))
    ids = cs.SequenceAnnotations.from_frame(table()).position_ids
    made = SequenceAnnotations(tokens, np.array([0, 9, 10, 40]), ids.range(3), np.r_[0:9, 0:1, 0:30], ids.range(30))
    return made.with_silence(0)


def aggregate(data: Any, method: str = "auto", **options: Any) -> SequenceRun:
    run = cs.aggregate(data, method, **options)
    assert isinstance(run, SequenceRun)
    return run


def chain(seed: int, sequences: SequenceAnnotations) -> HiddenMarkov:
    rng, a = np.random.default_rng(seed), sequences.tokens
    parts = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3).T, rng.dirichlet(np.ones(3), (5, 1, 3))
    return HiddenMarkov(*parts[:2], parts[2].transpose(0, 1, 3, 2), a.class_ids, a.annotator_ids)


@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("explicit", [False, True])
def test_a_chain_is_the_same_as_with_every_silence_listed(gold: bool, explicit: bool) -> None:
    sequences = few(1, gold=gold, explicit=explicit)
    dense, model = listed(sequences), chain(2, sequences)
    posterior, likelihood = model.posterior_and_likelihood(sequences)
    expected, expected_likelihood = model.posterior_and_likelihood(dense)
    np.testing.assert_allclose(posterior, expected, atol=1e-12)
    assert likelihood == pytest.approx(expected_likelihood, rel=1e-12)
    np.testing.assert_array_equal(model.decode(sequences), model.decode(dense))
    at = model.start, model.transitions, model.emissions[:, 0]
    for found, wanted in zip(*(chain_sweep(s, context=False, states=1)(*at) for s in (sequences, dense)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_baum_welch_takes_the_same_way_as_with_every_silence_listed() -> None:
    sequences = few(3)
    options: dict[str, Any] = {"max_iter": 15, "tol": 0.0, "callback": None, "cluster": None}
    fits = []
    for each in (sequences, listed(sequences)):
        sweep = chain_sweep(each, context=False, states=1)
        begin = statistics_of(each, sweep, sequences.vote_shares())
        fits.append(fit_chain(each, sweep, begin, ModeStep(3, 0.3, 0.1), **options))
    np.testing.assert_allclose(fits[0].history, fits[1].history, rtol=1e-10)
    np.testing.assert_allclose(fits[0].model.chains[0].emissions, fits[1].model.chains[0].emissions, atol=1e-9)


def test_an_impossible_silence_of_many_does_not_underflow() -> None:
    # 400 functions that never overlook the class: one silence each rules it out by more than numbers can hold
    M = 400
    sequences = SequenceAnnotations.from_frame(
        table([("s", n, f"f{m}", "B") for n in (1, 3) for m in range(M)] + [("s", 5, "f0", "B")])
    ).with_silence("O")
    emissions = np.empty((M, 1, 2, 2))
    emissions[:, 0] = [[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]]
    a = sequences.tokens
    model = HiddenMarkov(np.full(2, 0.5), np.full((2, 2), 0.5), emissions, a.class_ids, a.annotator_ids)
    best = a.classes[model.decode(sequences)]
    np.testing.assert_array_equal(best, ["B", "O", "B", "O", "O"])
    assert np.isfinite(model.log_likelihood(sequences))


def test_silence_makes_tokens_of_positions_that_nobody_labelled() -> None:
    sequences = SequenceAnnotations.from_frame(table()).with_silence("O")
    assert list(sequences.tokens.classes) == ["B-x", "I-x", "O"]
    assert sequences.tokens.classes[sequences.silence] == "O"
    np.testing.assert_array_equal(sequences.lengths, [4, 6])  # from 1, the lowest of all, to the last labelled
    frame = sequences.to_frame("pandas").sort_values(["sequence", "position", "worker"])
    assert list(frame.itertuples(index=False, name=None)) == sorted(ROWS)
    votes = sequences.vote_shares()
    np.testing.assert_array_equal(votes[0], [0, 0, 1])
    np.testing.assert_array_equal(votes[3], [0.5, 0.5, 0])


def test_positions_that_are_times_are_refused() -> None:
    rows = [("s", 1_700_000_000 * (n + 1), "f", "B") for n in range(2)]
    with pytest.raises(DataError, match="numbered one by one"):
        SequenceAnnotations.from_frame(table(rows)).with_silence("O")


def test_more_tokens_leave_labels_and_truths_where_they_were() -> None:
    before = SequenceAnnotations.from_frame(table()).with_gold(table([("s", 4, "", "B-x")]))
    more = pd.DataFrame({"sequence": ["t", "u", "s"], "position": [3, 2, 4]})
    after = before.with_tokens_of(more)
    assert after.n_tokens == before.n_tokens + 2
    assert list(after.sequences) == ["s", "t", "u"]
    pd.testing.assert_frame_equal(after.to_frame("pandas"), before.to_frame("pandas"))
    assert after.tokens.gold is not None
    known = np.flatnonzero(after.tokens.gold >= 0)
    assert list(zip(after.sequence_of_token()[known], after.position_ids.take(after.position[known]), strict=True)) == [
        (0, 4)
    ]


@pytest.fixture(scope="module")
def functions() -> list[tuple[SequenceAnnotations, Any, SequenceRun]]:
    return [(*(drawn := draw(seed)), aggregate(drawn[0])) for seed in range(100, 115)]


def test_functions_for_names_are_better_than_their_votes(functions: Any) -> None:
    votes = [f1(s, s.vote_shares().argmax(axis=1), truth) for s, truth, _ in functions]
    found = [f1(s, run.choice.best, truth) for s, truth, run in functions]
    assert np.mean(found) > np.mean(votes) + 0.5
    assert (np.array(found) - np.array(votes)).min() > -1.0


def test_the_result_is_the_mean_of_chain_and_votes(functions: Any) -> None:
    sequences, _, run = functions[0]
    assert run.chains.votes
    alone = run.chains.chains[0].posterior(sequences)
    np.testing.assert_allclose(run.posterior, (alone + sequences.vote_shares()) / 2, atol=1e-12)


def test_a_run_is_loaded_as_it_was_saved(functions: Any, tmp_path: Path) -> None:
    sequences, _, run = functions[1]
    run.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert isinstance(again, SequenceRun)
    assert again.chains.votes
    assert again.sequences.silence == sequences.silence
    np.testing.assert_allclose(again.chains.posterior(sequences), run.posterior, atol=1e-12)
    assert set(run.annotators["flags"]) <= {"", "few labels"}  # who names one class is no spammer


def test_tokens_that_only_the_truth_has_count_as_silence() -> None:
    rows = [("s", n, f, tag) for n, tag in ((2, "B-x"), (3, "I-x")) for f in "fgh"]
    run = aggregate(SequenceAnnotations.from_frame(table(rows)), silence="O")
    truth = table(
        [("s", 2, "", "B-x"), ("s", 3, "", "I-x"), ("s", 5, "", "B-x"), ("u", 1, "", "B-x"), ("u", 2, "", "O")]
    )
    scores = run.span_scores(truth)
    assert scores.precision == 1.0
    assert scores.recall == pytest.approx(1 / 3)
    assert run.error_rate(truth) == pytest.approx(100 * 2 / 5)
    assert list(run.labels["label"]) == ["B-x", "I-x"]


def test_new_sequences_are_judged_as_the_fitted_ones() -> None:
    sequences, _ = draw(100)
    frame = sequences.to_frame("pandas")
    model = SequenceConsensus(silence="O").fit(frame)
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    np.testing.assert_allclose(model.predict_proba(frame), model.probas_, atol=1e-12)


def test_other_methods_list_silence() -> None:
    sequences, _ = draw(101)
    run = aggregate(sequences, "ds-em+hmm")
    dense = aggregate(listed(sequences), "ds-em+hmm")
    np.testing.assert_allclose(run.posterior, dense.posterior, atol=1e-7)
    assert run.run["silence"] == "O"


def test_known_tokens_that_nobody_labelled_show_what_silence_is_worth() -> None:
    sequences, truth = draw(102)
    names = pa_frame(sequences, truth)
    frame = sequences.to_frame("pandas")
    run = aggregate(SequenceAnnotations.from_frame(frame), silence="O", gold=names[names.index % 3 == 0])
    gold = run.sequences.tokens.gold
    assert gold is not None
    assert (gold >= 0).sum() == (names.index % 3 == 0).sum()
    np.testing.assert_array_equal(run.choice.best[gold >= 0], gold[gold >= 0])


def pa_frame(sequences: SequenceAnnotations, truth: Any) -> pd.DataFrame:
    columns = {name: np.asarray(column) for name, column in sequences.token_columns().items()}
    return pd.DataFrame({**columns, "label": sequences.tokens.classes[truth]})


def test_what_cannot_be_is_refused() -> None:
    sequences = SequenceAnnotations.from_frame(table())
    with pytest.raises(ParameterError, match="did you mean 'informative'"):
        aggregate(sequences, silence="infromative")
    with pytest.raises(ParameterError, match="must be a label such as 'O'"):
        aggregate(sequences, silence="informative")
    spoken = sequences.with_silence("O")
    assert isinstance(chain_sweep(spoken, context=False, states=1), SilentChains)
    with pytest.raises(ParameterError, match="cannot depend on the one before"):
        chain_sweep(spoken, context=True, states=1)


def test_public_functions_for_names_of_diseases(data_folder: Path) -> None:
    folder = data_folder / "ws_ner_ncbi"
    sequences = cs.read_sequences(folder / "labels.csv.gz")
    run = aggregate(sequences, silence="O")
    scores = run.span_scores(cs.read_sequence_truth(folder / "truth.csv.gz", like=sequences))
    assert scores.f1 >= 0.78  # 0.807 when written; votes have 0.690


def test_the_verdict_does_not_miss_labels_of_the_class_that_silence_stands_for() -> None:
    sequences, _ = draw(103)
    assert sequences.silence is not None
    assert not (sequences.tokens.label == sequences.silence).any()
    verdict = aggregate(sequences).diagnosis
    assert verdict.verdict == "weakly"
    said = " ".join(verdict.reasons)
    assert "choose when to speak" in said
    assert "Nobody used" not in said


def test_a_mixture_without_votes_is_unchanged() -> None:
    sequences, _ = draw(103)
    run = aggregate(sequences)
    alone = ChainMixture(run.chains.chains)
    np.testing.assert_array_equal(
        alone.decode(sequences, alone.posterior(sequences), forbidden(sequences)),
        run.chains.chains[0].decode(sequences, forbidden(sequences)),
    )
