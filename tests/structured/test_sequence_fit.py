"""Chains fitted to crowds: what is recovered, what is chosen, and what must not matter."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import quietly

import consilience as cs
from consilience import SequenceAnnotations, SequenceConsensus
from consilience.datasets import simulate_sequences
from consilience.exceptions import ConvergenceWarning, FewLabelsWarning, ParameterError
from consilience.kernels._arrays import Floats, Ints
from consilience.structured.chain_fit import forbidden
from consilience.structured.sequence_fit import fit_sequences, split_name


def test_transitions_and_confusions_come_out_as_they_were_put_in() -> None:
    errors = []
    for n_sequences in (20, 200, 2000):
        crowd = simulate_sequences(n_sequences, 50, 10, 4, stickiness=0.5, seed=3)
        chain = fit_sequences(crowd.annotations, "ds-em+hmm+em").model.chains[0]
        errors.append(
            (
                np.abs(chain.transitions - crowd.transitions).sum(axis=0).max(),
                np.abs(chain.emissions[:, 0] - crowd.model.confusions).sum(axis=1).mean(),
            )
        )
    assert errors[2] < errors[1] < errors[0]
    assert errors[2][0] < 0.03
    assert errors[2][1] < 0.03


@pytest.mark.parametrize("method", ["ds-em+hmm+em", "auto"])
def test_labels_are_nearly_as_good_as_those_of_the_true_model(method: str) -> None:
    crowd = simulate_sequences(400, 50, 10, 4, stickiness=0.3, seed=5)
    sequences = crowd.annotations
    oracle = cs.HiddenMarkov(
        crowd.start,
        crowd.transitions,
        crowd.model.confusions[:, None],
        sequences.tokens.class_ids,
        sequences.tokens.annotator_ids,
    ).decode(sequences)
    run = cs.aggregate(sequences, method)
    right = (run.choice.best == crowd.truth).mean()
    assert right > (oracle == crowd.truth).mean() - 0.005
    alone = cs.aggregate(sequences.tokens, "ds-em")
    assert right > (alone.choice.best == crowd.truth).mean() + 0.005


def test_em_goes_on_from_the_moments_and_is_better_by_its_own_measure() -> None:
    crowd = simulate_sequences(100, 30, 6, 3, stickiness=0.6, seed=6)
    moments = fit_sequences(crowd.annotations, "ds-em+hmm")
    refined = fit_sequences(crowd.annotations, "ds-em+hmm+em")
    assert moments.history == []
    assert refined.log_likelihood > moments.log_likelihood
    assert np.diff(refined.history).min() > -1e-8 * abs(refined.history[-1])


def errors_in_runs(
    seed: int = 0, n_sequences: int = 300, length: int = 20, M: int = 8
) -> tuple[SequenceAnnotations, Ints]:
    """Annotators who, once wrong, go on saying the same: the next label repeats the last with probability 0.6."""
    rng, length, M = np.random.default_rng(seed), 20, 8
    truth = np.zeros((n_sequences, length), int)
    truth[:, 0] = rng.integers(0, 3, n_sequences)
    for n in range(1, length):
        stay = rng.random(n_sequences) < 0.5
        truth[:, n] = np.where(stay, truth[:, n - 1], rng.integers(0, 3, n_sequences))
    said = np.zeros((M, n_sequences, length), int)
    for m in range(M):
        for n in range(length):
            fresh = np.where(rng.random(n_sequences) < 0.65, truth[:, n], rng.integers(0, 3, n_sequences))
            again = (rng.random(n_sequences) < 0.6) & (n > 0)
            said[m, :, n] = np.where(again, said[m, :, n - 1], fresh)
    who, which, where = np.indices(said.shape).reshape(3, -1)
    frame = pd.DataFrame({"sequence": which, "position": where, "annotator": who, "label": said.ravel()})
    return SequenceAnnotations.from_frame(frame), truth.ravel()


def test_who_errs_in_runs_is_read_in_context() -> None:
    sequences, truth = errors_in_runs()
    plain = cs.aggregate(sequences, "ds-em+hmm+em")
    chosen = cs.aggregate(sequences)
    assert len(chosen.chains.chains) == 4  # type: ignore[attr-defined]
    assert "said before" in chosen.run["chosen"]
    wrong = [(run.choice.best != truth).mean() for run in (chosen, plain)]
    assert wrong[0] < wrong[1] - 0.02


def test_who_does_not_is_not() -> None:
    crowd = simulate_sequences(200, 30, 6, 3, stickiness=0.5, seed=8)
    chosen = cs.aggregate(crowd.annotations)
    assert len(chosen.chains.chains) == 1  # type: ignore[attr-defined]
    assert "truth alone" in chosen.run["chosen"]


@pytest.mark.filterwarnings("ignore:on your 240 known answers")
@pytest.mark.parametrize("method", ["ds-em+hmm+em", "auto"])
def test_gold_is_held(method: str) -> None:
    sequences, truth = errors_in_runs(1, n_sequences=60)
    gold = np.full(truth.size, -1)
    gold[::5] = (truth[::5] + 1) % 3  # wrong on purpose: it must still be held
    run = cs.aggregate(sequences, method, gold=gold)
    np.testing.assert_array_equal(run.choice.best[::5], gold[::5])
    np.testing.assert_allclose(run.posterior[::5].max(axis=1), 1.0)


def tagged(n_sequences: int = 150, seed: int = 0) -> tuple[SequenceAnnotations, Ints]:
    """Names in sentences, and annotators who confuse B with I often."""
    transitions = np.array([[0.1, 0.2, 0.3], [0.5, 0.4, 0.0], [0.4, 0.4, 0.7]])  # next from now: B-x, I-x, O
    confusion = np.array([[0.6, 0.4, 0.1], [0.3, 0.5, 0.1], [0.1, 0.1, 0.8]])
    crowd = simulate_sequences(
        n_sequences,
        15,
        4,
        3,
        transitions=transitions,
        start=np.array([0.4, 0.0, 0.6]),
        confusions=np.repeat(confusion[None], 4, axis=0),
        seed=seed,
    )
    frame = crowd.annotations.to_frame("pandas")
    frame["label"] = frame["label"].map({0: "B-x", 1: "I-x", 2: "O"})
    return SequenceAnnotations.from_frame(frame), crowd.truth


def broken(labels: Any, bounds: Ints) -> int:
    first = set(bounds[:-1].tolist())
    return sum(
        tag == "I-x" and (n in first or labels[n - 1] == "O") for n, tag in enumerate(np.asarray(labels).tolist())
    )


@pytest.mark.parametrize("method", ["ds-em+hmm", "ds-em+hmm+em", "auto"])
def test_tags_keep_their_rules_unless_told_otherwise(method: str) -> None:
    sequences, truth = tagged()
    held = SequenceConsensus(method=method).fit(sequences)
    assert broken(held.labels_, sequences.indptr) == 0
    assert held.model_.chains[0].transitions[1, 2] == 0.0
    free = SequenceConsensus(method="majority+hmm", valid=False).fit(sequences)
    assert broken(free.labels_, sequences.indptr) > 0
    assert (held.labels_ == held.classes_[truth]).mean() > 0.75


def test_averaged_chains_keep_the_rules_too() -> None:
    sequences, truth = errors_in_runs(2, n_sequences=80)
    frame = sequences.to_frame("pandas")
    frame["label"] = frame["label"].map({0: "B-x", 1: "I-x", 2: "O"})
    tags = SequenceAnnotations.from_frame(frame)
    run = cs.aggregate(tags)
    assert len(run.chains.chains) == 4  # type: ignore[attr-defined]
    assert broken(run.model.classes.to_numpy()[run.choice.best], tags.indptr) == 0
    anything = cs.aggregate(tags, valid=False)
    assert broken(anything.model.classes.to_numpy()[anything.choice.best], tags.indptr) > 0
    np.testing.assert_array_equal(anything.choice.best, anything.posterior.argmax(axis=1))
    assert forbidden(sequences) is None  # numbers are no tags
    assert truth.size == tags.n_tokens


def by_token(sequences: SequenceAnnotations, values: Floats) -> dict[tuple[Any, Any], Floats]:
    columns = list(sequences.token_columns().values())
    return dict(zip(zip(*(c.to_pylist() for c in columns), strict=True), values, strict=True))


@pytest.mark.parametrize("method", ["ds-em+hmm+em", "auto"])
def test_the_order_of_rows_and_the_names_of_annotators_do_not_matter(method: str) -> None:
    sequences, _ = errors_in_runs(3, n_sequences=60)
    frame = sequences.to_frame("pandas")
    shuffled = frame.sample(frac=1.0, random_state=0)
    shuffled["annotator"] = shuffled["annotator"].map(lambda m: f"worker {9 - m}")
    other = SequenceAnnotations.from_frame(shuffled)
    one = by_token(sequences, cs.aggregate(sequences, method).posterior)
    two = by_token(other, cs.aggregate(other, method).posterior)
    assert one.keys() == two.keys()
    for token, row in one.items():
        np.testing.assert_allclose(row, two[token], atol=1e-6)


def test_renaming_classes_permutes_the_answer() -> None:
    sequences, _ = errors_in_runs(4, n_sequences=60)
    frame = sequences.to_frame("pandas")
    frame["label"] = frame["label"].map({0: 2, 1: 0, 2: 1})
    one = cs.aggregate(sequences, "auto").posterior
    two = cs.aggregate(SequenceAnnotations.from_frame(frame), "auto").posterior
    np.testing.assert_allclose(one, two[:, [2, 0, 1]], atol=1e-6)


def test_the_same_seed_gives_the_same_bytes() -> None:
    sequences, _ = errors_in_runs(5, n_sequences=40)
    one, two = (quietly(sequences, "tensor-admm+hmm+em", seed=3).posterior.tobytes() for _ in range(2))
    assert one == two


def test_new_sequences_are_labelled_by_what_was_learned() -> None:
    crowd = simulate_sequences(300, 20, 6, 3, stickiness=0.6, seed=9)
    half = np.arange(300) < 150
    model = SequenceConsensus(method="ds-em+hmm+em").fit(crowd.annotations.select_sequences(half))
    rest = crowd.annotations.select_sequences(~half)
    truth = crowd.truth[np.repeat(~half, crowd.annotations.lengths)]
    assert (model.predict(rest) == truth).mean() > 0.85
    np.testing.assert_allclose(model.predict_proba(rest).sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(model.sequences_), model.labels_)


def test_names_of_methods() -> None:
    assert split_name("auto") == ("auto", False, False)
    assert split_name("hmm+em") == ("auto", True, True)
    assert split_name("rob-symnmf+em+hmm") == ("rob-symnmf+em", True, False)
    with pytest.raises(ParameterError, match="not a method for sequences"):
        split_name("ds-em")
    with pytest.raises(ParameterError, match="there is no method 'nonsense'"):
        split_name("nonsense+hmm")


def test_parameters_are_checked() -> None:
    crowd = simulate_sequences(5, 5, 3, 2, seed=0).annotations
    with pytest.raises(ParameterError, match="smoothing must be"):
        fit_sequences(crowd, "ds-em+hmm+em", smoothing=-1.0)
    with pytest.raises(ParameterError, match="learns how much to smooth"):
        fit_sequences(crowd, "auto", smoothing=1.0)
    with pytest.raises(ParameterError, match="not both"):
        cs.aggregate(crowd, graph=[(0, 1)])
    with pytest.raises(ParameterError, match="no engine"):
        cs.aggregate(crowd, engine="moon")


def test_running_out_of_passes_is_said() -> None:
    crowd = simulate_sequences(20, 10, 4, 3, seed=1).annotations
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 passes"):
        run = cs.aggregate(crowd, "ds-em+hmm+em", max_iter=2, tol=1e-9)
    assert not run.run["converged"]


@pytest.mark.parametrize("method", ["auto", "majority+hmm", "ds-em+hmm+em"])
@pytest.mark.parametrize(
    "rows",
    [
        [(0, 0, "a", "x")],
        [(0, 0, "a", "x"), (0, 1, "a", "x"), (1, 0, "b", "x")],
        [(0, 0, "a", "x"), (0, 1, "a", "y"), (0, 2, "a", "x")],
        [(s, 0, m, "xy"[(s + (m == "c")) % 2]) for s in range(6) for m in "abc"],
        [(0, n, m, None if n == 1 else "xy"[n % 2]) for n in range(4) for m in "abc"],
    ],
    ids=["one label", "one class", "one annotator", "single tokens", "unlabelled token"],
)
def test_whatever_comes_gives_probabilities(method: str, rows: list[tuple[Any, ...]]) -> None:
    frame = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
        run = cs.aggregate(SequenceAnnotations.from_frame(frame), method)
    assert np.isfinite(run.posterior).all()
    np.testing.assert_allclose(run.posterior.sum(axis=1), 1.0)
    assert len(run.labels) == run.run["N"]


def test_single_tokens_are_said_to_have_no_order() -> None:
    rows = [(s, 0, m, "xy"[(s + (m == "c")) % 2]) for s in range(6) for m in "abc"]
    frame = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    with pytest.warns(FewLabelsWarning, match="transitions cannot be learned"):
        SequenceConsensus(method="majority+hmm").fit(frame)


def test_the_class_takes_what_the_function_takes() -> None:
    from consilience.validation import keywords

    # silence is a property of the data that the function takes
    assert {"method", "silence", *keywords(fit_sequences)} == set(SequenceConsensus().get_params())
    from sklearn.base import clone

    assert clone(SequenceConsensus(method="hmm", valid=False)).get_params()["valid"] is False


@pytest.mark.parametrize("annotators", ["a", "ab"])
def test_labels_that_nothing_checks_are_not_vouched_for_by_their_order(annotators: str) -> None:
    # a strict to and fro, which a chain would learn by heart; with two annotators, each labels its own sequences
    rows = [(s, n, annotators[s % len(annotators)], "xy"[(s + n) % 2]) for s in range(10) for n in range(5)]
    frame = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    with pytest.warns(FewLabelsWarning):
        run = cs.aggregate(SequenceAnnotations.from_frame(frame))
    np.testing.assert_allclose(run.posterior.max(axis=1), 0.8)  # as a label by itself
    assert run.labels["label"].tolist() == [row[3] for row in rows]
